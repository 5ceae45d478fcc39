"""The rules of a conversation: who speaks when, and that every tool call has its result.

Consecutive messages of one role count as one turn, as the API merges them; a refusal names the message as it was
sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field

from . import marks
from .errors import invalid
from .models import Model

OWNERS = {
    "tool_use": "assistant",
    "server_tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}
THOUGHTS = ("thinking", "redacted_thinking")
CHANGED_THOUGHT = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must "
    "remain as they were in the original response."
)


@dataclass
class Turn:
    """Consecutive messages of one role, as the API sees them."""

    role: str
    index: int  # of the first message
    messages: int = 0
    blocks: list[tuple[str, dict]] = field(default_factory=list)  # path as sent, block


def check(request: dict, model: Model, orphan_index: str, split_results: str, paused: bool) -> list[str]:
    """Judge the messages of a request of the right shape. Returns warnings. Raises ApiError."""
    messages = request["messages"]
    _check_content(messages)
    turns = _merge(messages)
    if turns[0].role != "user":
        raise invalid('messages: first message must use the "user" role')
    _check_system_turns(turns)
    spoken = [turn for turn in turns if turn.role != "system"]
    _check_ids(spoken)
    warnings = _check_results(turns, orphan_index, split_results)
    _check_server_tools(spoken)
    _check_end(messages, spoken[-1], model, paused)
    _check_thoughts(spoken, model)
    if (request.get("thinking") or {}).get("type") == "enabled":
        _check_thought_kept(spoken)
    return warnings


def check_text(where: str, path: str, block: dict) -> None:
    """A text block must hold text. where: "messages" or "system"."""
    text = block["text"]
    if text.strip():
        return
    if text == "" and block.get("cache_control"):
        raise invalid(f"{path}.text: cache_control cannot be set for empty text blocks")
    if text == "":
        raise invalid(f"{where}: text content blocks must be non-empty")
    raise invalid(f"{where}: text content blocks must contain non-whitespace text")


def _check_content(messages: list[dict]) -> None:
    for index, message in enumerate(messages):
        content = message["content"]
        last_answer = index == len(messages) - 1 and message["role"] == "assistant"
        if not content and not last_answer:
            raise invalid(
                f"messages.{index}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
        if isinstance(content, str):
            if content and not content.strip():
                raise invalid("messages: text content blocks must contain non-whitespace text")
            continue
        for number, block in enumerate(content):
            owner = OWNERS.get(block["type"], message["role"])
            if owner != message["role"]:
                raise invalid(f"messages.{index}: `{block['type']}` blocks can only be in `{owner}` messages")
            if message["role"] == "system" and block["type"] != "text":
                raise invalid(f"messages.{index}.content.{number}: system messages hold only text")  # own words
            if block["type"] == "text":
                check_text("messages", f"messages.{index}.content.{number}", block)
            elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
                for place, part in enumerate(block["content"]):
                    if part["type"] == "text":
                        check_text("messages", f"messages.{index}.content.{number}.content.{place}", part)


def _merge(messages: list[dict]) -> list[Turn]:
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        if not turns or turns[-1].role != message["role"]:
            turns.append(Turn(message["role"], index))
        turn = turns[-1]
        turn.messages += 1
        content = message["content"]
        if isinstance(content, str):
            turn.blocks.append((f"messages.{index}.content.0", {"type": "text", "text": content}))
        else:
            turn.blocks += [(f"messages.{index}.content.{n}", block) for n, block in enumerate(content)]
    return turns


def _check_system_turns(turns: list[Turn]) -> None:
    for number, turn in enumerate(turns):
        if turn.role != "system":
            continue
        before = turns[number - 1]
        after = turns[number + 1] if number + 1 < len(turns) else None
        follows = before.role == "user" or before.blocks[-1][1]["type"].endswith("_tool_result")
        if not follows or (after and after.role != "assistant"):
            raise invalid(  # own words
                f"messages.{turn.index}: a system message must follow a user message, and be the last message or be "
                "followed by an assistant message"
            )


def _check_ids(turns: list[Turn]) -> None:
    seen: set[str] = set()
    for turn in turns:
        for path, block in turn.blocks:
            if block["type"] == "tool_use":
                if block["id"] in seen:
                    raise invalid(f"{path}: `tool_use` ids must be unique")
                seen.add(block["id"])


def _check_results(turns: list[Turn], orphan_index: str, split_results: str) -> list[str]:
    """Each call of a turn has its result at the beginning of the next one, and no result is without a call."""
    warnings = []
    for number, turn in enumerate(turns):
        before = turns[number - 1] if number else None
        if turn.role == "user":
            open_calls = _calls(before) if before and before.role == "assistant" else []
            warnings += _check_result_blocks(turn, open_calls, split_results)
        elif turn.role == "assistant":
            after = turns[number + 1] if number + 1 < len(turns) else None
            answered = _leading_results(after) if after and after.role == "user" else []
            missing = [call for call in _calls(turn) if call not in answered]
            if missing or _speaks_after_call(turn):
                index = after.index if after and missing and orphan_index == "user" else turn.index
                raise invalid(
                    f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    f"{', '.join(missing or _calls(turn))}. Each `tool_use` block must have a corresponding "
                    "`tool_result` block in the next message."
                )
    return warnings


def _check_result_blocks(turn: Turn, open_calls: list[str], split_results: str) -> list[str]:
    seen: set[str] = set()
    carriers: set[str] = set()
    for path, block in turn.blocks:
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        if call not in open_calls:
            raise invalid(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
        if call in seen:
            raise invalid(
                f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{call}"
            )
        seen.add(call)
        carriers.add(path.split(".")[1])
    if len(carriers) < 2:
        return []
    if split_results == "refuse":
        first = f"messages.{min(carriers, key=int)}"
        late = [call for call in open_calls if call not in _results_in(turn, first)]
        raise invalid(
            f"{first}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(late)}. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )
    return [
        "the results of one reply came in several user messages: accepted, but models then stop calling tools in "
        "parallel; put them all into one message"
    ]


def _results_in(turn: Turn, message_path: str) -> list[str]:
    return [
        block["tool_use_id"]
        for path, block in turn.blocks
        if path.startswith(f"{message_path}.") and block["type"] == "tool_result"
    ]


def _calls(turn: Turn) -> list[str]:
    return [block["id"] for _, block in turn.blocks if block["type"] == "tool_use"]


def _leading_results(turn: Turn) -> list[str]:
    found = []
    for _, block in turn.blocks:
        if block["type"] != "tool_result":
            break
        found.append(block["tool_use_id"])
    return found


def _speaks_after_call(turn: Turn) -> bool:
    kinds = [block["type"] for _, block in turn.blocks]
    return "tool_use" in kinds and "text" in kinds[kinds.index("tool_use") :]


def _check_server_tools(turns: list[Turn]) -> None:
    """A tool that runs at the provider has its result in the same turn, unless the turn is the last one."""
    for turn in turns[:-1]:
        answered = {block.get("tool_use_id") for _, block in turn.blocks}
        for path, block in turn.blocks:
            if block["type"] == "server_tool_use" and block["id"] not in answered:
                raise invalid(
                    f"{path}: `{block['name']}` tool use with id `{block['id']}` was found without a corresponding "
                    f"`{block['name']}_tool_result` block"
                )


def _check_end(messages: list[dict], last: Turn, model: Model, paused: bool) -> None:
    if last.role != "assistant" or paused or messages[-1]["role"] == "system":
        return
    if last.blocks and last.blocks[-1][1]["type"] == "server_tool_use":
        return  # a paused turn of a provider's tool
    if not model.prefill:
        raise invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    if last.blocks and last.blocks[-1][1]["type"] == "text":
        text = last.blocks[-1][1]["text"]
        if text != text.rstrip():
            raise invalid("messages: final assistant content cannot end with trailing whitespace")


def _check_thoughts(turns: list[Turn], model: Model) -> None:
    """Thinking goes back as it came: a signature is a hash of model and text, and the id of a call tells whether
    there was thinking before it."""
    latest = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    for turn in turns:
        for path, block in turn.blocks:
            if block["type"] != "thinking":
                continue
            verdict = marks.check_signature(model.id, block["thinking"], block["signature"])
            if verdict == "edited" and turn is latest:
                raise invalid(f"{path}: {CHANGED_THOUGHT}")
            if verdict != "good":
                raise invalid(f"{path}: Invalid `signature` in `thinking` block")
    for path, block in latest.blocks if latest else []:
        mark = marks.read_call_id(block["id"]) if block["type"] == "tool_use" else None
        if mark and mark.thinker == marks.short(model.id) and not _has_thought(latest):
            raise invalid(f"{path}: {CHANGED_THOUGHT}")


def _check_thought_kept(turns: list[Turn]) -> None:
    """With thinking "enabled", the reply whose results are being sent begins with its thinking."""
    if len(turns) < 2 or turns[-1].role != "user" or not _leading_results(turns[-1]):
        return
    path, first = turns[-2].blocks[0]
    if first["type"] not in THOUGHTS:
        raise invalid(
            f"{path}.type: Expected `thinking` or `redacted_thinking`, but found `{first['type']}`. When `thinking` "
            "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
            "`tool_use` and `tool_result` blocks)."
        )


def _has_thought(turn: Turn) -> bool:
    return any(block["type"] in THOUGHTS for _, block in turn.blocks)
