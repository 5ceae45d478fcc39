"""What goes between a server and the model, in a form that each side takes: schemas one way, answers the other.

A server may write any JSON schema, and answer with pictures, sound and links. Here are checked the parts of a schema that
our checks know; the rest is between the model and the server. Of an answer, text is text, and the rest is described.
"""

from __future__ import annotations

import json
from typing import Any

from .history import clean
from .tools import TYPES

NOTHING = "(no output)"


class AnyName(dict):
    """Properties of an object that may have others as well."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, Any]:
        return {}


def checked_part(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an input schema that can be checked before the call: whatever it says, a check never fails on it."""
    known = schema.get("properties")
    known = {name: checked_value(value) for name, value in known.items()} if isinstance(known, dict) else {}
    required = schema.get("required")
    is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return {
        "type": "object",
        "properties": known if is_closed else AnyName(known),
        "required": [name for name in required if isinstance(name, str)] if isinstance(required, list) else [],
    }


def checked_value(schema: Any) -> dict[str, Any]:
    """Return of the schema of a value: its types, choices and bounds, and the same of its items."""
    if not isinstance(schema, dict):
        return {}  # true and false are schemas, too
    part = {}
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if isinstance(types, list) and types and all(isinstance(name, str) and name in TYPES for name in types):
        part["type"] = types
    if isinstance(schema.get("enum"), list):
        part["enum"] = schema["enum"]
    if part.get("type") in (["integer"], ["number"]):  # of others, a bound cannot be compared
        bounds = {name: schema.get(name) for name in ("minimum", "maximum")}
        part |= {name: bound for name, bound in bounds.items() if type(bound) in (int, float)}
    if isinstance(schema.get("items"), dict):
        part["items"] = checked_value(schema["items"])
    return part


def text_of(answer: Any) -> str:
    """Return what a tool answered (the SDK's CallToolResult) as text."""
    texts = [clean(text_of_block(block)) for block in answer.content]
    data = clean(answer.structured_content)
    if data is not None and not any(holds(text, data) for text in texts):  # most servers send it as text, too
        texts.append(json.dumps(data, ensure_ascii=False))
    return "\n".join(text for text in texts if text.strip()) or NOTHING


def text_of_block(block: Any) -> str:
    """Return a content block as text, or in words."""
    if block.type == "text":
        return block.text
    if block.type in ("image", "audio"):
        return f"[{block.type}, {block.mime_type}, {size(block.data)}: it cannot be shown here]"
    if block.type == "resource_link":
        about = ", ".join(filter(None, (block.name, block.mime_type, block.description)))
        return f"[link to the resource {block.uri} ({about})]"
    if block.type == "resource":
        inside = block.resource
        if hasattr(inside, "text"):
            return f"[resource {inside.uri}]\n{inside.text}"
        kind = inside.mime_type or "of no known type"
        return f"[resource {inside.uri}, {kind}, {size(inside.blob)}: it cannot be shown here]"
    return f"[a block of the type {block.type}: it cannot be shown here]"


def holds(text: str, data: Any) -> bool:
    """Whether ``text`` is ``data`` as JSON, or the one value in it, as some servers wrap what is no object."""
    if isinstance(data, dict) and [*data] == ["result"] and str(data["result"]) == text:
        return True
    try:
        return json.loads(text) == data
    except (ValueError, RecursionError):
        return False


def size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4:,} bytes"
