"""A plugin of pytest: runs the tests that judge a practice copy, and writes down what happened, test by test.

What is to be run stands in a plan, a JSON file named by the environment (``PLAN``). Each thing that happens becomes one
line of JSON in the report at once, so that a run that was killed still tells which test it was in. A plan may hold
several copies of one chapter: the tests are collected once, and each copy is imported anew.

The copy is imported past all bytecode: a file that is saved twice within a second would else run as it was before.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import Any
from typing import Iterator

import pytest

from .failures import SHOWN
from .failures import cut
from .failures import expected_and_came
from .failures import holds
from .failures import render
from .failures import said
from .failures import sentence
from .failures import statement
from .failures import tail
from .failures import values

PLAN = "WORKSHOP_PLAN"
MEMORY = 2 << 30  # bytes that the run may claim: several times what it needs, and less than what a machine has


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(PLAN):
        plan = json.loads(Path(os.environ[PLAN]).read_text(encoding="utf-8"))
        config.pluginmanager.register(Judge(plan), "workshop-judge")


class CopyFinder(importlib.abc.MetaPathFinder):
    """Finds one package and its modules in a given folder, wherever else they may be."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.folder = Path()
        self.compiled: dict[tuple[str, bytes], CodeType] = {}

    def enter(self, folder: Path) -> None:
        """Import from ``folder`` from now on."""
        self.folder = folder
        for name in [name for name in sys.modules if name == self.package or name.startswith(self.package + ".")]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == self.package:
            path = [str(self.folder.parent)]
        elif not fullname.startswith(self.package + "."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = FreshLoader(fullname, spec.loader.path, self.compiled)
        return spec


class FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles the source as it is now. Within one run, the same source is compiled once."""

    def __init__(self, fullname: str, path: str, compiled: dict[tuple[str, bytes], CodeType]) -> None:
        super().__init__(fullname, path)
        self.compiled = compiled

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        if (fullname, source) not in self.compiled:
            self.compiled[fullname, source] = self.source_to_code(source, self.path)
        return self.compiled[fullname, source]


class Judge:
    """Runs the plan."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.root = Path.cwd()
        self.folders = [Path(state["folder"]) for state in plan["states"]]
        self.finder = CopyFinder(plan["package"])
        self.state = 0
        self.failure: dict[str, Any] | None = None
        self.compared: tuple[str, Any, Any] | None = None
        self.uncollected: list[str] = []
        self.ready = True
        self.stuck = open(plan["stuck"], "w", encoding="utf-8")
        sys.meta_path.insert(0, self.finder)
        self.finder.enter(self.folders[0])
        sys.dont_write_bytecode = True
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="backslashreplace")
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
        self.ready = self.preload(self.plan["states"][0]["preload"])
        return None if self.ready or len(self.folders) > 1 else True  # True: nothing is collected

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.uncollected.append(f"{report.nodeid}: {tail(report.longreprtext)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.uncollected:
            self.note("uncollected", text="\n".join(self.uncollected))
            return True
        for self.state in range(len(self.folders)):
            self.run_state(session, self.plan["states"][self.state])
        self.note("end")
        faulthandler.dump_traceback_later(self.plan["test_seconds"], exit=True)  # a thread may hold up the exit
        return True

    def run_state(self, session: pytest.Session, state: dict[str, Any]) -> None:
        if self.state:
            self.finder.enter(self.folders[self.state])
            self.ready = self.preload(state["preload"])
        if not self.ready:
            return
        tests: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
        well = True
        for group in state["groups"]:
            self.note("group", group=group["name"])
            fine = self.run_group(session, tests, group)
            well = well and fine
        if state["rest"] and well:
            named = {test for group in state["groups"] for test in group["tests"]}
            rest = [test for test in tests if test not in named]
            self.note("rest", tests=sum(len(tests[test]) for test in rest))
            self.run_group(session, tests, {"name": "", "tests": rest, "stop": True})
        session._setupstate.teardown_exact(None)

    def preload(self, modules: list[str]) -> bool:
        """Import the modules, so that a fault in one is told as such and not as that of a test."""
        for module in modules:
            self.begin(f"import of {module}.py", self.plan["test_seconds"])
            try:
                importlib.import_module(f"{self.plan['package']}.{module}")
            except BaseException as error:  # sys.exit too
                place = self.place_in_copy(traceback.extract_tb(error.__traceback__))
                if isinstance(error, SyntaxError) and error.filename:
                    source = (error.text or "").strip()
                    place = {"file": Path(error.filename).name, "line": error.lineno, "source": source}
                place = place or {"file": f"{module}.py", "line": 0, "source": ""}
                self.note("broken", text=cut(self.tidy(said(error))), **place)
                return False
        return True

    def run_group(self, session: pytest.Session, tests: dict[str, list[pytest.Item]], group: dict[str, Any]) -> bool:
        """Run the tests of one function. Returns whether all passed; with "stop" the first failure ends it."""
        well = True
        for test in group["tests"]:
            if test not in tests:
                self.note("missing", test=test)
                well = False
            for item in tests.get(test, []):
                self.failure = self.compared = None
                self.begin(item.nodeid, self.plan["test_seconds" if group["name"] else "rest_seconds"])
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=session)
                if self.failure is None:
                    self.note("passed", test=item.nodeid)
                    continue
                self.note("failed", test=item.nodeid, group=group["name"], **self.failure)
                well = False
                if group["stop"]:
                    return False
        return well

    def begin(self, test: str, seconds: float) -> None:
        self.note("start", test=test)
        self.stuck.seek(0)
        self.stuck.truncate()
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stuck)

    # What a failure has to tell.

    def pytest_assertrepr_compare(self, op: str, left: Any, right: Any) -> None:
        if self.failure is None and not holds(op, left, right):
            self.compared = (op, left, right)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        report = yield
        if report.failed and self.failure is None:
            self.failure = self.describe(item, call.excinfo)
        return report

    def describe(self, item: pytest.Item, excinfo: pytest.ExceptionInfo) -> dict[str, Any]:
        """Return what is worth telling about a failure, as texts that are safe to show."""
        frames = [(entry.frame.raw, entry.lineno + 1) for entry in excinfo.traceback]
        ours = [(frame, line) for frame, line in frames if Path(frame.f_code.co_filename) == item.path]
        own = [each for each in ours if each[0].f_code.co_name == item.originalname]
        frame, line = (own or ours or [(None, 0)])[0]
        error = excinfo.value
        text = said(error)
        compared = self.compared if isinstance(error, AssertionError) else None
        expected, came = expected_and_came(error, compared)
        texts = [text, *(render(value) for value in (compared or ())[1:])]
        hinted = [name for name, start in self.plan["promises"].items() if any(start in each for each in texts)]
        kind = "assertion" if isinstance(error, (AssertionError, pytest.fail.Exception)) else "error"
        summaries = [traceback.FrameSummary(f.f_code.co_filename, n, f.f_code.co_name) for f, n in frames]
        shown = statement(item.path, line) if frame else []
        checked = ""
        if kind == "assertion" and ours and ours[-1][0] is not frame:
            checked = " ".join(part.strip() for part in statement(item.path, ours[-1][1], alone=True))
        return {
            "sentence": sentence(item),
            "where": f"{item.nodeid.partition('::')[0]}:{line or item.location[1] + 1}",
            "call": [self.tidy(each) for each in shown],
            "values": [self.tidy(each) for each in values(item, frame, shown, (expected, came))] if frame else [],
            "checked": self.tidy(checked)[:SHOWN],
            "kind": "hint" if hinted else kind,
            "type": type(error).__name__,
            "expected": cut(self.tidy(expected)),
            "came": cut(self.tidy(came)),
            "place": self.place_in_copy(summaries) if kind == "error" else None,
            "hinted": hinted,
        }

    def place_in_copy(self, frames: Any) -> dict[str, Any] | None:
        """Return the last of the frames that is in a copy."""
        for each in reversed(list(frames)):
            path = Path(each.filename)
            if any(folder in path.parents for folder in self.folders):
                return {"file": path.name, "line": each.lineno, "source": cut(self.tidy((each.line or "").strip()))}
        return None

    def tidy(self, text: str) -> str:
        """Return ``text`` with paths as a learner sees them, and without characters that steer a terminal."""
        for folder in (self.folders[self.state], Path(self.plan["temporary"]), self.root):
            for root in {str(folder), repr(str(folder))[1:-1], str(folder.resolve())}:
                text = text.replace(root + os.sep, "").replace(root, ".")
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def limit_memory() -> None:
    """Let what claims too much memory end in a MemoryError, where the system can do that."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard < 0 else min(MEMORY, hard), hard))
    except (ImportError, ValueError, OSError):
        pass  # Windows and macOS: there the time limit has to do
