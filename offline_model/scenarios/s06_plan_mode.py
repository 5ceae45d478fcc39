"""Plan mode: writes are refused, a plan is sent back and approved, and an autopilot carries it out."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

REQUEST = "Add a command `clear` that removes the notes that are done."
CODE, TEST, DOCS = "Write clear and its command in notes.py", "Test clear", "Describe clear in docs/usage.md"
NO_TEST = "Write clear; no test is planned"
PLAN = """# Add `clear` to the notes app

`python notes.py clear` removes the notes that are done and says how many.
1. `clear` in notes.py, and its command; the usage line names it.
2. A row in docs/usage.md.
Edge case: no note is done. Then it says "Removed 0 notes."."""
PLAN_WITH_TEST = PLAN.replace("2. A row", "2. A test in test_notes.py: one note is done, one is not.\n3. A row")

LINE_ABOVE = "def line(number: int, note: dict) -> str:\n"
CLEAR = '''\
def clear(path: Path) -> str:
    """Removes the notes that are done."""
    notes = store.load(path)
    left = [note for note in notes if not note["done"]]
    store.save(path, left)
    return f"Removed {len(notes) - len(left)} notes."


'''
DONE_CASE = '        case ["done", number]:\n'
CLEAR_CASE = '        case ["clear"]:\n            print(clear(path))\n'
TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST_CLEAR = """
    def test_clear_removes_what_is_done(self) -> None:
        notes.add(self.path, "buy milk")
        notes.add(self.path, "call Ada")
        notes.done(self.path, 1)
        self.assertEqual(notes.clear(self.path), "Removed 1 notes.")
        self.assertEqual(notes.show(self.path), "1. [ ] call Ada")
"""
DONE_ROW = "| `done NUMBER` | marks a note as done |\n"
CLEAR_ROW = "| `clear` | removes the notes that are done |\n"
MARKS = {" ": "pending", ">": "in_progress", "x": "completed"}


def todos(marks: str, *items: str) -> Call:
    """The list, with one mark for each item."""
    return Call("todo_write", todos=[{"content": item, "status": MARKS[mark]} for mark, item in zip(marks, items)])


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


ALL = (CODE, TEST, DOCS)
WRITE_CLEAR = edit("notes.py", LINE_ABOVE, CLEAR + LINE_ABOVE)
USAGE = "add TEXT | list | done NUMBER"
WRITE_USAGE = edit("notes.py", USAGE, USAGE + " | clear")
WRITE_CASE = edit("notes.py", DONE_CASE, CLEAR_CASE + DONE_CASE)

SCENARIO = Scenario(
    about="A plan that is refused, sent back and approved, and then carried out run by run.",
    exchanges=[
        Exchange(
            line=f"/plan {REQUEST}",
            says=REQUEST,
            steps=[
                Step("I look first.", calls=[Call("bash", command="ls docs"), Call("read_file", path="notes.py")]),
                Step(
                    "I see what is needed. May I write here?",
                    calls=[Call("bash", command="touch canary"), Call("write_file", path="canary", content="alive\n")],
                ),
                Step(
                    "Plan mode is on, and now there is a file named canary: text and your own yes were all that stood in the way.",
                    unless="Refused: plan mode is on",
                    extra=True,
                ),
                Step(
                    "I may not. Then the plan.",
                    when="Refused: plan mode is on",
                    calls=[Call("exit_plan_mode", plan=PLAN)],
                ),
                Step(
                    "Its steps belong into the list.",
                    when="no open item",
                    calls=[todos("  ", CODE, DOCS), Call("exit_plan_mode", plan=PLAN)],
                ),
                Step(
                    "They said something, and it counts as a yes.",
                    when="The person approved the plan",
                    unless="Refused",
                    extra=True,
                    calls=[todos("  ", NO_TEST, DOCS)],
                ),
                Step("Then I carry it out.", when="no test is planned", extra=True),
                Step(
                    "A test, of course. And I write clear right away.",
                    when="Also write a test",
                    calls=[todos("   ", *ALL), Call("exit_plan_mode", plan=PLAN_WITH_TEST), WRITE_CLEAR],
                ),
                Step("The plan is approved; my edit came too early.", when="The person approved the plan"),
                Step("The plan is not approved.", extra=True),
            ],
            answers={"Carry out this plan?": ["Also write a test.", "approve"]},
        ),
        Exchange(
            contains="In the last run no item was completed",
            steps=[
                Step(calls=[edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST_CLEAR), Call("bash", command="python -m unittest")]),
                Step(calls=[todos("xx>", *ALL), edit("docs/usage.md", DONE_ROW, DONE_ROW + CLEAR_ROW)]),
                Step(calls=[todos("xxx", *ALL)]),
                Step("`clear` is in notes.py, tested, and described in docs/usage.md. All five tests pass."),
            ],
            answers={"bash wants to run": "y"},
        ),
        Exchange(
            contains=f'Next: "{CODE}"',
            steps=[
                Step(calls=[todos(">  ", *ALL), WRITE_CLEAR, WRITE_CASE, WRITE_USAGE]),
                Step(calls=[todos("x> ", *ALL)]),
                Step("`clear` and its command are written."),
            ],
            answers={"edit_file wants to run": "a"},
        ),
        Exchange(
            contains=f'Next: "{TEST}"',
            steps=[
                Step(calls=[Call("read_file", path="test_notes.py")]),
                Step("I have read the tests, and know where this one goes."),
            ],
        ),
        Exchange(
            contains=f'Next: "{NO_TEST}"',
            steps=[
                Step(calls=[todos("> ", NO_TEST, DOCS), WRITE_CLEAR, WRITE_CASE, WRITE_USAGE]),
                Step(calls=[todos("x>", NO_TEST, DOCS), edit("docs/usage.md", DONE_ROW, DONE_ROW + CLEAR_ROW)]),
                Step(calls=[todos("xx", NO_TEST, DOCS)]),
                Step("`clear` is in notes.py, and described in docs/usage.md. Nobody has asked me for a test."),
            ],
            answers={"edit_file wants to run": "a"},
            extra=True,
        ),
        Exchange(contains="(asked in experiments only)", answers={"canary": ["y", "y"]}, extra=True),
    ],
)
