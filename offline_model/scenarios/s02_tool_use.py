"""Tools for files: look, misname an argument, mend a bug; an edit fails since its text stands there three times."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

CHECKED = '''\
    notes = store.load(path)
    if not 1 <= number <= len(notes):
        return f"There is no note {number}."
    notes[number - 1]["done"] = True
'''
LAST_TEST = '''\
        self.assertEqual(notes.show(self.path), "1. [x] buy milk")
'''
NEW_TEST = '''
    def test_done_with_an_unknown_number(self) -> None:
        self.assertEqual(notes.done(self.path, 7), "There is no note 7.")
'''

SCENARIO = Scenario(
    about="A bug is found, mended and tested; two calls are wrong and their errors help.",
    exchanges=[
        Exchange(
            says="`python notes.py done 7` crashes when there is no note 7. Mend it and add a test.",
            steps=[
                Step(
                    "I'll find the place first.",
                    calls=[Call("glob", pattern="**/*.py"), Call("grep", pattern="def done", glob="*.py")],
                ),
                Step(calls=[Call("read_file", file="notes.py")]),
                Step("The argument is called path.", when="argument", calls=[Call("read_file", path="notes.py")]),
                Step(
                    "Nothing checks the number before it is used. I'll check it right after loading.",
                    calls=[
                        Call(
                            "edit_file",
                            path="notes.py",
                            old_text="    notes = store.load(path)\n",
                            new_text=CHECKED.rpartition("    notes[")[0],
                        )
                    ],
                ),
                Step(
                    "That line stands there three times. With the next line it is clear which one I mean.",
                    when="times",
                    calls=[
                        Call(
                            "edit_file",
                            path="notes.py",
                            old_text='    notes = store.load(path)\n    notes[number - 1]["done"] = True\n',
                            new_text=CHECKED,
                        )
                    ],
                ),
                Step(
                    "Now a test, and all tests.",
                    calls=[
                        Call("edit_file", path="test_notes.py", old_text=LAST_TEST, new_text=LAST_TEST + NEW_TEST),
                        Call("bash", command="python -m unittest"),
                    ],
                ),
                Step(
                    "`done` now answers \"There is no note 7.\" instead of crashing: notes.py checks the number "
                    "first. There is a test for it, and all five tests pass."
                ),
            ],
        ),
        Exchange(
            says="Write a short CHANGES.md about it.",
            steps=[
                Step(
                    calls=[
                        Call(
                            "write_file",
                            path="CHANGES.md",
                            content="# Changes\n\n- `done` with an unknown number says so instead of crashing.\n",
                        )
                    ]
                ),
                Step("CHANGES.md is there, with one entry."),
            ],
        ),
    ],
)
