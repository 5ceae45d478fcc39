"""The model waits for what waits for the model, then lets it run in the background, and stops before it has ended."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

CHECK = '''\
"""Checks each document as soon as it is there and has not changed for a moment. Gives up after a minute."""

import sys
import time
from pathlib import Path

GIVE_UP = time.time() + 60
wrong = 0
for path in (Path("docs/install.md"), Path("docs/export.md")):
    while not path.exists() or time.time() - path.stat().st_mtime < 1.5:
        if time.time() > GIVE_UP:
            sys.exit(f"{path.as_posix()} never came")
        time.sleep(0.1)
    is_fine = path.read_text(encoding="utf-8").startswith("# ")
    wrong += not is_fine
    print(f"{path.as_posix()}: {'fine' if is_fine else 'no heading'}", flush=True)
sys.exit(wrong)
'''
INSTALL = """\
# Installing

There is nothing to install: `python notes.py list` works as it stands.
"""
EXPORT = """\
The notes lie in `notes.json`. Copy that file, and you have exported them.
"""

SCENARIO = Scenario(
    about="A check that waits for two documents; in the foreground it waits for ever, in the background it ends too late.",
    exchanges=[
        Exchange(
            says="Write docs/install.md and docs/export.md. Make check_docs.py, which checks each as soon as it is there.",
            steps=[
                Step("First the check.", calls=[Call("write_file", path="check_docs.py", content=CHECK)]),
                Step("I let it run.", calls=[Call("bash", command="python check_docs.py", timeout=1)]),
                Step(
                    "It waits for documents that I cannot write as long as I wait for it. So it runs in the background.",
                    when="the time was up",
                    calls=[Call("bash", command="python check_docs.py", run_in_background=True)],
                ),
                Step("Meanwhile I write.", calls=[Call("write_file", path="docs/install.md", content=INSTALL)]),
                Step("What does the check say so far?", calls=[Call("job_output", id="job_1", wait=30)]),
                Step(
                    "Fine. Now the other one.",
                    when="docs/install.md: fine",
                    calls=[Call("write_file", path="docs/export.md", content=EXPORT)],
                ),
                Step("Both documents are written. The check still looks at the second one."),
            ],
            answers={"write_file": "a", "edit_file": "y", "bash": "a"},
        ),
        Exchange(
            contains="something that you started in the background has ended",
            typed=False,
            steps=[
                Step(
                    "It has ended, and I was not told what it found.",
                    unless="docs/export.md: no heading",
                    calls=[Call("job_output", id="job_1")],
                    extra=True,
                ),
                Step(
                    "The check has found something: the second document has no heading.",
                    when="docs/export.md: no heading",
                    calls=[
                        Call("edit_file", path="docs/export.md", old_text="The notes lie", new_text="# Exporting\n\nThe notes lie")
                    ],
                ),
                Step("docs/export.md has a heading now. That was the only thing the check had found."),
            ],
        ),
        Exchange(line="/jobs"),
    ],
)
