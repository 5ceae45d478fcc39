"""A session outlives the program: all of it is in its log, comes back from there, and can go on in two ways."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import sys

import pytest
from conftest import talk
from test_session_log import refused_by_the_api

from offline_model.script import Call
from offline_model.script import Step

KEY = "sk-test-0123456789-abcdef"


def todos(*rows):
    return Call("todo_write", todos=[{"content": content, "status": status} for content, status in rows])


FIRST = talk(
    "first",
    Step("I look.", calls=[todos(("look", "in_progress"), ("tell", "pending"), ("sing", "cancelled")), Call("glob", pattern="*.txt")]),
    Step("Nothing there."),
)
SECOND = talk("second", Step(calls=[todos(("look", "completed"), ("tell", "in_progress")), Call("bash", command="touch canary")]), Step("Told."))
THIRD = talk("third", Step("Gone on."))
ALL = (FIRST, SECOND, THIRD)


def records(session):
    return list(session.records())


def lines(session):
    return [json.loads(line) for line in session.log.path.read_text("utf-8").splitlines() if line]


def kinds(session):
    """Return the types of what is kept, without states: chapters keep different ones."""
    return [record["type"] for record in records(session) if record["type"] != "state"]


def notices(chapter):
    return [data["text"] for kind, data in chapter.shown if kind == "notice" and "[session:" in data["text"]]


def rows(agent):
    store = agent.restores["todos"].__self__.store
    return [(item.content, item.status) for item in store.items()]


def command(agent, line):
    name, _, rest = line.removeprefix("/").partition(" ")
    agent.commands[name][1](rest)


def folder(chapter):
    return chapter.workspace / ".harness" / "sessions"


@pytest.fixture
def agent(chapter):
    """An agent that has done two runs."""
    agent = chapter.agent(*ALL)
    assert [chapter.run(agent, prompt).reason for prompt in ("first", "second")] == ["end_turn", "end_turn"]
    yield agent
    agent.session.close()


@pytest.fixture
def another(chapter):
    """Return ``another()``: a new agent in the same workspace, as after a new start of the program."""
    made = []

    def another(**options):
        made.append(chapter.agent(*ALL, **options))
        return made[-1]

    yield another
    for agent in made:
        agent.session.close()


# What is kept.


def test_a_session_is_one_file_of_records_in_the_order_in_which_things_happened(chapter, agent):
    assert [path.name for path in folder(chapter).iterdir()] == [f"{agent.session.id}.jsonl"]
    run = ["message", "message", "usage", "begun", "message", "begun", "message", "message", "usage", "run_ended"]
    assert agent.history.messages[0]["content"][-1]["text"].endswith("</system-reminder>")  # the date, once, is a record
    assert kinds(agent.session) == ["session", "message", *run, *run]
    assert [record for record in records(agent.session) if record["type"] == "run_ended"][0]["reason"] == "end_turn"
    assert all(isinstance(record["time"], float) for record in records(agent.session))
    assert records(agent.session) == lines(agent.session)


def test_the_header_says_what_it_is_the_log_of(chapter, agent):
    header = lines(agent.session)[0]
    assert header.pop("time") > 0
    assert header == {
        "type": "session",
        "version": 1,
        "id": agent.session.id,
        "parent": "",
        "inherited": 0,
        "workspace": str(chapter.workspace.resolve()),
        "model": "offline-model",
    }


def test_the_folds_of_the_log_are_what_the_agent_has(chapter, agent):
    folds = chapter.load("folds")
    assert folds.messages(records(agent.session)) == agent.history.messages
    assert [(i["content"], i["status"]) for i in folds.states(records(agent.session))["todos"]["items"]] == rows(agent)
    replies = [record.usage for record in chapter.servers[0].requests]
    assert folds.cost(records(agent.session))["offline-model"]["output_tokens"] == sum(u["output_tokens"] for u in replies)
    assert folds.open_calls(records(agent.session)) == {} and folds.past(records(agent.session)).runs == 2


def test_a_call_is_recorded_as_begun_before_it_runs_and_its_result_before_the_next_step(chapter, another):
    agent, seen = another(), []
    glob = agent.tools["glob"]
    look = lambda agent, **arguments: seen.append(records(agent.session)[-1]["type"]) or "x"  # noqa: E731
    agent.tools["glob"] = chapter.load("tools").Tool("glob", "", glob.schema, look, read_only=True)
    agent.on(chapter.load("hooks").PostToolUse, lambda event: seen.append(records(agent.session)[-1]["type"]))
    agent.on(chapter.load("hooks").BeforeModel, lambda event: seen.append(records(agent.session)[-1]["type"]))
    chapter.run(agent, "first")
    assert seen == ["message", "message", "begun", "message", "message"]


def test_nothing_is_written_before_there_is_anything_to_keep(chapter, another):
    agent = another()
    command(agent, "/sessions")
    assert chapter.run(agent, " ").reason == "blocked"
    agent.on(chapter.load("hooks").UserPromptSubmit, lambda event: setattr(event, "refused", "no"))
    assert chapter.run(agent, "first").reason == "blocked"
    assert agent.session.id == "" and not (chapter.workspace / ".harness").exists()
    assert list(agent.session.records()) == [] and list(agent.session.earlier(chapter.workspace)) == []


def test_the_folder_is_policy_and_git_does_not_look_into_it(chapter, agent):
    assert (chapter.workspace / ".harness" / ".gitignore").read_text("utf-8") == "*\n"
    own = chapter.load("agent").Agent(agent.model, chapter.workspace, chapter.show)
    session = chapter.load("session").install(own, folder="kept/here")
    own.history.add("user", [{"type": "text", "text": "x"}])
    assert session.log.path.parent == chapter.workspace.resolve() / "kept" / "here"
    assert (chapter.workspace / "kept" / ".gitignore").read_text("utf-8") == "*\n"
    session.close()


def test_a_gitignore_that_is_there_stays(chapter, another):
    (chapter.workspace / ".harness").mkdir()
    (chapter.workspace / ".harness" / ".gitignore").write_text("mine", "utf-8")
    chapter.run(another(), "first")
    assert (chapter.workspace / ".harness" / ".gitignore").read_text("utf-8") == "mine"


def test_a_folder_that_leads_out_of_the_workspace_is_not_written_to(chapter, another, tmp_path):
    (tmp_path / "else").mkdir()
    try:
        (chapter.workspace / ".harness").symlink_to(tmp_path / "else", target_is_directory=True)
    except OSError:
        return  # Windows lets not everybody make one
    assert chapter.run(another(), "first").reason == "end_turn"
    assert list((tmp_path / "else").iterdir()) == []
    assert "not kept any more" in notices(chapter)[0] and "symbolic link" in notices(chapter)[0]


def test_a_replaced_history_is_a_record(chapter, agent):
    agent.history.replace(agent.history.messages[-4:])
    assert kinds(agent.session)[-1] == "replaced"
    assert chapter.load("folds").messages(records(agent.session)) == agent.history.messages
    assert chapter.run(agent, "third").reason == "end_turn"
    assert chapter.load("folds").messages(records(agent.session)) == agent.history.messages


def test_state_is_a_record_and_no_message(chapter, agent):
    before = len(agent.history.messages)
    assert agent.changed("mode", {"active": True}) is True
    [*_, last] = records(agent.session)
    assert (last["type"], last["name"], last["value"]) == ("state", "mode", {"active": True})
    assert len(agent.history.messages) == before and not agent.history.notes


def test_what_another_agent_announces_is_not_ours(chapter, agent):
    other = chapter.load("agent").Agent(agent.model, chapter.workspace, chapter.show, hooks=agent.hooks)
    before = len(records(agent.session))
    other.changed("todos", {"items": []})
    assert len(records(agent.session)) == before


def test_what_somebody_else_could_not_keep_is_no_record(chapter, agent):
    agent.on(chapter.load("hooks").StateChanged, lambda event: setattr(event, "kept", False))
    before = len(records(agent.session))
    assert agent.changed("mode", 1) is False and len(records(agent.session)) == before


# Secrets.


@pytest.mark.parametrize("key", [KEY, 'quo"ted-\\key-0123456789'])
def test_the_key_that_we_hold_stands_in_no_record(chapter, key):
    print_key = Call("read_file", path="notes.txt")
    agent = chapter.agent(talk("show", Step(f"It is {key}.", thinking="hm", calls=[print_key]), Step("done")))
    agent.model.key = key
    (chapter.workspace / "notes.txt").write_text(f"a {key} z", "utf-8")
    chapter.run(agent, "show")
    agent.changed("plan", {key: [f"with {key}"]})
    agent.history.replace([{"role": "user", "content": [{"type": "text", "text": key}]}])
    assert agent.history.messages[0]["content"][0]["text"] == key, "the model may know it, the file may not"
    written = agent.session.log.path.read_text("utf-8")
    assert key not in written and json.dumps(key)[1:-1] not in written and not any(key in str(each) for each in lines(agent.session))
    assert "a [key] z" in written and {"[key]": ["with [key]"]} in [each.get("value") for each in lines(agent.session)]
    agent.session.close()


def test_what_looks_like_a_key_is_masked_too(chapter, agent):
    found = "sk-ant-" + "api03-AbC_dEf-0123456789"
    agent.changed("plan", f"x {found}, task-anteater-of-the-zoo-in-the-town")
    assert lines(agent.session)[-1]["value"] == "x [key], task-anteater-of-the-zoo-in-the-town"


def test_a_short_stand_in_for_a_key_is_a_word_like_any_other(chapter, agent):
    for key, kept in (("none", "none of it"), ("x" * 15, "x" * 15 + " of it"), ("y" * 16, "[key] of it")):
        agent.model.key = key
        agent.changed("plan", f"{key} of it")
        assert lines(agent.session)[-1]["value"] == kept


def test_a_thought_with_a_key_in_it_is_left_out_since_it_cannot_be_changed(chapter, agent):
    agent.model.key = KEY
    thoughts = [{"type": "thinking", "thinking": words, "signature": "s"} for words in (f"it is {KEY}", "hm")]
    agent.history.add("user", [{"type": "text", "text": "x"}])
    agent.history.add("assistant", [*thoughts, {"type": "text", "text": "y"}])
    assert lines(agent.session)[-1]["blocks"] == [thoughts[1], {"type": "text", "text": "y"}]


# Taking back.


def test_a_session_comes_back_as_it_was(chapter, agent, another):
    agent.session.close()
    again = another()
    history, before = again.history, lines(agent.session)
    again.session.resume()
    assert again.history is history and again.history.messages == agent.history.messages
    assert rows(again) == rows(agent) == [("look", "completed"), ("tell", "in_progress")]
    assert again.session.id == agent.session.id and lines(again.session) == before, "to come back leaves no trace"
    assert notices(chapter)[-1] == f"  [session: {again.session.id} is back, 2 runs; nothing runs until you say so]"
    assert chapter.run(again, "third").text == "Gone on."
    assert kinds(again.session)[-4:] == ["message", "message", "usage", "run_ended"] and len(set(r.get("id") for r in lines(again.session)[1:])) == 1


def test_what_comes_next_reads_from_the_cache_what_the_last_process_left_there(chapter, agent, another):
    again = another()
    agent.session.close()
    again.session.resume()
    again.model = agent.model  # the same server
    chapter.run(again, "third")
    earlier, later = (record.usage for record in chapter.servers[0].requests[-2:])
    left_there = earlier["cache_read_input_tokens"] + earlier["cache_creation_input_tokens"]
    if not chapter.has("prompt"):  # its system part is made anew on purpose
        assert later["cache_read_input_tokens"] == left_there
    first, second = (record.body for record in chapter.servers[0].requests[-2:])
    assert second["messages"][: len(first["messages"])] == first["messages"]


def test_a_faker_is_refused_after_a_resume_as_before(chapter, agent, another):
    agent.session.close()
    again = another()
    again.session.resume()
    tool = again.tools["todo_write"]
    with pytest.raises(chapter.load("tools").ToolError, match="cancelled cannot become completed"):
        tool.function(again, todos=[{"content": "tell", "status": "in_progress"}, {"content": "sing", "status": "completed"}])


def test_nothing_starts_acting_by_itself(chapter, agent, another):
    agent.session.close()
    again = another()
    again.enqueue("third")
    again.history.note("wish", "do it at once")
    again.session.resume()
    assert not again.queue and not again.history.notes and chapter.servers[-1].requests == []
    assert not again.running


def test_a_state_that_was_never_kept_comes_back_as_none_and_an_unknown_one_is_left_alone(chapter, agent, another):
    agent.changed("from another version", 1)
    agent.session.close()
    again, heard = another(), []
    again.restores["never"] = heard.append
    again.session.resume()
    assert heard == [None]


def test_a_state_that_cannot_be_used_starts_anew(chapter, agent, another):
    agent.changed("todos", {"items": "nonsense"})
    agent.session.close()
    again = another()
    again.session.resume()
    assert rows(again) == [] and any("todos cannot be used" in text for text in notices(chapter))
    assert again.history.messages == agent.history.messages


def cut_after(agent, kind, number=0):
    """Cut the log after a record of this type, as if the program had been killed then; return the rest of it."""
    text = agent.session.log.path.read_bytes()
    agent.session.close()
    kept, seen = [], 0
    for line in text.splitlines(keepends=True):
        kept.append(line)
        seen += json.loads(line)["type"] == kind
        if seen > number and json.loads(line)["type"] == kind:
            break
    agent.session.log.path.write_bytes(b"".join(kept))


def test_a_call_that_was_begun_comes_back_as_unknown_and_one_that_was_not_as_not_started(chapter, agent, another):
    cut_after(agent, "begun")
    again = another()
    again.session.resume()
    results = again.history.messages[-1]["content"]
    assert [block["content"] for block in results] == [chapter.load("history").UNKNOWN, chapter.load("loop").NOT_STARTED]
    assert all(block["is_error"] for block in results)
    assert kinds(again.session)[-2:] == ["message", "run_ended"] and records(again.session)[-1]["reason"] == "interrupted"
    assert "the last one was cut off" in notices(chapter)[-1]
    assert chapter.run(again, "second").reason == "end_turn"
    prompt = chapter.servers[-1].requests[0].body["messages"][2]["content"]
    assert chapter.load("session").DIED in prompt[-1]["text"] and prompt[-2]["text"] == "second"


def test_after_both_were_begun_both_are_unknown(chapter, agent, another):
    cut_after(agent, "begun", 1)
    again = another()
    again.session.resume()
    assert [block["content"] for block in again.history.messages[-1]["content"]][1] == chapter.load("history").UNKNOWN


def test_what_was_mended_once_is_mended(chapter, agent, another):
    cut_after(agent, "begun")
    again = another()
    again.session.resume()
    again.session.close()
    once, third = lines(again.session), another()
    third.session.resume()
    assert lines(third.session) == once and third.history.messages == again.history.messages
    assert third.history.notes, "the person may have closed it again without a word"
    assert "cut off" not in notices(chapter)[-1]


def test_a_prompt_without_an_answer_is_followed_by_the_next_one(chapter, agent, another):
    cut_after(agent, "message")
    again = another()
    again.session.resume()
    assert [message["role"] for message in again.history.messages] == ["user"]
    assert chapter.run(again, "third").reason == "end_turn"
    assert [block["text"] for block in again.history.messages[0]["content"]][:2] == ["first", "third"]


def test_after_an_interrupt_the_model_is_told_also_in_the_next_process(chapter, another):
    agent = another()
    hook = lambda event: (_ for _ in ()).throw(KeyboardInterrupt)  # noqa: E731
    agent.on(chapter.load("hooks").PreToolUse, hook)
    assert chapter.run(agent, "first").reason == "interrupted"
    assert records(agent.session)[-1]["reason"] == "interrupted"
    agent.session.close()
    again = another()
    again.session.resume()
    assert [note.text for note in again.history.notes] == [chapter.load("loop").INTERRUPTED]


@pytest.mark.parametrize("damage", [b"no json at all\n", b'{"type": "message", "role": "user"}\n', b"\xff\n"])
def test_a_damaged_line_is_left_out_and_said(chapter, agent, another, damage):
    agent.session.close()
    path = agent.session.log.path
    written = path.read_bytes().splitlines(keepends=True)
    victim = next(n for n, line in enumerate(written) if b"tool_result" in line)
    path.write_bytes(b"".join([*written[:victim], damage, *written[victim + 1 :]]))
    again = another()
    again.session.resume()
    refused_by_the_api([*again.history.messages, {"role": "user", "content": [{"type": "text", "text": "go on"}]}])
    assert chapter.load("folds").LOST_RESULT in str(again.history.messages)
    assert "1 lines of its log cannot be read" in notices(chapter)[-1]
    assert chapter.run(again, "third").reason == "end_turn"
    assert chapter.load("folds").messages(records(again.session)) == again.history.messages, "log and memory agree again"


def test_where_the_mode_may_have_been_lost_the_person_is_told(chapter, agent, another):
    command(agent, "/plan")
    chapter.run(agent, "third")
    agent.session.close()
    path = agent.session.log.path
    text = path.read_text("utf-8")
    spoilt = re.sub(r'\n[^\n]*"plan_mode"[^\n]*', "\nspoilt", text)
    path.write_text(spoilt, "utf-8")
    again = another()
    again.session.resume()
    assert spoilt != text and "plan mode, todos and other state may be older than they were" in notices(chapter)[-1]
    whole = another()
    path.write_text(text, "utf-8")
    again.session.close()
    whole.session.resume()
    assert "may be older" not in notices(chapter)[-1]


def test_arguments_that_are_nested_deeper_than_anybody_means_are_damage(chapter, agent, another):
    agent.session.close()
    deep = "[" * 900 + "]" * 900
    call = '{"type": "tool_use", "id": "toolu_deep", "name": "bash", "input": {"command": %s}}' % deep
    with open(agent.session.log.path, "a", encoding="utf-8") as file:
        file.write('{"type": "message", "role": "assistant", "blocks": [%s]}\n' % call)
    again = another()
    again.session.resume()
    assert "1 lines of its log cannot be read" in notices(chapter)[-1]
    assert chapter.run(again, "third").reason == "end_turn"


def test_a_log_that_nobody_here_may_read_is_passed_over(chapter, agent, another, monkeypatch):
    agent.session.close()
    path = agent.session.log.path.with_name("29990101-000000-aaaa.jsonl")
    path.write_bytes(b"{}\n")
    module = chapter.load("session")
    read = module.read

    def denied(log):
        if log.name == path.name:
            raise PermissionError(13, "Permission denied")
        return read(log)

    monkeypatch.setattr(module, "read", denied)
    again = another()
    command(again, "/sessions")
    listed = "\n".join(data["text"] for kind, data in chapter.shown if kind == "notice")
    assert f"{path.stem}  cannot be read: [Errno 13] Permission denied" in listed and f"{agent.session.id}  2 runs" in listed
    again.session.resume()
    assert again.session.id == agent.session.id
    assert any(f"{path.stem} cannot be read and is passed over" in text for text in notices(chapter))


def test_X03_a_record_of_an_unknown_type_is_kept_and_skipped(chapter, agent, another):
    # DeepSeek Harness refuses the whole log unless the writer marked the type as one that may be ignored; writers forgot,
    # and their users' sessions could not be opened any more. Here a type that is new can only be about something new.
    agent.session.close()
    with open(agent.session.log.path, "a", encoding="utf-8") as file:
        file.write('{"type": "dream", "of": "sheep"}\n')
    again = another()
    again.session.resume()
    assert again.history.messages == agent.history.messages and '"sheep"' in again.session.log.path.read_text("utf-8")
    again.session.fork()
    assert '{"type": "dream", "of": "sheep"}' in again.session.log.path.read_text("utf-8").splitlines()


def test_a_log_of_another_version_is_not_guessed_at(chapter, agent, another):
    agent.session.close()
    path = agent.session.log.path
    path.write_text(path.read_text("utf-8").replace('"version": 1', '"version": 2', 1), "utf-8")
    again = another()
    with pytest.raises(chapter.load("session_log").SessionError) as raised:
        again.session.resume()
    assert raised.value.kind == "newer" and again.session.id == "" and again.history.messages == []
    chapter.load("session_log").Log(path).close()  # nobody holds it


def test_a_log_without_its_first_line_is_still_one(chapter, agent, another):
    agent.session.close()
    path = agent.session.log.path
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    again = another()
    again.session.resume(agent.session.id)
    assert again.history.messages == agent.history.messages


def test_thoughts_of_another_model_stay_in_the_log_and_out_of_the_request(chapter, another):
    exchange = talk("think", Step("yes", thinking="hm"))
    agent = chapter.agent(exchange, THIRD)
    chapter.run(agent, "think")
    assert agent.history.messages[-1]["content"][0]["type"] == "thinking"
    agent.session.close()
    again = another()
    again.model.name = "claude-sonnet-5-5"
    again.session.resume()
    assert [block["type"] for block in again.history.messages[-1]["content"]] == ["text"]
    again.session.close()
    assert "replaced" not in kinds(again.session)
    back = another()
    back.session.resume()
    assert back.history.messages == agent.history.messages


def test_hooks_hear_how_a_session_starts(chapter, agent, another):
    agent.session.close()
    again, heard = another(), []
    again.on(chapter.load("hooks").SessionStart, lambda event: heard.append((event.source, len(event.agent.history.messages), rows(again))))
    again.session.resume()
    chapter.run(again, "third")
    again.session.fork()
    assert [each[0] for each in heard] == ["resume", "fork"] and heard[0][1] == 8 and heard[0][2] == rows(agent)
    new, heard = another(), []
    new.on(chapter.load("hooks").SessionStart, lambda event: heard.append(event.source))
    chapter.run(new, "first")
    chapter.run(new, "second")
    assert heard == ["startup"]


def test_always_was_for_the_session_in_which_it_was_said(chapter, another):
    asked = []
    agent = another(ask=lambda question: asked.append(question) or "a")
    chapter.run(agent, "first")
    chapter.run(agent, "second")
    allowed = len(agent.permissions.rules["allow"])
    assert len(asked) == 1
    agent.session.fork()
    assert len(agent.permissions.rules["allow"]) == allowed - 1
    command(agent, "/resume")
    chapter.run(agent, "second")
    assert len(asked) == 2


# Which one.


def test_one_that_is_open_elsewhere_is_not_opened_and_a_fork_is_offered(chapter, agent, another):
    again = another()
    with pytest.raises(chapter.load("session_log").SessionError, match="--fork") as raised:
        again.session.resume(agent.session.id)
    assert raised.value.kind == "busy" and again.session.id == "" and again.history.messages == []
    command(again, f"/resume {agent.session.id}")
    assert f"/fork {agent.session.id}" in notices(chapter)[-1]
    command(again, f"/fork {agent.session.id}")
    assert again.history.messages == agent.history.messages and again.session.id != agent.session.id
    assert chapter.run(again, "third").reason == chapter.run(agent, "third").reason == "end_turn"
    for each in (agent, again):
        assert chapter.load("folds").messages(records(each.session)) == each.history.messages


def test_to_leave_a_session_lets_it_go(chapter, agent, another):
    agent.session.fork()
    again = another()
    command(again, "/resume")
    assert "is open elsewhere" in notices(chapter)[-1]  # the fork, which is the last one
    child = agent.session.id
    command(agent, "/resume")
    command(again, f"/resume {child}")
    assert again.session.id == child != agent.session.id


def test_a_part_of_the_id_is_enough_and_two_are_too_many(chapter, agent, another):
    agent.session.fork()
    parent = lines(agent.session)[0]["parent"]
    again = another()
    error = chapter.load("session_log").SessionError
    again.session.resume(parent[-4:])
    assert again.session.id == parent
    for name, kind in (("20", "ambiguous"), ("nope", "unknown"), ("../x", "unknown"), (parent, "busy")):
        with pytest.raises(error) as raised:
            again.session.resume(name)
        assert raised.value.kind == kind
    assert again.session.id == parent


def test_a_log_that_came_with_the_files_is_not_taken_for_the_last_session(chapter, agent, another, tmp_path):
    agent.session.close()
    path = agent.session.log.path
    other = path.with_name("aaa.jsonl")
    other.write_text(path.read_text("utf-8").replace(json.dumps(str(chapter.workspace.resolve())), '"/some/where"'), "utf-8")
    os.utime(path, (1, 1))
    again = another()
    assert next(again.session.earlier(chapter.workspace))["id"] == agent.session.id
    again.session.resume()
    assert again.session.id == agent.session.id
    again.session.resume("aaa")
    assert "it was kept in /some/where" in notices(chapter)[-1]


def test_while_a_run_goes_nothing_changes_hands(chapter, agent):
    refused = []
    error = chapter.load("session_log").SessionError

    def try_it(event):
        for go in (agent.session.resume, agent.session.fork):
            with pytest.raises(error) as raised:
                go()
            refused.append(raised.value.kind)

    agent.on(chapter.load("hooks").BeforeModel, try_it)
    chapter.run(agent, "third")
    assert refused == ["running", "running"] and len(list(folder(chapter).iterdir())) == 1


# Forks.


def test_a_fork_goes_its_own_way_and_knows_where_it_comes_from(chapter, agent, another):
    parent, before = agent.session.id, agent.session.log.path.read_bytes()
    messages = list(agent.history.messages)
    agent.session.fork()
    header = lines(agent.session)[0]
    assert (header["parent"], header["id"], header["inherited"]) == (parent, agent.session.id, len(before.splitlines()))
    assert agent.history.messages == messages and rows(agent) == [("look", "completed"), ("tell", "in_progress")]
    assert notices(chapter)[-1].startswith(f"  [session: {agent.session.id} is a copy of {parent}, 2 runs;")
    assert lines(agent.session)[1:] == [json.loads(line) for line in before.splitlines()][1:]
    chapter.run(agent, "third")
    assert (folder(chapter) / f"{parent}.jsonl").read_bytes() == before
    agent.session.fork()
    assert lines(agent.session)[0]["parent"] == header["id"] and kinds(agent.session).count("session") == 1


def test_a_fork_of_an_earlier_moment_has_the_state_of_that_moment(chapter, agent):
    first = list(agent.history.messages[:4])
    command(agent, "/fork 1")
    assert agent.history.messages == first
    assert rows(agent) == [("look", "in_progress"), ("tell", "pending"), ("sing", "cancelled")]
    assert chapter.run(agent, "third").reason == "end_turn"
    assert agent.history.messages[4]["content"][0]["text"] == "third"


def test_a_fork_takes_logged_state_and_no_wishes(chapter, agent):
    agent.enqueue("third")
    agent.history.note("wish", "x")
    agent.session.fork()
    assert not agent.queue and not agent.history.notes


@pytest.mark.parametrize("run", ["0", "-1", "1.5", "3", "99"])
def test_X02_what_is_no_boundary_is_refused_before_a_child_exists(chapter, agent, run):
    parent, before = agent.session.id, sorted(folder(chapter).iterdir())
    command(agent, f"/fork {run}")
    assert "give a number from 1 to 2" in notices(chapter)[-1]
    assert (agent.session.id, sorted(folder(chapter).iterdir())) == (parent, before)


def test_X02_inside_an_open_run_a_fork_is_refused_with_a_reason(chapter, agent, another):
    cut_after(agent, "usage", 2)
    again = another()
    command(again, f"/fork {agent.session.id} 2")
    assert "Run 2 has not ended" in notices(chapter)[-1] and again.session.id == ""
    command(again, f"/fork {agent.session.id}")
    assert "1 run;" in notices(chapter)[-1] and again.history.messages == agent.history.messages[:4]


def test_X02_an_id_that_is_taken_is_refused_before_the_boundary_is_looked_at(chapter, agent, monkeypatch):
    # There a child id can be chosen by whoever forks. Here ids are made; that one is never used twice holds all the same.
    monkeypatch.setattr(chapter.load("session"), "new_id", lambda: agent.session.id)
    with pytest.raises(chapter.load("session_log").SessionError) as raised:
        agent.session.fork("", 99)
    assert raised.value.kind == "exists"


def test_there_must_be_something_to_fork(chapter, another):
    agent = another()
    command(agent, "/fork")
    command(agent, "/resume")
    assert ["no earlier session" in text for text in notices(chapter)] == [True, True]


def test_a_choice_that_waits_is_no_state_and_comes_back_in_no_session(chapter, agent, disk, another):
    """Plan mode keeps what took effect. What could not be kept has not, and is tried again at the next request."""
    if not chapter.has("plan_mode"):
        return  # the same is tested with any state, above and below
    plan = agent.restores["plan_mode"].__self__
    command(agent, "/plan")
    assert lines(agent.session)[-1]["value"] == {"active": True}
    agent.on(chapter.load("hooks").AfterModel, lambda event: plan.choose(False))
    chapter.run(agent, "third")
    agent.session.fork()
    assert (plan.active, plan.pending) == (True, None)
    disk.full = ("state",)
    plan.choose(False)
    assert (plan.active, plan.pending) == (True, False)
    disk.full = ()
    chapter.run(agent, "third")
    assert plan.active is False
    agent.session.close()
    again = another()
    again.session.resume()
    assert again.restores["plan_mode"].__self__.active is False


# What cannot be written.


class Disk:
    """Stands in for os.write of the log: it can be full, for all records or for those of some types."""

    def __init__(self, monkeypatch, chapter):
        self.full, self.write = (), os.write
        monkeypatch.setattr(chapter.load("session_log").os, "write", self)

    def __call__(self, file, data):
        if any(f'"type": "{kind}"'.encode() in data for kind in self.full):
            raise OSError(28, "No space left on device")
        return self.write(file, data)


@pytest.fixture
def disk(monkeypatch, chapter):
    return Disk(monkeypatch, chapter)


def test_state_that_cannot_be_kept_is_not_believed_to_be(chapter, agent, disk):
    disk.full = ("state",)
    assert [agent.changed("mode", True), agent.changed("mode", True)] == [False, False]
    assert [text for text in notices(chapter) if "mode could not be kept" in text and "No space" in text] == notices(chapter)[-1:]
    disk.full = ()
    assert agent.changed("mode", True) is True
    assert chapter.run(agent, "third").reason == "end_turn"
    assert "hole" not in kinds(agent.session)


def test_a_state_that_nobody_tried_to_keep_again_leaves_a_hole_that_is_known(chapter, agent, disk):
    disk.full = ("state",)
    agent.changed("mode", True)
    chapter.run(agent, "third")
    assert [record for record in records(agent.session) if record["type"] == "hole"][0]["missing"] == ["mode"]
    assert kinds(agent.session).count("hole") == 1
    assert not chapter.load("folds").past(records(agent.session)).is_whole


def test_a_message_that_cannot_be_kept_ends_the_log_and_is_said_once(chapter, agent, disk, another):
    disk.full = ("message", "hole")
    before = lines(agent.session)
    assert chapter.run(agent, "third").reason == "end_turn"
    warned = [text for text in notices(chapter) if "not kept any more" in text]
    assert len(warned) == 1 and "No space left on device" in warned[0]
    disk.full = ("hole",)
    chapter.run(agent, "third")
    assert agent.changed("mode", True) is True, "nobody keeps it, so nobody need wait"
    assert [record["type"] for record in lines(agent.session)[len(before) :]] == []
    disk.full = ()
    chapter.run(agent, "third")
    chapter.run(agent, "third")
    assert [record["type"] for record in lines(agent.session)[len(before) :]] == ["hole"], "it must not pass for whole"
    command(agent, "/fork")
    assert "a copy would lack its last part" in notices(chapter)[-1]
    agent.session.close()
    again = another()
    again.session.resume()
    assert "not all of it could be kept" in notices(chapter)[-1] and len(again.history.messages) == 8
    assert [text for text in notices(chapter) if "It goes on" in text] == warned


@pytest.mark.parametrize("kind", ["begun", "usage", "run_ended"])
def test_each_record_counts(chapter, agent, disk, kind):
    disk.full = (kind,)
    chapter.run(agent, "second")
    assert "not kept any more" in notices(chapter)[-1]
    assert kinds(agent.session)[-1] == "hole"


def test_a_folder_that_cannot_be_made_stops_nobody(chapter, another):
    (chapter.workspace / ".harness").write_text("in the way", "utf-8")
    agent = another()
    assert chapter.run(agent, "first").reason == "end_turn"
    assert len([text for text in notices(chapter) if "not kept any more" in text]) == 1
    for line in ("/sessions", "/resume", "/fork", "/resume x"):
        command(agent, line)
    assert agent.session.id == ""


def test_the_model_does_not_write_the_log_that_it_is_kept_in(chapter, monkeypatch):
    monkeypatch.setattr(chapter.load("recorder"), "new_id", lambda: "known")
    log, other = ".harness/sessions/known.jsonl", ".harness/sessions/other.jsonl"
    agent = chapter.agent(
        talk(
            "forge",
            Step(calls=[Call("write_file", path="mine.txt", content="x")]),  # "always", says the person
            Step(calls=[Call("write_file", path=log, content="{}"), Call("write_file", path=other, content="{}")]),
            Step(calls=[Call("edit_file", path=log, old_text="forge", new_text="x"), Call("read_file", path=log)]),
            Step("Done."),
        ),
        ask=lambda question: "a",
    )
    assert chapter.run(agent, "forge").text == "Done." and agent.session.is_kept
    blocks = [block for message in agent.history.messages for block in message["content"]]
    flags = [block.get("is_error", False) for block in blocks if block["type"] == "tool_result"]
    assert flags == [False, True, True, True, False]
    assert records(agent.session)[-1]["type"] == "run_ended" and len(os.listdir(folder(chapter))) == 1
    agent.session.close()


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_log_that_is_not_at_its_place_any_more_is_not_written_on_in_silence(chapter, another, how):
    if os.name == "nt":
        return  # there an open file stays where it is
    agent = another()
    chapter.run(agent, "first")
    path = agent.session.log.path
    if how == "moved":
        path.parent.rename(path.parent.with_name("elsewhere"))
    else:
        path.unlink()
    if how == "replaced":
        path.write_text("{}\n", "utf-8")
    assert chapter.run(agent, "second").reason == "end_turn" and not agent.session.is_kept
    told = [text for text in notices(chapter) if "not kept any more" in text]
    assert len(told) == 1 and "was moved, replaced or removed by somebody else" in told[0]


def test_another_session_can_be_taken_up_where_this_one_was_lost(chapter, agent, disk, another):
    agent.session.close()
    other = another()
    disk.full = ("message",)
    chapter.run(other, "first")
    disk.full = ()
    other.session.resume(agent.session.id)
    assert chapter.run(other, "third").reason == "end_turn" and kinds(other.session)[-1] == "run_ended"


# Ctrl-C where it hurts.


def test_an_interrupt_while_the_run_ends_is_made_up_for_at_the_next_prompt(chapter, agent):
    once = [True]

    def interrupt(event):
        if once and once.pop():
            raise KeyboardInterrupt

    agent.on(chapter.load("hooks").RunEnd, interrupt)
    with pytest.raises(KeyboardInterrupt):
        chapter.run(agent, "third")
    assert kinds(agent.session)[-1] == "usage"
    assert chapter.run(agent, "third").reason == "end_turn"
    ends = [record["reason"] for record in records(agent.session) if record["type"] == "run_ended"]
    assert ends == ["end_turn", "end_turn", "interrupted", "end_turn"]


def test_what_ctrl_c_kept_from_the_log_is_made_up_for_when_the_run_ends(chapter, agent, monkeypatch):
    log, written = agent.session.log, type(agent.session.log).append

    def interrupted(kind, **data):
        if kind == "message" and data["role"] == "assistant":
            raise KeyboardInterrupt
        written(log, kind, **data)

    monkeypatch.setattr(log, "append", interrupted)
    assert chapter.run(agent, "second").reason == "interrupted"
    assert kinds(agent.session)[-2:] == ["replaced", "run_ended"]
    assert chapter.load("folds").messages(records(agent.session)) == agent.history.messages
    assert chapter.load("folds").mended(agent.history.messages) == agent.history.messages


# Who asks for what was.


def test_others_can_read_this_session_and_the_one_before(chapter, agent, another):
    agent.session.close()
    again = another()
    assert list(again.session.earlier(chapter.workspace)) == records(agent.session)
    chapter.run(again, "first")
    assert list(again.session.earlier(chapter.workspace)) == records(agent.session)
    assert records(again.session)[0]["id"] == again.session.id


def test_the_list_names_what_there_is(chapter, agent):
    parent = agent.session.id
    agent.session.fork("", 1)
    chapter.run(agent, "third")
    chapter.shown.clear()
    command(agent, "/sessions")
    assert [data["text"] for _, data in chapter.shown] == [
        f"    {agent.session.id}  2 runs, the last one: “third”, a copy of {parent} <- this one",
        f"    {parent}  2 runs, the last one: “second”",
        f"  [session: 2 in {chapter.workspace.resolve()}]",
    ]


@pytest.mark.parametrize(("length", "shown"), [(60, "x" * 60), (61, "x" * 59 + "…")])
def test_a_long_prompt_is_cut_in_the_list(chapter, agent, length, shown):
    agent.history.add("user", [{"type": "text", "text": "x" * length}])
    command(agent, "/sessions")
    assert any(f"“{shown}”" in data["text"] for kind, data in chapter.shown if kind == "notice")


def test_a_long_list_is_cut(chapter, agent, monkeypatch):
    monkeypatch.setattr(chapter.load("session"), "LISTED", 1)
    agent.session.fork()
    agent.changed("x", 1)
    chapter.shown.clear()
    command(agent, "/sessions")
    assert len(chapter.shown) == 2 and "2 in " in notices(chapter)[-1] and "1 older ones are not shown" in notices(chapter)[-1]


# The program.


@pytest.fixture
def program(chapter, monkeypatch, capsys):
    """Return ``program(*arguments)``: run the chapter's main in the workspace; returns exit status, stdout, stderr."""
    main = importlib.import_module(f"{chapter.name}.__main__")
    import signal

    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))}
    monkeypatch.chdir(chapter.workspace.parent)

    def program(*arguments):
        monkeypatch.setattr(sys, "argv", [chapter.name, "--workdir", str(chapter.workspace), *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True))
        status = main.main()
        out, err = (getattr(sys, name).buffer.getvalue().decode() for name in ("stdout", "stderr"))
        return status, out, err

    yield program
    for number, handler in kept.items():
        signal.signal(number, handler)


