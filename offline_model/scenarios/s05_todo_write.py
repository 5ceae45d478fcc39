"""Nine steps. After two the model claims all nine; later it forgets the list for three turns."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

ITEMS = (
    "Read the program and its tests",
    "Write a test for search, and see it fail",
    "Write the function search in notes.py",
    "Offer search as a command",
    "Make search ignore upper and lower case",
    "Let done refuse an unknown number",
    "Test done with an unknown number",
    "Describe search in docs/usage.md and README.md",
    "Write CHANGELOG.md and run all tests",
)

TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST_SEARCH = '''
    def test_search_finds_a_part(self) -> None:
        notes.add(self.path, "buy milk")
        notes.add(self.path, "call Ada")
        self.assertEqual(notes.search(self.path, "milk"), "1. [ ] buy milk")
'''
TEST_CASE = '''
    def test_search_ignores_case(self) -> None:
        notes.add(self.path, "call Ada")
        self.assertEqual(notes.search(self.path, "ada"), "1. [ ] call Ada")
'''
TEST_DONE = '''
    def test_done_with_an_unknown_number(self) -> None:
        self.assertEqual(notes.done(self.path, 7), "There is no note 7.")
'''
LINE_ABOVE = "def line(number: int, note: dict) -> str:\n"
SEARCH = '''\
def search(path: Path, text: str) -> str:
    """The notes that contain a text, with their numbers."""
    found = [pair for pair in enumerate(store.load(path), start=1) if text in pair[1]["text"]]
    return "\\n".join(line(number, note) for number, note in found) or "Nothing found."


'''
USAGE = "add TEXT | list | done NUMBER"
DONE_CASE = '        case ["done", number]:\n'
SEARCH_CASE = '        case ["search", text]:\n            print(search(path, text))\n'
MARK_DONE = '    notes[number - 1]["done"] = True\n'
CHECK = '    if not 1 <= number <= len(notes):\n        return f"There is no note {number}."\n'
DONE_ROW = "| `done NUMBER` | marks a note as done |\n"
SEARCH_ROW = "| `search TEXT` | shows the notes that contain a text |\n"
DONE_LINE = "    python notes.py done 1\n"
CHANGELOG = "# Changelog\n\n- New command `search`.\n- `done` with an unknown number says so.\n"


def todos(done: int) -> Call:
    """The list with so many items completed and the next one in progress."""
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * len(ITEMS)
    return Call("todo_write", todos=[{"content": item, "status": status} for item, status in zip(ITEMS, statuses)])


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


RUN_TESTS = Call("bash", command="python -m unittest")
IGNORE_CASE = [
    edit("notes.py", 'if text in pair[1]["text"]]', 'if text.lower() in pair[1]["text"].lower()]'),
    edit("test_notes.py", TEST_SEARCH, TEST_SEARCH + TEST_CASE),
    RUN_TESTS,
]

SCENARIO = Scenario(
    about="A list of nine items, a fake that is refused, and a reminder.",
    exchanges=[
        Exchange(
            says="Add a search command to the notes app, with tests, documentation and a changelog. "
            "And `done` with an unknown number should say so.",
            steps=[
                Step(
                    "That is nine steps, so I keep a list.",
                    calls=[todos(0), Call("read_file", path="notes.py"), Call("read_file", path="test_notes.py")],
                ),
                Step(
                    "First a test that fails.",
                    calls=[todos(1), edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST_SEARCH), RUN_TESTS],
                ),
                Step("The rest is clear, so I mark everything as done.", calls=[todos(9)]),
                Step("All nine items are completed.", unless="Refused", extra=True),
                Step(
                    "True: only two of them are done. On with the third.",
                    when="Refused",
                    calls=[todos(2), edit("notes.py", LINE_ABOVE, SEARCH + LINE_ABOVE), RUN_TESTS],
                ),
                Step(
                    "The test passes. Now the command.",
                    calls=[
                        todos(3),
                        edit("notes.py", USAGE, USAGE + " | search TEXT"),
                        edit("notes.py", DONE_CASE, SEARCH_CASE + DONE_CASE),
                    ],
                ),
                Step("I'll try it out.", calls=[Call("bash", command="python notes.py search milk")]),
                Step("What else lists the commands?", calls=[Call("grep", pattern="done NUMBER")]),
                Step(calls=[Call("read_file", path="docs/usage.md")]),
                Step("Next, upper and lower case.", unless="todo_write", extra=True, calls=IGNORE_CASE),
                Step(
                    "The list fell behind: the command works. Next, upper and lower case.",
                    when="todo_write",
                    calls=[todos(4), *IGNORE_CASE],
                ),
                Step(calls=[todos(5), edit("notes.py", MARK_DONE, CHECK + MARK_DONE)]),
                Step(
                    "Now its test.",
                    calls=[todos(6), edit("test_notes.py", TEST_CASE, TEST_CASE + TEST_DONE), RUN_TESTS],
                ),
                Step(
                    calls=[
                        todos(7),
                        edit("docs/usage.md", DONE_ROW, DONE_ROW + SEARCH_ROW),
                        edit("README.md", DONE_LINE, DONE_LINE + "    python notes.py search milk\n"),
                    ],
                ),
                Step(
                    "Last, the changelog and all tests.",
                    calls=[todos(8), Call("write_file", path="CHANGELOG.md", content=CHANGELOG), RUN_TESTS],
                ),
                Step(calls=[todos(9)]),
                Step(
                    "`search` is in, ignores case, and is described in docs/usage.md and README.md. `done` refuses "
                    "an unknown number. Three new tests; all seven pass. CHANGELOG.md names both changes."
                ),
            ],
            answers={"edit_file": "a", "write_file": "a", "bash": "a"},
        ),
    ],
)
