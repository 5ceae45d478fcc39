"""The bash tool: run a command in the workspace, and tell the model how it ended.

A command can print without end, run for ever, leave children behind, or print bytes that are no text.
Whatever it does, the model gets an answer of bounded size that ends with the exit status.
"""

from __future__ import annotations

import codecs
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Iterator

from .tools import Result
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

MAX_TIMEOUT = 3600  # seconds; what takes longer wants to be run in another way
TIMEOUT = 120  # seconds; long enough for a test suite, short enough to notice a hang
HEAD = 10_000  # characters kept from the start of long output: what was run, the first error
TAIL = 20_000  # characters kept from its end, where most programs say how it went
CHUNK = 65_536  # bytes read at a time
LINGER = 0.5  # seconds that output may still arrive after the command has ended
ROUNDS = 3  # times that what is to be ended is looked for: it may have started something meanwhile
LONGEST = 30_000 if os.name == "nt" else 120_000  # bytes of a command; systems take 32 and 128 KiB

BASH = {
    "name": "bash",
    "description": "Run a bash command in the workspace. Returns stdout and stderr together, then the exit status. "
    "Nothing can be typed into it. It is ended when its time limit is over.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line to run."},
            "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT, "description": f"Time limit in seconds; {TIMEOUT} if left out."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
}


def install(agent: Agent) -> None:
    """Give ``agent`` the tool bash."""
    add_tool(agent, Tool(BASH["name"], BASH["description"], BASH["input_schema"], bash))


def bash(agent: Agent, command: str, timeout: int = TIMEOUT) -> Result:
    """The tool: run ``command`` for at most ``timeout`` seconds. The exit status is a fact of the result."""
    try:
        finished = agent.shell.run(command, timeout)
    except OSError as error:
        raise ToolError(f"The command could not be started: {str(error).rstrip('.')}.") from None
    return Result(str(finished), {"command": command, "exit_status": finished.exit_status})


@dataclass(frozen=True)
class Finished:
    """A command that has ended: what it printed (head and tail), its exit status, and whether its time was up."""

    output: str
    exit_status: int
    timed_out: bool = False

    def __str__(self) -> str:
        if self.timed_out:
            end = "[the time was up: the command and all it had started were ended]"
        else:
            end = f"[exit status {self.exit_status}]"
        if not self.output or self.output.endswith("\n"):
            return self.output + end
        return f"{self.output}\n{end}"


class Shell:
    """Runs commands in one folder, and knows those that are running, so that they can be ended from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: set[subprocess.Popen] = set()
        self.stopped = False

    def run(self, command: str, timeout: float = TIMEOUT) -> Finished:
        """Run ``command`` for at most ``timeout`` seconds and return how it ended.

        Raises OSError when there is no bash, or the command cannot be started. A command that leaves a process in the
        background does not hold the call up. On Ctrl-C the command and all it started are ended first.
        """
        check(command)
        output = Output()
        process = None
        timed_out = threading.Event()
        timer = threading.Timer(timeout, lambda: (timed_out.set(), end_tree(process)))
        timer.daemon = True
        try:
            with signals_held():
                process = self.start(command)
                reader = threading.Thread(target=output.read, args=(process.stdout,), daemon=True)
                reader.start()
            timer.start()
            wait(process)
            timer.cancel()
            if timed_out.is_set():
                end_tree(process)
            reader.join(LINGER)
        except BaseException as error:
            if process:
                end_tree(process)
                process.wait()
            if isinstance(error.__context__, KeyboardInterrupt):  # it fell into a lock that was being let go
                raise KeyboardInterrupt from error
            raise
        finally:
            timer.cancel()
            self.running.discard(process)
        return Finished(output.text(), process.returncode, timed_out.is_set())

    def start(self, command: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [find_bash(), "-c", command],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self.running.add(process)
        if self.stopped:  # in the meantime: whoever stopped it could not see this one yet
            end_tree(process)
        return process

    def stop(self) -> None:
        """End every command that is running, with all it started. For good: what is run after that is ended at once."""
        self.stopped = True
        for process in list(self.running):
            end_tree(process)


class Output:
    """Keeps the head and the tail of a stream, whatever its length, and counts what lies between."""

    def __init__(self) -> None:
        self.head = ""
        self.tail: deque[str] = deque()
        self.tail_length = 0
        self.left_out = 0
        self.lock = threading.Lock()

    def read(self, stream) -> None:
        """Read ``stream`` to its end. Bytes that are no UTF-8 become replacement characters."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with stream:
            while chunk := os.read(stream.fileno(), CHUNK):
                self.keep(decoder.decode(chunk))
        self.keep(decoder.decode(b"", final=True))

    def keep(self, text: str) -> None:
        with self.lock:
            room = HEAD - len(self.head)
            self.head += text[:room]
            self.tail.append(text[room:])
            self.tail_length += len(text[room:])
            while self.tail_length - len(self.tail[0]) > TAIL:
                dropped = self.tail.popleft()
                self.tail_length -= len(dropped)
                self.left_out += len(dropped)

    def text(self) -> str:
        """Return what was kept, with a line in between that says how many characters are missing."""
        with self.lock:
            tail = "".join(self.tail)
            left_out = self.left_out + max(0, len(tail) - TAIL)
            return self.head + (f"\n[{left_out} characters left out]\n" if left_out else "") + tail[-TAIL:]


