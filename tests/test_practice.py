"""Practice: each chapter is its own answer key, wrong answers are caught, and a check survives what a learner writes.

Copies are made in temporary folders. Several chapters are judged in one process, each of their copies imported anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection
from dataclasses import fields
from dataclasses import is_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import CHAPTERS
from conftest import ROOT
from test_launcher import GIT
from test_launcher import Course
from test_launcher import environment

from offline_model.script import Call
from offline_model.script import load_scenario
from workshop import Problem
from workshop import checks
from workshop import commands
from workshop import copies
from workshop import failures
from workshop import progress
from workshop import words

COMMAND = "python3 learn.py check --hint"
WEAK = ROOT / "tests" / "data" / "weak"
CHAPTERS_WITH_WEAK = ("s02", "s03", "s05")
WEAK_PER_FUNCTION = 3
BATCH = 6  # chapters judged in one process: each process costs two seconds, and several go side by side
BATCHES = [CHAPTERS[start : start + BATCH] for start in range(0, len(CHAPTERS), BATCH)]


# Several runs of pytest in one process: what takes seconds to import is imported once.
RUNS = """
import json, os, pytest, sys
for environment, arguments in json.load(sys.stdin):
    os.environ.update(environment)
    pytest.main(arguments)
    sys.modules.pop("conftest", None)  # it looks at the environment
os._exit(0)  # that is quicker
"""


class Bench:
    """Copies of chapters in different states, judged together: of each chapter one copy, of each state its texts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: dict[str, dict[str, dict]] = {}

    def add(self, chapter: str, label: str, texts: dict[str, str], *groups: dict) -> None:
        """Have the copy judged by the tests of ``groups``, with these texts in it; without any as it is made."""
        copy = self.folder / chapter / chapter
        if not copy.exists():
            copies.make(ROOT / chapter, copy, COMMAND)
        state = checks.state_of(copy, copies.functions(ROOT / chapter), list(groups))
        state["preload"].remove("harness")  # when a test needs it
        self.states.setdefault(chapter, {})[label] = state | {"instead": texts}

    def judge(self) -> dict[tuple[str, str], list[dict]]:
        """Return for each chapter and state what happened, record by record."""
        runs = {}
        for name, states in self.states.items():
            runs[name] = checks.Run(ROOT, sys.executable, list(states.values()), checks.Limits(total_seconds=600))
            runs[name].prepare(self.folder / name, leave=False)
        wanted = [(run.options()["env"], run.command(verbose=False)[4:]) for run in runs.values()]
        command = [sys.executable, "-B", "-c", RUNS]
        done = subprocess.run(command, input=json.dumps(wanted), env=wanted[0][0], cwd=ROOT, capture_output=True, text=True)
        happened: dict[tuple[str, str], list[dict]] = {}
        for name, run in runs.items():
            run.take_records(lambda text: None)
            assert run.ended(), (name, run.last_test(), done.stdout[-5000:], done.stderr[-5000:])
            for record in run.records:
                happened.setdefault((name, [*self.states[name]][record["state"]]), []).append(record)
        return happened


def group(name: str, tests: tuple[str, ...] | list[str], stop: bool = True) -> dict:
    return {"name": name, "tests": list(tests), "stop": stop}


def failed(records: list[dict], name: str | None = None) -> list[dict]:
    """Return the failures, and all that kept tests from running, of one group or of all."""
    bad = ("failed", "missing", "broken", "uncollected")
    return [each for each in records if each["event"] in bad and name in (None, each.get("group"))]


def in_short(failures: list[dict]) -> list[str]:
    return [f"{each.get('test', '')}: {each.get('came') or each.get('text') or each['event']}" for each in failures]


@pytest.mark.parametrize("names", BATCHES, ids="+".join)
def test_a_chapter_is_its_own_answer_key_and_weak_answers_are_caught(names, tmp_path):
    """What to write fails in words one can act on, can be written in the order given, and is judged by its own tests."""
    bench = Bench(tmp_path)
    caught_by: dict[tuple[str, str], list[str]] = {}
    for name in names:
        functions = copies.functions(ROOT / name)
        every = [each.name for each in functions]
        assert 2 <= len(every) <= 5 and len(set(every)) == len(every)
        bench.add(name, "untouched", {}, *[group(each.name, [test]) for each in functions for test in each.tests])
        for number, each in enumerate(functions, 1):
            others = [test for other in functions if other is not each for test in other.tests]
            own = group(each.name, each.tests)
            bench.add(name, f"written up to {each.name}", texts_without(name, every[number:]), own)
            bench.add(name, f"all but {each.name}", texts_without(name, [each.name]), own)
            bench.add(name, f"only {each.name}", texts_without(name, set(every) - {each.name}), group("others", others))
        caught_by |= add_weak_answers(bench, name)
    happened = bench.judge()

    kinds = ("missing", "broken", "uncollected")
    assert in_short([each for records in happened.values() for each in records if each["event"] in kinds]) == []
    for name, each in [(name, each) for name in names for each in copies.functions(ROOT / name)]:
        failures = failed(happened[name, "untouched"], each.name)
        assert failures, f"{name}, {each.name}: all its tests pass when nothing is written"
        assert in_short([f for f in failures if f["kind"] == "error"]) == [], "neither the hint nor an assertion tells it"
        up_to = failed(happened[name, f"written up to {each.name}"])
        assert in_short(up_to) == [], f"{name}, {each.name}: it needs a later one, or is wrong"
        assert failed(happened[name, f"all but {each.name}"]), f"{name}, {each.name}: all its tests pass without it"
        assert failed(happened[name, f"only {each.name}"]), f"{name}, {each.name}: it alone passes all"
    for label, tests in caught_by.items():
        failures = failed(happened[label])
        assert {each["test"].partition("[")[0] for each in failures} == set(tests), f"{label} is not caught"
        assert all(each["call"] and each["came"] and each["kind"] != "hint" for each in failures), label


def texts_without(chapter: str, left_out: Collection[str]) -> dict[str, str]:
    """Return the chapter's texts of the files with marked functions, without those in ``left_out``."""
    texts: dict[str, str] = {}
    for each in copies.functions(ROOT / chapter):
        text = texts.get(each.file) or copies.read(ROOT / chapter / each.file)
        texts[each.file] = copies.take_out(text, each, COMMAND) if each.name in left_out else text
    return texts


