"""What a program reads of a run: one JSON object at the end, or one for each thing that happens as it happens.

Standard output holds nothing else, in plain ASCII, so that no code page can spoil it; what a person would see goes to
standard error. The last object has the type "result" and says how the run ended, also when it could not even begin.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING
from typing import Any

from .loop import Outcome
from .terminal import Terminal
from .usage import KINDS

if TYPE_CHECKING:
    from .agent import Agent

FORMATS = ("text", "json", "stream-json")


class Report(Terminal):
    """A console for one prompt that reports to a program; with ``is_stream`` also each thing that is shown."""

    def __init__(self, is_stream: bool) -> None:
        super().__init__(one_shot=True)
        self.words = self.side  # for a person who watches; the program reads it in the end
        self.is_stream = is_stream
        self.one_line = threading.Lock()  # children show things from threads of their own
        self.is_done = False

    def show(self, kind: str, **data: Any) -> None:
        super().show(kind, **data)
        if self.is_stream:
            self.emit({"type": kind, **data})

    def result(self, outcome: Outcome, status: int, agent: Agent | None = None) -> None:
        """Report how it ended, once: what comes after that is for the person alone."""
        if self.is_done:
            return
        self.is_done = True
        used = agent.desk.meter.total() if agent else {}
        self.emit(
            {
                "type": "result",
                "result": outcome.text,
                "reason": outcome.reason,
                "detail": outcome.detail,
                "is_error": status != 0,
                "exit_status": status,
                "turns": agent.desk.meter.turns if agent else 0,
                "usage": {kind: used.get(kind, 0) for kind in KINDS},
                "model": agent.model.name if agent else "",
                "session_id": agent.session.id if agent and agent.session else "",
            }
        )

    def emit(self, event: dict[str, Any]) -> None:
        with self.one_line:
            sys.stdout.write(json.dumps(event, default=str) + "\n")
            sys.stdout.flush()
