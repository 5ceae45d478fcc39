"""One subagent at work: its thread, what is known of what it did, and its report.

The report begins with how it ended, and that is a word of this program. What the model wrote comes last, under a line
that says so. So one that ran out of turns, failed or was stopped cannot look like one that has finished, whatever it
wrote, and what it had until then is not lost.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .hooks import AfterModel
from .hooks import BeforeModel
from .hooks import PostToolUse
from .hooks import SubagentStop
from .loop import Outcome
from .loop import run
from .questions import Desk
from .todo import one_line
from .tools import Job
from .tools import Result

if TYPE_CHECKING:
    from .agent import Agent

SO_FAR_CHARS = 8_000  # of what one had said that did not finish, the latest: some 2,000 tokens
LAST_CALLS = 10  # named of one that did not finish: they tell where it was
CALL_CHARS = 60  # of the argument of such a call
SOURCE = "parent"  # who speaks in a subagent's conversation
TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")

HEADS = {
    "completed": "completed: {}.",
    "max_turns": "max_turns: {}. NOT finished: it was stopped at its cap.",
    "error": "error: {}. NOT finished: {}",
    "interrupted": "interrupted: {}. NOT finished: it was stopped. A call that was running may still take effect.",
}
ENDED = "Ended: the person interrupted the agent that gave you this job."


@dataclass(eq=False)
class Subagent(Job):
    """One subagent. ``parent`` is told how it ended; ``is_offered(name)`` says which tools there are at the moment."""

    parent: Agent
    child: Agent
    name: str
    desk: Desk
    is_offered: Callable[[str], bool]
    prefix: dict[str, Any] = field(default_factory=dict)  # of a fork: its parent's request, without the messages
    outcome: Outcome | None = None
    said: list[str] = field(default_factory=list)  # the text of each reply
    calls: list[str] = field(default_factory=list)
    usage: Counter[str] = field(default_factory=Counter)
    cached: str = ""  # what the first request of a fork read from the cache, in words
    files: list[str] = field(default_factory=list)  # that it wrote, each once
    commands: int = 0
    beside: list[Subagent] = field(default_factory=list)  # those that were at work at the same time
    stopped: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    closed: bool = False  # what it does from now on comes too late
    reported: bool = False

    def begin(self, prompt: str) -> None:
        """Start to work, in a thread that does not keep the program from ending."""
        self.child.on(BeforeModel, self.before_model, last=True)
        self.child.on(AfterModel, self.after_model)
        self.child.on(PostToolUse, self.after_tool)
        threading.Thread(target=self.work, args=(prompt,), name=f"subagent {self.name}", daemon=True).start()

    def work(self, prompt: str) -> None:
        """In the thread: do the job. Whatever goes wrong there is an outcome."""
        outcome = Outcome()
        try:
            with self.desk.speaking_for(self.name, self.stopped):
                outcome = run(self.child, prompt, SOURCE)
        except Exception as error:
            outcome.end("error", f"{type(error).__name__}: {error}")
        finally:
            self.outcome = outcome
            self.ended.set()
            self.desk.wake()

    def wait(self) -> None:
        """Wait for its end, and meanwhile put the questions of all subagents to the person."""
        while not self.ended.is_set():
            self.desk.serve()

    def before_model(self, event: BeforeModel) -> None:
        """A request is about to go out, unless this one was ended."""
        if self.closed or self.stopped.is_set():
            event.agent.halt = ENDED
        elif self.prefix:  # to the letter as its parent's: with one other, nothing would come from the cache
            event.request = {**self.prefix, "model": event.agent.model.name}
        else:
            event.request["tools"] = [each for each in event.request["tools"] if self.is_offered(each["name"])]

    def after_model(self, event: AfterModel) -> None:
        """A reply is in: what it says, and what it cost."""
        usage = {name: event.reply.usage.get(name) or 0 for name in TOKENS}
        if self.prefix and not self.said:
            self.cached = f" ({usage['cache_read_input_tokens']:,} cached by its parent)"
        self.usage.update(usage)
        self.said.append(event.reply.text.strip())
        self.calls += map(in_short, event.reply.calls)

    def after_tool(self, event: PostToolUse) -> None:
        """A tool has run: what it wrote is a fact of the tool, and no word of the model."""
        if self.closed or event.agent.tools[event.call["name"]].read_only:
            return
        if "path" in event.facts and event.facts["path"] not in self.files:
            self.files.append(event.facts["path"])
        self.commands += "command" in event.facts

    def report(self) -> tuple[Result, bool]:
        """Return what its parent reads, and whether that is an error. One that has not ended yet is ended here."""
        how, why = self.ending()
        self.closed = True
        self.child.shell.stop()
        self.stopped.set()  # last: where Ctrl-C comes once more in between, somebody still looks after this one
        if not self.reported:
            self.reported = True
            self.parent.fire(SubagentStop(self.parent, self.child, self.name, how, dict(self.usage)))
        turns, tokens = len(self.said), sum(self.usage.values())
        head = HEADS[how].format(f"“{self.name}”, {number_of(turns, 'turn')}, {tokens:,} tokens{self.cached}", why)
        if how == "completed":
            lines = [head, *self.wrote(), "Its report:", self.said[-1] or "(Its last reply was empty.)"]
        else:
            so_far = "\n".join(text for text in self.said if text)[-SO_FAR_CHARS:]
            calls = f"Its last calls: {'; '.join(self.calls[-LAST_CALLS:]) or 'none'}."
            lines = [head, *self.wrote(), calls, "What it had so far:", so_far or "(It had said nothing.)"]
        facts = {"how": how, "turns": turns, "tokens": tokens, "files": [*self.files]}
        return Result("\n".join(lines), facts), how != "completed"

    def ending(self) -> tuple[str, str]:
        """Return how it ended, and for an error `reason, detail` of its outcome on one line, else "".

        One without an outcome is still at work, so it is interrupted; all but two outcomes are errors.
        """
        if self.outcome is None:
            return "interrupted", ""
        how = {"end_turn": "completed", "max_turns": "max_turns"}.get(self.outcome.reason, "error")
        return how, one_line(f"{self.outcome.reason}, {self.outcome.detail}") if how == "error" else ""

    def wrote(self) -> list[str]:
        """Return in words which files it wrote, and which of them another one wrote at the same time."""
        lines = [f"Files it wrote: {', '.join(self.files)}."] if self.files else []
        for other in self.beside:
            if both := [path for path in self.files if path in other.files]:
                lines.append(f"“{other.name}” wrote at the same time: {', '.join(both)}. Look what is in there now.")
        if self.commands:
            lines.append(f"It ran {number_of(self.commands, 'command')}: what these wrote is not known.")
        return lines


def in_short(call: dict[str, Any]) -> str:
    """Return a call in a few words: the tool, and the argument that tells most."""
    return f"{call['name']} {one_line(str(next(iter(call['input'].values()), '')))[:CALL_CHARS]}".strip()


def number_of(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