def add_weak_answers(bench: Bench, chapter: str) -> dict[tuple[str, str], list[str]]:
    """Add the weak answers that are kept for a chapter. Returns by which tests each must be caught."""
    of = {each.name: each for each in copies.functions(ROOT / chapter)}
    files = {test.partition("::")[0] for each in of.values() for test in each.tests}
    counts, caught_by = dict.fromkeys(of, 0), {}
    for path in sorted((WEAK / chapter).glob("*.py")):
        function, _, fault = path.stem.partition("__")
        first, _, source = path.read_text(encoding="utf-8").partition("\n")
        tests = first.removeprefix("# must fail: ").split(", ")
        assert first.startswith("# must fail: tests/") and fault and {test.partition("::")[0] for test in tests} <= files
        counts[function] += 1
        texts = texts_without(chapter, [])
        texts[of[function].file] = copies.replace(texts[of[function].file], function, source)
        bench.add(chapter, path.stem, texts, *[group(function, [test]) for test in tests])
        caught_by[chapter, path.stem] = tests
    if chapter[:3] in CHAPTERS_WITH_WEAK:
        assert min(counts.values()) >= WEAK_PER_FUNCTION, counts
    return caught_by


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_list_of_functions_is_sound(name):
    chapter = ROOT / name
    for each in copies.functions(chapter):
        text = copies.read(chapter / each.file)
        node = copies.locate(text, each.name)
        assert node is not None, each.name
        assert len(each.hints) == 2 and all(each.hints) and each.wanted and each.tests
        own = [line.strip() for line in text.split("\n")[node.body[0].lineno : node.end_lineno] if len(line.strip()) > 20]
        assert not [line for line in own for hint in (*each.hints, each.wanted) if line in hint], "a hint is no answer"
        compile(copies.take_out(text, each, COMMAND), each.file, "exec")
        for file in {test.partition("::")[0] for test in each.tests}:
            whole = (ROOT / file).read_text(encoding="utf-8")
            assert not re.search(r"conftest import (CHAPTERS|ROOT)", whole), f"{file} does not test the copy alone"


# No harm, in whatever state a copy is.

PROGRAMS = {"ls", "sleep", "wc", "cat", "printf", "cp", "touch", "grep", "head", "echo", "python"}
CANARY = "canary"  # the one thing that a script may touch
SHIPPED = "skills/new-command/check.sh"  # comes with the sample project; what it runs is read below


def commands_in(value: object) -> list[str]:
    """Return all shell commands in a scenario, wherever they are."""
    if isinstance(value, Call):
        own = [value.input["command"]] if "command" in value.input else []
        return own + commands_in([each for name, each in value.input.items() if name != "command"])
    if is_dataclass(value):
        return [found for each in fields(value) for found in commands_in(getattr(value, each.name))]
    if isinstance(value, dict):
        return commands_in(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in commands_in(each)]
    return []


def harm(command: str) -> str:
    """Return what is wrong with a command of a script; "" if it is harmless by itself."""
    if found := re.search(r"[`$~<&\n\r]|\.\.|://|\\(?![nt])", command.replace("&&", ";")):
        return f"holds {found[0]}"
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words, parts = list(lexer), [[]]
    for word in words:
        if re.fullmatch(r"[;&|]+", word):
            parts.append([])
        else:
            parts[-1].append(word)
    for part in parts:
        if any(re.match(r"/|\w:|-\S*/|\S*=/", word) for word in part):
            return "holds an absolute path"
        program, *rest = part or ["nothing"]
        if program == "bash" and rest[:1] == [SHIPPED] and rest[1:] == [word for word in rest[1:] if word.isalpha()]:
            continue
        if program not in PROGRAMS:
            return f"runs {program}"
        if program == "touch" and rest != [CANARY]:
            return "touches something"
        if program == "python" and rest[:2] != ["-m", "unittest"] and not (rest and re.fullmatch(r"\w+\.py", rest[0])):
            return "runs other Python"
    return ""


def test_each_command_of_a_script_is_harmless_by_itself():
    """A learner's gate may let everything through: then everything runs."""
    found = [
        (path.stem, command)
        for path in sorted((ROOT / "offline_model" / "scenarios").glob("s*.py"))
        for command in commands_in(load_scenario(path.stem))
    ]
    assert len(found) > 10
    assert [(name, command, harm(command)) for name, command in found if harm(command)] == []


def test_the_script_that_is_shipped_only_looks():
    text = (ROOT / "offline_model" / "sample_project" / SHIPPED).read_text(encoding="utf-8")
    lines = [re.sub(r"#.*", "", line).strip() for line in text.splitlines()]
    known = r"name=\$1|missing=[01]|look\(\) \{|\}|(grep -q|look|echo|return|exit|\[) ?[^;<>`|&]*(\|[^|&;<>`]*)?( && (return|echo .*))?"
    assert [line for line in lines if line and not re.fullmatch(known, line)] == []


@pytest.mark.parametrize("command", [
    "bash x.sh", "bash", "bash skills/new-command/check.sh ; rm x", "bash skills/new-command/check.sh ../x",
    "rm notes.py", "ls /", "cat ~/x", "ls; rm x", "ls && rm x", "ls | sh", "ls & rm x", "cat ../x", "echo $HOME", "echo `rm x`",
    "python -c 'x'", "python -m http.server", "curl http://x", "echo x > /tmp/x", "touch x", "cp notes.py /etc/x", "python",
    "cat C:\\x", "echo x >> ../y", "ls\nrm x", "cat <(rm x)", "echo x > C:/y", "env rm x", "LS=1 rm x",
])
def test_harm_is_seen(command):
    assert harm(command)


# A copy.

ADDING = '''\
"""Adding."""

import math

LIMIT = 3


class Sums:
    """Sums up."""

    @staticmethod
    def total(
        numbers: list[int],
    ) -> int:
        """Return the sum.

        Of all numbers: "é", \\'.
        """
        # how: one after the other
        found = 0
        for number in numbers:
            found += number
        return found
        # that was all

    def after(self) -> int:
        return 1


def half(number: int) -> int:
    # the answer is in this comment
    return number // 2


def end() -> str:
    """Return the end."""
    return "end"


def first(numbers):
    return numbers[0]


def quietly(function, *arguments):
    """Call a function, as a harness calls a hook: what it raises stops nothing."""
    try:
        return function(*arguments)
    except Exception:
        return None
'''
TAKEN_OUT = '''\
        """Return the sum.

        Of all numbers: "é", \\'.
        """
        # Wanted: Add "all" up.
        raise NotImplementedError("Sums.total: Add \\"all\\" up.  (learn check)")

    def after(self) -> int:
        return 1


def half(number: int) -> int:
    # Wanted: Half of it.
    raise NotImplementedError("half: Half of it.  (learn check)")


def end() -> str:
'''
TOTAL = {"file": "sums.py", "name": "Sums.total", "wanted": 'Add "all" up.', "hints": ["Look.", "So."]}
HALF = {"file": "sums.py", "name": "half", "wanted": "Half of it.", "hints": ["See.", "Thus."]}
END = {"file": "sums.py", "name": "end", "wanted": "Say end.", "hints": ["See.", "Thus."]}
TOTAL["tests"] = ["tests/test_sums.py::test_T1_numbers_add_up"]
HALF["tests"] = ["tests/test_sums.py::test_half", "tests/test_sums.py::test_half_is_whole"]
END["tests"] = ["tests/test_sums.py::test_end"]
LISTED = {"functions": [TOTAL, HALF, END]}


