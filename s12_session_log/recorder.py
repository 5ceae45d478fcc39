"""Writes down what happens to one agent while it happens: each change becomes a record before the next step begins.

What cannot be written must not be believed to be kept. A change of state that fails is reported to whoever made it, and
may be tried again. A message that fails ends the log: the person is told, and what comes after has no part in it.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from .errors import SECRET
from .history import Block
from .hooks import AfterModel
from .hooks import RunEnd
from .hooks import StateChanged
from .paths import resolve
from .session_log import VERSION
from .session_log import Log
from .session_log import new_id
from .session_log import place
from .thoughts import mark_of
from .tools import ToolError

if TYPE_CHECKING:
    from .agent import Agent

MASK = "[key]"
NOT_KEPT = "this session is not kept any more: {}. It goes on, but nothing from here on is there when you resume it"


class Recorder:
    """The log of one agent, and whether all of it is there."""

    def __init__(self, agent: Agent, folder: str, keys: list[re.Pattern[str]]) -> None:
        self.agent = agent
        self.folder = folder
        self.keys = keys
        self.log: Log | None = None  # made with the first record
        self.is_kept = True
        self.is_open = False  # whether the log says that a run is going
        self.shape = (0, 0)  # of the history that the log holds
        self.trouble = ""
        self.unkept: set[str] = set()  # what is in no record: names of states, "messages"

    @property
    def id(self) -> str:
        """The name of this session, "" as long as there is nothing to keep."""
        return self.log.path.stem if self.log else ""

    def append(self, kind: str, **data: Any) -> bool:
        """Write a record, the first one into a new log. Returns whether it is kept."""
        if not self.is_kept:
            return False
        try:
            self.log = self.log or self.new_log()
            self.log.append(kind, **data)
        except OSError as error:
            self.trouble = str(error)
            return False
        return True

    def must_append(self, kind: str, **data: Any) -> None:
        """Write a record without which the log would have a hole. If that fails it ends here, and the person knows."""
        if not self.append(kind, **data) and self.is_kept:
            self.is_kept = False
            self.unkept.add("messages")
            self.say(NOT_KEPT.format(self.trouble))

    def hear(self, kind: str, **data: Any) -> None:
        """The history has changed."""
        now = shape(self.agent)
        if kind == "message":
            self.is_open = True
            more = len(data["blocks"])
            data["blocks"] = [block for block in data["blocks"] if not self.is_spoilt(block)]
            if not grew_by(more, self.shape, now):  # Ctrl-C has kept a change from us
                kind, data = "replaced", {"messages": self.agent.history.messages}
        self.must_append(kind, **data)
        self.shape = now

    def count(self, event: AfterModel) -> None:
        """A reply has come in, and with it what it cost."""
        self.must_append("usage", model=self.agent.model.name, usage=event.reply.usage)

    def keep_state(self, event: StateChanged) -> None:
        """State has changed. If it cannot be kept, whoever changed it is told so, and may wait with it."""
        if event.agent is not self.agent or not event.kept or not self.is_kept:
            return
        event.kept = self.append("state", name=event.name, value=event.value)
        if event.kept:
            self.unkept.discard(event.name)
        elif event.name not in self.unkept:
            self.unkept.add(event.name)
            self.say(f"the change of {event.name} could not be kept: {self.trouble}")

    def end_run(self, event: RunEnd) -> None:
        """A run is over."""
        self.settle(event.outcome.reason)

    def settle(self, reason: str) -> None:
        """Let the log say what is so: that no run is going, that the history is as it is, and what is missing."""
        if self.shape != shape(self.agent):
            self.hear("replaced", messages=self.agent.history.messages)
        if self.is_open:
            self.is_open = False
            self.must_append("run_ended", reason=reason)
        if self.unkept and self.log:
            with contextlib.suppress(OSError):
                self.log.append("hole", missing=sorted(self.unkept))  # it must not pass for whole
                self.unkept.clear()

    def new_log(self) -> Log:
        log = Log(place(self.own_folder(), new_id()), self.mask)
        try:
            log.append("session", **self.header(log.path.stem))
        except BaseException:
            log.close()
            raise
        return log

    def header(self, id: str, parent: str = "", inherited: int = 0) -> dict[str, Any]:
        """Return what the first record says; ``inherited`` is how many records of ``parent`` a fork has looked at."""
        about = {"workspace": str(self.agent.workspace), "model": self.agent.model.name}
        return {"version": VERSION, "id": id, "parent": parent, "inherited": inherited, **about}

    def mask(self, line: str) -> str:
        """Return a line of JSON without the keys in it."""
        key = json.dumps(self.agent.model.key)[1:-1]
        if len(key) >= SECRET:
            line = line.replace(key, MASK)
        for pattern in self.keys:
            line = pattern.sub(MASK, line)
        return line

    def is_spoilt(self, block: Block) -> bool:
        """Whether it is a thought with a key in it: the API takes no thought that was changed, and masked it would be."""
        text = json.dumps(block) if mark_of(block) else ""
        return self.mask(text) != text

    def own_folder(self, make: bool = True) -> Path:
        """Return the folder of the logs. With ``make`` it is there, and git does not look into it. Raises OSError."""
        try:
            folder = resolve(self.agent.workspace, self.folder)
        except ToolError as error:
            raise OSError(str(error).rstrip(".")) from None
        if make:
            folder.mkdir(parents=True, exist_ok=True)
            top = self.agent.workspace / Path(self.folder).parts[0]
            with contextlib.suppress(FileExistsError), open(top / ".gitignore", "x", encoding="utf-8") as file:
                file.write("*\n")
        return folder

    def say(self, text: str) -> None:
        self.agent.show("notice", text=f"  [session: {text}]")


def shape(agent: Agent) -> tuple[int, int]:
    """Return how long the history is: messages, and content blocks in the last one."""
    messages = agent.history.messages
    return len(messages), len(messages[-1]["content"]) if messages else 0


def grew_by(blocks: int, before: tuple[int, int], now: tuple[int, int]) -> bool:
    """Whether just so many content blocks have been added: to the last message, or as a new one."""
    return now in ((before[0], before[1] + blocks), (before[0] + 1, blocks))
