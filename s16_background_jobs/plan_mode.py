"""Plan mode: look and think first, change nothing, and let a person decide when that ends.

Two layers. The soft one is a text: it tells the model what this phase is for. The hard one is a list of what is allowed:
other tools are not offered, and if the model calls one all the same, the call is refused where calls are run. A text can
be forgotten or talked round; a list that is only shown does not stop a model that remembers a tool.

A choice that is made while a run is going waits for the next request, so that the mode never changes in the middle of a
reply's calls. State, choice and boundary follow DeepSeek Harness; the list that is enforced, harness9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .hooks import BeforeModel
from .hooks import PreToolUse
from .read_only_commands import only_reads
from .todo import OPEN
from .todo import TodoStore
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

NOTE_ORDER = 10  # among the notes of a turn: what is allowed comes before what is suggested
CONSENT = "approve"  # the whole answer; "yes, but …" is no consent
QUESTION = "Carry out this plan? approve = yes, other words = no, and the model reads them, Enter = it shall wait: "
HEADING = re.compile(r"# .*\w")  # on one line: a heading without words names no plan

TEXTS = {
    "guidance": """Plan mode: find out what is needed and plan it, but change nothing yet. If the person words it as an order, plan the
order. Look with the tools that only read; ask only what looking cannot answer. The plan says what shall be reached, what
changes where, the edge cases, and how it will be tested. Write its steps with todo_write, all pending, and present it
with exit_plan_mode as the last call of a reply. Only the person's answer to that ends plan mode, agreement in a
conversation does not.""",
    "on": "Plan mode is on now, whatever was said before.",
    "off": "Plan mode is off now, whatever was said before: you may change things again, within the rules.",
    "approved": "The person approved the plan. What else this reply calls still runs in plan mode. From your next reply on, "
    "plan mode is over: carry the plan out.",
}
DESCRIPTION = """Present a plan to the person, who approves it or says what is missing. In plan mode this is the way out of
it; otherwise it fails. The steps must stand in the todo list before. Make it the last call of your reply."""
SCHEMA = {
    "type": "object",
    "properties": {"plan": {"type": "string", "description": "The whole plan in Markdown; begins with `# ` and a title"}},
    "required": ["plan"],
    "additionalProperties": False,
}
REFUSED = (
    "Refused: plan mode is on, and {}. Look with what only reads, write the steps with todo_write, and present the plan "
    "with exit_plan_mode; what changes things waits until the person approves."
)
NOT_IN_IT = "exit_plan_mode works in plan mode only, and that is off: go on with the work, or ask the person for plan mode."
LEAVING = "Plan mode ends with this reply already, so nobody is asked again: carry the plan out from your next reply on."
NO_HEADING = "The plan must be Markdown that begins with a line `# ` and a title in words: present it again like this."
NO_TODOS = "The todo list has no open item: write the plan's steps with todo_write, all pending, then present the plan again."
NOBODY = "Nobody can be asked here, so plan mode stays on. Report the plan, and say that the person can type /plan off."
NO_ANSWER = "The person gave no answer, so plan mode stays on. Stop here, and wait for what they say."
KEEP_PLANNING = "The person did not approve, and said: {}\nPlan mode stays on: keep planning, do as they say, then present it again."


def bash_only_reads(arguments: dict[str, Any]) -> str:
    return only_reads(arguments["command"])


LIMITED = {"bash": bash_only_reads}


def install(
    agent: Agent,
    *,
    store: TodoStore,
    ask: Callable[[str], str] | None,
    limited: Mapping[str, Callable[[dict[str, Any]], str]] = LIMITED,
    texts: Mapping[str, str] = TEXTS,
) -> PlanMode:
    """Give ``agent`` plan mode, the tool exit_plan_mode and the command /plan.

    ``store`` holds the todo list. ``ask(question)`` returns the person's answer; None where nobody can be asked.
    In plan mode there are the tools that say they are read-only, and those in ``limited``: by its name, a function of
    the arguments that returns "" or why not. ``texts`` are what the model is told. Raises ValueError for what cannot be meant.
    """
    for name, function in limited.items():
        if name not in agent.tools or not callable(function):
            raise ValueError(f"limited: {name!r} must be the name of a tool, with a function that judges its arguments.")
    if wrong := sorted(set(texts) ^ set(TEXTS)):
        raise ValueError(f"texts: {wrong[0]!r} is missing or not known: there must be {', '.join(TEXTS)}.")
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"texts: {name!r} must be a text, and not blank.")
    plan = PlanMode(agent, store, ask, dict(limited), dict(texts))
    add_tool(agent, Tool("exit_plan_mode", DESCRIPTION, SCHEMA, plan.exit_plan_mode, read_only=True))
    agent.on(BeforeModel, plan.before_model, last=True)
    agent.on(PreToolUse, plan.guard, last=True)  # judges what shall really run, when other hooks have had their say
    agent.command("plan", "plan first; with a text, plan that; `/plan off` ends it", plan.command)
    agent.restores["plan_mode"] = plan.restore
    return plan


class PlanMode:
    """The mode of one agent: what holds, what was chosen and waits, and what the model last heard."""

    def __init__(
        self,
        agent: Agent,
        store: TodoStore,
        ask: Callable[[str], str] | None,
        limited: dict[str, Callable[[dict[str, Any]], str]],
        texts: dict[str, str],
    ) -> None:
        self.agent = agent
        self.store = store
        self.ask = ask
        self.limited = limited
        self.texts = texts
        self.active = False  # what holds
        self.pending: bool | None = None  # a choice that waits for the next request
        self.told: bool | None = None  # the mode as the model last heard of it; None before the first request
        self.warned = False
        self.on_approval: list[Callable[[], None]] = []

    def choose(self, on: bool) -> str:
        """Choose plan mode, or choose to leave it. Returns what came of it.

        ``noop``: it is so, or was chosen already. ``queued``: from the next request on. ``cancelled``: a choice that
        waited is taken back, and nothing was changed. ``committed``: it is so from now on, since no run is going.
        """
        if on == (self.active if self.pending is None else self.pending):
            return "noop"
        self.warned = False
        if on == self.active:
            self.pending = None
            return "cancelled"
        self.pending = on
        return "committed" if not self.agent.running and self.commit() else "queued"

    def commit(self) -> bool:
        """Let the choice that waits take effect. Returns False if it could not be kept: then it goes on waiting."""
        on, self.pending = self.pending, None
        if on == self.active or on is None:
            return True
        if not self.agent.changed("plan_mode", {"active": on}):
            self.pending = on
            if not self.warned:
                self.show(f"plan mode stays {in_words(self.active)}: the change could not be kept, and is tried again")
            self.warned = True
            return False
        self.active = on
        self.show(f"plan mode is {in_words(on)}")
        return True

    def before_model(self, event: BeforeModel) -> None:
        """A request is about to go out, and nobody has ended the run: the one place where a run's mode changes."""
        if self.agent.halt:
            return
        self.commit()
        heard, self.told = self.told, self.active
        words = [] if heard is None or heard == self.active else [self.texts["on" if self.active else "off"]]
        words += [self.guidance()] if self.active and not heard else []
        if words:
            self.agent.history.note("plan_mode", "\n".join(words), order=NOTE_ORDER)
        if self.active:
            event.request["tools"] = [each for each in event.request["tools"] if self.is_offered(each["name"])]

    def guidance(self) -> str:
        """Return what the model has to know while plan mode is on, "" when it is off."""
        return self.texts["guidance"] if self.active else ""

    def is_offered(self, name: str) -> bool:
        """Whether the tool may be used in plan mode at all."""
        return name in self.limited or name in self.agent.tools and self.agent.tools[name].read_only

    def guard(self, event: PreToolUse) -> None:
        """The hard layer: whatever the model was shown or remembers, in plan mode nothing else runs."""
        if not self.active:
            return
        name = event.call["name"]
        why = f"{name} may change things" if not self.is_offered(name) else ""
        if not why and name in self.limited:
            why = self.limited[name](event.call["input"])
        if why:
            event.decide("deny", REFUSED.format(why))

    def exit_plan_mode(self, agent: Agent, plan: str) -> str:
        """The tool: show the plan, ask the person, and on "approve" leave plan mode with the next request.

        Raises ToolError in every other case; plan mode stays on then.
        """
        plan = plan.strip()
        if not self.active:
            raise ToolError(NOT_IN_IT)
        if self.pending is False:
            raise ToolError(LEAVING)
        if not HEADING.match(plan):
            raise ToolError(NO_HEADING)
        if not any(item.status in OPEN for item in self.store.items()):
            raise ToolError(NO_TODOS)
        if self.ask is None:
            raise ToolError(NOBODY)
        agent.show("plan", text="\n".join(f"    | {line}".rstrip() for line in plan.split("\n")))
        try:
            said = (self.ask(QUESTION) or "").strip()
        except EOFError:
            said = ""
        if said.casefold() != CONSENT:
            raise ToolError(KEEP_PLANNING.format(said) if said else NO_ANSWER)
        self.pending, self.warned = False, False
        self.told = False  # the result says it
        for listener in self.on_approval:
            listener()
        return self.texts["approved"]

    def command(self, rest: str) -> None:
        """``/plan``, ``/plan <what to plan>``, ``/plan off``."""
        on = rest.casefold() != "off"
        outcome = self.choose(on)
        if outcome != "committed":  # that was shown when it happened
            now = in_words(self.active)
            waits = f"plan mode is {now}, and {in_words(on)} from the next request on"
            self.show(waits if self.pending is not None else f"plan mode is {now}, as before")
        if on and rest:
            self.agent.enqueue(rest)

    def restore(self, value: dict[str, Any] | None) -> None:
        """Take back what ``agent.changed`` announced; None stands for never. The model is told anew, whatever it read."""
        self.active, self.pending = bool(value and value["active"]), None
        self.told = None if value is None else not self.active

    def show(self, text: str) -> None:
        self.agent.show("notice", text=f"  [{text}]")


def in_words(on: bool) -> str:
    return "on" if on else "off"