def as_function(facts: dict) -> copies.Function:
    return copies.Function(**{**facts, "hints": tuple(facts["hints"]), "tests": tuple(facts["tests"])})


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_body_is_taken_out_and_nothing_else_changes(line_end):
    text = ADDING.replace("\n", line_end)
    bare = copies.take_out(copies.take_out(text, as_function(TOTAL), "learn check"), as_function(HALF), "learn check")
    assert bare == (ADDING.partition('        """Return the sum.')[0] + TAKEN_OUT + ADDING.rpartition("str:\n")[2]).replace(
        "\n", line_end
    )
    for facts in (TOTAL, HALF):
        node = copies.locate(bare, facts["name"])
        assert copies.untouched(node, as_function(facts)) and copies.reminder(node, as_function(facts))
    assert not copies.untouched(copies.locate(bare, "end"), as_function(END))


def test_a_solution_is_put_in_its_place():
    source = "@staticmethod\ndef total(numbers):\n    return sum(numbers)\n"
    text = copies.replace(ADDING.replace("\n", "\r\n"), "Sums.total", source)
    assert "\r\n    @staticmethod\r\n    def total(numbers):\r\n        return sum(numbers)\r\n        # that" in text
    assert text.count("@staticmethod") == 1 and "\n" not in text.replace("\r\n", "")


TESTS = '''\
import importlib

import pytest


def sums():
    return importlib.import_module("s05_todo_write.sums")


@pytest.mark.parametrize("numbers", [[], [1, 2], [5]])
def test_T1_numbers_add_up(numbers):
    total = sums().Sums.total(numbers)
    assert 0 <= total and total == {0: 0, 2: 3, 1: 5}[len(numbers)]


def check(number):
    assert sums().quietly(sums().half, 2 * number) == number


def test_half():
    """The half of the double is the number itself."""
    check(4)


def test_half_is_whole():
    with pytest.raises(TypeError):
        sums().half("x")


def test_end():
    assert "end" in sums().end()


def test_more():
    assert sums().end() == "end" and sums().half(9) == 4


def refuse():
    raise KeyError("on purpose")
'''


class Desk(Course):
    """A course whose launcher is called in this process, which saves a tenth of a second each time."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder)
        self.capture = capture
        self.launcher = self.load()

    def say(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.capture.readouterr()
        status = self.launcher.main(list(arguments))
        return subprocess.CompletedProcess(arguments, status, *self.capture.readouterr())


@pytest.fixture
def course(tmp_path, monkeypatch, capfd) -> Desk:
    """Return a small course with a practice, where pytest can be had without installing it."""
    course = Desk(tmp_path / "Kurs \u00fcber \u8bfe", capfd)
    monkeypatch.chdir(course.folder)
    for name, value in GIT.items():
        monkeypatch.setenv(name, value)
    shutil.copytree(ROOT / "workshop", course.folder / "workshop", ignore=shutil.ignore_patterns("__pycache__"))
    strict = "filterwarnings =\n    error::ResourceWarning\n    error::pytest.PytestUnraisableExceptionWarning\n"
    course.write("pytest.ini", f"[pytest]\ntestpaths = tests\npythonpath = .\n{strict}")
    course.write("tests/test_sums.py", TESTS)
    course.write("s05_todo_write/__init__.py", "")
    course.write("s05_todo_write/harness.py", "from . import sums\n")
    course.write("s05_todo_write/sums.py", ADDING)
    course.write("s05_todo_write/practice.json", json.dumps(LISTED))
    return course


@pytest.fixture
def learner(course) -> Desk:
    """Return it with an environment."""
    course.furnish()
    packages = next((course.folder / ".venv").rglob("site-packages"))
    (packages / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return course


SUMS = "practice/s05_todo_write/sums.py"


def write_function(course: Course, name: str, source: str) -> None:
    path = course.folder / SUMS
    copies.write(path, copies.replace(copies.read(path), name, source))


def sure(course: Desk, *arguments: str, status: int = 0) -> str:
    done = course.say(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


# What a learner reads.

TALK = """\
Each copy begins with everything before it solved, so nothing is missing from the earlier chapters.
practice/s05_todo_write is the chapter without the bodies of these functions. Write them, in this order:

  Sums.total  sums.py
  half        sums.py
  end         sums.py

Each says what is wanted. The lesson is s05_todo_write/README.md.
See what is next   python3 learn.py check s05
at each save       python3 learn.py check s05 --watch
=====
practice/s05_todo_write is there already, and stays as it is.
Go on with      python3 learn.py check s05
or begin anew   python3 learn.py practice s05 --reset   (keeps what is there beside it)
=====
s05_todo_write: 0 of 3 functions pass
  next    Sums.total  sums.py
  later   half        sums.py
  later   end         sums.py

Next: Sums.total (sums.py, line 12)
Wanted: Add "all" up.

It is still to be written. A test that waits for it (tests/test_sums.py:12):
  Numbers add up.
    total = sums().Sums.total(numbers)
    assert 0 <= total and total == {0: 0, 2: 3, 1: 5}[len(numbers)]
    with numbers = []

A hint: python3 learn.py check s05 --hint
=====
s05_todo_write: 0 of 3 functions pass
  next    Sums.total  sums.py
  later   half        sums.py
  later   end         sums.py

Next: Sums.total (sums.py, line 12)
Wanted: Add "all" up.

This test fails (tests/test_sums.py:13):
  Numbers add up.
    total = sums().Sums.total(numbers)
    assert 0 <= total and total == {0: 0, 2: 3, 1: 5}[len(numbers)]
    with numbers = [1, 2]
  expected: 3
  came:     1

A hint: python3 learn.py check s05 --hint
=====
Next: Sums.total (sums.py)

Hint 1 of 2: Look.

One more: python3 learn.py check s05 --hint
=====
Next: Sums.total (sums.py)

Hint 2 of 2: So.

=====
sums.py, line 12 is no Python: expected ':'
    def total(numbers)
=====
sums.py, line 12 is no Python: expected ':'
    def total(numbers)

