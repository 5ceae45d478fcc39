"""Deny, ask or allow: decided by code, before anything runs.

A sentence in the prompt asks the model to be careful. A rule holds whether it is careful or not.

    read_file              the whole tool; mcp__server__* is every tool whose name begins like this
    bash(git status:*)     a command that begins with the words `git status`
    bash(npm test)         these words and no others; where the splitter is in doubt, exactly this text
    write_file(src/**)     a path in the workspace: `**` is any folders, `*` and `?` stay within one name
    read_file(.env)        without a slash: this name in any folder

Deny goes before ask, ask before allow. Without a rule, a tool that only reads is allowed and the rest asks. Every part
of a shell command must be allowed, and what the splitter does not understand asks. If nobody can be asked, that is no.

This is no sandbox. It judges what a call says, not what a program then does: `npm test` runs whatever the project says,
and a search through a folder may show lines of a file that must not be read by its name.
Such rules are known from Claude Code (https://docs.claude.com/en/docs/claude-code/iam).
"""

from __future__ import annotations

import json
import os
import re
import threading
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .files import resolve
from .shell_words import IN_SHORT
from .shell_words import Word
from .shell_words import calls
from .shell_words import read
from .shell_words import visible
from .shell_words import words_of_rule
from .shell_words import written
from .tools import Tool
from .tools import ToolError

if TYPE_CHECKING:
    from .agent import Agent

LONGEST = 100_000  # characters of a command: a little more and no system starts it, and no person reads it
SHOWN = 1_000  # characters that a question shows of an argument: nobody reads more before saying yes
NEVER_CUT = ("command", "path")  # what a call is judged by: shown first, and whole
YES, ALWAYS, NO = ("y", "yes"), ("a", "always"), ("n", "no", "")

DENIED = "Refused by the rule “deny {}”. Look for no way around it: do without, or tell the person why you need it."
ASKED = "the rule “ask {}” says so"
NOBODY = "Refused, because {}, and nobody can be asked. Use calls that are allowed, or report what is left to do."
SAID_NO = "The person said no. Do not try the same in another way: go on without it, or ask what they want instead."
SAID = "The person did not allow this call, and said: {}\nDo as they say."


