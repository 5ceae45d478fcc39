"""The bash tool: whatever a command does, the model gets a bounded answer that tells how it ended.

The commands only print, sleep, or touch a canary file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

POSIX = os.name == "posix"
LONG = 60  # seconds that a command sleeps that must be ended; no test waits for it
SOON = 20  # seconds after which a test gives up waiting for what takes milliseconds
UP = "exec 3>alive; echo up >&3"  # from here on this shell and its children hold the pipe `alive` open


@pytest.fixture
def shell(load, tmp_path):
    return load("shell").Shell(tmp_path)


def until(condition):
    """Wait until ``condition()`` holds."""
    give_up = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.005)


class Alive:
    """A named pipe that commands hold open: it tells when the last of them has gone, zombies not counted."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "alive")
        self.pipe = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
        self.said = b""

    def read(self) -> bool:
        """Read what was written. Returns whether somebody still holds the pipe."""
        try:
            while data := os.read(self.pipe, 1000):
                self.said += data
        except BlockingIOError:
            return True
        return False

    def is_up(self, processes: int = 1) -> bool:
        self.read()
        return self.said.count(b"up\n") == processes

    def all_gone(self) -> bool:
        return not self.read()


@pytest.fixture
def alive(tmp_path):
    alive = Alive(tmp_path)
    yield alive
    os.close(alive.pipe)


def printing(code: str) -> str:
    """Return a command in which Python writes the bytes of the expression ``code``."""
    return f'python -c "import os, sys; sys.stdout.buffer.write({code})"'


# How it ended


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("echo one", "one\n[exit status 0]"),
        ("printf one", "one\n[exit status 0]"),
        ("exit 0", "[exit status 0]"),
        ("printf '\\n'", "\n[exit status 0]"),
        ("echo oops >&2; exit 3", "oops\n[exit status 3]"),
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree\n[exit status 0]"),
        ("no_such_command_here 2>/dev/null", "[exit status 127]"),
        ("echo '[exit status 0]'; exit 1", "[exit status 0]\n[exit status 1]"),
    ],
)
def test_the_answer_ends_with_the_exit_status(shell, command, answer):
    assert str(shell.run(command)) == answer


def test_a_command_ended_by_a_signal_has_not_succeeded(shell):
    finished = shell.run("echo one; kill -9 $$")
    assert finished.exit_status != 0
    assert str(finished) == f"one\n[exit status {finished.exit_status}]"
    assert not finished.timed_out


# What it printed