Next: Sums.total (sums.py)

Hint 1 of 2: Look.
Hint 2 of 2: So.

There are no more. The failing test says what it wants: check without --hint shows it.
=====
s05_todo_write: 1 of 3 functions pass
  passes  Sums.total  sums.py
  next    half        sums.py
  later   end         sums.py

Next: half (sums.py, line 19)
Wanted: Half of it.

This test fails (tests/test_sums.py:22):
  The half of the double is the number itself.
    check(4)
  checked by assert sums().quietly(sums().half, 2 * number) == number
  expected: 4
  came:     6

A hint: python3 learn.py check s05 --hint
=====
All functions pass their own tests. Now the mechanism's other tests (1) ...

s05_todo_write: 2 of 3 functions pass
  passes  Sums.total  sums.py
  passes  half        sums.py
  next    end         sums.py

Next: end (sums.py, line 23)
Wanted: Say end.
The test below fails with yours, and passes with the chapter's own end.

This test fails (tests/test_sums.py:35):
  More.
    assert sums().end() == "end" and sums().half(9) == 4
  expected: 'end'
  came:     'end.'

A hint: python3 learn.py check s05 --hint
=====
All functions pass their own tests. Now the mechanism's other tests (1) ...

s05_todo_write: 3 of 3 functions pass their own tests, not solved yet
  passes  Sums.total  sums.py
  passes  half        sums.py
  passes  end         sums.py

All 3 functions pass their own tests, but another test of the mechanism does not.

This test fails (tests/test_sums.py:35):
  More.
    assert sums().end() == "end" and sums().half(9) == 4
  expected: 'end'
  came:     'end.'

The fault may lie in any of them. All of it: python3 learn.py check s05 --verbose
All hints: python3 learn.py check s05 --hint
=====

Sums.total: Add "all" up.
  Look.
  So.

half: Half of it.
  See.
  Thus.

end: Say end.
  See.
  Thus.
=====
learn.py: Not all tests passed at the last check of practice/s05_todo_write: see python3 learn.py check s05. To see the chapter's own solution all the same: python3 learn.py diff s05 --practice --show-solution
=====
All functions pass their own tests. Now the mechanism's other tests (1) ...

s05_todo_write: 3 of 3 functions pass
  passes  Sums.total  sums.py
  passes  half        sums.py
  passes  end         sums.py

All 3 functions pass, and so do the mechanism's other tests (1).
Run it: python3 learn.py run s05 --practice
Compare with the chapter's own: python3 learn.py diff s05 --practice
=====
practice/s05_todo_write -> s05_todo_write: 1 changed, +18 -5 lines
  changed  sums.py                  +18 -5

- is yours, + is the chapter's
"""


def test_a_learner_is_led_through_a_practice(learner):
    """Each word of a session, from the first command to the last."""
    for name in ("sums.py", "harness.py"):
        path = learner.folder / "s05_todo_write" / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    shown = [sure(learner, "practice", "s05", "--from-chapter"), sure(learner, "practice", "s05")]
    assert sure(learner, "list").count("[practice: 0 of 3]") == 1
    shown.append(sure(learner, "check", "s05", status=1))
    assert (learner.folder / SUMS).read_bytes().count(b"\r\n") == copies.read(learner.folder / SUMS).count("\n")
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers):\n    return sum(numbers[:1])")
    shown += [sure(learner, "check", status=1), *(sure(learner, "check", "s05", "--hint", status=1) for _ in range(2))]
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers)\n    return sum(numbers)")
    shown += [sure(learner, "check", "s05", status=1), sure(learner, "check", "s05", "--hint", status=1)]
    shutil.rmtree(learner.folder / "practice")
    sure(learner, "practice", "s05")
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers):\n    return sum(numbers)")
    write_function(learner, "half", "def half(number):\n    return number - number % 3")
    shown.append(sure(learner, "check", "s05", status=1))
    assert sure(learner, "list").count("[practice: 1 of 3]") == 1
    write_function(learner, "half", "def half(number):\n    return number // 2")
    write_function(learner, "end", "def end():\n    return 'end.'")
    shown.append(sure(learner, "check", "s05", status=1))
    assert sure(learner, "list").count("[practice: 2 of 3]") == 1
    write_function(learner, "half", "def half(number):\n    return number // 2 + number % 2")
    shown += [sure(learner, "check", "s05", status=1)]
    shown.append(sure(learner, "check", "s05", "--hint", status=1).partition("check s05 --hint\n")[2])
    shown.append(learner.say("diff", "s05", "--practice").stderr)
    assert sure(learner, "list").count("[practice: 3 of 3 pass their own tests, not solved yet]") == 1
    write_function(learner, "half", "def half(number):\n    return number // 2")
    write_function(learner, "end", "def end():\n    return 'end'")
    shown.append(sure(learner, "check", "s05"))
    done = learner.say("diff", "s05", "--practice")
    assert done.stderr == "", "what is shown has no use for the names of temporary folders"
    shown.append("".join(done.stdout.splitlines(keepends=True)[:4]))
    assert sure(learner, "list").count("[practice: solved]") == 1
    text = "=====\n".join(shown).replace("python learn.py", "python3 learn.py")
    assert text == TALK
    assert not list((learner.folder / "practice").rglob("__pycache__"))


def test_hints_are_given_one_by_one_and_stay():
    given: dict[str, int] = {}
    told = [commands.give_hint(as_function(HALF), given, "more") for _ in range(4)]
    assert told[0] == ["Next: half (sums.py)", "", "Hint 1 of 2: See.", "", "One more: more"]
    assert told[1] == ["Next: half (sums.py)", "", "Hint 2 of 2: Thus.", ""]
    assert told[2] == told[3] and told[2][2:4] == ["Hint 1 of 2: See.", "Hint 2 of 2: Thus."] and given == {"half": 2}


def test_the_first_of_two_wrong_functions_is_next_with_its_own_test(learner):
    """With the chapter's own half the tests of half pass: that says nothing of the test that is shown."""
    sure(learner, "practice", "s05")
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers):\n    return sum(numbers[:1])")
    write_function(learner, "half", "def half(number):\n    return number - number % 3")
    write_function(learner, "end", "def end():\n    return 'end'")
    shown = sure(learner, "check", "s05", status=1)
    assert "\nNext: Sums.total (" in shown and "Numbers add up" in shown
    assert "passes with the chapter's own" not in shown
    shown = sure(learner, "check", "s05", "--verbose", status=1)
    assert "= FAILURES =" in shown and "\nFAILED tests/test_sums.py::test_half" in shown
    assert "\n2 of 4 passed; 3 not run after a function's first failure, or for one that is " in shown


