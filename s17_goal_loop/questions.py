"""The way of a question from a subagent to the person: one at a time, and by the thread that has the terminal.

Subagents run in threads. A thread that reads from the terminal by itself would take the line that the person types for
somebody else, and two that ask at once would mix their questions. So a subagent leaves its question here and waits. The
thread that waits for the subagents meanwhile puts the questions to the person, and hands the answers back.
"""

from __future__ import annotations

import queue
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Callable
from typing import Iterator

if TYPE_CHECKING:
    from .agent import Agent

SLICE = 0.1  # seconds; whoever waits looks up so often. On Windows a plain wait would not notice Ctrl-C
FROM = "The subagent “{}” asks."


@dataclass
class Question:
    """One question of a subagent, and what becomes of it."""

    text: str
    stopped: threading.Event
    over: threading.Event = field(default_factory=threading.Event)
    answer: str = ""
    error: Exception | None = None


def install(agent: Agent) -> Desk:
    """Have all that ``agent.permissions`` asks go by a desk, and return it. Where nobody can be asked it stays so."""
    desk = Desk(agent.permissions.ask)
    if agent.permissions.ask:
        agent.permissions.ask = desk.ask
    return desk


class Desk:
    """Where questions wait. ``ask_person(question)`` returns the person's answer; None where nobody can be asked."""

    def __init__(self, ask_person: Callable[[str], str] | None) -> None:
        self.ask_person = ask_person
        self.waiting: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self.here = threading.local()

    def ask(self, text: str) -> str:
        """Return the person's answer to ``text``. Raises EOFError when there is none, also since the subagent was ended."""
        name, stopped = getattr(self.here, "speaker", ("", None))
        if stopped is None:
            return self.ask_person(text)
        question = Question(f"{FROM.format(name)}\n{text}", stopped)
        self.waiting.put(question)
        while not question.over.wait(SLICE):
            if stopped.is_set():  # then nobody waits for it any more, and nobody will answer
                raise EOFError
        if question.error:
            raise question.error
        return question.answer

    @contextmanager
    def speaking_for(self, name: str, stopped: threading.Event) -> Iterator[None]:
        """For this thread: its questions are those of the subagent ``name``, until ``stopped`` is set."""
        self.here.speaker = name, stopped
        try:
            yield
        finally:
            del self.here.speaker

    def wake(self) -> None:
        """Let whoever waits look up at once: something has ended."""
        self.waiting.put(None)

    def serve(self) -> None:
        """Wait a moment for a question, and put it to the person. Ctrl-C goes through."""
        try:
            question = self.waiting.get(timeout=SLICE)
        except queue.Empty:
            return
        if question is None or question.stopped.is_set():
            return
        try:
            question.answer = self.ask_person(question.text)
        except Exception as error:
            question.error = error  # EOFError, as a rule: for whoever asked
        question.over.set()
