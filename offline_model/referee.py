"""Refuses what the real API refuses, with the same status and, as far as known, the same words.

First the shape (`shapes.py`), then what the parts of a request mean together. The rules of a conversation stand in
`conversation.py`. Where nobody has published the wording of a refusal, the comment beside it says "own words".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from . import conversation
from . import shapes
from .errors import invalid
from .models import Model

NEW_VERSION = "2026-10-21"
OLD_VERSION = "2023-06-01"  # still sent by many clients
VERSIONS = (NEW_VERSION, OLD_VERSION)
MAX_BREAKPOINTS = 4
# Asked for with a beta header, and not done here. The code makes the SDK's tool runner send the whole history.
UNDONE = {
    "thread": "thread_unsupported_request",
    "compaction": "",
    "fallbacks": "",
    "fallback_credit_token": "",
    "mcp_servers": "",
    "billing_policy": "",
}
SCHEMA_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
COMBINATORS = ("oneOf", "allOf", "anyOf")
SCHEMAS_KEPT = 1000  # of tools that were judged: those of many harnesses
BAD_SCHEMA = (
    "JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn "
    "more about tool use at https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview."
)


def check_shape(request: dict, version: str, betas: list[str], counting: bool) -> None:
    """Fields and their types. counting: a request to count tokens, which has no max_tokens. Raises ApiError."""
    for name, code in UNDONE.items():
        if betas and name in request and request[name] is not None:
            raise invalid(f"{name}: the offline model does not support this field", code)  # own words
    old = version == OLD_VERSION
    shapes.BODIES[counting, old, bool(betas)]("", request)
    if not request["messages"]:
        raise invalid("messages: at least one message is required")
    if not old:
        _no_documents_by_assistant(request["messages"])


def check_meaning(
    request: dict, model: Model, counting: bool, paused: bool, orphan_index: str, split_results: str
) -> list[str]:
    """Everything else, for a request of the right shape. paused: it ends with a reply that only paused.
    The two switches are those of `offline_model.start()`.
    Returns warnings: what is accepted and better done otherwise. Raises ApiError."""
    if not counting:
        _check_limits(request, model)
    _check_tools(request.get("tools") or [])
    _check_tool_choice(request, model)
    _check_thinking(request, model)
    _check_system(request)
    warnings = conversation.check(request, model, orphan_index, split_results, paused)
    _check_breakpoints(request)
    return warnings


def _check_limits(request: dict, model: Model) -> None:
    limit = request["max_tokens"]
    if limit > model.max_output:
        raise invalid(
            f"max_tokens: {limit} > {model.max_output}, which is the maximum allowed number of output tokens for "
            f"{model.id}"
        )
    for sequence in request.get("stop_sequences") or []:
        if not sequence.strip():
            raise invalid("stop_sequences: each stop sequence must contain non-whitespace")
    if limit == 0:
        forced = (request.get("tool_choice") or {}).get("type") in ("any", "tool")
        enabled = (request.get("thinking") or {}).get("type") == "enabled"
        formatted = (request.get("output_config") or {}).get("format")
        if request.get("stream") or enabled or formatted or forced:
            raise invalid(  # own words
                "max_tokens: 0 is not supported with stream, thinking.enabled, output_config.format or a forced "
                "tool_choice"
            )


def _check_tools(tools: list[dict]) -> None:
    names = [tool["name"] for tool in tools if "name" in tool]
    if len(set(names)) < len(names):
        raise invalid("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if tool.get("type") not in (None, "custom"):
            continue
        path = f"tools.{index}.custom"
        schema = tool["input_schema"]
        if not isinstance(schema, dict):
            raise invalid(f"{path}.input_schema: Input should be a valid dictionary")
        if "type" not in schema:
            raise invalid(f"{path}.input_schema.type: Field required")
        if schema["type"] != "object":
            raise invalid(f"{path}.input_schema.type: Input should be 'object'")
        if any(name in schema for name in COMBINATORS):
            raise invalid(
                f"{path}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
        if not _reads_as_schema(json.dumps(schema)):
            raise invalid(f"{path}.input_schema: {BAD_SCHEMA}")
        if tool.get("cache_control") and tool.get("defer_loading"):
            raise invalid(f"{path}.cache_control: cannot be set on a tool with defer_loading")  # own words


def _check_tool_choice(request: dict, model: Model) -> None:
    choice = request.get("tool_choice")
    if not choice:
        return
    tools = request.get("tools") or []
    if not tools:
        raise invalid("tool_choice: may only be specified while providing tools")
    forced = choice["type"] in ("any", "tool")
    if forced and not model.forced_tools:
        raise invalid('tool_choice: type "tool" and "any" are not supported for this model.')
    if forced and (request.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        raise invalid("Thinking may not be enabled when tool_choice forces tool use.")
    if choice["type"] == "tool" and all(tool.get("name") != choice["name"] for tool in tools):
        raise invalid(f"Tool '{choice['name']}' not found in provided tools")


def _check_thinking(request: dict, model: Model) -> None:
    thinking = request.get("thinking")
    if not thinking:
        return
    kind = thinking["type"]
    effort = (request.get("output_config") or {}).get("effort")
    if kind not in model.thinking:
        if kind == "enabled":
            raise invalid(
                '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
                '"output_config.effort" to control thinking behavior.'
            )
        if kind == "adaptive":
            raise invalid("adaptive thinking is not supported on this model")
        if kind == "disabled":
            raise invalid(
                '"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode when '
                'not specified; use "thinking.type.enabled" with "budget_tokens" for extended thinking.'
            )
        raise invalid(f'"thinking.type.{kind}" is not supported for this model.')  # own words
    if kind == "enabled" and "max_tokens" in request and thinking["budget_tokens"] >= request["max_tokens"]:
        raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if effort in ("xhigh", "max") and (kind == "between_tools" or kind == "disabled" and not model.soft_effort):
        raise invalid(  # own words
            f'"thinking.type.{kind}" is not supported for this model at "output_config.effort" {effort}.'
        )


def _check_system(request: dict) -> None:
    system = request.get("system")
    if isinstance(system, list):
        for index, block in enumerate(system):
            conversation.check_text("system", f"system.{index}", block)


def _check_breakpoints(request: dict) -> None:
    found = list(_breakpoints(request))
    automatic = request.get("cache_control")
    count = len(found) + bool(automatic)
    if count > MAX_BREAKPOINTS:
        raise invalid(f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}.")
    if automatic:
        last_path, last = _last_block(request)
        ttl = automatic.get("ttl", "5m")
        if last.get("cache_control") and last["cache_control"].get("ttl", "5m") != ttl:
            raise invalid(f"cache_control.ttl: {last_path} has another ttl")  # own words
        found.append(("", automatic))
    short_seen = False
    for path, control in found:
        if control.get("ttl", "5m") == "5m":
            short_seen = True
        elif short_seen:
            raise invalid(
                f"{path}{'.' if path else ''}cache_control.ttl: a ttl='1h' cache_control block must not come after a "
                "ttl='5m' cache_control block."
            )


def _breakpoints(request: dict) -> Iterator[tuple[str, dict]]:
    """(path, cache_control) of each breakpoint, in the order of the cache."""
    for index, tool in enumerate(request.get("tools") or []):
        if tool.get("cache_control"):
            yield f"tools.{index}", tool["cache_control"]
    system = request.get("system")
    for index, block in enumerate(system if isinstance(system, list) else []):
        if block.get("cache_control"):
            yield f"system.{index}", block["cache_control"]
    for index, message in enumerate(request["messages"]):
        content = message["content"]
        for number, block in enumerate(content if isinstance(content, list) else []):
            if block.get("cache_control"):
                yield f"messages.{index}.content.{number}", block["cache_control"]
            inner = block.get("content") if block["type"] == "tool_result" else None
            for place, part in enumerate(inner if isinstance(inner, list) else []):
                if part.get("cache_control"):
                    yield f"messages.{index}.content.{number}.content.{place}", part["cache_control"]


def _last_block(request: dict) -> tuple[str, dict]:
    last = len(request["messages"]) - 1
    content = request["messages"][last]["content"]
    if isinstance(content, list) and content:
        return f"messages.{last}.content.{len(content) - 1}", content[-1]
    return f"messages.{last}", {}


def _no_documents_by_assistant(messages: list[dict]) -> None:
    """Two things that version 2026-10-21 no longer takes (own words for both)."""
    for index, message in enumerate(messages):
        content = message["content"]
        for number, block in enumerate(content if isinstance(content, list) else []):
            path = f"messages.{index}.content.{number}"
            if block["type"] == "document" and message["role"] == "assistant":
                raise invalid(f"{path}: `document` blocks can only be in `user` messages")
            if block["type"] == "text" and message["role"] == "user" and block.get("citations"):
                raise invalid(f"{path}.text.citations: Extra inputs are not permitted")


@lru_cache(maxsize=SCHEMAS_KEPT)
def _reads_as_schema(text: str) -> bool:
    """Is this text JSON Schema? A conversation sends the same tools with every request, so each is judged once."""
    return _is_schema(json.loads(text))


def _is_schema(schema: Any) -> bool:
    """Does this look like JSON Schema, draft 2020-12? Only the keywords that tools use are judged."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if any(not isinstance(kind, str) or kind not in SCHEMA_TYPES for kind in kinds):
        return False
    for name in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
        inner = schema.get(name, {})
        if not isinstance(inner, dict) or not all(_is_schema(part) for part in inner.values()):
            return False
    for name in ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"):
        if name in schema and not _is_schema(schema[name]):
            return False
    for name in (*COMBINATORS, "prefixItems"):
        inner = schema.get(name, [True])
        if not isinstance(inner, list) or not inner or not all(_is_schema(part) for part in inner):
            return False
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return False
    if len(set(required)) < len(required) or not isinstance(schema.get("enum", []), list):
        return False
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        bound = schema.get(name, 1)
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            return False
    for name in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"):
        bound = schema.get(name, 0)
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            return False
    for name in ("description", "title", "$ref", "pattern", "format"):
        if not isinstance(schema.get(name, ""), str):
            return False
    try:
        re.compile(schema.get("pattern", ""))
    except re.error:
        return False
    return True
