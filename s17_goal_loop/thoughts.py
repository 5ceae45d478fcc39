"""Thoughts belong to the model that had them: another one refuses a request in which they stand."""

from __future__ import annotations

from typing import Any

from .history import Message


def mark_of(block: dict[str, Any]) -> str:
    """Return by what a thought is known, its signature; "" for a content block that is none."""
    return (block.get("signature") or block.get("data") or "") if block["type"].endswith("thinking") else ""


def without_thoughts(messages: list[Message], thinkers: dict[str, str], name: str) -> list[Message]:
    """Return the messages without the thoughts of other models than ``name``, which would refuse them.

    A message that held nothing else goes, and its neighbours, both the user's, become one.
    """
    kept: list[Message] = []
    for message in messages:
        if message["role"] == "assistant":
            content = [block for block in message["content"] if thinkers.get(mark_of(block), name) == name]
            message = {**message, "content": content}
        if kept and kept[-1]["role"] == message["role"]:
            kept[-1] = {**message, "content": [*kept[-1]["content"], *message["content"]]}
        elif message["content"]:
            kept.append(message)
    return kept