def runs(chapter):
    """Return the number of runs of each session there is, the oldest first."""
    log, folds = chapter.load("session_log"), chapter.load("folds")
    return [folds.past(log.read(path)).runs for path in sorted(log.found(folder(chapter)), key=lambda path: path.stat().st_ino)]


def test_the_program_goes_on_forks_and_lists(chapter, program):
    assert program("hello")[0] == 0
    assert program("--continue", "hello again")[0] == 0
    assert runs(chapter) == [2]
    assert program("--continue", "--fork", "and again")[0] == 0
    assert sorted(runs(chapter)) == [2, 3]
    name = min(folder(chapter).iterdir(), key=lambda path: path.stat().st_size).stem
    assert program("--resume", name, "more")[0] == 0
    assert runs(chapter) == [3, 3]
    assert program("--fork", "hello")[0] == 0
    assert sorted(runs(chapter)) == [3, 3, 4]
    status, out, err = program("--sessions")
    assert status == 0 and out.count("runs, the last one") == 3 and len(list(folder(chapter).iterdir())) == 3


def test_the_program_says_what_it_cannot_do(chapter, program):
    for arguments in (["--continue"], ["--fork"], ["--resume", "nope"]):
        status, out, err = program(*arguments, "hello")
        assert status == 1 and "Traceback" not in err
        assert re.search(r"There is no (earlier session|session 'nope') in .*--workdir DIR", err)
    assert not folder(chapter).exists()
    program("hello")
    name = next(folder(chapter).iterdir()).stem
    held = chapter.load("session_log").Log(folder(chapter) / f"{name}.jsonl")
    status, out, err = program("--resume", name, "hello")
    assert status == 1 and f"The session {name} is open elsewhere" in err and "--fork" in err
    assert program("--resume", name, "--fork", "hello")[0] == 0
    held.close()


