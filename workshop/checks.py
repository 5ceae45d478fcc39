"""Runs a chapter's tests against a practice copy, and reads out of that what passes and what is next.

The tests run in a process of their own, for what a learner writes may loop for ever, print without end, or end Python.
Each of these gets a limit, and the report names the test in which it happened.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from . import Problem
from . import copies
from .copies import Function

POLL = 0.05  # seconds between two looks at the report
CHUNK = 65536  # bytes taken at once from the pipe, and kept of what was printed
GRACE = 5.0  # seconds for a run to end by itself once all is reported
VERBOSE_BYTES = 200_000  # shown of what a run prints, if all is wanted: hundreds of failures
PROMISE = 60  # characters by which the error of a function that is still to be written is known
LAST_LINES = 12  # of what a run printed, when nothing else explains its end
WIDTH = 100  # characters shown of a line that is not ours


@dataclass(frozen=True)
class Limits:
    """What a run may take."""

    test_seconds: float = 20.0  # one test of a function: they take well under a second, importing the SDK a few
    rest_seconds: float = 60.0  # one of the other tests of the mechanism: a few of them wait or work for seconds
    total_seconds: float = 180.0  # all tests; nobody wants to wait longer before hearing why
    printed: int = 5_000_000  # bytes


@dataclass
class Outcome:
    """What a check found."""

    chapter: str
    copy: Path
    functions: list[Function]
    passed: list[str] = field(default_factory=list)
    next: Function | None = None  # the first that does not pass
    failure: dict[str, Any] | None = None  # of the next function, or of the other tests if there is no next one
    trouble: list[str] = field(default_factory=list)  # what kept the tests from being run to their end
    rest: int = 0  # other tests that passed after those of the functions
    lines: dict[str, int] = field(default_factory=dict)  # where each function is; 0: it is not there
    # untouched, written, forgotten (the error is still in it), or missing
    state: dict[str, str] = field(default_factory=dict)
    remind: dict[str, int] = field(default_factory=dict)  # the line of the error that is still in it
    found: bool = False  # the next one passes its own tests, but the failing test passes as soon as it is the chapter's

    @property
    def all_pass(self) -> bool:
        return not (self.next or self.failure or self.trouble)


def check(
    root: Path,
    python: str,
    chapter: str,
    copy: Path,
    *,
    verbose: bool = False,
    limits: Limits = Limits(),
    tell: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Judge ``copy`` by the tests of ``root``. ``tell`` gets a word when the longer part begins."""
    outcome = Outcome(chapter, copy, copies.functions(root / chapter))
    state = plan(root, outcome)
    if state:
        run = Run(root, python, [state], limits)
        run.start(tell, verbose)
        if verbose and run.tally():
            tell(f"{run.new_line()}{run.tally()}\n")
        read(outcome, run)
    return outcome


def plan(root: Path, outcome: Outcome) -> dict[str, Any] | None:
    """Return what is to be run for a copy; None if it does not compile, which is told in ``outcome.trouble``."""
    outcome.trouble = look(outcome)
    if outcome.trouble:
        return None
    groups, unwritten = [], False
    for each in outcome.functions:
        if not (unwritten and outcome.state[each.name] == "untouched"):  # of those to be written, only the first
            groups.append({"name": each.name, "tests": list(each.tests), "stop": True})
        unwritten = unwritten or outcome.state[each.name] == "untouched"
    written = [name for name, state in outcome.state.items() if state == "written"]
    return state_of(outcome.copy, outcome.functions, groups) | {"rest": not unwritten, "written": written}