def test_a_hundred_megabytes_are_kept_in_little_memory(load, shell):
    module = load("shell")
    tracemalloc.start()
    try:
        finished = shell.run("yes | head -c 100000000")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    missing = 100_000_000 - module.HEAD - module.TAIL
    assert finished.output == "y\n" * (module.HEAD // 2) + f"\n[{missing} characters left out]\n" + "y\n" * (module.TAIL // 2)
    assert finished.exit_status == 0


@pytest.mark.parametrize("beyond", [-1, 0, 1, 70_000])
def test_head_and_tail_are_kept_to_the_character(load, shell, beyond):
    module = load("shell")
    length = module.HEAD + module.TAIL + beyond
    whole = "".join(chr(0x20AC + i % 97) for i in range(length))  # three bytes each
    finished = shell.run(printing(f"''.join(chr(0x20AC + i % 97) for i in range({length})).encode()"))
    if beyond <= 0:
        assert finished.output == whole
    else:
        gap = f"\n[{beyond} characters left out]\n"
        assert finished.output == whole[: module.HEAD] + gap + whole[-module.TAIL :]


def test_bytes_that_are_no_text_are_replaced(shell):
    assert shell.run(printing(r"b'a\xff\xfeb\xc3'")).output == "a\ufffd\ufffdb\ufffd"


def test_a_character_may_arrive_in_pieces(shell):
    slowly = "import os, time; [(os.write(1, bytes([b])), time.sleep(0.005)) for b in '€é😀'.encode()]"
    assert shell.run(f'python -c "{slowly}"').output == "€é😀"


def test_nul_in_the_output_is_kept(shell):
    assert shell.run(printing(r"b'a\0b'")).output == "a\0b"


# What it runs in


def test_it_runs_in_the_workspace(shell, tmp_path):
    assert Path(shell.run(printing("os.getcwd().encode()")).output).samefile(tmp_path)
    shell.run("touch canary")
    assert (tmp_path / "canary").exists()


def test_nothing_can_be_typed_into_it(shell):
    kept = os.dup(0)
    reading, writing = os.pipe()
    try:
        os.dup2(reading, 0)  # somebody types while the command runs
        os.write(writing, b"meant for the harness\n")
        nothing_can_be_typed_into(shell)
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


def nothing_can_be_typed_into(shell):
    assert shell.run("read line || echo 'no input'", timeout=SOON).output == "no input\n"
    assert shell.run(printing("repr(sys.stdin.read()).encode()"), timeout=SOON).output == "''"


def test_it_is_not_the_persons_terminal(shell):
    finished = shell.run(printing("repr([os.isatty(n) for n in range(3)]).encode()"))
    assert finished.output == "[False, False, False]"


def test_no_key_is_in_its_environment(shell, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-1")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "secret-2")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x: secret-3")
    monkeypatch.setenv("ANOTHER_SETTING", "kept")
    output = shell.run(printing("repr(sorted(os.environ.items())).encode()")).output
    assert "ANTHROPIC" not in output and "secret" not in output
    assert "('ANOTHER_SETTING', 'kept')" in output
    assert os.environ["ANTHROPIC_API_KEY"] == "secret-1"


def test_python_is_the_one_that_runs_the_harness(shell, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join(os.environ["PATH"].split(os.pathsep)[1:]))
    assert shell.run(printing("sys.prefix.encode()")).output == sys.prefix


# What cannot be started


def test_a_command_with_a_nul_is_refused(shell, tmp_path):
    """Running it without the NUL would be another command than the one that was looked at."""
    with pytest.raises(OSError, match="NUL.*: ") as caught:
        shell.run("to\0uch canary")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "canary").exists()


def test_a_command_of_a_megabyte_is_refused_with_the_cure(shell):
    with pytest.raises(OSError, match="bytes.*: write .*file"):
        shell.run("echo " + "x" * 1_000_000)