def test_a_fault_elsewhere_is_told_with_the_test_that_was_run_again(learner):
    """It is listed under one function, and passes with the chapter's own of another, which fails too."""
    needs_end = '    own.first = lambda numbers: numbers[0] if own.end() == "end" else 1\n    return own\n'
    text = TESTS.replace("return importlib.import_module", "own = importlib.import_module")
    text = text.replace('.sums")\n', f'.sums")\n{needs_end}', 1)
    listed = {**TOTAL, "tests": ["tests/test_sums.py::test_first"]}
    learner.write("tests/test_sums.py", text + "\n\ndef test_first():\n    assert sums().first([3]) == 3\n")
    learner.write("s05_todo_write/practice.json", json.dumps({"functions": [listed, HALF, END]}))
    sure(learner, "practice", "s05")
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers):\n    return sum(numbers)")
    write_function(learner, "half", "def half(number):\n    return number - number % 3")
    write_function(learner, "end", "def end():\n    return ''")
    shown = sure(learner, "check", "s05", status=1)
    assert "\nNext: end (" in shown and "\n  First.\n" in shown
    assert "passes with the chapter's own end." in shown


def test_verbose_shows_what_pytest_says(learner):
    sure(learner, "practice", "s05")
    shown = sure(learner, "check", "s05", "--verbose", status=1)
    assert "= FAILURES =" in shown and "NotImplementedError: Sums.total" in shown
    assert shown.count("test session starts") == 1 and "\nNext: Sums.total" in shown


PROGRAM = """\
import json, os, sys
import offline_model
from . import sums
keys = [name for name in [*os.environ, *os.listdir()] if name.startswith(("ANTHROPIC_", ".env"))]
print(json.dumps([sums.__file__, offline_model.__file__, sys.argv[1:], keys]))
"""


def test_a_copy_runs_as_its_chapter_does_and_always_offline(learner):
    """A gate that is still to be written stops nothing: no real model must get hold of it."""
    learner.write("s05_todo_write/__main__.py", PROGRAM)
    learner.write("offline_model.py", "")
    learner.write(".env", "ANTHROPIC_API_KEY=sk-x\n")
    done = learner.say("run", "s05", "--practice")
    assert done.returncode == 1 and "There is no practice copy of s05_todo_write yet. Make one" in done.stderr
    sure(learner, "practice", "s05")
    words = ["--practice", "go", "--workdir", "w", "--", "--practice"]
    done = learner.start("run", "s05", *words, ANTHROPIC_API_KEY="sk-x", ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    own, model = str(learner.folder / "practice" / "s05_todo_write" / "sums.py"), str(learner.folder / "offline_model.py")
    assert json.loads(done.stdout) == [own, model, ["go", "--workdir", str(learner.folder / "w"), "--practice"], []]
    assert done.returncode == 0 and "$ cd practice\n" in done.stderr and "-B -m s05_todo_write go" in done.stderr
    assert not list((learner.folder / "practice").rglob("__pycache__"))
    assert "run s05 --practice " in learner.say("help").stdout


def test_what_is_missing_is_said(course):
    done = course.say("check", "s05")
    assert done.returncode == 1 and "Make one: " in done.stderr and "practice s05\n" in done.stderr
    assert "There is no practice copy yet" in course.say("check").stderr
    assert "has no practice yet" in course.say("practice", "s02").stderr
    assert "has no practice yet" in course.say("check", "s02").stderr
    assert course.say("check", "s05", "--hnt").returncode == course.say("check", "s05", "s02").returncode == 2
    assert course.say("practice").returncode == course.say("diff", "--practice").returncode == 2
    assert course.say("diff", "s05", "--show-solution").returncode == 2
    assert course.say("check", "s05", "--hint", "--watch").returncode == 2
    assert not (course.folder / ".venv").exists(), "nothing is installed for that"
    course.write("s05_todo_write/practice.json", "{")
    assert "practice.json cannot be read" in course.say("practice", "s05").stderr
    course.write("s05_todo_write/practice.json", json.dumps({"functions": [{**HALF, "name": "gone"}]}))
    assert "sums.py has no gone" in course.say("practice", "s05").stderr
    assert list((course.folder / "practice").iterdir()) == [], "a copy is there whole or not at all"
    course.write("s05_todo_write/practice.json", json.dumps({"functions": [{**HALF, "file": "other.py"}]}))
    (course.folder / "practice" / "s05_todo_write").mkdir()
    for command in (["practice", "s05"], ["check", "s05"]):
        assert "s05_todo_write has no other.py: get the course anew." in course.say(*command).stderr
    assert course.say("practice", "s05", "--help").stdout == course.say("check", "s05", "-h").stdout == course.say("help").stdout


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_text("x"), lambda path: path.symlink_to("nowhere")])
def test_what_is_no_copy_is_said_to_be_none_by_all(course, make):
    place = course.folder / "practice" / "s05_todo_write"
    place.parent.mkdir()
    make(place)
    for command in ("practice", "check", "run"):
        done = course.say(command, "s05", *["--practice"] * (command == "run"))
        assert done.returncode == 1 and "s05_todo_write is no copy of the chapter. Make one (keeps" in done.stdout + done.stderr
    sure(course, "practice", "s05", "--reset", "--yes")
    assert "[practice: 0 of 3]" in sure(course, "list")


def test_the_hints_do_not_lie_in_the_copy(course):
    sure(course, "practice", "s05")
    assert not list((course.folder / "practice").rglob("practice.json"))
    assert "Hint 1 of 2: Look." in sure(course, "check", "s05", "--hint", status=1)


def test_what_others_left_in_a_chapter_is_in_nobodys_way(learner):
    chapter = learner.folder / "s05_todo_write"
    (chapter / "try.py").write_bytes(b"def (\n\xe9")
    (chapter / "._sums.py").write_bytes(b"\0")
    (chapter / ".#sums.py").symlink_to("someone@here")
    sure(learner, "practice", "s05")
    assert not list((learner.folder / "practice").rglob(".*"))
    (learner.folder / SUMS).with_name("try.py").unlink()
    assert "Next: Sums.total" in sure(learner, "check", "s05", status=1)
    (learner.folder / SUMS).with_name("harness.py").write_bytes(b"def (  # \x1b[31m\n")
    shown = sure(learner, "check", "s05", status=1)
    assert "harness.py, line 1, cannot be imported: SyntaxError" in shown and "\x1b" not in shown
    (learner.folder / SUMS).unlink()
    if os.name != "nt":
        os.mkfifo(learner.folder / SUMS)
        assert "sums.py is no file: copy it from s05_todo_write" in sure(learner, "check", "s05", status=1)


