"""Somebody is asked: yes, always and no; and a second command hides behind a harmless one."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

CHANGELOG = "# Changelog\n\n## 0.2\n\n- The usage page lists every command.\n"
NOTES_LINE = "Notes are kept in `notes.json` in the current folder.\n"

SCENARIO = Scenario(
    about="A changelog: yes, always and no; then a second command hides behind ls.",
    exchanges=[
        Exchange(
            says="Add a changelog for version 0.2, and check that the tests pass.",
            steps=[
                Step(
                    "I'll look around. Reading needs nobody's permission.",
                    calls=[Call("glob", pattern="**/*.md"), Call("read_file", path="docs/usage.md")],
                ),
                Step("Now the changelog.", calls=[Call("write_file", path="CHANGELOG.md", content=CHANGELOG)]),
                Step(calls=[Call("bash", command="python -m unittest")]),
                Step(
                    "The tests pass. I'll put a copy of the changelog beside the manual.",
                    calls=[Call("bash", command="cp CHANGELOG.md docs/changelog.md")],
                ),
                Step(
                    "No copy then. A link from the manual does as well.",
                    when="the person",
                    calls=[
                        Call(
                            "edit_file",
                            path="docs/usage.md",
                            old_text=NOTES_LINE,
                            new_text=NOTES_LINE + "\nWhat changed: [CHANGELOG.md](../CHANGELOG.md).\n",
                        )
                    ],
                ),
                Step("And the tests once more.", calls=[Call("bash", command="python -m unittest")]),
                Step("CHANGELOG.md has an entry for 0.2, and all tests pass."),
            ],
            answers={"cp CHANGELOG.md": "n", "docs/usage.md": "y", "CHANGELOG.md": "y", "unittest": "a"},
        ),
        Exchange(
            says="Which files are there now?",
            steps=[
                Step(calls=[Call("bash", command="ls; touch canary")]),
                Step("And now there is a file named canary: nobody stopped that.", unless="the person", extra=True),
                Step("Listing is all I need: glob can do that.", when="the person", calls=[Call("glob", pattern="**/*")]),
                Step(
                    "Seven files beside the skills: the program, its store, its tests, AGENTS.md, README.md, CHANGELOG.md and docs/usage.md.",
                    when="CHANGELOG.md",
                ),
                Step("Six files beside the skills: the program, its store, its tests, AGENTS.md, README.md and docs/usage.md.", extra=True),
            ],
            answers={"touch canary": "n"},
        ),
    ],
)
