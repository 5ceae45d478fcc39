"""Kinds of subagents that somebody has written down: ``agents/<name>.md`` in the workspace.

Such a file is YAML between two lines ``---`` and then a text for the subagent's system prompt. It can take tools away and
name another model. It can grant nothing: what is not the parent's is an error, and so is every other fault in it. Whoever
wrote "only these tools" shall not find out later that a typing error gave them all. A file without front matter was
never meant for a kind: it is left out with a warning.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .paths import resolve
from .skill_files import FENCE
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
LATER = "mcp__"  # so begin the names of tools that come with their servers, when the agent is at work


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


def read_types(workspace: Path, folder: str) -> tuple[dict[str, AgentType], list[str]]:
    """Return the kinds in ``folder`` of ``workspace`` by name, and a warning for each file that is none.

    Raises WrongType that names the file and says what is wrong with it. Of the tools, see ``check_tools``.
    """
    try:
        root = resolve(workspace, folder)
        files = sorted(path for path in root.iterdir() if path.suffix == ".md" and path.name.lower() != README)
    except FileNotFoundError:
        return {}, []
    except NotADirectoryError:
        return {}, [f"{folder} is no folder: kinds of subagents are Markdown files in a folder of this name"]
    except (OSError, ToolError) as error:
        raise WrongType(f"{folder} cannot be read: {error}") from None
    types, warnings = {}, []
    for file in files:
        try:
            text = read_text(file, root, MAX_BYTES)
            if text.lstrip().startswith(FENCE):
                types[file.stem] = read_type(file.stem, text)
            else:
                warnings.append(f"{folder}/{one_line(file.name)} has no front matter: no kind of subagent")
        except (Fault, ValueError) as error:
            raise WrongType(f"{folder}/{one_line(file.name)} {error}.") from None
    return types, warnings


def check_tools(types: dict[str, AgentType], folder: str, tools: Collection[str]) -> None:
    """Raise WrongType for a kind that names a tool which is not among ``tools``, which are all there are.

    Tools of servers may come later: whether those are there is seen when the kind is used.
    """
    for kind in types.values():
        if unknown := [name for name in kind.tools or () if name not in tools and not name.startswith(LATER)]:
            about = f"which a subagent cannot have: there are {', '.join(tools)}"
            raise WrongType(f"{folder}/{kind.name}.md names the tool {unknown[0]!r}, {about}.")


def read_type(name: str, text: str) -> AgentType:
    """Return the kind that a file describes. Raises Fault or ValueError to put behind its name."""
    if not NAME.fullmatch(name):
        raise ValueError("must be named by letters, digits and single hyphens")
    front, text, _ = split(text)
    try:
        fields, twice = read_yaml(front)
    except ValueError as error:
        raise ValueError(f"has a front matter that is no YAML ({error})") from None
    if twice:
        raise ValueError(twice[0])
    if unknown := [key for key in fields if key not in KEYS]:
        raise ValueError(f"has the key {unknown[0]!r}, which is not known: there are {', '.join(KEYS)}")
    if fields.get("name", name) != name:
        raise ValueError(f"has the name {fields['name']!r}: it must be that of the file, {name!r}")
    for key in ("description", "model"):
        if not isinstance(fields.get(key, ""), str):
            raise ValueError(f"has a {key} that is no text")
    description = one_line(fields.get("description", ""))
    if not description:
        raise ValueError("has no description: say there what it is for")
    if not text:
        raise ValueError("has nothing below its front matter: say there how to do the work")
    tools, model = names_of(fields.get("tools")), one_line(fields.get("model", ""))
    return AgentType(name, description, tools, model, text)


def names_of(value: object) -> tuple[str, ...] | None:
    """Return the tools that a kind names, as a list or as text with commas; None if it says nothing of them."""
    if value is None:
        return None
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError("has tools that are no list of names")
    return tuple(each.strip() for each in listed)
