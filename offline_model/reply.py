"""Turns a step of the script into a message of the API, whole or as a stream of events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from . import marks
from .accountant import estimate
from .models import Model
from .script import Turn

JSON_PIECE = 24  # characters in one streamed piece of a tool's input: a few pieces for an ordinary call


@dataclass(frozen=True)
class Reply:
    """One assistant message, ready to be sent."""

    id: str
    model: str
    content: list[dict]
    stop_reason: str
    stop_sequence: str | None
    cut_json: str | None  # what there is of the last call's input, if the limit fell inside it
    output_tokens: int
    thinking_tokens: int

    def message(self, usage: dict) -> dict:
        """The whole message, as POST /v1/messages answers without streaming."""
        refused = {"type": "refusal", "category": None, "explanation": None}
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self.content,
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "stop_details": refused if self.stop_reason == "refusal" else None,
            "usage": usage,
        }

    def usage(self, charged: dict) -> dict:
        """Input as charged, and this reply's output."""
        return {
            **charged,
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"thinking_tokens": self.thinking_tokens},
            "service_tier": "standard",
        }


def compose(turn: Turn, request: dict, model: Model, scenario: str, digest: str, input_tokens: int) -> Reply:
    """The reply of this turn, cut where max_tokens or the context window ends."""
    step = turn.step
    limit = request["max_tokens"]
    cut_reason = "max_tokens"
    if model.context - input_tokens < limit:
        limit, cut_reason = max(0, model.context - input_tokens), "model_context_window_exceeded"
    content: list[dict] = []
    spent = 0
    stop_reason = step.stop_reason or ("tool_use" if step.calls else "end_turn")
    stop_sequence = cut_json = None
    thinks = bool(step.thinking) and _thinks(request, model) and limit > 0
    if thinks:
        shown = _shows_thinking(request)
        content.append(
            {
                "type": "thinking",
                "thinking": step.thinking if shown else "",
                "signature": marks.sign(model.id, step.thinking, shown),
            }
        )
        spent = min(limit, estimate(step.thinking))
    thinking_tokens = spent
    text, stop_sequence = _until_stop_sequence(step.text, request.get("stop_sequences") or [])
    fits = _first_tokens(text, limit - spent)
    if fits.strip():
        content.append({"type": "text", "text": fits})
    spent += estimate(fits)
    cut = fits != text or limit == 0
    if stop_sequence and not cut:
        stop_reason = "stop_sequence"
    for number, call in enumerate([] if stop_sequence else step.calls):
        if cut or spent >= limit:
            cut = True
            break
        block = {
            "type": "tool_use",
            "id": marks.make_call_id(
                scenario, turn.exchange, turn.step_index, number, model.id if thinks else "", digest
            ),
            "name": call.name,
            "input": call.input,
        }
        written = json.dumps(call.input, ensure_ascii=False)
        fits = _first_tokens(written, limit - spent)
        spent += estimate(fits)
        if fits != written:
            cut, cut_json, block["input"] = True, fits, {}
        content.append(block)
    if cut:
        stop_reason, stop_sequence = cut_reason, None
    return Reply(
        id=f"msg_01{digest[:22]}",
        model=model.id,
        content=content,
        stop_reason=stop_reason,
        stop_sequence=stop_sequence,
        cut_json=cut_json,
        output_tokens=spent if limit == 0 else max(1, spent),
        thinking_tokens=thinking_tokens,
    )


def events(reply: Reply, usage: dict) -> Iterator[dict]:
    """The reply as the events of a stream. Each is a dict whose "type" is also the event's name."""
    start = reply.message({**usage, "output_tokens": 1, "output_tokens_details": None})
    start.update(content=[], stop_reason=None, stop_sequence=None, stop_details=None)
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(reply.content):
        yield {"type": "content_block_start", "index": index, "content_block": _opening(block)}
        if index == 0:
            yield {"type": "ping"}
        last = index == len(reply.content) - 1
        for delta in _deltas(block, reply.cut_json if last else None):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    whole = reply.message(usage)
    yield {
        "type": "message_delta",
        "delta": {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")},
        "usage": {name: value for name, value in usage.items() if name not in ("cache_creation", "service_tier")},
    }
    yield {"type": "message_stop"}


def broken_off(stream: Iterator[dict], characters: int) -> Iterator[dict]:
    """The stream up to so many characters of content."""
    left = characters
    for event in stream:
        if event["type"] == "content_block_delta":
            name, piece = _content_of(event["delta"])
            if len(piece) >= left:
                yield {**event, "delta": {**event["delta"], name: piece[:left]}}
                return
            left -= len(piece)
        elif event["type"] == "message_delta":
            return
        yield event


def _content_of(delta: dict) -> tuple[str, str]:
    for name in ("text", "thinking", "partial_json"):
        if name in delta:
            return name, delta[name]
    return "signature", ""


def _opening(block: dict) -> dict:
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
    return {**block, **empty[block["type"]]}


def _deltas(block: dict, cut_json: str | None) -> Iterator[dict]:
    if block["type"] == "text":
        for piece in _words(block["text"]):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        for piece in _words(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        written = json.dumps(block["input"], ensure_ascii=False) if cut_json is None else cut_json
        yield {"type": "input_json_delta", "partial_json": ""}
        for start in range(0, len(written), JSON_PIECE):
            yield {"type": "input_json_delta", "partial_json": written[start : start + JSON_PIECE]}


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _first_tokens(text: str, tokens: int) -> str:
    """As much of the text as so many tokens hold."""
    if estimate(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _until_stop_sequence(text: str, sequences: list[str]) -> tuple[str, str | None]:
    found = [(text.find(sequence), sequence) for sequence in sequences if sequence in text]
    if not found:
        return text, None
    place, sequence = min(found)
    return text[:place], sequence


def _thinks(request: dict, model: Model) -> bool:
    asked = (request.get("thinking") or {}).get("type")
    return model.always_thinks if asked is None else asked != "disabled"


def _shows_thinking(request: dict) -> bool:
    thinking = request.get("thinking") or {}
    # Only the older "enabled" shows it unless told otherwise.
    return (thinking.get("display") or ("summarized" if thinking.get("type") == "enabled" else "")) == "summarized"
