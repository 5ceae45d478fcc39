"""Evidence: what was run and changed, written down by the program while it happened.

"All tests pass" is written more quickly than a test. So whoever judges the work should read first what no model has
written: commands with their exit status and the end of their output, files that were changed, in the order in which that
happened. It comes from the facts of the tools, and never from what a command prints.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING
from typing import Any

from .background import JobEnd
from .hooks import PostToolUse

if TYPE_CHECKING:
    from .agent import Agent

LATEST = 5  # steps that stand in it in any case; after them those that failed, then the others
MAX_STEPS = 200  # commands and files remembered; far more than the window holds
LINES = 20  # of a command's output, the last: there most programs say how it went
OUTPUT = 2_000  # characters of these lines
COMMAND = 500  # characters of a command, and of the arguments of a call
EARLIER = 10  # exit statuses of earlier runs of the same command
SHOWN = 200  # characters of a condition where it is only named


def witness(agent: Agent) -> Evidence:
    """Have what ``agent`` and its subagents do from now on written down. Returns the evidence, which grows."""
    evidence = Evidence(agent)
    agent.on(PostToolUse, evidence.keep)
    agent.on(JobEnd, evidence.keep_end)
    return evidence


class Evidence:
    """What an agent and its subagents have run and changed, from the facts of their tools, each as it was last."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.steps: dict[tuple[str, str], dict[str, Any]] = {}  # (kind, command or path) -> step, the latest last
        self.calls: set[str] = set()  # ids of calls whose result stands here
        self.running: dict[str, dict[str, Any]] = {}  # the steps of background jobs, until these have ended
        self.lock = threading.Lock()  # subagents run in threads of their own

    def keep(self, event: PostToolUse) -> None:
        """A tool has run: remember the command with its exit status, or the file that it changed."""
        command, path, job = (event.facts.get(name) for name in ("command", "path", "job"))
        if event.facts.get("ended"):
            if self.end(job, event.facts.get("exit_status"), event.result):
                self.calls.add(event.call["id"])
            return
        tool = event.agent.tools.get(event.call["name"])
        if isinstance(command, str):
            key, step = ("command", command), {"command": in_short(command, COMMAND)}
            step |= {"exit_status": event.facts.get("exit_status"), "output_ends": end_of(event.result)}
        elif isinstance(path, str) and not event.is_error and tool and not tool.read_only:
            key, step = ("changed", path), {"changed": in_short(path, COMMAND)}
        else:
            return
        if event.agent is not self.agent:
            step["by"] = "a subagent"
        with self.lock:
            self.add(key, step)
            self.calls.add(event.call["id"])
            if job:
                self.running[job] = step

    def keep_end(self, event: JobEnd) -> None:
        """A command that ran in the background has ended, and the model is told: remember how."""
        self.end(event.id, event.exit_status, event.output)

    def end(self, job: str, exit_status: int | None, output: str) -> bool:
        """Complete the step of a job, if it is open. Its place stays where it began: what was changed since, it may not
        have seen."""
        with self.lock:
            step = self.running.pop(job, None)
            if step:
                step |= {"exit_status": exit_status, "output_ends": end_of(output)}
        return step is not None

    def forget(self) -> None:
        """Another conversation begins, and in it nothing was run yet."""
        with self.lock:
            for kept in (self.steps, self.calls, self.running):
                kept.clear()

    def add(self, key: tuple[str, str], step: dict[str, Any]) -> None:
        before = self.steps.pop(key, None)
        if before and "exit_status" in step:
            earlier = [*before.get("earlier_exit_statuses", []), before["exit_status"]]
            if ended := [status for status in earlier if status is not None][-EARLIER:]:
                step["earlier_exit_statuses"] = ended
        self.steps[key] = step
        if len(self.steps) > MAX_STEPS:
            old = [*self.steps][:-LATEST]
            del self.steps[next((key for key in old if not has_failed(self.steps[key])), old[0])]

    def fitting(self, room: int) -> tuple[list[dict[str, Any]], int]:
        """Return the steps for which there is ``room`` (characters of JSON), oldest first, and how many are left out.

        The latest go first, then those that failed, then the others; one that is too long goes in without its output.
        """
        with self.lock:
            steps = list(self.steps.values())
        latest_first = sorted(range(len(steps)), reverse=True)
        failed = [number for number in latest_first if has_failed(steps[number])]
        chosen: dict[int, dict[str, Any]] = {}
        for number in dict.fromkeys([*latest_first[:LATEST], *failed, *latest_first]):
            bare = {name: value for name, value in steps[number].items() if name != "output_ends"}
            for step in (steps[number], bare):
                if size_of(step) <= room:
                    chosen[number] = step
                    room -= size_of(step)
                    break
        return [chosen[number] for number in sorted(chosen)], len(steps) - len(chosen)


def has_failed(step: dict[str, Any]) -> bool:
    """Whether a command did not end well, or nobody knows how it ended."""
    return step.get("exit_status", 0) != 0


def end_of(output: str) -> str:
    """Return the last lines of what a command has printed."""
    return "\n".join(output.splitlines()[-LINES:])[-OUTPUT:]


def named(condition: str) -> str:
    return in_short(condition, SHOWN)


def in_short(text: str, limit: int) -> str:
    """Return ``text``, or its beginning and end with the number of characters between them."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} [{len(text) - 2 * half} characters left out] {text[-half:]}"


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def size_of(value: Any) -> int:
    return len(as_json(value))
