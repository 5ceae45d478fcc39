"""The terminal that one keeps open all day: a console with a status line, long input, and a way to see the rest.

It is built on plain lines, so that it works in a pipe, in a log, on Windows and in a terminal that knows no colour. Where
Python has a line editor (readline), there are arrow keys, a history of this session's prompts, and Tab for commands.

A message of several lines: end a line with a backslash, and it goes on. Pasted text is one message: GNU readline is told
by the terminal where a paste begins and ends. Without that, what arrives within a moment after a line belongs to it.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable
from typing import Iterable

from .console import Console
from .console import decisive
from .console import harmless
from .console import shortened

if TYPE_CHECKING:
    from .agent import Agent

PROMPT, MORE_PROMPT = "> ", ". "
KEPT_RESULTS = 50  # that /more can show: some runs' worth; older ones scroll up on the screen, too
KEPT_CHARS = 200_000  # of one of them; more than that nobody reads here
PASTE_PAUSE = 0.05  # seconds: the lines of a paste follow each other within one, typed ones never do
ONCE_MORE = "Ctrl-C once more leaves."
HELP = "the whole result of the last tool call; /more 2: of the one before it; /more list: which there are"


@dataclass(frozen=True)
class Shown:
    """The result of a tool call as it can be shown again."""

    title: str
    text: str


class Terminal(Console):
    """Shows what happens in quiet lines, remembers what was behind them, and reads what the person types."""

    def __init__(self, one_shot: bool = False) -> None:
        super().__init__(one_shot)
        self.results: deque[Shown] = deque(maxlen=KEPT_RESULTS)
        self.status: Callable[[], str] = lambda: ""
        self.editor: Any = None  # Python's readline, where it is
        self.marks_pastes = False
        self.agent: Agent | None = None

    def serve(self, agent: Agent, status: Callable[[], str] = lambda: "") -> None:
        """Work for ``agent``: its commands can be completed, and /more shows what was cut. ``status()`` is the status line."""
        self.agent, self.status = agent, status
        agent.command("more", HELP, self.on_more)

    def show(self, kind: str, **data: Any) -> None:
        """Show one thing, as a Console does, and keep what a line of it leaves out."""
        if kind == "tool_result":
            call = data["call"]
            self.results.append(Shown(f"{call['name']}  {decisive(call['input'], self.width)}", data["text"][:KEPT_CHARS]))
        super().show(kind, **data)

    def on_more(self, rest: str) -> None:
        """/more, /more NUMBER, /more list: what the tools answered, the latest first."""
        latest = list(reversed(self.results))
        if rest == "list":
            rows = [f"  {n}  {each.title}  ({len(each.text.splitlines())} lines)" for n, each in enumerate(latest, 1)]
            return self.line("\n".join(rows or ["  [no tool has answered yet]"]))
        number = int(rest or 1) if rest.isdecimal() or not rest else 0
        if not 1 <= number <= len(latest):
            there = f"1 (the latest) to {len(latest)}" if latest else "none yet"
            return self.line(f"  [/more shows a result by its number: there are {there}]")
        self.line(f"  {latest[number - 1].title}")
        self.line("\n".join(f"    {line}" for line in latest[number - 1].text.splitlines()), dim=True)

    def tell_status(self) -> None:
        """Write the status line: what one wants to know before typing."""
        if text := self.status():
            self.line(shortened(text, self.width), dim=True)

    # What the person types

    def prepare(self) -> None:
        """Get the line editor ready, if there is one."""
        try:
            import readline
        except ImportError:
            return  # input() does without
        self.editor = readline
        is_gnu = "libedit" not in (readline.__doc__ or "") and getattr(readline, "backend", "readline") == "readline"
        with contextlib.suppress(AttributeError):
            readline.set_auto_history(False)  # answers to questions are no prompts
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete" if is_gnu else "bind ^I rl_complete")
        if is_gnu and os.environ.get("TERM") not in (None, "", "dumb"):
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python switches it off
            self.marks_pastes = knows_pastes(getattr(readline, "_READLINE_LIBRARY_VERSION", ""))

    def complete(self, begun: str, number: int) -> str | None:
        """Return the ``number``th command that begins with ``begun``; for readline, which asks until there is none."""
        if not begun.startswith("/") or self.editor.get_begidx() or self.agent is None:
            return None
        fitting = matches(begun, self.agent.commands)
        return fitting[number] if number < len(fitting) else None

    def read(self, ask: Callable[[str], str] | None = None) -> str:
        """Return the next message that the person types or pastes. Raises EOFError and KeyboardInterrupt.

        ``ask(prompt)`` reads its first line, if that is not read as all others.
        """
        text = self.read_lines(self.ask, ask or self.ask).strip()
        if text and self.editor:
            with contextlib.suppress(ValueError):  # characters that its encoding does not have
                self.editor.add_history(text)
        return text

    def read_lines(self, ask: Callable[[str], str], ask_first: Callable[[str], str]) -> str:
        line, text = ask_first(PROMPT), ""
        while True:
            if not self.marks_pastes and more_waits(PASTE_PAUSE):
                text += line + "\n"
                prompt = ""  # the terminal shows the rest by itself, as it was pasted
            elif goes_on(line):
                text += line[:-1] + "\n"
                prompt = MORE_PROMPT
            else:
                return text + line
            try:
                line = ask(prompt)
            except EOFError:
                return text  # what was typed so far counts


def goes_on(line: str) -> bool:
    """Whether a line ends in a backslash that says so; two are a backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def matches(begun: str, commands: Iterable[str]) -> list[str]:
    """Return the slash commands that begin with ``begun``, each with the blank that follows it."""
    return sorted(f"/{name} " for name in commands if f"/{name}".startswith(begun))


def knows_pastes(version: str) -> bool:
    """Whether a GNU readline of this version has bracketed paste."""
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= 7


def more_waits(pause: float) -> bool:
    """Whether more input is there within ``pause`` seconds."""
    try:
        if not sys.stdin.isatty():
            return False
        if os.name != "nt":
            return bool(select.select([sys.stdin], [], [], pause)[0])
        import msvcrt
    except (AttributeError, OSError, ValueError):
        return False  # no terminal
    time.sleep(pause)  # there, a key can be looked for, not waited for
    return bool(msvcrt.kbhit())
