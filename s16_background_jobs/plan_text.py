"""What a plan says: the one parser of task_plan.md, for every hook.

Markdown has no schema, so people and models write a status in many ways. A parser that knows one of them calls finished
work unfinished; one that counts words calls an example in a code block a phase. Each phase counts once here, and what
is in doubt is no status at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

LINE = 500  # characters of a line that are looked at: a status is a word
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
PHASE = re.compile(r"(?:\[[ xX]\])?\W*phase\b", re.IGNORECASE)
STATUS = re.compile(r"[\s*_+>-]*status[*_]*\s*:(.*)", re.IGNORECASE)
BOX = re.compile(r"\s*[-*+]\s+\[([ xX])\]")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
DATE = r"\d{4}-\d\d-\d\d"
DETAIL = re.compile(rf"[(\[{{,;.:|<!?—–]|\s-\s|\s{DATE}")
WORDS = {
    **dict.fromkeys(("pending", "todo", "not started", ""), "pending"),
    **dict.fromkeys(("in progress", "started", "active"), "in_progress"),
    **dict.fromkeys(("complete", "completed", "done", "x"), "complete"),
}


@dataclass(frozen=True)
class Phase:
    """One phase: its heading, its status (pending, in_progress, complete; "" if it states none that is known)."""

    title: str
    status: str


def parse(text: str) -> tuple[Phase, ...]:
    """Return the phases, each once: those below the heading "Phases", or all if there is no such heading.

    A phase's status stands on a line of its own (``**Status:** complete``) or in its heading (``[complete]``). If it states
    none, it is in progress when some of its boxes are ticked and some are not. Ticks alone never complete a phase.
    """
    lines = list(visible(text))
    return phases_in(section(lines)) or phases_in(lines)


def section(lines: list[str]) -> list[str]:
    """Return the lines below the heading "Phases", up to the next heading like it."""
    depth, inside = 0, []
    for line in lines:
        heading = HEADING.match(line)
        if heading and not PHASE.match(heading[2]) and (not depth or len(heading[1]) <= depth):
            depth = len(heading[1]) if heading[2].strip(" #:").casefold() == "phases" else 0
        elif depth:
            inside.append(line)
    return inside


def phases_in(lines: list[str]) -> tuple[Phase, ...]:
    found: list[tuple[str, list[str], list[str]]] = []  # of each phase: its heading, its statuses, its boxes
    depth = 0  # of the phase that the line belongs to
    for line in lines:
        if heading := HEADING.match(line):
            if PHASE.match(heading[2]):
                depth = len(heading[1])
                found.append((heading[2].strip(" \t#"), [], []))
            elif len(heading[1]) <= depth:
                depth = 0
        elif depth and (status := STATUS.match(line)):
            found[-1][1].append(meaning(status[1]))
        elif depth and (box := BOX.match(line)):
            found[-1][2].append(box[1].strip())
    return tuple(Phase(title, status_of(title, statuses, boxes)) for title, statuses, boxes in found)


def status_of(title: str, statuses: list[str], boxes: list[str]) -> str:
    """Return the status: what the first status line says, else the heading, else what boxes tell."""
    inline = [meaning(text) for text in re.findall(r"\[([^\[\]]*)\]", title)]
    stated = [status for status in [*statuses[:1], *reversed(inline)] if status]
    some_but_not_all = any(boxes) and not all(boxes)
    return stated[0] if stated else "in_progress" if some_but_not_all else ""


def meaning(text: str) -> str:
    """Return the status that ``text`` states; "" if it is none that is known: "complete when tested" is not complete.

    Nor is "done, but the tests fail": a detail may take the word back, so beside "complete" only a date may stand.
    """
    text = text.strip("*_`~ \t")
    first = DETAIL.split(text, maxsplit=1)[0]
    status = WORDS.get(re.sub(r"[\W_]+", " ", first).strip().casefold(), "")
    is_in_doubt = status == "complete" and re.search(r"[^\W_]|[?|]", re.sub(DATE, "", text[len(first) :]))
    return "" if is_in_doubt else status


def visible(text: str) -> Iterator[str]:
    """Yield the lines outside of code fences and comments."""
    fence, comment = "", False
    for line in text.splitlines():
        mark = None if comment else FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        elif not fence:
            kept = ""
            while line:
                before, found, line = line.partition("-->" if comment else "<!--")
                kept += "" if comment else before
                comment = comment != bool(found)
            yield kept[:LINE]
