"""A job of ten steps, and the context is lost after step five: ``python tests/benchmarks/recovery.py [chapter]``.

Counts the model turns from the person's "go on" until the model works on step six. The model is a function that looks at
nothing but its request. It is careful: what it does not know it looks up, one file a turn, and it takes no step that is
done for undone. So the numbers say how much of what was known each means of recovery puts back before the model, and
nothing about how any real model works.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

STEPS, LOST_AFTER = 10, 5
JOB = "".join(f"{number}. Write part-{number}.txt\n" for number in range(1, STEPS + 1))
ASK, GO_ON = "Do the ten steps of job.md, in order.", "Go on with the job."
COLUMNS: dict[str, tuple[str, ...]] = {  # what the table shows -> what is used
    "nothing": (),
    "session log": ("log",),
    "plan files": ("plan",),
    "session log and plan files": ("log", "plan"),
}
DONE = re.compile(r"### Phase \d+: Write (part-\d+\.txt)\n- \*\*Status:\*\* complete")


def known(messages: list[dict[str, Any]]) -> tuple[str, set[str], set[str]]:
    """Return what the model can know from its request: the files there are, whether it read the job, the parts it has seen."""
    calls, listing, seen = {}, "", set()
    for block in (block for message in messages for block in message["content"]):
        if block["type"] == "tool_use":
            calls[block["id"]] = block
        elif block["type"] == "tool_result" and not block.get("is_error"):
            call = calls[block["tool_use_id"]]
            if call["name"] == "glob":
                listing = block["content"]
            else:
                seen.add(call["input"]["path"])
        elif block["type"] == "text" and (done := DONE.findall(block["text"])):  # what a plan says that is shown to it
            seen |= {"job.md", *done}
    return listing, {"job.md"} & seen, seen - {"job.md"}


def next_call(messages: list[dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    """Return what the model does next, None when all is done."""
    listing, job, seen = known(messages)
    if not job:
        asked = any(ASK in block.get("text", "") for message in messages for block in message["content"])
        return ("read_file", {"path": "job.md"}) if asked or listing else ("glob", {"pattern": "*"})
    part = next((path for path in re.findall(r"part-\d+\.txt", JOB) if path not in seen), None)
    if part is None:
        return None
    return ("read_file", {"path": part}) if part in listing.split() else ("write_file", {"path": part, "content": f"{part}\n"})


def turns(chapter: str, used: tuple[str, ...]) -> int:
    """Play the job, lose the context, go on; return the model turns until the step that is next is worked on."""
    load = lambda module: importlib.import_module(f"{chapter}.{module}")  # noqa: E731
    asked: list[tuple[str, dict[str, Any]] | None] = []

    def answer(request: dict[str, Any]) -> Any:
        asked.append(next_call(request["messages"]))
        if asked[-1] is None:
            return load("model").Reply([{"type": "text", "text": "Done."}], "end_turn", {}, "fake")
        call = {"type": "tool_use", "id": f"toolu_{id(asked)}_{len(asked)}", "name": asked[-1][0], "input": asked[-1][1]}
        return load("model").Reply([call], "tool_use", {}, "fake")

    def new_agent() -> Any:
        model = load("model").Model("offline-model", "http://127.0.0.1:9", "none")
        agent = load("harness").build(model, Path(folder), lambda kind, **data: None, lambda question: "a")
        agent.call_model = answer
        return agent

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "job.md").write_text(JOB, encoding="utf-8")
        first = new_agent()
        first.max_turns = 1 + LOST_AFTER
        if "plan" in used:
            first.commands["planfiles"][1]("init job")
        load("loop").run(first, ASK)
        first.session.close()
        if "plan" in used:  # as a model would have kept it: this measures what is shown of it, not whether it is kept
            next(Path(folder).rglob("task_plan.md")).write_text(plan(LOST_AFTER), encoding="utf-8")
        asked.clear()
        second = new_agent()
        if "log" in used:
            second.session.resume()
        load("loop").run(second, GO_ON)
        second.session.close()
    return 1 + asked.index(("write_file", {"path": f"part-{LOST_AFTER + 1}.txt", "content": f"part-{LOST_AFTER + 1}.txt\n"}))


def plan(done: int) -> str:
    """Return the plan after so many steps."""
    status = lambda number: "complete" if number <= done else "in_progress" if number == done + 1 else "pending"  # noqa: E731
    phases = [f"### Phase {n}: Write part-{n}.txt\n- **Status:** {status(n)}\n" for n in range(1, STEPS + 1)]
    return "\n".join(["# Task plan", "## Phases", *phases])


def table(chapter: str) -> list[str]:
    """Return the rows of the lesson's table."""
    can = {"log"} | ({"plan"} if (ROOT / chapter / "plan_files.py").exists() else set())
    return [f"| {name} | {turns(chapter, used)} |" for name, used in COLUMNS.items() if set(used) <= can]


def main() -> None:
    chapters = sorted(path.parent.name for path in ROOT.glob("s[0-9][0-9]_*/session.py"))
    chapter = sys.argv[1] if len(sys.argv) > 1 else chapters[-1]
    print("| what is left | model turns until step six |\n|---|---|")
    print("\n".join(table(chapter)))


if __name__ == "__main__":
    main()