def look(outcome: Outcome) -> list[str]:
    """Find the functions, and which of their files do not compile: that is told before any test is run."""
    texts = {}
    for name in dict.fromkeys(each.file for each in outcome.functions):
        path, cure = outcome.copy / name, f"copy it from {outcome.chapter}, or start again with --reset"
        if path.exists() and not path.is_file():  # to read a pipe would wait for ever
            return [f"{name} is no file: {cure}."]
        try:
            source = path.read_bytes()
        except OSError as error:
            return [f"{name} cannot be read ({error.strerror}): {cure}."]
        try:
            texts[name] = source.decode("utf-8")
        except UnicodeDecodeError as error:
            return [f"{name} is not in UTF-8, line {source[: error.start].count(10) + 1}: save it with that encoding."]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(source, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            where = f", line {error.lineno}" if error.lineno else ""
            shown = "".join(char if char.isprintable() else "\ufffd" for char in (error.text or "").strip())[:WIDTH]
            return [f"{name}{where} is no Python: {error.msg or type(error).__name__}"] + [f"    {shown}"] * bool(shown)
        except (ValueError, RecursionError, MemoryError) as error:
            return [f"{name} is no Python: {error or type(error).__name__}"]
    for each in outcome.functions:
        node = copies.locate(texts[each.file], each.name)
        outcome.lines[each.name] = node.lineno if node else 0
        outcome.remind[each.name] = copies.reminder(node, each) if node else 0
        empty = node is not None and copies.untouched(node, each)
        kind = "untouched" if empty else "forgotten" if outcome.remind[each.name] else "written"
        outcome.state[each.name] = kind if node else "missing"
    return []


def state_of(copy: Path, functions: list[Function], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a run has to know of a copy."""
    return {
        "folder": str(copy),
        "functions": [[each.file, each.name, copies.promise(each)[:PROMISE]] for each in functions],
        # Imported before the tests: what has the functions, and what puts all together.
        "preload": list(dict.fromkeys([*(each.file.removesuffix(".py") for each in functions), "harness"])),
        "groups": groups,
        "rest": False,  # run the mechanism's other tests, too?
        "written": [],  # functions in which a fault is looked for
        "instead": {},  # texts that stand for those of files
    }


class Run:
    """One run of pytest over the states of a practice, watched from outside."""

    def __init__(self, root: Path, python: str, states: list[dict[str, Any]], limits: Limits) -> None:
        self.root, self.python, self.states, self.limits = root, python, states, limits
        self.records: list[dict[str, Any]] = []
        self.printed = bytearray()
        self.verbose = False
        self.count = 0
        self.why = ""  # why it was stopped
        self.status: int | None = None
        self.stuck = ""  # where Python was when a test took too long

    def start(self, tell: Callable[[str], None] = lambda text: None, verbose: bool = False) -> None:
        """Run it to its end, or to a limit."""
        self.verbose = verbose
        with hangups_raise(), tempfile.TemporaryDirectory(prefix="check-", ignore_cleanup_errors=True) as place:
            self.prepare(Path(place).resolve(), leave=not verbose)
            try:
                process = subprocess.Popen(self.command(verbose), **self.options())
            except OSError as error:
                raise Problem(f"{self.python} does not start ({error.strerror}).") from None
            reader = threading.Thread(target=self.listen, args=(process.stdout, verbose), daemon=True)
            reader.start()
            try:
                self.watch(process, tell)
            finally:
                end(process)
                reader.join(GRACE)  # a child of the run may hold the pipe for longer: it is not waited for
                if not reader.is_alive():
                    process.stdout.close()
            self.status = process.returncode
            self.take_records(tell)
            stuck = self.place / "stuck"
            self.stuck = stuck.read_text(encoding="utf-8", errors="replace") if stuck.exists() else ""

    def prepare(self, place: Path, *, leave: bool = False) -> None:
        """Write down in the folder ``place`` what is to be run; ``leave``: end Python when all is reported."""
        self.place = place
        plan = {
            "states": self.states,
            "report": str(place / "report"),
            "stuck": str(place / "stuck"),
            "temporary": str(place / "t"),
            "leave": leave,
            "test_seconds": self.limits.test_seconds,
            "rest_seconds": self.limits.rest_seconds,
            "total_seconds": self.limits.total_seconds + GRACE,
        }
        (place / "plan").write_text(json.dumps(plan), encoding="utf-8")
        (place / "report").touch()

    def command(self, verbose: bool) -> list[str]:
        groups = [group for state in self.states for group in state["groups"]]
        files = dict.fromkeys(test.partition("::")[0] for group in groups for test in group["tests"])
        shown = ["-v", "--tb=short"] if verbose else ["-q", "--tb=no"]
        options = ["-s", "-p", "no:cacheprovider", "-p", "workshop.plugin", f"--basetemp={self.place / 't'}"]
        return [self.python, "-B", "-m", "pytest", *shown, *options, *files]

    def options(self) -> dict[str, Any]:
        changes = ("PYTEST", "COV_", "PYTHONPATH")  # what a person has set for other runs
        kept = {name: value for name, value in os.environ.items() if not name.startswith(changes)}
        kept |= {"COURSE_UNDER_TEST": self.states[0]["folder"], "WORKSHOP_PLAN": str(self.place / "plan")}
        kept |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        # A session of its own: who ends the whole group from inside ends only that.
        alone: dict[str, Any] = {"start_new_session": True}
        if os.name == "nt":
            alone = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return {"cwd": self.root, "env": kept, **streams, **alone}

    def listen(self, stream: Any, verbose: bool) -> None:
        """Take in what is printed, so that nobody waits for room in the pipe, and keep the last of it."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := os.read(stream.fileno(), CHUNK):
            self.count += len(chunk)
            self.printed = (self.printed + chunk)[-CHUNK:]
            try:
                if verbose:
                    print(decoder.decode(chunk), end="", flush=True)
                    if self.count > VERBOSE_BYTES:
                        verbose = False
                        print("\n(More was printed; it is not shown.)", flush=True)
            except OSError:  # nobody reads it any more
                verbose = False

    def watch(self, process: subprocess.Popen, tell: Callable[[str], None]) -> None:
        begun = time.monotonic()
        over: float | None = None
        while process.poll() is None:
            self.take_records(tell)
            now = time.monotonic()
            if self.count > self.limits.printed:
                self.why = f"printed more than {self.limits.printed:,} bytes"
            elif now - begun > self.limits.total_seconds:
                self.why = f"had not ended after {self.limits.total_seconds:.0f} seconds in total"
            elif self.ended():
                over = over or now
            if self.why or over and now - over > GRACE:
                return
            time.sleep(POLL)

    def take_records(self, tell: Callable[[str], None]) -> None:
        lines = (self.place / "report").read_text(encoding="ascii", errors="replace").split("\n")[:-1]
        for line in lines[len(self.records) :]:
            try:
                record = json.loads(line)
            except ValueError:  # not written to its end
                return
            self.records.append(record)
            if record["event"] == "rest" and record["tests"]:
                others = f"the mechanism's other tests ({record['tests']})"
                tell(f"{self.new_line()}All functions pass their own tests. Now {others} ...\n")

    def new_line(self) -> str:
        """Return what our own words need before them among those of pytest."""
        return "\n" if self.verbose and not self.printed.endswith(b"\n") else ""

    def ended(self) -> bool:
        return any(record["event"] in ("over", "uncollected") for record in self.records)

    def tally(self) -> str:
        """Return, in words, how many of the tests passed, and why not all have run; "" if none has."""
        events = [each["event"] for each in self.records]
        passed, run = events.count("passed"), events.count("passed") + events.count("failed")
        left = sum(each["tests"] for each in self.records if each["event"] == "collected") - run
        why = "after a function's first failure, or for one that is still to be written"
        return f"{passed} of {run} passed{f'; {left} not run {why}' * (left > 0)}." if run else ""

    def last_test(self) -> str:
        started = [record["test"] for record in self.records if record["event"] == "start"]
        return started[-1] if started else ""


@contextlib.contextmanager
def hangups_raise() -> Iterator[None]:
    """Let a closed terminal, or who ends this process, raise SystemExit: else what it started would go on."""

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    wanted = [getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if main and hasattr(signal, name)]
    usual = {number: signal.getsignal(number) for number in wanted}
    try:
        for number in [each for each in usual if usual[each] == signal.SIG_DFL]:  # nohup has its own
            signal.signal(number, leave)
        yield
    finally:
        for number in [each for each in usual if usual[each] == signal.SIG_DFL]:
            signal.signal(number, signal.SIG_DFL)


def end(process: subprocess.Popen) -> None:
    """End a run and what it started, which may outlive it and hold its pipe."""
    if os.name != "nt":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # all have ended; macOS says so by the second
            pass
    elif process.poll() is None:
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
    if process.poll() is None:
        process.kill()
    process.wait()


def read(outcome: Outcome, run: Run, state: int = 0) -> None:
    """Fill in the outcome from the records of a run, those of one copy."""
    failures: dict[str, dict[str, Any]] = {}
    group, tested, fault, rerun = None, [], None, ""
    for record in [each for each in run.records if each["state"] == state]:
        event = record["event"]
        if event == "group":
            group = record["group"]
            tested.append(group)
        elif event == "rest":
            group = ""
        elif event == "failed":
            failures.setdefault(record["group"], record)
        elif event == "passed" and group == "":
            outcome.rest += 1
        elif event == "fault":
            fault = next(each for each in outcome.functions if each.name == record["name"])
            rerun = record["test"]
        elif event == "missing":
            outcome.trouble.append(f"The course has no test {record['test']}: get it anew.")
        elif event == "broken":
            line = f", line {record['line']}," if record["line"] else ""
            outcome.trouble.append(f"{record['file']}{line} cannot be imported: {record['text']}")
            outcome.trouble += [f"    {record['source']}"] * bool(record["source"])
        elif event == "uncollected":
            outcome.trouble.append(f"The tests cannot be read. {record['text']}")
    over = any(record["event"] == "end" for record in run.records)
    if not over and not outcome.trouble:
        outcome.trouble = why_it_ended(outcome, run)
        if group is not None and tested[-1:] == [group]:
            tested.pop()  # that one was in the middle
    outcome.passed = [name for name in tested if name not in failures]
    outcome.next = next((each for each in outcome.functions if each.name not in outcome.passed), None)
    outcome.failure = failures.get(outcome.next.name if outcome.next else "")
    shown = (outcome.failure or {}).get("test", "").partition("[")[0]
    if fault and fault is not outcome.next and shown == rerun:  # only of that test it is known
        outcome.passed = [name for name in outcome.passed if name != fault.name]
        outcome.next, outcome.found = fault, True


def why_it_ended(outcome: Outcome, run: Run) -> list[str]:
    """Return, in words, why a run did not come to its end, and in which test it was."""
    test = run.last_test()
    if not test:
        said = bytes(run.printed).decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
        return [f"The tests did not begin (exit status {run.status}). The last that was printed:"] + [
            "    " + "".join(char for char in line if char.isprintable())[:WIDTH] for line in said
        ]
    place = stuck_place(outcome.copy, run.stuck)
    if run.why:
        what = run.why
    elif run.stuck.strip():
        late = any(record["event"] == "rest" for record in run.records)
        what = f"took longer than {run.limits.rest_seconds if late else run.limits.test_seconds:.0f} seconds"
    elif run.status is not None and run.status < 0:
        what = f"ended Python (signal {-run.status})"
    elif b"MemoryError" in run.printed:
        what = "took more memory than a check may (is there something that grows without end?)"
    else:
        what = f"ended Python (exit status {run.status})"
    lines = [f"The check was stopped: this test {what}:", f"    {test}"]
    if test.startswith("import of "):
        lines = [f"The check was stopped: the {test} {what}."]
    return lines + ([f"    It was in {place}: is there a loop that does not end?"] if place else [])


def stuck_place(copy: Path, text: str) -> str:
    """Return the innermost line of the copy in a dump of where Python was, or ""."""
    # As it dumps them.
    folders = [str(each).encode("ascii", "backslashreplace").decode() for each in (copy, copy.resolve())]
    for line in text.splitlines():
        path, _, rest = line.strip().removeprefix('File "').partition('", line ')
        folder, _, file = path.rpartition(os.sep)
        if folder in folders:
            number, _, name = rest.partition(" in ")
            return f"{file}, line {number}, in {name}"
    return ""
