"""Which programs are called at which moment: the section ``hooks`` of a settings file, as Claude Code's have it.

    {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh", "timeout": 10}]}]}

There, one wrong entry switches off all hooks of its file, and nobody is told. A guard that is not there looks like one
that has no objection. So here each of these mistakes stops the program at its start, with the place and the cure.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from .hook_names import OURS
from .hook_names import THEIRS
from .rules import Rule
from .rules import catches
from .rules import look
from .rules import parse as parse_rule
from .strict_json import Wrong
from .strict_json import name_of
from .strict_json import nearest
from .strict_json import need
from .strict_json import need_known
from .tools import ToolError

if TYPE_CHECKING:
    from .agent import Agent

TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
EVENTS = ("SessionStart", "UserPromptSubmit", *TOOL_EVENTS, "Stop", "PreCompact")
WITHOUT_MATCHER = ("UserPromptSubmit", "Stop")  # one that stands there all the same is passed over
# Events of that tool which do not happen here. Hooks for them harm nobody; the person is told.
ELSEWHERE = ("Notification", "PermissionRequest", "SessionEnd", "SubagentStart", "SubagentStop", "StopFailure", "Setup")
ELSEWHERE += ("CwdChanged", "FileChanged")
SOURCES = ("startup", "resume", "clear", "compact", "fork")
MATCHED = {"SessionStart": SOURCES, "PreCompact": ("manual", "auto")}

TIMEOUT = 600.0  # seconds, as there
TIMEOUTS = {"UserPromptSubmit": 30.0}  # the person waits
MAX_TIMEOUT = 86_400  # seconds: a day
IN_MILLISECONDS = 600  # seconds; whoever writes more has most likely meant milliseconds
# Other keys are let pass, as there; one that is nearly one of these is taken for a slip.
KEYS = ("type", "command", "args", "timeout", "if", "async", "asyncRewake", "shell", "statusMessage", "once")
SLIP = 0.8  # share of letters; `commandWindows` is somebody else's key, `timeout_ms` is none
PROJECT_DIR = r"\$\{CLAUDE_PROJECT_DIR\}|\$CLAUDE_PROJECT_DIR\b"
SCRIPTS = (".py", ".sh", ".js")
NAMES_ONLY = re.compile(r"[\w\-|, ]*", re.ASCII)


@dataclass(frozen=True)
class Hook:
    """One program to call. ``args`` None: ``command`` is a line for the shell, else a program with these arguments."""

    event: str
    command: str
    matcher: str = ""
    args: tuple[str, ...] | None = None
    timeout: float = TIMEOUT  # seconds
    condition: Rule | None = None
    shell: str = ""  # "bash", else that of the system
    in_background: bool = False

    @property
    def identity(self) -> tuple:
        """Equal ones run once, whatever their time limits."""
        return self.command, self.args, self.shell, self.condition

    def matches(self, names: tuple[str, ...]) -> bool:
        """Whether the hook is meant for what has one of these names; upper and lower case count."""
        if self.event in WITHOUT_MATCHER or self.matcher in ("", "*"):
            return True
        if NAMES_ONLY.fullmatch(self.matcher):
            return not {name.strip() for name in re.split(r"[|,]", self.matcher)}.isdisjoint(names)
        return any(re.search(self.matcher, name) for name in names)


def parse(value: Any, place: tuple = ()) -> tuple[list[Hook], list[str]]:
    """Return the hooks of a section ``hooks``, and what the person should be told of it. Raises Wrong.

    ``place`` is where the section stands in its file.
    """
    need(value, dict, place, "an object of events")
    hooks: list[Hook] = []
    told: list[str] = []
    need_known(value, [*EVENTS, *ELSEWHERE], place)
    for event, groups in value.items():
        need(groups, list, (*place, event), 'a list: [{"matcher": "…", "hooks": [{"type": "command", "command": "…"}]}]')
        if event in ELSEWHERE:
            told.append(f"hooks for {event} are never called here")
            continue
        for number, group in enumerate(groups):
            here = (*place, event, number)
            need(group, dict, here, "an object with a list hooks")
            if not isinstance(group.get("hooks"), list):
                raise Wrong(here, f'{name_of(here)} needs a list "hooks" around its commands: {{"matcher": "…", "hooks": […]}}.')
            matcher = matcher_of(group, event, here)
            told += lint(event, matcher)
            hooks += [
                parse_one(each, event, matcher, (*here, "hooks", n), told) for n, each in enumerate(group["hooks"])
            ]
    return hooks, told


def matcher_of(group: dict[str, Any], event: str, place: tuple) -> str:
    no_slips(group, ("matcher", "hooks"), place)
    matcher, place = group.get("matcher", ""), (*place, "matcher")
    need(matcher, str, place, "a text, or left out")
    try:
        re.compile(matcher if not NAMES_ONLY.fullmatch(matcher) and matcher != "*" else "")
    except re.error as error:
        said = f"{name_of(place)} {matcher!r} is no regular expression ({error})"
        raise Wrong(place, f"{said}, so it would match nothing: mend it.") from None
    return matcher


def parse_one(entry: Any, event: str, matcher: str, place: tuple, told: list[str]) -> Hook:
    need(entry, dict, place, 'an object such as {"type": "command", "command": "…"}')
    no_slips(entry, KEYS, place)
    kind = entry.get("type")
    if kind != "command":
        said = f"{kind!r} is not done here" if "type" in entry else "is missing"
        raise Wrong((*place, "type"), f'{name_of((*place, "type"))} {said}: write "command", or take the hook out.')
    wanted = {"command": (str, "a text"), "shell": (str, "a text"), "if": (str, "a rule such as Bash(git *)")}
    wanted |= {"async": (bool, "true or false"), "args": (list, "a list of texts")}
    for name, (type_, what) in wanted.items():
        if name in entry or name == "command":
            need(entry.get(name), type_, (*place, name), what)
    for number, argument in enumerate(entry.get("args", [])):
        need(argument, str, (*place, "args", number), "a text")
    timeout = entry.get("timeout", TIMEOUTS.get(event, TIMEOUT))
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    for key, is_wrong, cure in (
        ("command", not entry["command"].strip(), "is empty: write the command, or take the hook out"),
        ("command", "\0" in "".join([entry["command"], *entry.get("args", [])]), "holds a NUL character: take it out"),
        ("shell", entry.get("shell", "bash") != "bash", 'can only be "bash" here: rewrite the command, or take the hook out'),
        ("timeout", not is_number or not 0 < timeout <= MAX_TIMEOUT, f"must be a number of seconds, more than 0, up to {MAX_TIMEOUT:,}"),
    ):
        if is_wrong:
            raise Wrong((*place, key), f"{name_of((*place, key))} {cure}.")
    if timeout > IN_MILLISECONDS:
        told.append(f"{event}: a hook has {timeout:g} seconds; is that meant in milliseconds?")
    if entry.get("asyncRewake"):
        told.append(f"{event}: asyncRewake is not done here; the hook runs in the background, and nobody is woken")
    arguments = tuple(entry["args"]) if "args" in entry else None
    in_background = bool(entry.get("async") or entry.get("asyncRewake"))
    condition = condition_of(entry, event, place)
    return Hook(event, entry["command"], matcher, arguments, float(timeout), condition, entry.get("shell", ""), in_background)


def condition_of(entry: dict[str, Any], event: str, place: tuple) -> Rule | None:
    """Return the rule under ``if``: Bash(git *) is ours as bash(git:*)."""
    if "if" not in entry:
        return None
    place = (*place, "if")
    shape = re.fullmatch(r"([\w-]+\*?)(?:\((.+)\))?", entry["if"], re.DOTALL)
    if event not in TOOL_EVENTS or not shape:
        cure = "works for tools alone, elsewhere the hook would never run" if shape else "must be a rule such as Bash(git *)"
        raise Wrong(place, f"{name_of(place)} {cure}: change it, or take it out.")
    name, pattern = OURS.get(shape[1], shape[1]), shape[2]
    if name == "bash" and pattern:
        pattern = re.sub(r"(:| )\*$", ":*", pattern)
    try:
        return parse_rule(f"{name}({pattern})" if pattern and pattern != "*" else name, "deny", {})
    except ValueError as error:
        raise Wrong(place, f"{name_of(place)}: {error}") from None


def no_slips(entry: dict[str, Any], known: tuple[str, ...], place: tuple) -> None:
    """Raise Wrong for a key that is nearly one of ``known``: it would be passed over, and that is seldom meant."""
    for key in entry:
        near = nearest(key, known, SLIP)
        if near and key not in known:
            raise Wrong((*place, key), f"{key!r} is not known in {name_of(place)}: is {near!r} meant?")


def lint(event: str, matcher: str) -> list[str]:
    """Return what is strange about a matcher that is valid: names that nothing has are never matched."""
    if event in WITHOUT_MATCHER or matcher == "*" or not NAMES_ONLY.fullmatch(matcher):
        return []
    known = MATCHED.get(event, tuple(THEIRS.values()) + ("Agent", "WebFetch", "WebSearch", "MultiEdit", "NotebookEdit"))
    told = []
    for name in filter(None, (name.strip() for name in re.split(r"[|,]", matcher))):
        near = nearest(name, known) or nearest(OURS.get(name, THEIRS.get(name, "")), known)
        if name.startswith("mcp__") and name.count("__") < 2:
            told.append(f"{event}: the matcher {name!r} fits no tool; write {name}__.* for all of that server")
        elif name not in known and not name.startswith("mcp__") and near:
            told.append(f"{event}: the matcher {name!r} fits nothing there is; is {near!r} meant?")
    return told


def is_met(hook: Hook, agent: Agent, call: dict[str, Any]) -> bool:
    """Whether the rule under ``if`` is meant for a call; in doubt it is."""
    if hook.condition is None:
        return True
    if not fnmatchcase(call["name"], hook.condition.tool):
        return False
    try:
        parts, _, doubt = look(agent.tools[call["name"]], call["input"], agent.workspace)
    except ToolError:
        return True
    return bool(doubt) or catches(hook.condition, parts, maybe=True)


def missing(hook: Hook, folder: Path) -> str:
    """Return what is wrong with the command at first sight: a script that is not there never says no."""
    try:
        words = [hook.command, *hook.args] if hook.args is not None else shlex.split(hook.command)
    except ValueError:
        return ""
    words = [re.sub(PROJECT_DIR, lambda _: str(folder), word) for word in words]
    files = [word for word in words[:2] if word.endswith(SCRIPTS) or "/" in word and word == words[0]]
    for word in files:
        if not set(word) & set("$~*`=;&|()<>{}") and not (folder / word).exists() and not shutil.which(word):
            return f"{word} is not there, so this hook can give no verdict: put it there, or mend the command"
    return ""
