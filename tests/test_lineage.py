"""What each chapter adds is what its lesson says, and nothing else changes on the way."""

from __future__ import annotations

import ast
import difflib
import functools
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import steps
from conftest import CHAPTERS
from conftest import ROOT
from conftest import names_in
from lessons import clean_environment

import offline_model

STEPS = list(pairwise(CHAPTERS))
FROZEN_FROM = "s04"
CHANGED_LINES = 40  # of the chapter before that a step may change or take away
NEW_MODULE = 265  # lines, with comments and blank ones: what one can read in a sitting

parse = functools.cache(ast.parse)  # most texts are those of several chapters


@functools.cache
def modules(chapter: str) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / chapter).glob("*.py"))}


def real_change(before: str, after: str) -> tuple[set[str], set[str]]:
    """Return the names of the new modules and of the changed ones."""
    old, new = modules(before), modules(after)
    return set(new) - set(old), {name for name in old if new.get(name) != old[name]}


def told_change(chapter: str) -> tuple[set[str], set[str]]:
    """Return what the lesson's table names as new and as changed."""
    text = (ROOT / chapter / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (new|changed) \| `([\w.]+)` \| (\S.*) \|$", text, re.MULTILINE)
    return {name for kind, name, _ in rows if kind == "new"}, {name for kind, name, _ in rows if kind == "changed"}


def test_the_numbers_run_without_a_gap():
    assert [name[:3] for name in CHAPTERS] == [f"s{number:02}" for number in range(1, len(CHAPTERS) + 1)]


def test_the_first_lesson_lists_its_modules():
    new, changed = told_change(CHAPTERS[0])
    assert new == set(modules(CHAPTERS[0])) - {"__init__.py"} and not changed


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_the_lesson_lists_what_changed_and_nothing_else_did(before, after):
    assert told_change(after) == real_change(before, after)


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_nothing_is_lost_on_the_way(before, after):
    assert set(modules(before)) <= set(modules(after))


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_a_step_is_small(before, after):
    new, changed = real_change(before, after)
    old, now = modules(before), modules(after)
    gone = 0
    for name in changed:
        diff = difflib.ndiff(old[name].splitlines(), now[name].splitlines())
        gone += sum(line.startswith("- ") and len(line) > 2 for line in diff)
    assert gone <= CHANGED_LINES
    assert [name for name in new if len(now[name].splitlines()) > NEW_MODULE] == []


def test_the_table_of_steps_is_true():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert steps.TABLE.search(text)[0] == steps.table(), "write it anew: python tests/steps.py"


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_what_lies_beside_the_code_is_carried(before, after):
    """Forms and manuals that a module reads: each in a folder of its chapter, and the same in all later ones."""
    files = [path.relative_to(ROOT / before) for path in (ROOT / before).glob("*/**/*") if path.is_file()]
    for file in [file for file in files if "__pycache__" not in file.parts]:
        assert (ROOT / after / file).read_bytes() == (ROOT / before / file).read_bytes(), file


@pytest.mark.parametrize("name", [name for name in CHAPTERS if name[:3] >= FROZEN_FROM])
def test_the_loop_is_frozen(name):
    first = next(chapter for chapter in CHAPTERS if chapter[:3] == FROZEN_FROM)
    assert modules(name)["loop.py"] == modules(first)["loop.py"]


@functools.cache
def definitions(text: str) -> dict[str, tuple[str, str]]:
    """Return each function and class by its full name: its code without docstrings, and its text."""
    found, lines = {}, text.split("\n")

    def visit(node: ast.AST, prefix: str) -> None:
        for child in getattr(node, "body", []):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                source = "\n".join(lines[child.lineno - 1 : child.end_lineno])
                bare = ast.parse(ast.unparse(child))
                for inner in ast.walk(bare):
                    if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(inner):
                        inner.body = inner.body[1:]
                found[name] = (ast.dump(bare), source)
                visit(child, name + ".")

    visit(parse(text), "")
    return found


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_carried_code_keeps_its_text(before, after):
    old, now = modules(before), modules(after)
    for name in [name for name in old if old[name] != now[name]]:
        was, is_now = definitions(old[name]), definitions(now[name])
        same_code = [key for key in was if key in is_now and was[key][0] == is_now[key][0]]
        assert [key for key in same_code if was[key][1] != is_now[key][1]] == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_names_no_chapter_and_imports_none(name):
    for file, text in modules(name).items():
        assert "\nfrom __future__ import annotations\n" in text or file == "__init__.py", file  # conftest relies on it
        assert not re.search(r"\bs\d\d_|\bs\d\d\b|\bchapter \d", text), file
        for node in ast.walk(parse(text)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                assert len(node.names) == 1, f"{file}:{node.lineno} imports stand one to a line"
                outside = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
                assert outside is None or not re.match(r"s\d\d_", outside), file


def test_a_module_is_tested_anew_where_what_it_imports_has_changed_but_not_for_an_annotation():
    used = "from .a import One\nfrom .b import Two\nfrom .c import Three\n@One\ndef f(x: Two = Three()) -> Two:\n    y: Two = x\n"
    assert names_in(used)[1] == {"One": ("a", "One"), "Three": ("c", "Three")}


@pytest.mark.parametrize("name", [name for name in CHAPTERS if name[:3] > FROZEN_FROM])
def test_an_older_module_never_imports_a_newer_one(name):
    first = next(chapter for chapter in CHAPTERS if chapter[:3] == FROZEN_FROM)
    for file in set(modules(first)) - {"harness.py", "__main__.py"}:
        for node in ast.walk(parse(modules(name)[file])):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                assert f"{node.module}.py" in modules(first), f"{name}/{file} imports {node.module}"


def test_importing_has_no_side_effect(tmp_path):
    """All chapters in one process: no thread, no client, no environment change, no output, nothing written."""
    code = """
import importlib, os, sys, threading
sys.path.insert(0, sys.argv[1])
before = dict(os.environ)
for name in sys.argv[2:]:
    importlib.import_module(name)
assert threading.active_count() == 1 and dict(os.environ) == before
assert not {"anthropic", "httpx2", "pydantic", "dotenv", "offline_model"} & set(sys.modules), "imported too early"
"""
    names = [f"{c}.{Path(m).stem}" for c in CHAPTERS for m in modules(c) if m not in ("__init__.py", "__main__.py")]
    names += [f"{chapter}.__main__" for chapter in CHAPTERS]
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), *names], capture_output=True, cwd=tmp_path, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def start(chapter: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", chapter, "hello"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=folder,
        env={**clean_environment(str(folder)), **environment},
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_a_chapter_runs_by_itself_in_an_empty_folder(tmp_path):
    """With the offline model beside it, it needs nothing; without, it needs a key or an address, and says so."""
    name = CHAPTERS[-1]
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / name, tmp_path / name, ignore=without)
    alone = start(name, tmp_path)
    assert alone.returncode == 1 and "ANTHROPIC_API_KEY" in alone.stderr and "Traceback" not in alone.stderr
    with offline_model.start() as server:
        connected = start(name, tmp_path, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="x", ANTHROPIC_MODEL="claude-sonnet-5-5")
        assert connected.returncode == 0 and "offline" in connected.stdout, connected.stderr
        assert server.requests[-1].body["model"] == "claude-sonnet-5-5"
    shutil.copytree(ROOT / "offline_model", tmp_path / "offline_model", ignore=without)
    beside = start(name, tmp_path)
    assert beside.returncode == 0 and "offline" in beside.stdout, beside.stderr
