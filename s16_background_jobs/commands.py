"""The slash commands that belong to no single mechanism: what there is, what fills the window, what it cost, begin anew.

A mechanism brings its own command with it (/plan, /skill, /compact, /resume …). Here are the others. A command acts
through the agent, shows what came of it, and never raises for what a person can type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable
from typing import Mapping
from typing import Protocol

from .errors import ModelError
from .history import Message
from .history import text_block
from .hooks import SessionStart
from .large_results import estimate
from .model import Model
from .rules import Rule
from .summary import THOUGHTS
from .todo import Todo
from .todo import render
from .tools import ToolError
from .usage import OUT
from .usage import Meter
from .usage import Prices
from .usage import cached
from .usage import in_short
from .usage import rows
from .usage import sent

if TYPE_CHECKING:
    from .agent import Agent

BAR = 60  # cells of the bar of /context: fits beside its frame into the narrowest terminal that is common
NO_LISTS: Mapping[str, tuple[str, Callable[[], str]]] = {}
NO_PRICES: Prices = {}  # they change, and differ by contract: a wrong estimate is worse than none
NO_WORDS = "(thought, and said nothing)"  # a reply must not be empty where its thoughts are left out
MARK = "<system-reminder>"
MODES = {
    "default": "what no rule allows is asked",
    "plan": "nothing is changed until you have approved a plan",
    "accept-edits": "write_file and edit_file are allowed unless a rule says otherwise, the rest is asked",
    "deny-asks": "nobody is asked: what would be, is refused",
}
EDITS = ("write_file", "edit_file")
NO_OTHER = "The offline model is the only one here: set ANTHROPIC_API_KEY to choose among others."


class Sized(Protocol):
    """Who knows how long the conversation is, in tokens, and how long it may be."""

    window: int

    def size(self) -> int: ...


class System(Protocol):
    """Who puts the system prompt together: as names and texts, in two halves."""

    halves: tuple[list[tuple[str, str]], list[tuple[str, str]]]

    def look_up(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]: ...


class Todos(Protocol):
    def items(self) -> list[Todo]: ...


class Mode(Protocol):
    active: bool
    ask: Callable[[str], str] | None

    def choose(self, on: bool) -> str: ...


def install(
    agent: Agent,
    *,
    store: Todos,
    plan: Mode,
    system: System,
    room: Sized,
    meter: Meter,
    lists: Mapping[str, tuple[str, Callable[[], str]]] = NO_LISTS,
    prices: Prices = NO_PRICES,
) -> Desk:
    """Give the person the commands that are still missing. Install it after all others.

    ``lists`` are more commands that only show something: by name, one line of help and a function that returns the text.
    ``prices`` are for a million tokens, by model and kind of tokens as the API names them.
    """
    desk = Desk(agent, store, plan, system, room, meter, prices)
    agent.command("help", "this list", desk.help)
    agent.command("todo", "the todo list", lambda rest: desk.say(render(store.items())))
    agent.command("permissions", "the rules in force", desk.permissions)
    agent.command("cost", "tokens used, and how much of them came from the cache", desk.cost)
    agent.command("context", "what fills the model's window", desk.context)
    agent.command("clear", "begin a new conversation; plan mode, rules and files stay as they are", desk.clear)
    agent.command("model", "who answers; /model NAME: go on with another one", desk.model)
    for name, (help, text) in lists.items():
        agent.command(name, help, lambda rest, text=text: desk.try_to_show(text))
    if "skill" in agent.commands:
        agent.command("skills", "the same as /skill", agent.commands["skill"][1])
    agent.command("exit", "leave; Ctrl-D does it, too", lambda rest: None)  # whoever reads the lines leaves
    return desk


@dataclass
class Desk:
    """What the commands need to know, and the status line."""

    agent: Agent
    store: Todos
    plan: Mode
    system: System
    room: Sized
    meter: Meter
    prices: Prices
    mode: str = "default"  # one of MODES, as it was chosen; plan mode may have come and gone since

    def status(self) -> str:
        """Return the status line: model, mode, context used, tokens, cache share, todos."""
        items, used = self.store.items(), self.meter.total()
        done = sum(item.status == "completed" for item in items)
        parts = [
            self.agent.model.name,
            "plan mode" if self.plan.active else "" if self.mode in ("default", "plan") else self.mode,
            f"context {self.room.size() / self.room.window:.0%} of {in_short(self.room.window)}",
            f"{in_short(sent(used) + used[OUT])} tokens, {cached(used)}" if self.meter.requests else "",
            f"todo {done}/{len(items)}" if items else "",
        ]
        return " · ".join(part for part in parts if part)

    def choose(self, mode: str) -> str:
        """Let one of MODES hold from now on; "" changes nothing. Returns "", or why it cannot hold."""
        permissions = self.agent.permissions
        if mode == "plan" and self.plan.choose(True) == "queued":
            return "Plan mode could not be switched on: the session cannot keep it."
        if mode == "accept-edits":
            permissions.rules["allow"] = (*permissions.rules["allow"], *(Rule(name, name) for name in EDITS))
        if mode == "deny-asks":
            permissions.ask = self.plan.ask = None  # what a plan is approved by is a question, too
        self.mode = mode or self.mode
        return ""

    def help(self, rest: str) -> None:
        """/help: every command there is, in the order of the alphabet."""
        width = max(map(len, self.agent.commands))
        self.say("\n".join(f"  /{name:{width}}  {help}" for name, (help, _) in sorted(self.agent.commands.items())))

    def permissions(self, rest: str) -> None:
        """/permissions: the mode, and all rules, the strictest first."""
        permissions = self.agent.permissions
        lines = ["  plan mode is on: " + MODES["plan"]] if self.plan.active else []
        mode = "deny-asks" if not permissions.ask else "default" if self.mode == "plan" else self.mode
        lines += [f"  mode {mode}: {MODES[mode]}", "  deny goes before ask, and ask before allow; what only reads is allowed"]
        lines += [f"    {kind:5}  {rule.text}" for kind in ("deny", "ask", "allow") for rule in permissions.rules[kind]]
        self.say("\n".join(lines))

    def cost(self, rest: str) -> None:
        """/cost: since the program began, by model."""
        used = self.meter.total()
        head = f"  {self.meter.requests} requests since the start, {sent(used):,} tokens in, {cached(used)}, {used[OUT]:,} out"
        self.say("\n".join([head, *rows(self.meter.tokens, self.prices)]))

    def context(self, rest: str) -> None:
        """/context: a bar of the whole window, and a row for each part of what is in it."""
        parts = [(label, letter, estimate(value)) for label, letter, value in self.parts() if value]
        size, window = self.room.size(), self.room.window
        scale = size / max(1, sum(tokens for _, _, tokens in parts))  # the parts are estimates, their sum is counted
        parts = [(label, letter, tokens * scale) for label, letter, tokens in parts]
        lines = [f"  about {size:,} of {window:,} tokens, {size / window:.0%}", f"  [{bar(parts, window)}]"]
        for label, letter, tokens in [*parts, ("free", ".", max(0, window - size))]:
            lines.append(f"  {letter} {label:34} {tokens:>10,.0f}  {tokens / window:>4.0%}")
        self.say("\n".join(lines))

    def parts(self) -> list[tuple[str, str, Any]]:
        """Return what a request is made of: a label, its letter in the bar, and what counts."""
        halves = self.system.halves if self.agent.system else self.system.look_up()
        blocks = [(kind_of(message, block), block) for message in self.agent.history.messages for block in message["content"]]
        parts: list[tuple[str, str, Any]] = [(f"system: {name}", "s", text) for half in halves for name, text in half]
        parts.append((f"tools: {len(self.agent.tools)}", "t", [tool.definition() for tool in self.agent.tools.values()]))
        for kind, letter in (("the person", "p"), ("notes of the harness", "n"), ("the model", "m"), ("results of tools", "r")):
            parts.append((f"messages: {kind}", letter, [block for each, block in blocks if each == letter]))
        return parts

    def clear(self, rest: str) -> None:
        """/clear: an empty conversation. What holds for the work in this folder stays: mode, rules, model, files."""
        if self.agent.running:
            return self.say("  [a run is going: wait until it has ended]")
        history = self.agent.history
        with history.lock:
            if history.messages:
                history.replace([])
            history.notes.clear()
        self.agent.queue.clear()
        for name, restore in self.agent.restores.items():
            if name == "plan_mode" and self.plan.active:  # a limit does not end because the talk does
                restore({"active": True})
                continue
            restore(None)
            self.agent.changed(name, None)
        self.agent.fire(SessionStart(self.agent, "clear"))
        self.say("  [a new conversation: the model remembers nothing of the old one]")

    def model(self, rest: str) -> None:
        """/model, /model NAME."""
        if not rest:
            return self.say(f"  {self.agent.model.describe()}")
        if self.agent.running:
            return self.say("  [a run is going: wait until it has ended]")
        try:
            choose_model(self.agent.model, rest)
        except ModelError as error:
            return self.say(f"  [{error}]")
        self.agent.history.replace(without_thoughts(self.agent.history.messages))
        self.say(f"  [{rest} answers from now on; the cache of what was sent before is lost]")

    def try_to_show(self, text: Callable[[], str]) -> None:
        """Show what ``text()`` returns, or why it cannot be told."""
        try:
            self.say(text())
        except (OSError, ValueError, ToolError) as error:
            self.say(f"  [{error}]")

    def say(self, text: str) -> None:
        self.agent.show("notice", text=text)


def choose_model(model: Model, name: str) -> None:
    """Let ``model`` be the one named ``name`` of the same server. Raises ModelError where there is no other."""
    if model.script:
        raise ModelError(NO_OTHER)
    if not name.isprintable() or name.split() != [name]:
        raise ModelError(f"{name!r} is no name of a model: it is one word, such as {model.name}.")
    model.name = name
    model.extras.pop("thinking", None)
    model.__post_init__()  # what may be asked of a model depends on its name


def without_thoughts(messages: list[Message]) -> list[Message]:
    """Return the messages without thinking: a model refuses what another one has thought."""
    kept = [(m["role"], [block for block in m["content"] if block["type"] not in THOUGHTS]) for m in messages]
    return [{"role": role, "content": blocks or [text_block(NO_WORDS)]} for role, blocks in kept]


def kind_of(message: Message, block: dict[str, Any]) -> str:
    """Return the letter of a content block: m(odel), r(esult), n(ote) or p(erson)."""
    if message["role"] == "assistant":
        return "m"
    return "r" if block["type"] == "tool_result" else "n" if block.get("text", "").startswith(MARK) else "p"


def bar(parts: list[tuple[str, str, float]], window: int) -> str:
    """Return BAR cells for ``window`` tokens: each has the letter of what begins or ends in it, or a dot."""
    cells, end = "", 0.0
    for _, letter, tokens in parts:
        end += tokens
        cells += letter * (min(BAR, ceil(end / window * BAR)) - len(cells))
    return cells + "." * (BAR - len(cells))
