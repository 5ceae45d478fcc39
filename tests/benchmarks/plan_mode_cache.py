"""What plan mode costs in cache hits: ``python tests/benchmarks/plan_mode_cache.py`` prints the table of its lesson.

One conversation, three ways to build plan mode: tools that write are hidden; they stay in the list and are refused; they
stay in the list and a text asks the model not to use them. The model is a script that tries to write in plan mode where
that is offered. The figures are the offline model's accounting: they show relations, and say nothing about models.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import offline_model  # noqa: E402
from offline_model.script import Call  # noqa: E402
from offline_model.script import Exchange  # noqa: E402
from offline_model.script import Scenario  # noqa: E402
from offline_model.script import Step  # noqa: E402

CHAPTER = "s06_plan_mode"
WAYS = ("tools hidden (ours)", "listed, and refused", "guidance alone")
READ, WRITE = 0.1, 1.25  # what a token costs that is read from the cache, or written there, against one that is neither
HEAD = "| | requests | input tokens | read from the cache | requests that read nothing | cost | canary |\n|---|--:|--:|--:|--:|--:|---|"

TODO = Call("todo_write", todos=[{"content": "Write it", "status": "pending"}])
SCENARIO = Scenario(
    about="Look around, plan, and work.",
    exchanges=[
        Exchange(
            says="Look around.",
            steps=[
                Step(calls=[Call("read_file", path="notes.py")]),
                Step(calls=[Call("read_file", path="store.py"), Call("read_file", path="docs/usage.md")]),
                Step("A small program, well kept."),
            ],
        ),
        Exchange(
            says="Plan a file.",
            steps=[
                Step(calls=[Call("read_file", path="test_notes.py")]),
                Step("I try.", calls=[Call("write_file", path="canary", content="alive\n")], offered="write_file"),
                Step(calls=[TODO, Call("exit_plan_mode", plan="# A file")], extra=True),
                Step(calls=[Call("write_file", path="file", content="x\n")]),
                Step(calls=[Call("read_file", path="file")]),
                Step("It is written."),
            ],
        ),
    ],
)


def main() -> None:
    print(table())


def table() -> str:
    """Return the table in Markdown."""
    return "\n".join([HEAD, *map(row, WAYS)])


def row(way: str) -> str:
    requests, canary = play(way)
    usages = [record.usage for record in requests]
    read = sum(usage["cache_read_input_tokens"] for usage in usages)
    written = sum(usage["cache_creation_input_tokens"] for usage in usages)
    plain = sum(usage["input_tokens"] for usage in usages)
    nothing = sum(not usage["cache_read_input_tokens"] for usage in usages)
    total, cost = read + written + plain, plain + READ * read + WRITE * written
    return f"| {way} | {len(usages)} | {total} | {read / total:.0%} | {nothing} | {cost:.0f} | {canary} |"


def play(way: str) -> tuple[list[Any], str]:
    """Have the conversation. Returns the requests as the server saw them, and what became of the canary."""
    load = lambda part: importlib.import_module(f"{CHAPTER}.{part}")  # noqa: E731
    hooks, workspace = load("hooks"), offline_model.make_workspace()
    try:
        with offline_model.start(scenario=SCENARIO) as server:
            model = load("model").Model(offline_model.MODEL, server.url, "x", server)
            agent = load("harness").build(model, workspace, lambda kind, **data: None, answer)
            agent.add_section("identity", load("agent").SYSTEM.format(workspace="the workspace"), order=0)  # one length
            if way != WAYS[0]:
                agent.on(hooks.BeforeModel, lambda event: event.request.update(tools=agent.request()["tools"]), last=True)
            if way == WAYS[2]:
                agent.hooks.late.pop(hooks.PreToolUse)
            for prompt in ("Look around.", "Plan a file."):
                if prompt.startswith("Plan"):
                    agent.commands["plan"][1]("")
                outcome = load("loop").run(agent, prompt)
                if outcome.reason != "end_turn":
                    raise RuntimeError(outcome)
            return server.requests, "written" if (workspace / "canary").exists() else "none"
    finally:
        shutil.rmtree(workspace)


def answer(question: str) -> str:
    return "approve" if "plan" in question else "y"


if __name__ == "__main__":
    main()
