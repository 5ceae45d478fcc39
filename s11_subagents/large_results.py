"""The two cheap ways to make room: results of tools go into files.

Most of a long conversation is what tools have answered. A result that is too long never goes out: the model gets its
beginning, its end, and the path of a file that holds all of it. An old one that stands in the way is replaced by one
line that says how to get it back. Nothing is replaced before its file is written, and files are never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Iterator

from .history import Block
from .history import Message
from .paths import relative
from .paths import resolve
from .tools import ToolError

BYTES_PER_TOKEN = 4  # of English and code, the usual rule of thumb; only for what the API has not counted yet
PREVIEW_HEAD = 1_500  # characters shown of a long result: what was run, the first error
PREVIEW_TAIL = 500  # and of its end, where most programs say how it went
WORTH_A_FILE = 1_000  # bytes; the line that takes a result's place has some 150, and a file is one more thing

PREVIEW = """[{size:,} bytes, too long to send: the whole result is in {path}. Read the parts that you need with read_file \
(offset, limit), or search it with grep. It begins:]
{head}
[… and ends:]
{tail}"""
LINE = "[Taken out to make room: {size:,} bytes, now in {path}. For how things are now, make the call again.]"


@dataclass
class Shelf:
    """The files of one agent below ``folder`` (relative to the workspace), and which result is in which."""

    workspace: Path
    folder: str
    paths: dict[str, str] = field(default_factory=dict)  # id of the call -> path, as the model can read it

    def keep(self, kind: str, name: str, data: bytes) -> str:
        """Write ``data`` into a new file ``<folder>/<kind>/<number>-<name>``. Returns its path in the workspace.

        Raises OSError if it cannot be written whole, and leaves nothing of it, or if the folder leads elsewhere.
        """
        try:
            place = resolve(self.workspace, f"{self.folder}/{kind}")
        except ToolError as error:
            raise OSError(str(error).rstrip(".")) from None
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), open(place.parent / ".gitignore", "x", encoding="utf-8") as file:
            file.write("*\n")
        number = len(os.listdir(place)) + 1
        while True:
            target = place / f"{number:04}-{name}"
            try:
                file = open(target, "xb")
                break
            except FileExistsError:
                number += 1
        try:
            with file:
                file.write(data)
        except BaseException:
            os.unlink(target)
            raise
        return relative(self.workspace, target)

    def put(self, call: Block, text: str) -> str:
        """Write the result of ``call`` into a file, once. Returns its path. Raises OSError."""
        if call["id"] not in self.paths:
            name = re.sub(r"\W", "_", call["name"])[:40]
            self.paths[call["id"]] = self.keep("results", f"{name}.txt", text.encode("utf-8", "replace"))
        return self.paths[call["id"]]

    def holds_what(self, call: Block) -> bool:
        """Whether ``call`` asks for something that is in these files: to put that away again would be a circle."""
        return self.folder in json.dumps(call["input"])


def put_away(messages: list[Message], shelf: Shelf, largest: int, together: int) -> tuple[list[Message], str]:
    """Return the messages, in the last one previews in place of results that are too long, and what went wrong, or "".

    ``largest`` is how many tokens one result may have, ``together`` all of the message; the longest go first.
    """
    calls, blocks, trouble = calls_of(messages[-2:]), list(messages[-1]["content"]), ""
    found = [(estimate(block["content"]), place) for place, block in enumerate(blocks) if is_text_result(block)]
    total = sum(size for size, _ in found)
    for size, place in sorted(found, reverse=True):
        call = calls[blocks[place]["tool_use_id"]]
        if size <= largest and total <= together:
            break
        is_short = len(blocks[place]["content"]) <= 2 * (PREVIEW_HEAD + PREVIEW_TAIL)  # its preview would save little
        if is_short or call["id"] in shelf.paths or shelf.holds_what(call):
            continue
        try:
            text = preview(blocks[place]["content"], shelf.put(call, blocks[place]["content"]))
        except OSError as error:
            trouble = str(error)
            break
        blocks[place] = {**blocks[place], "content": text}
        total += estimate(text) - size
    return [*messages[:-1], {**messages[-1], "content": blocks}], trouble


def old_results(messages: list[Message]) -> Iterator[tuple[int, int, Block, Block]]:
    """Yield the results that are worth a file: number of the message, place in it, the call, the result."""
    calls = calls_of(messages)
    for number, message in enumerate(messages):
        for place, block in enumerate(message["content"]):
            if is_text_result(block) and size_of(block["content"]) >= WORTH_A_FILE:
                yield number, place, calls[block["tool_use_id"]], block


def gained(messages: list[Message]) -> int:
    """Return about how many tokens `lightened` would save."""
    return sum(estimate(block["content"]) - estimate(LINE) for *_, block in old_results(messages))


def lightened(messages: list[Message], shelf: Shelf) -> list[Message]:
    """Return the messages with one line in place of each result that is worth a file. Raises OSError."""
    messages = [{**message, "content": list(message["content"])} for message in messages]
    for number, place, call, block in list(old_results(messages)):
        line = LINE.format(size=size_of(block["content"]), path=shelf.put(call, block["content"]))
        messages[number]["content"][place] = {**block, "content": line}
    return messages


def calls_of(messages: list[Message]) -> dict[str, Block]:
    """Return the tool calls in these messages by their id."""
    return {block["id"]: block for message in messages for block in message["content"] if block["type"] == "tool_use"}


def is_text_result(block: Block) -> bool:
    return block["type"] == "tool_result" and isinstance(block.get("content"), str)


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def estimate(value: Any) -> int:
    """Return about how many tokens ``value`` has: a text, or anything that goes into a request."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return size_of(text) // BYTES_PER_TOKEN


def preview(text: str, path: str) -> str:
    return PREVIEW.format(size=size_of(text), path=path, head=text[:PREVIEW_HEAD], tail=text[-PREVIEW_TAIL:])
