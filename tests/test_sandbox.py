"""The wall around commands: one that is there holds, and one that is not there is never promised.

The commands only print, or touch a canary. Where bubblewrap is missing or may build nothing, a stand-in tells what it
was asked for; where it works, the wall itself is tried.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import talk
from test_shell import POSIX

from offline_model.script import Call
from offline_model.script import Step

STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > '{log}'
while [ "$1" != "--" ]; do shift; done
shift
exec "$@"
"""


class Desk:
    """Stands in for an agent: has a shell, and calls hooks."""

    def __init__(self, load, workspace):
        workspace.mkdir()
        self.events = load("hooks")
        self.hooks = self.events.Hooks()
        self.on = self.hooks.on
        self.workspace = workspace.resolve()
        self.shell = load("shell").Shell(self.workspace)
        self.sections = {}

    def add_section(self, name, text, order=50):
        self.sections[name] = text

    def run(self, command):
        return self.shell.run(command, 60)


@pytest.fixture
def desk(load, tmp_path):
    return Desk(load, tmp_path / "workspace")


@pytest.fixture
def stand_in(load, tmp_path, monkeypatch):
    """Put a program in the place of bubblewrap. Returns a function that tells its last arguments, one string each."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log, program = tmp_path / "log", folder / "bwrap"
    program.write_text(STAND_IN.format(log=log), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(load("sandbox").sys, "platform", "linux")
    return lambda: log.read_text(encoding="utf-8").splitlines()


def pairs(arguments, name):
    """Return what follows each ``name`` in the arguments: two of them."""
    return [(arguments[n + 1], arguments[n + 2]) for n, each in enumerate(arguments) if each == name]


# Where there is none.


def test_without_linux_it_says_so(load, desk, monkeypatch):
    sandbox = load("sandbox")
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    assert "needs Linux" in sandbox.available()
    with pytest.raises(ValueError, match="needs Linux"):
        sandbox.install(desk)
    assert desk.shell.wrap is list and desk.sections == {}


def test_without_bubblewrap_it_says_how_to_get_it(load, desk, monkeypatch, tmp_path):
    sandbox = load("sandbox")
    monkeypatch.setattr(sandbox.sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install bubblewrap" in sandbox.available()
    with pytest.raises(ValueError, match="install it"):
        sandbox.install(desk)


def test_a_program_that_may_build_nothing_is_no_sandbox(load, desk, stand_in, tmp_path):
    if not POSIX:
        return
    program = tmp_path / "bin" / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions\nto create namespace' >&2\nexit 1\n", encoding="utf-8")
    said = load("sandbox").available()
    assert "No permissions to create namespace" in said and "allow user namespaces" in said and "\n" not in said
    with pytest.raises(ValueError, match="does not work here"):
        load("sandbox").install(desk)
    program.write_text("no program", encoding="utf-8")
    assert "does not work here" in load("sandbox").available()


# What is asked for.


def test_a_command_is_wrapped_and_still_tells_how_it_ended(load, desk, stand_in):
    if not POSIX:
        return
    load("sandbox").install(desk)
    ended = desk.run("echo hello; exit 3")
    assert (ended.output, ended.exit_status) == ("hello\n", 3)
    arguments = stand_in()
    assert {"--unshare-all", "--die-with-parent"} <= set(arguments)
    assert ("/", "/") in pairs(arguments, "--ro-bind")
    assert (str(desk.workspace), str(desk.workspace)) in pairs(arguments, "--bind")
    assert arguments[arguments.index("--cap-drop") + 1] == "ALL"
    assert [arguments[n + 1] for n, each in enumerate(arguments) if each == "--tmpfs"] == ["/tmp", "/run"]
    assert arguments[arguments.index("--chdir") + 1] == str(desk.workspace)
    # What is hidden is hidden before the workspace, which may lie there, is put in its place.
    assert max(n for n, each in enumerate(arguments) if each == "--tmpfs") < arguments.index("--bind")
    command = arguments[arguments.index("--") + 1 :]
    assert command[1:] == ["-c", "echo hello; exit 3"] and Path(command[0]).name == "bash"


def test_while_planning_the_workspace_is_read_only_too(load, desk, stand_in):
    if not POSIX:
        return
    planning = [True, False]
    load("sandbox").install(desk, read_only=lambda: planning.pop(0))
    workspace = (str(desk.workspace), str(desk.workspace))
    desk.run("true")
    assert workspace in pairs(stand_in(), "--ro-bind") and workspace not in pairs(stand_in(), "--bind")
    desk.run("true")
    assert workspace in pairs(stand_in(), "--bind") and workspace not in pairs(stand_in(), "--ro-bind")


def test_what_a_person_runs_later_cannot_be_written(load, desk, stand_in, tmp_path):
    if not POSIX:
        return
    load("sandbox").install(desk)
    (desk.workspace / ".git" / "hooks").mkdir(parents=True)
    (desk.workspace / ".mcp.json").symlink_to(tmp_path / "log")  # leads out: it cannot be written there anyway
    desk.run("true")
    bound = [place for place, _ in pairs(stand_in(), "--ro-bind")]
    assert str(desk.workspace / ".git" / "hooks") in bound
    assert str(desk.workspace / ".mcp.json") not in bound and str(desk.workspace / ".git" / "config") not in bound


def test_a_folder_with_something_protected_in_it_cannot_be_moved_away(load, desk, tmp_path):
    """Moved away, another one could stand in its place. Nor can the file be written that leads to git's own elsewhere."""
    walls, git = load("sandbox").walls, desk.workspace / ".git"
    protected = (".git/hooks", ".git/config")
    git.write_text("gitdir: elsewhere", encoding="utf-8")
    for is_read_only in (False, True):
        assert (str(git), str(git)) in pairs(walls(desk.workspace, is_read_only, protected), "--ro-bind")
    git.unlink()
    (git / "hooks").mkdir(parents=True)
    planned = walls(desk.workspace, True, protected)
    assert "--bind" not in planned and (str(git), str(git)) in pairs(planned, "--ro-bind")
    working = walls(desk.workspace, False, protected)
    assert [place for place, _ in pairs(working, "--bind")] == [str(desk.workspace), str(git)]
    assert working.index(str(git)) < working.index(str(git / "hooks")), "else it would lie over what is in it"


