"""A day's work in one conversation: four hundred turns, and whatever goes wrong in a day.

It uses what the newest chapter has. Each mechanism comes in at one place, marked PLUG: what a chapter does not have is
left out, and the rest of the session is the same.
"""

from __future__ import annotations

import pytest
from conftest import Chapter
from conftest import chapters_with
from conftest import import_sdk
from conftest import talk

import offline_model
from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Step

PARTS = 4  # prompts of the person
ROUNDS = 32  # of three turns in each part
DRIFTS = (1, 3)  # parts in which the model forgets its plan for some turns
DRIFT = 8  # turns
LOOKS = (0, 1, 2)  # parts after which the model only looks around: where there is plan mode, in plan mode
COMPACTED = (1, 2, 3)  # parts before which the conversation is compacted
CUTS = (0, 2)  # parts in which a call is cut off in the middle
NOW = {"retry-after": "0"}
FAULTS = {  # (part, turn) -> what goes wrong there, once
    (0, 7): {"fault": Fault(429, headers=NOW, times=2)},
    (0, 45): {"breaks_after": 6},
    (0, 80): {"fault": Fault(500, headers=NOW, times=4)},
    (1, 11): {"fault": Fault(529, headers=NOW, times=3)},  # a storm: the other model answers until the next part
    (2, 0): {"fault": Fault(0)},
    (2, 30): {"fault": Fault(200)},
    (2, 57): {"fault": Fault(503, headers=NOW)},
    (2, 90): {"breaks_after": 0},
    (3, 50): {"fault": Fault(529, headers=NOW, times=3)},
}
ITEMS = [f"Part {number} of the work" for number in range(PARTS + 1)]
SKILL = "---\nname: counting\ndescription: How the counter in log.txt is kept.\n---\nOne at a time.\n"


