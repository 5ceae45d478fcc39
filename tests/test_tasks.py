"""Tasks that workers share: made once, waiting for each other, each worked on by one at a time, and none of them lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import types
from collections import Counter
from pathlib import Path

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step

NAMES = ["task_create", "task_update", "task_list", "task_get", "task_claim", "task_complete"]
FOLDER = ".harness/tasks"
LEASE = 900


class Worker:
    """Stands in for an agent with the six tools; calls are checked against the schema as the tools module does."""

    def __init__(self, load, workspace, owner="ada", **policy):
        self.module, self.of_tools = load("tasks"), load("tools")
        self.workspace, self.tools, self.sections, self.shown = workspace, {}, {}, []
        self.now = 1_000_000.0
        self.module.install(self, owner=owner, **{"clock": lambda: self.now, **policy})

    def add_section(self, name, text, order=50):
        self.sections[name] = text

    def show(self, kind, **data):
        self.shown.append((kind, data))

    def call(self, name, **arguments):
        tool = self.tools[name]
        return tool.function(self, **self.of_tools.check_arguments(tool, arguments))

    def refuse(self, name, **arguments):
        """Make a call that must be refused. Returns what the model is told; nothing else may have happened."""
        before = self.files()
        with pytest.raises(self.of_tools.ToolError) as raised:
            self.call(name, **arguments)
        assert self.files() == before
        return str(raised.value)

    def make(self, *subjects, **arguments):
        for subject in subjects:
            self.call("task_create", subject=subject, **arguments)

    @property
    def folder(self):
        return self.workspace / FOLDER

    def files(self):
        found = self.folder.glob("*.json") if self.folder.is_dir() else ()
        return {path.name: path.read_bytes() for path in found if path.is_file()}

    def put(self, id, **fields):
        """Write a file as somebody else might."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{id}.json").write_text(json.dumps({"id": id, "subject": f"task {id}", **fields}), "utf-8")

    def task(self, id):
        return json.loads((self.folder / f"{id}.json").read_bytes())

    def rows(self):
        return self.call("task_list").splitlines()


class Child:
    """Stands in for an agent that was given another one's tools."""


@pytest.fixture
def worker(load, tmp_path):
    return Worker(load, tmp_path)


@pytest.fixture
def other(load, worker):
    """Another worker at the same tasks and the same time of day."""
    return Worker(load, worker.workspace, owner="bob", clock=lambda: worker.now)


# What a task is, and its file.


def test_a_task_is_one_file(worker):
    worker.make("Read")
    assert worker.call("task_create", subject="Write", description="all\nof it", blocked_by=[1]) == (
        "Created #2 [ ] waits for #1: Write"
    )
    assert sorted(worker.files()) == ["1.json", "2.json"]
    assert worker.task(2) == {
        "id": 2,
        "subject": "Write",
        "description": "all\nof it",
        "status": "pending",
        "owner": "",
        "lease": 0.0,
        "blocked_by": [1],
    }


def test_the_files_are_for_people_too_and_not_for_git(worker):
    worker.make("Größe messen")
    text = (worker.folder / "1.json").read_text("utf-8")
    assert "Größe" in text and text.count("\n") > 5 and text.endswith("}\n")
    assert (worker.folder / ".gitignore").read_text("utf-8") == "*\n"
    (worker.folder / ".gitignore").write_text("mine\n", "utf-8")
    worker.make("B")
    assert (worker.folder / ".gitignore").read_text("utf-8") == "mine\n"


def test_ids_go_up_and_none_is_used_again(worker):
    worker.make("A", "B", "C")
    (worker.folder / "2.json").unlink()
    worker.put(7, subject=3)  # damaged, and its number is taken all the same
    assert "#8" in worker.call("task_create", subject="D")
    (worker.folder / "notes.json").write_text("no task")
    (worker.folder / "010.json").write_text("no task")
    assert "#9" in worker.call("task_create", subject="E")


def test_when_no_id_is_left_it_says_so(worker):
    worker.put(9998)
    worker.make("the last")
    assert "no id left after #9999" in worker.refuse("task_create", subject="one too many")


@pytest.mark.parametrize("id", [1, "1", "#1", " 1 "])
def test_an_id_may_be_written_like_this(worker, id):
    worker.make("A")
    assert worker.call("task_get", id=id) == "#1 [ ] ready: A"


@pytest.mark.parametrize(
    "id",
    ["../1", "1.json", "/etc/x", "1/../1", "", "0", 0, -1, "01", "1\n", "１", "²", "1\x00", "10000", 10**30, "##1", "1e0", "C:1", "*"],
)
@pytest.mark.parametrize("name", ["task_get", "task_update", "task_claim", "task_complete"])
def test_an_id_is_a_number_and_never_a_path(worker, name, id):
    worker.make("A")
    if id == "1\n":  # white space around it is no harm
        assert "#1" in worker.call("task_get", id=id)
        return
    if name == "task_claim" and id == "":  # the next one
        return
    told = worker.refuse(name, id=id)
    assert "is no id of a task" in told and "\n" not in told and "\x00" not in told


def test_an_id_in_blocked_by_is_no_path_either(worker):
    worker.make("A")
    assert "'../1' is no id" in worker.refuse("task_create", subject="B", blocked_by=["../1"])
    assert "'../1' is no id" in worker.refuse("task_update", id=1, blocked_by=[1, "../1"])


def test_a_list_of_ids_may_arrive_as_text(worker):
    worker.make("A", "B")
    assert "waits for #2, #1" in worker.call("task_create", subject="C", blocked_by='["2", 1, "#2"]')
    assert worker.task(3)["blocked_by"] == [2, 1]


@pytest.mark.parametrize("name", NAMES[1:2] + NAMES[3:])
def test_an_unknown_task_is_named(worker, name):
    worker.make("A")
    assert worker.refuse(name, id=5).startswith("There is no task #5: ")


def test_a_subject_is_one_line_whatever_it_holds(worker):
    worker.make("Read\r\n#9 [x] completed: all\u2028of\tit\x1b[2J\x00\u202e \ud800")
    assert worker.task(1)["subject"] == "Read #9 [x] completed: all of it[2J"
    assert worker.rows()[0] == "#1 [ ] ready: Read #9 [x] completed: all of it[2J"
    assert len(worker.rows()) == 2


@pytest.mark.parametrize("subject", ["", " \n", "\x00\x1b", "x" * 201])
def test_a_subject_that_is_none_is_refused(worker, subject):
    assert "1 to 200 characters" in worker.refuse("task_create", subject=subject)
    worker.make("y" * 200)
    assert "1 to 200 characters" in worker.refuse("task_update", id=1, subject=subject)


def test_a_description_cannot_pass_for_anything_else(worker):
    worker.make("A", description="\n\none\n\n#2 [ ] ready: B\x1b[0m\u2028\ttwo  \n\n")
    assert worker.call("task_get", id=1) == "#1 [ ] ready: A\n  | one\n  |\n  | #2 [ ] ready: B[0m\n  |     two"
    worker.make("B", description="d" * 8000)
    assert "8,000 characters" in worker.refuse("task_create", subject="C", description="d" * 8001)
    assert "8,000 characters" in worker.refuse("task_update", id=1, description="d" * 8001)


