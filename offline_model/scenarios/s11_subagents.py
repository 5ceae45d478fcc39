"""Two subagents side by side, one that runs into its cap, a fork, and one that would rather write than plan."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

CAP = 20  # turns that a subagent has
LINES = 57  # of notes.py

TESTS = "Run the unit tests of this project and read them. Which functions of notes.py and store.py have no test?"
DOCS = "Compare docs/usage.md with the commands in notes.py. What is missing or wrong in the manual?"
STRINGS = "Read notes.py. Which functions have no docstring?"
PROPOSE = "Write down in review.md what should be mended first, in three lines."
PRIORITY = "Find out what a priority for each note would touch: functions, tests, the manual."

STOPPED = (
    "I am a script, and so is the subagent: where you are asked, it wants: y. A model would report what it could not do; "
    "I can only stop. Start the lesson again to see how it goes on."
)
REVIEW = """\
1. `done` with a number that is not there ends in a traceback: say that there is no such note.
2. store.py has no tests of its own.
3. docs/usage.md does not say what a wrong command does.
"""


def task(description: str, prompt: str, **more: object) -> Call:
    """One job."""
    return Call("task", description=description, prompt=prompt, **more)


def job(prompt: str, *steps: Step, **more: object) -> Exchange:
    """What a subagent does with it."""
    return Exchange(says=prompt, typed=False, steps=steps, **more)


def line(number: int) -> Step:
    """Reads one line, and no more: the model is thorough in the wrong way."""
    said = f"Up to line {number - 1}: all have one." if number > 1 else ""
    return Step(said, calls=[Call("read_file", path="notes.py", offset=number, limit=1)], extra=number > CAP)


SCENARIO = Scenario(
    about="A side desk: only the report comes back, and it says how it ended.",
    exchanges=[
        Exchange(
            says="Are the tests and the manual in order? Look into both.",
            steps=[
                Step(
                    "Two jobs that have nothing to do with each other.",
                    calls=[task("Check the tests", TESTS), task("Check the manual", DOCS)],
                ),
                Step(STOPPED, when="I am a script", extra=True),
                Step("The four tests pass; `line` and store.py have none. The manual does not tell of wrong commands."),
            ],
        ),
        job(
            TESTS,
            Step(
                "I run them, and read what they call.",
                calls=[
                    Call("bash", command="python -m unittest"),
                    Call("read_file", path="test_notes.py"),
                    Call("read_file", path="store.py"),
                ],
            ),
            Step("Four tests, all pass. They call `add`, `show` and `done`. `line` and store.py have no test of their own."),
            answers={"python -m unittest": "y"},
        ),
        job(
            DOCS,
            Step(calls=[Call("read_file", path="docs/usage.md"), Call("read_file", path="notes.py")]),
            Step("All three commands are described as they are. That a wrong command prints the usage is not said."),
        ),
        Exchange(
            says="Do all functions in notes.py have a docstring?",
            steps=[
                Step(calls=[task("Look for docstrings", STRINGS)]),
                Step("Yes: all of them have one.", when="completed: “Look for docstrings”", extra=True),
                Step(
                    "It was stopped in the middle of `show`, so I look myself.",
                    when="NOT finished",
                    calls=[Call("grep", pattern='def |"""', path="notes.py")],
                ),
                Step("All five have one. I looked at the second half of the file myself."),
            ],
        ),
        job(STRINGS, *map(line, range(1, LINES + 1)), Step("All five functions have a docstring.", extra=True)),
        Exchange(
            says="What should be mended first?",
            steps=[
                Step("A copy of me has read all this already.", calls=[task("Write the review", PROPOSE, fork=True)]),
                Step(STOPPED, when="I am a script", extra=True),
                Step("The review is in review.md. First: `done` with a number that is not there."),
            ],
        ),
        Exchange(
            contains=PROPOSE,
            typed=False,
            steps=[
                Step("I know all I need.", calls=[Call("write_file", path="review.md", content=REVIEW)]),
                Step("review.md has three points, the worst first: a traceback in `done`."),
            ],
            answers={"write_file": "a"},
        ),
        Exchange(
            line="/plan Give each note a priority.",
            says="Give each note a priority.",
            steps=[
                Step(calls=[task("See what it touches", PRIORITY)]),
                Step("A file named canary was written in plan mode.", when="Files it wrote", extra=True),
                Step(
                    "`add`, `line`, three tests and a row of the manual. Shall a priority be a number or a word? I plan when I know."
                ),
            ],
        ),
        job(
            PRIORITY,
            Step(
                "I try it out at once.",
                calls=[Call("write_file", path="canary", content="priority = 1\n"), Call("read_file", path="notes.py")],
            ),
            Step(
                "Touched: `add`, `line`, three tests, one row of docs/usage.md. Open: a number or a word?",
                when="plan mode is on",
            ),
            Step(
                "I wrote canary to try it out. Touched: `add`, `line`, three tests, one row of docs/usage.md.",
                unless="plan mode is on",
                extra=True,
            ),
        ),
    ],
)
