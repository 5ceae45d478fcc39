"""A session of two runs, a fork of its first run, and the way back: each knows what happened in it, and nothing else.

The two share the files all the same: what the first has written, the second finds.
"""

from __future__ import annotations

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

ITEMS = ("Add the command count", "Describe it")

DONE_CASE = '        case ["done", number]:\n'
COUNT_CASE = '        case ["count"]:\n            print(len(store.load(path)))\n'
DONE_ROW = "| `done NUMBER` | marks a note as done |\n"
COUNT_ROW = "| `count` | says how many notes there are |\n"
DONE_LINE = "    python notes.py done 1\n"
COUNT_LINE = "    python notes.py count\n"
CUT_OFF = "the program ended in the middle of your work"
SLOW_CHECK = Call("bash", command="sleep 20; echo fine > check.txt")
LOOK = Call("glob", pattern="*.txt")


def todos(done: int) -> Call:
    """The list with so many items completed and the next one in progress."""
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * len(ITEMS)
    return Call("todo_write", todos=[{"content": item, "status": status} for item, status in zip(ITEMS, statuses)])


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


SCENARIO = Scenario(
    about="A session, a fork of its first run, and the way back.",
    exchanges=[
        Exchange(
            says="Give the notes app a command count. Do not describe it yet.",
            steps=[
                Step("Two steps, and one of them today.", calls=[todos(0), Call("read_file", path="notes.py")]),
                Step(calls=[edit("notes.py", DONE_CASE, COUNT_CASE + DONE_CASE), todos(1)]),
                Step("`count` works. It is not described yet."),
            ],
            answers={"edit_file": "a"},
        ),
        Exchange(
            says="Now describe it in docs/usage.md.",
            steps=[
                Step(calls=[edit("docs/usage.md", DONE_ROW, COUNT_ROW + DONE_ROW), todos(2)]),
                Step("docs/usage.md has it."),
            ],
        ),
        Exchange(line="/sessions"),
        Exchange(line="/fork 1"),
        Exchange(
            says="Describe it in README.md, and nowhere else.",
            steps=[
                Step("Is it described anywhere?", calls=[Call("grep", pattern="count", path="docs")]),
                Step(
                    "In docs/usage.md, and not by me: a fork shares the files. I leave that line to you.",
                    calls=[edit("README.md", DONE_LINE, COUNT_LINE + DONE_LINE), todos(2)],
                ),
                Step("README.md has it. The line in docs/usage.md is not mine."),
            ],
            answers={"edit_file": "y"},
        ),
        Exchange(line="/resume"),
        Exchange(
            says="What have you done?",
            steps=[
                Step("I was cut off, so I look.", told=CUT_OFF, extra=True, calls=[Call("grep", pattern="count", path=".")]),
                Step("That is what is there; more I do not know.", told=CUT_OFF, extra=True),
                Step("I wrote `count`, and described it in docs/usage.md. Of README.md I know nothing."),
            ],
        ),
        Exchange(line="/sessions"),
        Exchange(
            says="Run the slow check, then write a report.",
            steps=[Step("Both at once.", calls=[SLOW_CHECK, Call("write_file", path="report.txt", content="It is fine.\n")])],
            answers={"bash": "y", "write_file": "y"},
            typed=False,
            extra=True,
        ),
        Exchange(
            says="What came of it?",
            steps=[
                Step("The check may have run, and the report was not started. I look.", when="the outcome is unknown", calls=[LOOK]),
                Step("I look again.", when="What came of it?", calls=[LOOK]),
                Step("check.txt is there: the check went on without the program. There is no report.", when="check.txt"),
                Step("There is neither a check.txt nor a report. The check may still be at it."),
            ],
            typed=False,
            extra=True,
        ),
    ],
)