def test_what_others_wrote_is_shown_as_harmlessly(worker):
    worker.put(1, subject="A\n#2 [ ] ready: B" + "x" * 300, description="a\x1b[2J\r\nb" + "y" * 9000)
    assert len(worker.rows()) == 2 and len(worker.rows()[0]) == len("#1 [ ] ready: ") + 200
    text = worker.call("task_get", id=1)
    assert len(text.splitlines()) == 3 and "\x1b" not in text and len(text) < 8300


def test_fields_of_others_are_kept(worker):
    worker.put(1, worktree="w1", nested={"a": [1]})
    worker.call("task_claim", id=1)
    assert (worker.task(1)["worktree"], worker.task(1)["nested"], worker.task(1)["status"]) == ("w1", {"a": [1]}, "in_progress")
    assert "more" not in worker.task(1)


# What waits for what.


def test_dependencies_that_cannot_be_are_refused_by_name(worker):
    worker.make("A", "B")
    worker.make("C", blocked_by=[2])
    assert "There is no task #8" in worker.refuse("task_create", subject="D", blocked_by=[1, 8])
    assert "#4 waits for #4." in worker.refuse("task_create", subject="D", blocked_by=[4])
    assert "There is no task #8" in worker.refuse("task_update", id=1, blocked_by=[8])
    assert "#1 waits for #1." in worker.refuse("task_update", id=1, blocked_by=[2, 1])
    assert "#2 waits for #3 waits for #2." in worker.refuse("task_update", id=2, blocked_by=[1, 3])
    worker.call("task_update", id=1, blocked_by=[3])
    assert "#2 waits for #1 waits for #3 waits for #2." in worker.refuse("task_update", id=2, blocked_by=[1])
    worker.put(5, subject=0)
    assert "#5 is damaged" in worker.refuse("task_update", id=2, blocked_by=[5])


@pytest.fixture
def board(load):
    """Return ``board(waits, t1="failed")``: tasks and what each waits for; all pending but those of which it is said."""
    graph = load("task_graph")

    def make(waits, damaged=(), **statuses):
        tasks = {
            id: graph.Task(id, f"task {id}", status=statuses.get(f"t{id}", "pending"), lease=5.0, blocked_by=tuple(others))
            for id, others in waits.items()
        }
        return graph.Board(tasks, dict.fromkeys(damaged, "empty"), now=4.0)

    return make


@pytest.mark.parametrize(
    ("id", "blocked_by", "way"),
    [
        (1, [], []),
        (5, [4], []),
        (1, [5], []),
        (2, [1, 5], []),
        (1, [1], [1, 1]),
        (1, [2], [1, 2, 1]),
        (1, [5, 4], [1, 4, 2, 1]),
        (2, [5, 4], [2, 4, 2]),
        (9, [9], [9, 9]),
        (9, [4], []),
    ],
)
def test_the_way_round_a_cycle(board, id, blocked_by, way):
    assert board({1: [], 2: [1], 3: [1], 4: [2, 3], 5: [7]}).cycle(id, blocked_by) == way


def test_a_cycle_is_found_in_what_was_never_meant_to_be(board):
    """By hand anything can be written: a cycle that is there already must not make the search run for ever."""
    ring = board({1: [2], 2: [3], 3: [1], 4: []})
    assert ring.cycle(4, [1]) == [] and ring.cycle(2, [3]) == [2, 3, 1, 2]
    assert board({n: [n - 1, n - 2] for n in range(2, 3000)}).cycle(1, [2999])[:2] == [1, 2999]


def test_who_is_stuck_and_why(board):
    chain = {1: [], 2: [1], 3: [2], 4: [3], 5: []}
    assert board(chain).stuck() == {}
    assert board(chain, t1="failed").stuck() == {2: "#1 failed", 3: "#1 failed", 4: "#1 failed"}
    assert board(chain, t2="cancelled").stuck() == {3: "#2 cancelled", 4: "#2 cancelled"}
    assert board(chain, t1="failed", t2="completed").stuck() == {}
    assert board(chain, t1="failed", t3="cancelled").stuck() == {2: "#1 failed", 4: "#3 cancelled"}
    assert board(chain, t1="failed", t4="completed").stuck() == {2: "#1 failed", 3: "#1 failed"}


def test_who_waits_for_something_that_is_not_there_is_stuck(board):
    lost = board({1: [8], 2: [9], 3: [2, 4], 4: []}, damaged=[9])
    assert lost.stuck() == {1: "#8 is missing", 2: "#9 is damaged", 3: "#9 is damaged"}


def test_stuck_is_told_by_the_nearest_and_the_first(board):
    both = board({1: [], 2: [1], 3: [2, 4, 5], 4: [], 5: []}, t1="failed", t4="failed", t5="cancelled")
    assert both.stuck() == {2: "#1 failed", 3: "#4 failed"}
    assert board({3: [5, 4], 4: [], 5: []}, t4="failed", t5="failed").stuck() == {3: "#4 failed"}
    ring = board({1: [2, 4], 2: [1], 3: [2], 4: []}, t4="failed")
    assert ring.stuck() == {1: "#4 failed", 2: "#1 waits for itself", 3: "#1 waits for itself"}


def test_a_cycle_that_was_made_by_hand_is_stuck_and_so_is_what_waits_for_it(board):
    assert board({1: [2], 2: [1], 3: [2], 4: []}).stuck() == dict.fromkeys((1, 2, 3), "#1 waits for itself")
    assert board({1: [1]}).stuck() == {1: "#1 waits for itself"}
    assert board({1: [4], 2: [3], 3: [2, 1], 4: []}).stuck() == {2: "#2 waits for itself", 3: "#2 waits for itself"}
    two = board({1: [2], 2: [3], 3: [1, 4], 4: [5], 5: [4, 6], 6: []})
    assert set(two.stuck()) == {1, 2, 3, 4, 5} and two.ready() == [two.tasks[6]]
    done = board({1: [2], 2: [1], 3: [1]}, t2="completed")
    assert done.stuck() == {} and done.ready() == [done.tasks[1]]


def test_a_cycle_through_what_is_given_up_is_none_and_the_reason_is_that(board):
    for status in ("failed", "cancelled"):
        assert board({1: [2], 2: [1], 3: [2]}, t1=status).stuck() == dict.fromkeys((2, 3), f"#1 {status}")


def test_a_cycle_in_files_is_shown_and_can_be_mended(worker):
    worker.put(1, blocked_by=[2])
    worker.put(2, blocked_by=[1])
    worker.put(3, status="in_progress", owner="bob", lease=worker.now + 60, blocked_by=[4])
    worker.put(4, blocked_by=[3])
    assert worker.rows() == [
        "#3 [>] held by bob, 1 min left: task 3",
        "#1 [ ] stuck, #1 waits for itself: task 1",
        "#2 [ ] stuck, #1 waits for itself: task 2",
        "#4 [ ] waits for #3: task 4",
        "(0/4 completed, 1 in progress, 2 stuck, 1 waiting)",
    ]
    assert worker.call("task_update", id=1, blocked_by=[]) == "#1 [ ] ready: task 1"


