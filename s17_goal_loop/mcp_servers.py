"""MCP servers: other programs that offer tools over their standard input and output, and how they are kept running.

The official SDK speaks the protocol (https://modelcontextprotocol.io). It is asynchronous, and this harness is not, so one
daemon thread runs its event loop, and each server lives in one task there, from the handshake to the end. It may be slow,
die or write rubbish: whoever calls it gets a ServerError within the time limit, and nothing else is harmed.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import tempfile
import threading
import time
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import BinaryIO
from typing import Coroutine

from .mcp_config import Config
from .mcp_config import ServerError

POLL = 0.1  # seconds between two looks for Ctrl-C, which Windows delivers only between two waits
GRACE = 1  # second in which the SDK may notice that the time is up, and tell the server, before we give up ourselves
PING = 1  # second for a sign of life; who works on something else may not answer, and is alive
CLOSE = 8  # seconds for all servers to end: the SDK waits 2, asks them to, waits 2, and makes them
MAX_PAGES = 50  # of a list of tools: who sends more pages goes in a circle
TAIL = 1_000  # bytes of what a server wrote to its standard error: the last lines say why it ended
IN_SHORT = 200  # characters of an error of the SDK, which can fill pages
CLOSED = -32000  # the SDK's code for a connection that is gone; servers use it for trouble of their own, too
TIME_IS_UP = -32001  # its code for a request without an answer
INSTALL = 'python -m pip install "mcp>=2,<3"'
TIMEOUTS = (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError)  # three in Python 3.10, then one


@dataclass(eq=False)
class Server:
    """A server, and how it is: starting, ready, failed, ended."""

    name: str
    config: Config
    state: str = "starting"
    why: str = ""  # it is not ready
    said: str = ""  # in its own words: the end of its standard error
    tools: list[Any] = field(default_factory=list)  # as the SDK has them
    is_again: bool = False  # it was started again, and has answered nothing since
    client: Any = None
    task: asyncio.Task | None = None
    settled: threading.Event = field(default_factory=threading.Event)  # it is not starting (any more)
    gone: threading.Event = field(default_factory=threading.Event)  # nothing of it is left
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Have it ended, soon. In the loop's thread."""
        self.stop.set()
        if self.task and not self.settled.is_set():
            self.task.cancel()


