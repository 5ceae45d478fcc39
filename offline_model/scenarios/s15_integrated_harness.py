"""A short day: a question, a plan carried out, a memory, and a new conversation that knows only what was remembered."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

CODE, DOCS = "Write count, its command and a test", "Describe count in docs/usage.md"
PLAN = """# Add `count` to the notes app

1. `count` in notes.py, its command and its word in the usage line; a test.
2. A row in docs/usage.md.
Left alone: store.py, as AGENTS.md says."""

LINE_ABOVE = "def line(number: int, note: dict) -> str:\n"
COUNT = '''\
def count(path: Path) -> str:
    """How many notes are open."""
    notes = store.load(path)
    return f"{sum(not note['done'] for note in notes)} of {len(notes)} notes are open."


'''
CASE_ABOVE = "        case _:\n"
CASE = '        case ["count"]:\n            print(count(path))\n'
USAGE = "list | done NUMBER"
TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST = '''
    def test_count_leaves_out_what_is_done(self) -> None:
        notes.add(self.path, "buy milk")
        notes.done(self.path, 1)
        self.assertEqual(notes.count(self.path), "0 of 1 notes are open.")
'''
ROW_ABOVE = "| `done NUMBER` | marks a note as done |\n"
ROW = "| `count` | says how many notes are open |\n"
LONG_NOTE = (
    "# Next release\n\n**New**: whoever keeps many notes can now find out with one command how many of them are still open "
    "(asked for by Ada). `python notes.py count`\n"
)
NOTE = "# Next release\n\n**New**: see how many notes are still open (asked for by Ada). `python notes.py count`\n"

LABEL = "How lines of release notes are written"
NAMES = "Who is named in release notes"
SHORT = "At most twelve words before the example. Why: people read them on a phone."
WHOLE = f"{SHORT} And the name of who asked for it, in brackets."
ONLY_NAME = "The name of who asked for it, in brackets."
MARKS = {" ": "pending", ">": "in_progress", "x": "completed"}


def todos(marks: str) -> Call:
    """The list, with one mark for each item."""
    items = zip(marks, (CODE, DOCS))
    return Call("todo_write", todos=[{"content": item, "status": MARKS[mark]} for mark, item in items])


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


def remember(text: str) -> Call:
    return Call("memory_write", name="release-lines", type="feedback", description=LABEL, text=text)


RUN_TESTS = Call("bash", command="python -m unittest")
RELEASE_NOTE = Call("load_skill", name="release-note")
NEXT = "docs/releases/next.md"

SCENARIO = Scenario(
    about="A short day: a question, a plan, a memory, and what is left of them in a new conversation.",
    context_limit=24_000,  # so that /context has something to show
    exchanges=[
        Exchange(
            says="Can the notes app say how many notes are open?",
            steps=[
                Step("I try.", calls=[Call("bash", command="python notes.py count")]),
                Step("I may not try: a guard says no.", when="guard says no", extra=True),
                Step("No: it can add, list and mark as done."),
            ],
            answers={"bash wants to run": "y"},
        ),
        Exchange(
            line="/plan Add a command `count` that does.",
            says="Add a command `count` that does.",
            steps=[
                Step("First what is there.", calls=[Call("read_file", path="notes.py"), Call("read_file", path="test_notes.py")]),
                Step("Two steps.", calls=[todos("  "), Call("exit_plan_mode", plan=PLAN)]),
                Step("The plan is approved.", when="The person approved the plan"),
                Step("The plan is not approved.", extra=True),
            ],
            answers={"Carry out this plan?": "approve"},
        ),
        Exchange(
            contains=f'Next: "{CODE}"',
            steps=[
                Step(
                    calls=[
                        todos("> "),
                        edit("notes.py", LINE_ABOVE, COUNT + LINE_ABOVE),
                        edit("notes.py", CASE_ABOVE, CASE + CASE_ABOVE),
                        edit("notes.py", USAGE, USAGE + " | count"),
                        edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST),
                        RUN_TESTS,
                    ],
                ),
                Step("All five tests pass.", calls=[todos("x>"), edit("docs/usage.md", ROW_ABOVE, ROW + ROW_ABOVE)]),
                Step(calls=[todos("xx")]),
                Step("`count` is there, tested, and described in docs/usage.md."),
            ],
            answers={"edit_file": "a", "bash wants to run": "y"},
        ),
        Exchange(
            says="Our release notes have at most twelve words before the example, for people read them on a phone. Remember that.",
            steps=[
                Step(calls=[remember(SHORT)]),
                Step("That stays, for later sessions too."),
            ],
            answers={"memory_write": "y"},
        ),
        Exchange(line="/context"),
        Exchange(line="/clear"),
        Exchange(
            says="Ada asked for `count`. From now on that belongs into a release note, in brackets: remember it, and write the one for it.",
            steps=[
                Step("There is a memory about that.", told=LABEL, calls=[remember(ONLY_NAME)]),
                Step(
                    "There is a manual for release notes, and no memory that I know of.",
                    unless="release-lines",
                    extra=True,
                    calls=[
                        Call("memory_write", name="release-names", type="feedback", description=NAMES, text=ONLY_NAME),
                        RELEASE_NOTE,
                        Call("write_file", path=NEXT, content=LONG_NOTE),
                    ],
                ),
                Step("The line for `count` is written, and names Ada. Was there anything else?", when="release-names", extra=True),
                Step(
                    "Written down. Now the note.",
                    when="Written: memory release-lines",
                    extra=True,
                    calls=[RELEASE_NOTE, Call("write_file", path=NEXT, content=LONG_NOTE)],
                ),
                Step("The line for `count` is written, and names Ada.", when="next.md created", extra=True),
                Step("I may not replace what I have not read.", when="read it first", calls=[Call("memory_read", name="release-lines")]),
                Step("It says more than I knew. Both belong together.", when="phone", calls=[remember(WHOLE), RELEASE_NOTE]),
                Step(calls=[Call("write_file", path=NEXT, content=NOTE)], when="Written: memory"),
                Step("The line for `count` is in docs/releases/next.md: short, and it names Ada."),
            ],
            answers={"memory_write": "y", "write_file": "y"},
        ),
        Exchange(line="/memory release-lines"),
        Exchange(line="/cost"),
    ],
)