def test_a_cycle_of_thousands_is_found_in_reasonable_time_and_named_in_short(worker, board):
    many = 3_000
    ring = board({id: [id % many + 1] for id in range(1, many + 1)})
    assert len(ring.stuck()) == many
    worker.put(1)
    for id in range(2, many + 1):
        worker.put(id, blocked_by=[id - 1])
    told = worker.refuse("task_update", id=1, blocked_by=[many])
    ends = "#1 waits for #3000 waits for #2999 waits for #2998", "#4 waits for #3 waits for #2 waits for #1"
    assert told.startswith(f"Refused, since it would be a cycle: {ends[0]} waits for … (2993 more) … waits for {ends[1]}.")


def test_two_ways_to_one_task_are_no_cycle(worker):
    worker.make("A")
    worker.make("B", "C", blocked_by=[1])
    worker.make("D", blocked_by=[2, 3])
    worker.make("E")
    assert worker.call("task_update", id=4, blocked_by=[3, 2, 5, 1]) == "#4 [ ] waits for #3, #2, #5, #1: D"
    assert worker.call("task_update", id=4, blocked_by=[]) == "#4 [ ] ready: D"


def test_a_long_chain_and_a_broad_one(worker):
    worker.put(1)
    for id in range(2, 1500):
        worker.put(id, blocked_by=[id - 1])
    worker.put(1500, blocked_by=list(range(1, 1500)))
    told = worker.refuse("task_update", id=1, blocked_by=[1500])
    assert "#1 waits for #1500 waits for #1." in told
    assert "waits for #1, #2, #3, #4, #5, #6, #7, #8 and 1491 more: " in worker.call("task_get", id=1500)


def test_ready_is_what_waits_for_nothing_that_is_open(worker, other):
    worker.make("A", "B")
    worker.make("C", blocked_by=[1, 2])
    worker.make("D")
    worker.call("task_claim", id=1)
    worker.call("task_complete", id=1)
    other.call("task_claim", id=4)
    assert worker.rows() == [
        "#4 [>] held by bob, 15 min left: D",
        "#2 [ ] ready: B",
        "#3 [ ] waits for #2: C",
        "#1 [x] completed: A",
        "(1/4 completed, 1 in progress, 1 ready, 1 waiting)",
    ]


def test_the_list_is_in_an_order_that_is_useful_and_does_not_jump(worker, other):
    worker.make("A", "B")
    worker.make("C", blocked_by=[1])
    worker.make("D")
    worker.make("E", blocked_by=[4])
    worker.make("F", "G", "H", "I", "J", "K")
    worker.call("task_update", id=7, status="cancelled")
    worker.call("task_claim", id=4)
    worker.call("task_update", id=4, status="failed")
    other.call("task_claim", id=6)
    worker.call("task_claim", id=2)
    worker.call("task_complete", id=2)
    worker.call("task_claim", id=10)
    expected = [
        "#6 [>] held by bob, 15 min left: F",
        "#10 [>] yours, 15 min left: J",
        "#1 [ ] ready: A",
        "#8 [ ] ready: H",
        "#9 [ ] ready: I",
        "#11 [ ] ready: K",
        "#5 [ ] stuck, #4 failed: E",
        "#4 [!] failed: D",
        "#3 [ ] waits for #1: C",
        "#7 [-] cancelled: G",
        "#2 [x] completed: B",
        "(1/11 completed, 2 in progress, 4 ready, 1 stuck, 1 failed, 1 waiting, 1 cancelled)",
    ]
    assert worker.rows() == expected and worker.rows() == expected
    assert worker.shown[-1] == ("tasks", {"text": "\n".join("    " + row for row in expected)})


def test_no_tasks(worker):
    assert worker.call("task_list") == "(no tasks)"
    assert "No task is ready" in worker.refuse("task_claim")
    assert "There is no task #1" in worker.refuse("task_get", id=1)


def test_to_look_changes_nothing(worker):
    worker.call("task_list")
    worker.refuse("task_get", id=1)
    assert list(worker.workspace.iterdir()) == []
    assert {name for name in NAMES if worker.tools[name].read_only} == {"task_list", "task_get"}


def test_a_thousand_tasks_are_listed_in_reasonable_time(worker):
    for id in range(1, 1001):
        worker.put(id, blocked_by=[] if id < 10 else [id - 9], status="completed" if id < 4 else "pending")
    start = time.process_time()
    rows = worker.rows()
    assert time.process_time() - start < 3
    assert len(rows) == 52
    assert rows[0] == "#4 [ ] ready: task 4" and rows[9] == "#13 [ ] waits for #4: task 13"
    assert rows[50] == "… and 950 more, from #54 on: task_get shows one"
    assert rows[51] == "(3/1000 completed, 9 ready, 988 waiting)"


def test_fifty_tasks_are_all_shown(worker):
    for id in range(1, 51):
        worker.put(id)
    assert len(worker.rows()) == 51 and "more" not in worker.call("task_list")


# Claims.


def test_a_claim_takes_the_next_one_or_the_one_that_is_named(worker):
    worker.make("A", "B", "C")
    worker.make("D", description="first this,\nthen that")
    assert worker.call("task_claim", id=4) == "#4 [>] yours, 15 min left: D\n  | first this,\n  | then that"
    assert worker.call("task_claim") == "#1 [>] yours, 15 min left: A"
    assert worker.call("task_claim") == "#2 [>] yours, 15 min left: B"
    assert (worker.task(4)["status"], worker.task(4)["owner"], worker.task(4)["lease"]) == ("in_progress", "ada", worker.now + LEASE)


def test_what_another_holds_is_left_alone(worker, other):
    worker.make("A", "B")
    worker.call("task_claim", id=1)
    worker.now += 120.5
    for name, more in [
        ("task_claim", {}),
        ("task_complete", {}),
        ("task_update", {}),
        ("task_update", {"subject": "mine"}),
        ("task_update", {"status": "pending"}),
        ("task_update", {"status": "cancelled"}),
        ("task_update", {"status": "failed"}),
        ("task_update", {"blocked_by": [2]}),
    ]:
        assert other.refuse(name, id=1, **more) == "#1 is held by ada (13 min left): claim another task, or wait."
    assert other.call("task_claim") == "#2 [>] yours, 15 min left: B"
    assert "No task is ready (0/2 completed, 2 in progress): " in other.refuse("task_claim")


def test_what_cannot_be_claimed_is_told_why(worker, other):
    assert worker.refuse("task_claim").startswith("No task is ready (0/0 completed): ")
    for id, fields in enumerate(
        [
            {"status": "in_progress", "owner": "bob", "lease": worker.now + 61},
            {"blocked_by": [1]},
            {"status": "failed"},
            {"status": "cancelled"},
            {"status": "completed"},
            {"blocked_by": [3, 5]},
            {"blocked_by": [9]},
        ],
        1,
    ):
        worker.put(id, **fields)
    assert worker.refuse("task_claim", id=1).startswith("#1 is held by bob (2 min left): ")
    assert worker.refuse("task_claim", id=2).startswith("#2 is not ready (waits for #1): ")
    assert worker.refuse("task_claim", id=3).startswith("#3 is failed: set it to pending")
    assert worker.refuse("task_claim", id=4).startswith("#4 is cancelled: set it to pending")
    assert worker.refuse("task_claim", id=5).startswith("#5 is completed, and stays so")
    assert worker.refuse("task_claim", id=6).startswith("#6 is not ready (stuck, #3 failed): ")
    assert worker.refuse("task_claim", id=7).startswith("#7 is not ready (stuck, #9 is missing): ")
    assert worker.refuse("task_claim").startswith("No task is ready (1/7 completed, 1 in progress, 2 stuck, 1 failed, 1 waiting")
    assert other.call("task_claim", id=1).startswith("#1 [>] yours, 15 min left")  # one's own is renewed


