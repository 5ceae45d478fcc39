"""The autopilot: an approved plan is carried out, run by run, until it is done or no longer moves.

A model stops when it thinks it has done enough, and the list often says otherwise. So the harness sends it on. That needs
a brake: progress is a new maximum of completed items, and nothing else, since an item that merely becomes in progress is
no work done. After some runs without progress the person gets the wheel back. The rules and the brake are from harness9
(https://github.com/ZhangShenao/harness9), where they sit in the terminal's code and no test reaches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING

from .hooks import RunEnd
from .hooks import StateChanged
from .plan_mode import PlanMode
from .todo import OPEN
from .todo import Todo
from .todo import TodoStore
from .todo import match
from .todo import names

if TYPE_CHECKING:
    from .agent import Agent
    from .loop import Outcome

MAX_STUCK = 3  # runs without progress: a step may take a run or two to look around, but not for ever
SOURCE = "autopilot"
RULES = """Carry out the approved plan, item by item, until no item of the todo list is open. Four rules:
1. Set an item to in_progress before you work on it.
2. Do its work with tools: a changed status alone is no work.
3. Set it to completed when you have looked at the result, and not before.
4. Write no reports of progress in between: go on with the next item."""
GO_ON = "Go on with the approved plan."
NOTHING_DONE = "In the last run no item was completed: complete one, or say what is in the way."
NEXT = "Next: {}."
NOTHING_LISTED = "The todo list is empty: write what is left of the plan with todo_write."


@dataclass(frozen=True)
class Verdict:
    """What comes after a run: ``continue``, ``finished`` or ``stagnated``, and the two counts to go on with."""

    word: str
    best: int  # the most items that were ever completed
    stuck: int  # runs without progress, one after the other


def judge(items: list[Todo], best: int, stuck: int, max_stuck: int = MAX_STUCK) -> Verdict:
    """Return the verdict after a run that ended well, from the list and the counts before it. Pure."""
    done = sum(item.status == "completed" for item in items)
    if items and not any(item.status in OPEN for item in items):
        return Verdict("finished", max(best, done), 0)
    stuck = 0 if done > best else stuck + 1
    return Verdict("stagnated" if stuck >= max_stuck else "continue", max(best, done), stuck)


def install(
    agent: Agent,
    *,
    store: TodoStore,
    plan: PlanMode,
    max_stuck: int = MAX_STUCK,
    rules: str = RULES,
    go_on: str = GO_ON,
) -> Autopilot:
    """Let ``agent`` carry out what is approved in ``plan``; ``store`` holds its steps. Raises ValueError."""
    if type(max_stuck) is not int or max_stuck < 1:
        raise ValueError("max_stuck must be a whole number from 1 on: so many runs without progress end the autopilot.")
    for name, text in (("rules", rules), ("go_on", go_on)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name} must be a text, and not blank.")
    pilot = Autopilot(agent, store, plan, max_stuck, rules, go_on)
    plan.on_approval.append(pilot.begin)
    agent.on(StateChanged, pilot.remember)
    agent.on(RunEnd, pilot.after_run)
    return pilot


@dataclass
class Autopilot:
    """Whether an approved plan is being carried out, and how far that has come. Lives in memory only."""

    agent: Agent
    store: TodoStore
    plan: PlanMode
    max_stuck: int
    rules: str
    go_on: str
    flying: bool = False
    full: bool = True  # whether the next prompt states the rules
    best: int = 0
    stuck: int = 0
    known: list[Todo] = field(default_factory=list)  # each item since the approval, as it was last seen

    def begin(self) -> None:
        """A plan was approved: from the end of this run on, work on it."""
        self.withdraw()
        self.flying, self.full = True, True
        self.best = sum(item.status == "completed" for item in self.store.items())
        self.stuck = -1  # the run of the approval is none of those that count
        self.known = self.store.items()

    def forget(self) -> None:
        """The conversation was summarised: state the rules in full the next time."""
        self.full = True

    def withdraw(self) -> None:
        """Take back what waits to be run for us."""
        for prompt in [each for each in self.agent.queue if each[1] == SOURCE]:
            self.agent.queue.remove(prompt)

    def remember(self, event: StateChanged) -> None:
        if self.flying and event.name == "todos":
            self.known = self.store.items() + match(self.store.items(), self.known)[1]

    def after_run(self, event: RunEnd) -> None:
        """Send the model on, or say why not, behind what the person is told of the run."""
        outcome, items = event.outcome, self.store.items()
        if not self.flying:
            return
        if outcome.reason != "end_turn":
            return self.stop(outcome, f"stopped, since the run ended with {outcome.reason}")
        if self.plan.active or self.plan.pending:
            return self.stop(outcome, "stopped for plan mode")
        if any(source == SOURCE for _, source in self.agent.queue):
            return  # somebody else had the floor, and ours still waits
        verdict = judge(items, self.best, self.stuck, self.max_stuck)
        self.best, self.stuck = verdict.best, verdict.stuck
        if verdict.word == "finished":
            return self.stop(outcome, "finished")
        if verdict.word == "stagnated":
            outcome.reason = "halted"
            runs = "1 run" if self.stuck == 1 else f"{self.stuck} runs"
            return self.stop(outcome, f"stopped after {runs} in which no item was completed: over to you")
        self.say(outcome, "goes on")
        following = [item for item in items if item.status in OPEN][:1]
        prompt = [self.rules if self.full else self.go_on]
        prompt += [NOTHING_DONE] if self.stuck else []
        prompt += [NEXT.format(names(following)) if following else NOTHING_LISTED]
        self.agent.enqueue("\n".join(prompt), SOURCE)
        self.full = False

    def stop(self, outcome: Outcome, words: str) -> None:
        self.withdraw()
        self.flying = False
        items = self.store.items()
        cancelled = [item for item in items if item.status == "cancelled"]
        gone = [item for item in match(items, self.known)[1] if item.status != "completed"]
        words += f", cancelled: {names(cancelled)}" if cancelled else ""
        words += f", dropped from the list: {names(gone)}" if gone else ""
        self.say(outcome, words)

    def say(self, outcome: Outcome, words: str) -> None:
        """Add a line to what the person is told of the run: it comes after the reply, and never into it."""
        items = self.store.items()
        done = sum(item.status == "completed" for item in items)
        outcome.detail = f"{outcome.detail} Autopilot: {done}/{len(items)} completed, {words}.".strip()
