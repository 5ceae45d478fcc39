"""What a log says: the conversation, the state, the cost, and what was left open, each computed from the records alone.

A fold goes through the records in order and keeps only the value so far. It asks nobody and changes nothing, so the same
log always gives the same answer: after a crash, in a fork, in a test. Nothing that can be computed here is kept
anywhere else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Iterable
from typing import Iterator

from .history import Block
from .history import Message
from .history import result_block
from .history import text_block
from .session_log import Record
from .session_log import SessionError
from .thoughts import mark_of

LOST = "[The log of this session is damaged here: something is missing.]"
LOST_RESULT = "The log of this session is damaged here: the outcome is unknown. Look at the state of things."


@dataclass
class Past:
    """What a log says up to a record."""

    header: Record = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    states: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, Counter[str]] = field(default_factory=dict)  # model -> what the API counted, summed up
    begun: set[str] = field(default_factory=set)  # ids of the calls that were begun
    thinkers: dict[str, str] = field(default_factory=dict)  # signature of a thought -> the model that had it
    runs: int = 0  # that have ended
    reason: str = ""  # why the last one ended
    is_open: bool = False  # whether one had begun and not ended
    damaged: int = 0  # lines that could not be read
    is_whole: bool = True  # whether everything could be written
    unknown: int = 0  # records of types that are not known here
    prompt: str = ""  # the last thing the person said, on one line

    def open_calls(self) -> dict[str, bool]:
        """Return the ids of the last calls without result, each with whether it may have been begun."""
        is_known = self.is_whole and not self.damaged  # what is missing may be the record that it was begun
        return {call: call in self.begun or not is_known for call in waiting(self.messages)}


def past(records: Iterable[Record]) -> Past:
    """Return what ``records`` say, all folds in one walk."""
    so_far = Past()
    for record in records:
        take = TAKE.get(record["type"])
        if take:
            take(so_far, record)
        else:
            so_far.unknown += 1
    return so_far


def messages(records: Iterable[Record]) -> list[Message]:
    """Return the conversation, as it was added and replaced; not mended."""
    return past(records).messages


def states(records: Iterable[Record]) -> dict[str, Any]:
    """Return the last value of each state, by its name."""
    return past(records).states


def cost(records: Iterable[Record]) -> dict[str, Counter[str]]:
    """Return the tokens used, by model and by the API's own names for the kinds of tokens."""
    return past(records).tokens


def open_calls(records: Iterable[Record]) -> dict[str, bool]:
    """Return the ids of the last calls that have no result yet, each with whether it may have been begun."""
    return past(records).open_calls()


def take_header(past: Past, record: Record) -> None:
    past.header = record


def take_message(past: Past, record: Record) -> None:
    past.is_open = True
    said = [block["text"] for block in record["blocks"] if block["type"] == "text"] if record["role"] == "user" else []
    own = [text for text in said if not text.startswith("<system-reminder>")]
    past.prompt = " ".join(own[0].split()) if own else past.prompt
    if past.messages and past.messages[-1]["role"] == record["role"]:
        past.messages[-1]["content"].extend(record["blocks"])
    else:
        past.messages.append({"role": record["role"], "content": list(record["blocks"])})


def take_replaced(past: Past, record: Record) -> None:
    past.messages = [{"role": m["role"], "content": list(m["content"])} for m in record["messages"]]


def take_begun(past: Past, record: Record) -> None:
    past.begun.add(record["call"])


def take_state(past: Past, record: Record) -> None:
    past.states[record["name"]] = record["value"]


def take_usage(past: Past, record: Record) -> None:
    counted = {name: number for name, number in record["usage"].items() if type(number) is int}
    past.tokens.setdefault(record["model"], Counter()).update(counted)
    if past.messages and past.messages[-1]["role"] == "assistant":
        past.thinkers |= {mark: record["model"] for mark in map(mark_of, past.messages[-1]["content"]) if mark}


def take_run_ended(past: Past, record: Record) -> None:
    past.runs, past.reason, past.is_open = past.runs + 1, record["reason"], False
    past.begun &= set(waiting(past.messages))