def test_what_was_left_behind_is_taken_over(worker):
    worker.put(1, status="in_progress", owner="bob", lease=worker.now)
    worker.put(2, status="in_progress", owner="ada", lease=0)
    worker.put(3, status="in_progress")
    assert worker.call("task_claim") == (
        "Taken over from bob, whose claim ran out: look first at what is done already.\n#1 [>] yours, 15 min left: task 1"
    )
    assert worker.call("task_claim") == "#2 [>] yours, 15 min left: task 2"
    assert worker.call("task_claim", id=3) == "#3 [>] yours, 15 min left: task 3"
    worker.put(4, owner="bob")  # pending, so nobody had it
    assert worker.call("task_claim") == "#4 [>] yours, 15 min left: task 4"
    assert {(worker.task(id)["owner"], worker.task(id)["lease"]) for id in (1, 2, 3)} == {("ada", worker.now + LEASE)}


def test_only_what_is_ready_is_claimed(worker, other):
    worker.make("A")
    worker.make("B", blocked_by=[1])
    assert worker.refuse("task_claim", id=2).startswith("#2 is not ready (waits for #1): ")
    worker.call("task_claim", id=1)
    worker.call("task_update", id=1, status="failed")
    assert worker.refuse("task_claim", id=2).startswith("#2 is not ready (stuck, #1 failed): ")
    assert worker.refuse("task_claim", id=1).startswith("#1 is failed: set it to pending")
    worker.call("task_update", id=1, status="cancelled")
    assert other.refuse("task_claim", id=1).startswith("#1 is cancelled: set it to pending")
    worker.call("task_update", id=1, status="pending")
    worker.call("task_claim", id=1)
    worker.call("task_complete", id=1)
    assert other.refuse("task_claim", id=1).startswith("#1 is completed, and stays so")


def test_a_claim_that_ran_out_is_taken_over(worker, other):
    worker.make("A", "B")
    worker.call("task_claim", id=1)
    worker.now += LEASE - 0.5
    assert "held by ada (under a minute left)" in other.refuse("task_claim", id=1)
    worker.now += 0.5
    assert worker.rows()[0] == "#1 [>] ready, your claim ran out: A"
    assert other.rows()[0] == "#1 [>] ready, the claim of ada ran out: A"
    assert other.call("task_claim") == (
        "Taken over from ada, whose claim ran out: look first at what is done already.\n#1 [>] yours, 15 min left: A"
    )
    assert "held by bob" in worker.refuse("task_complete", id=1)
    assert "held by bob" in worker.refuse("task_update", id=1)
    other.call("task_complete", id=1)
    assert "is completed" in worker.refuse("task_complete", id=1)


def test_who_is_late_and_was_not_missed_goes_on(worker, other):
    worker.make("A", "B", "C")
    for id in (1, 2, 3):
        worker.call("task_claim", id=id)
    worker.now += 10 * LEASE
    assert "Completed #1." in worker.call("task_complete", id=1)
    assert worker.call("task_update", id=2) == "#2 [>] yours, 15 min left: B"
    assert worker.call("task_claim", id=3) == "#3 [>] yours, 15 min left: C"
    assert "held by ada" in other.refuse("task_claim", id=2)


def test_every_update_of_the_owner_renews_the_claim(worker, other):
    worker.make("A")
    worker.call("task_claim", id=1)
    for more in ({}, {"subject": "A2"}, {"description": "more"}):
        worker.now += LEASE - 1
        worker.call("task_update", id=1, **more)
        assert worker.task(1)["lease"] == worker.now + LEASE
    worker.now += LEASE - 1
    assert worker.call("task_claim", id=1).startswith("#1 [>] yours, 15 min left: A2")
    assert worker.task(1)["lease"] == worker.now + LEASE
    worker.now += LEASE - 1
    worker.call("task_list")
    worker.call("task_get", id=1)
    worker.now += 1
    assert "Taken over from ada" in other.call("task_claim")


def test_the_update_of_another_renews_nothing(worker, other):
    worker.make("A")
    worker.call("task_claim", id=1)
    worker.now += LEASE
    assert other.call("task_update", id=1, subject="A2") == "#1 [>] ready, the claim of ada ran out: A2"
    assert worker.task(1)["owner"] == "ada" and worker.task(1)["lease"] == worker.now


def test_how_long_a_claim_holds_is_a_parameter(load, tmp_path):
    worker = Worker(load, tmp_path, lease_seconds=90)
    worker.make("A")
    assert "yours, 2 min left" in worker.call("task_claim")
    worker.now += 30
    assert "yours, 1 min left" in worker.rows()[0]
    worker.now += 1
    assert "yours, under a minute left" in worker.rows()[0]
    worker.now += 59
    assert "ready, your claim ran out" in worker.rows()[0]


def test_nothing_about_a_process_stands_in_a_claim(worker, load):
    worker.make("A")
    worker.call("task_claim")
    assert set(worker.task(1)) == {"id", "subject", "description", "status", "owner", "lease", "blocked_by"}
    for name in ("tasks", "task_store", "task_graph"):
        text = Path(load(name).__file__).read_text("utf-8")
        assert "getpid" not in text and "os.kill" not in text


# Names.


def test_each_agent_has_a_name_of_its_own(load, tmp_path):
    owners = set()
    for number in range(3):
        worker = Worker(load, tmp_path, owner="")
        worker.make("A")
        worker.call("task_claim")
        owners.add(worker.task(number + 1)["owner"])
    assert len(owners) == 3 and all(owner.startswith("agent-") for owner in owners)


def test_agents_that_share_the_tools_are_workers_of_their_own(worker):
    child, second = Child(), Child()
    worker.make("A", "B", "C")
    claim = worker.tools["task_claim"].function
    claim(worker)
    assert "held by ada" in pytest.raises(worker.of_tools.ToolError, claim, child, 1).value.args[0]
    claim(child)
    claim(second)
    names = [worker.task(id)["owner"] for id in (1, 2, 3)]
    assert names[0] == "ada" and all(name.startswith("ada.") for name in names[1:]) and len(set(names)) == 3
    worker.tools["task_complete"].function(child, 2)
    worker.tools["task_complete"].function(worker, 1)


def test_a_child_of_a_session_that_was_resumed_is_not_taken_for_one_from_before(load, worker):
    worker.make("A")
    worker.tools["task_claim"].function(Child(), 1)
    again = Worker(load, worker.workspace, clock=lambda: worker.now)
    with pytest.raises(again.of_tools.ToolError, match="held by ada[.]"):
        again.tools["task_claim"].function(Child(), 1)


@pytest.mark.parametrize("owner", ["two words", "a\nb", "x" * 65, "a/b", "#1", "é:"])
def test_a_name_that_cannot_be_meant_stops_the_start(load, tmp_path, owner):
    with pytest.raises(ValueError, match="owner: "):
        Worker(load, tmp_path, owner=owner)


@pytest.mark.parametrize("policy", [{"lease_seconds": 0}, {"lease_seconds": -1}, {"lock_seconds": 0}])
def test_a_time_that_cannot_be_meant_stops_the_start(load, tmp_path, policy):
    with pytest.raises(ValueError, match="more than 0"):
        Worker(load, tmp_path, **policy)


