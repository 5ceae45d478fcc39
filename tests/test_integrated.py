"""Where mechanisms meet: settings reach what they are about, a cleared conversation is gone everywhere, all is ended."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from conftest import chapters_with
from conftest import talk
from lessons import clean_environment
from test_main import last
from test_main import place  # noqa: F401
from test_main import program  # noqa: F401
from test_main import serve  # noqa: F401

from offline_model.models import MODELS
from offline_model.script import Call
from offline_model.script import Step

MECHANISM = "commands"
SERVER = Path(__file__).parent / "data" / "mcp_server.py"
TOUCH = talk("go", Step(calls=[Call("bash", command="touch canary")]), Step("Done."))


@pytest.fixture
def wants(place, monkeypatch):  # noqa: F811
    """Return ``wants(settings, whose)``: writes them into the person's own file, or the folder's. Gives the path."""
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.setenv("USERPROFILE", str(place / "home"))

    def wants(settings, whose="home"):
        path = place / whose / ".harness" / "settings.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(settings if isinstance(settings, str) else json.dumps(settings, indent=1), encoding="utf-8")
        return path

    return wants


def hook(event, code):
    """Return settings with one hook, a Python program."""
    command = f'"{sys.executable}" -I -S -c "{code}"'.replace("\\", "/")
    return {"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}


# Settings, through the whole program


@pytest.mark.parametrize(
    ("settings", "line", "cure"),
    [
        ('{\n "modle": "x"\n}', 2, "'model'"),
        ('{\n "permissions": {\n  "allow": [\n   "Bash(git status)"]}}', 4, "bash"),
        ('{\n "permissions": {"deny": ["read_flie"]}}', 2, "'read_file'"),
        ('{\n "permissions": {"deny": ["bash("]}}', 2, "bash("),
        ('{\n "limits": {\n  "max_turns": 0}}', 3, "max_turns"),
        ("{", 1, "settings.json"),
    ],
)
def test_wrong_settings_end_the_program_with_one_line(program, wants, settings, line, cure):  # noqa: F811
    server = program.talks(TOUCH)
    path = wants(settings)
    status, out, err = program("go")
    assert (status, out) == (1, "") and server.requests == []
    said = err.splitlines()[-1]
    assert path.name in said and f"{line}" in said and cure in said, said
    assert program("go", "--output-format", "json")[0] == 1


def test_rules_mode_limits_and_model_hold(program, wants, place, monkeypatch):  # noqa: F811
    server = program.talks(TOUCH)
    wants({"permissions": {"allow": ["bash(touch:*)"]}, "model": "offline-model-2", "limits": {"max_turns": 1, "max_tokens": 777}})
    assert program("go")[0] == 1, "one turn is too few"
    assert (place / "work" / "canary").exists()
    assert (server.requests[-1].body["model"], server.requests[-1].body["max_tokens"]) == ("offline-model", 777)
    monkeypatch.delenv("ANTHROPIC_MODEL")
    assert program("go", "--max-turns", "5")[0] == 0
    assert server.requests[-1].body["model"] == "offline-model-2"
    program("go", "--model", "claude-sonnet-5-5")
    assert server.requests[-1].body["model"] == "claude-sonnet-5-5"


def test_the_mode_of_the_settings_and_the_option_before_it(program, wants, place):  # noqa: F811
    program.talks(TOUCH)
    wants({"permissions": {"allow": ["bash(touch:*)"], "default_mode": "plan"}})
    program("go")
    assert not (place / "work" / "canary").exists()
    assert program("go", "--permission-mode", "default")[0] == 0 and (place / "work" / "canary").exists()


def test_a_hook_of_the_person_holds_and_one_of_the_folder_waits_for_trust(program, wants, place):  # noqa: F811
    server = program.talks(TOUCH)
    wants({"permissions": {"allow": ["bash(touch:*)"]}})
    wants(hook("PreToolUse", "import sys; sys.exit(2)"), "work")
    status, _, err = program("go")
    assert status == 0 and "left out, since you have not trusted this folder" in err and (place / "work" / "canary").exists()
    (place / "work" / "canary").unlink()
    wants({"permissions": {"allow": ["bash(touch:*)"]}, **hook("PreToolUse", "import sys; sys.exit(2)")})
    program("go")
    assert not (place / "work" / "canary").exists() and "Blocked by a hook" in str(server.requests[-1].body)


def test_memory_can_be_left_out(program, wants):  # noqa: F811
    server = program.talks(TOUCH)
    program("go")
    assert "memory_write" in str(server.requests[-1].body["tools"])
    wants({"memory": False})
    program("go")
    assert "memory_write" not in str(server.requests[-1].body["tools"])


def test_a_server_is_there_for_one_prompt_and_ended_after_it(program, wants, place):  # noqa: F811
    server = program.talks(talk("go", Step("Done.")))
    entry = {"command": sys.executable, "args": [str(SERVER)]}
    (place / "work" / ".mcp.json").write_text(json.dumps({"mcpServers": {"brought": entry}}), encoding="utf-8")
    wants({"mcp_servers": {"own": entry}})
    status, out, err = program("go", "--output-format", "json")
    assert status == 0 and last(out)["result"] == "Done."
    names = [tool["name"] for tool in server.requests[-1].body["tools"]]
    assert [name for name in names if name.startswith("mcp__own__")] and ".mcp.json" in err
    assert not [name for name in names if name.startswith("mcp__brought__")], "nobody has trusted the folder"


def test_a_sandbox_that_cannot_be_is_an_error(program, monkeypatch):  # noqa: F811
    server = program.talks(TOUCH)
    sandbox = sys.modules[program.main.__name__.replace("__main__", "sandbox")]
    monkeypatch.setattr(sandbox, "available", lambda: "No wall here: leave it off.")
    status, _, err = program("go", "--sandbox")
    assert status == 1 and err.splitlines()[-1].endswith("No wall here: leave it off.") and server.requests == []


# One agent


def test_what_was_read_before_a_clear_was_not_read(chapter):
    write = Call("memory_write", name="tea", type="user", description="Tea", text="Black.")
    again = Call("memory_write", name="tea", type="user", description="Tea", text="Green.")
    agent = chapter.agent(talk("go", Step(calls=[write]), Step("Ok.")), talk("on", Step(calls=[again]), Step("Ok.")))
    chapter.run(agent, "go")
    agent.commands["clear"][1]("")
    chapter.run(agent, "on")
    assert "read it first" in str(agent.history.messages)
    assert "Black." in (chapter.workspace / ".harness" / "memory" / "tea.md").read_text(encoding="utf-8")


def test_a_clear_empties_the_copy_of_the_list_and_the_session_goes_on(chapter):
    todos = [{"content": "one", "status": "in_progress"}]
    agent = chapter.agent(talk("go", Step(calls=[Call("todo_write", todos=todos)]), Step("Ok.")), talk("on", Step("Ok.")))
    chapter.run(agent, "go")
    agent.commands["clear"][1]("")
    [copy] = (chapter.workspace / ".harness" / "todos").glob("*.md")
    assert "(none)" in copy.read_text(encoding="utf-8")
    assert not [data for kind, data in chapter.shown if "not copied" in data.get("text", "")]
    chapter.run(agent, "on")
    name = agent.session.id
    agent.exits.close()
    other = chapter.agent(talk("more", Step("Ok.")))
    other.session.resume(name)
    assert [block["text"] for message in other.history.messages for block in message["content"]][0] == "on"
    other.exits.close()


def test_what_a_subagent_costs_is_counted(chapter):
    job = Call("task", description="look", prompt="look around")
    agent = chapter.agent(talk("go", Step(calls=[job]), Step("Ok.")), talk("look around", Step("Seen.")))
    chapter.run(agent, "go")
    assert (agent.desk.meter.requests, agent.desk.meter.turns) == (3, 2)


def test_the_lists_of_tasks_and_kinds(chapter):
    (chapter.workspace / "agents").mkdir()
    (chapter.workspace / "agents" / "tester.md").write_text("---\ndescription: Tests.\n---\nTest it.\n", encoding="utf-8")
    agent = chapter.agent(talk("go", Step(calls=[Call("task_create", subject="Make tea")]), Step("Ok.")))
    chapter.run(agent, "go")
    chapter.shown.clear()
    for name in ("tasks", "agents", "memory", "mcp", "hooks", "help"):
        agent.commands[name][1]("")
    shown = "\n".join(data["text"] for _, data in chapter.shown)
    assert "Make tea" in shown and "tester: Tests." in shown and "no command hooks" in shown and "No MCP servers" in shown
    wanted = "plan todo skills tasks agents memory mcp hooks permissions cost context compact resume fork clear model exit"
    assert {*wanted.split(), "help"} <= set(agent.commands)


# What the lesson of the chapter that brings all this together says of it

LESSON = ROOT / chapters_with("settings")[0]
PAGE = (LESSON / "README.md").read_text(encoding="utf-8")


def the_chapter(*arguments, home):
    """Run that chapter offline, as a reader does. Returns the whole output."""
    command = [sys.executable, "-m", LESSON.name, *map(str, arguments)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env=clean_environment(str(home)),
        timeout=120,
        check=False,
    )
    return (done.stdout + done.stderr).decode("utf-8").replace("\r\n", "\n")


def test_the_sample_of_the_lesson_is_one_that_holds(tmp_path):
    [sample] = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "settings.json"
    file.write_text(sample, encoding="utf-8")
    load = lambda name: importlib.import_module(f"{LESSON.name}.{name}")  # noqa: E731
    settings = load("settings").load(tmp_path / "work", own=file)
    agent = load("harness").build(load("model").Model("m", "http://127.0.0.1:9", "k"), tmp_path, print)
    settings.check_rules(agent.tools)
    agent.exits.close()
    assert settings.told == () and settings.hooks[0].command == "./guard.sh"
    assert "time" in settings.mcp_servers
    assert {settings.model, settings.fallback_model} <= set(MODELS)
    template = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert {settings.model, settings.fallback_model} <= set(re.findall(r"_MODEL=(\S+)", template))


def test_the_hook_of_the_lesson_says_no_and_broken_it_says_nothing(tmp_path):
    [sample] = re.findall(r"^```json mine/.harness/settings.json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [script] = re.findall(r"a file `guard.sh` with the line\n`(.*?)`", PAGE)
    mine, home = tmp_path / "mine", tmp_path / "home"
    (mine / ".harness").mkdir(parents=True)
    (mine / ".harness" / "settings.json").write_text(sample, encoding="utf-8")
    (mine / "guard.sh").write_text(f"{script}\n", encoding="utf-8", newline="\n")
    prompt = "Can the notes app say how many notes are open?"
    settings = importlib.import_module(f"{LESSON.name}.settings")
    assert settings.load(mine, own=home / settings.NAME, ask=lambda question: "y").trusted

    out = the_chapter("--workdir", mine, prompt, home=home)
    assert "  bash  python notes.py count\n    [sh guard.sh]: guard says no\n" in out
    assert "wants to run" not in out
    (mine / "guard.sh").write_text(f"{script.replace('exit 2', 'exit 1')}\n", encoding="utf-8", newline="\n")
    out = the_chapter("--workdir", mine, prompt, home=home)
    assert "It decides nothing" in out and "bash wants to run" in out and "left out" not in out


def test_the_shares_that_the_lesson_tells(tmp_path):
    out = the_chapter(home=tmp_path)
    whole = int(re.search(r"about ([\d,]+) of 24,000 tokens", out)[1].replace(",", ""))
    rows = re.findall(r"messages: ([\w ]+?) +([\d,]+) +\d+%", out)
    parts = {name: int(size.replace(",", "")) for name, size in rows}
    assert 0.45 < sum(parts.values()) / whole < 0.55, "half of it is the conversation"
    assert 0.15 < (parts["the person"] + parts["the model"]) / whole < 0.25, "what was said is a fifth"
