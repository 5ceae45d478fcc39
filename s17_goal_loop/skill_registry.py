"""Which skills there are: looks through a folder, often and cheaply, and keeps those that can be used.

The model names a skill, and the name is looked up in this table. It never becomes part of a path, so there is nothing
to climb out with. What cannot be used is left out with a warning that names the file; the program goes on.
"""

from __future__ import annotations

import difflib
import os
import threading
from pathlib import Path
from typing import Any

from .paths import relative
from .paths import resolve
from .skill_files import MANIFEST
from .skill_files import MAX_BYTES
from .skill_files import Fault
from .skill_files import Skill
from .skill_files import read_skill
from .skill_files import what_was_meant
from .todo import fold
from .todo import one_line
from .tools import ToolError

MAX_FOLDERS = 500  # looked at before each request, which takes some milliseconds
MAX_NAMES = 50  # named when a skill is not found
ALL = "?"  # who asks for this name wants to know what there is
MAX_SAID = 64  # characters of a name that does not exist, in an answer
NONE = "There are no skills: one would be a file {}/<name>/SKILL.md with a name, a description and a manual."


class Registry:
    """The skills in ``folder`` of ``workspace``, by folded name and in the order of their folders, and all warnings."""

    def __init__(self, workspace: Path, folder: str, max_bytes: int = MAX_BYTES, max_folders: int = MAX_FOLDERS) -> None:
        self.workspace, self.folder = workspace, folder
        self.max_bytes, self.max_folders = max_bytes, max_folders
        self.skills: dict[str, Skill] = {}
        self.warnings: list[str] = []
        self.read: dict[str, tuple[Any, Skill | None, list[str]]] = {}  # what was read, by the name in the folder
        self.lock = threading.Lock()

    def scan(self) -> None:
        """Look what skills there are. Only what has changed since is read again."""
        with self.lock:
            entries, warnings = self.look()
            for entry, state in entries.items():
                if entry.name not in self.read or self.read[entry.name][0] != state:
                    self.read[entry.name] = state, *self.judge(entry)
            self.read = {entry.name: self.read[entry.name] for entry in entries}
            skills: dict[str, Skill] = {}
            for _, skill, said in self.read.values():
                names = (fold(skill.declared), fold(skill.name)) if skill else ()
                if twin := next((skills[name] for name in names if name in skills), None):
                    shown, other = self.shown(skill.manifest), self.shown(twin.manifest)
                    warnings.append(f"{shown} repeats the name of {other}. It is left out.")
                    continue
                warnings += said
                if skill:
                    skills[fold(skill.name)] = skill
            self.skills, self.warnings = skills, warnings

    def look(self) -> tuple[dict[Path, Any], list[str]]:
        """Return the entries of the folder, by name, each with what changes when it does; and what is wrong at all."""
        try:
            root = resolve(self.workspace, self.folder)
            names = sorted(name for name in os.listdir(root) if name[0] != "." and name != "node_modules")
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            return {}, [f"{self.folder} cannot be listed ({error.strerror})."]
        except ToolError as error:
            return {}, [str(error)]
        more = len(names) - self.max_folders
        warnings = [f"{self.folder} holds {more} entries more than the {self.max_folders} that are looked at."] if more > 0 else []
        return {root / name: signature(root / name) for name in names[: self.max_folders]}, warnings

    def judge(self, entry: Path) -> tuple[Skill | None, list[str]]:
        """Return the skill in the folder ``entry``, if there is one, and what its author should know."""
        manifest = entry / MANIFEST
        if not os.path.lexists(manifest):
            meant = what_was_meant(entry)
            return None, [f"{self.shown(entry)} {meant}."] if meant else []
        shown = self.shown(manifest)
        try:
            skill = read_skill(manifest, entry.parent, self.max_bytes)
        except Fault as fault:
            return None, [f"{shown} {fault}. It is left out."]
        return skill, [f"{shown} {warning}." for warning in skill.warnings]

    def shown(self, path: Path) -> str:
        """Return ``path`` as it is shown: relative to the workspace, on one line."""
        return one_line(relative(self.workspace, path))

    def find(self, name: str) -> Skill:
        """Return the skill of that name; case does not count. Raises ToolError that says what there is."""
        if found := self.skills.get(fold(name)):
            return found
        names = [skill.name for skill in self.skills.values()]
        close = [self.skills[key].name for key in difflib.get_close_matches(fold(name)[:MAX_SAID], self.skills)]
        ordered = list(dict.fromkeys([*close, *names]))
        named = ordered if name.strip() == ALL else ordered[:MAX_NAMES]
        left = len(ordered) - len(named)
        more = f", and {left} more: the name {ALL} tells all" if left else ""
        there = f"There are: {', '.join(named)}{more}." if ordered else NONE.format(self.folder)
        why = [line for each, (_, _, said) in self.read.items() if fold(each) == fold(name) for line in said]
        raise ToolError(" ".join([f"There is no skill {name[:MAX_SAID]!r}.", *why, there]))


def signature(entry: Path) -> tuple[Any, ...]:
    """Return what changes when the manifest in ``entry`` does, or if there is none, ``entry`` itself."""
    for path in (entry / MANIFEST, entry):
        try:
            found = os.stat(path)
        except OSError:
            continue
        return path.name, found.st_mtime_ns, found.st_ctime_ns, found.st_size
    return ()