def test_the_tools_and_the_section(worker):
    assert list(worker.tools) == NAMES
    for name, tool in worker.tools.items():
        assert tool.name == name and tool.schema["additionalProperties"] is False
    assert worker.tools["task_create"].schema["required"] == ["subject"]
    assert "todo_write" in worker.sections["tasks"] and "task_create" in worker.sections["tasks"]
    assert "'completed'" not in worker.refuse("task_update", id=1, status="completed")
    assert "must be one of pending, failed, cancelled" in worker.refuse("task_update", id=1, status="in_progress")


def test_the_section_and_the_folder_are_parameters(load, tmp_path):
    worker = Worker(load, tmp_path, section="Ours.", folder="board")
    worker.make("A")
    assert worker.sections["tasks"] == "Ours." and (tmp_path / "board" / "1.json").exists()


# Completing, failing, cancelling.


def test_completing_names_only_what_it_unblocked(worker):
    worker.make("A", "B", "ready before")
    worker.make("both", blocked_by=[1, 2])
    worker.make("one", "two", blocked_by=[1])
    worker.make("behind", blocked_by=[5])
    worker.call("task_claim", id=1)
    worker.call("task_claim", id=2)
    assert worker.call("task_complete", id=1) == "Completed #1. Ready now: #5, #6\n#5 [ ] ready: one\n#6 [ ] ready: two"
    assert worker.call("task_complete", id=2) == "Completed #2. Ready now: #4\n#4 [ ] ready: both"
    assert worker.call("task_get", id=1).endswith("\nThose that wait for it: #4, #5, #6")
    worker.call("task_claim", id=5)
    worker.call("task_complete", id=5)
    assert worker.call("task_get", id=1).endswith("\nThose that wait for it: #4, #6")
    worker.call("task_claim", id=3)
    assert worker.call("task_complete", id=3) == "Completed #3. Nothing became ready by it."
    assert worker.task(3)["status"] == "completed" and worker.task(3)["owner"] == "ada" and worker.task(3)["lease"] == 0


def test_much_that_is_unblocked_is_told_in_short(worker):
    worker.make("A")
    worker.make(*map(str, range(20)), blocked_by=[1])
    worker.call("task_claim")
    lines = worker.call("task_complete", id=1).splitlines()
    assert lines[0] == "Completed #1. Ready now: #2, #3, #4, #5, #6, #7, #8, #9 and 12 more" and len(lines) == 9


def test_only_who_claimed_it_can_complete_or_fail_it(worker, other):
    worker.make("A")
    for name, more in (("complete", {}), ("fail", {"status": "failed"})):
        tool = "task_update" if more else "task_complete"
        wanted = f"#1 is not claimed by you, so you cannot {name} it: claim it first, and do its work."
        assert worker.refuse(tool, id=1, **more) == wanted
    worker.call("task_claim")
    worker.now += LEASE
    for tool, more in (("task_complete", {}), ("task_update", {"status": "failed"})):
        assert "is not claimed by you" in other.refuse(tool, id=1, **more)
    worker.call("task_complete", id=1)


def test_what_is_completed_stays_so(worker):
    worker.make("A", "B")
    worker.call("task_claim")
    worker.call("task_complete", id=1)
    for more in ({}, {"status": "pending"}, {"status": "failed"}, {"subject": "x"}, {"blocked_by": [2]}):
        assert "#1 is completed, and stays so" in worker.refuse("task_update", id=1, **more)


def test_what_waits_for_a_failed_task_is_stuck_until_somebody_decides(worker):
    worker.make("A", "free")
    worker.make("B", blocked_by=[1])
    worker.make("C", blocked_by=[3])
    worker.call("task_claim")
    assert worker.call("task_update", id=1, status="failed", description="no such library") == (
        "#1 [!] failed: A\n"
        "Stuck because of that: #3, #4. Give them other blocked_by, cancel them, or set #1 to pending to try again."
    )
    assert (worker.task(1)["owner"], worker.task(1)["lease"]) == ("ada", 0)
    assert worker.call("task_get", id=1) == "#1 [!] failed: A\n  | no such library\nThose that wait for it: #3"
    assert "nothing to change" in worker.refuse("task_update", id=1)  # who failed it holds it no longer
    assert "is not claimed by you" in worker.refuse("task_update", id=1, status="failed")
    assert "is not claimed by you" in worker.refuse("task_complete", id=1)
    assert worker.rows()[1:3] == ["#3 [ ] stuck, #1 failed: B", "#4 [ ] stuck, #1 failed: C"]
    assert worker.task(3)["status"] == worker.task(4)["status"] == "pending"  # nothing is decided for them
    # Each of the three ways out.
    assert worker.call("task_update", id=1, status="pending") == "#1 [ ] ready: A"
    assert worker.task(1)["owner"] == ""
    assert worker.call("task_get", id=4) == "#4 [ ] waits for #3: C"
    worker.call("task_claim", id=1)
    worker.call("task_update", id=1, status="failed")
    assert worker.call("task_update", id=3, blocked_by=[2]) == "#3 [ ] waits for #2: B"
    assert worker.call("task_update", id=4, status="cancelled") == "#4 [-] cancelled: C"


def test_a_cancelled_task_is_not_done_and_holds_up_what_waits(worker):
    worker.make("A", "B")
    worker.make("C", blocked_by=[2, 1])
    told = worker.call("task_update", id=1, status="cancelled")
    assert told.splitlines()[0] == "#1 [-] cancelled: A" and "Stuck because of that: #3." in told
    assert worker.call("task_get", id=3) == "#3 [ ] stuck, #1 cancelled: C"
    assert worker.call("task_update", id=1, status="cancelled") == "#1 [-] cancelled: A"  # nothing new is stuck
    assert worker.call("task_update", id=1, status="pending") == "#1 [ ] ready: A"


def test_who_begins_to_wait_for_a_failed_task_is_told_so(worker):
    worker.put(1, status="failed")
    worker.make("A")
    worker.make("B", blocked_by=[2])
    assert worker.call("task_create", subject="C", blocked_by=[1]) == "Created #4 [ ] stuck, #1 failed: C"
    assert worker.call("task_update", id=2, blocked_by=[1]) == "#2 [ ] stuck, #1 failed: A"
    assert worker.call("task_get", id=3) == "#3 [ ] stuck, #1 failed: B"


def test_a_claimed_task_can_be_given_back(worker, other):
    worker.make("A", "B")
    worker.call("task_claim")
    assert worker.call("task_update", id=1, status="pending", blocked_by=[2]) == "#1 [ ] waits for #2: A"
    assert (worker.task(1)["owner"], worker.task(1)["lease"]) == ("", 0)
    assert other.call("task_claim").startswith("#2 [>] yours")


def test_dependencies_are_settled_before_the_work_begins(worker):
    worker.make("A", "B")
    worker.call("task_claim")
    assert worker.refuse("task_update", id=1, blocked_by=[2]).startswith("#1 is in_progress, and what a task waits for")
    assert worker.refuse("task_update", id=1, status="failed", blocked_by=[2]).startswith("#1 is failed, and")
    worker.call("task_update", id=1, status="cancelled")
    assert worker.refuse("task_update", id=1, blocked_by=[2]).startswith("#1 is cancelled, and")


