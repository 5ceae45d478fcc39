"""Each lesson plays to its end, prints what is stored in expected.txt, and leaves no step of its script unused."""

from __future__ import annotations

import importlib
import io
import re
import signal
import sys
import types

import pytest
from conftest import ROOT
from lessons import CHAPTERS
from lessons import normalised

import offline_model


@pytest.fixture(params=CHAPTERS, scope="module")
def played(request, tmp_path_factory):
    """Run the program of a chapter in this process, with an empty pipe: it plays its lesson.

    Returns all about it: the agent, the server, the exit status, what went to stdout and to stderr. Two chapters are
    played as processes, too, in test_main.py.
    """
    name, found = request.param, types.SimpleNamespace(name=request.param)
    main = importlib.import_module(f"{name}.__main__")
    start, build = offline_model.start, main.build
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "oe")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("start"))
        patch.setattr(offline_model, "start", lambda *a, **k: vars(found).setdefault("server", start(*a, **k)))
        patch.setattr(main, "build", lambda *a, **k: vars(found).setdefault("agent", build(*a, **k)))
        patch.setattr(sys, "argv", [name])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))}
        try:
            found.status = main.main()
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
    found.out, found.err = (stream.buffer.getvalue().decode("utf-8") for stream in (out, err))
    yield found
    found.server.close()


def test_the_script_is_played_to_its_end(played):
    assert played.server.problems == []
    assert played.server.leftover() == []
    assert played.status == 0
    assert played.agent.history.open_calls() == []


# How many requests of a lesson go on from no other one: those after a compaction, after a change of the tool list or of
# the model, after /clear, and the first one of each subagent.
ANEW = {"s06_plan_mode": 1, "s09_context_compaction": 3, "s10_error_recovery": 1, "s11_subagents": 5, "s15_integrated_harness": 2}
LOOKBACK = 20  # content blocks: so far before its breakpoint the API looks for what is cached


def goes_on_from(earlier: dict, later: dict) -> bool:
    """Whether a request begins as an earlier one did, to its end, and that is near enough to be found."""
    same = all(earlier[part] == later[part] for part in ("model", "tools", "system"))
    before, now = ([(m["role"], block) for m in body["messages"] for block in m["content"]] for body in (earlier, later))
    return same and now[: len(before)] == before and len(now) - len(before) <= LOOKBACK


def test_each_request_reads_from_the_cache_what_the_one_before_left_there(played):
    """An evaluator's requests, without tools, are another talk: they share nothing with it, and have nothing to read."""
    answered = [record for record in played.server.requests if record.status == 200 and record.body.get("tools")]
    assert len(answered) > 2
    anew = -1
    for number, later in enumerate(answered):
        before = [record for record in answered[:number] if goes_on_from(record.body, later.body)]
        if not before:
            anew += 1
            continue
        usage = before[-1].usage
        left_there = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
        assert later.usage["cache_read_input_tokens"] == left_there
    assert anew == ANEW.get(played.name, 0)


def test_nothing_reaches_outside_the_workspace(played):
    commands = [
        block["input"].get("command", "")
        for record in played.server.requests
        for message in record.body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]
    assert not [command for command in commands if re.search(r"(^|[\s='\"])[~/]|\.\.|\brm\b|http|curl|wget|sudo", command)]


def test_what_is_printed_is_what_is_stored(played):
    stored = (ROOT / played.name / "expected.txt").read_text(encoding="utf-8")
    assert normalised(played.out) == stored
    assert played.err == ""


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
        main, line = load("__main__"), server.lines[0]
        outcome = main.work(agent, load("console").Console(), line) if hasattr(main, "work") else load("loop").run(agent, line)
    load("__main__").leave_workspace(workspace, is_worth_keeping=False)
    assert "I am a script" in outcome.text and "it wants:" in outcome.text
