"""Deny, ask or allow: decided by code, before anything runs.

A sentence in the prompt asks the model to be careful. A rule holds whether it is careful or not.

Deny goes before ask, ask before allow. Without a rule, a tool that only reads is allowed and the rest asks. Every part
of a shell command must be allowed, and what the splitter does not understand asks. If nobody can be asked, that is no.

This is no sandbox. It judges what a call says, not what a program then does: `npm test` runs whatever the project says,
and a search through a folder may show lines of a file that must not be read by its name.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .rules import Rule
from .rules import Rules
from .rules import catches
from .rules import covers
from .rules import has_path
from .rules import look
from .rules import names_of
from .rules import parse
from .shell_words import IN_SHORT
from .shell_words import shows
from .shell_words import visible
from .shell_words import written
from .tools import Tool
from .tools import ToolError

if TYPE_CHECKING:
    from .agent import Agent

SHOWN = 1_000  # characters that a question shows of an argument: nobody reads more before saying yes
SHOWN_LINES = 15  # of these, so that the question itself stays on the screen
LONG_BLANK = re.compile(" {20,}")  # so many could push what follows into a line of its own, as if it were ours
NEVER_CUT = ("command", "path")  # what a call is judged by: shown first, and whole
YES, ALWAYS, NO = ("y", "yes"), ("a", "always"), ("n", "no", "")

DENIED = "Refused by the rule “deny {}”. Look for no way around it: do without, or tell the person why you need it."
ASKED = "the rule “ask {}” says so"
NOBODY = "Refused, because {}, and nobody can be asked. Use calls that are allowed, or report what is left to do."
SAID_NO = "The person said no. Do not try the same in another way: go on without it, or ask what they want instead."
SAID = "The person did not allow this call, and said: {}\nDo as they say."

DEFAULT_RULES = Rules(
    allow=("bash(pwd)", "bash(ls:*)", "bash(git status:*)"),
    # Keys are for nobody to read, and what lies in .git can run as a program.
    deny=("read_file(.env)", "grep(.env)", "write_file(.env)", "edit_file(.env)")
    + ("write_file(.git)", "edit_file(.git)", "write_file(**/.git/**)", "edit_file(**/.git/**)")
    # What the harness keeps it alone writes: who could change that could change what was said and allowed.
    + ("write_file(.harness)", "write_file(**/.harness/**)")
    + ("edit_file(.harness)", "edit_file(**/.harness/**)"),
)


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

    def check(self, agent: Agent, tool: Tool, call: dict[str, Any], minimum: str = "", why: str = "") -> Decision:
        """Decide about ``call``, whose arguments are checked, and ask the person if it comes to that: allow or deny.

        ``minimum`` is what hooks said, and ``why``: "allow" skips the question, never a deny rule; "ask" makes it one.
        """
        decision = self.judge(agent, tool, call, minimum, why)
        if decision.verdict != "ask":
            return decision
        with self.one_question:
            decision = self.judge(agent, tool, call, minimum, why)  # "always" may have settled it while this one waited
            return self.put(agent, tool, call, decision) if decision.verdict == "ask" else decision

    def decide(self, tool: Tool, call: dict[str, Any], workspace: Path) -> Decision:
        """Decide about ``call`` by the rules alone: allow, ask or deny."""
        deny, ask, allow = (self.rules_for(tool, kind) for kind in ("deny", "ask", "allow"))
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
        if not unsure and (not missing or tool.read_only or any(rule.is_whole_tool for rule in allow)):
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

    def rules_for(self, tool: Tool, kind: str) -> list[Rule]:
        """Return the deny, ask or allow rules that name ``tool``."""
        return [rule for rule in self.rules[kind] if fnmatchcase(tool.name, rule.tool)]

    def judge(self, agent: Agent, tool: Tool, call: dict[str, Any], minimum: str, why: str) -> Decision:
        """Decide about ``call`` by the rules and by what hooks said."""
        decision = self.decide(tool, call, agent.workspace)
        if decision.verdict == "allow" and minimum == "ask":
            return Decision("ask", f"a hook wants a person to decide: {why}" if why else "a hook wants a person to decide")
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
        shown = text if name in NEVER_CUT else "\n".join(text[:SHOWN].split("\n")[:SHOWN_LINES])
        mark = "" if shows(shown) else " (escaped)"
        more = f" … and {len(text) - len(shown)} characters more" if shown != text else ""
        if name == "path" and has_path(tool) and names_of(agent.workspace, text)[0] != text:
            more = f" (that is {visible(names_of(agent.workspace, text)[0])})"
        if "\n" in shown and name not in NEVER_CUT:  # a text is read in lines; what they begin with nobody can forge
            lines += [f"    {visible(name)}:", *(f"      | {visible(line)}".rstrip() for line in shown.split("\n"))]
            lines += [f"     {more}"] if more else []
        else:
            told = LONG_BLANK.sub(lambda blank: f" [{len(blank[0])} blanks] ", visible(shown))
            lines.append(f"    {visible(name)}{mark}: {told}{more}")
    lines.append(f"Asked because {visible(decision.reason)}.")
    if decision.always:
        rules = visible(", ".join(rule.text for rule in decision.always))
        more = "" if tool.name == "bash" else ", with whatever arguments"
        lines.append(f"Always = allow for this session: {rules}{more}")
    choices = "y = yes, a = always, n = no" if decision.always else "y = yes, n = no"
    return "\n".join([*lines, f"{choices}, other words = no, and the model reads them: "])
