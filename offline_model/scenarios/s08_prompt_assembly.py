"""A project that says how it wants its work done, and says more in the middle of the conversation."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST_COUNT = '''
    def test_count_counts_what_is_open(self) -> None:
        notes.add(self.path, "buy milk")
        self.assertEqual(notes.count(self.path), "1 open.")
'''
TEST_CLEAR = '''
    def test_clear_keeps_what_is_open(self) -> None:
        notes.add(self.path, "buy milk")
        notes.add(self.path, "call Ada")
        notes.done(self.path, 1)
        self.assertEqual(notes.clear(self.path), "Removed 1.")
        self.assertEqual(notes.show(self.path), "1. [ ] call Ada")
'''
LINE_ABOVE = "def line(number: int, note: dict) -> str:\n"
COUNT = '''\
def count(path: Path) -> str:
    """How many notes are open."""
    return f"{sum(not note['done'] for note in store.load(path))} open."


'''
CLEAR = '''\
def clear(path: Path) -> str:
    """Removes the notes that are done."""
    notes = store.load(path)
    store.save(path, [note for note in notes if not note["done"]])
    return f"Removed {sum(note['done'] for note in notes)}."


'''
USAGE = "add TEXT | list | done NUMBER"
DONE_CASE = '        case ["done", number]:\n'
COUNT_CASE = '        case ["count"]:\n            print(count(path))\n'
CLEAR_CASE = '        case ["clear"]:\n            print(clear(path))\n'
DONE_ROW = "| `done NUMBER` | marks a note as done |\n"
COUNT_ROW = "| `count` | shows how many notes are open |\n"
CLEAR_ROW = "| `clear` | removes the notes that are done |\n"
RULE_ABOVE = "- Run the tests with"
NEW_RULE = "- Every change has a line in CHANGELOG.md.\n"
CHANGELOG = "# Changelog\n\n- New command `count`.\n"

# What the model knows of the project: by AGENTS.md, and by the change of it that it is told about.
ROW = "has a row in docs/usage.md"
LINE = "- Every change has a line in CHANGELOG.md"


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


RUN_TESTS = Call("bash", command="python -m unittest")
COUNT_EDITS = [
    edit("notes.py", LINE_ABOVE, COUNT + LINE_ABOVE),
    edit("notes.py", USAGE, USAGE + " | count"),
    edit("notes.py", DONE_CASE, COUNT_CASE + DONE_CASE),
]
CLEAR_EDITS = [
    edit("notes.py", LINE_ABOVE, CLEAR + LINE_ABOVE),
    edit("notes.py", USAGE + " | count", USAGE + " | count | clear"),
    edit("notes.py", DONE_CASE, CLEAR_CASE + DONE_CASE),
]

SCENARIO = Scenario(
    about="Project instructions that the model could not guess; a change of them; the prompt, section by section.",
    exchanges=[
        Exchange(
            says="Add a command count to the notes app: how many notes are open.",
            steps=[
                Step(calls=[Call("read_file", path="notes.py"), Call("read_file", path="test_notes.py")]),
                Step(
                    "This project wants a test named test_count_… and a row in docs/usage.md. The test first.",
                    told=ROW,
                    calls=[edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST_COUNT)],
                ),
                Step(told=ROW, calls=[RUN_TESTS]),
                Step(told=ROW, calls=COUNT_EDITS),
                Step(told=ROW, calls=[RUN_TESTS]),
                Step("And the row.", told=ROW, calls=[edit("docs/usage.md", DONE_ROW, DONE_ROW + COUNT_ROW)]),
                Step("count is in, with its test and its row in docs/usage.md. All five tests pass.", told=ROW),
                Step("A small change.", unless="in docs/usage.md", extra=True, calls=[*COUNT_EDITS, RUN_TESTS]),
                Step("count is in, and the tests pass.", extra=True),
            ],
            answers={"edit_file": "a", "bash": "a"},
        ),
        Exchange(
            says="From now on every change has a line in CHANGELOG.md. Write that into AGENTS.md, and keep to it here.",
            steps=[
                Step(calls=[edit("AGENTS.md", RULE_ABOVE, NEW_RULE + RULE_ABOVE)]),
                Step(
                    "It is in force, so count gets its line.",
                    told=LINE,
                    calls=[Call("write_file", path="CHANGELOG.md", content=CHANGELOG)],
                ),
                Step("It stands in AGENTS.md now, and CHANGELOG.md has its first line, for count.", told=LINE),
                Step("It stands in AGENTS.md now.", extra=True),
            ],
            answers={"write_file": "a"},
        ),
        Exchange(
            says="Add a command clear: it removes the notes that are done.",
            steps=[
                Step(told=ROW, calls=[edit("test_notes.py", TEST_COUNT, TEST_COUNT + TEST_CLEAR)]),
                Step(told=ROW, calls=CLEAR_EDITS),
                Step(told=ROW, calls=[RUN_TESTS]),
                Step(told=ROW, calls=[edit("docs/usage.md", COUNT_ROW, COUNT_ROW + CLEAR_ROW)]),
                Step(told=LINE, calls=[edit("CHANGELOG.md", "`count`.\n", "`count`.\n- New command `clear`.\n")]),
                Step("clear is in, with test, row and line. All six tests pass.", told=LINE),
                Step("A small change.", unless="CHANGELOG.md", extra=True, calls=[*CLEAR_EDITS, RUN_TESTS]),
                Step("clear is in, and the tests pass.", extra=True),
            ],
        ),
        Exchange(line="/prompt"),
    ],
)
