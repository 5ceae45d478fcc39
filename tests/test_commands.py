"""The commands that belong to no single mechanism, the status line, permission modes, and what was paid."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step

TODOS = [{"content": "one", "status": "in_progress"}, {"content": "two", "status": "pending"}]


def command(chapter, agent, line):
    """Type a command. Returns what is shown, and nothing else may happen: it never raises."""
    chapter.shown.clear()
    name, _, rest = line[1:].partition(" ")
    agent.commands[name][1](rest)
    return "\n".join(data["text"] for kind, data in chapter.shown if kind == "notice")


def write(name):
    return Call("write_file", path=name, content="x\n")


# What there is


def test_help_tells_of_every_command_on_one_line(chapter):
    agent = chapter.agent()
    agent.command("zzz", "sleeps", lambda rest: None)
    lines = command(chapter, agent, "/help").split("\n")
    assert [line.split()[0][1:] for line in lines] == sorted(agent.commands)
    assert lines[-1].endswith("  sleeps")
    wanted = "help plan todo skills permissions cost context compact resume fork clear model exit".split()
    assert set(wanted) <= set(agent.commands)


def test_exit_is_there_for_the_list_alone(chapter):
    assert command(chapter, chapter.agent(), "/exit") == ""


def test_todo_shows_the_list(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("todo_write", todos=TODOS)]), Step("Ok.")))
    assert command(chapter, agent, "/todo") == "(no todos)"
    chapter.run(agent, "go")
    assert "one" in command(chapter, agent, "/todo") and "(0/2 completed)" in command(chapter, agent, "/todo")


def test_more_lists_are_shown_or_their_trouble(chapter):
    agent = chapter.agent()
    desk = agent.desk

    def broken():
        raise OSError("the disk is gone")

    lists = {"tasks": ("the tasks", lambda: "1 task"), "agents": ("the agents", broken)}
    chapter.load("commands").install(
        agent, store=desk.store, plan=desk.plan, system=desk.system, room=desk.room, meter=desk.meter, lists=lists
    )
    assert command(chapter, agent, "/tasks") == "1 task"
    assert command(chapter, agent, "/agents") == "  [the disk is gone]"
    assert "/agents" in command(chapter, agent, "/help")


# What fills the window


def test_context_adds_up_to_what_was_counted(chapter):
    agent = chapter.agent(talk("go", Step("I read.", thinking="hm", calls=[Call("bash", command="pwd")]), Step("Done.")))
    chapter.run(agent, "go")
    text = command(chapter, agent, "/context")
    size, window = (int(number.replace(",", "")) for number in re.search(r"about ([\d,]+) of ([\d,]+) tokens", text).groups())
    assert size == agent.desk.room.size() and window == agent.desk.room.window
    rows = re.findall(r"^  ([a-z.]) (.{34}) +([\d,]+) ", text, re.MULTILINE)
    sizes = {label.strip(): int(number.replace(",", "")) for _, label, number in rows}
    assert abs(sum(sizes.values()) - window) <= len(sizes)
    assert sizes["free"] == window - size
    for label in ("system: identity", "system: trust", f"tools: {len(agent.tools)}"):
        assert sizes[label] > 0
    for label in ("the person", "notes of the harness", "the model", "results of tools"):
        assert sizes[f"messages: {label}"] > 0
    cells = re.search(r"\[([a-z.]+)\]", text)[1]
    assert len(cells) == chapter.load("commands").BAR and cells[0] == "s" and cells.endswith("...")


def test_context_before_the_first_request_and_in_a_small_window(chapter):
    agent = chapter.agent()
    assert "system: identity" in command(chapter, agent, "/context") and "messages:" not in command(chapter, agent, "/context")
    agent.desk.room.window = 1_000  # less than the tools take
    assert ".]" not in command(chapter, agent, "/context")
    assert re.search(r"free +0 ", command(chapter, agent, "/context"))


@pytest.mark.parametrize(
    ("parts", "cells"),
    [
        ([], "." * 60),
        ([("s", 600)], "s" * 36 + "." * 24),
        ([("s", 1), ("t", 1)], "s" + "." * 59),
        ([("s", 500), ("t", 250), ("m", 250)], "s" * 30 + "t" * 15 + "m" * 15),
        ([("s", 5000), ("t", 1)], "s" * 60),
    ],
)
def test_the_bar(load, parts, cells):
    assert load("commands").bar([("", letter, tokens) for letter, tokens in parts], 1000) == cells


@pytest.mark.parametrize(
    ("tokens", "text"), [(0, "0"), (999, "999"), (1000, "1k"), (12_345, "12.3k"), (200_000, "200k"), (1_500_000, "1.5M")]
)
def test_tokens_in_short(load, tokens, text):
    assert load("commands").in_short(tokens) == text


# What it cost


def test_cost_counts_replies_and_calls_beside_the_conversation(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="pwd")]), Step("Done.")), talk("aside", Step("Aside.")))
    assert "0 requests since the start, 0 tokens in, nothing sent yet" in command(chapter, agent, "/cost")
    chapter.run(agent, "go")
    meter = agent.desk.meter
    assert (meter.requests, meter.turns) == (2, 2)
    before = meter.total()
    request = {**agent.request(), "messages": [{"role": "user", "content": [{"type": "text", "text": "aside"}]}]}
    assert agent.side_call(request).text == "Aside."
    assert (meter.requests, meter.turns) == (3, 2)
    usage = chapter.load("usage")
    assert usage.sent(meter.total()) > usage.sent(before)
    text = command(chapter, agent, "/cost")
    assert "3 requests" in text and re.search(r"\d+% from the cache", text) and "offline-model: " in text
    assert "price" not in text and "about" not in text


def test_money_only_by_a_price_table(load):
    usage = load("usage")
    used = {"a": Counter(input_tokens=1_000_000, cache_read_input_tokens=2_000_000, output_tokens=100_000)}
    prices = {"a": {"input_tokens": 3.0, "cache_read_input_tokens": 0.3, "output_tokens": 15.0}}
    assert usage.rows(used, {})[0].endswith("100,000 out")
    assert usage.rows(used, prices)[0].endswith("100,000 out: about 5.10")
    assert usage.rows(used, {"b": {}})[0].endswith("no price of a")
    used["a"]["cache_creation_input_tokens"] = 1  # which has no price: then nothing is claimed
    assert usage.rows(used, prices)[0].endswith("no price of a")


def test_a_server_that_counts_nothing(load):
    usage = load("usage")
    meter = usage.Meter(None)
    meter.add("m", {"input_tokens": None})
    meter.add("m", {})
    assert meter.requests == 2 and usage.cached(meter.total()) == "nothing sent yet"


# The status line


def test_the_status_line_says_what_one_wants_to_know(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("todo_write", todos=TODOS)]), Step("Ok.")))
    assert re.fullmatch(r"offline-model · context \d% of 200k", agent.desk.status())
    command(chapter, agent, "/plan")
    chapter.run(agent, "go")
    pattern = r"offline-model · plan mode · context \d+% of 200k · [\d.]+k tokens, \d+% from the cache · todo 0/2"
    assert re.fullmatch(pattern, agent.desk.status())
    command(chapter, agent, "/plan off")
    agent.desk.choose("deny-asks")
    assert " · deny-asks · " in agent.desk.status()


# Permissions


def test_permissions_shows_the_rules_in_force(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="touch canary")]), Step("Ok.")), ask=lambda question: "a")
    chapter.run(agent, "go")
    text = command(chapter, agent, "/permissions")
    assert "mode default" in text and "plan mode is on" not in text
    rules = re.findall(r"^    (deny|ask|allow) +(\S.*)$", text, re.MULTILINE)
    assert rules == [(kind, rule.text) for kind in ("deny", "ask", "allow") for rule in agent.permissions.rules[kind]]
    assert ("deny", "read_file(.env)") in rules and ("allow", "bash(touch canary)") in rules
    command(chapter, agent, "/plan")
    assert "plan mode is on" in command(chapter, agent, "/permissions")


def test_where_nobody_can_be_asked_permissions_says_so(chapter):
    assert "mode deny-asks" in command(chapter, chapter.agent(ask=None), "/permissions")


def test_accept_edits_allows_edits_and_nothing_else(chapter):
    calls = [write("a.txt"), write(".env"), Call("bash", command="touch canary")]
    questions = []
    agent = chapter.agent(talk("go", Step(calls=calls), Step("Ok.")), ask=lambda question: questions.append(question) or "n")
    assert agent.desk.choose("accept-edits") == ""
    chapter.run(agent, "go")
    assert (chapter.workspace / "a.txt").exists() and not (chapter.workspace / ".env").exists()
    assert len(questions) == 1 and "touch canary" in questions[0]
    assert not (chapter.workspace / "canary").exists()


def test_deny_asks_asks_nobody_and_allows_what_is_allowed(chapter):
    calls = [write("a.txt"), Call("bash", command="pwd")]
    agent = chapter.agent(talk("go", Step(calls=calls), Step("Ok.")), ask=lambda question: pytest.fail("asked"))
    agent.desk.choose("deny-asks")
    chapter.run(agent, "go")
    results = [data for kind, data in chapter.shown if kind == "tool_result"]
    assert [data["is_error"] for data in results] == [True, False] and "nobody can be asked" in results[0]["text"]


def test_where_nobody_is_asked_a_plan_is_not_either(chapter):
    todos, plan = Call("todo_write", todos=TODOS), Call("exit_plan_mode", plan="# Plan\n\nDo one, then two.")
    steps = [Step(calls=[todos]), Step(calls=[plan]), Step("Ok.")]
    agent = chapter.agent(talk("go", *steps), ask=chapter.shown.append)
    agent.desk.choose("deny-asks")
    command(chapter, agent, "/plan")
    chapter.run(agent, "go")
    assert agent.desk.plan.active
    assert all(isinstance(each, tuple) for each in chapter.shown), "a question was asked"
    assert "Nobody can be asked here" in str(agent.history.messages)


def test_the_mode_plan_is_plan_mode(chapter):
    agent = chapter.agent(talk("go", Step(calls=[write("a.txt")]), Step("Ok.")))
    assert agent.desk.choose("plan") == "" and agent.desk.choose("plan") == ""
    chapter.run(agent, "go")
    assert not (chapter.workspace / "a.txt").exists()


def test_a_plan_mode_that_cannot_be_kept_is_no_promise(chapter):
    agent = chapter.agent()
    agent.on(chapter.load("hooks").StateChanged, lambda event: setattr(event, "kept", False))
    assert "could not be switched on" in agent.desk.choose("plan")


# Begin anew


def test_clear_forgets_the_conversation_and_what_belongs_to_it(chapter):
    agent = chapter.agent(
        talk("secret word", Step(calls=[Call("todo_write", todos=TODOS)]), Step("Ok.")), talk("and now", Step("Hello."))
    )
    chapter.run(agent, "secret word")
    agent.history.note("old", "an old note")
    agent.enqueue("old prompt")
    changes = []
    agent.on(chapter.load("hooks").StateChanged, lambda event: changes.append((event.name, event.value)))
    assert "new conversation" in command(chapter, agent, "/clear")
    assert agent.history.messages == [] and agent.history.notes == [] and not agent.queue
    assert command(chapter, agent, "/todo") == "(no todos)"
    assert ("todos", None) in changes and {value for _, value in changes} == {None}
    assert agent.desk.room.counted == 0 and agent.desk.room.keeping.request == ""
    chapter.run(agent, "and now")
    body = chapter.servers[0].requests[-1].body
    assert len(body["messages"]) == 1 and "secret word" not in str(body) and "old note" not in str(body)


def test_clear_keeps_the_limits_and_the_model_is_told_of_them_again(chapter):
    agent = chapter.agent(talk("one", Step("Ok.")), talk("two", Step(calls=[write("a.txt")]), Step("Ok.")))
    command(chapter, agent, "/plan")
    chapter.run(agent, "one")
    command(chapter, agent, "/clear")
    assert agent.desk.plan.active
    chapter.run(agent, "two")
    assert agent.desk.plan.guidance() in str(chapter.servers[0].requests[1].body["messages"][0]["content"][-1]["text"])
    assert not (chapter.workspace / "a.txt").exists()


def test_what_was_cleared_is_cleared_when_the_session_comes_back(chapter):
    agent = chapter.agent(talk("one", Step(calls=[Call("todo_write", todos=TODOS)]), Step("Ok.")), talk("two", Step("Ok.")))
    chapter.run(agent, "one")
    command(chapter, agent, "/clear")
    chapter.run(agent, "two")
    messages, id = agent.history.messages, agent.session.id
    agent.session.close()
    again = chapter.agent()
    again.session.resume(id)
    assert again.history.messages == messages and again.desk.store.items() == []
    again.session.close()


def test_clear_ends_the_autopilot(chapter):
    plan = Call("exit_plan_mode", plan="# Plan\n\nDo one, then two.")
    todos = Call("todo_write", todos=[{**each, "status": "pending"} for each in TODOS])
    agent = chapter.agent(talk("go", Step(calls=[todos]), Step(calls=[plan]), Step("Ok.")), talk("x", Step("Ok.")), ask=lambda q: "approve")
    agent.desk.choose("plan")
    chapter.run(agent, "go")
    assert [source for _, source in agent.queue] == ["autopilot"]
    command(chapter, agent, "/clear")
    assert not agent.queue
    assert chapter.run(agent, "x").detail == "" and not agent.queue


def test_clear_at_once_writes_no_session(chapter):
    agent = chapter.agent()
    command(chapter, agent, "/clear")
    assert not [path for path in chapter.workspace.rglob("*.jsonl") if "replaced" in path.read_text("utf-8")]
    agent.session.close()


@pytest.mark.parametrize("line", ["/clear", "/model other"])
def test_not_while_a_run_is_going(chapter, line):
    agent = chapter.agent()
    agent.model.script = None
    with agent.busy:
        assert "a run is going" in command(chapter, agent, line)
    assert agent.model.name == "offline-model"


# Who answers


def test_another_model_gets_no_thoughts_of_this_one(chapter):
    server_steps = talk("go", Step("I look.", thinking="deep", calls=[Call("bash", command="pwd")]), Step("Done.", thinking="deeper"))
    agent = chapter.agent(server_steps)
    chapter.run(agent, "go")
    assert "deep" in str(agent.history.messages)
    agent.model.script = None  # as with a real model
    assert "claude-haiku-4-5 answers from now on" in command(chapter, agent, "/model claude-haiku-4-5")
    assert "thinking" not in str(agent.history.messages) and "I look." in str(agent.history.messages)
    request = agent.request()
    assert request["model"] == "claude-haiku-4-5" and "thinking" not in request
    command(chapter, agent, "/model claude-opus-4-7")
    assert agent.request()["thinking"]["type"] == "adaptive"


def test_a_reply_that_was_a_thought_alone_does_not_become_empty(load):
    module = load("commands")
    thought = {"type": "thinking", "thinking": "x", "signature": "y"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": [thought]}]
    kept = module.without_thoughts(messages)
    assert kept[0] == messages[0] and kept[1]["content"] == [{"type": "text", "text": module.NO_WORDS}]
    assert messages[1]["content"] == [thought]


def test_the_model_is_told_and_wrong_names_are_refused(chapter):
    agent = chapter.agent()
    assert "offline model" in command(chapter, agent, "/model")
    assert "only one here" in command(chapter, agent, "/model claude-opus-4-7")
    agent.model.script = None
    assert "is no name of a model" in command(chapter, agent, "/model two words")
    assert agent.model.name == "offline-model"


def test_a_child_counts_for_the_cost_and_not_as_a_turn(load):
    usage = load("usage")
    agent, child = SimpleNamespace(model=SimpleNamespace(name="m")), SimpleNamespace(model=SimpleNamespace(name="c"))
    meter = usage.Meter(agent)
    for who in (agent, child, child):
        meter.count(SimpleNamespace(agent=who, reply=SimpleNamespace(model="", usage={"input_tokens": 1})))
    assert (meter.turns, meter.requests) == (1, 3) and meter.tokens == {
        "m": Counter(input_tokens=1), "c": Counter(input_tokens=2)
    }
