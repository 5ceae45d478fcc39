"""The gate at the end of a run: its whole table, the ledger of facts, and writers that come all at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import talk
from plan_desk import DONE
from plan_desk import NAME
from plan_desk import PLAN
from plan_desk import Desk

from offline_model.script import Call
from offline_model.script import Step

HERE = f".planning/{NAME}"
PROCESSES = UPDATES = 30


@pytest.fixture
def desk(load, tmp_path):
    return Desk(load, tmp_path)


def lets_go(desk, why, **stop):
    """It does not hold, and says so in one line that orders nothing."""
    objections, shown = desk.stop(**stop)
    assert objections == [] and len(shown) == 1 and why in shown[0] and "\n" not in shown[0]
    assert not any(word in shown[0] for word in ("Go on", "set ", "must", "Update"))
    return True


def holds(desk, **stop):
    objections, shown = desk.stop(**stop)
    assert len(objections) == 1 and shown == []
    return objections[0]


# The table.


def test_it_holds_a_gated_plan_with_a_phase_in_progress(desk):
    desk.gated()
    said = holds(desk)
    assert f"{HERE}/task_plan.md" in said and "phase 1 of 2" in said and "(Held 1 of 20 times.)" in said
    assert "set its status to complete" in said and "set it to pending" in said, "there is always a legal way on"
    assert desk.state() == {"gated": True, "seal": "", "blocks": 1, "seen": 0}


def test_no_plan_no_word(desk):
    assert desk.stop() == ([], [])


def test_where_nobody_knows_which_plan_it_is_no_word(desk):
    for name in ("one", "two"):
        desk.put(f".planning/{name}/task_plan.md", PLAN)
    assert "There are several plans" in desk.files.look().problem
    assert desk.stop() == ([], [])


def test_no_phase_no_word(desk):
    desk.gated("# A plan\nwith the word in_progress\n")
    assert desk.stop() == ([], [])


def test_a_plan_that_is_not_gated_holds_nobody(desk):
    desk.typed("init search")
    desk.put(f"{HERE}/task_plan.md", PLAN)
    assert lets_go(desk, "0 of 2 phases complete, 1 in progress; not gated")
    assert desk.state()["blocks"] == 0


@pytest.mark.parametrize("forced", [1, 2, 8])
def test_a_stop_that_a_hook_has_forced_already_is_let_go(desk, forced):
    """Whichever hook it was, and also where it was to go on with a reply that had been cut off."""
    desk.gated()
    assert lets_go(desk, "made to go on already", forced=forced)
    assert desk.state()["blocks"] == 0
    assert holds(desk)


def test_unfinished_is_not_enough(desk):
    desk.gated("### Phase 1 [complete]\n### Phase 2 [pending]\n### Phase 3\n")
    assert lets_go(desk, "1 of 3 phases complete, 0 in progress; nothing is going on")


def test_a_finished_plan_is_let_go(desk):
    desk.gated(DONE)
    assert lets_go(desk, "2 of 2 phases complete, 0 in progress; all done")


def test_the_cap(desk):
    desk.gated()
    for number in range(1, 21):
        assert f"(Held {number} of 20 times.)" in holds(desk)
        desk.ran(f"step {number}")
    assert lets_go(desk, "held 20 times already, the cap is 20")
    desk.typed(f"init {NAME} --gated")
    assert "(Held 1 of 20 times.)" in holds(desk), "init starts anew"


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_the_cap_is_policy(load, tmp_path, cap):
    desk = Desk(load, tmp_path, cap=cap).gated()
    for _ in range(cap):
        holds(desk)
        desk.ran("x")
    assert lets_go(desk, f"the cap is {cap}")


def test_a_cap_below_zero_stops_the_start(load, tmp_path):
    with pytest.raises(ValueError, match="cap is -1"):
        Desk(load, tmp_path, cap=-1)


def test_the_cap_goes_before_the_stall(load, tmp_path):
    desk = Desk(load, tmp_path, cap=1).gated()
    holds(desk)
    assert lets_go(desk, "the cap is 1")


def test_the_first_stop_holds_and_the_next_only_if_something_moved(desk):
    desk.gated()
    assert desk.ledger() == [] and holds(desk)
    assert lets_go(desk, "nothing was written or run since")
    desk.ran("python -m unittest", 1)
    assert holds(desk)
    assert lets_go(desk, "nothing was written or run since")
    desk.wrote("a.py")
    assert holds(desk) and desk.state()["seen"] == 2 and desk.state()["blocks"] == 3


def test_what_moved_before_the_first_stop_counts_for_it_alone(desk):
    desk.gated()
    desk.ran("a"), desk.ran("b")
    assert holds(desk) and desk.state()["seen"] == 2
    assert lets_go(desk, "nothing was written")


def test_the_plan_files_themselves_move_nothing(desk):
    desk.gated()
    holds(desk)
    for name in ("task_plan.md", "progress.md", "findings.md", "notes.md"):
        desk.wrote(f"{HERE}/{name}")
    desk.wrote("a.py", is_error=True)
    desk.after_tool("read_file", {"path": "a.py"}, path="a.py")
    desk.after_tool("grep", {}, pattern="x")
    assert desk.ledger() == [] and lets_go(desk, "nothing was written")
    desk.wrote("sub/progress.md")
    assert holds(desk)


@pytest.mark.parametrize("ledger", ["", "\n\n\n", "{}\n[]\nnull\n", '{"event": "note"}\n', "{broken\n", "[" * 9_000 + "\n", "x" * 50_000])
def test_what_is_no_entry_is_no_progress(desk, ledger):
    desk.gated()
    holds(desk)
    desk.put(f"{HERE}/.plan_ledger.jsonl", ledger)
    assert lets_go(desk, "nothing was written")


def test_a_ledger_that_shrinks_is_no_progress(desk):
    desk.gated()
    desk.ran("a"), desk.ran("b")
    holds(desk)
    (desk.workspace / HERE / ".plan_ledger.jsonl").unlink()
    desk.ran("c")
    assert lets_go(desk, "nothing was written")


@pytest.mark.parametrize("counter", ['"abc"', "null", "true", "[]"])
def test_a_counter_that_cannot_be_read_is_zero(desk, counter):
    desk.gated()
    desk.put(f"{HERE}/.plan_state.json", f'{{"gated": true, "blocks": {counter}, "seen": {counter}}}')
    assert holds(desk) and desk.state()["blocks"] == 1


@pytest.mark.parametrize("reason", ["max_tokens", "", "refusal"])
def test_it_judges_the_end_of_a_turn_and_nothing_else(desk, reason):
    desk.gated()
    assert desk.stop(reason=reason) == ([], [])


def test_a_sealed_plan_that_was_edited_is_not_judged(desk):
    desk.gated()
    desk.typed("seal")
    holds(desk)
    desk.put(f"{HERE}/task_plan.md", PLAN + "\nmore")
    desk.ran("x")
    assert lets_go(desk, "changed after it was sealed")


def test_the_person_is_told_that_a_seal_and_a_gate_do_not_go_together(desk):
    both = "any edit breaks the seal, and then the gate holds nobody"
    desk.typed(f"init {NAME}")
    assert both not in desk.typed("seal")
    assert both in desk.typed(f"init {NAME} --gated")
    assert both in desk.typed("seal")
    assert both not in desk.typed("seal off")


def test_the_objection_has_no_word_of_the_plan(desk):
    desk.gated('### Phase 1: done [complete]\n### Phase 2: say "hi" \\ tab\there <data> run touch canary\n**Status:** in_progress\nSECRET\n')
    said = holds(desk)
    assert "phase 2 of 2" in said
    assert not any(word in said for word in ("hi", "canary", "SECRET", "<data", "\t"))


def test_what_it_remembers_lies_beside_the_plan_and_outlives_the_session(load, desk):
    desk.gated()
    holds(desk)
    again = Desk(load, desk.workspace)
    assert lets_go(again, "nothing was written")
    again.typed("init other")
    again.put(".planning/2026-01-05-other/task_plan.md", PLAN)
    assert lets_go(again, "not gated")
    assert holds(desk) if desk.ran("x") is None else False
    assert again.state(".planning/2026-01-05-other")["blocks"] == 0


def test_where_it_cannot_count_it_does_not_hold(desk, monkeypatch):
    desk.gated()

    def refuse(folder, change):
        raise OSError("disk full")

    monkeypatch.setattr(desk.load("plan_gate"), "update_state", refuse)
    assert lets_go(desk, "could not be noted: disk full")


# The ledger.


def test_the_ledger_holds_facts(desk):
    desk.gated()
    desk.wrote("src/a.py")
    desk.after_tool("edit_file", {"path": "b.py"}, path="./b.py", old_text="", new_text="")
    desk.ran("python -m unittest " + "x" * 500, 1)
    desk.ran("true")
    entries = desk.ledger()
    assert [sorted(set(entry) - {"time"}) for entry in entries[1:3]] == [["event", "path"], ["command", "event", "exit_status"]]
    assert [entry.get("path") for entry in entries] == ["src/a.py", "b.py", None, None]
    assert [entry.get("exit_status") for entry in entries] == [None, None, 1, 0]
    assert len(entries[2]["command"]) == 200 and entries[2]["command"].startswith("python -m unittest x")
    assert all(entry["time"].endswith("+00:00") for entry in entries)


def test_words_are_no_facts(desk):
    """The exit status comes from the tool, never from what a command prints."""
    desk.gated()
    desk.after_tool("bash", {"command": "echo [exit status 0]"}, command="echo [exit status 0]")
    desk.after_tool("bash", {}, command="x", is_error=True)
    desk.after_tool("write_file", {}, path="a.py", content="x")
    assert desk.ledger() == []


def test_what_a_child_did_has_happened_too(desk):
    desk.gated()
    desk.wrote("a.py", agent=object())
    assert len(desk.ledger()) == 1


def test_without_a_plan_nothing_is_written_down(desk):
    desk.wrote("a.py")
    desk.ran("x")
    assert list(desk.workspace.iterdir()) == []


def test_a_line_that_was_torn_takes_no_other_with_it(load, desk):
    desk.gated()
    desk.ran("a")
    path = desk.workspace / HERE / ".plan_ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event": "wri')
    desk.ran("b"), desk.ran("c")
    lines = path.read_text("utf-8").splitlines()
    assert [json.loads(line)["command"] for line in (lines[0], *lines[2:])] == ["a", "b", "c"]
    assert load("plan_gate").entries(path.parent) == 3


def test_odd_text_in_a_command_stays_one_line(desk):
    desk.gated()
    desk.ran("echo 'a\nb\u2028c\ud800 é'")
    assert desk.ledger()[0]["command"] == "echo 'a\nb\u2028c\ud800 é'"


@pytest.mark.parametrize("name", [".plan_ledger.jsonl", ".plan_lock", ".plan_state.json"])
def test_a_link_in_place_of_what_is_kept_is_not_followed(load, desk, tmp_path_factory, name):
    desk.gated()
    target = tmp_path_factory.mktemp("out") / "other"
    target.write_text('{"event": "write"}\n', encoding="utf-8")
    place = desk.workspace / HERE / name
    place.unlink(missing_ok=True)
    try:
        place.symlink_to(target)
    except OSError:
        return  # Windows without the right to
    desk.ran("x"), desk.stop()
    assert target.read_text("utf-8") == '{"event": "write"}\n'
    assert desk.stop()[0] == [] or name == ".plan_ledger.jsonl"


WRITERS = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import importlib
gate = importlib.import_module(sys.argv[2] + ".plan_gate")
folder = importlib.import_module(sys.argv[2] + ".plan_folder")
assert "anthropic" not in sys.modules
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[5])):
    gate.append(Path(sys.argv[3]), {"event": "command", "command": f"{sys.argv[4]}-{number}", "exit_status": 0})
    folder.update_state(Path(sys.argv[3]), lambda state: replace(state, blocks=state.blocks + 1))
"""


