"""The agent loop: ask the model, run the tools it calls, hand back the results, until it calls none.

That is all an agent is. The rest of this file is what happens when a reply is not what one hopes for, and the
moments at which hooks are called. Whatever else a harness does, it does there: this file does not change any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from .agent import Agent
from .errors import ModelError
from .history import text_block
from .hooks import AfterModel
from .hooks import BeforeModel
from .hooks import RunEnd
from .hooks import Stop
from .hooks import UserPromptSubmit
from .tools import run_calls

NOT_STARTED = "Not started: the run ended before this call was begun."
CUT_OFF = "Not run: your reply was cut off in the middle of this call. Make the call again, in a shorter reply."
INTERRUPTED = "Before this message the person interrupted you: what you were doing may be unfinished."
NO_PROMPT = "The prompt is empty: say what to do."
EMPTY = "The model gave an empty answer: ask it again, or in other words."
GO_ON = "Your answer was empty. Please go on, or say how it ended."


@dataclass
class Outcome:
    """How a run ended: the last reply's text, the reason, the model calls it took, and a line for the person.

    The reason is ``end_turn`` when the model came to its end, else a word for what ended it before.
    """

    text: str = ""
    reason: str = "error"
    turns: int = 0
    detail: str = ""

    def end(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail


def run(agent: Agent, prompt: str, source: str = "person") -> Outcome:
    """Work on ``prompt`` until the model is done, and say how it ended.

    ``source`` says who speaks: person, autopilot, notification or goal. Raises nothing that a model, a tool or a hook
    can cause. Whatever happens, also Ctrl-C, the history stays valid.
    """
    outcome = Outcome()
    if not agent.busy.acquire(blocking=False):
        outcome.end("blocked", "A run is going: wait until it has ended.")
        return outcome
    try:
        agent.halt = ""
        agent.history.settle(NOT_STARTED)
        converse(agent, prompt, source, outcome)
    except KeyboardInterrupt:
        agent.history.note("interrupt", INTERRUPTED, order=0)
        outcome.end("interrupted", "Interrupted. The conversation is kept.")
    except ModelError as error:
        outcome.end("error", str(error))
    finally:
        try:
            agent.history.settle(NOT_STARTED)
            agent.fire(RunEnd(agent, outcome))
        finally:
            agent.busy.release()  # also after a second Ctrl-C
    return outcome


def converse(agent: Agent, prompt: str, source: str, outcome: Outcome) -> None:
    """The loop itself. It fills in ``outcome`` as it goes."""
    history = agent.history
    submitted = agent.fire(UserPromptSubmit(agent, prompt, source))
    if submitted.refused or not prompt.strip():
        return outcome.end("blocked", submitted.refused or NO_PROMPT)
    history.add("user", [text_block(prompt)])
    for text in submitted.context:
        history.note("context", text, cut=True)
    forced, asked_to_go_on, objections = 0, False, []
    for turn in range(1, agent.max_turns + 1):
        request = {} if agent.halt else agent.fire(BeforeModel(agent, agent.request())).request
        if agent.halt:
            return outcome.end("halted", agent.halt)
        request["messages"], objections = history.deliver(objections), []
        reply = agent.call_model(request)
        history.add("assistant", reply.content)
        outcome.turns, outcome.text = turn, reply.text
        agent.fire(AfterModel(agent, reply))

        if reply.stop_reason == "pause_turn" and not reply.calls:
            continue
        if reply.stop_reason == "refusal":
            return outcome.end("refusal", "The model declined to answer: put the request in other words.")
        if reply.stop_reason == "model_context_window_exceeded":
            return outcome.end("context_window", "The conversation is too long for this model: start a new one.")
        cut_off = reply.stop_reason == "max_tokens"
        if reply.calls and not cut_off:
            run_calls(agent)
            continue

        history.settle(CUT_OFF)
        stop = Stop(agent, reply.text, "max_tokens" if cut_off else "end_turn", forced)
        if not (cut_off or reply.text.strip() or turn == 1 or asked_to_go_on):
            stop.objections.append(GO_ON)
            asked_to_go_on = True
        objections = agent.fire(stop).objections
        if agent.halt:
            return outcome.end("halted", agent.halt)
        if not objections and cut_off:
            return outcome.end("max_tokens", "The reply was cut off, it had grown too long: say “go on”.")
        if not objections:
            return outcome.end("end_turn", "" if reply.text.strip() else EMPTY)
        if forced == agent.max_forced:
            return outcome.end("stop_limit", f"Stopped after {forced} objections, the last one: {objections[-1]}")
        forced += 1
        agent.show("notice", text="\n".join(f"  [goes on: {objection}]" for objection in objections))
    outcome.end("max_turns", f"Stopped after {agent.max_turns} model calls: say “go on” to continue.")
