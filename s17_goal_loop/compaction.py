"""Making room in a conversation that grows too long, without losing what it is about.

Three layers, the cheapest first. A result that is too long goes into a file before it is ever sent. When the window is
nearly full, old results go into files, if that is enough. If not, the model writes a summary of the old part. Of what
it has not seen yet nothing is summarised, and room is made long before there is none, and not again at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

from .errors import ModelError
from .history import Message
from .hooks import AfterModel
from .hooks import BeforeModel
from .hooks import PostCompact
from .hooks import PostToolUse
from .hooks import PreCompact
from .hooks import UserPromptSubmit
from .keeping import Keeping
from .large_results import Shelf
from .large_results import estimate
from .large_results import gained
from .large_results import lightened
from .large_results import put_away
from .summary import ASK
from .summary import FOCUS
from .summary import in_place
from .summary import joined
from .summary import kept
from .summary import request_for
from .summary import text_of

if TYPE_CHECKING:
    from .agent import Agent

# Shares of the model's window.
TRIGGER = 0.8  # room is made from here on: what is left holds the next reply and its results
TARGET = 0.5  # as far down at least, or the loss of the cache would soon be paid again
KEEP = 0.1  # of the latest turns at most, word for word, beside a summary
LARGEST = 0.1  # one result; a file read as a whole has at most half of that in a window of 200,000
TOGETHER = 0.25  # the results of one reply: with what was there before the trigger they still fit
STEP = 0.05  # the conversation grows by this before room is made again, whatever came of it: no storm of attempts

SUMMARY_TOKENS = 8_000  # of the summary, thinking before it included
FOLDER = ".harness"  # in the workspace, so that the model can read there what was taken out


def install(
    agent: Agent,
    *,
    window: int | None = None,
    trigger: float = TRIGGER,
    target: float = TARGET,
    keep: float = KEEP,
    largest: float = LARGEST,
    together: float = TOGETHER,
    step: float = STEP,
    summary_tokens: int = SUMMARY_TOKENS,
    folder: str = FOLDER,
    ask: str = ASK,
) -> Compactor:
    """Let ``agent`` make room by itself, and give the person /compact.

    ``window`` is in tokens (None: what the model says), the next six are shares of it. ``folder``, in the workspace, is
    for transcripts and results. Raises ValueError for shares with which it could not come to rest.
    """
    if not 0 < keep < target < trigger <= 1 or not 0 < step <= 1:
        raise ValueError(f"Compaction needs 0 < keep < target < trigger <= 1, not {keep}, {target}, {trigger}.")
    shelf, keeping = Shelf(agent.workspace, folder), Keeping(agent, folder)
    window = window or agent.model.window
    shares = trigger, target, keep, largest, together, step
    compactor = Compactor(agent, shelf, keeping, window, *shares, summary_tokens, ask)
    agent.on(UserPromptSubmit, keeping.hear, last=True)
    agent.on(AfterModel, keeping.answered)
    agent.on(PostToolUse, keeping.touch)
    agent.on(BeforeModel, compactor.make_room)
    agent.on(AfterModel, compactor.count)
    agent.command("compact", "summarise the conversation now; what you add is taken care of", compactor.on_command)
    return compactor


@dataclass
class Compactor:
    """The compaction of one agent: its policy, and the size of the conversation so far."""

    agent: Agent
    shelf: Shelf
    keeping: Keeping
    window: int  # tokens
    trigger: float
    target: float
    keep: float
    largest: float
    together: float
    step: float
    summary_tokens: int
    ask: str
    counted: int = 0  # tokens up to the last reply, as the API said, and how many messages that is
    upto: int = 0
    quiet_until: float = 0.0  # tokens
    trouble: str = ""
    last: BeforeModel | None = None

    def count(self, event: AfterModel) -> None:
        """A reply is in, and with it how long the conversation is."""
        usage = event.reply.usage
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        tokens = sum(usage.get(name) or 0 for name in names)
        if tokens and event.agent is self.agent:  # some servers count nothing; then all of it is an estimate
            self.counted, self.upto = tokens, len(self.agent.history.messages)

    def size(self) -> int:
        """Return how many tokens the next request has: as the API counted, and an estimate of what is new."""
        overhead = 0 if self.counted else estimate(self.shell())
        return self.counted + overhead + sum(map(estimate, self.agent.history.messages[self.upto :]))

    def begin_anew(self) -> None:
        """Another conversation stands in the history: nothing that was counted or heard before is about it."""
        self.counted, self.upto, self.quiet_until, self.last = 0, 0, 0.0, None
        self.keeping.begin_anew()

    def make_room(self, event: BeforeModel) -> None:
        """A request is about to go out: make it fit."""
        messages = self.agent.history.messages
        if event.agent is not self.agent or self.agent.halt:
            return  # no request of this agent goes out
        if messages[-1]["role"] != "user":
            return  # a reply that has only paused goes back as it is
        self.last = self.last or event
        self.put_away()
        if self.size() >= max(self.trigger * self.window, self.quiet_until):
            self.compact("full")
        self.last = event

    def on_command(self, rest: str) -> None:
        """/compact: what the person adds is asked of the summary."""
        if not self.agent.busy.acquire(blocking=False):
            return self.say("a run is going: wait until it has ended")
        try:
            self.compact("asked", rest)
        except KeyboardInterrupt:
            self.say("interrupted, the conversation is as it was")
        finally:
            self.agent.busy.release()

    def compact(self, reason: str, focus: str = "") -> bool:
        """Make room now: "full" (old results, if that is enough), "asked", or "too long" (the API refused a request).

        Returns whether the history is shorter now; if not, it is as it was, also after Ctrl-C, which goes on up. Who
        calls this in the middle of a request takes its messages anew.
        """
        event = self.agent.fire(PreCompact(self.agent, reason, focus))
        if event.refused:
            self.quiet_until = self.size() + self.step * self.window
            self.say(f"not done: {event.refused}")
            return False
        if reason == "too long":
            self.window = min(self.window, self.size())  # there is less of it than anybody thought
        self.put_away()
        messages, before = self.agent.history.messages, self.size()
        self.quiet_until = before + self.step * self.window
        start = self.tail(messages)
        old = messages[:start]
        if not any(message["role"] == "assistant" for message in old):
            self.say("there is nothing yet that could be summarised", reason == "asked")
            return False
        try:
            if reason == "full" and before - gained(old) <= self.target * self.window:
                return self.lighten(messages, start, "old results are in files now")
            beside = self.keeping.texts(start)  # before a summary is paid for
            path = self.transcript(messages)
            self.say("asking for a summary …")
            is_near = before > (1 - self.step) * self.window  # then the request for it must be shorter, too
            asked = lightened(old, self.shelf) if is_near else messages
            ask = self.ask + (FOCUS.format(event.focus) if event.focus else "")
            summary = text_of(self.agent.side_call(request_for(self.shell(), asked, ask, self.summary_tokens)))
        except OSError as error:
            self.say(f"not done, since nothing can be kept on disk: {error}")
            return False
        except ModelError as error:
            return self.do_without(messages, start, f"no summary, the conversation goes on without: {error}")
        request = "" if self.keeping.is_pending else self.keeping.request
        new = joined(in_place(path, beside, summary, request), kept(messages[start:]))
        if estimate(new) >= estimate(messages):
            return self.do_without(messages, start, "the summary is longer than what it stands for")
        self.replace(new, f"summarised, the whole conversation is in {path}")
        self.keeping.place = max(0, self.keeping.place - start + len(new) - len(messages[start:]))
        return True

    def lighten(self, messages: list[Message], start: int, why: str) -> bool:
        """Put lines in the place of the old results. Raises OSError."""
        return self.replace([*lightened(messages[:start], self.shelf), *messages[start:]], why)

    def do_without(self, messages: list[Message], start: int, why: str) -> bool:
        """There is no summary: say why, and do at least what can be done without. Returns whether that was something."""
        try:
            if gained(messages[:start]) > 0:
                return self.lighten(messages, start, f"{why}; old results are in files now")
        except OSError:
            pass  # then nothing is taken out
        self.say(why)
        return False

    def replace(self, new: list[Message], why: str) -> bool:
        """Put ``new`` in the place of the history, and count anew: by the share that an estimate says is left."""
        history, before = self.agent.history, self.size()
        scale = before / max(1, estimate(history.messages) + estimate(self.shell()))
        history.replace(new)
        self.upto = len(new) - (new[-1]["role"] == "user")  # its last message may still grow
        self.counted = max(1, int(scale * (estimate(new[: self.upto]) + estimate(self.shell()))))
        self.quiet_until = self.size() + self.step * self.window
        self.say(f"{why}; about {round(before, -3):,} tokens became {round(self.size(), -3):,}")
        self.agent.fire(PostCompact(self.agent))
        return True

    def tail(self, messages: list[Message]) -> int:
        """Return where the part begins that stays: what is unseen, with its calls, and what fits of this run."""
        start = len(messages)
        if messages and messages[-1]["role"] == "user":
            start -= 2 if any(block["type"] == "tool_result" for block in messages[-1]["content"]) else 1
        room, size = self.keep * self.window, 0
        for number in range(start - 1, self.keeping.place, -1):
            size += estimate(messages[number])
            if size > room:
                break
            if messages[number]["role"] == "assistant":
                start = number
        return start

    def transcript(self, messages: list[Message]) -> str:
        """Write all messages into a new file, one a line. Returns its path. Raises OSError."""
        lines = (json.dumps(message, ensure_ascii=False) for message in messages)
        return self.shelf.keep("transcripts", "transcript.jsonl", "\n".join([*lines, ""]).encode("utf-8"))

    def put_away(self) -> None:
        """See to it that no result goes out that is too long, alone or with the others of its message."""
        messages = self.agent.history.messages
        if not messages or messages[-1]["role"] != "user":
            return
        sizes = int(self.largest * self.window), int(self.together * self.window)
        new, trouble = put_away(messages, self.shelf, *sizes)
        if new[-1] != messages[-1]:
            self.agent.history.replace(new)
            self.say("a long result is in a file now, the model gets its beginning and its end")
        is_news = trouble not in ("", self.trouble)
        self.say(f"a long result stays as it is, since nothing can be kept on disk: {trouble}", is_news)
        self.trouble = trouble

    def shell(self) -> dict[str, Any]:
        """Return the last request without its messages: with the very same one, the provider's cache is hit."""
        request = self.last.request if self.last else self.agent.request()
        return {name: value for name, value in request.items() if name != "messages"}

    def say(self, text: str, is_wanted: bool = True) -> None:
        if is_wanted:
            self.agent.show("notice", text=f"  [compaction: {text}]")
