"""The handle of a running server: it listens, keeps the records, and ends."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from dataclasses import field

from .accountant import Accountant
from .script import Run
from .script import Scenario

BACKLOG = 128  # connections that may wait: with the usual 5, forty parallel children wait up to a second
CLOSE_TIMEOUT = 5.0  # seconds to wait for the listening thread at the end; it needs milliseconds


@dataclass
class Record:
    """One POST and what became of it."""

    path: str
    headers: dict[str, str]  # names in lower case; keys are redacted
    body: dict | None = None  # None: not JSON
    status: int = 0  # 0: no answer was sent
    error: str = ""  # the message of a refusal
    usage: dict | None = None
    reply: dict | None = None  # the whole message, if there was one
    warnings: list[str] = field(default_factory=list)  # accepted, but better done otherwise
    started: float = 0.0  # seconds of a monotonic clock
    ended: float = 0.0


class Server:
    """A running offline model. Made by `offline_model.start()`; usable in a `with` statement."""

    def __init__(
        self,
        scenario: Scenario | None,
        *,
        port: int,
        pace: float,
        context_limit: int | None,
        cache_minimum: int | None,
        orphan_index: str,
        split_results: str,
    ) -> None:
        if orphan_index not in ("user", "assistant"):
            raise ValueError(f"orphan_index is 'user' or 'assistant', not {orphan_index!r}")
        if split_results not in ("merge", "refuse"):
            raise ValueError(f"split_results is 'merge' or 'refuse', not {split_results!r}")
        self.context_limit = context_limit or (scenario.context_limit if scenario else None)
        self.orphan_index = orphan_index
        self.split_results = split_results
        self.pace = pace
        self.cache_minimum = cache_minimum
        self.script = Run(scenario)
        self.accountant = Accountant()
        self.requests: list[Record] = []
        self._closed = False
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, name="offline-model", daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        """The person's typed lines of the lesson, in order."""
        return self.script.lines

    @property
    def problems(self) -> list[str]:
        """What went wrong on this side, in words: a script that ran short, a fault of the server itself."""
        return self.script.problems

    def answer(self, question: str) -> str | None:
        """The script's answer to a question of the harness ("y", "n", "a", or words), or None."""
        return self.script.answer(question)

    def leftover(self) -> list[str]:
        """Lines, steps and answers of the script that were not used, in words."""
        return self.script.leftover()

    def close(self) -> None:
        """Stop listening and end all connections. May be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            # accept() is only woken by a connection, on every system.
            socket.create_connection(self._listener.getsockname(), timeout=CLOSE_TIMEOUT).close()
        except OSError:
            pass
        self._thread.join(CLOSE_TIMEOUT)
        self._listener.close()
        with self._lock:
            open_now = list(self._connections)
        for connection in open_now:
            _hang_up(connection)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, path: str, headers: dict[str, str]) -> Record:
        """Begin the record of a POST."""
        entry = Record(path, headers, started=time.monotonic())
        with self._lock:
            self.requests.append(entry)
        return entry

    def keep_body(self, entry: Record, body: dict) -> None:
        """Put the parsed body into its record. Messages equal to an earlier request's are kept once, so that a long
        conversation does not fill the memory with copies of itself."""
        with self._lock:
            before = next((old.body for old in reversed(self.requests) if old is not entry and old.body), None)
        messages = body.get("messages")
        earlier = before.get("messages") if before else None
        if isinstance(messages, list) and isinstance(earlier, list):
            shared = [old if old == new else new for old, new in zip(earlier, messages)]
            body = {**body, "messages": shared + messages[len(shared) :]}
        entry.body = body

    def _listen(self) -> None:
        # Here and not above: the import takes 20 ms, and whoever starts the server need not wait for it. Clients that
        # connect meanwhile wait in the backlog.
        from .web import Handler

        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.01)  # out of file handles, say: try again
                continue
            if self._closed:
                connection.close()
                return
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._converse, args=(Handler, connection, address), daemon=True).start()

    def _converse(self, handler: type, connection: socket.socket, address: tuple) -> None:
        try:
            handler(connection, address, self)
        except (OSError, ValueError):
            pass  # the client went away, or the server was closed
        finally:
            with self._lock:
                self._connections.discard(connection)
            _hang_up(connection)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