# Nothing is lost.


def test_work_is_never_overwritten(course, monkeypatch, capfd):
    sure(course, "practice", "s05")
    course.write(SUMS, "mine")
    sure(course, "practice", "s05")
    assert course.read(SUMS) == "mine"
    done = course.say("practice", "s05", "--reset")
    assert done.returncode == 1 and "--reset --yes" in done.stderr and course.read(SUMS) == "mine"

    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    told = {"reset": True, "yes": False, "from_chapter": False}
    for answer, begun in (("", False), ("n", False), ("y", True), ("YES ", True)):
        monkeypatch.setattr("builtins.input", lambda question, answer=answer: answer)
        course.write(SUMS, "mine")
        status = commands.practice(course.folder, "s05_todo_write", "learn", **told)
        assert (status == 0) == begun == (course.read(SUMS) != "mine")
        assert ("Nothing was changed." in capfd.readouterr().out) != begun
    course.write(SUMS, "mine")
    assert "What was there is now in practice/s05_todo_write-2" in sure(course, "practice", "s05", "--reset", "--yes")
    kept = [path for path in (course.folder / "practice").iterdir() if path.name != "s05_todo_write"]
    assert len(kept) == 3 and all((path / "sums.py").read_text(encoding="utf-8") == "mine" for path in kept)


@pytest.mark.parametrize("content", [b"def (", b"# \xe9\n", None])
def test_work_stays_in_its_place_until_the_new_copy_is_made(course, monkeypatch, content):
    sure(course, "practice", "s05")
    course.write(SUMS, "mine")
    chapter = course.folder / "s05_todo_write" / "sums.py"
    if content is None:
        monkeypatch.setattr(copies, "write", lambda path, text: (_ for _ in ()).throw(OSError(28, "Disk full")))
    else:
        chapter.write_bytes(content)
    # In this process the launcher has this very module.
    done = course.say("practice", "s05", "--reset", "--yes")
    assert done.returncode == 1 and ("get the course anew" if content else "Make room, then") in done.stderr
    assert done.stdout == "" and course.read(SUMS) == "mine"
    assert [path.name for path in (course.folder / "practice").iterdir()] == ["s05_todo_write"]


def test_a_copy_can_be_written_though_the_chapter_cannot(course):
    chapter = course.folder / "s05_todo_write"
    for path in (*chapter.glob("*.*"), chapter):
        path.chmod(0o555)
    try:
        sure(course, "practice", "s05")
        places = [course.folder / SUMS, (course.folder / SUMS).parent]
        assert all(path.stat().st_mode & 0o200 for path in places)
    finally:
        chapter.chmod(0o755)


def test_of_two_who_make_a_copy_at_once_the_second_is_told(course, monkeypatch):
    def slow(path, text, write=copies.write):
        write(path, text)
        shutil.copytree(path.parent, course.folder / "practice" / "s05_todo_write")

    monkeypatch.setattr(copies, "write", slow)
    assert "is there already, and stays as it is." in sure(course, "practice", "s05")
    assert len(list((course.folder / "practice").iterdir())) == 1


def test_nobody_can_be_asked_where_there_is_no_input(course, monkeypatch):
    sure(course, "practice", "s05")
    monkeypatch.setattr("sys.stdin", None)
    assert "Nobody can be asked here." in course.say("practice", "s05", "--reset").stderr


def test_the_list_speaks_of_copies_that_are_there(course):
    sure(course, "practice", "s05")
    names = [each["name"] for each in LISTED["functions"]]
    for whole, said in ((True, "[practice: solved]"), (False, "[practice: 3 of 3 pass their own tests, not solved yet]")):
        progress.save(course.folder, "s05_todo_write", {"passed": names, "all": whole, "hints": {}})
        assert said in sure(course, "list")
    shutil.rmtree(course.folder / "practice")
    assert "[practice" not in sure(course, "list")


def test_what_cannot_be_printed_or_found_is_no_traceback(course):
    for command in (["list"], ["practice", "s05"], ["diff", "s05", "--practice", "--show-solution"]):
        call = [sys.executable, "-P", str(course.folder / "learn.py"), *command]
        call = call if sys.version_info >= (3, 11) else [each for each in call if each != "-P"]
        outputs = ["/dev/full"] if os.path.exists("/dev/full") else [os.devnull]
        with open(outputs[0], "w") as output:
            options = {"stderr": subprocess.PIPE, "text": True, "cwd": course.folder.parent, "stdin": subprocess.DEVNULL}
            done = subprocess.run(call, stdout=output, env=environment(PYTHONSAFEPATH="1"), **options)
        assert "Traceback" not in done.stderr and "ModuleNotFound" not in done.stderr
        assert done.stderr == "learn.py: The output: No space left on device. Make room, then try again.\n" * (
            outputs[0] == "/dev/full"
        )


@pytest.mark.parametrize("text", ['{"s05_todo_write": {"hints": {"half": -10}}}', "", "{", "[]", "null", '{"s05_todo_write": 3}', '{"s05_todo_write": {"passed": 3, "hints": [1]}}'])
def test_a_damaged_file_of_progress_is_as_good_as_none(course, text):
    sure(course, "practice", "s05")
    course.write(progress.FILE, text)
    assert "[practice: 0 of 3]" in sure(course, "list")
    entry = progress.of(course.folder, "s05_todo_write")
    assert entry == {"passed": [], "all": False, "hints": {}}
    progress.save(course.folder, "s05_todo_write", {**entry, "passed": ["half", "gone"]})
    assert "[practice: 1 of 3]" in sure(course, "list")
    assert list(course.folder.glob(progress.FILE + "*")) == [course.folder / progress.FILE]
    (course.folder / progress.FILE).unlink()
    assert "[practice: 0 of 3]" in sure(course, "list")
    progress.save(course.folder / "gone", "s05_todo_write", entry)  # what cannot be written is no failure


# What a learner writes may do anything.

QUICK = checks.Limits(test_seconds=2, total_seconds=30, printed=1_000_000)
SHORT = checks.Limits(test_seconds=1)  # for what is sure to take longer
SLEEP = "import time; time.sleep(60)"


def with_total(body: str) -> bytes:
    return copies.replace(ADDING, "Sums.total", f"@staticmethod\ndef total(numbers):\n    {body}\n").encode("utf-8")


def with_half(body: str) -> bytes:
    return copies.replace(ADDING, "half", f"def half(number):\n    {body}\n").encode("utf-8")