def test_a_shell_of_somebody_else_is_behind_the_wall_too(load, desk, stand_in):
    """A subagent has a shell of its own, and shares the guards."""
    if not POSIX:
        return
    load("sandbox").install(desk)
    child = SimpleNamespace(shell=load("shell").Shell(desk.workspace), workspace=desk.workspace)
    desk.hooks.fire(desk.events.PreToolUse(child, {"name": "bash", "input": {}}))
    child.shell.run("echo child", 60)
    assert stand_in()[-1] == "echo child"


def test_a_wall_that_has_gone_refuses_the_command(load, desk, stand_in, tmp_path):
    if not POSIX:
        return
    load("sandbox").install(desk)
    (tmp_path / "bin" / "bwrap").unlink()
    with pytest.raises(OSError):
        desk.run("touch canary")
    assert not (desk.workspace / "canary").exists()


def test_the_model_is_told_and_its_calls_are_walled_in(chapter, stand_in):
    if not POSIX:
        return
    call = Call("bash", command="touch canary")
    agent = chapter.agent(talk("Go.", Step(calls=[call]), Step(text="Done.")))
    chapter.load("sandbox").install(agent)
    assert "reach no network" in agent.sections["sandbox"][1]
    assert chapter.run(agent, "Go.").reason == "end_turn"
    assert stand_in()[-1] == "touch canary" and (chapter.workspace / "canary").exists()


# Where there is one.


def test_the_wall_holds_where_there_is_one(load, desk, tmp_path):
    sandbox = load("sandbox")
    trouble = sandbox.available()
    if trouble:  # then this is the truth, and it is said
        assert "sandbox" in trouble.lower() and trouble.count(".") >= 1
        with pytest.raises(ValueError, match="andbox"):
            sandbox.install(desk)
        return
    assert sys.platform.startswith("linux") and shutil.which("bwrap")
    planning = [False]
    sandbox.install(desk, read_only=lambda: planning[0])
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.workspace / ".git" / "hooks").mkdir(parents=True)

    assert desk.run("touch inside && touch /tmp/mine && ls /tmp/mine").exit_status == 0
    assert (desk.workspace / "inside").exists()
    assert desk.run("ls /tmp/mine").exit_status != 0, "each command has a /tmp of its own"
    assert desk.run(f"mkdir -p '{outside}' && touch '{outside}/canary'; touch .git/hooks/canary").exit_status != 0
    assert list(outside.iterdir()) == list((desk.workspace / ".git" / "hooks").iterdir()) == []
    assert desk.run("touch .git/canary && mv .git moved").exit_status != 0
    assert sorted(os.listdir(desk.workspace / ".git")) == ["canary", "hooks"]
    assert desk.run("awk '$5 == \"/\" { print substr($6, 1, 3) }' /proc/self/mountinfo").output == "ro,\n"
    assert desk.run("cat /proc/net/dev").output.count(":") == 1, "there is no network but its own loopback"
    assert desk.run("python -c 'print(1)'").output == "1\n", "the Python that runs this is there"
    planning[0] = True
    assert desk.run("ls inside; touch .git/planned; touch planned").exit_status != 0
    assert not (desk.workspace / "planned").exists() and not (desk.workspace / ".git" / "planned").exists()
