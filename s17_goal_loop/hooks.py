"""Hooks: functions called at named moments of a run, so that nothing new has to be written into the loop.

Each moment is an event: an object that carries its agent and what is happening. A hook acts by the event's fields:
it adds context, refuses a prompt, makes a verdict stricter, objects to stopping. UserPromptSubmit, PreToolUse,
PostToolUse and Stop have their names from Claude Code (https://docs.claude.com/en/docs/claude-code/hooks).
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable
from typing import TypeVar

from .history import Block
from .model import Reply

if TYPE_CHECKING:
    from .agent import Agent
    from .loop import Outcome

STRICTNESS = ("", "allow", "ask", "deny")


@dataclass
class Event:
    """A moment in the run of ``agent``."""

    agent: Agent

    def failed(self, hook: Callable, error: Exception) -> None:
        """A hook raised: the person is told, and the run goes on."""
        self.agent.show("notice", text=f"[the hook {name_of(hook)} failed: {type(error).__name__}: {error}]")


@dataclass
class UserPromptSubmit(Event):
    """A prompt is about to enter the conversation. Hooks may add ``context``, or refuse it with a reason.

    ``source`` says who speaks: person, autopilot, notification or goal.
    """

    prompt: str
    source: str = "person"
    context: list[str] = field(default_factory=list)
    refused: str = ""


@dataclass
class BeforeModel(Event):
    """A request is about to go out. Hooks may change it; its messages follow from the history, after the hooks."""

    request: dict[str, Any]


@dataclass
class AfterModel(Event):
    """A reply has come in and stands in the history."""

    reply: Reply


@dataclass
class PreToolUse(Event):
    """A tool is about to run. Hooks may decide, add ``context``, or replace ``call`` by what shall run instead."""

    call: Block
    verdict: str = ""
    reason: str = ""
    context: list[str] = field(default_factory=list)

    def decide(self, verdict: str, reason: str = "") -> None:
        """Make the verdict stricter ("allow", then "ask", then "deny"); a milder one changes nothing."""
        if STRICTNESS.index(verdict) > STRICTNESS.index(self.verdict):
            self.verdict, self.reason = verdict, reason

    def failed(self, hook: Callable, error: Exception) -> None:
        """A guard that fails must not open the door: the call is refused."""
        self.decide("deny", f"Refused: the hook {name_of(hook)} failed ({type(error).__name__}: {error}).")


@dataclass
class PostToolUse(Event):
    """A tool has run. ``facts`` are the tool's own (exit status, path); hooks may add ``context`` for the model."""

    call: Block
    result: str
    facts: dict[str, Any]
    is_error: bool
    context: list[str] = field(default_factory=list)


@dataclass
class Stop(Event):
    """The model wants to stop. Hooks may object; each objection says what is left to do.

    ``reason`` is ``end_turn`` or ``max_tokens``; ``forced`` says how often this run was made to go on already.
    """

    text: str
    reason: str
    forced: int
    objections: list[str] = field(default_factory=list)


@dataclass
class RunEnd(Event):
    """A run is over, whichever way."""

    outcome: Outcome


@dataclass
class StateChanged(Event):
    """Something has changed that is worth keeping when the program ends; ``value`` is all of it, as JSON would have it."""

    name: str
    value: Any
    kept: bool = True  # whoever keeps it, and cannot, sets this to False

    def failed(self, hook: Callable, error: Exception) -> None:
        """Nobody may believe that it was kept."""
        self.kept = False
        super().failed(hook, error)


@dataclass
class PreCompact(Event):
    """Room is about to be made by taking old parts out of the history. ``reason`` is "full", "asked" or "too long"."""

    reason: str
    focus: str = ""  # what the summary shall take care of; hooks may add to it
    refused: str = ""  # why it shall not be done; hooks may say so


@dataclass
class PostCompact(Event):
    """What was sent before has been rewritten, shorter; the provider's cache of it is lost."""


@dataclass
class SubagentStop(Event):
    """A subagent of ``agent`` has ended. ``how``: completed, max_turns, error or interrupted.

    ``usage`` are the tokens of all its requests, under the names of the API. Fired where ``agent`` runs, once for each.
    """

    child: Agent
    description: str
    how: str
    usage: dict[str, int]


@dataclass
class SessionStart(Event):
    """A session begins, and what was kept of it is back. ``source`` says how: startup, resume or fork."""

    source: str


AnyEvent = TypeVar("AnyEvent", bound=Event)


class Hooks:
    """Which hooks are called for which event."""

    def __init__(self) -> None:
        self.table: dict[type[Event], list[Callable]] = {}
        self.late: dict[type[Event], list[Callable]] = {}

    def on(self, event: type[AnyEvent], hook: Callable[[AnyEvent], None], last: bool = False) -> None:
        """Call ``hook(event)`` at each event of this class, after the hooks that are there already.

        With ``last``, after all that are not so: for what may only happen when nobody else has ended the run.
        """
        (self.late if last else self.table).setdefault(event, []).append(hook)

    def fire(self, event: AnyEvent) -> AnyEvent:
        """Call the hooks for ``event``, and return it with what they have written into it."""
        for hook in [*self.table.get(type(event), ()), *self.late.get(type(event), ())]:
            try:
                hook(event)
            except Exception as error:
                event.failed(hook, error)
        return event


def name_of(hook: Callable) -> str:
    return getattr(hook, "__qualname__", repr(hook))
