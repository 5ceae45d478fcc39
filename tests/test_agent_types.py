"""Kinds of subagents: what a file can say, that it grants nothing, and that a fault in it is told at the start."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT
from conftest import talk
from lessons import clean_environment
from test_subagents import job
from test_subagents import results
from test_subagents import task
from test_subagents import texts
from test_subagents import write

from offline_model.script import Step


def kind(chapter, name: str, text: str) -> None:
    (chapter.workspace / "agents").mkdir(exist_ok=True)
    (chapter.workspace / "agents" / name).write_text(text, encoding="utf-8")


READER = "---\ndescription: Reads and says where it stands.\ntools: read_file, grep\n---\n\nGive file and line.\n"


def test_a_kind_has_its_tools_its_text_and_its_model(chapter):
    kind(chapter, "reader.md", READER.replace("---\n\n", "model: claude-sonnet-5-5\n---\n\n"))
    kind(chapter, "README.md", "No kind.")
    kind(chapter, "notes.txt", "No kind.")
    agent = chapter.agent(
        talk("Go.", Step(calls=[task("A", "Do.", agent="reader"), task("B", "Do it, too.")]), Step("Done.")),
        job("Do.", Step(calls=[write("canary")]), Step("Refused.", when="there is no tool 'write_file'")),
        job("Do it, too.", Step("Done.")),
    )
    chapter.run(agent, "Go.")
    bodies = {body["messages"][0]["content"][0]["text"]: body for body in (r.body for r in agent.model.script.requests)}
    names = [tool["name"] for tool in bodies["Do."]["tools"]]
    assert names == ["read_file", "grep", "todo_write", "load_skill"]
    assert bodies["Do."]["model"] == "claude-sonnet-5-5" and bodies["Do."]["thinking"]["type"] == "adaptive"
    assert "Give file and line." in json.dumps(bodies["Do."]["system"])
    assert "Give file and line." not in json.dumps(bodies["Do it, too."]["system"])
    assert bodies["Do it, too."]["model"] == bodies["Go."]["model"] == agent.model.name
    offered = next(tool for tool in bodies["Go."]["tools"] if tool["name"] == "task")["input_schema"]["properties"]["agent"]
    assert offered["enum"] == ["reader"] and "- reader: Reads and says where it stands." in offered["description"]
    assert not (chapter.workspace / "canary").exists()


def test_an_older_model_is_not_asked_for_what_it_does_not_know(chapter):
    kind(chapter, "old.md", READER.replace("tools:", "model: claude-haiku-4-5\ntools:"))
    agent = chapter.agent(talk("Go.", Step(calls=[task("A", "Do.", agent="old")]), Step("Done.")), job("Do.", Step("Done.")))
    chapter.run(agent, "Go.")
    parent, child = (r.body for r in agent.model.script.requests[:2])
    assert child["model"] == "claude-haiku-4-5" and "thinking" in parent and "thinking" not in child
    assert child["cache_control"] == parent["cache_control"] and "thinking" in agent.model.extras


def test_without_kinds_there_is_nothing_to_choose(chapter):
    agent = chapter.agent(talk("Go."))
    assert "agent" not in agent.tools["task"].schema["properties"] and "fork" in agent.tools["task"].schema["properties"]


def test_without_kinds_yaml_is_not_imported(chapter):
    code = f"import sys, pathlib; sys.path.insert(0, {str(ROOT)!r}); from {chapter.name}.agent_types import read_types; "
    code += f"print(read_types(pathlib.Path({str(chapter.workspace)!r}), 'agents'), 'yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "({}, []) False\n"


def test_a_fork_of_a_kind_is_an_error(chapter):
    kind(chapter, "reader.md", READER)
    agent = chapter.agent(talk("Go.", Step(calls=[task("A", "Do.", agent="reader", fork=True)]), Step("Done.")))
    chapter.run(agent, "Go.")
    assert "leave out fork, or agent" in texts(agent)[0] and results(agent)[0]["is_error"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.md", READER.replace("grep", "gerp"), "agents/a.md names the tool 'gerp'"),
        ("a.md", READER.replace("grep", "task"), "names the tool 'task'"),
        ("a.md", READER.replace("read_file, grep", ""), "names the tool ''"),
        ("a.md", READER.replace("read_file, grep", "{a: b}"), "tools that are no list of names"),
        ("a.md", READER.replace("read_file, grep", "[read_file, [grep]]"), "tools that are no list of names"),
        ("a.md", READER.replace("tools:", "tool:"), "the key 'tool'"),
        ("a.md", READER.replace("Reads and", "Reads: and"), "no YAML"),
        ("a.md", READER.replace("tools:", "description: Again.\ntools:"), "'description' twice"),
        ("a.md", READER.replace("description: Reads and says where it stands.\n", ""), "no description"),
        ("a.md", READER.replace("Reads and says where it stands.", "[a]"), "description that is no text"),
        ("a.md", READER.replace("tools:", "model: [x]\ntools:"), "model that is no text"),
        ("a.md", READER.replace("tools:", "name: b\ntools:"), "the name 'b'"),
        ("a.md", READER.replace("\nGive file and line.\n", ""), "nothing below"),
        ("a.md", READER.replace("---\n\n", ""), "front matter without an end"),
        ("a.md", "\n----\n" + READER, "no front matter"),
        ("a b.md", READER, "agents/a b.md must be named"),
    ],
)
def test_a_kind_that_is_wrong_stops_the_start_and_names_the_file(chapter, name, text, words):
    kind(chapter, name, text)
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        chapter.agent(talk("Go."))
    assert str(error.value).startswith("agents/") and str(error.value).endswith(".")


def test_a_kind_may_be_called_by_its_name_and_list_its_tools(chapter):
    kind(chapter, "a.md", READER.replace("tools: read_file, grep", "name: a\ntools: [bash]"))
    kind(chapter, "b.md", READER.replace("tools: read_file, grep\n", ""))
    types = chapter.load("agent_types").read_types(chapter.workspace, "agents")[0]
    assert (types["a"].tools, types["b"].tools, types["b"].model) == (("bash",), None, "")


def test_a_folder_of_kinds_that_leads_out_is_an_error(chapter, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (chapter.workspace / "agents").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(ValueError, match="agents cannot be read"):
        chapter.agent(talk("Go."))


def test_a_kind_that_lies_elsewhere_is_an_error(chapter, tmp_path):
    (tmp_path / "a.md").write_text(READER, encoding="utf-8")
    (chapter.workspace / "agents").mkdir()
    (chapter.workspace / "agents" / "a.md").symlink_to(tmp_path / "a.md")
    with pytest.raises(ValueError, match=re.escape("agents/a.md leads out of its folder")):
        chapter.agent(talk("Go."))


def test_the_program_says_in_a_line_which_kind_is_wrong(chapter):
    kind(chapter, "a.md", READER.replace("grep", "gerp"))
    done = subprocess.run(
        [sys.executable, "-m", chapter.name, "--workdir", str(chapter.workspace), "hello"],
        capture_output=True,
        cwd=ROOT,
        env=clean_environment(str(chapter.workspace)),
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"{chapter.name}: agents/a.md names the tool 'gerp'")
    assert "Traceback" not in done.stderr


def test_a_kind_may_name_every_tool_there_is_whenever_it_is_installed(chapter):
    tools = [name for name in chapter.agent(talk("Go.")).tools if name != "task"]
    kind(chapter, "a.md", READER.replace("read_file, grep", ", ".join(tools)))
    agent = chapter.agent(
        talk("Go.", Step(calls=[task("A", "Do.", agent="a")]), Step("Done.")),
        job("Do.", Step("Done.")),
    )
    chapter.run(agent, "Go.")
    child = next(r.body for r in agent.model.script.requests if r.body["messages"][0]["content"][0]["text"] == "Do.")
    assert [tool["name"] for tool in child["tools"]] == tools


def test_a_tool_of_a_server_may_come_later_and_is_missed_only_when_the_kind_is_used(chapter):
    kind(chapter, "a.md", READER.replace("read_file, grep", "read_file, mcp__a__b"))
    agent = chapter.agent(
        talk("Early.", Step(calls=[task("A", "Do.", agent="a")]), Step("Done.")),
        talk("Later.", Step(calls=[task("A", "Do.", agent="a")]), Step("Done.")),
        job("Do.", Step("Done.")),
    )
    chapter.run(agent, "Early.")
    assert results(agent)[0]["is_error"] and texts(agent)[0].startswith("A a needs the tool mcp__a__b, which is not there")
    tools = chapter.load("tools")
    tools.add_tool(agent, tools.Tool("mcp__a__b", "B.", {"type": "object", "properties": {}}, lambda agent: "b"))
    chapter.run(agent, "Later.")
    child = next(r.body for r in agent.model.script.requests if r.body["messages"][0]["content"][0]["text"] == "Do.")
    assert [tool["name"] for tool in child["tools"]] == ["read_file", "todo_write", "load_skill", "mcp__a__b"]


@pytest.mark.parametrize("text", ["Give file and line.\n", "# Notes\n\n---\n\nMore.\n", ""])
def test_what_was_never_meant_for_a_kind_is_left_out_with_a_warning(chapter, text):
    kind(chapter, "notes.md", text)
    kind(chapter, "some notes.md", text)
    kind(chapter, "reader.md", READER)
    agent = chapter.agent(talk("Go.", Step("Done.")))
    assert agent.tools["task"].schema["properties"]["agent"]["enum"] == ["reader"]
    told = [data["text"] for kind, data in chapter.shown if "no front matter" in data.get("text", "")]
    assert [line.split()[1] for line in told] == ["agents/notes.md", "agents/some"]
    assert chapter.run(agent, "Go.").text == "Done."


def test_a_file_in_place_of_the_folder_stops_nobody(chapter):
    (chapter.workspace / "agents").write_text("Smith, Jones\n", encoding="utf-8")
    agent = chapter.agent(talk("Go.", Step("Done.")))
    assert "agent" not in agent.tools["task"].schema["properties"] and chapter.run(agent, "Go.").text == "Done."
    assert len([1 for kind, data in chapter.shown if "agents is no folder" in data.get("text", "")]) == 1
