"""Command hooks: other people's programs are called and heard as their protocol says, and none can take the session down.

The hooks here are small real programs, run with the Python of the tests. They print, sleep, or touch a canary.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import talk
from test_shell import POSIX

from offline_model.script import Call
from offline_model.script import Step

LONG = 60  # seconds that a hook sleeps that must be ended; no test waits for it
RECORD = "import sys; open('told.jsonl', 'a').write(sys.stdin.read())"


class Scripts:
    """Makes hooks out of Python code, and an agent that has them."""

    def __init__(self, load, folder):
        self.load, self.folder, self.groups = load, folder, {}

    def add(self, event, code, matcher=None, **more):
        """Call ``code`` at ``event``. Returns the command."""
        path = self.folder / f"hook{len(list(self.folder.glob('hook*.py')))}.py"
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        command = f'"{sys.executable}" -I -S "{path}"'.replace("\\", "/")
        group = {"hooks": [{"type": "command", "command": command, **more}]}
        self.groups.setdefault(event, []).append(group | ({"matcher": matcher} if matcher is not None else {}))
        return command

    def says(self, event, answer=None, status=0, errors="", **more):
        """Answer with ``answer``: text, or an object that goes out as JSON; in an object, the event is filled in."""
        if isinstance(answer, dict):
            if "hookSpecificOutput" in answer:
                answer["hookSpecificOutput"] = {"hookEventName": event, **answer["hookSpecificOutput"]}
            answer = json.dumps(answer)
        code = f"import sys; print({answer or ''!r}, end=''); print({errors!r}, end='', file=sys.stderr); sys.exit({status})"
        return self.add(event, code, **more)

    def hooks(self):
        return self.load("hook_settings").parse(self.groups)[0]

    def install(self, agent, **policy):
        return self.load("command_hooks").install(agent, hooks=self.hooks(), **policy)


@pytest.fixture
def scripts(chapter, tmp_path):
    return Scripts(chapter.load, tmp_path)


def told(chapter):
    """Return what hooks were told: the payloads that RECORD wrote."""
    path = chapter.workspace / "told.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def results(agent):
    """Return the tool results in the history."""
    blocks = [block for message in agent.history.messages for block in message["content"]]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


def sent(agent):
    """Return all that was sent as text: prompts and notes."""
    messages = [message for message in agent.history.messages if message["role"] == "user"]
    return "\n".join(block["text"] for message in messages for block in message["content"] if block["type"] == "text")


def notices(chapter):
    return "\n".join(data["text"] for kind, data in chapter.shown if kind == "notice")


def write(path="canary", content="x"):
    return Call("write_file", path=path, content=content)


# Which hooks are meant.


@pytest.mark.parametrize(
    "matcher, hits",
    {
        "Bash": True,
        "Write|Bash": True,
        "Write, Bash": True,
        "Bash|": True,
        "Ba.*": True,
        "^Bash$": True,
        ".*": True,
        "*": True,
        "": True,
        "bash": False,
        "Bas": False,
        "Write|Edit": False,
        "Bash-2": False,
    }.items(),
)
def test_a_matcher_is_a_list_of_names_or_else_a_regular_expression(load, matcher, hits):
    hook = load("hook_settings").Hook("PreToolUse", "x", matcher)
    assert hook.matches(("Bash",)) is hits


def test_matchers_of_servers_need_the_whole_name(load):
    Hook = load("hook_settings").Hook
    name = ("mcp__clock__now",)
    assert [Hook("PreToolUse", "x", m).matches(name) for m in ("mcp__clock__now", "mcp__clock__.*", "mcp__clock")] == [True, True, False]
    told = load("hook_settings").parse({"PreToolUse": [{"matcher": "mcp__clock", "hooks": []}]})[1]
    assert "mcp__clock__.*" in told[0]


@pytest.mark.parametrize("matcher", ["Task", "Agent"])
def test_the_subagent_tool_has_two_names(load, matcher):
    names = load("hook_names").names_of("task")
    assert load("hook_settings").Hook("PreToolUse", "x", matcher).matches(names) and names[-1] == "Agent"


def test_prompts_and_stops_have_nothing_to_match(load):
    Hook = load("hook_settings").Hook
    assert Hook("Stop", "x", "Bash").matches(()) and Hook("UserPromptSubmit", "x", "nothing").matches(())
    assert not Hook("SessionStart", "x", "resume").matches(("startup",))


def test_what_looks_like_a_slip_is_told(load):
    def lint(groups):
        return "\n".join(load("hook_settings").parse(groups)[1])

    def one(**more):
        return {"hooks": [{"type": "command", "command": "x", **more}]}

    assert "'Bash' meant" in lint({"PreToolUse": [{"matcher": "bash", **one()}]})
    assert "'Write' meant" in lint({"PreToolUse": [{"matcher": "write_file|Read", **one()}]})
    assert "'startup' meant" in lint({"SessionStart": [{"matcher": "startups", **one()}]})
    assert "milliseconds" in lint({"Stop": [one(timeout=5000)]})
    assert "never called here" in lint({"Notification": [one()], "SubagentStop": [one()]})
    assert "nobody is woken" in lint({"Stop": [one(asyncRewake=True)]})
    assert lint({"PreToolUse": [{"matcher": "Bash|mcp__a__b|memory_read", **one()}], "PreCompact": [{"matcher": "*", **one()}]}) == ""


def test_keys_of_others_are_let_pass_and_limits_have_defaults(load):
    entry = {"type": "command", "command": "x", "commandWindows": "y", "statusMessage": "z", "once": True}
    hooks, told = load("hook_settings").parse({"Stop": [{"hooks": [entry], "description": "d"}], "UserPromptSubmit": [{"hooks": [entry]}]})
    assert [hook.timeout for hook in hooks] == [600, 30] and told == []


def test_a_script_that_is_not_there_is_told_at_the_start(chapter, scripts):
    group = [{"hooks": [{"type": "command", "command": each} for each in ("./guard.sh --all", "python3 no/such.py", "echo a/b", "[ -f x/y ]")]}]
    scripts.groups = {"PreToolUse": group, "Stop": [{"hooks": [{"type": "command", "command": "no/such", "args": ["a b"]}]}]}
    scripts.install(chapter.agent())
    assert [name in notices(chapter) for name in ("./guard.sh is not", "no/such.py is not", "no/such is not", "a/b", "x/y")] == [
        True,
        True,
        True,
        False,
        False,
    ]


# How an answer is read. The columns: event, status, output, errors; then what comes of it.


def specific(event, **fields):
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})


ANSWERS = {
    "silence": ("PreToolUse", 0, "", "", {}),
    "plain text": ("UserPromptSubmit", 0, " hello\n", "", {"plain": "hello"}),
    "a list is plain": ("UserPromptSubmit", 0, "[1]", "", {"plain": "[1]"}),
    "JSON and text is plain": ("PreToolUse", 0, '{"decision": "block"}\nbye', "", {"trouble": "not alone"}),
    "a banner before JSON": ("PreToolUse", 0, 'hi\n{"decision": "block"}', "", {"trouble": "not alone"}),
    "broken JSON": ("PreToolUse", 0, '{"decision": "block"', "", {"trouble": "broken"}),
    "too deep": ("PreToolUse", 0, '{"a":' * 100_000, "", {"trouble": "broken"}),
    "status 2": ("PreToolUse", 2, "not this", "no!", {"verdict": "deny", "reason": "[guard]: no!"}),
    "status 2 without words": ("Stop", 2, "", "", {"verdict": "deny", "reason": "without a reason"}),
    "status 2 beats allow": ("PreToolUse", 2, specific("PreToolUse", permissionDecision="allow"), "no", {"verdict": "deny", "reason": "no"}),
    "status 2 with a JSON reason": ("Stop", 2, '{"decision": "block", "reason": "json"}', "err", {"verdict": "deny", "reason": "json"}),
    "status 2 with broken JSON": ("PreToolUse", 2, '{"decision": 5}', "no", {"verdict": "deny", "reason": "no", "trouble": "decision"}),
    "status 2 cannot block a start": ("SessionStart", 2, "x", "no", {"trouble": "with status 2: no"}),
    "status 1 decides nothing": ("PreToolUse", 1, "no", "Traceback", {"trouble": "with status 1: Traceback"}),
    "status 1 drops plain text": ("UserPromptSubmit", 1, "text", "", {"trouble": "with status 1"}),
    "status 127": ("PreToolUse", 127, "", "jq: not found", {"trouble": "(the command was not found): jq: not found"}),
    "death": ("PreToolUse", -9, "", "", {"trouble": "by the signal"}),
    "status 1 with JSON": ("PreToolUse", 1, specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="r"), "", {"verdict": "deny", "reason": "r"}),
    "allow": ("PreToolUse", 0, specific("PreToolUse", permissionDecision="allow"), "", {"verdict": "allow"}),
    "ask": ("PreToolUse", 0, specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="r"), "", {"verdict": "ask", "reason": "r"}),
    "defer": ("PreToolUse", 0, specific("PreToolUse", permissionDecision="defer"), "", {"verdict": "ask"}),
    "the old block": ("PreToolUse", 0, '{"decision": "block", "reason": "r"}', "", {"verdict": "deny", "reason": "r"}),
    "the old approve": ("PreToolUse", 0, '{"decision": "approve"}', "", {"verdict": "allow"}),
    "approve means nothing elsewhere": ("Stop", 0, '{"decision": "approve"}', "", {}),
    "a block without a reason": ("Stop", 0, '{"decision": "block"}', "", {"verdict": "deny", "reason": "without a reason"}),
    "another word": ("PreToolUse", 0, '{"decision": "reject"}', "", {"trouble": "decision"}),
    "another event": ("PreToolUse", 0, specific("Stop", permissionDecision="deny"), "", {"trouble": '"hookEventName": "PreToolUse"'}),
    "no event": ("PreToolUse", 0, '{"hookSpecificOutput": {"permissionDecision": "deny"}}', "", {"trouble": "hookEventName"}),
    "a decision of another kind": ("PreToolUse", 0, specific("PreToolUse", permissionDecision="no"), "", {"trouble": "permissionDecision"}),
    "a decision that is a list": ("PreToolUse", 0, '{"decision": ["block"]}', "", {"trouble": "decision"}),
    "an input that is a text": ("PreToolUse", 0, specific("PreToolUse", updatedInput="x"), "", {"trouble": "updatedInput"}),
    "context": ("PostToolUse", 0, specific("PostToolUse", additionalContext="c"), "", {"context": "c"}),
    "context at the top": ("PostToolUse", 0, '{"additionalContext": "c"}', "", {}),
    "context before a compaction": ("PreCompact", 0, specific("PreCompact", additionalContext="c"), "", {"trouble": "PreCompact"}),
    "context that is a number": ("Stop", 0, specific("Stop", additionalContext=3), "", {"trouble": "additionalContext"}),
    "the end": ("PostToolUse", 0, '{"continue": false, "stopReason": "s"}', "", {"halt": "s"}),
    "the end without words": ("PostToolUse", 0, '{"continue": false}', "", {"halt": "ended the run"}),
    "continue that is a text": ("PostToolUse", 0, '{"continue": "false"}', "", {"trouble": "continue"}),
    "a message": ("Stop", 0, '{"systemMessage": "m", "unknown": 1}', "", {"message": "m"}),
    "in the background": ("Stop", 0, '{"async": true, "decision": "block"}', "", {}),
    "another output": ("PostToolUse", 0, specific("PostToolUse", updatedToolOutput="x"), "", {"trouble": "updatedToolOutput"}),
}


@pytest.mark.parametrize("event, status, output, errors, comes", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_as_the_protocol_says(load, event, status, output, errors, comes):
    programs, settings = load("hook_programs"), load("hook_settings")
    answer = programs.read(settings.Hook(event, "guard"), programs.Ran(status, output, errors))
    for name in ("verdict", "reason", "context", "plain", "halt", "message", "trouble"):
        if name == "plain" and "trouble" in comes:
            continue
        assert comes.get(name, "") in getattr(answer, name)
        assert bool(getattr(answer, name)) is (name in comes), name
    assert answer.updated_input is None


# Before a call.


def test_a_hook_is_told_of_the_call_and_can_refuse_it(chapter, scripts):
    scripts.add("PreToolUse", RECORD + "; print('the reason', file=sys.stderr); sys.exit(2)", "Write")
    agent = chapter.agent(talk("Go.", Step(calls=[write()]), Step(text="Done.")))
    scripts.install(agent, session_id=lambda: "s-1", mode=lambda: "plan")
    assert chapter.run(agent, "Go.").reason == "end_turn"
    assert not (chapter.workspace / "canary").exists()
    [result], [payload] = results(agent), told(chapter)
    assert result.endswith(": the reason") and "hook0.py" in result

    transcript = Path(payload.pop("transcript_path"))
    rows = [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]
    assert [row["type"] for row in rows] == ["user", "assistant"] and rows[0]["message"]["content"][0]["text"] == "Go."
    assert payload.pop("tool_use_id") == rows[1]["message"]["content"][-1]["id"]
    assert payload == {
        "session_id": "s-1",
        "cwd": str(chapter.workspace),
        "hook_event_name": "PreToolUse",
        "permission_mode": "plan",
        "tool_name": "Write",
        "tool_input": {"file_path": str(chapter.workspace / "canary"), "content": "x"},
    }


def test_a_hook_that_is_not_meant_is_not_called(chapter, scripts):
    scripts.add("PreToolUse", "open('called', 'w')", "Edit|Bash")
    agent = chapter.agent(talk("Go.", Step(calls=[write(), Call("no_such_tool"), Call("write_file", path=5)]), Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert (chapter.workspace / "canary").exists() and not (chapter.workspace / "called").exists()


@pytest.mark.parametrize("decision, rule, runs, asked", [("allow", "", True, 0), ("allow", "deny", False, 0), ("ask", "allow", False, 1), ("", "", False, 1)])
def test_an_allow_skips_the_question_and_never_a_deny_rule(chapter, scripts, decision, rule, runs, asked):
    questions = []
    if decision:
        scripts.says("PreToolUse", {"hookSpecificOutput": {"permissionDecision": decision, "permissionDecisionReason": "look here"}})
    agent = chapter.agent(talk("Go.", Step(calls=[write()]), Step(text="Done.")), ask=lambda q: questions.append(q) or "n")
    if rule:
        Rules = chapter.load("rules").Rules
        chapter.load("permissions").install(agent, ask=agent.permissions.ask, rules=Rules(**{rule: ("write_file",)}))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert (chapter.workspace / "canary").exists() is runs and len(questions) == asked
    assert decision != "ask" or "look here" in questions[0]


def test_the_strictest_wins_and_all_of_them_run(chapter, scripts):
    for n, decision in enumerate(("allow", "deny", "ask")):
        said = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": decision, "additionalContext": f"c{n}"}})
        scripts.add("PreToolUse", f"open('ran{n}', 'w'); print({said!r})")
    agent = chapter.agent(talk("Go.", Step(calls=[write()]), Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert results(agent) == ["deny"] and len(list(chapter.workspace.glob("ran*"))) == 3
    assert [f"write_file: c{n}" in sent(agent) for n in range(3)] == [True] * 3


def test_an_input_can_be_replaced_and_the_history_keeps_the_models_own(chapter, scripts):
    new = {"file_path": str(chapter.workspace / "other"), "content": "new"}
    scripts.says("PreToolUse", {"hookSpecificOutput": {"updatedInput": {"file_path": "lost", "content": ""}}})
    scripts.says("PreToolUse", {"hookSpecificOutput": {"updatedInput": new}})
    agent = chapter.agent(talk("Go.", Step(calls=[write()]), Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert (chapter.workspace / "other").read_text() == "new" and not (chapter.workspace / "canary").exists()
    assert agent.history.messages[1]["content"][-1]["input"]["path"] == "canary"


def test_a_replaced_input_is_checked_like_any(chapter, scripts):
    scripts.says("PreToolUse", {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"file_path": "canary"}}})
    agent = chapter.agent(talk("Go.", Step(calls=[write()]), Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert "needs the argument 'content'" in results(agent)[0]


def test_plan_mode_judges_what_a_hook_has_put_in_the_place_of_a_call(chapter, scripts):
    scripts.says("PreToolUse", {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "touch canary"}}})
    agent = chapter.agent(talk("Go.", Step(calls=[Call("bash", command="ls")]), Step(text="Done.")))
    scripts.install(agent)
    agent.commands["plan"][1]("")
    chapter.run(agent, "Go.")
    assert "plan mode is on" in results(agent)[0] and not (chapter.workspace / "canary").exists()


@pytest.mark.parametrize("also, runs", [({}, True), ({"hookSpecificOutput": {"permissionDecision": "deny"}}, False)])
def test_a_hook_can_end_the_run_once_the_results_are_in(chapter, scripts, also, runs):
    scripts.says("PreToolUse", {"continue": False, "stopReason": "enough", **also})
    agent = chapter.agent(talk("Go.", Step(calls=[write()])))
    scripts.install(agent)
    outcome = chapter.run(agent, "Go.")
    assert (outcome.reason, outcome.detail) == ("halted", "enough")
    assert (chapter.workspace / "canary").exists() is runs and len(results(agent)) == 1


@pytest.mark.parametrize(
    "condition, command, called",
    [("Bash(git *)", "git status", True), ("Bash(git *)", "ls && git status", True), ("Bash(git *)", "ls", False), ("Bash", "ls", True), ("Write(*.py)", "ls", False)],
)
def test_a_condition_narrows_a_hook(load, tmp_path, condition, command, called):
    settings, tools = load("hook_settings"), load("tools")
    [hook], _ = settings.parse({"PreToolUse": [{"hooks": [{"type": "command", "command": "x", "if": condition}]}]})
    agent = SimpleNamespace(workspace=tmp_path, tools={"bash": tools.Tool("bash", "", {}, None)})
    assert settings.is_met(hook, agent, {"name": "bash", "input": {"command": command}}) is called


# After a call.


def test_after_a_call_hooks_see_the_result_and_speak_to_the_model(chapter, scripts):
    scripts.add("PostToolUse", RECORD + "; print('unseen')", "Write|Bash")
    scripts.says("PostToolUse", errors="format it", status=2, matcher="Write")
    scripts.says("PostToolUse", {"decision": "block", "reason": "run the tests", "hookSpecificOutput": {"additionalContext": "context"}}, matcher="Write")
    agent = chapter.agent(talk("Go.", Step(calls=[write(), Call("bash", command="echo hello")]), Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    first, second = told(chapter)
    assert first["tool_response"] == {"type": "create", "filePath": "canary", "content": "x"}
    assert (second["tool_name"], second["tool_response"]["stdout"]) == ("Bash", "hello\n")
    assert [words in sent(agent) for words in ("format it", "run the tests", "context", "unseen")] == [True, True, True, False]


def test_a_command_that_fails_is_another_event(chapter, scripts):
    scripts.add("PostToolUse", RECORD)
    scripts.add("PostToolUseFailure", RECORD)
    agent = chapter.agent(talk("Go.", Step(calls=[Call("bash", command="echo oh; exit 3"), Call("read_file", path="none")]), Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    first, second = told(chapter)
    assert {each["hook_event_name"] for each in (first, second)} == {"PostToolUseFailure"}
    assert first["error"].startswith("Exit code 3\noh") and "does not exist" in second["error"] and "tool_response" not in first


def test_every_tool_is_told_in_their_words_and_taken_back(chapter):
    names = chapter.load("hook_names")
    agent = chapter.agent()
    place = chapter.workspace
    inputs = {
        "bash": ({"command": "ls", "timeout": 5}, {"command": "ls", "timeout": 5000}),
        "read_file": ({"path": "a", "offset": 2, "limit": 3}, {"file_path": str(place / "a"), "offset": 2, "limit": 3}),
        "write_file": ({"path": "a", "content": "c"}, {"file_path": str(place / "a"), "content": "c"}),
        "edit_file": (
            {"path": "a", "old_text": "o", "new_text": "n"},
            {"file_path": str(place / "a"), "old_string": "o", "new_string": "n", "replace_all": False},
        ),
        "glob": ({"pattern": "*", "path": "src"}, {"pattern": "*", "path": "src"}),
        "grep": ({"pattern": "x", "ignore_case": True}, {"pattern": "x", "-i": True}),
        "todo_write": (
            {"todos": [{"content": "c", "status": "pending"}]},
            {"todos": [{"content": "c", "status": "pending", "activeForm": "c"}]},
        ),
        "load_skill": ({"name": "n"}, {"skill": "n"}),
        "exit_plan_mode": ({"plan": "# p"}, {"plan": "# p"}),
        "task": ({"description": "d", "prompt": "p"}, {"description": "d", "prompt": "p", "subagent_type": "general-purpose"}),
        "mcp__clock__now": ({"path": "a", "zone": "UTC"}, {"path": "a", "zone": "UTC"}),
    }
    assert set(names.THEIRS) <= set(inputs)
    for name, (ours, theirs) in inputs.items():
        schema = agent.tools[name].schema if name in agent.tools else {"properties": dict(ours, agent={})}
        assert names.their_input(name, ours, place) == theirs
        back = names.our_input(name, theirs, schema)
        assert back == (ours | {"path": str(place / "a")} if "file_path" in theirs else ours), name
        assert json.dumps(names.their_result(name, ours, "text", {}))
    assert names.our_input("bash", {"command": "x", "description": "d"}, agent.tools["bash"].schema) == {"command": "x"}
    kept = names.our_input("edit_file", {"file_path": "a", "replace_all": True}, agent.tools["edit_file"].schema)
    assert kept["replace_all"] is True, "what cannot be done is refused by name, and not left out"


# Prompts, stops, starts, compactions.


def test_a_prompt_can_be_refused_before_the_model_sees_it(chapter, scripts):
    scripts.add("UserPromptSubmit", RECORD + "; print('a key is in it', file=sys.stderr); sys.exit(2)", "ignored")
    agent = chapter.agent()
    scripts.install(agent)
    outcome = chapter.run(agent, "Go.")
    assert outcome.reason == "blocked" and "a key is in it" in outcome.detail and agent.history.messages == []
    assert told(chapter)[0]["prompt"] == "Go." and "tool_name" not in told(chapter)[0]


def test_a_hook_can_end_the_run_at_the_prompt(chapter, scripts):
    scripts.says("UserPromptSubmit", {"continue": False, "stopReason": "not today"})
    agent = chapter.agent()
    scripts.install(agent)
    assert (chapter.run(agent, "Go.").detail, agent.history.messages) == ("not today", [])


def test_plain_text_and_context_go_beside_the_prompt(chapter, scripts):
    scripts.says("UserPromptSubmit", "the branch is main")
    scripts.says("UserPromptSubmit", {"hookSpecificOutput": {"additionalContext": "it is late"}, "systemMessage": "for you alone"})
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert "the branch is main" in sent(agent) and "it is late" in sent(agent)
    assert "for you alone" in notices(chapter) and "for you alone" not in sent(agent)


def test_what_is_too_long_is_cut_and_kept_in_a_file(chapter, scripts):
    scripts.says("UserPromptSubmit", "x" * 300 + "end")
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent, context_chars=100)
    chapter.run(agent, "Go.")
    assert "x" * 101 not in sent(agent) and "[cut here: all of it (303 characters) is in .harness/hooks/" in sent(agent)
    [path] = (chapter.workspace / ".harness" / "hooks").glob("*output.txt")
    assert path.read_text().endswith("end")


def test_a_stop_hook_sends_the_model_on_once(chapter, scripts):
    gate = """
    import json, sys
    told = json.load(sys.stdin)
    open('told.jsonl', 'a').write(json.dumps(told) + '\\n')
    if not told['stop_hook_active']:
        print(json.dumps({'decision': 'block', 'reason': 'Run the tests.'}))
    """
    scripts.add("Stop", gate)
    agent = chapter.agent(
        talk("Go.", Step(text="Done."), Step(text="Now really.")), talk("Again.", Step(text="Done."), Step(text="Now really."))
    )
    scripts.install(agent)
    assert chapter.run(agent, "Go.").text == "Now really."
    assert "A hook objects to stopping now: Run the tests." in sent(agent)
    assert [(each["stop_hook_active"], each["last_assistant_message"]) for each in told(chapter)] == [(False, "Done."), (True, "Now really.")]
    chapter.run(agent, "Again.")
    assert [each["stop_hook_active"] for each in told(chapter)] == [False, True] * 2, "the next run begins anew"


def test_a_stop_hook_that_is_never_content_is_overruled(chapter, scripts):
    scripts.says("Stop", {"hookSpecificOutput": {"additionalContext": "not yet"}})
    agent = chapter.agent(talk("Go.", *[Step(text=f"Done {n}.") for n in range(4)]))
    agent.max_forced = 3
    scripts.install(agent)
    outcome = chapter.run(agent, "Go.")
    assert outcome.reason == "stop_limit" and "not yet" in outcome.detail and outcome.turns == 4


def test_at_the_stop_the_end_beats_an_objection(chapter, scripts):
    scripts.says("Stop", {"decision": "block", "reason": "go on"})
    scripts.says("Stop", {"continue": False, "stopReason": "enough"})
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent)
    assert (chapter.run(agent, "Go.").reason, agent.history.messages[-1]["role"]) == ("halted", "assistant")


def test_while_somebody_else_objects_it_does_not_stop_yet(chapter, scripts):
    scripts.add("Stop", RECORD)
    agent = chapter.agent(talk("Go.", Step(text="Done."), Step(text="Now."), Step(text="cut", stop_reason="max_tokens")))
    events = chapter.load("hooks")
    agent.on(events.Stop, lambda event: event.objections.append("tests") if not event.forced else None)
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert [each["last_assistant_message"] for each in told(chapter)] == ["Now."]


def test_a_start_brings_context_with_the_first_prompt(chapter, scripts):
    scripts.add("SessionStart", RECORD + "; print('open issues: 3')", "startup|resume")
    scripts.says("SessionStart", "not this", matcher="clear")
    scripts.says("SessionStart", "not counted", status=2, errors="for the person")
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent)
    agent.fire(chapter.load("hooks").SessionStart(agent, "startup"))
    chapter.run(agent, "Go.")
    assert "open issues: 3" in sent(agent) and "not this" not in sent(agent) and "not counted" not in sent(agent)
    assert "for the person" in notices(chapter) and told(chapter)[0]["source"] == "startup"


def test_a_compaction_can_be_refused_or_told_what_to_keep(chapter, scripts):
    refuse = "import os; print('not now', file=sys.stderr); sys.exit(2) if os.path.exists('refuse') else print('keep the plan')"
    scripts.add("PreCompact", RECORD + "; " + refuse, "*")
    scripts.says("SessionStart", "after it", matcher="compact")
    agent = chapter.agent(talk("Go.", Step(text="Done. " * 400)), talk("More.", Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    chapter.run(agent, "More.")
    asked, reply = [], chapter.load("model").Reply
    agent.side_call = lambda request: asked.append(request) or reply([{"type": "text", "text": "All done."}], "end_turn", {}, "m")
    (chapter.workspace / "refuse").touch()
    before = list(agent.history.messages)
    agent.commands["compact"][1]("the names")
    assert asked == [] and agent.history.messages == before and "not now" in notices(chapter)
    (chapter.workspace / "refuse").unlink()
    agent.commands["compact"][1]("the names")
    assert asked[0]["messages"][-1]["content"][-1]["text"].endswith("the names\nkeep the plan")
    assert [(each["trigger"], each["custom_instructions"]) for each in told(chapter)] == [("manual", "the names")] * 2
    assert "after it" in [note.text for note in agent.history.notes]


# How they run.


@pytest.fixture
def programs(load, tmp_path):
    return load("hook_programs").Programs(tmp_path)


def ask(load, programs, *codes, **more):
    """Run pieces of Python as hooks. Returns their answers."""
    Hook = load("hook_settings").Hook
    hooks = [Hook("UserPromptSubmit", sys.executable, args=("-I", "-S", "-c", code), **more) for code in codes]
    return programs.ask(hooks, {"a": "ü\ud800"}, dict(os.environ))


def test_hooks_run_side_by_side(load, programs):
    meet = "import os, sys, time\nopen('{}', 'w')\nwhile not os.path.exists('{}'): time.sleep(.01)\nprint('met')"
    answers = ask(load, programs, meet.format("a", "b"), meet.format("b", "a"), timeout=20)
    assert [answer.plain for answer in answers] == ["met", "met"], "one after the other, they never would"


def test_the_input_is_one_line_of_json_and_need_not_be_read(load, programs):
    [read] = ask(load, programs, "import sys, json; text = sys.stdin.buffer.read(); print(text.count(b'\\n'), json.loads(text)['a'] == '\\u00fc?')")
    assert read.plain == "1 True"
    Hook = load("hook_settings").Hook
    hook = Hook("Stop", sys.executable, args=("-I", "-S", "-c", "print('{}')"))
    [unread] = programs.ask([hook], {"a": "x" * 1_000_000}, dict(os.environ))
    assert unread.trouble == ""


def test_a_hook_that_hangs_is_ended_and_its_words_do_not_count(load, programs, tmp_path):
    code = f"""
