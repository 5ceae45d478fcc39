"""What it costs to show the plan files: at each turn, when they changed, or never.

`python tests/benchmarks/plan_injection.py` prints the table of the lesson. A job of four prompts and eight turns each is played on
the offline model, with a plan of six phases and a log of progress that grows by a line a prompt. Tokens are the offline
model's count; what is new is paid in full, what comes from the cache costs about a tenth.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import offline_model  # noqa: E402
from offline_model.script import Call  # noqa: E402
from offline_model.script import Exchange  # noqa: E402
from offline_model.script import Scenario  # noqa: E402
from offline_model.script import Step  # noqa: E402

CHAPTER = next(path.name for path in sorted(ROOT.glob("s[0-9][0-9]_*")) if (path / "plan_files.py").exists())
WHEN = ("each turn", "on change", "never")
PROMPTS, TURNS = 4, 8
PHASES = "".join(
    f"### Phase {number}: {what}\n- [ ] look at what is there\n- [ ] change it\n- [ ] run the tests\n- **Status:** pending\n\n"
    for number, what in enumerate(("read the code", "write a test", "write the function", "command", "docs", "changelog"), 1)
)
PLAN = f"# Task plan: search\n\n## Goal\n\nA command that finds notes.\n\n## Phases\n\n{PHASES}"


def exchange(number: int) -> Exchange:
    """One prompt: commands that look at something, then a line in progress.md."""
    looks = [Step(calls=[Call("bash", command=f"echo step {number}.{turn}")]) for turn in range(TURNS - 2)]
    done = "".join(f"- prompt {each}: looked at six places, nothing broke\n" for each in range(number + 1))
    note = Step(calls=[Call("write_file", path="progress.md", content=done)])
    return Exchange(says=f"Do part {number}.", steps=[*looks, note, Step(f"Part {number} is done.")])


def measure(when: str) -> tuple[int, int, int]:
    """Return how often the plan was shown, the tokens that were new, and those that came from the cache."""
    load = lambda part: import_module(f"{CHAPTER}.{part}")  # noqa: E731
    scenario = Scenario(about="four prompts", exchanges=[exchange(number) for number in range(PROMPTS)])
    shown: list[str] = []
    defaults = load("plan_files").install.__kwdefaults__
    usual, defaults["inject"] = defaults["inject"], when
    try:
        with tempfile.TemporaryDirectory() as folder, offline_model.start(scenario=scenario) as server:
            (Path(folder) / "task_plan.md").write_text(PLAN, encoding="utf-8")
            model = load("model").Model(offline_model.MODEL, server.url, "x", server)
            show = lambda kind, **data: shown.append(data.get("text", ""))  # noqa: E731
            agent = load("harness").build(model, Path(folder).resolve(), show, lambda question: "y")
            for line in server.lines:
                load("loop").run(agent, line)
            usages = [record.usage for record in server.requests if record.status == 200]
    finally:
        defaults["inject"] = usual
    assert len(usages) == PROMPTS * TURNS, len(usages)
    read = sum(usage["cache_read_input_tokens"] for usage in usages)
    new = sum(usage["input_tokens"] + usage["cache_creation_input_tokens"] for usage in usages)
    return sum("is shown the plan files" in text for text in shown), new, read


def table() -> list[str]:
    """Return the rows of the table in the lesson: what each way takes beyond a run without plan files in view."""
    found = {when: measure(when) for when in WHEN}
    _, least_new, least_read = found["never"]
    rows = ["| the plan files are shown | times | new tokens more | tokens from the cache more |", "|---|---|---|---|"]
    return rows + [f"| {when} | {times} | {new - least_new:,} | {read - least_read:,} |" for when, (times, new, read) in found.items()]


if __name__ == "__main__":
    print("\n".join(table()))
