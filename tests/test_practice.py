"""Practice: each chapter is its own answer key, wrong answers are caught, and a check survives what a learner writes.

Copies are made in temporary folders. All copies of a chapter are judged in one process, each one imported anew.
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
from dataclasses import fields
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from conftest import CHAPTERS
from conftest import ROOT
from test_launcher import Course
from test_launcher import environment

from offline_model.script import Call
from offline_model.script import load_scenario
from workshop import Problem
from workshop import checks
from workshop import commands
from workshop import copies
from workshop import progress

COMMAND = "python3 learn.py check --hint"
WEAK = ROOT / "tests" / "data" / "weak"
CHAPTERS_WITH_WEAK = ("s02", "s03", "s05")
WEAK_PER_FUNCTION = 3


class Bench:
    """Copies of one chapter in different states, judged together."""

    def __init__(self, chapter: str, folder: Path) -> None:
        self.chapter, self.folder = ROOT / chapter, folder
        self.functions = copies.functions(self.chapter)
        self.states: dict[str, dict] = {}

    def add(self, label: str, left_out: set[str], *groups: dict, rest: bool = False) -> Path:
        """Make a copy without the functions in ``left_out``, which is to be judged by the tests of ``groups``."""
        copy = self.folder / str(len(self.states)) / self.chapter.name
        copies.make(self.chapter, copy, COMMAND, left_out)
        preload = checks.preload(self.functions)
        self.states[label] = {"folder": str(copy), "preload": preload, "groups": list(groups), "rest": rest}
        return copy

    def judge(self) -> dict[str, list[dict]]:
        """Return for each state what happened, record by record."""
        run = checks.Run(ROOT, sys.executable, self.functions, list(self.states.values()), checks.Limits(total_seconds=600))
        run.start()
        assert run.ended(), (run.why, run.last_test(), run.stuck, bytes(run.printed).decode("utf-8", "replace"))
        happened: dict[str, list[dict]] = {label: [] for label in self.states}
        for record in run.records:
            happened[[*self.states][record["state"]]].append(record)
        return happened


def group(name: str, tests: tuple[str, ...] | list[str], stop: bool = True) -> dict:
    return {"name": name, "tests": list(tests), "stop": stop}


def failed(records: list[dict], name: str | None = None) -> list[dict]:
    """Return the failures, and all that kept tests from running, of one group or of all."""
    bad = ("failed", "missing", "broken", "uncollected")
    return [each for each in records if each["event"] in bad and name in (None, each.get("group"))]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_its_own_answer_key(name, tmp_path):
    bench = Bench(name, tmp_path)
    every = [each.name for each in bench.functions]
    assert 2 <= len(every) <= 5 and len(set(every)) == len(every)
    bench.add("untouched", set(every), *[group(each.name, each.tests, stop=False) for each in bench.functions])
    for number, each in enumerate(bench.functions, 1):
        others = [test for other in bench.functions if other is not each for test in other.tests]
        bench.add(f"written up to {each.name}", set(every[number:]), group(each.name, each.tests))
        bench.add(f"all but {each.name}", {each.name}, group(each.name, each.tests))
        bench.add(f"only {each.name}", set(every) - {each.name}, group("others", others))
    happened = bench.judge()

    assert {each["event"] for records in happened.values() for each in records} <= {"start", "group", "passed", "failed", "end"}
    for each in bench.functions:
        failures = failed(happened["untouched"], each.name)
        assert failures, f"{each.name}: all its tests pass when nothing is written"
        assert [f for f in failures if f["kind"] not in ("hint", "assertion")] == [], "told by the hint or an assertion"
        assert failed(happened[f"written up to {each.name}"]) == [], "it can be written in this order"
        assert failed(happened[f"all but {each.name}"]), f"{each.name}: all its tests pass without it"
        assert failed(happened[f"only {each.name}"]), f"{each.name} alone passes all"


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


@pytest.mark.parametrize("name", [name for name in CHAPTERS if name[:3] in CHAPTERS_WITH_WEAK])
def test_weak_solutions_are_caught(name, tmp_path):
    bench = Bench(name, tmp_path)
    of = {each.name: each for each in bench.functions}
    files = {test.partition("::")[0] for each in bench.functions for test in each.tests}
    counts = dict.fromkeys(of, 0)
    wanted = {}
    for path in sorted((WEAK / name).glob("*.py")):
        function, _, fault = path.stem.partition("__")
        first, _, source = path.read_text(encoding="utf-8").partition("\n")
        tests = first.removeprefix("# must fail: ").split(", ")
        assert first.startswith("# must fail: tests/") and fault and {test.partition("::")[0] for test in tests} <= files
        counts[function] += 1
        copy = bench.add(path.stem, set(), group(function, tests, stop=False))
        module = copy / of[function].file
        copies.write(module, copies.replace(copies.read(module), function, source))
        wanted[path.stem] = tests
    assert min(counts.values()) >= WEAK_PER_FUNCTION, counts

    happened = bench.judge()
    for label, tests in wanted.items():
        failures = failed(happened[label])
        assert {each["event"] for each in failures} == {"failed"}, (label, failures)
        assert {each["test"].partition("[")[0] for each in failures} == set(tests), label
        assert all(each["call"] and each["came"] and each["kind"] != "hint" for each in failures), label


# No harm, in whatever state a copy is.

PROGRAMS = {"ls", "wc", "cat", "printf", "cp", "touch", "grep", "head", "echo", "python"}
CANARY = "canary"  # the one thing that a script may touch


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


@pytest.mark.parametrize("command", [
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
import pytest
from s05_todo_write.sums import Sums, end, half


@pytest.mark.parametrize("numbers", [[], [1, 2], [5]])
def test_T1_numbers_add_up(numbers):
    total = Sums.total(numbers)
    assert 0 <= total and total == {0: 0, 2: 3, 1: 5}[len(numbers)]


def check(number):
    assert half(2 * number) == number


def test_half():
    """The half of the double is the number itself."""
    check(4)


def test_half_is_whole():
    with pytest.raises(TypeError):
        half("x")


def test_end():
    assert "end" in end()


def test_more():
    assert end() == "end" and half(9) == 4
'''


@pytest.fixture
def course(tmp_path) -> Course:
    """Return a small course with a practice, where pytest can be had without installing it."""
    course = Course(tmp_path / "Kurs \u00fcber \u8bfe")
    shutil.copytree(ROOT / "workshop", course.folder / "workshop", ignore=shutil.ignore_patterns("__pycache__"))
    course.write("pytest.ini", "[pytest]\ntestpaths = tests\npythonpath = .\n")
    course.write("tests/test_sums.py", TESTS)
    course.write("s05_todo_write/__init__.py", "")
    course.write("s05_todo_write/harness.py", "from . import sums\n")
    course.write("s05_todo_write/sums.py", ADDING)
    course.write("s05_todo_write/practice.json", json.dumps(LISTED))
    return course


@pytest.fixture
def learner(course) -> Course:
    """Return it with an environment."""
    course.furnish()
    packages = next((course.folder / ".venv").rglob("site-packages"))
    (packages / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return course


SUMS = "practice/s05_todo_write/sums.py"


def write_function(course: Course, name: str, source: str) -> None:
    path = course.folder / SUMS
    copies.write(path, copies.replace(copies.read(path), name, source))


def sure(course: Course, *arguments: str, status: int = 0) -> str:
    done = course.start(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


# What a learner reads.

TALK = """\
"""


def test_a_learner_is_led_through_a_practice(learner):
    """Each word of a session, from the first command to the last."""
    for name in ("sums.py", "harness.py"):
        path = learner.folder / "s05_todo_write" / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    shown = [sure(learner, "practice", "s05", "--from-chapter"), sure(learner, "practice", "s05")]
    assert sure(learner, "list").count("[0 of 3 written]") == 1
    shown.append(sure(learner, "check", "s05", status=1))
    assert (learner.folder / SUMS).read_bytes().count(b"\r\n") == copies.read(learner.folder / SUMS).count("\n")
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers):\n    return sum(numbers[:1])")
    shown += [sure(learner, "check", status=1), *(sure(learner, "check", "s05", "--hint", status=1) for _ in range(3))]
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers)\n    return sum(numbers)")
    shown.append(sure(learner, "check", "s05", status=1))
    shutil.rmtree(learner.folder / "practice")
    sure(learner, "practice", "s05")
    write_function(learner, "Sums.total", "@staticmethod\ndef total(numbers):\n    return sum(numbers)")
    write_function(learner, "half", "def half(number):\n    return number - number % 3")
    shown.append(sure(learner, "check", "s05", status=1))
    assert sure(learner, "list").count("[1 of 3 written]") == 1
    write_function(learner, "half", "def half(number):\n    return number // 2")
    write_function(learner, "end", "def end():\n    return 'end.'")
    shown += [sure(learner, "check", "s05", status=1), learner.start("diff", "s05", "--practice").stderr]
    write_function(learner, "end", "def end():\n    return 'end'")
    shown.append(sure(learner, "check", "s05"))
    shown.append("".join(sure(learner, "diff", "s05", "--practice").splitlines(keepends=True)[:2]))
    assert sure(learner, "list").count("[solved]") == 1
    text = "=====\n".join(shown).replace("python learn.py", "python3 learn.py")
    print(text)
    assert text == TALK
    assert not list((learner.folder / "practice").rglob("__pycache__"))
