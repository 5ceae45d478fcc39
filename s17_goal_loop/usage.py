"""What the model calls have cost, in tokens: counted from what the server says of each reply, and nowhere guessed.

Input comes in three kinds with three prices: plain, written into the provider's cache, and read from there. The share
that was read tells whether a harness leaves alone what it has sent before.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Mapping

from .hooks import AfterModel
from .model import Reply

if TYPE_CHECKING:
    from .agent import Agent

PLAIN, READ, WRITTEN, OUT = "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"
KINDS = (PLAIN, READ, WRITTEN, OUT)
PRICED = 1_000_000  # tokens that a price is for, as providers write it

Prices = Mapping[str, Mapping[str, float]]  # model -> kind of tokens -> price of a million of them


def install(agent: Agent) -> Meter:
    """Count the calls of ``agent``, of those that share its hooks, and those beside the conversation. Install it last."""
    meter = Meter(agent)
    agent.on(AfterModel, meter.count)
    ask = agent.side_call

    def side_call(request: dict[str, Any]) -> Reply:
        reply = ask(request)
        meter.add(reply.model or request["model"], reply.usage)
        return reply

    agent.side_call = side_call
    return meter


@dataclass
class Meter:
    """The tokens that were used since the program began, by model, and the replies of the agent itself."""

    agent: Agent
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    requests: int = 0  # of everybody
    turns: int = 0  # of the agent's own
    one_reply: Any = field(default_factory=threading.Lock)  # subagents count from threads of their own

    def count(self, event: AfterModel) -> None:
        """A reply has come in."""
        self.turns += event.agent is self.agent
        self.add(event.reply.model or event.agent.model.name, event.reply.usage)

    def add(self, model: str, usage: Mapping[str, Any]) -> None:
        """Count one reply. A server may leave kinds out, or send null."""
        with self.one_reply:
            self.requests += 1
            self.tokens.setdefault(model, Counter()).update({kind: usage.get(kind) or 0 for kind in KINDS})

    def total(self) -> Counter[str]:
        """Return the tokens of each kind, of all models."""
        return sum(self.tokens.values(), Counter())


def sent(tokens: Mapping[str, int]) -> int:
    """Return how many tokens went in, of whatever kind."""
    return sum(tokens.get(kind, 0) for kind in (PLAIN, READ, WRITTEN))


def cached(tokens: Mapping[str, int]) -> str:
    """Return which share of the input came from the cache, in words."""
    return f"{tokens.get(READ, 0) / sent(tokens):.0%} from the cache" if sent(tokens) else "nothing sent yet"


def rows(tokens: Mapping[str, Mapping[str, int]], prices: Prices) -> list[str]:
    """Return a line for each model, with what it costs if ``prices`` has all that it takes, else without."""
    lines = []
    for model, used in tokens.items():
        line = (
            f"  {model}: {used.get(PLAIN, 0):,} in, {used.get(READ, 0):,} from the cache, "
            f"{used.get(WRITTEN, 0):,} into the cache, {used.get(OUT, 0):,} out"
        )
        money = cost(used, prices[model]) if model in prices else None
        lines.append(line + ("" if not prices else f": no price of {model}" if money is None else f": about {money:.2f}"))
    return lines


def cost(used: Mapping[str, int], prices: Mapping[str, float]) -> float | None:
    """Return what these tokens cost, in the currency of the prices; None if the price of a kind is missing."""
    if any(used.get(kind) and kind not in prices for kind in KINDS):
        return None
    return sum(used.get(kind, 0) * prices.get(kind, 0) for kind in KINDS) / PRICED


def in_short(tokens: int) -> str:
    """Return a number of tokens as one says it: 950, 12.3k, 200k, 1.5M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}".removesuffix(".0") + letter
    return str(tokens)