def take_damaged(past: Past, record: Record) -> None:
    past.damaged += 1


def take_hole(past: Past, record: Record) -> None:
    past.is_whole = False


TAKE = {
    "session": take_header,
    "message": take_message,
    "replaced": take_replaced,
    "begun": take_begun,
    "state": take_state,
    "usage": take_usage,
    "run_ended": take_run_ended,
    "damaged": take_damaged,
    "hole": take_hole,
}


def boundary(records: Iterable[Record], run: float | None = None) -> int:
    """Return how many records a fork takes: up to the end of run ``run`` (from 1), that record included.

    Without a number: of the last run that has ended, and what follows it, unless another run has begun there. Raises
    SessionError ("boundary", "open_run") when there is no such end.
    """
    runs, is_open, end = 0, False, 0
    for number, record in enumerate(records, 1):
        is_open = record["type"] in ("message", "begun") or is_open and record["type"] != "run_ended"
        runs += record["type"] == "run_ended"
        end = end if is_open else number
        if runs == run and record["type"] == "run_ended":
            return end
    if run is None and runs:
        return end
    if run == runs + 1 and is_open:
        raise SessionError("open_run", f"Run {runs + 1} has not ended, and a fork cannot begin in the middle of a run.")
    known = f"give a number from 1 to {runs}" if runs else "it has none yet"
    raise SessionError("boundary", f"A fork begins where a run of the session has ended: {known}.")


def mended(messages: list[Message]) -> list[Message]:
    """Return messages that the Messages API takes, for those of a log in which lines may be missing.

    What is whole stays as it is. The last calls may still be open: those are settled as after an interrupt.
    """
    whole: list[Message] = []
    parts = [part for message in messages for part in apart(message)]
    for number, (role, blocks) in enumerate(parts, 1):
        calls = waiting(whole)
        blocks = [block for block in blocks if fits(block, role, calls)]
        if role == "user":
            results = [block for block in blocks if block["type"] == "tool_result"]
            others = [block for block in blocks if block["type"] != "tool_result"]
            answered = {block["tool_use_id"] for block in results}
            if others or number < len(parts):
                results += [lost_result(call) for call in calls if call not in answered]
            blocks = results + others
        elif blocks and (not whole or whole[-1]["role"] == "assistant"):
            whole.append({"role": "user", "content": [lost_result(call) for call in calls] or [text_block(LOST)]})
        if blocks and whole and whole[-1]["role"] == role:
            whole[-1]["content"].extend(blocks)
        elif blocks:
            whole.append({"role": role, "content": blocks})
    return whole


def apart(message: Message) -> Iterator[tuple[str, list[Block]]]:
    """Yield role and blocks; in parts where two replies have run into each other, what stood between them being lost."""
    start, blocks = 0, message["content"]
    for place in range(1, len(blocks)):
        if blocks[place - 1]["type"] == "tool_use" and blocks[place]["type"] != "tool_use":
            yield message["role"], blocks[start:place]
            start = place
    yield message["role"], blocks[start:]


def fits(block: Block, role: str, calls: list[str]) -> bool:
    """Whether a block may stand in a message of ``role`` that answers ``calls``."""
    if block["type"] == "text":
        return bool(block["text"].strip())
    if block["type"] == "tool_result":
        return role == "user" and block["tool_use_id"] in calls
    return role == "assistant" or block["type"] in ("image", "document")


def lost_result(call: str) -> Block:
    return result_block({"id": call}, LOST_RESULT, is_error=True)


def waiting(messages: list[Message]) -> list[str]:
    """Return the ids of the calls in the last assistant message that have no result behind it."""
    last = messages[-2:] if messages and messages[-1]["role"] == "user" else messages[-1:]
    answered = {b["tool_use_id"] for m in last for b in m["content"] if b["type"] == "tool_result"}
    return [b["id"] for m in last for b in m["content"] if b["type"] == "tool_use" and b["id"] not in answered]
