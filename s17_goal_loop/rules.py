"""What a permission rule says, and what it is about.

    read_file              the whole tool; mcp__server__* is every tool whose name begins like this
    bash(git status:*)     a command that begins with the words `git status`
    bash(npm test)         these words and no others; where the splitter is in doubt, exactly this text
    write_file(src/**)     a path in the workspace: `**` is any folders, `*` and `?` stay within one name
    read_file(.env)        without a slash: this name in any folder

Such rules are known from Claude Code (https://docs.claude.com/en/docs/claude-code/iam).
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .paths import resolve
from .shell_words import Word
from .shell_words import calls
from .shell_words import read
from .shell_words import words_of_rule
from .tools import Tool
from .tools import ToolError

LONGEST = 100_000  # characters of a command: a little more and no system starts it, and no person reads it


@dataclass(frozen=True)
class Rules:
    """Rules as they are written."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule as it was understood: about certain words, about certain paths, or (with neither) about the whole tool."""

    text: str
    tool: str
    words: tuple[Word, ...] = ()
    only: bool = False  # these words and no others
    path: re.Pattern[str] | None = None

    @property
    def is_whole_tool(self) -> bool:
        """Whether it is about every call of the tool."""
        return not self.words and self.path is None


def parse(text: str, kind: str, tools: dict[str, Tool]) -> Rule:
    """Return a rule from its text; ``kind`` is deny, ask or allow. Raises ValueError that says how to write it."""
    try:
        shape = re.fullmatch(r"([A-Za-z][\w-]+\*?)(?:\((.*\S.*)\))?", str(text), re.ASCII | re.DOTALL)
        if not shape or not isinstance(text, str):
            raise ValueError("write a tool's name, or name(pattern) such as bash(git status:*) or write_file(src/**)")
        name, pattern = shape.groups()
        if name not in tools and name.lower() in tools:
            raise ValueError(f"the tool's name is {name.lower()}")
        without = name in tools and name != "bash" and not has_path(tools[name])
        if pattern and (without or name[-1] == "*" or name.startswith("mcp__")):
            raise ValueError(f"{name} has nothing to compare with a pattern: write {name} alone")
        if pattern and name == "bash":
            only = not pattern.endswith(":*")
            return Rule(text, name, words_of_rule(pattern.removesuffix(":*"), only, kind == "allow"), only)
        return Rule(text, name, path=path_pattern(pattern, kind) if pattern else None)
    except ValueError as error:
        raise ValueError(f"The rule {text!r} cannot be meant: {error}.") from None


def path_pattern(pattern: str, kind: str) -> re.Pattern[str]:
    names = pattern.split("/")
    if "\\" in pattern or pattern[0] == "~" or any(n in ("", ".", "..") or "**" in n and n != "**" for n in names):
        raise ValueError("write a path relative to the workspace, with / between the names, such as write_file(src/**)")
    whole = unicodedata.normalize("NFC", pattern if len(names) > 1 else f"**/{pattern}")
    wild = {"**/": "(?:.*/)?", "**": ".+", "*": "[^/]*", "?": "[^/]"}
    regex = "".join(wild.get(piece) or re.escape(piece) for piece in re.findall(r"\*\*/|\*\*|[*?]|[^*?]+", whole))
    # A disk that takes A and a for the same must not open what is denied; what is allowed stays as it is written.
    return re.compile(regex, re.DOTALL if kind == "allow" else re.DOTALL | re.IGNORECASE)


def look(tool: Tool, arguments: dict[str, Any], workspace: Path) -> tuple[list[tuple], list[tuple], str]:
    """Return the parts of a call that may be forbidden, those that must be allowed, and what is in doubt.

    A part is a simple command, or the names of a file. Raises ToolError if the call will be refused anyway.
    """
    if tool.name == "bash":
        if len(arguments["command"]) > LONGEST:
            raise ToolError(f"This command is longer than {LONGEST} characters: put it into a file, and run the file.")
        return read(arguments["command"])
    parts = [names_of(workspace, arguments.get("path", "."))] if has_path(tool) else [()]
    return parts, parts, ""


def names_of(workspace: Path, path: str) -> tuple[str, ...]:
    """Return a file's real name in the workspace, then its other names. Raises ToolError if it is not in there."""
    try:
        names = [resolve(workspace, path).relative_to(workspace).as_posix()]
    except ValueError:
        raise ToolError(f"{path!r} cannot be the name of a file: give a path inside the workspace.") from None
    as_written = Path(os.path.normpath(workspace / path))  # a link has a name of its own
    if as_written.is_relative_to(workspace):
        names.append(as_written.relative_to(workspace).as_posix())
    return (*names, *map(alike, names))


def alike(name: str) -> str:
    """Return the name that some systems take for the same: letters composed, no dots or blanks at the end, no `:x`."""
    return "/".join(p.split(":")[0].rstrip(". ") or p for p in unicodedata.normalize("NFC", name).split("/"))


def has_path(tool: Tool) -> bool:
    """Whether ``path`` is a file in the workspace; what a tool from elsewhere means by it nobody knows."""
    return "path" in tool.schema.get("properties", {}) and not tool.name.startswith("mcp__")


def catches(rule: Rule, parts: list[tuple], maybe: bool = False) -> bool:
    """Whether a deny or an ask rule is meant for one of the parts. A path that cannot be compared counts as caught."""
    if rule.words:
        return any(calls(part, rule.words, rule.only, maybe) for part in parts)
    return not rule.path or any(not names or any(map(rule.path.fullmatch, names)) for names in parts)


def covers(rule: Rule, part: tuple) -> bool:
    """Whether an allow rule with a pattern is enough for a part."""
    if rule.words:
        return rule.words == (part if rule.only else part[: len(rule.words)])
    return bool(rule.path and part and rule.path.fullmatch(part[0]))
