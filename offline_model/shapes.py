"""The shape of a request: which fields there are, of which type. The first one that is wrong is refused.

The paths and wordings are those of pydantic, which the API shows through: `tools.0.custom.name: Field required`.
A check is a function of a path and a value that raises ApiError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from .errors import invalid

Check = Callable[[str, Any], None]

MAX_MESSAGES = 100_000  # documented
MIN_THINKING_BUDGET = 1024  # tokens, documented


def anything(path: str, value: Any) -> None:
    """Accepts everything: for what this server does not judge."""


def string(path: str, value: Any) -> None:
    if not isinstance(value, str):
        raise invalid(f"{path}: Input should be a valid string")


def boolean(path: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise invalid(f"{path}: Input should be a valid boolean")


def dictionary(path: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise invalid(f"{path}: Input should be a valid dictionary")


def integer(minimum: int) -> Check:
    def check(path: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(f"{path}: Input should be a valid integer")
        if value < minimum:
            raise invalid(f"{path}: Input should be greater than or equal to {minimum}")

    return check


def number(low: float, high: float) -> Check:
    def check(path: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise invalid(f"{path}: Input should be a valid number")
        if value < low:
            raise invalid(f"{path}: Input should be greater than or equal to {low:g}")
        if value > high:
            raise invalid(f"{path}: Input should be less than or equal to {high:g}")

    return check


def pattern(expression: str) -> Check:
    compiled = re.compile(expression)

    def check(path: str, value: Any) -> None:
        string(path, value)
        # fullmatch: `$` alone would let a line break at the end pass
        if not compiled.fullmatch(value):
            raise invalid(f"{path}: String should match pattern '{expression}'")

    return check


def one_of(*values: str) -> Check:
    quoted = [f"'{value}'" for value in values]
    wanted = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"

    def check(path: str, value: Any) -> None:
        if not isinstance(value, str) or value not in values:
            raise invalid(f"{path}: Input should be {wanted}")

    return check


def nullable(inner: Check) -> Check:
    def check(path: str, value: Any) -> None:
        if value is not None:
            inner(path, value)

    return check


def list_of(inner: Check, most: int | None = None) -> Check:
    def check(path: str, value: Any) -> None:
        if not isinstance(value, list):
            raise invalid(f"{path}: Input should be a valid list")
        if most is not None and len(value) > most:
            raise invalid(
                f"{path}: List should have at most {most} items after validation, not {len(value)}"
            )
        for index, item in enumerate(value):
            inner(f"{path}.{index}", item)

    return check


def string_or(inner: Check) -> Check:
    def check(path: str, value: Any) -> None:
        if not isinstance(value, str):
            inner(path, value)

    return check


def fields(required: Mapping[str, Check], optional: Mapping[str, Check], extra: bool = False) -> Check:
    """An object with these fields; with others too if `extra`."""
    known = {**required, **optional}

    def check(path: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise invalid(f"{path}: Input should be a valid dictionary or object to extract fields from")
        dot = f"{path}." if path else ""
        for name in required:
            if name not in value:
                raise invalid(f"{dot}{name}: Field required")
        for name, item in value.items():
            inner = known.get(name)
            if inner is not None:
                if inner is not anything:
                    inner(f"{dot}{name}", item)
            elif not extra:
                raise invalid(f"{dot}{name}: Extra inputs are not permitted")

    return check


def by_type(kinds: Mapping[str, Check], default: str = "") -> Check:
    """An object whose "type" says which check it must pass; `default` is the type of one without."""
    tags = ", ".join(f"'{kind}'" for kind in kinds)

    def check(path: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise invalid(f"{path}: Input should be a valid dictionary or object to extract fields from")
        kind = value.get("type") or default
        if "type" not in value and not default:
            raise invalid(f"{path}: Unable to extract tag using discriminator 'type'")
        if not isinstance(kind, str) or kind not in kinds:
            raise invalid(
                f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
            )
        kinds[kind](f"{path}.{kind}", value)

    return check


CACHE_CONTROL = nullable(fields({"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h")}))
CACHED = {"cache_control": CACHE_CONTROL}
SOURCE = fields({"type": string}, {}, extra=True)
CALL_ID = pattern("^[a-zA-Z0-9_-]+$")
TOOL_NAME = pattern("^[a-zA-Z0-9_-]{1,128}$")

TEXT = fields({"type": string, "text": string}, {"citations": anything, **CACHED})
IMAGE = fields({"type": string, "source": SOURCE}, {"transformations": anything, **CACHED})
DOCUMENT = fields(
    {"type": string, "source": SOURCE}, {"title": anything, "context": anything, "citations": anything, **CACHED}
)
SEARCH_RESULT = fields(
    {"type": string, "source": string, "title": string, "content": list_of(by_type({"text": TEXT}))},
    {"citations": anything, **CACHED},
)
LOOSE = fields({"type": string}, dict(CACHED), extra=True)  # blocks that this server never makes

RESULT_CONTENT = by_type(
    {
        "text": TEXT,
        "image": IMAGE,
        "search_result": SEARCH_RESULT,
        "document": DOCUMENT,
        "tool_reference": LOOSE,
        "browser_state": LOOSE,
    }
)
BLOCK = by_type(
    {
        "text": TEXT,
        "image": IMAGE,
        "document": DOCUMENT,
        "search_result": SEARCH_RESULT,
        "thinking": fields({"type": string, "signature": string, "thinking": string}, {}),
        "redacted_thinking": fields({"type": string, "data": string}, {}),
        "tool_use": fields(
            {"type": string, "id": CALL_ID, "name": TOOL_NAME, "input": dictionary},
            {"caller": anything, "toolset_name": anything, **CACHED},
        ),
        "tool_result": fields(
            {"type": string, "tool_use_id": CALL_ID},
            {
                "content": string_or(list_of(RESULT_CONTENT)),
                "is_error": boolean,
                "toolset_name": anything,
                **CACHED,
            },
        ),
        "server_tool_use": fields(
            {"type": string, "id": CALL_ID, "name": string, "input": dictionary}, {"caller": anything, **CACHED}
        ),
        "web_search_tool_result": LOOSE,
        "web_fetch_tool_result": LOOSE,
        "code_execution_tool_result": LOOSE,
        "bash_code_execution_tool_result": LOOSE,
        "text_editor_code_execution_tool_result": LOOSE,
        "tool_search_tool_result": LOOSE,
        "container_upload": LOOSE,
        "compaction": LOOSE,
        "mcp_tool_use": LOOSE,
        "mcp_tool_result": LOOSE,
    }
)
MESSAGE = fields(
    {"role": one_of("user", "assistant", "system"), "content": string_or(list_of(BLOCK))}, {}
)

CUSTOM_TOOL = fields(
    {"name": TOOL_NAME, "input_schema": anything},
    {
        "type": anything,
        "description": string,
        "strict": boolean,
        "input_examples": list_of(dictionary),
        "defer_loading": boolean,
        "allowed_callers": list_of(string),
        "eager_input_streaming": nullable(boolean),
        **CACHED,
    },
)
PROVIDER_TOOLS = (
    "bash_20250124",
    "browser_toolset_20260801",
    "code_execution_20250522",
    "code_execution_20250825",
    "code_execution_20260120",
    "code_execution_20260521",
    "computer_toolset_20260801",
    "memory_20250818",
    "text_editor_20250124",
    "text_editor_20250429",
    "text_editor_20250728",
    "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex_20251119",
    "web_fetch_20250910",
    "web_fetch_20260209",
    "web_fetch_20260309",
    "web_fetch_20260318",
    "web_search_20250305",
    "web_search_20260209",
    "web_search_20260318",
)
TOOL = by_type({"custom": CUSTOM_TOOL, **dict.fromkeys(PROVIDER_TOOLS, LOOSE)}, default="custom")

PARALLEL = {"disable_parallel_tool_use": boolean}
TOOL_CHOICE = by_type(
    {
        "auto": fields({"type": string}, PARALLEL),
        "any": fields({"type": string}, PARALLEL),
        "tool": fields({"type": string, "name": string}, PARALLEL),
        "none": fields({"type": string}, {}),
    }
)
DISPLAY = {"display": nullable(one_of("summarized", "omitted"))}
THINKING = by_type(
    {
        "adaptive": fields({"type": string}, DISPLAY),
        "enabled": fields({"type": string, "budget_tokens": integer(MIN_THINKING_BUDGET)}, DISPLAY),
        "disabled": fields({"type": string}, {}),
        "between_tools": fields({"type": string}, {}),
    }
)
OUTPUT_CONFIG = fields(
    {},
    {
        "effort": nullable(one_of("low", "medium", "high", "xhigh", "max")),
        "format": nullable(fields({"type": one_of("json_schema"), "schema": dictionary}, {})),
    },
)

REQUIRED = {"model": string, "messages": list_of(MESSAGE, most=MAX_MESSAGES)}
MAX_TOKENS = {"max_tokens": integer(0)}
COUNTED = {  # what /v1/messages/count_tokens takes too
    "cache_control": CACHE_CONTROL,
    "output_config": OUTPUT_CONFIG,
    "system": string_or(list_of(by_type({"text": TEXT}))),
    "thinking": THINKING,
    "tool_choice": TOOL_CHOICE,
    "tools": list_of(TOOL),
    "speed": nullable(one_of("standard", "fast")),
}
OPTIONAL = {
    **COUNTED,
    "container": anything,
    "diagnostics": nullable(fields({}, {"previous_message_id": nullable(string)})),
    "inference_geo": nullable(string),
    "metadata": fields({}, {"user_id": nullable(string)}),
    "service_tier": one_of("auto", "standard_only"),
    "stop_sequences": list_of(string),
    "stream": boolean,
    "user_profile_id": string,
    "workspace_id": string,
}
SAMPLING = {"temperature": number(0, 1), "top_p": number(0, 1), "top_k": integer(0)}  # gone with version 2026-10-21
BETA_FIELDS = {"context_management": dictionary}  # known only to requests with a beta header

BODIES: dict[tuple[bool, bool, bool], Check] = {
    (counting, old, beta): fields(
        REQUIRED if counting else {**MAX_TOKENS, **REQUIRED},
        {
            **(COUNTED if counting else OPTIONAL),
            **(SAMPLING if old and not counting else {}),
            **(BETA_FIELDS if beta else {}),
        },
    )
    for counting in (False, True)
    for old in (False, True)
    for beta in (False, True)
}
