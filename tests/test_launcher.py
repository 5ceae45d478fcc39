"""The launcher: it finds chapters, makes the environment, hands over, shows differences, and carries a fix forward.

It takes its root from where it lies, so it is tried in small made-up courses. Nothing is downloaded.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

CHAPTER = """
import os, sys
print("args", sys.argv[1:])
print("cwd", os.getcwd())
print("pid", os.getpid())
print("stdin", sys.stdin.read())
sys.exit(7)
"""
TOOLS = "first = 1\n\n\nsecond = 2\n\n\nthird = 3\n"
# What a machine may have set that would change what these tests see.
SETTINGS = re.compile(r"PIP_|PYTHON|ANTHROPIC_|GIT_|(MODEL_ID|FALLBACK_MODEL)$|VIRTUAL_ENV$")
GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


class Course:
    """A made-up course, and the launcher in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("learn.py", (ROOT / "learn.py").read_text(encoding="utf-8"))
        self.write("requirements.txt", "")
        self.write("tests/requirements.txt", "pytest-xdist\n")
        for name, modules in {
            "s01_agent_loop": {"loop.py": "a = 1\n"},
            "s02_tool_use": {"loop.py": "a = 1\n", "tools.py": TOOLS},
            "s04_hooks": {"loop.py": "a = 2\nb = 3\n", "tools.py": TOOLS, "hooks.py": "# ein H\u00e4kchen \u2713\n"},
            "s05_todo_write": {"loop.py": "a = 2\nb = 3\n", "tools.py": TOOLS + "\n\nfourth = 4\n"},
        }.items():
            self.write(f"{name}/__main__.py", CHAPTER)
            self.write(f"{name}/README.md", f"# {name}\n\n> The **idea** of `{name[4:]}` \u2192 here.\n\nMore.\n")
            self.write(f"{name}/__pycache__/loop.cpython-311.pyc", "bytecode")
            for module, text in modules.items():
                self.write(f"{name}/{module}", text)
        self.write("s09_left_over/__pycache__/x.pyc", "no chapter")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def start(
        self, *arguments: str, cwd: Path | None = None, encoding: str = "utf-8", **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``learn.py`` and return how it went, with its process id."""
        process = subprocess.Popen(
            [sys.executable, str(self.folder / "learn.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.folder,
            env=environment(PYTHONIOENCODING=encoding, **settings),
        )
        printed = [stream.decode(encoding, "replace") for stream in process.communicate(b"typed")]
        out, err = (text.replace("\r\n", "\n") for text in printed)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        done.pid = process.pid
        return done

    def load(self):
        """Return the course's launcher as a module."""
        spec = importlib.util.spec_from_file_location("learn", self.folder / "learn.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def furnish(self) -> None:
        """Make a .venv that is fit, without pip, which would take seconds."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.folder / ".venv")], check=True)
        learn = self.load()
        learn.write(learn.MADE, learn.fitting())
        for name in ("requirements.txt", "tests/requirements.txt"):
            learn.write(learn.installed(name), learn.read(name))

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, env=environment(), capture_output=True, check=True)

    def commit(self) -> None:
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of this process without what would change the result, plus ``settings``."""
    kept = {name: value for name, value in os.environ.items() if not SETTINGS.match(name)}
    return {**kept, **GIT, **settings}


def make_wheel(folder: Path) -> None:
    """Write a package that pip can install, ``hello``."""
    facts = "hello-1.dist-info"
    with zipfile.ZipFile(folder / "hello-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("hello.py", "")
        wheel.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1\n")
        wheel.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{facts}/RECORD", "".join(f"{name},,\n" for name in [*wheel.namelist(), f"{facts}/RECORD"]))


@pytest.fixture
def course(tmp_path) -> Course:
    return Course(tmp_path / "Kurs \u00fcber \u8bfe")


# Finding one's way


@pytest.mark.parametrize("name", "s05 5 05 S05 s5 s05_todo_write s05_todo_write/ ./s05_todo_write todo_write".split())
def test_a_chapter_is_found_by_number_and_name(course, name):
    assert course.load().find(name) == "s05_todo_write"


def test_an_unknown_chapter_is_answered_with_near_ones(course):
    done = course.start("run", "todowrite")
    assert done.returncode == 2 and "todo_write" in done.stderr and "Traceback" not in done.stderr
    assert course.start("run", "s03").returncode == 2
    assert course.start("run", "s09").returncode == 2, "a folder without a program is no chapter"


def test_the_list_shows_ideas_milestones_and_the_next_step(course):
    done = course.start()
    assert done.returncode == 0 and done.stderr == ""
    assert "\u2605 s05_todo_write           The idea of todo_write \u2192 here.\n" in done.stdout
    assert "  s04_hooks                The idea of hooks \u2192 here.\n" in done.stdout
    assert "s07, s11, s15, s17 still to come" in done.stdout and "s09" not in done.stdout
    assert "learn.py run s01" in done.stdout
    assert course.start("list").stdout == done.stdout


def test_the_list_tells_on_request_how_much_there_is_to_read(course):
    lesson = course.folder / "s05_todo_write" / "README.md"
    lesson.write_text("# s05\n\n> One idea.\n\n" + "word " * 1_000, encoding="utf-8")
    for module in ("todo.py", "more.py"):
        (course.folder / "s05_todo_write" / module).write_text("x = 1\n" * 30, encoding="utf-8")
    done = course.start("list", "--verbose")
    assert done.returncode == 0 and "1,005 words, 5 min; new: " in done.stdout
    row = done.stdout.partition("1,005 words, 5 min; new: ")[2].splitlines()[0]
    before = set((course.folder / "s04_hooks").glob("*.py"))
    names = {path.name for path in (course.folder / "s05_todo_write").glob("*.py")} - {path.name for path in before}
    assert row.startswith(f"{len(names)} modules, ") and "todo.py" in names
    assert "words" not in course.start("list").stdout


def test_a_chapter_without_a_lesson_is_listed_too(course):
    (course.folder / "s02_tool_use" / "README.md").unlink()
    assert "\n  s02_tool_use\n" in course.start().stdout


@pytest.mark.parametrize("encoding", ["cp1252", "gbk", "ascii"])
def test_no_encoding_stops_it(course, encoding):
    for arguments in (["list"], ["doctor"], ["--help"], ["diff", "s04"], ["run", "\u2605"]):
        done = course.start(*arguments, encoding=encoding, PATH="")
        assert "Traceback" not in done.stderr
    star = "\u2605" if encoding == "gbk" else "*"
    assert f"{star} s05_todo_write" in course.start(encoding=encoding).stdout


def test_a_mistyped_command_is_answered_with_the_near_one(course):
    for typed, meant in {"rn": "run", "dif": "diff", "docter": "doctor", "s05": "run s05", "5x": "--help"}.items():
        done = course.start(typed)
        assert done.returncode == 2 and meant in done.stderr and done.stdout == ""
    for typed in ("diff s05 --stats", "diff", "diff s01 --milestones", "run", "run --keep s05", "carry s02", "list x"):
        done = course.start(*typed.split())
        assert done.returncode == 2 and done.stderr.startswith("learn.py: ") and done.stdout == ""


def test_help_names_every_command(course):
    text = course.start("--help").stdout
    assert text == course.start("help").stdout == course.start("diff", "--help").stdout
    assert all(f"learn.py {name} " in text for name in ("run", "diff", "test", "doctor", "carry"))


def test_a_reader_who_has_seen_enough_is_no_fault(course):
    if os.name == "nt":
        return  # a closed pipe looks different there
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, str(course.folder / "learn.py")]
    done = subprocess.run(command, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.stderr == b""


def test_an_old_python_gets_one_sentence(monkeypatch):
    text = (ROOT / "learn.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 6))
    for version in ((3, 6, 15), (3, 9, 18)):
        monkeypatch.setattr(sys, "version_info", version)
        with pytest.raises(SystemExit) as stopped:
            exec(compile(text, "learn.py", "exec"), {"__name__": "__main__", "__file__": "learn.py"})
        assert f"This is Python 3.{version[1]} and the course needs 3.10 or newer" in str(stopped.value)


# Handing over


def test_run_hands_over_everything(course):
    course.furnish()
    done = course.start("run", "5", "a prompt", "--keep", "--", "--x", "--")
    python = os.path.join(".venv", "Scripts" if os.name == "nt" else "bin", "python")
    assert done.stderr.startswith(f"$ {python}") and done.stderr.count("\n") == 1, "the command and nothing else"
    assert "-m s05_todo_write" in done.stderr and "a prompt" in done.stderr
    assert f"args {['a prompt', '--keep', '--x', '--']}\n" in done.stdout
    assert "stdin typed" in done.stdout
    assert done.returncode == 7
    if os.name != "nt":
        assert f"pid {done.pid}\n" in done.stdout, "nothing of the launcher is left, so Ctrl-C is the chapter's alone"


def test_a_chapter_starts_in_the_course_and_paths_still_mean_what_they_meant(course):
    course.furnish()
    away = course.folder.parent / "elsewhere"
    (away / "w").mkdir(parents=True)
    done = course.start("run", "s05", "--workdir", "w", "--workdir=w", "w", cwd=away)
    inside = str(away / "w")
    assert f"args {['--workdir', inside, '--workdir=' + inside, 'w']}\n" in done.stdout
    assert f"cwd {course.folder}\n" in done.stdout
    assert done.stderr.startswith("$ cd ")
    assert f"args {['--workdir', 'w']}" in course.start("run", "s05", "--workdir", "w").stdout


def test_an_interrupted_command_ends_by_itself_and_then_so_do_we(course):
    if os.name == "nt":
        return  # nothing can press Ctrl-C there for one process alone
    learn = course.load()
    press = [sys.executable, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGINT); print('ended')"]
    assert learn.attend(press, str(course.folder), stdout=subprocess.PIPE) == (0, b"ended\n", True)
    with pytest.raises(KeyboardInterrupt):
        learn.execute(press, "It failed.")
    with pytest.raises(learn.Fault, match="It failed.\n    no"):
        learn.execute([sys.executable, "-c", "raise SystemExit('no')"], "It failed.")


def test_the_tests_run_side_by_side_only_when_all_are_wanted(course):
    course.furnish()
    course.write("pytest.py", CHAPTER)  # goes before the real one
    many = ["-n", "auto", "--maxprocesses=8"]
    for arguments, handed_on in {
        (): many,
        ("-q", "-x"): [*many, "-q", "-x"],
        ("-k", "todo"): ["-k", "todo"],
        ("-n0",): ["-n0"],
        ("--pdb",): ["--pdb"],
        ("tests/test_todo.py",): ["tests/test_todo.py"],
    }.items():
        done = course.start("test", *arguments)
        assert f"args {handed_on}\n" in done.stdout and done.returncode == 7
    here = str(course.folder / "tests" / "requirements.txt") + "::x"
    done = course.start("test", "requirements.txt::x", cwd=course.folder / "tests")
    assert f"args {[here]}\n" in done.stdout


# The environment


def test_the_environment_is_made_once_and_mended_when_it_has_to_be(course):
    astray = str(course.folder.parent / "astray")
    settings = {"PIP_TARGET": astray, "PIP_PREFIX": astray, "PIP_ROOT": astray, "PIP_USER": "1", "PIP_DRY_RUN": "1"}
    settings |= {"PIP_NO_INDEX": "1", "VIRTUAL_ENV": astray}
    make_wheel(course.folder.parent)
    course.write("requirements.txt", f"--find-links {course.folder.parent.as_uri()}\nhello\n")
    course.write("s05_todo_write/__main__.py", "import hello\nprint(hello.__file__)\n")

    done = course.start("run", "s05", **settings)
    assert done.returncode == 0, done.stderr
    assert "There is no .venv yet" in done.stderr and "-m venv .venv\n" in done.stderr
    assert "-m pip install" in done.stderr and "-r requirements.txt\n" in done.stderr
    assert str(course.folder / ".venv") in done.stdout, "the package went where it belongs"
    assert course.start("run", "s05").stderr.count("\n") == 1, "nothing is done twice"

    course.write("requirements.txt", "no-such-package-as-this\n")
    done = course.start("run", "s05", **settings)
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    assert "check the network" in done.stderr and "no-such-package-as-this" in done.stderr
    assert not course.load().is_installed("requirements.txt"), "a failed install is not taken for a good one"


def test_an_unfit_environment_is_seen(course, monkeypatch):
    learn = course.load()
    assert not learn.is_made()
    course.furnish()
    assert learn.is_made() and learn.is_installed("requirements.txt")
    commands = []
    monkeypatch.setattr(learn, "execute", lambda command, complaint: commands.append(command))
    monkeypatch.setattr(learn, "write", lambda path, content: None)

    (course.folder / "requirements.txt").write_text("other\n", encoding="utf-8")
    assert learn.is_made() and not learn.is_installed("requirements.txt")
    made = Path(learn.MADE).read_text(encoding="utf-8")
    Path(learn.MADE).write_text(made.replace("Kurs", "Moved"), encoding="utf-8")
    assert not learn.is_made()
    learn.make_venv()
    assert "--clear" in commands.pop(), "one that was moved is made anew"
    Path(learn.MADE).unlink()
    assert not learn.is_made()
    learn.make_venv()
    assert "--clear" not in commands.pop(), "one that somebody else made, or that is not finished, is completed"
    Path(learn.PYTHON).unlink()
    learn.make_venv()
    assert "--clear" in commands.pop()


def test_what_is_missing_to_make_an_environment_is_said(course, monkeypatch):
    learn = course.load()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    with pytest.raises(learn.Fault, match="apt install python3-venv"):
        learn.make_venv()
    lines = [f"{what}: {cure}" for well, what, cure in learn.examine() if not well]
    assert len(lines) == 1 and "apt install python3-venv" in lines[0]


def test_a_python_that_does_not_start_is_said(course):
    course.furnish()
    python = Path(course.load().PYTHON)
    python.unlink()
    python.write_bytes(b"no program")
    python.chmod(0o755)
    done = course.start("run", "s05")
    assert done.returncode == 1 and "remove the folder .venv" in done.stderr and "Traceback" not in done.stderr


# Differences


def test_the_difference_is_counted_and_shown(course):
    course.write("s05_todo_write/todo.py", "x = 1\n")
    done = course.start("diff", "s05")
    first, *rest = done.stdout.splitlines()
    assert first == "s04_hooks -> s05_todo_write: 1 new, 1 changed, 1 gone, +4 -1 lines"
    assert rest[:3] == ["  gone     hooks.py                 +0 -1", "  new      todo.py                  +1 -0",
                        "  changed  tools.py                 +3 -0"]
    assert "+fourth = 4" in rest and "+x = 1" in rest and "README" not in done.stdout and "pyc" not in done.stdout
    assert done.returncode == 0 and "$ git diff --no-index" in done.stderr
    assert course.start("diff", "s05", "--stat").stdout.splitlines() == [first, *rest[:3]]
    assert "changed  README.md" in course.start("diff", "s05", "--all", "--stat").stdout


def test_the_difference_is_shown_without_git_too(course):
    with_git, without = course.start("diff", "s04"), course.start("diff", "s04", PATH="")

    def lines(text: str) -> list[str]:
        return sorted(line for line in text.splitlines() if re.match(r"[ +-](?!\+\+ |-- )", line))

    assert "git" in with_git.stderr and without.stderr == ""
    assert lines(with_git.stdout) == lines(without.stdout)
    assert "+# ein H\u00e4kchen \u2713" in without.stdout.splitlines()


def test_two_chapters_the_first_chapter_and_the_milestones(course):
    done = course.start("diff", "s01", "5", "--stat")
    assert done.stdout.startswith("s01_agent_loop -> s05_todo_write: 1 new, 1 changed, ")
    done = course.start("diff", "s01")
    assert done.stdout.startswith("nothing -> s01_agent_loop: 2 new, +8 -0 lines\n")
    assert "It is the first" in done.stdout and "+a = 1" in done.stdout.splitlines()
    assert course.start("diff", "s02", "s02").stdout == "s02_tool_use -> s02_tool_use: +0 -0 lines\n"
    course.write("s07_skill_loading/__main__.py", "")
    done = course.start("diff", "--milestones", "--stat")
    steps = [line.split(":")[0] for line in done.stdout.splitlines() if "->" in line]
    assert steps == ["nothing -> s05_todo_write", "s05_todo_write -> s07_skill_loading"]


# The doctor


def test_the_doctor_finds_a_sound_machine_sound(course):
    done = course.start("doctor")
    assert done.returncode == 0, done.stdout
    assert "FAULT" not in done.stdout and "the offline model answers" in done.stdout and done.stderr == ""
    assert not (course.folder / ".venv").exists(), "it only looks"
    assert "PYTHONUTF8" not in done.stdout and "PYTHONUTF8" in course.start("doctor", encoding="cp1252").stdout


def test_the_doctor_says_whether_there_is_a_wall(course):
    """As the newest chapter that has one finds it out; without one nothing is broken."""
    assert "--sandbox" not in course.start("doctor").stdout
    for text, told in (("", "commands can be run behind a wall here"), ("It needs x: install x.",) * 2):
        course.write("s05_todo_write/sandbox.py", f"def available():\n    return {text!r}\n")
        done = course.start("doctor", PYTHONDONTWRITEBYTECODE="1")
        assert f"ok     --sandbox: {told}\n" in done.stdout and done.returncode == 0


def test_the_doctor_says_who_answers_and_shows_no_secret(course):
    course.write(".env", "\ufeff# ANTHROPIC_MODEL=none\nexport ANTHROPIC_API_KEY = 'sk-secret'  # mine\n"
                         "ANTHROPIC_BASE_URL=https://me:secret@example.org/anthropic # theirs\n")
    done = course.start("doctor")
    assert "ANTHROPIC_API_KEY is set in .env" in done.stdout
    assert "the default model will be asked at https://example.org/anthropic (set ANTHROPIC_MODEL" in done.stdout
    assert "secret" not in done.stdout + done.stderr and done.returncode == 0
    settings = {"ANTHROPIC_API_KEY": "sk-secret", "MODEL_ID": "m-1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    done = course.start("doctor", **settings)
    assert "ANTHROPIC_API_KEY is set in the environment" in done.stdout
    assert "m-1 will be asked at http://127.0.0.1:1\n" in done.stdout and "secret" not in done.stdout
    course.write(".env", "ANTHROPIC_API_KEY=\n")
    assert "the offline model answers" in course.start("doctor").stdout, "a blank is not set"


@pytest.mark.parametrize(("text", "cure"), [
    ("ANTHROPIC_BASE_URL=https://example.org/v1/\n", "to end before /v1"),
    ("ANTHROPIC_BASE_URL=sk-secret\n", "it has to begin with https://"),
    ("ANTHROPIC_API_KEY=sk secret\n", "copy it again"),
    ("A\0N\0T\0", "save it anew"),
])
def test_the_doctor_names_the_cure(course, text, cure):
    course.write(".env", text)
    done = course.start("doctor")
    assert done.returncode == 1 and "secret" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("FAULT") and cure in line]
    assert "To be mended: 1." in done.stdout


# Carrying a fix forward


def test_a_fix_is_carried_through_the_later_chapters(course):
    course.write("s05_todo_write/tools.py", TOOLS + "\n\nfourth = 4\n")
    course.commit()
    course.write("s02_tool_use/tools.py", TOOLS.replace("first = 1", "first = 10"))
    done = course.start("carry", "s02", "tools.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "s04_hooks/tools.py: changed\ns05_todo_write/tools.py: changed\n"
    assert course.read("s04_hooks/tools.py") == course.read("s02_tool_use/tools.py")
    assert course.read("s05_todo_write/tools.py") == TOOLS.replace("first = 1", "first = 10") + "\n\nfourth = 4\n"
    assert "$ git merge-file" in done.stderr
    assert course.start("carry", "s02", "tools.py").stdout.count(": unchanged\n") == 2, "a second time does no harm"


def test_a_conflict_stops_it_and_says_how_to_go_on(course):
    course.write("s07_skill_loading/__main__.py", "")
    course.write("s07_skill_loading/tools.py", TOOLS)
    course.write("s05_todo_write/tools.py", TOOLS.replace("first = 1", "first = 5"))
    course.commit()
    course.write("s02_tool_use/tools.py", TOOLS.replace("first = 1", "first = 10"))
    done = course.start("carry", "s02", "tools.py")
    assert done.returncode == 1 and done.stdout == "s04_hooks/tools.py: changed\n"
    assert "s05_todo_write/tools.py has a conflict" in done.stderr and "carry s05 tools.py" in done.stderr
    assert "<<<<<<< s05_todo_write/tools.py" in course.read("s05_todo_write/tools.py")
    assert course.read("s07_skill_loading/tools.py") == TOOLS
    done = course.start("carry", "s02", "tools.py")
    assert done.returncode == 1 and "s05_todo_write/tools.py has marks of a conflict" in done.stderr

    course.write("s05_todo_write/tools.py", TOOLS.replace("first = 1", "first = 15"))
    done = course.start("carry", "s05", "tools.py")
    assert done.returncode == 1 and "s07_skill_loading/tools.py has a conflict" in done.stderr


def test_nothing_is_carried_that_is_not_there(course):
    assert "not in the last commit" in course.start("carry", "s02", "tools.py").stderr
    course.commit()
    assert "as it was committed" in course.start("carry", "s02", "tools.py").stderr
    assert course.start("carry", "s01", "tools.py").returncode == 2
    assert "needs git" in course.start("carry", "s02", "tools.py", PATH="").stderr


# The files beside it


def test_the_example_of_settings_changes_nothing_when_it_is_copied():
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []
    named = re.search(r"^# ANTHROPIC_MODEL=(\S+)$", "\n".join(lines), re.MULTILINE)[1]
    for path in ROOT.glob("s*_*/model.py"):
        assert f'DEFAULT_MODEL = "{named}"' in path.read_text(encoding="utf-8")


def test_others_run_the_same_tests():
    assert "exec python3 learn.py test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "run: python learn.py test\n" in (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert "addopts" not in (ROOT / "pytest.ini").read_text(encoding="utf-8"), "plain pytest needs no plugin"