def test_a_name_that_is_empty_is_an_unset_variable_and_begins_no_session(chapter, program):
    for name in ("", " "):
        with pytest.raises(SystemExit) as ended:
            program("--resume", name, "hello")
        said = sys.stderr.buffer.getvalue().decode()
        assert ended.value.code == 2 and "name a session: it is empty, is a variable unset?" in said
    assert not folder(chapter).exists()


@pytest.mark.parametrize("line", ["/resume", "/resume nope", "/fork", "/fork -1"])
def test_a_command_that_could_not_be_done_is_no_success(chapter, program, line):
    status, out, err = program(line)
    assert status == 1 and "[session: There is no" in err
    assert program("hello")[0] == 0 and program("/sessions")[0] == 0 and program("/resume")[0] == 0


def test_a_folder_of_sessions_that_leads_elsewhere_is_said_with_one_full_stop(chapter, program, tmp_path):
    try:
        (chapter.workspace / ".harness").symlink_to(tmp_path, target_is_directory=True)
    except OSError:
        return  # Windows lets not everybody make one
    status, out, err = program("--sessions")
    assert status == 1 and "follows a symbolic link that leads out of the workspace: stay inside it" in out + err
    status, out, err = program("--continue", "hello")
    assert status == 1 and ".." not in err.splitlines()[-1]


def test_the_program_lets_its_session_go_when_it_ends(chapter, program):
    program("hello")
    chapter.load("session_log").Log(next(folder(chapter).iterdir())).close()


def test_what_the_harness_keeps_does_not_make_a_scratch_workspace_worth_keeping(chapter, agent):
    contents = importlib.import_module(f"{chapter.name}.__main__").contents
    (chapter.workspace / "work.txt").write_text("x", "utf-8")
    assert {path.name for path in contents(chapter.workspace)} == {"work.txt", "canary"}
