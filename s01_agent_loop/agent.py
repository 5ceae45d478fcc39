"""What an agent is: a model, a conversation, a folder to work in, and a way to show what happens."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Callable

from .history import History
from .history import clean
from .model import Model
from .model import Reply
from .shell import BASH
from .shell import Shell

MAX_TOKENS = 16_000  # output tokens a reply may have; leaves room for thinking before the answer
MAX_TURNS = 100  # model calls in one run; a long job takes some dozens, a loop without end takes all

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
    history: History = field(default_factory=History)
    busy: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.workspace = self.workspace.resolve()
        self.shell = Shell(self.workspace)

    @property
    def running(self) -> bool:
        """Whether a run is going."""
        return self.busy.locked()

    def request(self) -> dict[str, Any]:
        """Return the next request without its messages, in the Messages API's own names."""
        return {
            "model": self.model.name,
            "max_tokens": self.max_tokens,
            "system": clean(SYSTEM.format(workspace=self.workspace)),
            "tools": [BASH],
            **self.model.extras,
        }

    def call_model(self, request: dict[str, Any]) -> Reply:
        """Send ``request`` and return the reply, shown as it streams in. Raises ModelError."""
        return self.model(request, self.show)
