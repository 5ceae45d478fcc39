"""What a compaction must not lose, and for what no summary may stand: the person's request, and what others keep.

It is written down while it happens, from events. Nobody finds it out by searching messages: there, a web page can say
that it is the person.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING

from .errors import ModelError
from .framing import frame
from .hooks import AfterModel
from .hooks import PostToolUse
from .hooks import UserPromptSubmit

if TYPE_CHECKING:
    from .agent import Agent

EARLIER_BYTES = 4_000  # of the person's earlier requests, the latest first
MAX_FILES = 50  # names of files touched, the latest

EARLIER = "## Earlier requests of the person, the latest first\nFor reference: the last request, below, goes before them."
STARTED = "## What this run was started with\nNot by the person, but by: {}."


@dataclass
class Keeping:
    """The person's request, what this run was started with, and the files touched. ``folder`` is no work of anybody."""

    agent: Agent
    folder: str
    request: str = ""  # the person's last one
    earlier: list[str] = field(default_factory=list)  # those before, the latest first
    is_pending: bool = False  # the model has not seen that request yet
    source: str = "person"  # who started this run, with which prompt, and in which message that stands
    prompt: str = ""
    place: int = 0
    files: dict[str, str] = field(default_factory=dict)  # path -> what was done with it, the latest last

    def begin_anew(self) -> None:
        """Another conversation stands in the history."""
        self.request, self.earlier, self.is_pending, self.files = "", [], False, {}
        self.source, self.prompt, self.place = "person", "", 0

    def hear(self, event: UserPromptSubmit) -> None:
        """A prompt enters the conversation, if nobody has refused it."""
        if event.agent is not self.agent or event.refused or not event.prompt.strip():
            return
        messages = event.agent.history.messages
        joins = bool(messages) and messages[-1]["role"] == "user"
        self.source, self.prompt, self.place = event.source, event.prompt, len(messages) - joins
        if event.source == "person":
            self.earlier = [self.request, *self.earlier] if self.request else []
            self.request, self.is_pending = event.prompt, True

    def answered(self, event: AfterModel) -> None:
        """A reply is in: whatever was asked, the model has seen it."""
        if event.agent is self.agent:
            self.is_pending = False

    def touch(self, event: PostToolUse) -> None:
        """A tool has run: remember the file, if its facts name one."""
        path = " ".join(str(event.facts.get("path", "")).split())
        if path and event.agent is self.agent and not event.is_error and not path.startswith(self.folder):
            before = self.files.pop(path, "read")
            tool = event.agent.tools.get(event.call["name"])
            self.files[path] = before if tool is None or tool.read_only else "changed"

    def texts(self, start: int) -> list[str]:
        """Return what stands beside a summary of all before the message ``start``. Raises ModelError if a keeper fails."""
        texts = []
        for title, keeper in self.agent.keepers.items():
            try:
                text = keeper()
            except Exception as error:
                raise ModelError(f"the keeper of {title!r} failed with {type(error).__name__}: {error}") from error
            texts += [f"## {title}\n{text}"] if text.strip() else []
        if self.files:
            rows = [f"- {path} ({what})" for path, what in list(self.files.items())[-MAX_FILES:]]
            texts.append("\n".join(["## Files touched", *rows]))
        if self.earlier:
            texts.append(f"{EARLIER}\n{frame('requests', chr(10).join(self.earlier), EARLIER_BYTES)}")
        if self.source != "person" and self.place < start:
            texts.append(f"{STARTED.format(self.source)}\n{frame('prompt', self.prompt)}")
        return texts