def check(command: str) -> None:
    """Raise OSError for a command that no shell can be given."""
    if "\0" in command:  # without it, it would be another command than the one that was looked at
        raise OSError("A command cannot hold a NUL character: print one with printf '\\0'.")
    if len(command.encode("utf-8", "replace")) > LONGEST:
        raise OSError(f"A command cannot be longer than {LONGEST} bytes: write its text to a file, part by part.")


def find_bash() -> str:
    """Return the path of bash. Raises OSError with the cure where there is none."""
    found = shutil.which("bash")
    if os.name == "nt":
        # The bash that Windows finds first belongs to WSL, another machine; Git brings the one we want.
        places = [folder / "bin" / "bash.exe" for folder in Path(shutil.which("git") or "").parents]
        found = next((str(place) for place in places if place.exists()), None)
        if not found:
            raise OSError("There is no bash: install Git for Windows, which brings one.")
    if not found:
        raise OSError("There is no bash on the PATH: install it.")
    return found


def environment() -> dict[str, str]:
    """Return the environment for commands: no API key in it, and ``python`` is the one that runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("ANTHROPIC_")}
    # A folder of plain files can pass for a git repository whose settings run programs; git shall look only in .git.
    number = kept.get("GIT_CONFIG_COUNT", "0")
    kept |= {"GIT_CONFIG_COUNT": str(int(number) + 1) if number.isdigit() else "1"}
    number = number if number.isdigit() else "0"
    kept |= {f"GIT_CONFIG_KEY_{number}": "safe.bareRepository", f"GIT_CONFIG_VALUE_{number}": "explicit"}
    kept["PATH"] = str(Path(sys.executable).parent) + os.pathsep + kept.get("PATH", "")
    return kept


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold Ctrl-C and the like back while a process is being started: in the middle of that nobody could end it."""
    came: list[int] = []
    kept = {}
    if threading.current_thread() is threading.main_thread():  # the only one that they interrupt
        kept = {number: signal.getsignal(number) for number in signal.valid_signals()}
    kept = {number: handler for number, handler in kept.items() if callable(handler)}
    try:
        for number in kept:
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def wait(process: subprocess.Popen) -> None:
    """Wait until ``process`` has ended. On Windows in slices, since a plain wait there ignores Ctrl-C."""
    while os.name == "nt":
        try:
            process.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def end_tree(process: subprocess.Popen) -> None:
    """End ``process`` and everything that it started, unless that has begun a session of its own."""
    if os.name == "nt":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        process.kill()
    for _ in range(ROUNDS):
        others = others_of_session(process.pid)  # some, such as timeout, leave the group
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if not others:
            break


def others_of_session(leader: int) -> list[int]:
    """Return the ids of the processes in the session that ``leader`` began. Only Linux tells."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        if session == str(leader) and state != "Z":
            found.append(int(stat.parent.name))
    return found