import subprocess, sys, time
print('{{"decision": "block"}}', flush=True)
subprocess.run([sys.executable, '-I', '-S', '-c', 'import time; open("child", "w"); time.sleep({LONG}); open("canary", "w")'])
"""
    started = time.monotonic()
    [answer] = ask(load, programs, code, timeout=1)
    assert time.monotonic() - started < LONG / 2
    assert answer.verdict == "" and "time was up (1 s)" in answer.trouble and programs.running == set()


def test_a_child_in_the_background_holds_nobody_up(load, programs):
    if not POSIX:
        return
    hook = load("hook_settings").Hook("UserPromptSubmit", "sleep 5 & echo hello")
    started = time.monotonic()
    [answer] = programs.ask([hook], {}, dict(os.environ))
    assert answer.plain == "hello" and time.monotonic() - started < 4


def test_output_without_end_is_cut_and_no_text_is_no_crash(load, programs, monkeypatch):
    monkeypatch.setattr(load("hook_programs"), "MAX_OUTPUT", 1_000)
    flood, rubbish = ask(load, programs, "print('x' * 3_000_000)", "import sys; sys.stdout.buffer.write(b'\\xff\\x00\\x1b')")
    assert len(flood.plain) == 1_000 and flood.trouble == ""
    assert "\ufffd" in rubbish.plain


def test_a_program_that_is_not_there_gives_no_verdict(load, programs):
    hook = load("hook_settings").Hook("PreToolUse", "no/such/program", args=())
    [answer] = programs.ask([hook], {}, dict(os.environ))
    assert answer.verdict == "" and "could not be run" in answer.trouble


def test_one_in_the_background_is_not_waited_for_and_can_be_ended(load, programs, tmp_path):
    code = f"import time; open('up', 'w'); time.sleep({LONG})"
    [answer] = ask(load, programs, code, in_background=True)
    give_up = time.monotonic() + 20
    while not (tmp_path / "up").exists():
        assert time.monotonic() < give_up
        time.sleep(0.01)
    [process] = programs.running
    assert answer.trouble == "" and process.poll() is None
    programs.stop()
    while programs.running:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_ctrl_c_ends_the_hooks_and_goes_through(load, programs, tmp_path):
    if not POSIX:
        return

    def interrupt():
        while not (tmp_path / "up").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask(load, programs, f"import time; open('up', 'w'); time.sleep({LONG})")
    while programs.running:
        assert time.monotonic() - started < LONG / 2
        time.sleep(0.01)


def test_equal_hooks_run_once_and_each_call_is_counted(chapter, scripts):
    command = scripts.says("UserPromptSubmit", "hello", status=1)
    scripts.groups["UserPromptSubmit"] += [{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert notices(chapter).count("It decides nothing") == 1
    chapter.shown.clear()
    agent.commands["hooks"][1]("")
    assert "(called 1 times, 1 without a verdict)" in notices(chapter)


def test_a_guard_that_has_fallen_over_is_told_and_the_rules_still_hold(chapter, scripts):
    scripts.add("PreToolUse", "raise SystemExit('no jq')")
    asked = []
    agent = chapter.agent(talk("Go.", Step(calls=[write()]), Step(text="Done.")), ask=lambda question: asked.append(question) or "y")
    scripts.install(agent)
    assert chapter.run(agent, "Go.").reason == "end_turn"
    assert len(asked) == 1 and "with status 1: no jq. It decides nothing" in notices(chapter)


def test_the_environment_says_where_the_project_is(chapter, scripts):
    code = "import os; print([os.environ.get(n) for n in ('CLAUDE_PROJECT_DIR', 'CLAUDECODE', 'CLAUDE_CODE_SESSION_ID')], os.getcwd())"
    scripts.add("UserPromptSubmit", code)
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent, session_id=lambda: "s-1")
    chapter.run(agent, "Go.")
    place = str(chapter.workspace)
    assert f"{[place, '1', 's-1']} {place}" in sent(agent)


def test_the_call_of_a_subagent_is_told_as_one_and_ends_only_its_run(chapter, scripts):
    scripts.add("PreToolUse", RECORD + "; print('{\"continue\": false, \"systemMessage\": \"seen\"}')")
    agent = chapter.agent()
    scripts.install(agent)
    child = SimpleNamespace(workspace=agent.workspace, tools=agent.tools, halt="", show=lambda kind, **data: None)
    agent.fire(chapter.load("hooks").PreToolUse(child, {"id": "1", "name": "bash", "input": {"command": "ls"}}))
    assert told(chapter)[0]["agent_type"] == "general-purpose" and child.halt and not agent.halt
    assert "seen" in notices(chapter)


def test_one_liners_for_sh_as_people_have_them(chapter, scripts):
    """In the manner of hooks in the field: parameter expansion, pipes, a fallback path, status 0 at the end."""
    if not POSIX:
        return
    line = """SD="${SKILL_FOLDER:-$HOME/none}/scripts"; [ -f "$SD/x.sh" ] && sh "$SD/x.sh"; PLAN=$(ls plan*.md 2>/dev/null | head -1); case $(uname -s) in *) [ -n "$PLAN" ] && head -1 "$PLAN";; esac; exit 0"""
    (chapter.workspace / "plan.md").write_text("# The plan\nmore", encoding="utf-8")
    scripts.groups = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": line}]}]}
    agent = chapter.agent(talk("Go.", Step(text="Done.")))
    scripts.install(agent)
    chapter.run(agent, "Go.")
    assert "# The plan" in sent(agent) and "more" not in sent(agent)
    assert notices(chapter).count("[hook") == 0
