"""Six tasks that wait for each other. Another worker holds one of them, and left one behind last night."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

SUBJECTS = (
    "Let done refuse an unknown number",
    "Write CHANGELOG.md",
    "Test done with an unknown number",
    "Describe it in docs/usage.md",
    "Show it in README.md",
    "Run all tests",
)
NIGHT_SHIFT = '''\
"""Plays another worker: it took #5 last night and #2 just now, has begun with CHANGELOG.md, and is gone."""
import json, pathlib, time

for number, hours_ago in ((5, 10), (2, 0)):
    path = pathlib.Path(f".harness/tasks/{number}.json")
    task = json.loads(path.read_text("utf-8"))
    task.update(status="in_progress", owner="night-shift", lease=time.time() - hours_ago * 3600 + 900)
    path.write_text(json.dumps(task), "utf-8")
pathlib.Path("CHANGELOG.md").write_text("# Changelog\\n\\nWork of hours.\\n", "utf-8")'''

MARK_DONE = '    notes[number - 1]["done"] = True\n'
CHECK = '    if not 1 <= number <= len(notes):\n        return f"There is no note {number}."\n'
TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST_DONE = '''
    def test_done_with_an_unknown_number(self) -> None:
        self.assertEqual(notes.done(self.path, 7), "There is no note 7.")
'''
DONE_ROW = "| `done NUMBER` | marks a note as done |\n"
NEW_ROW = "| `done NUMBER` | marks a note as done, or says that there is none |\n"
DONE_LINE = "    python notes.py done 1\n"
NEW_LINE = "    python notes.py done 7    (there is no note 7)\n"


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


def claim(number: int) -> Call:
    return Call("task_claim", id=number)


def complete(number: int) -> Call:
    return Call("task_complete", id=number)


def waits(number: int, *others: int) -> Call:
    return Call("task_update", id=number, blocked_by=list(others))


RUN_TESTS = Call("bash", command="python -m unittest")

SCENARIO = Scenario(
    about="Six tasks: a cycle is refused, what another worker holds is respected, what it left behind is taken over.",
    exchanges=[
        Exchange(
            says="`done` with an unknown number should say so. Make tasks of it: others work here too.",
            steps=[
                Step(
                    "Six tasks, so that anybody can take one.",
                    calls=[Call("task_create", subject=subject) for subject in SUBJECTS],
                ),
                Step("And what waits for what.", calls=[waits(3, 1), waits(4, 1), waits(6, 3, 4), waits(1, 6)]),
                Step("Then I begin with the first.", unless="a cycle", extra=True, calls=[claim(1)]),
                Step(
                    "#1 waits for #6, #6 for #3, and #3 for #1: none of them can ever begin.",
                    when="is not ready",
                    extra=True,
                ),
                Step(
                    "The wrong way round: #6 waits, and it does already. Now the other worker, played by a program.",
                    when="a cycle",
                    calls=[
                        Call("write_file", path="night_shift.py", content=NIGHT_SHIFT),
                        Call("bash", command="python night_shift.py"),
                        Call("task_list"),
                    ],
                ),
                Step("A changelog is quickly written.", calls=[claim(2)]),
                Step(
                    "It is mine, so I write it.",
                    unless="is held by",
                    extra=True,
                    calls=[Call("write_file", path="CHANGELOG.md", content="# Changelog\n\n- `done` says so.\n")],
                ),
                Step("The changelog is written. (It was there already.)", when="replaced", extra=True),
                Step("Somebody is at it. I take the next one.", when="is held by", calls=[Call("task_claim")]),
                Step(calls=[edit("notes.py", MARK_DONE, CHECK + MARK_DONE)]),
                Step(
                    calls=[
                        complete(1),
                        claim(3),
                        edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST_DONE),
                        RUN_TESTS,
                    ],
                ),
                Step(calls=[complete(3), claim(4), edit("docs/usage.md", DONE_ROW, NEW_ROW)]),
                Step("What else is there to do?", calls=[complete(4), Call("task_claim")]),
                Step(unless="Taken over", extra=True, calls=[RUN_TESTS]),
                Step(when="Ran 5 tests", extra=True, calls=[complete(6), Call("task_claim")]),
                Step(
                    "I have done what there was. #2 and #5 are held by night-shift.", when="No task is ready", extra=True
                ),
                Step(
                    "Left behind by night-shift. How far did it get?",
                    when="Taken over",
                    calls=[Call("grep", pattern="done", path="README.md")],
                ),
                Step("It had not begun.", calls=[edit("README.md", DONE_LINE, DONE_LINE + NEW_LINE)]),
                Step(calls=[complete(5), claim(6), RUN_TESTS]),
                Step(calls=[complete(6), Call("task_claim")]),
                Step(
                    "`done` refuses an unknown number; that is tested and described, and all five tests pass. The "
                    "changelog (#2) is with night-shift.",
                    when="No task is ready",
                ),
            ],
            answers={"task_": "a", "edit_file": "a", "write_file": "a", "bash": "a"},
        ),
    ],
)
