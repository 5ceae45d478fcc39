"""What a lesson says is true: its code stands in the files, its output is real, its commands run, its links lead on."""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import CHAPTERS
from conftest import ROOT
from lessons import clean_environment

import offline_model

MECHANISM = "loop"

PAGES = [f"{name}/README.md" for name in CHAPTERS] + ["README.md", "CONTRIBUTING.md", "WORKSHOP.md", "offline_model/README.md"]
FENCE = re.compile(r"^```(\S*)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = [
    "The problem",
    "The idea",
    "The code",
    "Run it",
    "Experiments",
    "Practice",
    "How real systems do it",
    "What this leaves out",
    "Questions",
]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Return the fenced blocks: language, what stands behind it, body."""
    return FENCE.findall(text_of(page))


def stands_in(excerpt: str, text: str) -> bool:
    """Whether the lines of ``excerpt`` stand in ``text`` as they are; a line "..." leaves out some in between."""
    lines = [line.strip() for line in text.splitlines()]
    place = 0
    for part in re.split(r"^\s*\.\.\.\n", excerpt, flags=re.MULTILINE):
        wanted = [line.strip() for line in part.splitlines()]
        while wanted and not wanted[-1]:
            wanted.pop()
        while wanted and not wanted[0]:
            wanted.pop(0)
        starts = [n for n in range(place, len(lines) - len(wanted) + 1) if lines[n : n + len(wanted)] == wanted]
        if not starts:
            return False
        place = starts[0] + len(wanted)
    return True


def test_the_check_itself_can_fail():
    assert FENCE.findall("x\n```sh\nls\n```\ny\n```python a.py\nb\n```\n") == [("sh", "", "ls\n"), ("python", "a.py", "b\n")]
    assert len(commands()) > 10 and any(language == "python" for language, _, _ in blocks(PAGES[0]))
    assert stands_in("b\n...\nd\n", "a\nb\nc\nd")
    assert not stands_in("d\n...\nb\n", "a\nb\nc\nd")
    assert not stands_in("b\nd\n", "a\nb\nc\nd")


@pytest.mark.parametrize("page", PAGES)
def test_excerpts_stand_in_the_files_they_name(page):
    for language, name, body in blocks(page):
        if language in ("python", "text"):
            assert name, f"a {language} block names no file:\n{body}"
            file = (ROOT / page).parent / name
            assert file.exists(), name
            assert stands_in(body, file.read_text(encoding="utf-8")), f"not in {name}:\n{body}"


def test_the_conversation_that_the_first_lesson_shows_is_real(chapter):
    shown = next(json.loads(body) for kind, name, body in blocks(f"{CHAPTERS[0]}/README.md") if name == "conversation")
    offline = offline_model.start(scenario=CHAPTERS[0])
    chapter.workspace = offline_model.make_workspace()
    agent = chapter.agent()
    agent.model = chapter.load("model").Model(offline_model.MODEL, offline.url, "x", offline)
    chapter.run(agent, offline.lines[0])
    messages = agent.history.messages[: len(shown)]
    messages[0]["content"] = messages[0]["content"][:1]  # a later chapter adds a note with the date
    text = re.sub(r"toolu_\w+", "toolu_1", json.dumps(messages))
    offline.close()
    shutil.rmtree(chapter.workspace)
    assert json.loads(text) == shown


@pytest.mark.parametrize("page", PAGES)
def test_a_block_is_of_a_kind_that_is_checked(page):
    assert {language for language, _, _ in blocks(page)} <= {"python", "text", "sh", "mermaid", "json"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", text_of(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, target


@functools.cache
def file_names() -> set[str]:
    return {path.name for path in ROOT.glob("**/*.py")}


@pytest.mark.parametrize("page", PAGES)
def test_named_files_and_names_exist(page):
    """A `file.py` or a `CONSTANT` that a lesson quotes is there."""
    folder = (ROOT / page).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    for name in set(re.findall(r"`(\w+\.py)`", text_of(page))):
        assert name in file_names(), name
    for file, name in re.findall(r"`(tests/\w+\.py)(?:::(\w+))?`", text_of(page)):
        assert not name or re.search(rf"^def {name}\(", text_of(file), re.MULTILINE), f"{file} has no {name}"
    if page.startswith("s"):
        for name in set(re.findall(r"`([A-Z][A-Z_]{3,})`", text_of(page))):
            assert re.search(rf"\b{name}\b", code), name


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_lesson_has_its_parts_in_order(name):
    headings = re.findall(r"^## (.*)$", text_of(f"{name}/README.md"), re.MULTILINE)
    assert [heading for heading in headings if heading in SECTIONS] == SECTIONS
    assert re.match(rf"# {name[:3]} · .+\n\n> .+\n\n\| \| file \| why \|\n", text_of(f"{name}/README.md"))
    assert text_of(f"{name}/README.md").count("<details>") >= 2


def commands() -> list[str]:
    found = []
    for page in PAGES:
        for language, _, body in blocks(page):
            if language == "sh":
                found += [line.split("  #")[0].strip() for line in body.splitlines() if line.strip()]
    return sorted(set(found))


def plays_a_lesson(command: str) -> bool:
    """Whether it plays a lesson, as `tests/test_scenarios.py` does for each chapter."""
    chapter = re.fullmatch(r"python3 learn\.py run (s\d\d)|python -m (s\d\d_\w+)", command)
    return chapter is not None and any(name.startswith(chapter[1] or chapter[2]) for name in CHAPTERS)


def runs_quickly(command: str) -> bool:
    elsewhere = "--practice" in command or "--workdir ../notes" in command  # the last are tried below
    return not plays_a_lesson(command) and not elsewhere and re.match(r"python3 learn\.py (list|diff|run|doctor)|python -m s\d\d|python3 learn\.py$", command) is not None


@pytest.mark.parametrize("command", [command for command in commands() if runs_quickly(command)])
def test_a_command_that_is_shown_runs(command, tmp_path):
    words = shlex.split(command)
    assert words[0] in ("python3", "python")
    if words[1:3] == ["learn.py", "run"] and Path(sys.prefix) != ROOT / ".venv":
        # Elsewhere it would make .venv first; what it does then is tested with the launcher.
        words[1:4] = ["-m", next(name for name in CHAPTERS if name.startswith(words[3]))]
    done = subprocess.run(
        [sys.executable, *words[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env=clean_environment(str(tmp_path)),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")


def test_other_commands_are_known():
    """The rest sets up, tests, or writes: each is tried by another test or by CI itself."""
    assert any(map(plays_a_lesson, commands()))
    known = r"timeout -s KILL |python3 learn\.py run s12 --workdir \.\./notes |python3 learn\.py (test|carry|practice|check|diff s05 --practice)|python3 -m pip download |export |pip install -r |pytest|(\.venv/bin/)?python tests/|cp |git |python -m offline_model"
    assert [command for command in commands() if not (runs_quickly(command) or plays_a_lesson(command)) and not re.match(known, command)] == []


def test_the_table_of_plan_mode_is_what_its_script_prints():
    """If it fails: python tests/benchmarks/plan_mode_cache.py prints the table as it is now."""
    assert importlib.import_module("benchmarks.plan_mode_cache").table() in text_of("s06_plan_mode/README.md")


def test_the_real_end_that_the_lesson_shows(tmp_path):
    """Its three commands: the program is killed in the middle of a call, and the next one says what is known of it."""
    if os.name != "posix":
        return
    pattern = r'run s12 --workdir \.\./notes (?:--continue )?"(.+)"$'
    prompt, question = re.findall(pattern, text_of("s12_session_log/README.md"), re.MULTILINE)
    shutil.copytree(ROOT / "offline_model" / "sample_project", tmp_path / "notes")
    start = [sys.executable, "-m", "s12_session_log", "--workdir", str(tmp_path / "notes")]
    options = {"stdin": subprocess.DEVNULL, "cwd": ROOT, "env": clean_environment(str(tmp_path))}

    program = subprocess.Popen([*start, prompt], stdout=subprocess.DEVNULL, **options)
    until = time.monotonic() + 60
    while not any('"begun"' in log.read_text("utf-8") for log in tmp_path.glob("notes/.harness/sessions/*.jsonl")):
        assert time.monotonic() < until and program.poll() is None
        time.sleep(0.05)
    children = []
    while not children:
        assert time.monotonic() < until
        children = subprocess.run(["pgrep", "-P", str(program.pid)], capture_output=True, check=False).stdout.split()
    program.kill()
    program.wait()
    for child in children:  # in the lesson it goes on by itself
        os.killpg(int(child), signal.SIGKILL)

    def asked():
        again = [*start, "--continue", question]
        return subprocess.check_output(again, stderr=subprocess.STDOUT, timeout=60, **options).decode("utf-8")

    first = asked()
    assert "is back, 0 runs; the last one was cut off" in first and "the report was not started. I look." in first
    assert "There is neither a check.txt nor a report." in first
    (tmp_path / "notes" / "check.txt").write_text("fine\n", "utf-8")
    assert "the check went on without the program" in asked()