def judged(course: Course, *contents: bytes | None, limits: checks.Limits = QUICK) -> list[str]:
    """Check a copy for each content of sums.py (None: it is not there), in one run. Returns what is said about each."""
    outcomes, states = [], []
    for number, content in enumerate(contents):
        copy = course.folder / "practice" / str(number) / "s05_todo_write"
        shutil.rmtree(copy.parent, ignore_errors=True)
        copies.make(course.folder / "s05_todo_write", copy, COMMAND, set())
        (copy / "sums.py").unlink()
        if content is not None:
            (copy / "sums.py").write_bytes(content)
        outcome = checks.Outcome("s05_todo_write", copy, copies.functions(course.folder / "s05_todo_write"))
        states.append(checks.plan(course.folder, outcome))
        outcomes.append(outcome)
    run = checks.Run(course.folder, sys.executable, [state for state in states if state], limits)
    if run.states:
        run.start()
    told = []
    for outcome, state in zip(outcomes, states):
        if state:
            checks.read(outcome, run, run.states.index(state))
        assert not outcome.all_pass
        lines = words.report(outcome, "learn")
        assert len(lines) < 32 and all(len(line) < 150 and line.isprintable() for line in lines), lines
        assert str(course.folder) not in "\n".join(lines)
        told.append("\n".join(lines))
    return told


# Only if its group is its own: else it would end this test, and who runs it.
END_GROUP = "import os, signal; os.getpgrp() == os.getpid() and os.killpg(0, signal.SIGKILL)"


@pytest.mark.parametrize(("body", "said"), [
    ("while True: pass", "took longer than 1 seconds"),
    ("while True: print('x' * 999)", "printed more than 1,000,000 bytes"),
    ("import os; os._exit(0)", "ended Python (exit status 0)"),
    (END_GROUP, "ended Python (signal 9)"),
    ("import os; os.closerange(0, 99)", "ended Python"),
])
def test_a_run_that_is_stopped_names_the_test(course, body, said):
    if os.name == "nt" and body == END_GROUP:
        return
    [told] = judged(course, with_total(body), limits=SHORT if "pass" in body else QUICK)
    assert said in told
    assert "\n    tests/test_sums.py::test_T1_numbers_add_up[numbers0]" in told
    assert ("It was in sums.py, line 13, in total: is there a loop that does not end?" in told) == ("pass" in body)


def test_our_own_words_begin_a_line_among_those_of_pytest(course):
    run, told = checks.Run(course.folder, sys.executable, [], QUICK), []
    run.prepare(course.folder)
    (course.folder / "report").write_text('{"event": "rest", "tests": 3}\n', encoding="utf-8")
    run.verbose, run.printed = True, b"tests/test_x.py::test_y "
    run.take_records(told.append)
    assert told == ["\nAll functions pass their own tests. Now the mechanism's other tests (3) ...\n"]


def test_a_run_that_ended_for_want_of_memory_says_so(course):
    """Where not even pytest has enough left to tell of the error."""
    run = checks.Run(course.folder, sys.executable, [], QUICK)
    run.records, run.printed, run.status = [{"event": "start", "test": "t"}], b"INTERNALERROR> MemoryError\n", 3
    told = checks.why_it_ended(checks.Outcome("s05_todo_write", course.folder, []), run)
    assert "this test took more memory than a check may" in told[0]


def test_a_run_has_a_limit_in_total(course):
    [told] = judged(course, with_total(SLEEP), limits=checks.Limits(total_seconds=3))
    assert "had not ended after 3 seconds in total" in told
    assert "\n    tests/test_sums.py::test_T1_numbers_add_up[numbers0]" in told


def test_an_import_without_end_is_stopped(course):
    [told] = judged(course, SLEEP.encode("utf-8"), limits=SHORT)
    assert "The check was stopped: the import of sums.py took longer than 1 seconds." in told


def test_what_goes_wrong_is_told_in_a_few_lines(course):
    bodies = {
        # No test of the course is skipped, may fail, or ends a session.
        "import pytest; pytest.skip('later')": "\n  came:     Skipped: later\n  in sums.py, line 13: import pytest; pytest.skip",
        "import pytest; pytest.xfail('so')": "\n  came:     XFailed: so\n  in sums.py, line 13: import pytest; pytest.xfail",
        "import unittest; raise unittest.SkipTest": "\n  came:     SkipTest\n  in sums.py, line 13: ",
        "import pytest; pytest.exit('x')": "\n  came:     Exit: x\n  in sums.py, line 13: ",
        "raise KeyboardInterrupt": "\n  came:     KeyboardInterrupt\n  in sums.py, line 13: raise KeyboardInterrupt\n",
        # Whoever writes an assertion sees which one it was.
        "assert numbers == 5": "\n  came:     AssertionError\n  in sums.py, line 13: assert numbers == 5\n",
        "open(__file__, encoding='utf-8'); return 0": "\n  came:     something is left open, close it (unclosed file ",
        "raise SystemExit(0)": "\n  came:     SystemExit: 0\n",
        "return 'x' * 10**7": "came:     TypeError: '<=' not supported",
        "return type('Odd', (int,), {'__repr__': lambda self: 1 / 0})(7)": "Odd, whose repr raises ZeroDivisionError",
        "raise ValueError('\\x1b[31m\\udc80\\n' * 10**6)": r"  came:     ValueError: \x1b[31m\udc80\n\x1b[31m",
        "import sys; sys.stdout.buffer.write(b'\\xff\\x1b'); return 5": "\n  expected: 0\n  came:     5\n",
        "return input()": "\n  came:     EOFError",
        "open(__file__ + '.gone')": "No such file or directory: 'sums.py.gone'",
        f"import threading; threading.Thread(target=exec, args=({SLEEP!r},)).start()": "came:     TypeError",
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])": "came:     TypeError",
        "return Sums.total(numbers)": "\n  came:     RecursionError",
        "x = 1\n    raise NotImplementedError('Sums.total: Add \"all\" up.  (x)')":
            "The error is still in it: take out the line that raises",
        # What a learner calls in a wrong way, and where; then where it goes wrong.
        "return first(5)": "\n  in sums.py, line 13: return first(5)\n  then in sums.py, line 31: return numbers[0]\n",
        "return quietly()": "\n  in sums.py, line 13: return quietly()\n\n",
        # What a learner prints.
        "print('\\x1b[31m', 'y' * 999); return 8": r"\n  printed:  \x1b[31m yyy".replace(r"\n", "\n"),
        "print(*range(9), sep='\\n'); return 8": "".join(f"\n  printed:  {each}" for each in "…5678"),
        # What was raised and caught; but not what a test raises on purpose.
        "try:\n        return numbers[9]\n    except Exception:\n        return 8":
            "\n  raised and caught on the way: IndexError: list index out of range\n  in sums.py, line 14: return numbers",
        "try:\n        import test_sums; test_sums.refuse()\n    except Exception:\n        return 8":
            "\n  came:     8\n\nA hint",
    }
    if sys.platform == "linux":  # elsewhere the time limit has to do
        bodies["return [0] * 10**9"] = "\n  came:     MemoryError\n"
    modules = {
        b"a = 1\nb = c\n": "sums.py, line 2, cannot be imported: NameError: name 'c' is not defined",
        b"import sys\nsys.exit(3)\n": "sums.py, line 2, cannot be imported: SystemExit: 3",
        b"from .nothing import x\n": "sums.py, line 1, cannot be imported: ModuleNotFoundError: No module named 's05",
        b"def total(:\n": "sums.py, line 1 is no Python: invalid syntax",
        b"def total(:  # \x1b[31m\n": "    def total(:  # \ufffd[31m",
        b"a = 1\n# \xe9\n": "sums.py is not in UTF-8, line 2: save it with that encoding.",
        b"a = '\0'": "sums.py",
        None: "sums.py cannot be read",
        ADDING.replace("def total", "def totals").encode("utf-8"): "sums.py has no function Sums.total any more",
        b"\xef\xbb\xbf" + with_total("return 8"): "\n  came:     8\n",
        # What is caught by another one, as a harness does with hooks; but not what somebody waits for.
        with_half("return number / nothing"): "\n  came:     None\n  raised and caught on the way: NameError: name "
            "'nothing' is not defined\n  in sums.py, line 31: return number / nothing\n",
        with_half("return first(number)"):
            "subscriptable\n  in sums.py, line 31: return first(number)\n  then in sums.py, line 40: return numbers[0]\n",
        with_half("try: {}[number]\n    except KeyError: return 8"): "\n  came:     8\n\nA hint",
    }
    cases = {with_total(body): said for body, said in bodies.items()} | modules
    begun = time.monotonic()
    for (content, said), told in zip(cases.items(), judged(course, *cases)):
        assert said in told, content
    assert time.monotonic() - begun < 30, "a thread or a child that goes on is not waited for"


