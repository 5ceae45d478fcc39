"""Settings: what a person, and a folder, want of the harness. Read once, at the start; what is wrong there stops it.

There are two files: the person's own, and `.harness/settings.json` in the workspace. How they go together:

- Rules of permission and hooks add up. Deny goes before allow, so nothing that the person denies can be allowed there.
- Of the permission mode the stricter one holds, and the sandbox is on when one of the two wants it.
- A server that both define is the person's: rules are about its name.
- Of everything else (models, limits, memory) the workspace's value holds.

Who sends a folder sends its settings, too. So what can run programs or allow something (hooks, servers, allow rules)
holds only when the person has trusted it: asked once for each folder, and again when any of it has changed, since the
model can write there. The scripts that a hook calls are not looked at. Where nobody can be asked, it is left out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from typing import Callable
from typing import Mapping

from . import hook_settings
from .hook_names import OURS
from .hook_settings import Hook
from .paths import replace
from .permissions import DEFAULT_RULES
from .permissions import LONG_BLANK
from .rules import Rules
from .rules import parse as parse_rule
from .shell_words import visible
from .strict_json import Document
from .strict_json import FileError
from .strict_json import Wrong
from .strict_json import nearest
from .strict_json import need
from .strict_json import need_known
from .strict_json import read
from .tools import Tool

NAME = ".harness/settings.json"
TRUSTED = "trusted.json"  # beside the person's own settings: what they have trusted, by folder
WORDS = {dict: "an object", str: "a text", bool: "true or false"}
KINDS = ("allow", "ask", "deny")
MODES = ("accept-edits", "default", "deny-asks", "plan")  # from the mildest on
# Least and most: what is outside is a slip, such as seconds, or a zero too many.
LIMITS = {
    "max_turns": (1, 10_000),  # model calls in a run
    "max_tokens": (1, 1_000_000),  # of a reply
    "max_forced": (0, 1_000),  # times that hooks make a run go on
    "context_window": (10_000, 10_000_000),  # tokens
}
# The file is the person's: the model's own tools for files shall not write it.
OWN_RULES = tuple(f"{tool}({NAME})" for tool in ("write_file", "edit_file"))

QUESTION = """{folder} brings settings that run programs or allow something:
{rows}
Programs have your rights. Trust this? You are asked again if a row changes, not if a script behind it does.
y = yes, anything else = leave it out: """
LEFT_OUT = "left out, since you have not trusted this folder: {}; start in a terminal that may ask, and answer y"


@dataclass(frozen=True)
class Settings:
    """What holds. Empty texts, and limits that are not there, are not set."""

    rules: Rules = DEFAULT_RULES
    mode: str = "default"  # one of MODES
    hooks: tuple[Hook, ...] = ()
    model: str = ""
    fallback_model: str = ""
    mcp_servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    sandbox: bool = False
    memory: bool = True
    trusted: bool = True  # whether what the workspace brings may run programs
    told: tuple[str, ...] = ()  # what the person should know, a line each
    documents: tuple[Document, ...] = ()

    def check_rules(self, tools: Mapping[str, Tool]) -> None:
        """Raise FileError, with its line, for the first rule that cannot be meant: when all tools are there."""
        for document in self.documents:
            for kind in KINDS:
                for number, text in enumerate(document.value.get("permissions", {}).get(kind, [])):
                    if wrong := wrong_rule(text, kind, tools):
                        raise document.error(Wrong(("permissions", kind, number), wrong))


def own_file() -> Path | None:
    """Return where the person's own settings are; None for a person without a home."""
    try:
        return Path.home() / NAME
    except RuntimeError:
        return None


def load(
    workspace: Path,
    *,
    own: Path | None,
    ask: Callable[[str], str] | None = None,
    also: Mapping[str, Any] = MappingProxyType({}),
) -> Settings:
    """Return the settings for ``workspace``: its own over those in the file ``own``. Raises FileError for a wrong file.

    ``ask(question)`` returns the person's answer; None where nobody can be asked. ``also`` is what else the workspace
    brings that needs trust, by the name of its file: it is asked for together.
    """
    place = workspace.resolve() / NAME
    mine = read_settings(own) if own else None
    theirs = read_settings(place) if not own or own.resolve() != place.resolve() else None
    person, folder = (document.value if document else {} for document in (mine, theirs))

    # Whatever is added to a settings file that can run programs or allow something belongs among these.
    claims = {"hooks": folder.get("hooks"), "mcp_servers": folder.get("mcp_servers")} | dict(also)
    claims["permissions.allow"] = folder.get("permissions", {}).get("allow")
    claims = {name: value for name, value in claims.items() if value}
    told: list[str] = []
    trusted = not claims or is_trusted(workspace.resolve(), claims, own.parent / TRUSTED if own else None, ask, told)
    if not trusted:
        told.append(LEFT_OUT.format(", ".join(name if name in also else f"{name} in {NAME}" for name in claims)))
        folder = {name: value for name, value in folder.items() if name not in claims}
        folder["permissions"] = {**folder.get("permissions", {}), "allow": []}

    mine_mode = person.get("permissions", {}).get("default_mode", "default")
    their_mode = folder.get("permissions", {}).get("default_mode", mine_mode)
    if MODES.index(their_mode) < MODES.index(mine_mode):
        told.append(f"default_mode {their_mode!r} of {NAME} does not hold: a folder can only be stricter than you")
    servers = [each.get("mcp_servers", {}) for each in (person, folder)]
    told += [f"the server {name!r} of {NAME} is left out: it is one of yours" for name in servers[1] if name in servers[0]]
    hooks: list[Hook] = []
    for each in (person, folder):
        found, strange = hook_settings.parse(each.get("hooks", {}))
        hooks += found
        told += strange
    return Settings(
        rules_of(person, folder),
        max(mine_mode, their_mode, key=MODES.index),
        tuple(hooks),
        folder.get("model", person.get("model", "")),
        folder.get("fallback_model", person.get("fallback_model", "")),
        {**servers[1], **servers[0]},
        {**person.get("limits", {}), **folder.get("limits", {})},
        person.get("sandbox", False) or folder.get("sandbox", False),
        folder.get("memory", person.get("memory", True)),
        trusted,
        tuple(told),
        tuple(document for document in (mine, theirs) if document),
    )


