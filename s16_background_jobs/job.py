"""One job: a command that runs beside the conversation, what it has printed so far, and how it ended.

A command that is waited for ends with whoever waits for it. One that nobody waits for could go on for ever. So it has a
limit of time, what is kept of its output has one too, and it is tied to this program: by a pipe whose other end only
this program holds. When the program is gone, however it went, the pipe is closed, and a guard ends the whole group.
"""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from typing import Protocol

from .framing import frame
from .shell import LINGER
from .shell import Output
from .shell import Shell
from .shell import check
from .shell import end_tree
from .shell import find_bash

KEPT_HEAD = 10_000  # characters kept from the start of a job's output, as of any command
KEPT_TAIL = 1_000_000  # and from its end: of eight jobs that is little memory, and more than anybody reads
NEWS = 1_000  # characters of the end of its output that are told with a job's end
NAME = 60  # characters of a command where it stands for its job

# The guard heeds no signal that a job may send to its own group, is nobody's child whom a job could wait for, and keeps
# nothing of the job open but the pipe, so that the end of its output is seen. $0 is bash, $1 the command.
GUARD = """trap '' HUP INT QUIT TERM; read -r _ <&9
for stat in /proc/[0-9]*/stat; do
  pid=${stat#/proc/} pid=${pid%/stat}; read -r line <$stat; set -- ${line##*) }
  [ "$4" = $$ ] && [ $pid != $BASHPID ] && kill -9 $pid
done; kill -9 0"""
GUARDED = f'exec 9<&0 </dev/null; (({GUARD}) >/dev/null 2>&1 &); exec "$0" -c "$1" 9<&-'


@dataclass(frozen=True)
class Ended:
    """How a job ended, in words that go on after its name; the exit status if there is one to trust."""

    words: str
    exit_status: int | None = None


class Work(Protocol):
    """What can go on beside the conversation: a command, or whatever else prints and ends."""

    output: Output
    news: int | None  # characters of the end of the output that are told with its end; None: as many as of any

    def wait(self) -> Ended:
        """Return when it has ended, and how. Called once, in a thread of its own."""

    def stop(self) -> None:
        """End it, from any thread; ``wait`` returns then. Of what has ended nothing is left to do."""


@dataclass(eq=False)
class Job:
    """A job of the table, and who knows what of it. ``ended`` is None while it runs."""

    id: str
    command: str  # "" if it is no command, and has a title
    work: Work | None  # None: it was another program's
    ended: Ended | None = None
    was_told: bool = False  # the model was told of the end
    was_called: bool = False  # there was a run to tell it, or none is to be made
    read: int = 0  # characters
    title: str = ""

    @property
    def output(self) -> Output:
        return self.work.output if self.work else Output()

    def __str__(self) -> str:
        text = " ".join((self.command or self.title).split())
        return f"{self.id} ({text if len(text) <= NAME else text[: NAME - 1] + '…'})"


class Command:
    """A command that has begun. It implements Work.

    Raises OSError when there is no bash, or the command cannot be started. ``seconds`` is its limit of time.
    """

    news = None

    def __init__(self, shell: Shell, command: str, seconds: float) -> None:
        check(command)
        self.shell = shell
        self.seconds = seconds
        self.output = Output(KEPT_HEAD, KEPT_TAIL)
        self.was_stopped = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.process = shell.start(*guarded(command), stdin=subprocess.PIPE)
        self.reader.start()

    def read(self) -> None:
        self.output.read(self.process.stdout)

    def wait(self) -> Ended:
        """Return when the command has ended, and how. What it left running is ended too."""
        is_late = False
        try:
            self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            is_late = True
        end_tree(self.process)  # what it left running, and the guard
        self.process.wait()
        self.process.stdin.close()
        self.reader.join(LINGER)
        self.shell.running.discard(self.process)
        if self.was_stopped.is_set():
            return Ended("was stopped")
        if is_late:
            return Ended(f"was ended, since its time of {self.seconds} seconds was up")
        return Ended(f"has ended with exit status {self.process.returncode}", self.process.returncode)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.was_stopped.set()
            end_tree(self.process)


def guarded(command: str) -> tuple[str, ...]:
    """Return what bash is to run: ``command`` with a guard beside it, which ends both once its standard input is closed."""
    if os.name == "nt":
        return (command,)  # there are no process groups to be ended; the program itself ends the tree when it leaves
    return GUARDED, find_bash(), command


def piece(output: Output, offset: int, limit: int) -> tuple[str, int, int]:
    """Return at most ``limit`` characters of ``output`` from ``offset`` on, the offset behind them, and that of the end.

    Offsets count all that was ever printed. Where something was left out, a line says how much, and the piece goes on
    behind the gap.
    """
    with output.lock:
        head, tail, left_out = output.head, "".join(output.tail), output.left_out
    after_gap = len(head) + left_out
    end = after_gap + len(tail)
    if left_out and offset < len(head):
        text = head[offset : offset + limit]
        return text, offset + len(text), end
    if left_out and offset < after_gap:
        text = tail[:limit]
        return f"[{after_gap - offset} characters left out]\n{text}", after_gap + len(text), end
    text = (head + tail)[max(0, offset - left_out) :][:limit]
    return text, offset + len(text), end


def told(job: Job) -> str:
    """Return what the model is told of the end of ``job``. What it printed is data, and framed as that."""
    words = f"The background job {job} {job.ended.words}."
    if not job.work:
        return words
    text, end = end_of(job)
    printed = f"It printed {end} characters, job_output reads them." if end else "It printed nothing."
    return f"{words} {printed}" + (f" The end of it:\n{frame(f'output of {job.id}', text)}" if text else "")


def end_of(job: Job) -> tuple[str, int]:
    """Return the end of what ``job`` has printed, as much as is told of it, and how many characters there are in all."""
    limit = NEWS if job.work is None or job.work.news is None else job.work.news
    end = piece(job.output, 0, 0)[2]
    return piece(job.output, max(0, end - limit), limit)[0], end
