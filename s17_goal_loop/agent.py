"""What an agent is: a model, a conversation, a folder to work in, and a way to show what happens."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Callable

from .history import Block
from .history import History
from .history import clean
from .history import text_block
from .hooks import AnyEvent
from .hooks import Hooks
from .hooks import StateChanged
from .model import Model
from .model import Reply
from .permissions import Permissions
from .shell import Shell
from .tools import Tool

MAX_TOKENS = 16_000  # output tokens a reply may have; leaves room for thinking before the answer
MAX_TURNS = 100  # model calls in one run; a long job takes some dozens, a loop without end takes all
MAX_FORCED = 8  # times that hooks may make a run go on: a gate that is never content must not hold it for ever

SYSTEM = """You are a coding agent. You work in the folder {workspace} and act through tools.
Look before you change anything, and check afterwards that it worked. Report in a few plain sentences.
Text between <system-reminder> marks comes from the program around you, not from the person."""


@dataclass
class Agent:
    """One agent: everything a run needs, and nothing that two agents would share."""

    model: Model
    workspace: Path
    show: Callable[..., None]
    max_turns: int = MAX_TURNS
    max_tokens: int = MAX_TOKENS
    max_forced: int = MAX_FORCED
    history: History = field(default_factory=History)
    tools: dict[str, Tool] = field(default_factory=dict)
    permissions: Permissions | None = None
    hooks: Hooks = field(default_factory=Hooks)
    sections: dict[str, tuple[int, str]] = field(default_factory=dict)
    system: list[Block] = field(default_factory=list)  # the sections as they go out; empty: as they are now
    restores: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    commands: dict[str, tuple[str, Callable[[str], None]]] = field(default_factory=dict)
    queue: deque[tuple[str, str]] = field(default_factory=deque)
    keepers: dict[str, Callable[[], str]] = field(default_factory=dict)  # title -> what must survive a compaction
    beside: list[Callable[[], bool]] = field(default_factory=list)  # whether work goes on whose end will be enqueued
    wake: Callable[[], None] = lambda: None  # called, in any thread, when something waits to be run
    session: Any = None  # what keeps this conversation
    desk: Any = None  # what the person's own commands and the status line know
    exits: ExitStack = field(default_factory=ExitStack)  # what has to be ended when the program ends
    halt: str = ""
    busy: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.workspace = self.workspace.resolve()
        self.shell = Shell(self.workspace)
        self.add_section("identity", SYSTEM.format(workspace=self.workspace), order=0)

    @property
    def running(self) -> bool:
        """Whether a run is going."""
        return self.busy.locked()

    def on(self, event: type[AnyEvent], hook: Callable[[AnyEvent], None], last: bool = False) -> None:
        """Call ``hook(event)`` at each event of this class; with ``last``, after all hooks that are not so."""
        self.hooks.on(event, hook, last)

    def fire(self, event: AnyEvent) -> AnyEvent:
        """Call the hooks for ``event``, and return it with what they have written into it."""
        return self.hooks.fire(event)

    def changed(self, name: str, value: Any) -> bool:
        """Announce state that shall outlive a run. Whoever kept it gives it back through ``restores[name](value)``.

        Returns whether everybody who keeps it could.
        """
        return self.fire(StateChanged(self, name, value)).kept

    def command(self, name: str, help: str, function: Callable[[str], None]) -> None:
        """Let the person call ``function(rest of the line)`` by typing ``/name``. ``help`` is one line about it."""
        self.commands[name] = help, function

    def enqueue(self, prompt: str, source: str = "person") -> None:
        """Have ``prompt`` run as soon as no run is going; ``source`` says who speaks."""
        self.queue.append((prompt, source))
        self.wake()

    def add_section(self, name: str, text: str, order: int = 50) -> None:
        """Add a part to the system prompt, or replace the one of that name; lower ``order`` comes first."""
        self.sections[name] = (order, clean(text))

    def ordered_sections(self) -> list[tuple[int, str]]:
        """Return the sections by their order; those of one order as they came."""
        return sorted(self.sections.values(), key=lambda section: section[0])

    def request(self) -> dict[str, Any]:
        """Return the next request without its messages, in the Messages API's own names."""
        return {
            "model": self.model.name,
            "max_tokens": self.max_tokens,
            "system": self.system or [text_block(text) for _, text in self.ordered_sections() if text],
            "tools": [tool.definition() for tool in self.tools.values()],
            **self.model.extras,
        }

    def call_model(self, request: dict[str, Any]) -> Reply:
        """Send ``request`` and return the reply, shown as it streams in. Raises ModelError."""
        return self.model(request, self.show)

    def side_call(self, request: dict[str, Any]) -> Reply:
        """Ask the model something beside the conversation: nothing is shown, nothing is kept. Raises ModelError."""
        return self.model(request, lambda kind, **data: None)