def rules_of(person: dict[str, Any], folder: dict[str, Any]) -> Rules:
    """Return all rules together, those that are built in first."""
    rules = {kind: [*getattr(DEFAULT_RULES, kind)] for kind in KINDS}
    rules["deny"] += OWN_RULES
    for kind in KINDS:
        rules[kind] += [rule for each in (person, folder) for rule in each.get("permissions", {}).get(kind, [])]
    return Rules(**{kind: tuple(dict.fromkeys(texts)) for kind, texts in rules.items()})


def read_settings(path: Path) -> Document | None:
    """Return one settings file, checked, None if there is none. Raises FileError."""
    document = read(path)
    if document:
        try:
            check(document.value)
        except Wrong as wrong:
            raise document.error(wrong) from None
    return document


def check(value: Any) -> None:
    """Raise Wrong unless ``value`` is what a settings file may hold."""
    need(value, dict, (), 'an object such as {"model": "…"}')
    kinds = {"permissions": dict, "hooks": dict, "mcp_servers": dict, "limits": dict, "model": str, "fallback_model": str}
    kinds |= {"sandbox": bool, "memory": bool}
    need_known(value, kinds, ())
    for name, given in value.items():
        need(given, kinds[name], (name,), WORDS[kinds[name]])
        if kinds[name] is str and not given.strip():
            raise Wrong((name,), f"{name} is empty: name a model, or leave it out.")
    check_permissions(value.get("permissions", {}))
    hook_settings.parse(value.get("hooks", {}), ("hooks",))
    for name, server in value.get("mcp_servers", {}).items():
        place = ("mcp_servers", name)
        need(server, dict, place, 'an object such as {"command": "…", "args": []}')
        need(server.get("command"), str, (*place, "command"), "a text, the program of the server")
    limits = value.get("limits", {})
    need_known(limits, LIMITS, ("limits",))
    for name, number in limits.items():
        least, most = LIMITS[name]
        need(number, int, ("limits", name), "a whole number")
        if not least <= number <= most:
            raise Wrong(("limits", name), f"limits.{name} must be from {least:,} to {most:,}.")


def check_permissions(permissions: dict[str, Any]) -> None:
    need_known(permissions, [*KINDS, "default_mode"], ("permissions",))
    for kind in KINDS:
        place = ("permissions", kind)
        need(permissions.get(kind, []), list, place, "a list of rules")
        for number, rule in enumerate(permissions.get(kind, [])):
            need(rule, str, (*place, number), "a rule such as bash(git status:*)")
    mode = permissions.get("default_mode", "default")
    if mode not in MODES:
        near = nearest(str(mode), MODES)
        cure = f"is {near!r} meant?" if near else f"there are {', '.join(MODES)}."
        raise Wrong(("permissions", "default_mode"), f"permissions.default_mode {mode!r} is not known: {cure}")


def wrong_rule(text: str, kind: str, tools: Mapping[str, Tool]) -> str:
    """Return why a rule cannot be meant, "" if it can."""
    name = text.partition("(")[0]
    if name.isidentifier() and name.lower() not in tools and not name.startswith("mcp__"):
        near = OURS.get(name) or nearest(name, tools)
        return f"The rule {text!r} names no tool: " + (f"is {near!r} meant?" if near else f"there are {', '.join(tools)}.")
    try:
        parse_rule(text, kind, dict(tools))
    except ValueError as error:
        return str(error)
    return ""


def is_trusted(
    workspace: Path, claims: dict[str, Any], store: Path | None, ask: Callable[[str], str] | None, told: list[str]
) -> bool:
    """Whether the person has trusted, now or before, what ``workspace`` claims. Remembered in the file ``store``."""
    fingerprint = hashlib.sha256(json.dumps(claims, sort_keys=True).encode("utf-8", "replace")).hexdigest()
    try:
        document = read(store) if store else None
        known = document.value if document and isinstance(document.value, dict) else {}
    except FileError as error:
        known, store = {}, None  # whoever mends it has it back, so it is not written over
        told.append(f"{error} Until then nothing in it counts: trust is asked for each time")
    if known.get(str(workspace)) == fingerprint:
        return True
    try:
        said = ask(question(workspace, claims)) if ask else ""
    except EOFError:
        return False
    if (said or "").strip().lower() not in ("y", "yes"):
        return False
    if store:
        try:
            store.parent.mkdir(parents=True, exist_ok=True)
            replace(store, json.dumps({**known, str(workspace): fingerprint}, indent=1).encode("utf-8"))
        except OSError as error:
            told.append(f"that you trust this folder could not be kept ({error.strerror}): you will be asked again")
    return True


def question(workspace: Path, claims: dict[str, Any]) -> str:
    """Return what the person reads: a row for each thing, in which nothing can forge another row."""
    rows = []
    for name, value in claims.items():
        parts = value.items() if isinstance(value, dict) else [("", each) for each in value]
        for key, part in parts:
            text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
            row = visible(f"  {name}{f' {key}' if key else ''}: {text}")
            rows.append(LONG_BLANK.sub(lambda blank: f" [{len(blank[0])} blanks] ", row))
    return QUESTION.format(folder=visible(str(workspace)), rows="\n".join(rows))
