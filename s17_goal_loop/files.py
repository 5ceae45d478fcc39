"""Three tools for files: read_file, write_file and edit_file.

A shell can do all this, but a command line does not tell which files it will touch. These tools name their file, so
a call can be judged before it runs. They stay inside the workspace, never leave half a file behind, and say what to
do next.
"""

from __future__ import annotations

import codecs
import io
import re
from bisect import bisect_left
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING
from typing import Iterator

from .paths import need_file
from .paths import relative
from .paths import replace
from .paths import resolve
from .paths import text_file
from .tools import Result
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

READ_CHARS = 40_000  # characters in one answer: some 10,000 tokens; most source files fit
LINE_BYTES = 2_000  # bytes shown of one line: generated files have lines of megabytes
EDIT_BYTES = 10_000_000  # size of a file that can be edited: it is held in memory, a few times over
CHUNK = 131_072  # bytes read at a time: a gigabyte without a line end takes a second
AROUND = 3  # lines shown before and after an edit
SNIPPET = 40  # lines shown of an edit: the model knows what it wrote
HINT_CHARS = 500  # of a text that is looked for once more without minding white space, which takes long
PLACES = 5  # line numbers named when a text is found too often

PATH = {"type": "string", "description": "Path of the file, relative to the workspace."}
READ = {
    "type": "object",
    "properties": {
        "path": PATH,
        "offset": {"type": "integer", "minimum": 1, "description": "First line to return; 1 if left out."},
        "limit": {"type": "integer", "minimum": 1, "description": "Lines to return; as many as fit if left out."},
    },
    "required": ["path"],
    "additionalProperties": False,
}
WRITE = {
    "type": "object",
    "properties": {"path": PATH, "content": {"type": "string", "description": "The whole text of the file."}},
    "required": ["path", "content"],
    "additionalProperties": False,
}
EDIT = {
    "type": "object",
    "properties": {
        "path": PATH,
        "old_text": {"type": "string", "description": "The text to replace, with enough around it to be unique."},
        "new_text": {"type": "string", "description": "The text to put there; empty to delete."},
    },
    "required": ["path", "old_text", "new_text"],
    "additionalProperties": False,
}


def install(agent: Agent, *, read_chars: int = READ_CHARS, edit_bytes: int = EDIT_BYTES) -> None:
    """Give ``agent`` the tools read_file, write_file and edit_file, with these limits."""
    about_read = "Read a text file: its lines, each after its number and a tab. Says how to read on if it is long."
    about_write = "Write a whole file: create it and the folders it needs, or replace all that was in it."
    about_edit = "Replace the one place in a text file where old_text is. Copy it from read_file, without numbers."
    add_tool(agent, Tool("read_file", about_read, READ, partial(read_file, chars=read_chars), read_only=True))
    add_tool(agent, Tool("write_file", about_write, WRITE, write_file))
    add_tool(agent, Tool("edit_file", about_edit, EDIT, partial(edit_file, max_bytes=edit_bytes)))


def read_file(agent: Agent, path: str, offset: int = 1, limit: int | None = None, *, chars: int = READ_CHARS) -> Result:
    """The tool: return the lines of a text file from ``offset`` (1 is the first) on, ``limit`` or as many as fit.

    Goes through the file line by line, so its size does not matter. Raises ToolError if it is no text file.
    """
    target, name = text_file(agent.workspace, path)
    rows: list[str] = []
    number = used = 0
    with open(target, "rb", buffering=CHUNK) as file:
        for number, (line, left_out) in enumerate(lines_of(file), 1):
            if number < offset:
                continue
            row = numbered(number, line, left_out)
            used += len(row) + 1
            if rows and (len(rows) == limit or used > chars):
                rows.append(f"[there is more: read on with offset={number}]")
                break
            rows.append(row)
    if not number:
        return Result(f"[{name} is empty]", {"path": name})
    if not rows:
        raise ToolError(f"{name} has {number} lines, none of them from {offset} on: give an offset up to {number}.")
    if any("\ufffd" in row for row in rows):
        rows.append("[\ufffd may stand for bytes that are no UTF-8: leave it out of old_text, edit_file keeps them]")
    return Result("\n".join(rows), {"path": name})