def test_an_update_changes_what_is_given_and_nothing_else(worker):
    worker.make("A", description="why")
    worker.make("B", blocked_by=[1])
    assert "nothing to change" in worker.refuse("task_update", id=2)
    before = worker.task(2)
    worker.call("task_update", id=2, subject="B2")
    assert worker.task(2) == {**before, "subject": "B2"}
    worker.call("task_update", id=1, description="")
    assert worker.task(1)["description"] == "" and worker.task(1)["subject"] == "A"


# What the disk does to it.

DAMAGE = {
    "empty": b"",
    "no JSON": b'{"id": 2, "sub',
    "no JSON object": b"[1]",
    "the field id is wrong or missing": b'{"id": 7, "subject": "x"}',
    "the field subject is wrong or missing": b'{"id": 2, "subject": " \\n"}',
    "the field description is wrong or missing": b'{"id": 2, "subject": "x", "description": 1}',
    "the field status is wrong or missing": b'{"id": 2, "subject": "x", "status": ["pending"]}',
    "the field owner is wrong or missing": b'{"id": 2, "subject": "x", "owner": "you, 15 min left"}',
    "the field lease is wrong or missing": b'{"id": 2, "subject": "x", "lease": Infinity}',
    "the field blocked_by is wrong or missing": b'{"id": 2, "subject": "x", "blocked_by": ["../1"]}',
    "codec can't decode": b"\xff\xfe",
    "too large, 200,001 bytes": b" " * 200_001,
}
MORE_DAMAGE = [
    b'{"id": true, "subject": "x"}',
    b'{"id": "2", "subject": "x"}',
    b'{"id": 2.0, "subject": "x"}',
    b'{"subject": "x"}',
    b'{"id": 2}',
    b'{"id": 2, "subject": "x", "lease": NaN}',
    b'{"id": 2, "subject": "x", "lease": -1}',
    b'{"id": 2, "subject": "x", "lease": true}',
    b'{"id": 2, "subject": "x", "lease": 1' + b"0" * 400 + b"}",
    b'{"id": 2, "subject": "x", "lease": 1' + b"0" * 5000 + b"}",
    b'{"id": 2, "subject": "x", "blocked_by": [2]}',
    b'{"id": 2, "subject": "x", "blocked_by": [true]}',
    b'{"id": 2, "subject": "x", "blocked_by": [-1]}',
    b'{"id": 2, "subject": "x", "blocked_by": 1}',
    b'{"id": 2, "subject": "x", "blocked_by": "13"}',
    b'{"id": 2, "subject": "x", "owner": null}',
    b'{"id": 2, "subject": "x", "status": "done"}',
    b"[" * 100_000,
    b"null",
]


@pytest.mark.parametrize(("why", "data"), [*DAMAGE.items(), *(("", data) for data in MORE_DAMAGE)])
def test_one_damaged_file_is_named_and_hides_no_other(worker, why, data):
    worker.make("A", "B")
    worker.make("C", blocked_by=[2])
    (worker.folder / "2.json").write_bytes(data)
    rows = worker.rows()
    assert rows[:2] == ["#1 [ ] ready: A", "#3 [ ] stuck, #2 is damaged: C"]
    assert rows[-1].startswith("Damaged, the others are not affected: 2.json (") and why in rows[-1] and len(rows[-1]) < 160
    for name in ("task_get", "task_update", "task_claim", "task_complete"):
        told = worker.refuse(name, id=2)
        assert told.startswith("#2 is damaged (") and why in told
    worker.call("task_claim")
    assert "Completed #1." in worker.call("task_complete", id=1)


def test_a_file_that_is_gone_leaves_what_waits_for_it_stuck(worker):
    worker.make("A")
    worker.make("B", blocked_by=[1])
    (worker.folder / "1.json").unlink()
    assert worker.rows() == ["#2 [ ] stuck, #1 is missing: B", "(0/1 completed, 1 stuck)"]


def test_a_file_written_by_hand_will_do(worker):
    worker.folder.mkdir(parents=True)
    (worker.folder / "3.json").write_bytes(b'\xef\xbb\xbf{"subject": "by hand", "id": 3, "blocked_by": [], "lease": 5}\r\n')
    worker.put(4, status="in_progress")
    worker.put(5, status="in_progress", lease=worker.now + 90)
    assert worker.rows()[:3] == [
        "#5 [>] held by somebody, 2 min left: task 5",
        "#3 [ ] ready: by hand",
        "#4 [>] ready: task 4",
    ]
    worker.put(6, owner="ada", lease=worker.now + 90)  # no claim, whatever else it says
    assert worker.call("task_get", id=6) == "#6 [ ] ready: task 6"
    assert "held by somebody" in worker.refuse("task_claim", id=5)
    assert worker.call("task_claim", id=4) == "#4 [>] yours, 15 min left: task 4"


def test_links_are_not_followed(worker, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}_outside"
    outside.mkdir()
    (outside / "2.json").write_text('{"id": 2, "subject": "secret"}')
    worker.make("A")
    (worker.folder / "2.json").symlink_to(outside / "2.json")
    (worker.folder / "3.json").symlink_to(outside / "nowhere")
    (worker.folder / "4.json").mkdir()
    assert worker.rows()[-3:] == [
        "Damaged, the others are not affected: 2.json (a link)",
        "Damaged, the others are not affected: 3.json (a link)",
        "Damaged, the others are not affected: 4.json (no ordinary file)",
    ]
    assert "(a link)" in worker.refuse("task_claim", id=2)
    worker.make("B")
    assert sorted(path.name for path in outside.iterdir()) == ["2.json"]


def test_the_lock_is_no_link_and_the_folder_leads_nowhere_else(load, tmp_path):
    workspace, outside = tmp_path / "w", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    worker = Worker(load, workspace)
    worker.folder.mkdir(parents=True)
    (worker.folder / ".lock").symlink_to(outside / "lock")
    assert ".lock is a link" in worker.refuse("task_create", subject="A")
    (workspace / "board").symlink_to(outside)
    away = Worker(load, workspace, folder="board")
    assert "leads out" in away.refuse("task_create", subject="A") and "leads out" in away.refuse("task_list")
    assert list(outside.iterdir()) == []


def test_a_pipe_in_the_folder_makes_nobody_wait(worker):
    if not hasattr(os, "mkfifo"):
        return
    worker.make("A")
    os.mkfifo(worker.folder / "2.json")
    assert "2.json (no ordinary file)" in worker.rows()[-1]


