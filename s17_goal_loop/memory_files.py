"""Memories on disk: one fact a file, in one folder, that several sessions and a person with an editor may change.

    ---
    name: build-command
    description: "How the project is built, and what must be installed for that"
    type: project
    ---
    `make all`; it needs node 20.

The files are the truth. The index beside them is made anew from them at every change, for people who look into the folder,
and nothing reads it. A file is replaced in one step, and changed only by who holds the lock and has seen what is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from contextlib import contextmanager
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Iterator

from .file_lock import locked
from .paths import replace
from .paths import resolve
from .skill_files import Fault
from .skill_files import read_front
from .skill_files import read_text
from .skill_files import split
from .todo import one_line
from .tools import ToolError

TYPES = ("user", "feedback", "project", "reference")  # who it is for is first in the index
NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*")
# Windows takes these for devices, and the last one for the index on a disk that does not tell A from a.
RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]|memory")
INDEX = "MEMORY.md"
TEXT_BYTES = 8_000  # of a fact: some pages; what is longer is a document, and belongs into the project
DESCRIPTION_CHARS = 200  # one line of the index
FILE_BYTES = TEXT_BYTES + 2_000  # with its front matter
MAX_FILES = 500  # looked at before every request; more facts than that nobody keeps right
LOCK_SECONDS = 5.0  # it is held for some milliseconds

NAME_RULE = "a name is up to 64 lower-case letters and digits, in words joined by -, such as build-command"
NO_FOLDER = "{} cannot be read ({}), so nothing is remembered: it must be a folder in the workspace that you may read."
UNTIL = "Until it is mended, it is left out."
GONE = "The memory {} is gone, somebody has forgotten it: write it anew only if it still holds."


@dataclass(frozen=True)
class Fact:
    """One memory. ``version`` is a fingerprint of its file."""

    name: str
    description: str
    type: str
    text: str
    version: str = ""


@dataclass
class MemoryFiles:
    """The memories in ``folder`` (relative to the workspace). A scan reads only the files that have changed."""

    workspace: Path
    folder: str
    facts: dict[str, Fact] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    cache: dict[str, tuple[tuple, Fact | str]] = field(default_factory=dict)  # file -> its stat, what was made of it

    def scan(self) -> dict[str, Fact]:
        """Look at all files. Returns the facts by their names; ``warnings`` are about those that are none. Never raises."""
        found: dict[str, Fact | str] = {}
        self.warnings, cache = [], {}
        try:
            place = resolve(self.workspace, self.folder)
            names = sorted(name for name in os.listdir(place) if name.endswith(".md") and name != INDEX and name[0] != ".")
        except FileNotFoundError:
            names = []
        except (ToolError, OSError) as error:
            why = getattr(error, "strerror", None) or error
            self.warnings.append(NO_FOLDER.format(self.folder, why))
            names = []
        for name in names[:MAX_FILES]:
            cache[name] = self.look(place / name)
            found[name] = cache[name][1]
        for name, why in found.items():
            if isinstance(why, str):
                self.warnings.append(f"{self.folder}/{one_line(name)} {why}. {UNTIL}")
        if len(names) > MAX_FILES:
            self.warnings.append(f"{self.folder} has {len(names)} memories: only the first {MAX_FILES} are used.")
        self.cache = cache
        self.facts = {fact.name: fact for fact in found.values() if isinstance(fact, Fact)}
        return self.facts

    def look(self, path: Path) -> tuple[tuple, Fact | str]:
        """Return the stat of a file, and what is in it: a fact, or why it is none."""
        try:
            seen = os.stat(path)
            stamp = (seen.st_mtime_ns, seen.st_size, seen.st_ino, os.path.realpath(path))
        except OSError as error:
            return (), f"cannot be read ({error.strerror})"
        before = self.cache.get(path.name)
        if before and before[0] == stamp and time.time_ns() - seen.st_mtime_ns > 2_000_000_000:  # some clocks tick slowly
            return before
        try:
            return stamp, read_fact(path, path.parent)
        except Fault as fault:
            return stamp, str(fault)

    def write(self, fact: Fact, seen: str) -> Fact:
        """Write a fact: a new one with ``seen`` "", else in the place of the version ``seen``. Returns it with its version.

        Raises ToolError if it stands there otherwise, if it cannot be a memory, or if the disk refuses.
        """
        with self.changing() as place:
            target = place / f"{need_name(fact.name)}.md"
            if os.path.lexists(target):
                self.need_version(target, seen)
            elif seen:
                raise ToolError(GONE.format(fact.name))
            elif len(os.listdir(place)) >= MAX_FILES:
                raise ToolError(f"There are {MAX_FILES} memories, and no more can be: forget or join some first.")
            replace(target, as_file(fact))
            self.rebuild_index(place)
        return self.facts[fact.name]

    def forget(self, name: str, seen: str) -> None:
        """Remove the memory ``name``, of which the version ``seen`` is known. Raises ToolError."""
        with self.changing() as place:
            target = place / f"{need_name(name)}.md"
            self.need_version(target, seen)
            os.unlink(target)
            self.rebuild_index(place)

    def need_version(self, target: Path, seen: str) -> None:
        try:
            now = read_fact(target, target.parent).version
        except Fault as fault:
            raise ToolError(f"{self.folder}/{target.name} {fault}: it is no memory, so leave it to the person.") from None
        if not seen:
            raise ToolError(f"There is a memory {target.stem} already: read it first, then correct it, or take another name.")
        if now != seen:
            raise ToolError(f"The memory {target.stem} has been changed since you read it: read it again first.")

    @contextmanager
    def changing(self) -> Iterator[Path]:
        """Hold the lock, and give the folder. Raises ToolError for what the disk refuses."""
        try:
            place = resolve(self.workspace, self.folder)
            place.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError), open(place / ".gitignore", "x", encoding="utf-8") as file:
                file.write("*\n")  # some are about a person: nobody publishes them by accident
            with locked(place / ".lock", LOCK_SECONDS):
                yield place
        except OSError as error:
            why = error.strerror or error
            raise ToolError(f"The memories cannot be changed ({why}). Tell the person if it stays so.") from None

    def rebuild_index(self, place: Path) -> None:
        """Write the index from the files. It is a convenience: what goes wrong here loses nothing."""
        rows = [f"- [{fact.name}]({fact.name}.md) ({fact.type}): {fact.description}" for fact in in_order(self.scan())]
        with suppress(OSError):
            replace(place / INDEX, "\n".join(["# Memories (made from the files beside it)", "", *rows, ""]).encode("utf-8"))


def read_fact(path: Path, root: Path) -> Fact:
    """Return the memory that a file below ``root`` holds. Raises Fault with a word why it is none, and nothing else."""
    if not is_name(path.stem):
        raise Fault(f"has a name that none can have: {NAME_RULE}")
    text = read_text(path, root, FILE_BYTES)
    front, body, _ = split(text)
    fields, _ = read_front(front)
    description, kind = fields.get("description", ""), fields.get("type", "")
    if fields.get("name", path.stem) != path.stem:
        raise Fault("has another name inside: name and file must be the same")
    if not isinstance(description, str) or not one_line(description):
        raise Fault("has no description: say there on one line what it is about")
    if kind not in TYPES:
        raise Fault(f"has no type that is known: there are {', '.join(TYPES)}")
    if not body.strip():
        raise Fault("says nothing below its front matter")
    version = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return Fact(path.stem, one_line(description)[:DESCRIPTION_CHARS], kind, body.strip(), version)


def as_file(fact: Fact) -> bytes:
    """Return the file of a fact. Raises ToolError if it cannot be one."""
    description, text = one_line(fact.description), fact.text.strip()
    if not description or len(description) > DESCRIPTION_CHARS:
        raise ToolError(f"The description must be one line of at most {DESCRIPTION_CHARS} characters: say what it is about.")
    if not text or "\0" in text or len(text.encode("utf-8", "replace")) > TEXT_BYTES:
        raise ToolError(f"The text must have 1 to {TEXT_BYTES:,} bytes: one fact; more belongs into a file of the project.")
    quoted = json.dumps(description, ensure_ascii=False)  # JSON is YAML
    head = f"---\nname: {fact.name}\ndescription: {quoted}\ntype: {fact.type}\n---\n\n"
    return (head + text + "\n").encode("utf-8", "replace")


def in_order(facts: dict[str, Fact]) -> list[Fact]:
    """Return facts in an order that does not change with the clock: by type, then by name."""
    return sorted(facts.values(), key=lambda fact: (TYPES.index(fact.type), fact.name))


def is_name(name: str) -> bool:
    return bool(NAME.fullmatch(name)) and not RESERVED.fullmatch(name)


def need_name(name: str) -> str:
    """Return ``name`` if it can be a memory's, and so a file's. Raises ToolError with the rule."""
    if not is_name(name):
        raise ToolError(f"{name[:80]!r} cannot be the name of a memory: {NAME_RULE}.")
    return name
