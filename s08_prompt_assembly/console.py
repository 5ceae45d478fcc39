"""What the person sees: text as it streams in, and one or two quiet lines for each tool call."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from typing import Any
from typing import TextIO

WIDTH = 110  # characters of a tool line where no terminal says how wide it is; the rest is not shown
INDENT = 8  # what stands around a tool line
ERROR_WIDTH = 220  # characters of an error, which tells most in its first line
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Console:
    """Shows what happens. ``console.show`` is what an agent is given.

    With ``one_shot`` everything but the model's words goes to stderr, and the words go to stdout only where that is a
    terminal: of a reply that is followed by tool calls nobody knows yet whether it is the final one.
    """

    def __init__(self, one_shot: bool = False) -> None:
        self.side: TextIO = sys.stderr if one_shot else sys.stdout
        self.words: TextIO | None = sys.stdout if not one_shot or sys.stdout.isatty() else None
        self.held = ""
        self.at_line_start = True
        self.drawn = False
        columns = shutil.get_terminal_size().columns or WIDTH  # a terminal may have none
        self.width = max(40, columns - INDENT) if self.side.isatty() else WIDTH
        if os.name == "nt":
            os.system("")  # makes the Windows console understand colour

    def show(self, kind: str, **data: Any) -> None:
        """Show one thing. Kinds are text, thinking, tool_call, tool_result, notice, discard; any other is drawn as it is."""
        if kind == "text" and self.words is None:
            self.held += data["text"]
        elif kind == "text":
            self.write(self.words, data["text"])
        elif kind == "thinking":
            self.write(self.side, data["text"], dim=True)
        elif kind == "tool_call":
            self.line(f"  {data['call']['name']}  {decisive(data['call']['input'], self.width)}")
        elif kind == "tool_result":
            if not self.drawn:  # what a tool has drawn itself needs no second line
                shown = first_line(data["text"]) if data["is_error"] else in_short(data["text"], self.width)
                self.line(f"    {shown}", dim=True)
            self.drawn = False
        elif kind == "discard":
            self.line(f"  [thrown away, and asked again: {data['reason']}]", dim=True)
        else:
            self.line(data.get("text", ""))
            self.drawn = kind != "notice"

    def line(self, text: str, dim: bool = False) -> None:
        """Write ``text`` on lines of its own."""
        self.start_line()
        self.write(self.side, text + "\n", dim)

    def start_line(self) -> None:
        """Write what is held back, and go to the start of a line."""
        held, self.held = self.held, ""
        self.write(self.side, held)
        self.write(self.side, "" if self.at_line_start else "\n")

    def write(self, stream: TextIO, text: str, dim: bool = False) -> None:
        if not text:
            return
        text = harmless(text)
        if dim and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            text = DIM + text + PLAIN
        stream.write(text)
        stream.flush()
        self.at_line_start = text.removesuffix(PLAIN).endswith("\n")

    def ask(self, question: str, afresh: bool = False) -> str:
        """Return the line that the person types after ``question``. Raises EOFError when there is no more input.

        With ``afresh``, what was typed before the question was there is no answer to it.
        """
        self.start_line()
        if afresh:
            forget_typed()
        *above, last = question.split("\n")
        for line in above:
            self.line(line)
        if self.side is sys.stdout:
            try:
                return input(harmless(last))
            except (EOFError, KeyboardInterrupt):
                self.line("")  # the cursor stands behind the question
                raise
        self.write(self.side, last)  # input() would write to stdout, which is for the answer
        typed = sys.stdin.readline()
        if not typed:
            raise EOFError
        return typed.rstrip("\n")


def forget_typed() -> None:
    """Throw away what was typed at the terminal and not read yet."""
    try:
        import termios
    except ImportError:
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    try:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    except (termios.error, OSError, ValueError):
        pass  # no terminal, so nobody types


def decisive(arguments: dict[str, Any], width: int) -> str:
    """Return the argument that tells most, on one line: the command, the path, the pattern."""
    value = next(iter(arguments.values()), "")
    text = f"{len(value)} items" if isinstance(value, list) else str(value)
    return shortened(" ".join(text.split()), width)


def in_short(text: str, width: int) -> str:
    """Return the line of a result that tells most: the first, or before a mark such as [exit status 0] the last."""
    lines = [line for line in text.expandtabs(4).splitlines() if line.strip()] or [""]
    end = f"  {lines.pop()}" if lines[-1].startswith("[") and len(lines) > 1 else ""
    more = f"  (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return shortened(lines[-1 if end else 0].strip(), width - len(more + end)) + more + end


def first_line(text: str) -> str:
    return shortened((text.strip().splitlines() or [""])[0], ERROR_WIDTH)


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def harmless(text: str) -> str:
    """Return ``text`` without the control and format characters by which output could drive the terminal."""
    return "".join(char for char in text if char in "\n\t\u200c\u200d" or unicodedata.category(char) not in ("Cc", "Cf"))