def test_a_file_that_cannot_be_read_is_named_and_why_in_the_words_of_the_system(worker, monkeypatch):
    worker.make("A", "B")
    read_bytes = Path.read_bytes

    def broken(path):
        if path.name == "2.json":
            raise OSError(5, "Input/output error", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", broken)
    assert worker.rows()[0] == "#1 [ ] ready: A"
    assert worker.rows()[-1] == "Damaged, the others are not affected: 2.json (Input/output error)"


def test_a_write_that_fails_leaves_the_task_as_it_was(worker, monkeypatch):
    worker.make("A")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    told = worker.refuse("task_claim", id=1)
    assert "(No space left on device). Nothing was changed" in told
    assert "No space" in worker.refuse("task_create", subject="B")
    monkeypatch.undo()
    assert sorted(path.name for path in worker.folder.iterdir()) == [".gitignore", ".lock", "1.json"]
    worker.call("task_claim", id=1)


def test_a_folder_that_is_none_is_told(worker):
    (worker.workspace / ".harness").mkdir()
    worker.folder.write_text("in the way")
    for name in ("task_list", "task_claim"):
        assert "cannot be read or written" in worker.refuse(name)
    assert "cannot be read or written" in worker.refuse("task_create", subject="A")


def test_who_reads_the_file_just_now_is_waited_for(worker, monkeypatch):
    """On Windows a file that somebody has open cannot be replaced."""
    worker.make("A")
    real, failures = os.replace, [PermissionError(13, "in use")] * 2

    def busy(*arguments):
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(os, "replace", busy)
    assert "yours" in worker.call("task_claim")
    failures += [PermissionError(13, "in use")] * 9
    assert "(in use)" in worker.refuse("task_complete", id=1)
    assert [path.name for path in worker.folder.glob(".*.tmp")] == []


# The lock.


def store_of(load, worker, seconds=10.0):
    return load("task_store").TaskStore(worker.workspace, FOLDER, seconds)


def test_one_at_a_time_and_nobody_waits_for_ever(load, worker):
    worker.make("A")
    hasty = Worker(load, worker.workspace, owner="bob", lock_seconds=0.1)
    with store_of(load, worker).changing():
        start = time.monotonic()
        for name, more in (("task_create", {"subject": "B"}), ("task_claim", {}), ("task_update", {"id": 1, "subject": "x"})):
            assert "being changed by others (others have had the lock .lock for 0.1 seconds)" in hasty.refuse(name, **more)
        assert 0.3 <= time.monotonic() - start < 5
        assert hasty.rows()[0] == "#1 [ ] ready: A"  # who only looks does not wait
    hasty.call("task_claim")


def answer(function, *arguments):
    """Return what it returns or raises, as text."""
    try:
        return function(*arguments)
    except Exception as error:
        return str(error)


def told_when_somebody_else_gets_the_task(load, worker, other, name):
    """While a call of ``other`` waits for the lock, ada gets the task that bob has let go. Returns what bob is told."""
    other.put(1, status="in_progress", owner="bob", lease=worker.now)
    told = []
    thread = threading.Thread(target=lambda: told.append(answer(other.tools[name].function, other, 1)))
    with store_of(load, worker).changing():
        thread.start()
        time.sleep(0.2)
        worker.put(1, status="in_progress", owner="ada", lease=worker.now + 30)
    thread.join()
    assert worker.task(1)["owner"] == "ada"
    return told


HELD = ["#1 is held by ada (under a minute left): claim another task, or wait."]


def test_a_claim_looks_under_the_lock(load, worker, other):
    assert told_when_somebody_else_gets_the_task(load, worker, other, "task_claim") == HELD


@pytest.mark.parametrize("name", ["task_complete", "task_update"])
def test_every_other_change_looks_under_the_lock(load, worker, other, name):
    assert told_when_somebody_else_gets_the_task(load, worker, other, name) == HELD


def test_an_id_is_chosen_under_the_lock(load, worker):
    worker.make("A")
    told = []
    thread = threading.Thread(target=lambda: told.append(answer(worker.tools["task_create"].function, worker, "B")))
    with store_of(load, worker).changing():
        thread.start()
        time.sleep(0.2)
        worker.put(2)
    thread.join()
    assert told == ["Created #3 [ ] ready: B"] and worker.task(2)["subject"] == "task 2"


def test_the_lock_is_given_back_when_something_fails(load, worker):
    with pytest.raises(ZeroDivisionError), store_of(load, worker).changing():
        raise ZeroDivisionError
    worker.make("A")


def test_the_lock_works_without_fcntl(load, worker, monkeypatch):
    held, calls = set(), []

    def locking(number, mode, size):
        calls.append((mode, size))
        inode = os.fstat(number).st_ino
        if mode == "unlock":
            held.remove(inode)
        elif inode in held:
            raise OSError(36, "Resource deadlock avoided")
        else:
            held.add(inode)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK="try", LK_UNLCK="unlock"))
    hasty = Worker(load, worker.workspace, owner="bob", lock_seconds=0.05)
    worker.make("A")
    assert calls == [("try", 1), ("unlock", 1)]
    with store_of(load, worker).changing():
        assert "being changed by others" in hasty.refuse("task_claim")
    assert "yours" in hasty.call("task_claim")


def test_threads_are_kept_apart_too(load, worker):
    worker.make(*(f"t{number}" for number in range(12)))
    children, got = [Child() for _ in range(4)], []
    claim = worker.tools["task_claim"].function
    threads = [threading.Thread(target=lambda c=child: got.extend(claim(c).split()[0] for _ in range(3))) for child in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"#{number}" for number in range(1, 13))
    assert list(Counter(worker.task(id)["owner"] for id in range(1, 13)).values()) == [3, 3, 3, 3]


# Processes.

CHILD = """
import importlib, sys, time
from pathlib import Path
place, package, workspace, owner, lease, job = sys.argv[1:]
sys.path.insert(0, place)
tasks, ToolError = importlib.import_module(package + ".tasks"), importlib.import_module(package + ".tools").ToolError
assert "anthropic" not in sys.modules

class Agent:
    workspace, tools = Path(workspace), {}
    def add_section(self, *arguments): pass
    def show(self, *arguments, **more): pass

agent = Agent()
tasks.install(agent, owner=owner, lease_seconds=float(lease), lock_seconds=60)
call = lambda name, *arguments, **named: agent.tools[name].function(agent, *arguments, **named)
say = lambda *words: print(*words, flush=True)
say("here")
sys.stdin.readline()

if job == "create":
    for number in range(15):
        say(call("task_create", f"{owner} {number}").split()[1])
if job == "claim":
    try:
        while True:
            say(call("task_claim").split()[0])
    except ToolError as error:
        assert "No task is ready" in str(error), error
if job == "each":
    for id in range(1, 41):
        try:
            say(call("task_claim", id).split()[0])
        except ToolError as error:
            assert "is held by" in str(error), error
if job == "work":
    store = importlib.import_module(package + ".task_store").TaskStore(agent.workspace, ".harness/tasks", 60)
    while any(task.status != "completed" for task in store.look().tasks.values()):
        try:
            id = call("task_claim").split()[0]
            say("claimed", id)
            call("task_complete", id)
            say("completed", id)
        except ToolError:
            time.sleep(0.02)
if job == "hold":
    store = importlib.import_module(package + ".task_store").TaskStore(agent.workspace, ".harness/tasks", 60)
    with store.changing():
        say("held")
        time.sleep(60)
"""


class Crew:
    """Processes that work on the tasks of one workspace, without the SDK."""

    def __init__(self, load, workspace):
        module = load("tasks")
        self.package = module.__name__.rpartition(".")[0]
        self.place, self.workspace, self.processes = Path(module.__file__).parents[1], workspace, []

    def start(self, *jobs, lease=LEASE):
        """Start one process a job, and let all begin at once."""
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        new = [
            subprocess.Popen(
                [sys.executable, "-c", CHILD, str(self.place), self.package, str(self.workspace), f"w{number}", str(lease), job],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self.workspace,
                env=environment,
                encoding="utf-8",
            )
            for number, job in enumerate(jobs, len(self.processes))
        ]
        self.processes += new
        assert all(process.stdout.readline() == "here\n" for process in new)
        for process in new:
            process.stdin.write("\n")
            process.stdin.flush()
        return new

    def said(self, process):
        """Wait for its end. Returns the lines that it wrote and nobody has read."""
        out, _ = process.communicate(timeout=90)
        assert process.returncode == 0
        return out.splitlines()


