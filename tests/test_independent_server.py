"""Chapters against a server of the Messages API that others have written: what holds with ours only, proves little.

It is fakellm, as people use it: a program of its own that answers by rules in a file. It keeps no order of messages
and refuses nothing, as most such servers. So it shows that the chapters understand another one's stream, not that
their requests are valid. One run of it serves all tests of this file, on loopback.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest
from conftest import CHAPTERS

ALL = sorted({CHAPTERS[0], CHAPTERS[-1], *(name for name in CHAPTERS if name.startswith("s05"))})
NEWEST = CHAPTERS[-1]
SOON = 60  # seconds after which a test gives up waiting for what takes one
TODOS = {"todos": [{"content": "Count the files", "status": "in_progress"}]}
CALLS = {"todo_write": TODOS, "bash": {"command": "pwd"}, "no_such_tool": {}}


def rule(name, respond, **when):
    return {"name": name, "when": when, "respond": respond}


RULES = [
    rule("listed", {"content": "There is one: canary.txt."}, tool_result_contains="canary.txt"),
    rule(
        "to list",
        {"content": "I look.", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        messages_contain="Which files lie here?",
    ),
    rule("planned", {"content": "It stands in the list."}, tool_result_contains="Count the files"),
    rule(
        "to plan",
        {"tool_calls": [{"name": name, "arguments": given} for name, given in CALLS.items()]},
        messages_contain="Plan how to count them.",
    ),
    rule("greeting", {"content": "Good day to you, in several words."}, messages_contain="Say good day."),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Start the server, and return its address."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "rules.yaml").write_text(
        json.dumps({"version": 1, "rules": RULES}), encoding="utf-8"
    )  # JSON is YAML
    options = ["--host", "127.0.0.1", "--port", "0", "--config", "rules.yaml"]
    command = [sys.executable, "-m", "fakellm.cli", "serve", *options]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    giving_up = threading.Timer(SOON, process.kill)
    giving_up.start()
    said = []
    try:
        for line in process.stdout:
            said.append(line.decode("utf-8", "replace"))
            if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", said[-1]):
                break
        else:
            raise AssertionError("".join(said))
        giving_up.cancel()
        # It must not wait for somebody who reads.
        reader = threading.Thread(target=process.stdout.read, daemon=True)
        reader.start()
        yield found[1]
        process.kill()
        reader.join(SOON)
    finally:
        giving_up.cancel()
        process.kill()
        with process:
            pass


@pytest.fixture
def server(address):
    """Return ``server()``: the requests that have come since the last test, the first one first."""

    def ask(path, method):
        request = urllib.request.Request(f"{address}/_fakellm/{path}", method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=SOON) as answer:
            return json.load(answer)

    ask("reset", "POST")  # it remembers conversations by their first message
    before = ask("stats", "GET")["total_requests"]

    def server():
        told = ask("stats", "GET")
        return told["recent"][: told["total_requests"] - before][::-1]

    return server


@pytest.fixture
def play(address, tmp_path, monkeypatch):
    """Return ``play(chapter, prompt, *options)``: run a chapter in this process. Gives status, stdout and stderr."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "canary.txt").touch()
    kept = {
        number: signal.getsignal(number)
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    }
    settings = {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_MODEL": "claude-elsewhere",
        "ANTHROPIC_API_KEY": "none",
    }
    for name, value in {**settings, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def play(chapter, prompt, *options):
        main = importlib.import_module(f"{chapter}.__main__")
        monkeypatch.setattr(sys, "argv", [chapter, "--workdir", str(work), *options, prompt])
        for name in ("stdin", "stdout", "stderr"):
            stream = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True, newline="\n")
            monkeypatch.setattr(sys, name, stream)
        status = main.main()
        out, err = (getattr(sys, name).buffer.getvalue().decode("utf-8") for name in ("stdout", "stderr"))
        return status, out, err

    yield play
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ALL)
def test_a_reply(play, server, name):
    status, out, err = play(name, "Say good day.")
    assert (status, out) == (0, "Good day to you, in several words.\n"), err
    (asked,) = server()
    told = {key: asked[key] for key in ("api", "model", "stream", "matched_rule")}
    assert told == {
        "api": "anthropic",
        "model": "claude-elsewhere",
        "stream": True,
        "matched_rule": "greeting",
    }


@pytest.mark.parametrize("name", ALL)
def test_a_tool_call_and_its_result(play, server, name):
    status, out, err = play(name, "Which files lie here?")
    assert (status, out) == (0, "There is one: canary.txt.\n"), err
    assert "I look." in err and "bash  ls" in err
    assert [asked["matched_rule"] for asked in server()] == ["to list", "listed"]
    assert len({asked["conversation_id"] for asked in server()}) == 1


@pytest.mark.parametrize("name", ALL[-2:])
def test_several_calls_in_one_reply(play, server, name):
    """One of them is of a tool that is not there; a reply without a word of text is one, too."""
    status, out, err = play(name, "Plan how to count them.")
    assert [asked["matched_rule"] for asked in server()][:2] == ["to plan", "planned"]
    assert "Count the files" in err and "no_such_tool" in err and out == "It stands in the list.\n"


def test_words_come_one_by_one_and_a_session_goes_on(play, server):
    status, out, _ = play(NEWEST, "Say good day.", "--output-format", "stream-json")
    events = [json.loads(line) for line in out.splitlines()]
    words = [event["text"] for event in events if event["type"] == "text"]
    assert status == 0 and "".join(words) == "Good day to you, in several words." and len(words) > 3
    last = events[-1]
    assert (last["reason"], last["turns"], last["exit_status"]) == ("end_turn", 1, 0) and last["usage"][
        "output_tokens"
    ] > 0
    status, out, _ = play(NEWEST, "Which files lie here?", "--resume", "last", "--output-format", "json")
    told = json.loads(out)
    assert (status, told["result"], told["turns"]) == (0, "There is one: canary.txt.", 2)
    assert told["session_id"] == last["session_id"]
    assert len({asked["conversation_id"] for asked in server()}) == 1, (
        "the resumed conversation begins as before"
    )
