"""What happens when the model cannot answer, or answers by halves: three kinds of failure, three ladders.

Trouble on the way passes, so the same request goes out again. A conversation that is too long is compacted, once. A
reply that was cut off gets more room, and then is continued. It happens around the call of the model, before anything
is written into the conversation, from the inside out: trouble, length, and the cut last, because only a reply that
arrived can have been cut. Each ladder has a latch, so that none goes on for ever. The order, and judging before
writing, are learn-claude-code's (https://github.com/shareAI-lab/learn-claude-code).
"""

from __future__ import annotations

import copy
import random
import time
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .errors import ModelError
from .hooks import AfterModel
from .hooks import Stop
from .hooks import UserPromptSubmit
from .model import Model
from .model import Reply
from .thoughts import mark_of
from .thoughts import without_thoughts
from .trouble import has_begun
from .trouble import in_words
from .trouble import is_overload
from .trouble import is_too_long
from .trouble import passes
from .trouble import retry_after
from .trouble import spoken
from .trouble import told_to_wait

if TYPE_CHECKING:
    from .agent import Agent

RETRIES = 6  # of one call; with FIRST_WAIT they spread over half a minute, which most trouble does not outlive
FIRST_WAIT = 0.5  # seconds; each further wait is twice as long
LONGEST_WAIT = 60.0  # seconds; rates are counted by the minute, and who has to wait longer had better be told
PATIENCE = 180.0  # seconds from the first failure of a call to its last repetition
JITTER = 0.5  # share of a wait that is left to chance: those who failed together must not come back together
OVERLOADS = 3  # overloads in a row after which the other model is asked
LARGER = 64_000  # output tokens; most models can do as many, and it is what a long file needs
CONTINUATIONS = 3  # in a row, of a reply that is cut off again and again
LEAST = 200  # characters that a continuation has to add: with fewer it has come to nothing
MANY = 20  # doublings, after which any wait is longer than the longest
SLICE = 0.1  # seconds; a wait looks up so often, to see whether the run was ended

FULL = "model_context_window_exceeded"  # how a reply says that the room ran out while it was being written

CONTINUE = (
    "Your reply reached the limit of its length and was cut off. Go on exactly where it stops: repeat nothing, and do not "
    "comment on it. A call that was cut off has to be made again, in smaller pieces."
)
CANNOT_FIT = "The conversation is too long for this model and could not be made to fit: start a new one."


def install(agent: Agent, *, compact: Callable[[str], bool] | None = None, fallback: str = "", **policy: Any) -> Recovery:
    """Put the three ladders around this agent's calls of the model. Side calls get the first one only.

    ``compact(reason)`` makes the conversation shorter and says whether it did. ``fallback`` names the model that is
    asked when the agent's own is overloaded. ``policy``: what else is a field of Recovery, numbers and the clock.
    """
    recovery = Recovery(agent, agent.call_model, compact, fallback, **policy)
    side_call = agent.side_call
    agent.call_model = recovery.call_model
    agent.side_call = lambda request: recovery.insist(side_call, request)
    agent.on(UserPromptSubmit, recovery.begin)
    agent.on(AfterModel, recovery.note_reply)
    agent.on(Stop, recovery.at_stop)
    return recovery