@pytest.fixture
def crew(load, tmp_path):
    crew = Crew(load, tmp_path)
    yield crew
    for process in crew.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_tasks_made_at_once_by_several_are_all_there(crew, worker):
    said = [line for process in crew.start(*["create"] * 4) for line in crew.said(process)]
    assert sorted(said) == sorted(f"#{id}" for id in range(1, 61))
    assert len({worker.task(id)["subject"] for id in range(1, 61)}) == 60


def test_eight_processes_claim_two_hundred_tasks_each_once(crew, worker):
    for id in range(1, 201):
        worker.put(id)
    said = [crew.said(process) for process in crew.start(*["claim"] * 8)]
    assert sorted(int(line[1:]) for lines in said for line in lines) == list(range(1, 201))
    for number, lines in enumerate(said):
        assert {worker.task(int(line[1:]))["owner"] for line in lines} <= {f"w{number}"}


def test_processes_that_want_the_very_same_tasks(crew, worker):
    for id in range(1, 41):
        worker.put(id)
    said = [line for process in crew.start(*["each"] * 4) for line in crew.said(process)]
    assert sorted(int(line[1:]) for line in said) == list(range(1, 41))


def test_nothing_is_lost_when_claimers_are_killed(crew, worker):
    """Three of six are killed at some moment of their work; what they held is taken over when their claim runs out."""
    for id in range(1, 61):
        worker.put(id, blocked_by=[id - 20] if id > 20 else [])
    processes = crew.start(*["work"] * 6, lease=1)
    lines = []
    for process, wait in zip(processes[:3], (1, 4, 7)):
        for _ in range(wait):
            lines.append(process.stdout.readline().strip())
        process.kill()
        lines += process.stdout.read().splitlines()
    for process in processes[3:]:
        lines += crew.said(process)
    assert {worker.task(id)["status"] for id in range(1, 61)} == {"completed"}
    completed = Counter(line for line in lines if line.startswith("completed"))
    assert max(completed.values()) == 1 and len(completed) >= 57  # one that was killed may not have come to say so
    assert worker.rows()[-1] == "(60/60 completed)"


def test_a_worker_that_died_holds_its_task_until_its_claim_runs_out(crew, worker):
    worker.make("A")
    worker.now = time.time()
    (process,) = crew.start("claim")
    assert process.stdout.readline() == "#1\n"
    process.kill()
    process.wait()
    assert "#1 is held by w0 (1" in worker.refuse("task_claim", id=1)
    worker.now += LEASE + 60
    assert "Taken over from w0" in worker.call("task_claim", id=1)


def test_who_dies_with_the_lock_in_hand_blocks_nobody(crew, worker):
    worker.make("A")
    (process,) = crew.start("hold")
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    assert "yours" in worker.call("task_claim")


# In an agent.


def call(name, **arguments):
    return Call(name, **arguments)


def results(agent):
    """Return the texts of all results, and which of them are errors."""
    blocks = [block for message in agent.history.messages if message["role"] == "user" for block in message["content"]]
    return [(block["content"], block.get("is_error", False)) for block in blocks if block["type"] == "tool_result"]


def test_an_agent_makes_claims_and_completes(chapter):
    agent = chapter.agent(
        talk(
            "go",
            Step(calls=[call("task_create", subject="A"), call("task_create", subject="B", blocked_by="[1]")]),
            Step(calls=[call("task_claim"), call("task_update", id=1, blocked_by=[2]), call("task_complete", id="1"), call("task_list")]),
            Step("Done."),
        )
    )
    assert chapter.run(agent, "go").reason == "end_turn"
    texts = [text for text, _ in results(agent)]
    assert texts[0] == "Created #1 [ ] ready: A" and "yours" in texts[2] and "is in_progress, and" in texts[3]
    assert texts[4].startswith("Completed #1. Ready now: #2")
    assert texts[5] == "#2 [ ] ready: B\n#1 [x] completed: A\n(1/2 completed, 1 ready)"
    assert [data["text"] for kind, data in chapter.shown if kind == "tasks"] == ["    " + texts[5].replace("\n", "\n    ")]


def test_who_only_looks_is_not_asked_and_who_changes_is(chapter):
    questions = []

    def ask(question):
        questions.append(question.split()[0])
        return "n"

    steps = [Step(calls=[call("task_list"), call("task_create", subject="A"), call("task_claim")]), Step("Stopped.")]
    agent = chapter.agent(talk("go", *steps), ask=ask)
    chapter.run(agent, "go")
    assert questions == ["task_create", "task_claim"]
    assert [is_error for _, is_error in results(agent)] == [False, True, True]
    assert not (chapter.workspace / FOLDER).exists()


def test_two_agents_share_the_tasks_and_no_list_of_todos(chapter):
    todo = call("todo_write", todos=[{"content": "mine", "status": "pending"}])
    first = chapter.agent(talk("go", Step(calls=[call("task_create", subject="A"), call("task_claim"), todo]), Step("Done.")))
    chapter.run(first, "go")
    second = chapter.agent(talk("look", Step(calls=[call("task_list"), call("task_claim", id=1)]), Step("Done.")))
    chapter.run(second, "look")
    (listed, _), (told, refused) = results(second)
    assert listed.startswith("#1 [>] held by agent-") and refused and "is held by" in told
    assert "mine" not in listed and "mine" not in str(list((chapter.workspace / FOLDER).glob("*.json")))


def test_in_plan_mode_tasks_are_only_looked_at(chapter):
    if not chapter.has("plan_mode"):
        return
    steps = [Step(calls=[call("task_list"), call("task_create", subject="A"), call("task_claim")]), Step("Planned.")]
    agent = chapter.agent(talk("go", *steps))
    agent.commands["plan"][1]("")
    chapter.run(agent, "go")
    assert [is_error for _, is_error in results(agent)] == [False, True, True]
    assert not (chapter.workspace / FOLDER).exists()


def test_a_session_that_is_resumed_is_the_same_worker_and_a_fork_is_another(chapter):
    first = chapter.agent(talk("go", Step(calls=[call("task_create", subject="A"), call("task_claim")]), Step("Till later.")))
    chapter.run(first, "go")
    id = first.session.id
    first.session.close()
    steps = [Step(calls=[call("task_list"), call("task_complete", id=1)]), Step("That is all.")]

    fork = chapter.agent(talk("go on", *steps))
    fork.session.fork(id)
    chapter.run(fork, "go on")
    (listed, _), (told, refused) = results(fork)[-2:]
    assert listed.startswith(f"#1 [>] held by agent-{id}") and refused and "is held by" in told

    again = chapter.agent(talk("go on", *steps))
    again.session.resume(id)
    chapter.run(again, "go on")
    (listed, _), (told, refused) = results(again)[-2:]
    assert listed.startswith("#1 [>] yours") and not refused and told.startswith("Completed #1.")
