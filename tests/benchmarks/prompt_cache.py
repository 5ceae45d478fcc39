"""What a system prompt costs that does not stay as it is: ``python tests/benchmarks/prompt_cache.py [chapter]``.

Plays the lesson about the prompt a few times, each time with something else that changes, and prints a table of what the
offline model's accounting says. The lesson quotes it; a test holds the two against each other.
"""

from __future__ import annotations

import importlib
import itertools
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # behind a copy of the chapter that may be under test

import offline_model  # noqa: E402

LESSON = "s08_prompt_assembly"
READ, WRITE = 0.1, 1.25  # prices of a cached and of a written token, in plain ones (Anthropic, five minutes)
SWITCH_ON, SWITCH_OFF = 6, 9  # the requests before which plan mode begins and ends


@dataclass
class Played:
    """What the accounting said of each request: tokens of input, tokens read from the cache, tokens written to it."""

    requests: list[tuple[int, int, int]]

    @property
    def share(self) -> int:
        """Per cent of the input that came from the cache."""
        return round(100 * sum(read for _, read, _ in self.requests) / sum(total for total, _, _ in self.requests))

    @property
    def last(self) -> int:
        """The same for the last request alone."""
        total, read, _ = self.requests[-1]
        return round(100 * read / total)

    @property
    def price(self) -> float:
        """The input in plain tokens."""
        return sum(READ * read + WRITE * written + (total - read - written) for total, read, written in self.requests)


def play(chapter: str, change: Callable[[Any, Any], None] = lambda agent, load: None) -> Played:
    """Play the lesson with an agent of ``chapter`` that ``change(agent, load)`` has made another one."""
    load = lambda part: importlib.import_module(f"{chapter}.{part}")  # noqa: E731
    workspace = offline_model.make_workspace()
    with offline_model.start(scenario=LESSON) as server:
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        agent = load("harness").build(model, workspace, lambda kind, **data: None, lambda question: server.answer(question) or "n")
        change(agent, load)
        for line in server.lines:
            if not line.startswith("/"):
                load("loop").run(agent, line)
        usages = [record.usage for record in server.requests]
        assert server.problems == [] and None not in usages
    shutil.rmtree(workspace)
    rows = [(u["cache_read_input_tokens"], u["cache_creation_input_tokens"], u["input_tokens"]) for u in usages]
    return Played([(sum(row), row[0], row[1]) for row in rows])


def before_each_request(act: Callable[[Any, int], None]) -> Callable[[Any, Any], None]:
    """Return a change by which ``act(event, number of the request)`` is called when all else is ready."""

    def change(agent: Any, load: Any) -> None:
        numbers = itertools.count(1)
        agent.on(load("hooks").BeforeModel, lambda event: act(event, next(numbers)), last=True)

    return change


def extra_section(event: Any, text: str, place: int) -> None:
    system = list(event.request["system"])
    system.insert(place, {"type": "text", "text": text})
    event.request["system"] = system


def no_breakpoints(agent: Any, load: Any) -> None:
    """As a harness that knows nothing of caches."""
    del agent.model.extras["cache_control"]


@before_each_request
def clock(event: Any, number: int) -> None:
    """The time of day at the end of the system prompt, to the second."""
    extra_section(event, f"Current time: 2026-01-05 09:00:{number:02}", len(event.request["system"]))


@before_each_request
def clock_first(event: Any, number: int) -> None:
    """The same, at its beginning."""
    extra_section(event, f"Current time: 2026-01-05 09:00:{number:02}", 0)


@before_each_request
def comes_and_goes(event: Any, number: int) -> None:
    """A section that is there in every third request."""
    if number % 3 == 0:
        extra_section(event, "Open todo items: see above, and bring the list up to date.", len(event.request["system"]))


@before_each_request
def hidden_tools(event: Any, number: int) -> None:
    """Plan mode by taking the writing tools out of the list, for a while."""
    if SWITCH_ON <= number < SWITCH_OFF:
        tools = event.agent.tools
        event.request["tools"] = [tool for tool in event.request["tools"] if tools[tool["name"]].read_only]


@before_each_request
def mode_section(event: Any, number: int) -> None:
    """Plan mode by a section of the system prompt, for a while."""
    if SWITCH_ON <= number < SWITCH_OFF:
        extra_section(event, "Plan mode: look, but change nothing.", len(event.request["system"]))


@before_each_request
def mode_note(event: Any, number: int) -> None:
    """Plan mode by a note when it begins and when it ends."""
    if number in (SWITCH_ON, SWITCH_OFF):
        event.agent.history.note("mode", "Plan mode is on: look, but change nothing." if number == SWITCH_ON else "It is off.")


CASES = {
    "as it is": lambda agent, load: None,
    "a clock at the end of the system prompt": clock,
    "a clock at its beginning": clock_first,
    "a section in every third request": comes_and_goes,
    "plan mode on and off: the tools taken out of the list": hidden_tools,
    "plan mode on and off: a section": mode_section,
    "plan mode on and off: a note": mode_note,
    "no breakpoints at all": no_breakpoints,
}


def table(chapter: str) -> list[str]:
    """Return the lesson's table, row by row."""
    rows = ["| what changes | input read from the cache | in the last request | price of the input |", "|---|---|---|---|"]
    first = None
    for name, change in CASES.items():
        played = play(chapter, change)
        first = first or played.price
        rows.append(f"| {name} | {played.share} % | {played.last} % | {played.price / first:.1f} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table(*sys.argv[1:] or [LESSON])))
