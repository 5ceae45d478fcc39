"""Counts tokens, and what a prompt cache would save.

The rules are the provider's. A request is read as one line of parts: tools, then system, then messages. A breakpoint
(`cache_control` on a part, or at the top level for the last one) writes the prefix that ends there into the cache. A
later request reads the longest prefix that was written before and is unchanged to the letter; each of its breakpoints
looks back a few parts for one. Only what follows the last breakpoint is counted as plain input.

Tokens are estimated from the length of the text: the figures show relations, not bills.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

BYTES_PER_TOKEN = 4  # the usual rule of thumb for English and code
IMAGE_TOKENS = 1500  # about what a picture of a full screen costs
REPLY_HEADER = 3  # tokens after the last part that open the reply; so input is never 0
LOOKBACK = 20  # positions that a breakpoint looks at, itself included (documented)
LIFETIMES = {"5m": 300.0, "1h": 3600.0}  # seconds; reading renews an entry

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Position(NamedTuple):
    """The end of one part: a hash and the tokens of everything up to here, and the breakpoint if there is one."""

    hash: str
    tokens: int
    ttl: str = ""  # "5m" or "1h" at a breakpoint


@dataclass(frozen=True)
class Measure:
    """A request, measured."""

    positions: list[Position]
    tokens: int  # all of the input

    @property
    def digest(self) -> str:
        """Hex digits that stand for the whole request."""
        return self.positions[-1].hash if self.positions else "0" * 64


def measure(request: dict) -> Measure:
    """Read a valid request as a line of positions."""
    positions: list[Position] = []
    automatic = request.get("cache_control")
    running = sha256(str(request.get("model")).encode("utf-8"))
    tokens = 0
    last_cacheable = -1
    for part, control, cacheable in _parts(request):
        text = _encode(part).encode("utf-8")
        running.update(text)
        tokens += _tokens_of(part, text)
        if cacheable:
            last_cacheable = len(positions)
        positions.append(Position(running.hexdigest(), tokens, (control or {}).get("ttl", "5m") if control else ""))
    if automatic and last_cacheable >= 0:
        found = positions[last_cacheable]
        positions[last_cacheable] = Position(found.hash, found.tokens, automatic.get("ttl", "5m"))
    return Measure(positions, tokens + REPLY_HEADER)


def estimate(text: str) -> int:
    """Tokens of a piece of the model's own text."""
    return -(-len(text.encode("utf-8")) // BYTES_PER_TOKEN)


class Accountant:
    """One prompt cache. Safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[float, float]] = {}  # hash of a prefix -> (end of life, lifetime), seconds

    def charge(self, measured: Measure, minimum: int) -> dict:
        """The input half of `usage`. Reads from the cache and writes to it. minimum: tokens in the shortest prefix
        that is cached."""
        positions = measured.positions
        breakpoints = [
            index for index, position in enumerate(positions) if position.ttl and position.tokens >= minimum
        ]
        with self._lock:
            read = self._longest_hit(positions, breakpoints)
            self._write(positions, breakpoints)
        written = {"5m": 0, "1h": 0}
        done = read
        for index in breakpoints:
            position = positions[index]
            if position.tokens > done:
                written[position.ttl] += position.tokens - done
                done = position.tokens
        return {
            "input_tokens": measured.tokens - done,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }

    def _longest_hit(self, positions: list[Position], breakpoints: list[int]) -> int:
        now = self._clock()
        for breakpoint_ in reversed(breakpoints):
            for index in range(breakpoint_, max(-1, breakpoint_ - LOOKBACK), -1):
                end, lifetime = self._entries.get(positions[index].hash, (0.0, 0.0))
                if end > now:
                    self._entries[positions[index].hash] = (now + lifetime, lifetime)
                    return positions[index].tokens
        return 0

    def _write(self, positions: list[Position], breakpoints: list[int]) -> None:
        now = self._clock()
        for index in breakpoints:
            lifetime = LIFETIMES[positions[index].ttl]
            end, _ = self._entries.get(positions[index].hash, (0.0, 0.0))
            if now + lifetime > end:
                self._entries[positions[index].hash] = (now + lifetime, lifetime)


def _parts(request: dict) -> Iterator[tuple[object, dict | None, bool]]:
    """(part without its breakpoint, the breakpoint, may it carry one) in the order of the cache."""
    for tool in request.get("tools") or []:
        yield _bare("tool", tool), tool.get("cache_control"), not tool.get("defer_loading")
    system = request.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    for block in system:
        yield _bare("system", block), block.get("cache_control"), True
    settings = _message_settings(request)
    for message in request["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content:
            cacheable = block["type"] not in ("thinking", "redacted_thinking")
            yield _bare(message["role"], block, settings), block.get("cache_control"), cacheable
            settings = None  # they stand before the first message


def _bare(where: str, block: dict, settings: dict | None = None) -> list:
    plain = {key: block[key] for key in sorted(block) if key != "cache_control"}
    return [where, plain, settings] if settings else [where, plain]


def _message_settings(request: dict) -> dict:
    """What, besides its text, a change of which throws away the cached messages (but not tools and system)."""
    names = ("thinking", "output_config", "tool_choice", "speed")
    return {name: request[name] for name in names if request.get(name)}


def _tokens_of(part: list, text: bytes) -> int:
    # The data of a picture or document is not counted as text.
    block = part[1]
    inner = block.get("content") if block.get("type") == "tool_result" else None
    blocks = [block, *inner] if isinstance(inner, list) else [block]
    data = [one["source"].get("data") for one in blocks if isinstance(one.get("source"), dict)]
    size = len(text) - sum(len(source) for source in data if isinstance(source, str))
    return len(data) * IMAGE_TOKENS + -(-size // BYTES_PER_TOKEN)