def test_a_long_command_runs(load, shell):
    longest = load("shell").LONGEST
    assert shell.run("printf %s " + "x" * (longest - 10)).output.endswith("x" * 1000)
    with pytest.raises(OSError, match="bytes"):
        shell.run("echo " + "é" * (longest // 2))


def test_a_missing_bash_is_said_with_the_cure(load, shell, monkeypatch):
    monkeypatch.setattr(load("shell").shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="no bash.*: install"):
        shell.run("echo one")


def test_a_missing_folder_is_said(shell, tmp_path):
    shell.folder = tmp_path / "gone"
    with pytest.raises(OSError, match="gone"):
        shell.run("echo one")
    assert not shell.running


@pytest.mark.parametrize("git", ["cmd/git.exe", "bin/git.exe", "mingw64/bin/git.exe"])
def test_on_windows_it_is_the_bash_of_git(load, monkeypatch, tmp_path, git):
    module = load("shell")
    monkeypatch.setattr(module, "os", SimpleNamespace(name="nt"))
    monkeypatch.setattr(module.shutil, "which", {"bash": "the bash of WSL", "git": str(tmp_path / "Git" / git)}.get)
    with pytest.raises(OSError, match="Git for Windows"):
        module.find_bash()
    (tmp_path / "Git" / "bin").mkdir(parents=True)
    (tmp_path / "Git" / "bin" / "bash.exe").touch()
    assert Path(module.find_bash()) == tmp_path / "Git" / "bin" / "bash.exe"


# How it is ended


def test_a_time_limit_ends_the_command_and_all_it_started(shell, alive, tmp_path):
    if not POSIX:
        return  # Windows has no named pipe of this kind to watch
    stubborn = f"trap '' TERM INT HUP; {UP}"
    started = time.monotonic()
    finished = shell.run(f"({stubborn}; sleep {LONG}; touch canary) & {stubborn}; echo working; sleep {LONG}; touch canary", 0.4)
    assert 0.4 <= time.monotonic() - started < SOON
    assert finished.timed_out
    assert str(finished).startswith("working\n[") and str(finished).endswith("]")
    assert "time was up" in str(finished)
    assert finished.exit_status != 0
    until(alive.all_gone)
    assert alive.is_up(processes=2)
    assert not (tmp_path / "canary").exists()
    assert not shell.running


@pytest.mark.parametrize("form", ["timeout 60 bash -c '{}'", "set -m; ({}) & wait"])
def test_what_has_left_the_group_is_ended_too(shell, alive, form):
    """`timeout` makes a group of its own, and models write it all the time."""
    if not Path("/proc/self/stat").exists():
        return  # nobody tells which processes belong to a session
    assert shell.run(form.format(f"{UP}; sleep 50"), 0.5).timed_out
    until(alive.all_gone)


def test_ctrl_c_that_comes_out_as_another_error_is_ctrl_c(load, shell, alive, monkeypatch):
    """Python can lose one in the moment in which it lets a lock go: `release unlocked lock` is what it says then."""

    def wait(process):
        until(alive.is_up)
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")

    monkeypatch.setattr(load("shell"), "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        shell.run(f"{UP}; sleep 50")
    until(alive.all_gone)


def test_a_command_that_ends_in_time_is_not_ended(shell):
    finished = shell.run("echo one; exit 4", timeout=SOON)
    assert (finished.output, finished.exit_status, finished.timed_out) == ("one\n", 4, False)


@pytest.mark.parametrize("redirect", [">/dev/null 2>&1", ""])
def test_a_background_process_does_not_hold_the_call_up(load, shell, monkeypatch, redirect):
    assert 0 < load("shell").LINGER <= 1
    monkeypatch.setattr(load("shell"), "LINGER", 0.1)
    started = time.monotonic()
    finished = shell.run(f"echo first; sleep {LONG} {redirect} & echo $!", timeout=SOON)
    assert time.monotonic() - started < SOON / 2
    first, pid = finished.output.split()
    assert (first, finished.exit_status, finished.timed_out) == ("first", 0, False)
    if POSIX:  # the pids that bash prints on Windows are its own
        os.kill(int(pid), 0)
        os.kill(int(pid), signal.SIGKILL)


def test_what_a_background_process_prints_at_once_is_there(shell):
    finished = shell.run("(sleep 0.02; echo late) & echo first")
    assert finished.output == "first\nlate\n"


def test_the_time_limit_is_over_when_the_command_is(load, shell, alive, monkeypatch):
    """A background process of a command that has ended is not ended by the command's time limit, either."""
    if not POSIX:
        return
    module = load("shell")
    monkeypatch.setattr(module, "LINGER", 0.4)  # for so long the output is held open, beyond the time limit
    finished = shell.run(f"({UP}; exec sleep {LONG}) & echo $!", timeout=0.3)
    assert not finished.timed_out
    until(alive.is_up)
    assert not alive.all_gone()
    os.kill(int(finished.output), signal.SIGKILL)
    until(alive.all_gone)


def test_ctrl_c_ends_the_command_and_all_it_started(shell, alive, tmp_path):
    if not POSIX:
        return  # a test cannot send Ctrl-C to itself alone there
    main = threading.main_thread().ident

    def press():
        until(lambda: alive.is_up(processes=2))
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        shell.run(f"(trap '' INT; {UP}; sleep {LONG}; touch canary) & trap '' INT; {UP}; sleep {LONG}; touch canary")
    presser.join()
    until(alive.all_gone)
    assert not (tmp_path / "canary").exists()
    assert not shell.running


@pytest.mark.parametrize("moment", ["start", "join"])
def test_ctrl_c_at_any_moment_ends_the_command(load, shell, alive, monkeypatch, moment):
    """Before the wait (a thread is being started) and after it (the last output is awaited), too."""
    if not POSIX:
        return
    monkeypatch.setattr(load("shell"), "LINGER", 0.05)
    method = getattr(threading.Thread, moment)

    def interrupted(thread, *arguments):
        method(thread, *arguments)
        until(alive.is_up)
        raise KeyboardInterrupt

    monkeypatch.setattr(load("shell").threading.Thread, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        shell.run(f"({UP}; sleep {LONG}) & {'' if moment == 'join' else 'wait'}")
    monkeypatch.undo()
    until(alive.all_gone)
    assert not shell.running


def test_ctrl_c_while_it_is_being_started_ends_the_command(load, shell, alive, monkeypatch):
    """The process is there before Python knows it."""
    if not POSIX:
        return

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options) -> None:
            super().__init__(*arguments, **options)
            until(alive.is_up)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(load("shell").subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        shell.run(f"{UP}; sleep {LONG}")
    until(alive.all_gone)
    assert not shell.running
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_stop_from_another_thread_ends_it(shell, alive, tmp_path):
    if not POSIX:
        return
    ended = []
    runners = [
        threading.Thread(target=lambda: ended.append(shell.run(f"echo hi; ({UP}; sleep {LONG}; touch canary) & wait")))
        for _ in range(2)
    ]
    for runner in runners:
        runner.start()
    until(lambda: alive.is_up(processes=2))
    until(lambda: len(shell.running) == 2)
    shell.stop()
    for runner in runners:
        runner.join(SOON)
    assert [finished.output for finished in ended] == ["hi\n", "hi\n"]
    assert all(finished.exit_status != 0 and not finished.timed_out for finished in ended)
    until(alive.all_gone)
    assert not (tmp_path / "canary").exists()
    assert not shell.running
    shell.stop()  # nothing to do is no error


def test_commands_run_side_by_side(shell):
    answers = {}
    started = time.monotonic()
    threads = [
        threading.Thread(target=lambda n=n: answers.update({n: str(shell.run(f"echo {n}; sleep 0.2; exit {n}"))}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert answers == {n: f"{n}\n[exit status {n}]" for n in range(8)}
    assert time.monotonic() - started < 8 * 0.2
    assert not shell.running


def test_a_command_leaves_no_thread_and_no_zombie_behind(shell):
    before = threading.active_count()
    for _ in range(3):
        shell.run("echo one")
    until(lambda: threading.active_count() <= before)
    assert not subprocess._active


# The tool


def test_the_schema_says_what_run_takes(load):
    tool = load("shell").BASH
    assert tool["name"] == "bash"
    assert tool["input_schema"]["required"] == ["command"]
    assert set(tool["input_schema"]["properties"]) == {"command", "timeout"}


def test_the_tool_returns_the_exit_status_as_a_fact(load, shell):
    bash = getattr(load("shell"), "bash", None)
    if bash is None:
        return  # in the first chapter the loop runs commands itself
    result = bash(SimpleNamespace(shell=shell), command="echo '[exit status 0]'; exit 3")
    assert result.text == "[exit status 0]\n[exit status 3]"
    assert result.facts == {"command": "echo '[exit status 0]'; exit 3", "exit_status": 3}


def test_the_tool_says_why_a_command_cannot_be_started(load, shell, monkeypatch):
    module = load("shell")
    if not hasattr(module, "bash"):
        return  # see above
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(module.ToolError, match="no bash.*: install.*[^.]\\.$"):
        module.bash(SimpleNamespace(shell=shell), command="echo one")


def test_a_folder_of_plain_files_does_not_pass_for_a_git_repository(load, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    seen = load("shell").environment()
    assert seen["GIT_CONFIG_COUNT"] == "2"
    assert (seen["GIT_CONFIG_KEY_1"], seen["GIT_CONFIG_VALUE_1"]) == ("safe.bareRepository", "explicit")
    monkeypatch.delenv("GIT_CONFIG_COUNT")
    assert load("shell").environment()["GIT_CONFIG_KEY_0"] == "safe.bareRepository"
