"""What each model accepts, as data. The rules themselves stand in `referee.py`."""

from __future__ import annotations

from dataclasses import dataclass

OFFLINE_MODEL = "offline-model"
OFFLINE_FALLBACK = "offline-model-2"  # the same under another name, for when the first is overloaded

OLD_WINDOW = 200_000  # tokens; also the offline model's, so that "too long" is within reach of a lesson
NEW_WINDOW = 1_000_000  # tokens; the line-up of late 2026
OLD_OUTPUT = 64_000  # tokens; most models up to 4.6
NEW_OUTPUT = 128_000  # tokens

# The real minimum (512 to 4096) would hide every effect in a lesson, whose whole conversation is a few thousand
# tokens long. So the offline model caches nearly everything.
OFFLINE_CACHE_MINIMUM = 16
# Nobody has published a minimum for the models of late 2026; this is the one of most of their predecessors.
UNKNOWN_CACHE_MINIMUM = 1024


@dataclass(frozen=True)
class Model:
    """One model and its rules."""

    id: str
    name: str
    context: int = OLD_WINDOW  # tokens in the window
    max_output: int = NEW_OUTPUT  # largest max_tokens
    prefill: bool = False  # may a request end with an assistant message?
    forced_tools: bool = True  # does it accept tool_choice "any" and "tool"?
    thinking: tuple[str, ...] = ("adaptive", "disabled")  # accepted values of thinking.type
    always_thinks: bool = False  # thinks when the request does not mention thinking
    soft_effort: bool = True  # "disabled" goes with effort xhigh and max
    cache_minimum: int = UNKNOWN_CACHE_MINIMUM  # tokens in the shortest prefix that is cached


_ADAPTIVE_ONLY = {"thinking": ("adaptive",), "always_thinks": True}
_NO_FORCE = {"forced_tools": False}
_LINE_UP = {"context": NEW_WINDOW}
_BEFORE_4_7 = {"thinking": ("adaptive", "enabled", "disabled")}
_BEFORE_4_6 = {"thinking": ("enabled", "disabled"), "prefill": True, "max_output": OLD_OUTPUT}

_ALL = (
    Model(OFFLINE_MODEL, "Offline model", **_ADAPTIVE_ONLY, **_NO_FORCE, cache_minimum=OFFLINE_CACHE_MINIMUM),
    Model(OFFLINE_FALLBACK, "Offline model 2", **_ADAPTIVE_ONLY, **_NO_FORCE, cache_minimum=OFFLINE_CACHE_MINIMUM),
    Model("claude-fable-5-2", "Claude Fable 5.2", **_ADAPTIVE_ONLY, **_NO_FORCE, **_LINE_UP),
    Model("claude-mythos-5-2", "Claude Mythos 5.2", **_ADAPTIVE_ONLY, **_NO_FORCE, **_LINE_UP),
    Model("claude-haiku-5-5", "Claude Haiku 5.5", **_LINE_UP),
    Model(
        "claude-sonnet-5-5",
        "Claude Sonnet 5.5",
        thinking=("adaptive", "between_tools"),
        always_thinks=True,
        **_NO_FORCE,
        **_LINE_UP,
    ),
    Model("claude-fable-5-1", "Claude Fable 5.1", **_ADAPTIVE_ONLY, **_NO_FORCE),
    Model("claude-opus-5-5", "Claude Opus 5.5", **_ADAPTIVE_ONLY, **_NO_FORCE, **_LINE_UP),
    Model("claude-mythos-5-1", "Claude Mythos 5.1", **_ADAPTIVE_ONLY, **_NO_FORCE),
    Model("claude-sonnet-5", "Claude Sonnet 5"),
    Model("claude-fable-5", "Claude Fable 5", **_ADAPTIVE_ONLY, cache_minimum=512),
    Model("claude-mythos-5", "Claude Mythos 5", **_ADAPTIVE_ONLY, cache_minimum=512),
    Model("claude-opus-5", "Claude Opus 5", soft_effort=False, cache_minimum=512),
    Model("claude-opus-4-8", "Claude Opus 4.8"),
    Model("claude-opus-4-7", "Claude Opus 4.7", cache_minimum=2048),
    Model("claude-mythos-preview", "Claude Mythos Preview", **_BEFORE_4_7, cache_minimum=2048),
    Model("claude-opus-4-6", "Claude Opus 4.6", **_BEFORE_4_7, cache_minimum=4096),
    Model("claude-sonnet-4-6", "Claude Sonnet 4.6", **_BEFORE_4_7, max_output=OLD_OUTPUT),
    Model("claude-haiku-4-5", "Claude Haiku 4.5", **_BEFORE_4_6, cache_minimum=4096),
    Model("claude-haiku-4-5-20251001", "Claude Haiku 4.5", **_BEFORE_4_6, cache_minimum=4096),
    Model("claude-opus-4-5", "Claude Opus 4.5", **_BEFORE_4_6, cache_minimum=4096),
    Model("claude-opus-4-5-20251101", "Claude Opus 4.5", **_BEFORE_4_6, cache_minimum=4096),
    Model("claude-sonnet-4-5", "Claude Sonnet 4.5", **_BEFORE_4_6),
    Model("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5", **_BEFORE_4_6),
)

MODELS: dict[str, Model] = {model.id: model for model in _ALL}


def describe(model: Model) -> dict:
    """One entry of GET /v1/models."""
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.name,
        "created_at": "1970-01-01T00:00:00Z",  # the API's own value for "unknown"
        "lifecycle": "active",
        "max_input_tokens": model.context,
        "max_tokens": model.max_output,
        "capabilities": None,
        "deprecated_at": None,
        "retires_at": None,
    }