def test_thirty_processes_lose_nothing(load, tmp_path):
    gate, folder = load("plan_gate"), load("plan_folder")
    chapter = Path(gate.__file__).parent
    start = [sys.executable, "-c", WRITERS, str(chapter.parent), chapter.name, str(tmp_path)]
    processes = [
        subprocess.Popen([*start, str(number), str(UPDATES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout.readline().strip() == b"ready", process.stderr.read()
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        assert process.communicate(timeout=60)[1] == b"" and process.returncode == 0
    lines = (tmp_path / ".plan_ledger.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["command"] for line in lines} == {f"{a}-{b}" for a in range(PROCESSES) for b in range(UPDATES)}
    assert len(lines) == gate.entries(tmp_path) == PROCESSES * UPDATES
    assert folder.load_state(tmp_path).blocks == PROCESSES * UPDATES
    assert (tmp_path / ".plan_lock").exists(), "a lock that is deleted is two locks"


def test_threads_lose_nothing(load, tmp_path):
    gate = load("plan_gate")
    work = [threading.Thread(target=lambda: [gate.append(tmp_path, {"event": "write"}) for _ in range(20)]) for _ in range(8)]
    [thread.start() for thread in work], [thread.join() for thread in work]
    assert gate.entries(tmp_path) == 160


def test_the_lock_goes_with_whoever_held_it(load, tmp_path):
    chapter = Path(load("plan_folder").__file__).parent
    code = (
        f"import sys, os; sys.path.insert(0, {str(chapter.parent)!r}); from pathlib import Path\n"
        f"from {chapter.name}.plan_folder import lock_of\n"
        f"with lock_of(Path({str(tmp_path)!r})): os._exit(0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
    load("plan_gate").append(tmp_path, {"event": "write"})


def test_an_error_inside_lets_the_lock_go(load, tmp_path):
    folder = load("plan_folder")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            folder.update_state(tmp_path, lambda state: 1 / 0)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_no_import_needs_one_system(load):
    for name in ("file_lock", "plan_folder", "plan_gate", "plan_files", "catch_up"):
        text = Path(load(name).__file__).read_text("utf-8")
        assert "\nimport fcntl" not in text and "\nimport msvcrt" not in text


# In a whole agent.


def test_a_run_is_held_once_and_then_let_go(chapter):
    finish = Call("bash", command="echo checked")
    agent = chapter.agent(talk("go", Step("I stop here."), Step(when="is gated", calls=[finish]), Step("Now I stop.")))
    agent.commands["planfiles"][1]("init 2026-01-05-search --gated")
    (chapter.workspace / HERE / "task_plan.md").write_text(PLAN, encoding="utf-8")
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text) == ("end_turn", "Now I stop.")
    texts = [block.get("text", "") for message in agent.history.messages for block in message["content"]]
    assert sum("is gated, and phase 1 of 2" in text for text in texts) == 1
    assert any("made to go on already" in data.get("text", "") for _, data in chapter.shown)
    (entry,) = [json.loads(line) for line in (chapter.workspace / HERE / ".plan_ledger.jsonl").read_text("utf-8").splitlines()]
    assert entry["command"] == "echo checked" and entry["exit_status"] == 0


def test_a_command_whose_time_is_up_has_run_too(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="sleep 5", timeout=1)]), Step("Too slow.")))
    agent.commands["planfiles"][1]("init 2026-01-05-search")
    chapter.run(agent, "go")
    (entry,) = [json.loads(line) for line in (chapter.workspace / HERE / ".plan_ledger.jsonl").read_text("utf-8").splitlines()]
    assert entry["event"] == "command" and entry["exit_status"] != 0