class Servers:
    """The servers of one agent. What is here may be called from any thread; `hold` and below run in the loop's."""

    def __init__(self, workspace: Path, start_seconds: float, call_seconds: float) -> None:
        self.workspace, self.start_seconds, self.call_seconds = workspace, start_seconds, call_seconds
        self.all: dict[str, Server] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        self.locks: dict[str, threading.Lock] = {}  # of threads that miss a server, one starts it again
        self.is_closed = False

    def start(self, name: str, config: Config) -> Server:
        """Begin to start a server, and do not wait for it. One of that name that runs is ended."""
        if self.is_closed:
            raise ServerError("The MCP servers have been ended, since the program ends.")
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            self.thread = threading.Thread(target=self.loop.run_forever, name="mcp", daemon=True)
            self.thread.start()
            atexit.register(self.close)
        if before := self.all.get(name):
            self.loop.call_soon_threadsafe(before.end)
        self.locks.setdefault(name, threading.Lock())
        server = self.all[name] = Server(name, config)
        asyncio.run_coroutine_threadsafe(self.hold(server), self.loop)
        return server

    def call(self, name: str, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return the SDK's CallToolResult. Raises ServerError. On Ctrl-C the server is told to stop.

        A server that has ended is started again, once: if it ends before it has answered anything, only a person does.
        """
        server = self.ready(name)
        seconds = server.config.seconds or self.call_seconds
        try:
            result = self.wait(server.client.call_tool(tool, arguments, read_timeout_seconds=seconds), seconds + GRACE)
        except Exception as error:
            raise self.trouble(server, error, seconds) from None
        server.is_again = False
        return result

    def ready(self, name: str) -> Server:
        """Return the server when it can be called, started again if need be. Raises ServerError."""
        with self.locks[name]:
            server = self.all[name]
            self.settle(server, self.start_seconds + CLOSE)
            if server.state == "ready" and not self.is_alive(server) or server.state == "ended":
                if not server.is_again:
                    server = self.start(name, server.config)
                    server.is_again = True
                    self.settle(server, self.start_seconds + CLOSE)
        if server.state != "ready":
            cure = f"Do without it; the person can type /mcp start {name}."
            raise ServerError(f"The MCP server {name} is not running ({server.why}). {cure}", server.said)
        return server

    def trouble(self, server: Server, error: Exception, seconds: float) -> ServerError:
        """Return what went wrong with a call, in words."""
        code, look = getattr(error, "code", None), "Whether it did something is unknown: look before you try again."
        if code == TIME_IS_UP or isinstance(error, TIMEOUTS):
            return ServerError(f"The MCP server {server.name} did not answer within {seconds:g} seconds. {look}")
        if code in (None, CLOSED) and not self.is_alive(server):
            return ServerError(f"The MCP server {server.name} ended in the middle of the call. {look}", server.said)
        server.is_again = False
        if code is None:
            return ServerError(f"The MCP server {server.name} gave an answer that cannot be used. {look}", in_short(error))
        cure = "Look at its arguments, or do without it."
        return ServerError(f"The MCP server {server.name} refused the call ({code}). {cure}", str(error)[:TAIL])

    def settle(self, server: Server, seconds: float) -> bool:
        """Wait until a server is not starting any more, at most so long. Returns whether that is so."""
        end = time.monotonic() + seconds
        while not server.settled.is_set() and time.monotonic() < end:
            server.settled.wait(POLL)
        return server.settled.is_set()

    def is_alive(self, server: Server) -> bool:
        """Ask for a sign of life, and take down a server that has ended."""
        try:
            self.wait(server.client.session.send_ping(), PING)
        except Exception as error:
            if getattr(error, "code", None) != CLOSED:
                return True  # it has other work, or no answer to this: that is life
            self.loop.call_soon_threadsafe(server.end)
            server.gone.wait(CLOSE)  # its last words are read then
            return False
        return True

    def wait(self, coroutine: Coroutine, seconds: float) -> Any:
        """Have the loop run something, and wait for it. Raises what it raises."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, seconds), self.loop)
        try:
            while not concurrent.futures.wait([future], POLL).done:
                pass
            return future.result()
        finally:
            future.cancel()  # after Ctrl-C; for one that is done it does nothing

    def close(self) -> None:
        """End all servers, and the thread. What cannot be ended in time is left to the system."""
        loop, self.is_closed = self.loop, True
        if loop is None or loop.is_closed():
            return
        atexit.unregister(self.close)
        for server in self.all.values():
            loop.call_soon_threadsafe(server.end)
        end = time.monotonic() + CLOSE
        for server in self.all.values():
            server.gone.wait(max(0, end - time.monotonic()))
        loop.call_soon_threadsafe(loop.stop)
        self.thread.join(CLOSE)
        if not self.thread.is_alive():
            loop.close()

    async def hold(self, server: Server) -> None:
        """Keep one server from the handshake to the end, in this one task: the SDK wants it so."""
        server.task = asyncio.current_task()
        with tempfile.TemporaryFile() as log:
            try:
                import anthropic  # noqa: F401  (another thread imports it, too: two at once may trip over each other)
                from mcp import Client
                from mcp import StdioServerParameters
                from mcp.client.stdio import stdio_client

                for name in ("mcp", "client"):  # their loggers, which would print each line of rubbish with a traceback
                    if not logging.getLogger(name).handlers:
                        logging.getLogger(name).addHandler(logging.NullHandler())
                program = StdioServerParameters(
                    command=server.config.command,
                    args=list(server.config.args),
                    env=server.config.env,  # with the few variables that the SDK passes on; secrets are not among them
                    cwd=self.workspace,
                    encoding_error_handler="replace",  # else one wrong byte leaves the call hanging
                )
                transport = stdio_client(program, errlog=log)
                if not server.stop.is_set():
                    async with Client(transport, mode="legacy", read_timeout_seconds=self.start_seconds) as client:
                        server.tools = await all_tools(client)
                        server.client, server.state = client, "ready"
                        server.settled.set()
                        await server.stop.wait()
            except ImportError:
                server.why = f"the SDK is missing: {INSTALL}"
            except (Exception, asyncio.CancelledError) as error:
                server.why, server.said = words(first(error), self.start_seconds)
            finally:
                server.said = tail(log) or server.said
                server.state = "ended" if server.state == "ready" else "failed"
                server.why = server.why or "it has ended"
                server.settled.set()
                server.gone.set()


async def all_tools(client: Any) -> list[Any]:
    """Return all tools that a server lists. One without tools may say that it does not know the question."""
    found, cursor, seen = [], None, set()
    if client.server_capabilities.tools is None:
        return []
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        seen.add(cursor)
        cursor = page.next_cursor
        if cursor is None or cursor in seen:
            break
    return found


def first(error: BaseException) -> BaseException:
    """Return the first error inside nested groups of errors, which is how they come out of the SDK."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


def words(error: BaseException, seconds: float) -> tuple[str, str]:
    """Return why a server could not be started, in our words, and what there is of its own."""
    code = getattr(error, "code", None)
    if isinstance(error, asyncio.CancelledError):
        return "it was stopped", ""
    if isinstance(error, OSError) and error.strerror:
        return f"its command cannot be run: {error.strerror}", ""
    if code == TIME_IS_UP:
        return f"it did not answer within {seconds:g} seconds: does it speak MCP, and print nothing else?", ""
    if code == CLOSED:
        return "it ended as soon as it was started", ""
    return "what it answers is no MCP", in_short(error)


def tail(log: BinaryIO) -> str:
    """Return the last lines that a server wrote to its standard error."""
    log.seek(max(0, log.seek(0, 2) - TAIL))
    return log.read().decode("utf-8", "replace").strip()


def in_short(error: BaseException) -> str:
    """Return what an error says, without the pages of it that are for the authors of servers."""
    return " ".join(str(error).split())[:IN_SHORT] or type(error).__name__
