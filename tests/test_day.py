"""A day with everything: plan, approval, todos, skill, memory, MCP, hook, children, overload, compaction, kill, resume.

What is checked: each request was valid, and each mechanism's state is right at the end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from conftest import talk

import offline_model
from offline_model.script import Call
from offline_model.script import Exchange
from offline_model.script import Fault
from offline_model.script import Step

MECHANISM = "commands"  # the chapters that have all of it
SERVER = Path(__file__).parent / "data" / "mcp_server.py"
ITEMS = ("Count up to forty", "Ask around", "Count on")
COUNTED = 72  # turns of counting in each half
GUARD = "import json, sys; told = json.load(sys.stdin); sys.exit(2 if 'forbidden' in told['tool_input']['command'] else 0)"
SKILL = "---\nname: counting\ndescription: How one counts.\n---\nOne at a time.\n"
APPROVED, MORE = f'Next: "{ITEMS[0]}"', "Go on with the rest."


def todos(done: int, going: bool = True) -> Call:
    statuses = ["completed"] * done + ["in_progress" if going else "pending"] + ["pending"] * len(ITEMS)
    return Call("todo_write", todos=[{"content": item, "status": status} for item, status in zip(ITEMS, statuses)])


def count(start: int, done: int) -> list[Step]:
    """Steps that count, one turn each, and keep the list in view."""
    steps = []
    for number in range(start, start + COUNTED):
        calls = [Call("edit_file", path="log.txt", old_text=f"count: {number}\n", new_text=f"count: {number + 1}\n")]
        steps.append(Step(calls=[*calls, *([todos(done)] if number % 3 == 0 else [])]))
    return steps


def build(chapter, *exchanges):
    """Return an agent with a guard, a server, and the rest as it comes; and the server of the model."""
    settings = chapter.load("settings")
    command = f'"{sys.executable}" -I -S "{chapter.workspace / "guard.py"}"'.replace("\\", "/")
    (chapter.workspace / "guard.py").write_text(GUARD, encoding="utf-8")
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}
    wanted = settings.Settings(
        hooks=tuple(chapter.load("hook_settings").parse(hooks)[0]),
        mcp_servers={"forms": {"command": sys.executable, "args": [str(SERVER)]}},
        limits={"max_turns": 120},
    )
    server = offline_model.start(scenario=offline_model.script.Scenario(about="test", exchanges=list(exchanges)))
    chapter.servers.append(server)
    model = chapter.load("model").Model(offline_model.MODEL, server.url, "test", server)
    agent = chapter.load("harness").build(
        model, chapter.workspace, chapter.show, lambda question: "approve" if "plan?" in question else "a",
        settings=wanted, patience=30,
    )
    agent.call_model.__self__.first_wait = 0
    return agent, server


def test_a_day_with_everything(chapter):
    (chapter.workspace / "log.txt").write_text("count: 0\n", encoding="utf-8", newline="\n")
    (chapter.workspace / "skills" / "counting").mkdir(parents=True)
    (chapter.workspace / "skills" / "counting" / "SKILL.md").write_text(SKILL, encoding="utf-8")
    memory = Call("memory_write", name="pace", type="feedback", description="How fast to count", text="Slowly.")
    both = [Call("task", description=f"side {name}", prompt=f"Look at side {name}.") for name in "ab"]
    plan = talk(
        "Count, and ask around.",
        Step(calls=[Call("write_file", path="early.txt", content="x")]),
        Step(when="plan mode is on", calls=[todos(0, going=False), Call("exit_plan_mode", plan="# Count\n\nOne at a time.")]),
        Step("Approved."),
    )
    morning = Exchange(
        contains=APPROVED,
        steps=[
            Step(calls=[todos(0), Call("load_skill", name="counting")]),
            *count(0, 0),
            Step(calls=[Call("bash", command="touch forbidden")]),
            Step(when="Blocked by a hook", calls=[memory]),
            Step(calls=[todos(1), *both], fault=Fault(529, headers={"retry-after": "0"}, times=2)),
            Step(when="Side b is fine", calls=[Call("mcp__forms__structured")]),
            Step("The morning is over."),
        ],
    )
    children = [talk(f"Look at side {name}.", Step(calls=[Call("bash", command="pwd")]), Step(f"Side {name} is fine.")) for name in "ab"]
    pause = Exchange(contains="In the last run", steps=[Step("I wait for you.") for _ in range(9)])
    rest = Exchange(contains=f'Next: "{ITEMS[1]}"', steps=[Step("I wait for you.")])
    agent, server = build(chapter, plan, morning, *children, pause, rest)
    main = chapter.load("__main__")
    console = chapter.load("console").Console(one_shot=True)

    agent.commands["plan"][1]("")
    main.work(agent, console, "Count, and ask around.")
    assert not (chapter.workspace / "early.txt").exists() and not (chapter.workspace / "forbidden").exists()
    assert not agent.desk.plan.active
    assert server.problems == []
    agent.commands["compact"][1]("")
    morning_turns, name = agent.desk.meter.turns, agent.session.id
    kept = str(agent.history.messages)
    assert len(agent.history.messages) < 5 and "counting: load again if needed" in kept and ITEMS[1] in kept
    log = agent.session.log.path
    as_killed = log.read_bytes() + b'{"type": "message", "role": "us'  # in the middle of a record, and nothing is closed
    agent.exits.close()
    log.write_bytes(as_killed)

    evening = talk(
        MORE, Step(calls=[todos(2)]), *count(COUNTED, 2), Step(calls=[Call("memory_read", name="pace")]),
        Step(when="Slowly.", calls=[todos(3)]), Step("All is done."),
    )
    other, later = build(chapter, evening, pause)
    other.session.resume(name)
    assert [item.status for item in other.desk.store.items()] == ["completed", "in_progress", "pending"]
    outcome = main.work(other, console, MORE)
    other.exits.close()

    assert outcome.text == "All is done.", outcome
    assert morning_turns + other.desk.meter.turns >= 150
    assert server.problems == [] and later.problems == []
    assert {record.status for each in (server, later) for record in each.requests} <= {200, 529}
    assert (chapter.workspace / "log.txt").read_text(encoding="utf-8") == f"count: {2 * COUNTED}\n"
    assert [item.status for item in other.desk.store.items()] == ["completed"] * 3
    assert "Slowly." in (chapter.workspace / ".harness" / "memory" / "pace.md").read_text(encoding="utf-8")
    assert other.history.open_calls() == [] and not other.desk.plan.active
    asked = json.dumps([record.body for record in server.requests])
    assert "Side a is fine" in asked and "mcp__forms__structured" in asked and "Blocked by a hook" in asked
    usages = [record.usage for record in later.requests if record.usage][1:]
    read = sum(usage["cache_read_input_tokens"] for usage in usages)
    assert read / sum(usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] for usage in usages) > 0.85
