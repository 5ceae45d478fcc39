"""Each lesson plays to its end, prints what is stored in expected.txt, and leaves no step of its script unused."""

from __future__ import annotations

import contextlib
import importlib
import io
import re

import pytest
from conftest import ROOT
from lessons import CHAPTERS
from lessons import normalised
from lessons import play

import offline_model


@pytest.fixture(params=CHAPTERS, scope="module")
def played(request):
    """Play the lesson of a chapter in this process; return its agent, its server, and what was printed."""
    name = request.param
    main, console, model, harness = (
        importlib.import_module(f"{name}.{part}") for part in ("__main__", "console", "model", "harness")
    )
    server = offline_model.start(scenario=name)
    workspace = offline_model.make_workspace()
    connected = model.Model(offline_model.MODEL, server.url, "offline", server)
    with contextlib.redirect_stdout(io.StringIO()):
        screen = console.Console()
        asks = [main.who_to_ask(screen, connected, False)] if hasattr(main, "who_to_ask") else []
        agent = harness.build(connected, workspace, screen.show, *asks)
        status = main.play(agent, screen, connected)
    yield name, agent, server, status
    server.close()
    main.leave_workspace(workspace, is_worth_keeping=False)


def test_the_script_is_played_to_its_end(played):
    name, agent, server, status = played
    assert server.problems == []
    assert server.leftover() == []
    assert status == 0
    assert agent.history.open_calls() == []


def test_each_request_reads_from_the_cache_what_the_one_before_left_there(played):
    name, agent, server, status = played
    usages = [record.usage for record in server.requests if record.status == 200]
    assert len(usages) > 2
    for earlier, later in zip(usages, usages[1:]):
        assert later["cache_read_input_tokens"] == (
            earlier["cache_read_input_tokens"] + earlier["cache_creation_input_tokens"]
        )


def test_nothing_reaches_outside_the_workspace(played):
    name, agent, server, status = played
    commands = [
        block["input"].get("command", "")
        for record in server.requests
        for message in record.body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]
    assert not [command for command in commands if re.search(r"(^|[\s='\"])[~/]|\.\.|\brm\b|http|curl|wget|sudo", command)]


@pytest.mark.parametrize("name", CHAPTERS)
def test_what_is_printed_is_what_is_stored(name):
    done = play(name)
    assert done.stderr == b""
    assert done.returncode == 0
    stored = (ROOT / name / "expected.txt").read_text(encoding="utf-8")
    assert normalised(done.stdout.decode("utf-8")) == stored


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("answer", ["n", "please do it another way"])
def test_a_lesson_claims_nothing_that_was_refused(name, answer, capsys):
    """Whoever says no to everything sees the script stop, not a model that reports work that was not done."""
    load = lambda part: importlib.import_module(f"{name}.{part}")  # noqa: E731
    if not hasattr(load("__main__"), "who_to_ask"):
        return  # before there are permissions nobody is asked
    workspace = offline_model.make_workspace()
    with offline_model.start(scenario=name) as server:
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        agent = load("harness").build(model, workspace, lambda kind, **data: None, lambda question: answer)
        outcome = load("loop").run(agent, server.lines[0])
    load("__main__").leave_workspace(workspace, is_worth_keeping=False)
    assert "I am a script" in outcome.text and "it wants:" in outcome.text