@pytest.fixture(params=chapters_with("recovery")[-1:])
def newest(request, tmp_path):
    """Return the newest chapter that has recovery, and the file that is worked on."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "log.txt").write_text("count: 0\n", encoding="utf-8", newline="\n")
    import_sdk()
    chapter = Chapter(request.param, workspace)
    if chapter.has("skills"):  # PLUG skills: one that can be loaded
        (workspace / "skills" / "counting").mkdir(parents=True)
        (workspace / "skills" / "counting" / "SKILL.md").write_text(SKILL, encoding="utf-8")
    yield chapter
    for server in chapter.servers:
        server.close()


def todos(part: int) -> Call:
    """The list while ``part`` is being worked on."""
    statuses = ["completed"] * part + ["in_progress"] + ["pending"] * len(ITEMS)
    return Call("todo_write", todos=[{"content": item, "status": status} for item, status in zip(ITEMS, statuses)])


def work(chapter: Chapter, part: int):
    """One part: it reads, edits, runs a command and keeps its list, round after round."""
    steps = []
    for number in range(part * ROUNDS, (part + 1) * ROUNDS):
        edit = Call("edit_file", path="log.txt", old_text=f"count: {number}\n", new_text=f"count: {number + 1}\n")
        steps += [
            {"calls": [Call("read_file", path="log.txt")], "thinking": "I count." * (number % 8 == 0)},
            {"calls": [edit, Call("bash", command="grep count log.txt")]},
            {"calls": [todos(part)]},
        ]
    steps[0]["calls"].append(todos(part))
    for place, fault in FAULTS.items():
        if place[0] == part:
            steps[place[1]].update(fault)
    if part in CUTS:
        cut = {"text": "All at once:", "calls": [Call("bash", command="touch canary")], "stop_reason": "max_tokens"}
        steps[30:30] = [cut, {"text": "In pieces.", "when": "cut off", "calls": [todos(part)]}]
    if part in DRIFTS:
        steps += [{"calls": [Call("bash", command="ls")]} for _ in range(DRIFT)] + [{"calls": [todos(part)]}]
    if chapter.has("skills"):  # PLUG skills: loaded once in each part
        steps[1:1] = [{"text": "How was that?", "calls": [Call("load_skill", name="counting")]}]
    return talk(f"Do part {part}.", *[Step(**step) for step in steps], Step(f"Part {part} is done."))


def look(part: int):
    """A part in which nothing is changed, so that it passes in plan mode, too."""
    steps = [Step(calls=[Call("read_file", path="log.txt"), todos(part)]), Step(calls=[Call("bash", command="ls")])]
    return talk(f"Look at part {part}.", *steps, Step("I have looked."))


def test_four_hundred_turns_of_a_long_day(newest):
    chapter = newest
    exchanges = [work(chapter, part) for part in range(PARTS)] + [look(part) for part in LOOKS]
    agent = chapter.agent(*exchanges, talk("and now?", Step("All is well.")), ask=lambda question: "a")
    ladder = agent.call_model.__self__
    ladder.fallback, ladder.first_wait = offline_model.FALLBACK, 0
    agent.max_turns = 150
    server, turns, fresh, compacted = agent.model.script, 0, set(), []
    if chapter.has("compaction"):
        agent.on(chapter.load("hooks").PostCompact, compacted.append)

    for part in range(PARTS):
        if chapter.has("compaction") and part in COMPACTED:  # PLUG compaction: three of them, each between two prompts
            agent.commands["compact"][1]("")
            fresh.add(len(server.requests))
        outcome = chapter.run(agent, f"Do part {part}.")
        assert (outcome.reason, outcome.text) == ("end_turn", f"Part {part} is done."), outcome
        turns += outcome.turns
        if part in LOOKS:
            if chapter.has("plan_mode"):  # PLUG plan mode: chosen while idle, and left again
                agent.commands["plan"][1]("")
            outcome = chapter.run(agent, f"Look at part {part}.")
            assert (outcome.reason, outcome.text) == ("end_turn", "I have looked."), outcome
            turns += outcome.turns
            if chapter.has("plan_mode"):
                agent.commands["plan"][1]("off")
    assert turns >= 400
    assert len(compacted) == (len(COMPACTED) if chapter.has("compaction") else 0)

    # The work was done, once each; nothing that was cut off was run.
    assert (chapter.workspace / "log.txt").read_text(encoding="utf-8") == f"count: {PARTS * ROUNDS}\n"
    assert not (chapter.workspace / "canary").exists()

    # The history was valid at each request, and is so now.
    faults = {fault.status for each in FAULTS.values() if (fault := each.get("fault"))}
    assert {record.status for record in server.requests} <= faults | {200}
    assert server.problems == []
    assert chapter.run(agent, "and now?").text == "All is well."

    # The plan is what it was: nothing was lost on the way.
    items = agent.tools["todo_write"].function.__self__.store.items()
    assert [(item.content, item.status) for item in items if item.status != "completed"] == [
        (ITEMS[PARTS - 1], "in_progress"), (ITEMS[PARTS], "pending"),
    ]

    # Reminders came where the plan was forgotten, and nowhere else.
    reminders = [data["text"] for kind, data in chapter.shown if kind == "notice" and "[reminder:" in data["text"]]
    assert len(DRIFTS) <= len(reminders) <= len(DRIFTS) * (DRIFT // 3 + 1)

    # Each mishap was told, and the other model answered twice.
    shown = [data.get("text") or data.get("reason", "") for kind, data in chapter.shown if kind in ("notice", "discard")]
    assert sum("until your next prompt" in text for text in shown) == 2
    assert sum("the answer broke off" in text for text in shown) == 2

    # The cache was read from: more than 85 of 100 tokens, but for the request after a compaction.
    usages = [record.usage for number, record in enumerate(server.requests) if record.usage and number not in fresh]
    read = sum(usage["cache_read_input_tokens"] for usage in usages)
    rest = sum(usage["input_tokens"] + usage["cache_creation_input_tokens"] for usage in usages)
    assert read / (read + rest) > 0.85
