"""The agent loop: ask the model, run the tools it calls, hand back the results, until it calls none.

That is all an agent is. The rest of this file is what happens when a reply is not what one hopes for:
it was cut off, it is empty, it was declined, or somebody pressed Ctrl-C.
"""

from __future__ import annotations

from dataclasses import dataclass

from .agent import Agent
from .errors import ModelError
from .history import reminder
from .history import text_block
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


def run(agent: Agent, prompt: str) -> Outcome:
    """Work on ``prompt`` until the model is done, and say how it ended.

    Raises nothing that a model or a tool can cause. Whatever happens, also Ctrl-C, the history stays valid.
    """
    outcome = Outcome()
    if not agent.busy.acquire(blocking=False):
        outcome.end("blocked", "A run is going: wait until it has ended.")
        return outcome
    try:
        agent.history.settle(NOT_STARTED)
        converse(agent, prompt, outcome)
    except KeyboardInterrupt:
        agent.history.note("interrupt", INTERRUPTED)
        outcome.end("interrupted", "Interrupted. The conversation is kept.")
    except ModelError as error:
        outcome.end("error", str(error))
    finally:
        try:
            agent.history.settle(NOT_STARTED)
        finally:
            agent.busy.release()  # also after a second Ctrl-C
    return outcome


def converse(agent: Agent, prompt: str, outcome: Outcome) -> None:
    """The loop itself. It fills in ``outcome`` as it goes."""
    history = agent.history
    if not prompt.strip():
        return outcome.end("blocked", NO_PROMPT)
    history.add("user", [text_block(prompt)])
    asked_to_go_on = False
    for turn in range(1, agent.max_turns + 1):
        request = agent.request()
        request["messages"] = history.deliver()
        reply = agent.call_model(request)
        history.add("assistant", reply.content)
        outcome.turns, outcome.text = turn, reply.text

        if reply.stop_reason == "pause_turn" and not reply.calls:
            continue
        if reply.stop_reason == "refusal":
            return outcome.end("refusal", "The model declined to answer: put the request in other words.")
        if reply.stop_reason == "model_context_window_exceeded":
            return outcome.end("context_window", "The conversation is too long for this model: start a new one.")
        if reply.stop_reason == "max_tokens":
            history.settle(CUT_OFF)
            return outcome.end("max_tokens", "The reply was cut off, it had grown too long: say “go on”.")

        if reply.calls:
            run_calls(agent)
            continue

        if reply.text.strip() or turn == 1 or asked_to_go_on:
            return outcome.end("end_turn", "" if reply.text.strip() else EMPTY)
        history.add("user", [text_block(reminder([GO_ON]))])
        asked_to_go_on = True
    outcome.end("max_turns", f"Stopped after {agent.max_turns} model calls: say “go on” to continue.")
