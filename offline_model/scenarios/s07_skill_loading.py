"""A manual that is loaded and followed, a skill that is written, broken and mended, and one loaded by hand."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

LINE_ABOVE = "def line(number: int, note: dict) -> str:\n"
COUNT = '''\
def count(path: Path) -> str:
    """How many notes are open."""
    notes = store.load(path)
    return f"{sum(not note['done'] for note in notes)} of {len(notes)} notes are open."


'''
USAGE = "list | done NUMBER"
CASE_ABOVE = "        case _:\n"
CASE = '        case ["count"]:\n            print(count(path))\n'
TEST_ABOVE = '        self.assertEqual(notes.show(self.path), "1. [x] buy milk")\n'
TEST = '''
    def test_count_leaves_out_what_is_done(self) -> None:
        notes.add(self.path, "buy milk")
        notes.add(self.path, "call Ada")
        notes.done(self.path, 1)
        self.assertEqual(notes.count(self.path), "1 of 2 notes are open.")
'''
ROW_ABOVE = "| `done NUMBER` | marks a note as done |\n"
ROW = "| `count` | says how many notes are open |\n"
SKILL = "skills/fix-a-bug/SKILL.md"
MANUAL = """\
---
name: fix-a-bug
when: a bug is reported
---

1. Write a test that fails because of the bug.
2. Mend the bug. Change nothing else.
3. Run `python -m unittest`.
"""
DESCRIPTION = "description: Mends a bug, with a test that comes first. Use it when something is reported that goes wrong."
NOTE = "# Next release\n\n**New**: see how many notes are still open. `python notes.py count`\n"


def edit(path: str, old: str, new: str) -> Call:
    """One edit."""
    return Call("edit_file", path=path, old_text=old, new_text=new)


CODE = [
    edit("notes.py", LINE_ABOVE, COUNT + LINE_ABOVE),
    edit("notes.py", USAGE, USAGE + " | count"),
    edit("notes.py", CASE_ABOVE, CASE + CASE_ABOVE),
    edit("test_notes.py", TEST_ABOVE, TEST_ABOVE + TEST),
]
CHECK = Call("bash", command="bash skills/new-command/check.sh count")
RUN_TESTS = Call("bash", command="python -m unittest")
LOOK = [Call("read_file", path="notes.py"), Call("read_file", path="test_notes.py")]

SCENARIO = Scenario(
    about="Labels in the prompt, manuals on demand, and a skill that is written while it runs.",
    exchanges=[
        Exchange(
            says="Add a command `count` that says how many notes are open.",
            steps=[
                Step(
                    "There is a manual for new commands.",
                    offered="load_skill",
                    calls=[Call("load_skill", name="new-command")],
                ),
                Step("A small change.", unless="Skill new-command", extra=True, calls=LOOK),
                Step(unless="Skill new-command", extra=True, calls=[*CODE, RUN_TESTS]),
                Step("`count` is there, with a test. All five tests pass.", unless="Skill new-command", extra=True),
                Step(
                    "The manual goes on.",
                    when="[there is more: read_file",
                    extra=True,
                    calls=[Call("read_file", path="skills/new-command/SKILL.md", offset=11)],
                ),
                Step(calls=LOOK),
                Step("Function, case and test as the manual says, and then its check.", calls=[*CODE, CHECK]),
                Step(
                    "It found what I forgot.",
                    when="lacks a row",
                    calls=[edit("docs/usage.md", ROW_ABOVE, ROW_ABOVE + ROW), CHECK, RUN_TESTS],
                ),
                Step("`count` is there, with a test and a row in docs/usage.md. The check finds nothing missing."),
            ],
            answers={"edit_file": "a", "bash": "a"},
        ),
        Exchange(
            says="From now on each bug gets a test before it is mended. Write that down as a skill.",
            steps=[
                Step(calls=[Call("write_file", path=SKILL, content=MANUAL)]),
                Step("The skill is written down.", unless="It is left out", extra=True),
                Step(
                    "Without a description nobody could find it.",
                    when="has no description",
                    calls=[edit(SKILL, "when: a bug is reported", DESCRIPTION)],
                ),
                Step("Now `fix-a-bug` is in the list of skills.", when="New skills"),
            ],
            answers={"write_file": "a"},
        ),
        Exchange(
            line="/skill release-note Write the note for count.",
            says="Write the note for count.",
            steps=[
                Step(when="Skill release-note", calls=[Call("write_file", path="docs/releases/next.md", content=NOTE)]),
                Step("The note is in docs/releases/next.md: one line, with an example, as the manual says."),
            ],
        ),
        Exchange(line="/skill"),
    ],
)