def write_file(agent: Agent, path: str, content: str) -> Result:
    """The tool: create or replace a file with exactly ``content``. Raises ToolError if something else is there."""
    target = resolve(agent.workspace, path)
    name = relative(agent.workspace, target)
    data = content.encode("utf-8")
    if there := target.exists():
        need_file(agent.workspace, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    replace(target, data)
    lines = content.count("\n") + (content[-1:] not in ("", "\n"))
    return Result(f"{name} {'replaced' if there else 'created'}: {lines} lines, {len(data)} bytes.", {"path": name})


def edit_file(agent: Agent, path: str, old_text: str, new_text: str, *, max_bytes: int = EDIT_BYTES) -> Result:
    """The tool: put ``new_text`` in the one place of a text file where ``old_text`` stands, and show it.

    Every other byte stays, be it text or not. A line end in either text stands for whatever the file has there.
    Raises ToolError if there is no such place, or more than one, or if it is no text file.
    """
    target, name = text_file(agent.workspace, path)
    old, new = old_text.replace("\r\n", "\n"), new_text.replace("\r\n", "\n")
    if not old:
        raise ToolError("old_text is empty: give the text to replace, or use write_file for a whole file.")
    if old == new:
        raise ToolError("old_text and new_text are the same (line ends do not count): there is nothing to change.")
    if target.stat().st_size > max_bytes:
        raise ToolError(f"{name} is too big for edit_file, which takes {max_bytes:,} bytes: use bash.")
    text = target.read_bytes().decode("utf-8", "surrogateescape")  # bytes that are no UTF-8 come back as they were
    start, end = find_once(name, text, old)
    data = (text[:start] + with_ends(new, text, start, end) + text[end:]).encode("utf-8", "surrogateescape")
    replace(target, data)
    line = text.count("\n", 0, start) + 1
    lines = enumerate(lines_of(io.BytesIO(data)), 1)
    around = islice(lines, max(0, line - 1 - AROUND), line + new.count("\n") + AROUND)
    shown = "\n".join(numbered(number, *found) for number, found in islice(around, SNIPPET))
    return Result(f"{name} edited at line {line}. There is now:\n{shown or '[an empty file]'}", {"path": name})


def find_once(name: str, text: str, old: str) -> tuple[int, int]:
    """Return where ``old`` starts and ends in ``text``. Raises ToolError unless there is exactly one place."""
    # A line end in old stands for either kind, so both are looked at with one kind; ends says where one was longer.
    ends = [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]
    plain = text.replace("\r\n", "\n")
    places = []
    while (start := plain.find(old, places[-1] + 1 if places else 0)) >= 0:
        places.append(start)
    if len(places) == 1:
        start, end = places[0], places[0] + len(old)
        return start + bisect_left(ends, start), end + bisect_left(ends, end)
    if places:
        lines = ", ".join(str(plain.count("\n", 0, start) + 1) for start in places[:PLACES])
        found = f"{len(places)} times, first in lines {lines}"
        raise ToolError(f"old_text is in {name} {found}: add what is around the place you mean.")
    words = r"\s+".join(map(re.escape, old.split())) if len(old) <= HINT_CHARS else ""
    close = re.search(words, plain) if words else None
    hint = f", but for white space it is in line {plain.count(chr(10), 0, close.start()) + 1}" if close else ""
    raise ToolError(f"old_text is not in {name}{hint}: read the file again and copy exactly, without line numbers.")


def with_ends(new: str, text: str, start: int, end: int) -> str:
    """Return ``new`` with the line ends of the text it replaces, one by one; further ones are like the last."""
    ends = re.findall("\r?\n", text[start:end])
    further = ends[-1:] or re.findall("\r?\n", text[end:])[:1] or re.findall("\r?\n", text)[:1] or ["\n"]
    lines = new.split("\n")
    ends += further * len(lines)
    return "".join(line + line_end for line, line_end in zip(lines[:-1], ends)) + lines[-1]


def lines_of(file: io.BufferedIOBase) -> Iterator[tuple[bytes, int]]:
    """Yield of each line its first LINE_BYTES, without the line end, and how many bytes more there are."""
    while piece := file.readline(LINE_BYTES + len(b"\r\n")):
        rest, left_out = piece, 0
        while not rest.endswith(b"\n") and (rest := file.readline(CHUNK)):
            left_out += len(rest.removesuffix(b"\n"))
        line = piece.removesuffix(b"\n").removesuffix(b"\r")
        yield line[:LINE_BYTES], left_out + len(line[LINE_BYTES:])


def numbered(number: int, line: bytes, left_out: int) -> str:
    """Return one line as the model sees it: its number, a tab, its text, and what was left out."""
    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(line, final=not left_out)  # no half characters
    cut = f" [line cut: {left_out:,} more bytes]" if left_out else ""
    return f"{number:>6}\t{text}{cut}".replace("\0", "\ufffd")