@dataclass(frozen=True)
class Rules:
    """Rules as they are written."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


DEFAULT_RULES = Rules(
    allow=("bash(pwd)", "bash(ls:*)", "bash(git status:*)"),
    # Keys are for nobody to read, and what lies in .git can run as a program.
    deny=("read_file(.env)", "grep(.env)", "write_file(.env)", "edit_file(.env)")
    + ("write_file(.git)", "edit_file(.git)", "write_file(**/.git/**)", "edit_file(**/.git/**)"),
)


@dataclass(frozen=True)
class Rule:
    """A rule as it was understood: about certain words, about certain paths, or (with neither) about the whole tool."""

    text: str
    tool: str
    words: tuple[Word, ...] = ()
    only: bool = False  # these words and no others
    path: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Decision:
    """What happens to a call, and why; the reason of a refusal is what the model reads."""

    verdict: str  # allow, ask or deny
    reason: str
    always: tuple[Rule, ...] = ()  # what the answer "always" would allow from then on
    firm: bool = False  # a deny rule could not be checked, so a hook's allow is not enough


def install(agent: Agent, *, ask: Callable[[str], str] | None, rules: Rules = DEFAULT_RULES) -> None:
    """Put ``agent`` under ``rules``. ``ask(question)`` returns the person's answer; None where nobody can be asked.

    Raises ValueError that names a rule that cannot be meant, and says how to write it.
    """
    agent.permissions = Permissions(rules, ask, agent.tools)


class Permissions:
    """The rules, with those that the person added for this session, and the way to the person."""

    def __init__(self, rules: Rules, ask: Callable[[str], str] | None, tools: dict[str, Tool]) -> None:
        self.ask = ask
        self.rules = {
            kind: tuple(parse(text, kind, tools) for text in getattr(rules, kind)) for kind in ("deny", "ask", "allow")
        }
        self.one_question = threading.Lock()  # several agents may share this, each in its thread

    def check(self, agent: Agent, tool: Tool, call: dict[str, Any], minimum: str = "") -> Decision:
        """Decide about ``call``, whose arguments are checked, and ask the person if it comes to that: allow or deny.

        ``minimum`` is what hooks said: "allow" skips the question, never a deny rule; "ask" makes it one.
        """
        decision = self.judge(agent, tool, call, minimum)
        if decision.verdict != "ask":
            return decision
        with self.one_question:
            decision = self.judge(agent, tool, call, minimum)  # "always" may have settled it while this one waited
            return self.put(agent, tool, call, decision) if decision.verdict == "ask" else decision

    def decide(self, tool: Tool, call: dict[str, Any], workspace: Path) -> Decision:
        """Decide about ``call`` by the rules alone: allow, ask or deny."""
        deny, ask, allow = ([rule for rule in kind if fnmatchcase(tool.name, rule.tool)] for kind in self.rules.values())
        try:
            seen, needed, doubt = look(tool, call["input"], workspace)
        except ToolError as error:
            return Decision("deny", str(error))
        # "Always" adds to what is allowed, so it silences neither of these.
        for verdict, rules, reason in (("deny", deny, DENIED), ("ask", ask, ASKED)):
            for rule in rules:
                if catches(rule, seen):
                    return Decision(verdict, reason.format(rule.text))

        missing = [part for part in needed if not any(covers(rule, part) for rule in allow)]
        if doubt and not missing:
            return Decision("allow", "a rule allows exactly this text")
        unsure = [rule for rule in deny + ask if doubt or catches(rule, seen, maybe=True)]
        if not unsure and (not missing or tool.read_only or any(rule.tool == rule.text for rule in allow)):
            return Decision("allow", "the rules allow it")
        if tool.name != "bash":
            return Decision("ask", f"no rule allows this {tool.name}", (Rule(tool.name, tool.name),))
        firm = any(rule in deny for rule in unsure)
        if unsure and not doubt:
            return Decision("ask", f"the rule “{unsure[0].text}” may be meant for it", firm=firm)
        always = tuple(Rule(f"bash({written(part)})", "bash", part, only=True) for part in dict.fromkeys(missing))
        if doubt:
            return Decision("ask", f"its words do not tell what it does ({doubt})", always, firm)
        return Decision("ask", f"no rule allows `{written(missing[0])[:IN_SHORT]}`", always)

    def judge(self, agent: Agent, tool: Tool, call: dict[str, Any], minimum: str) -> Decision:
        """Decide about ``call`` by the rules and by what hooks said."""
        decision = self.decide(tool, call, agent.workspace)
        if decision.verdict == "allow" and minimum == "ask":
            return Decision("ask", "a hook wants a person to decide")
        if decision.verdict == "ask" and minimum == "allow" and not decision.firm:
            return Decision("allow", "a hook allows it")
        return decision if minimum != "deny" else Decision("deny", "Refused by a hook: do it another way.")

    def put(self, agent: Agent, tool: Tool, call: dict[str, Any], decision: Decision) -> Decision:
        """Put the question to the person. Only a clear yes is one; Ctrl-C goes through."""
        if self.ask is None:
            return Decision("deny", NOBODY.format(decision.reason))
        try:
            said = (self.ask(question(agent, tool, call["input"], decision)) or "").strip()
        except EOFError:
            said = ""
        if said.lower() in ALWAYS:
            self.rules["allow"] += decision.always
        if said.lower() in YES + ALWAYS:
            return Decision("allow", "the person allowed it")
        return Decision("deny", SAID_NO if said.lower() in NO else SAID.format(said))


def question(agent: Agent, tool: Tool, arguments: dict[str, Any], decision: Decision) -> str:
    """Return what the person reads. Nothing in a call can add a line to it, drive the terminal or stay unseen."""
    lines = [f"{visible(tool.name)} wants to run with:"]
    for name, value in sorted(arguments.items(), key=lambda argument: argument[0] not in NEVER_CUT):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown = text if name in NEVER_CUT else text[:SHOWN]
        mark = "" if shown.isprintable() else " (escaped)"
        more = f" … and {len(text) - len(shown)} characters more" if shown != text else ""
        if name == "path" and has_path(tool) and names_of(agent.workspace, text)[0] != text:
            more = f" (that is {visible(names_of(agent.workspace, text)[0])})"
        lines.append(f"    {visible(name)}{mark}: {visible(shown)}{more}")
    lines.append(f"Asked because {visible(decision.reason)}.")
    if decision.always:
        rules = visible(", ".join(rule.text for rule in decision.always))
        more = "" if tool.name == "bash" else ", with whatever arguments"
        lines.append(f"Always = allow for this session: {rules}{more}")
    choices = "y = yes, a = always, n = no" if decision.always else "y = yes, n = no"
    return "\n".join([*lines, f"{choices}, other words = no, and the model reads them: "])


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
