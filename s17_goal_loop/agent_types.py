"""Kinds of subagents that somebody has written down: ``agents/<name>.md`` in the workspace.

Such a file is YAML between two lines ``---`` and then a text for the subagent's system prompt. It can take tools away and
name another model. It can grant nothing: what is not the parent's is an error, and so is every other fault in it. Whoever
wrote "only these tools" shall not find out later that a typing error gave them all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .paths import resolve
from .skill_files import Fault
from .skill_files import NAME
from .skill_files import read_text
from .skill_files import read_yaml
from .skill_files import split
from .todo import one_line
from .tools import ToolError

MAX_BYTES = 50_000  # of a file: its text stands in each request of the subagent
KEYS = ("description", "tools", "model", "name")
README = "readme.md"  # may lie beside them


class WrongType(ValueError):
    """A file in the folder of kinds is not what it must be: which one, and why."""


@dataclass(frozen=True)
class AgentType:
    """A kind of subagent: what it is for, which tools it has (None: all), which model (""; the parent's), its text."""

    name: str
    description: str
    tools: tuple[str, ...] | None
    model: str
    text: str


def read_types(workspace: Path, folder: str, tools: Collection[str]) -> dict[str, AgentType]:
    """Return the kinds in ``folder`` of ``workspace`` by their name; ``tools`` are the names that there are for them.

    Raises WrongType that names the file and says what is wrong with it.
    """
    try:
        root = resolve(workspace, folder)
        files = sorted(path for path in root.iterdir() if path.suffix == ".md" and path.name.lower() != README)
    except FileNotFoundError:
        return {}
    except (OSError, ToolError) as error:
        raise WrongType(f"{folder} cannot be read: {error}") from None
    types = {}
    for file in files:
        try:
            types[file.stem] = read_type(file, root, tools)
        except (Fault, ValueError) as error:
            raise WrongType(f"{folder}/{one_line(file.name)} {error}.") from None
    return types


def read_type(file: Path, root: Path, tools: Collection[str]) -> AgentType:
    """Return the kind that ``file`` describes. Raises Fault or ValueError whose words follow the file's name."""
    if not NAME.fullmatch(file.stem):
        raise ValueError("must be named by letters, digits and single hyphens")
    front, text, _ = split(read_text(file, root, MAX_BYTES))
    try:
        fields, twice = read_yaml(front)
    except ValueError as error:
        raise ValueError(f"has a front matter that is no YAML ({error})") from None
    if twice:
        raise ValueError(twice[0])
    if unknown := [key for key in fields if key not in KEYS]:
        raise ValueError(f"has the key {unknown[0]!r}, which is not known: there are {', '.join(KEYS)}")
    if fields.get("name", file.stem) != file.stem:
        raise ValueError(f"has the name {fields['name']!r}: it must be that of the file, {file.stem!r}")
    for key in ("description", "model"):
        if not isinstance(fields.get(key, ""), str):
            raise ValueError(f"has a {key} that is no text")
    description = one_line(fields.get("description", ""))
    if not description:
        raise ValueError("has no description: say there what it is for")
    if not text:
        raise ValueError("has nothing below its front matter: say there how to do the work")
    return AgentType(file.stem, description, names_of(fields.get("tools"), tools), one_line(fields.get("model", "")), text)


def names_of(value: object, tools: Collection[str]) -> tuple[str, ...] | None:
    """Return the tools that a kind names, as a list or as text with commas; None if it says nothing of them."""
    if value is None:
        return None
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError("has tools that are no list of names")
    names = tuple(each.strip() for each in listed)
    if unknown := [name for name in names if name not in tools]:
        raise ValueError(f"names the tool {unknown[0]!r}, which a subagent cannot have: there are {', '.join(tools)}")
    return names
