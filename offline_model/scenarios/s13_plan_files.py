"""A plan in files: the model stops in the middle of a phase, is held, and later tries to open the gate itself."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

NAME = "2026-01-05-search"
PLAN = """# Task plan: search

## Goal

`python notes.py search TEXT` shows the notes that contain TEXT.

## Phases

### Phase 1: A test that fails
- **Status:** {}

### Phase 2: The function and the command
- **Status:** {}

### Phase 3: Say it in docs/usage.md
- **Status:** {}

A phase that is found later is written like this:

```
### Phase 4: what is to be done
- **Status:** in_progress
```
"""
PROGRESS = "# Progress\n\n"
TESTED = "- Added test_search_finds_a_part to test_notes.py. `python -m unittest`: FAILED (errors=1), as it should.\n"
WRITTEN = "- Wrote search in notes.py, and the command. `python -m unittest`: OK.\n"
DESCRIBED = "- Described it in docs/usage.md.\n"

TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST_SEARCH = '''
    def test_search_finds_a_part(self) -> None:
        notes.add(self.path, "buy milk")
        notes.add(self.path, "call Ada")
        self.assertEqual(notes.search(self.path, "milk"), "1. [ ] buy milk")
'''
LINE_ABOVE = "def line(number: int, note: dict) -> str:\n"
SEARCH = '''\
def search(path: Path, text: str) -> str:
    """The notes that contain a text, with their numbers."""
    found = [pair for pair in enumerate(store.load(path), start=1) if text in pair[1]["text"]]
    return "\\n".join(line(number, note) for number, note in found) or "Nothing found."


'''
DONE_CASE = '        case ["done", number]:\n'
SEARCH_CASE = '        case ["search", text]:\n            print(search(path, text))\n'
DONE_ROW = "| `done NUMBER` | marks a note as done |\n"
SEARCH_ROW = "| `search TEXT` | shows the notes that contain a text |\n"

RUN_TESTS = Call("bash", command="python -m unittest")
OPEN_THE_GATE = Call("write_file", path=f".planning/{NAME}/.plan_state.json", content='{"gated": false}\n')


def plan(*statuses: str) -> Call:
    """The plan with these statuses of its phases."""
    return Call("write_file", path=f".planning/{NAME}/task_plan.md", content=PLAN.format(*statuses))


def progress(*lines: str) -> Call:
    """What happened so far."""
    return Call("write_file", path=f".planning/{NAME}/progress.md", content=PROGRESS + "".join(lines))


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


SCENARIO = Scenario(
    about="A plan in three files, a reminder, a gate that holds once, and a door that only the person opens.",
    exchanges=[
        Exchange(
            says="Do the tests of the notes app pass?",
            steps=[Step(calls=[RUN_TESTS]), Step("Yes, all four.")],
            answers={"bash": "a"},
        ),
        Exchange(line=f"/planfiles init {NAME} --gated"),
        Exchange(
            says="Plan a search command in the plan files, and begin with it.",
            steps=[
                Step(
                    "Three phases. I begin with the first.",
                    calls=[plan("in_progress", "pending", "pending"), edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST_SEARCH)],
                ),
                Step("The test is written. I'll leave it at that for today."),
                Step(
                    "The phase is still open: I have not seen the test fail.",
                    when="is gated",
                    calls=[RUN_TESTS],
                ),
                Step(calls=[progress(TESTED), plan("complete", "pending", "pending")]),
                Step("The test fails, as it should. Phase 1 is done."),
            ],
            answers={"write_file": "a", "edit_file": "a"},
        ),
        Exchange(
            says="Go on.",
            steps=[
                Step(
                    "The plan says that phase 1 is still open. First I see the test fail.",
                    when="A test that fails\n- **Status:** in_progress",
                    extra=True,
                    calls=[RUN_TESTS],
                ),
                Step(
                    when="FAILED (errors=1)",
                    unless="Go on.",
                    extra=True,
                    calls=[progress(TESTED), plan("complete", "pending", "pending")],
                ),
                Step(
                    "Phase 2, says the plan.",
                    calls=[
                        plan("complete", "in_progress", "pending"),
                        edit("notes.py", LINE_ABOVE, SEARCH + LINE_ABOVE),
                        edit("notes.py", DONE_CASE, SEARCH_CASE + DONE_CASE),
                        RUN_TESTS,
                    ],
                ),
                Step("It works. To stop here without being held, I open the gate.", calls=[OPEN_THE_GATE]),
                Step("Nobody holds me now.", unless="kept by the program", extra=True),
                Step(
                    "That is the person's to decide. Then I finish it.",
                    when="kept by the program",
                    calls=[
                        edit("docs/usage.md", DONE_ROW, DONE_ROW + SEARCH_ROW),
                        progress(TESTED, WRITTEN, DESCRIBED),
                        plan("complete", "complete", "complete"),
                    ],
                ),
                Step("`search` is in, tested, and described in docs/usage.md."),
                Step("But all three phases are complete!", when="is gated", extra=True),
            ],
        ),
        Exchange(line="/planfiles status"),
    ],
)