@dataclass
class Recovery:
    """The ladders of one agent, and their latches. ``call_model`` stands in the place of the agent's own."""

    agent: Agent
    ask: Callable[[dict[str, Any]], Reply]
    compact: Callable[[str], bool] | None = None
    fallback: str = ""
    retries: int = RETRIES
    first_wait: float = FIRST_WAIT
    longest_wait: float = LONGEST_WAIT
    patience: float = PATIENCE
    jitter: float = JITTER
    overloads: int = OVERLOADS
    larger: int = LARGER
    continuations: int = CONTINUATIONS
    least: int = LEAST
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    own: Model | None = field(default=None, init=False)  # the agent's model, while the fallback stands in for it
    compacted: bool = field(default=False, init=False)  # the last request that went through had to be made to fit
    limit: int = field(default=0, init=False)  # of output tokens, in force for this run; 0: the usual one was enough
    cut: bool = field(default=False, init=False)  # the last reply was cut off
    continued: int = field(default=0, init=False)  # continuations in a row
    thinkers: dict[str, str] = field(default_factory=dict, init=False)  # signature of a thought -> who had it

    def call_model(self, request: dict[str, Any]) -> Reply:
        """The third ladder: a reply that was cut off is asked for again, with more room.

        Raises ModelError when there is no reply to be had.
        """
        if self.limit:
            request = {**request, "max_tokens": self.limit}
        request, reply = self.fit(request)
        if reply.stop_reason == "max_tokens" and not self.limit:
            self.limit = request["max_tokens"]
            reply = self.with_more_room(request, reply)
        self.cut = reply.stop_reason == "max_tokens"
        return reply

    def with_more_room(self, request: dict[str, Any], reply: Reply) -> Reply:
        """Return what the model answers to the same request with a larger limit; ``reply`` if it cannot be had."""
        if self.larger <= self.limit or self.agent.halt:
            return reply
        self.agent.show("discard", reason=f"cut off at {self.limit} tokens, now with {self.larger}")
        try:
            better = self.insist(self.ask, {**request, "max_tokens": self.larger})
            if better.stop_reason != FULL:
                self.limit = self.larger
                return better
            why = "the room ran out in the middle of it"
        except ModelError as error:
            why = str(error)
        self.agent.show("notice", text=f"  [no larger limit, so the reply counts as it was: {why}]")
        self.agent.show("text", text=reply.text)  # its words were thrown away before everybody's eyes
        return reply

    def fit(self, request: dict[str, Any]) -> tuple[dict[str, Any], Reply]:
        """The second ladder: a conversation that is too long is compacted once, and sent once more.

        Returns the request that went through, and its reply. Raises ModelError.
        """
        original = request
        while True:
            try:
                reply = self.insist(self.ask, request)
            except ModelError as error:
                if not is_too_long(error):
                    raise
                if not self.make_shorter():
                    raise ModelError(f"{CANNOT_FIT} {error}", error.status, error.kind, error.headers) from error
            else:
                if reply.stop_reason != FULL:
                    self.compacted = request is not original
                    return request, reply
                if not self.make_shorter():
                    return request, reply  # the loop knows how to end with it
                self.agent.show("discard", reason="the room ran out in the middle of it")
            request = {**request, "messages": self.agent.history.deliver()}

    def make_shorter(self) -> bool:
        """Have the conversation compacted, unless that has just been done. Returns whether it is shorter now."""
        if self.compacted or self.compact is None:
            return False
        self.compacted = True
        return self.compact("too long")

    def insist(self, ask: Callable[[dict[str, Any]], Reply], request: dict[str, Any]) -> Reply:
        """The first ladder: trouble that passes is waited for, and the same request sent again. Raises ModelError."""
        failures, overloads, began = 0, 0, None
        while True:
            try:
                return ask(self.for_model(request))
            except ModelError as error:
                if not passes(error):
                    raise
                began = self.clock() if began is None else began
                failures += 1
                overloads = overloads + 1 if is_overload(error) else 0
                shown = ask is self.ask and has_begun(error)  # words of it stand on the screen
                if overloads >= self.overloads and self.switch(request, shown):
                    failures, overloads = 0, 0
                    continue
                seconds = self.wait_after(error, failures)
                if failures > self.retries or self.clock() - began + seconds > self.patience:
                    raise
                if shown:
                    self.agent.show("discard", reason=in_words(error))
                else:
                    self.agent.show("notice", text=f"  [{in_words(error)}: asked again {spoken(seconds)}]")
                self.pause(seconds)
                if self.agent.halt:
                    raise

    def wait_after(self, error: ModelError, failures: int) -> float:
        """Return how many seconds to wait after so many failures. Raises ModelError if the server asks for too many."""
        asked = retry_after(error.headers, self.clock())
        if asked is None:
            longest = min(self.first_wait * 2.0 ** min(failures - 1, MANY), self.longest_wait)
            return longest * (1 - self.jitter * self.chance())
        if asked > self.longest_wait:
            raise ModelError(f"{told_to_wait(asked)} {error}", error.status, error.kind, error.headers) from error
        return asked

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the run is ended. Ctrl-C ends it at once, on each system."""
        while seconds > 0 and not self.agent.halt:
            self.sleep(min(SLICE, seconds))
            seconds -= SLICE

    def switch(self, request: dict[str, Any], shown: bool) -> bool:
        """Let the fallback answer from here on. Returns False if there is none, or it is the one that is overloaded."""
        model = self.agent.model
        if request["model"] != model.name or self.fallback in ("", model.name):
            return False
        self.own, self.agent.model = model, copy.copy(model)
        self.agent.model.name, self.agent.model.extras = self.fallback, dict(model.extras)
        if shown:
            self.agent.show("discard", reason="the model is overloaded")
        self.agent.show("notice", text=f"  [{model.name} is overloaded: until your next prompt {self.fallback} answers]")
        return True

    def for_model(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the request as it goes out: to the model that answers now, without what other models thought."""
        if self.own and request["model"] == self.own.name:
            request = {**request, "model": self.agent.model.name}
        name = request["model"]
        if any(thinker != name for thinker in self.thinkers.values()):
            request = {**request, "messages": without_thoughts(request["messages"], self.thinkers, name)}
        return request

    def begin(self, event: UserPromptSubmit) -> None:
        """A run begins: its latches open. Those that hold until the person's next prompt wait for that."""
        self.limit = self.continued = 0
        self.cut = False
        if event.source != "person":
            return
        self.compacted = False
        if self.own and event.agent.model.name == self.fallback:  # else somebody has chosen a model meanwhile
            event.agent.model = self.own
            event.agent.show("notice", text=f"  [{self.own.name} is asked again]")
        self.own = None

    def note_reply(self, event: AfterModel) -> None:
        """Remember who had which thought, and forget the continuations once a reply has come to its end."""
        if event.reply.stop_reason != "max_tokens":
            self.continued = 0
        thoughts = [mark for mark in map(mark_of, event.reply.content) if mark]
        self.thinkers.update(dict.fromkeys(thoughts, event.agent.model.name))

    def at_stop(self, event: Stop) -> None:
        """A reply that is still cut off stays as it is, and is continued, as long as that leads anywhere."""
        if event.reason != "max_tokens" or not self.cut:
            return
        adds_nothing = self.continued > 0 and len(event.text.strip()) < self.least
        if adds_nothing or self.continued >= self.continuations:
            why = "it adds almost nothing" if adds_nothing else f"that was done {self.continued} times"
            event.agent.show("notice", text=f"  [not continued any more: {why}]")
            return
        self.continued += 1
        event.objections.append(CONTINUE)
