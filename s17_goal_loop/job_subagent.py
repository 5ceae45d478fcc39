"""A subagent that nobody waits for: it goes on beside the conversation as a job, and its report is what the job prints.

It may do what it may do while somebody waits for it, but for one thing: it cannot ask. The person may be typing something
else by then, and an answer that was meant for one question would be given to another. So what would have to be asked is
refused, and it can say in its report what it could not do.
"""

from __future__ import annotations

from .job import KEPT_HEAD
from .job import KEPT_TAIL
from .job import Ended
from .shell import Output
from .subagent import Subagent

SLICE = 0.1  # seconds between two looks whether it was stopped
REPORT = 12_000  # characters: a report is told whole, as it is where somebody waits for it


class Aside:
    """A subagent that has begun. It implements Work."""

    news = REPORT

    def __init__(self, subagent: Subagent) -> None:
        self.subagent = subagent
        self.output = Output(KEPT_HEAD, KEPT_TAIL)

    def wait(self) -> Ended:
        """Return when it has ended, or was stopped, and how; its report is the output then."""
        while not self.subagent.ended.wait(SLICE) and not self.subagent.stopped.is_set():
            pass
        result, is_error = self.subagent.report()
        self.output.keep(result.text)
        return Ended("has not finished" if is_error else "has finished")

    def stop(self) -> None:
        """Stop it: the command that it runs ends, and at its next step it does."""
        self.subagent.stopped.set()
        self.subagent.child.shell.stop()
