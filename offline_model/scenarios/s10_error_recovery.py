"""An answer that breaks off, a call that is cut off, a model that is overloaded, and then only for a moment."""

from ..script import Call
from ..script import Exchange
from ..script import Fault
from ..script import Scenario
from ..script import Step

FAQ_1 = "# Questions\n\nWhere are my notes? In notes.json, in the folder where you start the program.\n"
FAQ_2 = "\nCan I take a note back? Not yet: edit notes.json.\n"

STORM = Fault(529, headers={"retry-after": "0"}, times=3)
BUSY = Fault(529, headers={"retry-after": "1"})

SCENARIO = Scenario(
    about="What goes wrong on the way to a model, and what the harness makes of it.",
    exchanges=[
        Exchange(
            says="Which commands does the notes app have, and do its tests pass?",
            steps=[
                Step(
                    "I read the program first, then I run its tests.",
                    calls=[Call("read_file", path="notes.py")],
                    breaks_after=24,
                ),
                Step(calls=[Call("bash", command="python -m unittest")]),
                Step("It has three commands, add, list and done. All four tests pass."),
            ],
            answers={"bash": "a"},
        ),
        Exchange(
            says="Write docs/faq.md: where the notes are, and how to take one back.",
            steps=[
                Step(
                    "I write all of it in one go.",
                    calls=[Call("write_file", path="docs/faq.md", content=FAQ_1 + FAQ_2)],
                    stop_reason="max_tokens",  # with whatever room it has
                ),
                Step("In two pieces, then.", when="cut off", calls=[Call("write_file", path="docs/faq.md", content=FAQ_1)]),
                Step(calls=[Call("edit_file", path="docs/faq.md", old_text=FAQ_1, new_text=FAQ_1 + FAQ_2)]),
                Step("docs/faq.md answers both questions."),
            ],
            answers={"write_file": "a", "edit_file": "a"},
        ),
        Exchange(
            says="How long are the Python files?",
            steps=[
                Step(thinking="wc counts lines.", calls=[Call("bash", command="wc -l notes.py store.py test_notes.py")]),
                Step(
                    fault=STORM,
                    thinking="The numbers are there.",
                    calls=[Call("grep", pattern="^def ", path="notes.py")],
                ),
                Step("notes.py is the longest, and has most of the functions."),
            ],
            answers={"bash": "a"},
        ),
        Exchange(
            says="And what does store.py do?",
            steps=[
                Step(calls=[Call("read_file", path="store.py")], fault=BUSY),
                Step("It keeps the notes in notes.json."),
            ],
        ),
    ],
)
