"""What a fork saves: ``python tests/benchmarks/fork_cache.py`` prints the table of its lesson.

A conversation has read the sample project, and one more question about it goes to a subagent: to a fork, as it is built
here or changed in one respect, or to a fresh one that has to read for itself. The model is a script, and the figures are
the offline model's accounting of the subagent's requests: they show relations, and say nothing about models.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import offline_model  # noqa: E402
from offline_model.script import Call  # noqa: E402
from offline_model.script import Exchange  # noqa: E402
from offline_model.script import Scenario  # noqa: E402
from offline_model.script import Step  # noqa: E402

CHAPTER = "s11_subagents"
READ, WRITE = 0.1, 1.25  # what a token costs that is read from the cache, or written there, against one that is neither
HEAD = "| the subagent is | requests | input tokens | read from the cache | cost |\n|---|--:|--:|--:|--:|"
FILES = ("notes.py", "store.py", "test_notes.py", "docs/usage.md", "README.md")
LOOK = [Call("read_file", path=path) for path in FILES]

Request = dict[str, Any]


def scenario(fork: bool) -> Scenario:
    ask = Call("task", description="One question", prompt="What is missing?", fork=fork)
    answer = Step("A test of store.py.")
    return Scenario(
        about="Read, and ask a subagent.",
        exchanges=[
            Exchange(says="Read all of it.", steps=[Step(calls=LOOK), Step("A small program.")]),
            Exchange(
                says="What is missing?", steps=[Step(calls=[ask]), Step("A test.")] if fork else [Step(calls=LOOK), answer]
            ),
            Exchange(says="Ask.", steps=[Step(calls=[ask]), Step("A test.")]),
            Exchange(contains="The job:\nWhat is missing?", typed=False, steps=[answer]),
        ],
    )


def without_task(request: Request) -> Request:
    return {**request, "tools": [tool for tool in request["tools"] if tool["name"] != "task"]}


def another_prompt(request: Request) -> Request:
    return {**request, "system": [{"type": "text", "text": "You are a subagent."}, *request["system"]]}


def another_model(request: Request) -> Request:
    return {**request, "model": "claude-sonnet-5-5"}


WAYS: dict[str, tuple[bool, Callable[[Request], Request]]] = {
    "a fork (ours)": (True, lambda request: request),
    "a fork without `task` in its list": (True, without_task),
    "a fork with a line more in its system prompt": (True, another_prompt),
    "a fork with another model": (True, another_model),
    "fresh, and reads for itself": (False, lambda request: request),
}


def main() -> None:
    print(table())


def table() -> str:
    """Return the table in Markdown."""
    return "\n".join([HEAD, *(row(name, *way) for name, way in WAYS.items())])


def row(name: str, fork: bool, change: Callable[[Request], Request]) -> str:
    usages = [record.usage for record in play(fork, change)]
    read = sum(usage["cache_read_input_tokens"] for usage in usages)
    written = sum(usage["cache_creation_input_tokens"] for usage in usages)
    plain = sum(usage["input_tokens"] for usage in usages)
    total, cost = read + written + plain, plain + READ * read + WRITE * written
    return f"| {name} | {len(usages)} | {total:,} | {read / total:.0%} | {cost:,.0f} |"


def play(fork: bool, change: Callable[[Request], Request]) -> list[Any]:
    """Have the conversation, with the subagent's requests changed. Returns these as the server saw them."""
    load = lambda part: importlib.import_module(f"{CHAPTER}.{part}")  # noqa: E731
    workspace = offline_model.make_workspace()
    identity = load("agent").SYSTEM.format(workspace="the workspace")  # one length everywhere
    try:
        with offline_model.start(scenario=scenario(fork)) as server:
            model = load("model").Model(offline_model.MODEL, server.url, "x", server)
            agent = load("harness").build(model, workspace, lambda kind, **data: None, None)
            agent.add_section("identity", identity, order=0)
            office = agent.tools["task"].function.__self__
            build, numbers = office.build_child, []

            def build_changed(parent: Any) -> Any:
                child = build(parent)
                child.add_section("identity", identity, order=0)
                call_model = child.call_model

                def call_changed(request: Request) -> Any:
                    numbers.append(len(server.requests))
                    return call_model(change(request))

                child.call_model = call_changed
                return child

            office.build_child = build_changed
            for prompt in ("Read all of it.", "Ask."):
                outcome = load("loop").run(agent, prompt)
                if outcome.reason != "end_turn":
                    raise RuntimeError(outcome)
            return [server.requests[number] for number in numbers]
    finally:
        shutil.rmtree(workspace)


if __name__ == "__main__":
    main()
