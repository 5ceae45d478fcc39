"""One tool, bash: look around, count, run the tests; then a small change."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

WRITE = r"printf '# Changes\n\n- Checked that all tests pass.\n' > CHANGES.md"

SCENARIO = Scenario(
    about="A question that takes three commands, and a small change.",
    exchanges=[
        Exchange(
            says="How many lines of Python are in this project, and do its tests pass?",
            steps=[
                Step("I'll look at what is here first.", calls=[Call("bash", command="ls")]),
                Step(
                    "Three Python files. I'll count their lines.",
                    calls=[Call("bash", command="wc -l *.py")],
                ),
                Step(calls=[Call("bash", command="python -m unittest")], thinking="Now the tests."),
                Step("There are 109 lines of Python in three files, and all four tests pass."),
            ],
        ),
        Exchange(
            says="Start a file CHANGES.md with one line that says the tests were checked.",
            steps=[
                Step(
                    "I'll write the file and look at it.",
                    calls=[
                        Call("bash", command=WRITE),
                        Call("bash", command="cat CHANGES.md"),
                    ],
                ),
                Step("CHANGES.md is there, with the line that you wanted."),
            ],
        ),
    ],
)
