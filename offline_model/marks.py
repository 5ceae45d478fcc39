"""What the offline model writes into a reply so that a later request can be judged alone.

A signature tells whether a thinking block came back as it went out. The id of a tool call tells which step of the
script made it. Both are read from the request: the server needs no memory of what it said, so a conversation may go
on after a restart.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha256

HASH = 12  # bytes of each hash in a signature: nobody attacks it, it only has to notice changes
NO_THOUGHT = "0000"
CALL_ID = re.compile(r"toolu_01([0-9a-f]{4})([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{4})[0-9a-f]{12}")


def sign(model: str, text: str, shown: bool) -> str:
    """The signature of a thinking block: a hash of model and text. `shown`: does the text itself go out too?"""
    flag = b"s" if shown else b"o"
    body = flag + _hash(text.encode("utf-8"))
    return base64.b64encode(body + _hash(model.encode("utf-8") + body)).decode("ascii")


def check_signature(model: str, text: str, signature: str) -> str:
    """"good", "edited" (a signature of ours under another text) or "invalid" (not one of this model)."""
    try:
        raw = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return "invalid"
    body, seal = raw[: 1 + HASH], raw[1 + HASH :]
    if seal != _hash(model.encode("utf-8") + body):
        return "invalid"
    if body[:1] == b"o":
        return "good" if text == "" else "edited"
    return "good" if body[1:] == _hash(text.encode("utf-8")) else "edited"


def signs(signature: str, text: str) -> bool:
    """Does this signature belong to a thinking block whose real text is `text`? (The model does not matter.)"""
    try:
        return base64.b64decode(signature)[1 : 1 + HASH] == _hash(text.encode("utf-8"))
    except (binascii.Error, ValueError):
        return False


@dataclass(frozen=True)
class CallMark:
    """What can be read from a tool call's id."""

    scenario: str
    exchange: int
    step: int
    call: int
    thinker: str  # short hash of the model, if the reply began with a thinking block


def make_call_id(scenario: str, exchange: int, step: int, call: int, thinker: str, digest: str) -> str:
    """An id that no other reply of the conversation has. `thinker`: the model, or "" if the reply has no thinking.
    `digest`: hex digits that stand for the request so far (a prompt asked twice gets new ids)."""
    place = f"{short(scenario)}{exchange:02x}{step:02x}{call:02x}"
    return f"toolu_01{place}{short(thinker) if thinker else NO_THOUGHT}{digest[:12]}"


def read_call_id(call_id: str) -> CallMark | None:
    """The mark in an id, or None if the script did not make it."""
    found = CALL_ID.fullmatch(call_id)
    if not found:
        return None
    scenario, exchange, step, call, thinker = found.groups()
    return CallMark(scenario, int(exchange, 16), int(step, 16), int(call, 16), thinker)


def short(name: str) -> str:
    """Four hex digits that stand for a name."""
    return sha256(name.encode("utf-8")).hexdigest()[:4]


def _hash(data: bytes) -> bytes:
    return sha256(data).digest()[:HASH]
