"""The model writes Python that does not compile, overlooks what the harness says, and is not let off."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

STATS = '''\
"""How many notes are open, and how many are done."""

from pathlib import Path

import store


def stats(path: Path) -> str
    """One line with both numbers."""
    notes = store.load(path)
    finished = sum(note["done"] for note in notes)
    return f"{len(notes) - finished} open, {finished} done"


if __name__ == "__main__":
    print(stats(Path("notes.json")))
'''

SCENARIO = Scenario(
    about="A file with a syntax error; one hook notices, another does not let the model stop.",
    exchanges=[
        Exchange(
            says="Write stats.py: it prints how many notes are open and how many are done.",
            steps=[
                Step(
                    "The store gives me the notes; I only count.",
                    calls=[Call("write_file", path="stats.py", content=STATS)],
                ),
                Step("stats.py is written and prints both numbers."),
                Step(
                    "Right: the colon after the function's head is missing.",
                    when="does not compile",
                    calls=[
                        Call(
                            "edit_file",
                            path="stats.py",
                            old_text="def stats(path: Path) -> str\n",
                            new_text="def stats(path: Path) -> str:\n",
                        )
                    ],
                ),
                Step("Now I run it.", calls=[Call("bash", command="python stats.py && python -m unittest")]),
                Step("stats.py compiles now. Without notes it prints \"0 open, 0 done\", and all tests pass."),
            ],
            answers={"write_file": "y", "edit_file": "y", "bash": "y"},
        ),
    ],
)
