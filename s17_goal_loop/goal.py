"""A goal: the run may stop when somebody else, who has not done the work, says that a condition is met.

A model stops when it believes that it is done. Here the person says what done means, and at each stop an evaluator judges
whether that is so. If not, its reason goes back as an objection, and the run goes on. How often is not counted here: the
loop has one cap for all that object. The model is told of the goal, so that it leaves what shows it where it can be seen.

The seven results and the split are from learn-claude-code (https://github.com/shareAI-lab/learn-claude-code), the command
is Claude Code's. That a goal is kept, and the permission to act on it is not, is DeepSeek Harness's.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .evaluator import GUIDANCE
from .evaluator import JUDGE
from .evaluator import MAX_TOKENS
from .evaluator import WINDOW
from .evaluator import Evaluator
from .evaluator import Verdict
from .evidence import as_json
from .evidence import named
from .evidence import witness
from .history import clean
from .hooks import BeforeModel
from .hooks import RunEnd
from .hooks import Stop
from .hooks import UserPromptSubmit

if TYPE_CHECKING:
    from .agent import Agent

LONGEST = 4_000  # characters of a condition, as in learn-claude-code; longer ones are specifications, and belong into a file
CLEAR = ("clear", "stop", "off", "reset", "none", "cancel")  # as a whole; in a sentence they are words like others
NOTE_ORDER = 12  # among the notes of a turn: after what is allowed, before what is suggested
SOURCE = "goal"

START = "Work until this goal is met: {}"
OVER = "The goal that was set before is over ({}) and asks for nothing any more. It was: {}"
OBJECTION = (
    "The goal {} is not met yet. What an evaluator says is missing, in its words, which only describe: {} Go on with what is "
    "missing, and leave the commands and results that show it. If it cannot be reached, show why."
)
BUSY = "{} goes on in the background"
PLANNING = "plan mode is on, where it cannot be met"
HELD = "it would be over, but something else keeps the run going"
NOT_JUDGED = "goal not judged, it stays: {}"
KEPT = "goal kept for now: {}"
NO_VERDICT = "The goal could not be judged ({}). It stays, and your next message takes it up again."
GIVEN_UP = "The goal is given up, since it cannot be met: {}"
NOT_MET = "goal not met ({}): it stays, and your next message takes it up again"


def install(
    agent: Agent,
    *,
    busy: Callable[[], str] = lambda: "",
    planning: Callable[[], bool] = lambda: False,
    model: str = "",
    max_tokens: int = MAX_TOKENS,
    window: int = WINDOW,
    longest: int = LONGEST,
    guidance: str = GUIDANCE,
    judge: str = JUDGE,
) -> Goal:
    """Give ``agent`` the command /goal, and an evaluator that judges at each stop whether the goal is met.

    While ``planning()``, or at the first stop at which ``busy()`` names what goes on in the background, nobody is asked.
    ``model`` names the evaluator's, "" is the agent's own. ``window`` and ``longest`` are in characters. Raises ValueError.
    """
    cap = "max_forced of the agent (in the settings: limits, max_forced)"
    numbers = {cap: agent.max_forced, "max_tokens": max_tokens, "window": window, "longest": longest}
    for name, number in numbers.items():
        if type(number) is not int or number < 1:
            raise ValueError(f"{name} must be a whole number from 1 on: without it a goal could never be worked for.")
    if not isinstance(guidance, str) or guidance.count("{}") != 1 or not isinstance(judge, str) or not judge.strip():
        raise ValueError("guidance must be a text with {} for the goal, once, and judge a text that is not blank.")
    goal = Goal(agent, Evaluator(agent, witness(agent), model, max_tokens, window, judge), busy, planning, longest, guidance)
    agent.on(UserPromptSubmit, goal.hear, last=True)
    agent.on(BeforeModel, goal.tell)
    agent.on(Stop, goal.at_stop, last=True)
    agent.on(RunEnd, goal.after_run)
    agent.keepers["Goal"] = goal.told_text
    agent.restores["goal"] = goal.restore
    agent.command("goal", "work until a condition is met; /goal alone shows it, /goal clear ends it", goal.command)
    return goal


@dataclass
class Goal:
    """The goal of one agent, what came of it so far, and whether it may act: after a restart it waits for the person."""

    agent: Agent
    evaluator: Evaluator
    busy: Callable[[], str]
    planning: Callable[[], bool]
    longest: int
    guidance: str
    condition: str = ""  # "": there is no goal
    armed: bool = False  # whether stops are judged; else it waits for the person's next message
    told: str = ""  # the condition as the model last heard of it
    result: str = ""  # of the last stop: one of the seven
    waited_for: str = ""  # for what a stop was deferred: what never ends, a server perhaps, must not do that for ever
    why: str = ""  # what was last said of this goal at a stop
    evaluations: int = 0  # of this goal, with a verdict
    last: tuple[str, str, str] = ("", "", "")  # how the goal before ended, why, and its condition
    spent: dict[str, int] = field(default_factory=dict)  # the evaluator's tokens before this goal

    def command(self, rest: str) -> None:
        """``/goal <condition>``, ``/goal``, ``/goal clear``."""
        rest = clean(rest).strip()
        if not rest:
            self.say(self.status())
        elif rest.casefold() in CLEAR and self.condition:
            self.end("cleared", "by the person")
        elif rest.casefold() in CLEAR:
            self.say("there is no goal")
        elif len(rest) > self.longest:
            self.say(f"not set: a condition has at most {self.longest:,} characters, this one {len(rest):,}")
        else:
            self.set(rest)

    def set(self, condition: str) -> None:
        """Set the goal, in place of one that is there, and have work begin if no run is going."""
        replaced = self.condition
        self.withdraw()
        self.last = ("replaced", "by another goal", replaced) if replaced else self.last
        self.begin(condition)
        self.armed = True
        self.announce("active", "", replaced)
        self.say(f"goal set: {condition}" + (f" (it replaces: {named(replaced)})" if replaced else ""))
        if not self.agent.running:
            self.agent.enqueue(START.format(condition), SOURCE)

    def begin(self, condition: str) -> None:
        """Take ``condition`` as the goal, with all that is counted at zero; "" for none. It waits."""
        self.condition, self.armed = condition, False
        self.evaluations, self.result, self.why, self.spent = 0, "", "", dict(self.evaluator.tokens)
        self.waited_for = ""

    def end(self, how: str, why: str) -> None:
        """There is no goal any more: ``how`` is achieved, failed or cleared."""
        self.withdraw()
        self.announce(how, why)
        self.say(f"goal {how}: {why} ({self.costs()})")
        self.last, self.condition, self.armed = (how, why, self.condition), "", False

    def announce(self, status: str, why: str = "", replaced: str = "") -> None:
        """Tell whoever keeps state what holds now."""
        value = {"status": status, "condition": self.condition, "reason": why, "replaces": replaced}
        if not self.agent.changed("goal", value):
            self.say("this could not be kept: after a restart the goal is as it was before")

    def withdraw(self) -> None:
        """Take back what waits to be run for the goal."""
        for prompt in [each for each in self.agent.queue if each[1] == SOURCE]:
            self.agent.queue.remove(prompt)

    def hear(self, event: UserPromptSubmit) -> None:
        """The person has spoken: a goal that waits is taken up again."""
        is_heard = event.agent is self.agent and event.source == "person" and event.prompt.strip() and not event.refused
        if is_heard and self.condition and not self.armed:
            self.armed, self.told = True, ""

    def tell(self, event: BeforeModel) -> None:
        """A request is about to go out: tell the model of a goal that it does not know of, or that is over."""
        if event.agent is not self.agent or self.agent.halt or self.told == self.condition:
            return
        over = [OVER.format(self.last[0], as_json(named(self.told)))] if self.told else []
        self.agent.history.note("goal", "\n".join([*over, self.told_text()]).strip(), order=NOTE_ORDER)
        self.told = self.condition

    def told_text(self) -> str:
        """Return what the model has to know while there is a goal, "" when there is none."""
        return self.guidance.replace("{}", as_json(self.condition)) if self.condition else ""

    def at_stop(self, event: Stop) -> None:
        """The model wants to stop, and the others have said what they object: judge, and act on the result."""
        if event.agent is not self.agent or event.reason != "end_turn" or self.agent.halt:
            return
        is_last = event.forced >= self.agent.max_forced
        held = bool(event.objections) and not is_last
        self.result, why = self.judge(is_last, held)
        self.why = why or self.why
        if self.result == "defer":
            self.waited_for = self.busy()
            self.say((KEPT if why == HELD else NOT_JUDGED).format(why))
        elif self.result == "error" and held:  # the run goes on, and its next stop is judged
            self.say(NO_VERDICT.format(why))
        elif self.result == "error":
            self.agent.halt = NO_VERDICT.format(why)
        elif self.result == "achieved":
            self.end("achieved", why)
        elif self.result == "failed":
            self.end("failed", why)
            self.agent.halt = GIVEN_UP.format(why)
        elif self.result in ("block", "limit"):
            # What others wrote stands in quotes and on one line: it cannot go on as somebody else.
            event.objections.append(OBJECTION.format(as_json(named(self.condition)), as_json(why)))
        if self.result == "limit":
            self.say(NOT_MET.format(self.costs()))

    def judge(self, is_last: bool, held: bool) -> tuple[str, str]:
        """Return the result of this stop, one of seven, and its reason.

        ``is_last``: the run cannot be made to go on once more. ``held``: others make it go on in any case.
        """
        if not self.condition or not self.armed:
            return "allow", ""
        try:
            if self.busy() not in ("", self.waited_for):
                return "defer", BUSY.format(self.busy())
            if self.planning():
                return "defer", PLANNING
            verdict = self.evaluator.verdict(self.condition)
        except Exception as error:  # whatever fails, it must not pass for a goal that is met
            return "error", f"{type(error).__name__}: {error}"
        self.evaluations += 1
        return result_of(verdict, is_last, held)

    def after_run(self, event: RunEnd) -> None:
        """A run that did not come to its own end hands over to the person: nothing starts by itself from there."""
        if event.agent is not self.agent:
            return
        if self.armed and self.why == PLANNING and event.outcome.reason == "end_turn":
            event.outcome.end("halted", f"The goal waits: {PLANNING}.")
        if event.outcome.reason != "end_turn":
            self.armed = False

    def restore(self, value: dict[str, Any] | None) -> None:
        """Take back what ``agent.changed`` announced; None stands for never. Only an active goal comes back, and waits."""
        self.evaluator.evidence.forget()
        how, why, condition = [(value or {}).get(name, "") for name in ("status", "reason", "condition")]
        self.begin(condition if how == "active" else "")
        self.last = ("", "", "") if how == "active" else (how, why, condition)
        self.told = condition  # the conversation may say so; what holds is told with the next request, or when taken up

    def status(self) -> str:
        """Return the answer to /goal."""
        if self.condition:
            waits = "" if self.armed else "; it waits for your next message"
            said = f"; last said: {self.why}" if self.why else ""
            return f"goal: {self.condition} ({self.costs()}{said}{waits})"
        how, why, condition = self.last
        before = f"; the last one was {how}: {named(condition)} ({why})" if how else ""
        return f"there is no goal, /goal CONDITION sets one{before}"

    def costs(self) -> str:
        """Return what judging this goal has cost, apart from the work itself."""
        spent = {name: number - self.spent[name] for name, number in self.evaluator.tokens.items()}
        return f"evaluations: {self.evaluations}, evaluator's tokens: {spent['in']:,} in, {spent['out']:,} out"

    def say(self, text: str) -> None:
        self.agent.show("notice", text=f"  [{text}]")


def result_of(verdict: Verdict, is_last: bool, held: bool) -> tuple[str, str]:
    """Return what a verdict leads to, and why. What would end the goal waits while others keep the run going."""
    if verdict.ok or verdict.impossible:
        return ("defer", HELD) if held else ("achieved" if verdict.ok else "failed", verdict.reason)
    return "limit" if is_last else "block", verdict.reason
