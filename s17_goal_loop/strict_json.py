"""JSON that a person has written, read strictly: whatever is wrong in it is told with the file, the line and the cure.

The reader of the standard library takes a key that stands twice for one, and forgets on which line a value stood. Who
checks the values later wants to name that line.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Iterable

from .history import clean

MAX_BYTES = 100_000  # of a file; a person writes some thousand
DEPTH = 30  # levels; settings have six
ALIKE = 0.6  # share of letters from which on a wrong name is taken for a right one
BLANK = re.compile(r"[ \t\r\n]*")
SCALAR = '"-0123456789tfn'  # how texts, numbers and the three words begin

Place = tuple  # of the keys and indexes that lead to a value


class Wrong(ValueError):
    """What is wrong, and where in the value: keys and indexes."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(text)
        self.place = place


class FileError(ValueError):
    """A file that cannot be meant like this: one line with its path, the line, and the cure."""


@dataclass(frozen=True)
class Document:
    """What a file holds, and on which line each value stands."""

    path: Path
    value: Any
    lines: dict[Place, int]

    def error(self, wrong: Wrong) -> FileError:
        """Return ``wrong`` as an error that names the file and the line."""
        known = next(wrong.place[:n] for n in range(len(wrong.place), -1, -1) if wrong.place[:n] in self.lines)
        return FileError(f"{self.path}, line {self.lines[known]}: {wrong}")


def read(path: Path, max_bytes: int = MAX_BYTES) -> Document | None:
    """Return what the JSON file ``path`` holds, None if there is none. Raises FileError."""
    try:
        if not path.exists():
            return None
        if not path.is_file():
            raise FileError(f"{path}: this is no file: move it away, or put a JSON file there.")
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise FileError(f"{path}: longer than {max_bytes:,} bytes: take out what does not belong there.")
        text = data.decode("utf-8-sig")  # some editors put a mark in front
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}): make it a file that you may read.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FileError(f"{path}, line {line}: this is no UTF-8: save the file as UTF-8.") from None
    reader = Reader(text)
    try:
        value = reader.value((), DEPTH)
        if reader.next():
            reader.fail("something stands behind the end: take it out, or check the brackets before it")
    except Wrong as wrong:
        raise FileError(f"{path}, line {wrong.place[0]}: {wrong}.") from None
    return Document(path, clean(value), reader.lines)


class Reader:
    """Reads one text from its beginning on. Raises Wrong with the line as its place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Place, int] = {}
        self.decoder = json.JSONDecoder(parse_constant=self.no_number)

    def next(self) -> str:
        """Go to the next sign that is not blank, and return it, "" at the end."""
        self.at = BLANK.match(self.text, self.at).end()
        return self.text[self.at : self.at + 1]

    def value(self, place: Place, depth: int) -> Any:
        sign = self.next()
        self.lines.setdefault(place, self.line())
        if not depth:
            self.fail("nested deeper than anybody means: take brackets out")
        if sign == "{":
            return self.object(place, depth)
        if sign == "[":
            return self.array(place, depth)
        return self.scalar()

    def object(self, place: Place, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        while self.next() != "}":
            if self.next() != '"':
                self.fail('a name is missing: write it in double quotes, "name": value')
            at, name = self.at, self.scalar()
            if name in found:
                self.at = at
                self.fail(f"{name!r} stands there twice: keep one of them")
            self.lines[(*place, name)] = self.line()
            if self.next() != ":":
                self.fail(f'a colon is missing behind the name {name!r}: "name": value')
            self.at += 1
            found[name] = self.value((*place, name), depth - 1)
            self.separator("}")
        self.at += 1
        return found

    def array(self, place: Place, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while self.next() != "]":
            found.append(self.value((*place, len(found)), depth - 1))
            self.separator("]")
        self.at += 1
        return found

    def separator(self, end: str) -> None:
        sign = self.next()
        if sign == ",":
            self.at += 1
            if self.next() == end:
                self.fail(f"a comma stands before the {end}: take it out")
        elif sign != end:
            self.fail(f"a comma or a {end} is missing before this")

    def scalar(self) -> Any:
        at = self.at
        try:
            if not self.text.startswith(tuple(SCALAR), at):
                self.fail("a value is missing here: a text in double quotes, a number, true, false, null, [ or {")
            value, self.at = self.decoder.raw_decode(self.text, at)
        except Wrong:
            raise
        except ValueError:
            if self.text[at] == '"':
                self.fail('this text is not closed, or has a single \\ in it: end it with ", and write \\\\ for \\')
            self.fail("this is no value: write a text in double quotes")
        return value

    def no_number(self, name: str) -> None:
        raise ValueError(name)

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def fail(self, text: str) -> None:
        """Raise Wrong about the place that was reached; what stands there may tell more than ``text``."""
        rest = self.text[self.at : self.at + 2]
        if not self.text.strip():
            text = "it is empty: write {}, or remove it"
        elif not rest:
            text = "it ends in the middle: a bracket is not closed"
        elif rest in ("//", "/*") or rest[0] == "#":
            text = "JSON has no comments: take this one out"
        elif rest[0] == "'":
            text = "JSON has no single quotes: write double ones"
        raise Wrong((self.line(),), text)


def need(value: Any, kind: type, place: Place, what: str) -> None:
    """Raise Wrong unless ``value`` is of ``kind`` (True is no number); ``what`` says what is wanted."""
    if not isinstance(value, kind) or kind is not bool and isinstance(value, bool):
        raise Wrong(place, f"{name_of(place)} must be {what}.")


def need_known(names: Iterable[str], known: Iterable[str], place: Place) -> None:
    """Raise Wrong for the first of ``names`` that is not ``known``, with the nearest that is."""
    known = list(known)
    for name in names:
        if name not in known:
            near = nearest(name, known)
            cure = f"is {near!r} meant?" if near else f"there are {', '.join(known)}."
            raise Wrong((*place, name), f"{name!r} is not known{f' in {name_of(place)}' if place else ''}: {cure}")


def nearest(name: str, known: Iterable[str], share: float = ALIKE) -> str:
    """Return the one of ``known`` that is most like ``name``, "" if none is."""
    folded = {each.casefold(): each for each in known}
    return next((folded[each] for each in difflib.get_close_matches(name.casefold(), folded, 1, share)), "")


def name_of(place: Place) -> str:
    """Return a place in words: hooks.PreToolUse[0].matcher."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).lstrip(".") or "the file"