def test_an_import_that_ends_python_is_told_as_such(course):
    [told] = judged(course, b"import sys\nsys.exit(3)\n")
    assert "sums.py, line 2, cannot be imported: SystemExit: 3" in told


def test_long_values_are_cut_where_they_differ_and_wrapped_whole():
    text = "q" * 300 + "one, two, four" + "q" * 300
    error, compared = AssertionError(), ("in", "one, two, three", text)
    assert "one, two, four" in failures.expected_and_came(error, compared)[1][:70]
    lines = words.hang("  came:     ", "ab  cd " * 40)
    assert all(len(line) <= words.WIDTH for line in lines) and "".join(line[12:] for line in lines) == "ab  cd " * 40


def test_a_refusal_in_other_words_is_told_by_what_is_wanted():
    for wanted, shown in (("answer", "'answer'"), (re.escape("a.md leads"), "'a.md leads'")):
        try:
            with pytest.raises(ValueError, match=wanted):
                raise ValueError("one\ntwo")
        except AssertionError as error:
            told = failures.expected_and_came(error, None)
    assert told == (f"a ValueError whose text holds {shown}", r"ValueError: 'one\ntwo'")


@pytest.mark.parametrize("number", ["T1", "P19", "E04d"])
def test_the_number_of_a_case_is_not_told(number):
    item = SimpleNamespace(function=None, originalname=f"test_{number}_the_command")
    assert failures.sentence(item) == "The command"


def test_an_excerpt_shows_what_was_done_before_and_what_is_wanted(tmp_path):
    body = "".join(f"    step({number})\n" for number in range(12))
    path = tmp_path / "test_x.py"
    path.write_text(f'def test_x(x):\n    """Docs."""\n{body}    total = x()\n\n    assert total == 1\n    assert 2\n', "utf-8")
    shown = failures.excerpt(path, 4, goal=False)
    assert shown == ["step(0)", "step(1)"]
    shown = failures.excerpt(path, 15, goal=True)
    assert shown == ["...", *(f"step({number})" for number in range(6, 12)), "total = x()", "assert total == 1"]


def test_old_bytecode_is_not_run(course):
    """Saved twice within a second, with the same size: bytecode would not notice."""
    copy = course.folder / "practice" / "s05_todo_write"
    copies.make(course.folder / "s05_todo_write", copy, COMMAND, set())
    for number in (1, 2):
        (copy / "sums.py").write_text(ADDING.replace("found = 0", f"found = {number}"), encoding="utf-8")
        os.utime(copy / "sums.py", (1_700_000_000, 1_700_000_000))
        if number == 1:  # a learner's own run leaves bytecode
            subprocess.run([sys.executable, "-c", "import s05_todo_write.sums"], cwd=copy.parent, env=environment(), check=True)
    assert list(copy.rglob("sums*.pyc"))
    outcome = checks.check(course.folder, sys.executable, "s05_todo_write", copy, limits=QUICK)
    assert "  came:     2" in words.report(outcome, "learn")


# Watching.


def test_a_save_is_checked_until_ctrl_c(learner):
    if os.name == "nt":
        return  # nothing can press Ctrl-C there for one process alone
    sure(learner, "practice", "s05")
    command = [sys.executable, str(learner.folder / "learn.py"), "check", "s05", "--watch"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "encoding": "utf-8"}
    with subprocess.Popen(command, env=environment(PYTHONIOENCODING="utf-8"), **options) as process:

        def until(part: str) -> str:
            seen = ""
            while part not in seen:
                line = process.stdout.readline()
                assert line, seen
                seen += line
            return seen

        assert "Watching practice/s05_todo_write" in until("Next: Sums.total")
        until("A hint")
        (learner.folder / SUMS).write_text("def (\n", encoding="utf-8")
        assert "\x1b" not in until("is no Python")
        (learner.folder / SUMS).write_text(ADDING, encoding="utf-8")
        until("Compare with the chapter's own")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert "No longer watching." in process.stdout.read()
        assert process.wait() == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGTERM"])
def test_ctrl_c_or_a_closed_terminal_ends_a_check_and_what_it_runs(learner, name):
    if os.name == "nt":
        return
    number = getattr(signal, name)
    sure(learner, "practice", "s05")
    mark = learner.folder / "begun"
    body = f"import pathlib, os\n    pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\n    while True: pass"
    write_function(learner, "Sums.total", f"@staticmethod\ndef total(numbers):\n    {body}")
    command = [sys.executable, str(learner.folder / "learn.py"), "check", "s05"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 128 + number and ("Interrupted" in told) == (name == "SIGINT") and "Traceback" not in told
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
