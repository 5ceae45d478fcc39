"""A plugin of pytest: runs the tests that judge a practice copy, and writes down what happened, test by test.

What is to be run stands in a plan, a JSON file named by the environment (``PLAN``). Each thing that happens becomes one
line of JSON in the report at once, so that a run that was killed still tells which test it was in. A plan may hold
several copies of one chapter: the tests are collected once, and each copy is imported anew.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any
from typing import Iterator

import pytest
from _pytest.runner import runtestprotocol

from . import copies
from .failures import PRINTED
from .failures import SHOWN
from .failures import cut
from .failures import excerpt
from .failures import expected_and_came
from .failures import holds
from .failures import render
from .failures import said
from .failures import sentence
from .failures import statement
from .failures import tail
from .failures import values
from .fresh import CopyFinder

PLAN = "WORKSHOP_PLAN"
MEMORY = 2 << 30  # bytes that the run may claim: several times what it needs, and less than what a machine has
CAUGHT = 4  # exceptions kept of a test: the first ones tell
KEPT = 10_000  # characters kept of what a test prints, and of a text before it is cut: many times what is shown


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(PLAN):
        plan = json.loads(Path(os.environ[PLAN]).read_text(encoding="utf-8"))
        config.pluginmanager.register(Judge(plan), "workshop-judge")


class Judge:
    """Runs the plan."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.root = Path.cwd()
        self.folders = [Path(state["folder"]) for state in plan["states"]]
        self.finder = CopyFinder(self.saw)
        self.state = 0
        self.group = ""
        self.failure: dict[str, Any] | None = None
        self.compared: tuple[str, Any, Any] | None = None
        self.caught: list[dict[str, Any]] = []
        self.printed = ""
        self.lost: str | None = None  # the first test that failed; "" if it waits for what is to be written
        self.lost_group = ""  # whose test that is
        self.mute = False
        self.roots: list[str] = []  # how the folders are written that a learner need not see
        self.items: dict[str, list[pytest.Item]] = {}  # by the tests' names without parameters
        self.uncollected: list[str] = []
        self.ready = True
        self.stuck = open(plan["stuck"], "w", encoding="utf-8")
        sys.meta_path.insert(0, self.finder)
        sys.dont_write_bytecode = True
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="backslashreplace")
        self.write, sys.stdout.write = sys.stdout.write, self.see
        limit_memory()
        faulthandler.dump_traceback_later(plan["total_seconds"], exit=True)

    def note(self, event: str, **facts: Any) -> None:
        """Write a line of the report. The file is opened each time, since what is tested may close all files."""
        line = json.dumps({"event": event, "state": self.state, **facts})
        with open(self.plan["report"], "a", encoding="ascii") as report:
            report.write(line + "\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """Import the first copy before any test is read, which may import it too."""
        self.enter(0)
        return None if self.ready or len(self.folders) > 1 else True  # True: nothing is collected

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.uncollected.append(f"{report.nodeid}: {tail(report.longreprtext)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.uncollected:
            self.note("uncollected", text="\n".join(self.uncollected))
            return True
        for item in session.items:
            self.items.setdefault(item.nodeid.partition("[")[0], []).append(item)
        self.note("collected", tests=len(session.items))
        for number, state in enumerate(self.plan["states"]):
            if number:
                self.enter(number)
            if self.ready:
                self.run_state(session, state)
        self.note("end")
        if self.lost:
            self.mute = True
            self.find_fault(session)
            self.mute = False
        self.note("over")
        if self.plan["leave"]:
            os._exit(0)  # all is reported: to take the SDK's thousands of classes apart would keep the learner waiting
        faulthandler.dump_traceback_later(self.plan["test_seconds"], exit=True)  # a thread may hold up the exit
        return True

    def enter(self, number: int) -> None:
        """Go on to another copy."""
        self.state, state = number, self.plan["states"][number]
        self.finder.enter(self.folders[number], state["functions"], state["instead"])
        roots = (self.folders[number], Path(self.plan["temporary"]), self.root)
        self.roots = [text for root in roots for text in {str(root), repr(str(root))[1:-1], str(root.resolve())}]
        self.ready = self.preload(state["preload"])

    def run_state(self, session: pytest.Session, state: dict[str, Any]) -> None:
        well, self.lost = True, None
        for group in state["groups"]:
            self.note("group", group=group["name"])
            well = self.run_group(session, group) and well
        if state["rest"] and well:
            named = {test for group in state["groups"] for test in group["tests"]}
            rest = [test for test in self.items if test not in named]
            self.note("rest", tests=sum(len(self.items[test]) for test in rest))
            self.run_group(session, {"name": "", "tests": rest, "stop": True})
        session._setupstate.teardown_exact(None)

    def find_fault(self, session: pytest.Session) -> None:
        """Note the function that has only to be as in the chapter for the lost test to pass: the fault is in it."""
        state, folder = self.plan["states"][self.state], self.folders[self.state]
        written = [each for each in state["functions"] if each[1] in state["written"]]
        written.sort(key=lambda each: each[1] != self.lost_group)
        for file, name, _ in written if len(written) > 1 else []:
            text = copies.solved(self.root / folder.name, folder, file, name)
            self.finder.enter(folder, state["functions"], {file: text})
            if all(self.passes(session, item, self.plan["test_seconds"]) for item in self.items[self.lost]):
                return self.note("fault", name=name, test=self.lost)

    def preload(self, modules: list[str]) -> bool:
        """Import the modules, so that a fault in one is told as such and not as that of a test."""
        for module in modules:
            self.begin(f"import of {module}.py", self.plan["test_seconds"])
            try:
                importlib.import_module(f"{self.finder.folder.name}.{module}")
            except BaseException as error:  # sys.exit too
                place = self.places(traceback.extract_tb(error.__traceback__))[-1:]
                if isinstance(error, SyntaxError) and error.filename:
                    source = self.tidy((error.text or "").strip())
                    place = [{"file": Path(error.filename).name, "line": error.lineno, "source": source}]
                place = place or [{"file": f"{module}.py", "line": 0, "source": ""}]
                self.note("broken", text=self.tidy(said(error)), **place[0])
                return False
        return True

    def run_group(self, session: pytest.Session, group: dict[str, Any]) -> bool:
        """Run the tests of one function. Returns whether all passed; with "stop" the first failure ends it."""
        well, self.group = True, group["name"]
        seconds = self.plan["test_seconds" if group["name"] else "rest_seconds"]
        for test in group["tests"]:
            if test not in self.items:
                self.note("missing", test=test)
                well = False
            for item in self.items.get(test, []):
                if self.passes(session, item, seconds):
                    self.note("passed", test=item.nodeid)
                    continue
                self.note("failed", test=item.nodeid, group=group["name"], **self.failure)
                well = False
                if group["stop"]:
                    if self.lost is None:  # what fails later may fail for the same reason
                        self.lost = "" if self.failure["kind"] == "hint" else test
                        self.lost_group = group["name"]
                    return False
        return well

    def passes(self, session: pytest.Session, item: pytest.Item, seconds: float) -> bool:
        """Run one test. Returns whether it passed; if not, ``self.failure`` tells why."""
        self.failure = self.compared = None
        self.begin(item.nodeid, seconds)
        try:
            if self.mute:
                runtestprotocol(item, nextitem=session, log=False)
            else:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=session)
        except (KeyboardInterrupt, pytest.exit.Exception):  # raised by what is tested: a person's Ctrl-C does not get here
            self.failure = self.describe(item, pytest.ExceptionInfo.from_current())
            session._setupstate.teardown_exact(None)
        return self.failure is None

    def begin(self, test: str, seconds: float) -> None:
        self.note("start", test=test)
        self.stuck.seek(0)
        self.stuck.truncate()
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stuck)

    def pytest_runtest_setup(self) -> None:
        self.caught, self.printed = [], ""

    def see(self, text: str) -> int:
        """Take in what is printed, and keep the end of it."""
        self.printed = (self.printed + text[-KEPT:])[-KEPT:]
        return len(text) if self.mute else self.write(text)

    def saw(self) -> None:
        """Note the exception that is being handled, if it comes from the copy and is none of the chapter's own."""
        error = sys.exc_info()[1]
        own = type(error).__module__.startswith(self.finder.folder.name + ".")
        if own or not isinstance(error, Exception) or len(self.caught) >= CAUGHT:
            return
        frames = traceback.extract_tb(error.__traceback__)
        if self.from_copy([each.filename for each in frames]):
            self.caught.append({"text": self.tidy(said(error)), "places": self.places(frames)})

    def from_copy(self, files: list[str]) -> bool:
        """Say whether the copy raised it, given the frames' files: what a test raises is none of the learner's."""
        tests = str(self.root / "tests") + os.sep
        ours = [file for file in files if file in self.finder.lines or file.startswith(tests)]
        return bool(ours) and ours[-1] in self.finder.lines

    # What a failure has to tell.

    def pytest_assertrepr_compare(self, op: str, left: Any, right: Any) -> None:
        if self.failure is None and not holds(op, left, right):
            self.compared = (op, left, right)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        excinfo = call.excinfo  # as it was raised: for a skip of unittest another one is put here
        report = yield
        if not report.passed and self.failure is None:  # no test of the course is skipped, or may fail
            self.failure = self.describe(item, excinfo)
        return report

    def describe(self, item: pytest.Item, excinfo: pytest.ExceptionInfo) -> dict[str, Any]:
        """Return what is worth telling about a failure, as texts that are safe to show."""
        frames = [(entry.frame.raw, entry.lineno + 1) for entry in excinfo.traceback]
        ours = [(frame, line) for frame, line in frames if Path(frame.f_code.co_filename) == item.path]
        own = [each for each in ours if each[0].f_code.co_name == item.originalname]
        frame, line = (own or ours or [(None, 0)])[0]
        error = excinfo.value
        text = said(error)
        inside = self.from_copy([each.f_code.co_filename for each, _ in frames])
        compared = self.compared if isinstance(error, AssertionError) and not inside else None
        expected, came = expected_and_came(error, compared) if not inside else ("", cut(text))
        texts = [text, *(render(value) for value in (compared or ())[1:])]
        promises = {name: start for _, name, start in self.plan["states"][self.state]["functions"]}
        hinted = [name for name, start in promises.items() if any(start in each for each in texts)]
        kind = "assertion" if isinstance(error, (AssertionError, pytest.fail.Exception)) and not inside else "error"
        summaries = [traceback.FrameSummary(f.f_code.co_filename, n, f.f_code.co_name) for f, n in frames]
        goal = bool(hinted) or kind == "error"
        shown = statement(item.path, line) if frame else []
        checked = ""
        if kind == "assertion" and ours and ours[-1][0] is not frame:
            checked = " ".join(part.strip() for part in statement(item.path, ours[-1][1], alone=True))
        told = [start for name, start in promises.items() if name != self.group] + [self.tidy(text)]
        caught = [each for each in self.caught if not any(start in each["text"] for start in told)]
        printed = [self.tidy(each) for each in self.printed.split("\n") if each.strip()]
        return {
            "sentence": sentence(item),
            "where": f"{item.nodeid.partition('::')[0]}:{line or item.location[1] + 1}",
            "call": [self.tidy(each) for each in (excerpt(item.path, line, goal) if frame else [])],
            "values": [self.tidy(each) for each in values(item, frame, shown, (expected, came))] if frame else [],
            "checked": self.tidy(checked),
            "kind": "hint" if hinted else kind,
            "type": type(error).__name__,
            "expected": self.tidy(expected),
            "came": self.tidy(came),
            "places": self.places(summaries) if kind == "error" else [],
            "caught": caught[:1],
            "printed": ["…"] * (len(printed) > PRINTED) + printed[-PRINTED:],
            "hinted": hinted,
        }

    def places(self, frames: Any) -> list[dict[str, Any]]:
        """Return the last of the frames that is in a marked function, and the last one in the copy if it is another."""
        inside = [each for each in frames if each.filename in self.finder.lines]
        last = [each for each in inside if any(each.lineno in lines for lines in self.finder.lines[each.filename])][-1:]
        return [
            {"file": Path(each.filename).name, "line": each.lineno, "source": self.tidy((each.line or "").strip())}
            for each in last + [each for each in inside[-1:] if each not in last]
        ]

    def tidy(self, text: str) -> str:
        """Return ``text`` with paths as a learner sees them, cut, and without characters that steer a terminal."""
        text = text[:KEPT]
        for root in self.roots:
            text = text.replace(root + os.sep, "").replace(root, ".")
        return cut("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


def limit_memory() -> None:
    """Let what claims too much memory end in a MemoryError, where the system can do that."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard < 0 else min(MEMORY, hard), hard))
    except (ImportError, ValueError, OSError):
        pass  # Windows and macOS: there the time limit has to do
