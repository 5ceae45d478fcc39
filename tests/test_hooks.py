"""Hooks act by the fields of their event, verdicts only get stricter, and a hook that fails opens no door."""

from __future__ import annotations

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Step

AFTER = talk("and now?", Step("All is well."))


def results(agent):
    return [b for m in agent.history.messages for b in m["content"] if b["type"] == "tool_result"]


def texts(agent):
    return [b["text"] for m in agent.history.messages if m["role"] == "user" for b in m["content"] if b["type"] == "text"]


def watch(chapter, agent):
    """Return the list into which the name of each event is written as it fires."""
    hooks, seen = chapter.load("hooks"), []
    for event in hooks.Event.__subclasses__():
        agent.on(event, lambda fired: seen.append(type(fired).__name__))
    return seen


def test_the_events_of_a_run_in_order(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="echo x")]), Step("Done.")))
    seen = watch(chapter, agent)
    chapter.run(agent, "go")
    core = "UserPromptSubmit BeforeModel AfterModel PreToolUse PostToolUse BeforeModel AfterModel Stop RunEnd"
    assert [name for name in seen if name in core] == core.split()


def test_hooks_run_in_the_order_in_which_they_came(load):
    hooks = load("hooks")
    table, seen = hooks.Hooks(), []
    for name in "abc":
        table.on(hooks.RunEnd, lambda event, name=name: seen.append(name))
    table.fire(hooks.RunEnd(None, None))
    assert seen == ["a", "b", "c"]


def test_a_hook_may_come_while_hooks_run(load):
    hooks = load("hooks")
    table, seen = hooks.Hooks(), []
    table.on(hooks.RunEnd, lambda event: table.on(hooks.RunEnd, lambda event: seen.append("later")))
    table.fire(hooks.RunEnd(None, None))
    assert seen == []
    table.fire(hooks.RunEnd(None, None))
    assert seen == ["later"]


@pytest.mark.parametrize("first", ["allow", "ask", "deny"])
@pytest.mark.parametrize("second", ["allow", "ask", "deny"])
def test_a_verdict_only_gets_stricter(load, first, second):
    event = load("hooks").PreToolUse(None, {})
    event.decide(first, "first")
    event.decide(second, "second")
    order = ["allow", "ask", "deny"]
    assert event.verdict == max(first, second, key=order.index)
    assert event.reason == ("second" if order.index(second) > order.index(first) else "first")


def test_a_word_that_is_no_verdict_is_an_error(load):
    with pytest.raises(ValueError):
        load("hooks").PreToolUse(None, {}).decide("perhaps")


# --- prompts --------------------------------------------------------------------------------------------------------


def test_a_prompt_can_be_refused_and_leaves_no_trace(chapter):
    agent = chapter.agent(AFTER)
    hooks = chapter.load("hooks")

    def refuse(event):
        if event.prompt == "go":
            event.refused = "Not now: wait for the others."

    agent.on(hooks.UserPromptSubmit, refuse)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.turns, outcome.detail) == ("blocked", 0, "Not now: wait for the others.")
    assert agent.history.messages == []
    assert chapter.run(agent, "and now?").reason == "end_turn"


def test_a_prompt_gets_context_and_the_hook_knows_who_speaks(chapter):
    agent = chapter.agent(talk("go", Step("Done.")))
    hooks, sources = chapter.load("hooks"), []

    def add(event):
        sources.append(event.source)
        event.context.append("It is Monday.")

    agent.on(hooks.UserPromptSubmit, add)
    chapter.load("loop").run(agent, "go", source="autopilot")
    assert sources == ["autopilot"]
    prompt, reminder = texts(agent)
    assert prompt == "go" and reminder.startswith("<system-reminder>\n") and "\nIt is Monday.\n" in reminder


# --- tools ----------------------------------------------------------------------------------------------------------


def one_call(chapter, command="touch made", ask=lambda question: "y"):
    return chapter.agent(talk("go", Step(calls=[Call("bash", command=command)]), Step("Done.")), AFTER, ask=ask)


def test_a_denied_call_does_not_run_and_nobody_is_asked(chapter):
    asked = []
    agent = one_call(chapter, ask=lambda question: asked.append(question) or "y")
    hooks = chapter.load("hooks")
    agent.on(hooks.PreToolUse, lambda event: event.decide("deny", "Use write_file instead."))
    seen = watch(chapter, agent)
    assert chapter.run(agent, "go").text == "Done."
    assert results(agent)[0].get("is_error") and "Use write_file instead." in results(agent)[0]["content"]
    assert not (chapter.workspace / "made").exists()
    assert asked == [] and "PostToolUse" not in seen
    assert chapter.run(agent, "and now?").reason == "end_turn"


def test_a_denial_without_a_reason_still_says_something(chapter):
    agent = one_call(chapter)
    agent.on(chapter.load("hooks").PreToolUse, lambda event: event.decide("deny"))
    chapter.run(agent, "go")
    assert results(agent)[0]["content"].strip() != "(no output)"


def test_allow_skips_the_question(chapter):
    asked = []
    agent = one_call(chapter, ask=lambda question: asked.append(question) or "n")
    agent.on(chapter.load("hooks").PreToolUse, lambda event: event.decide("allow"))
    chapter.run(agent, "go")
    assert asked == [] and (chapter.workspace / "made").exists()


def test_ask_asks_about_what_a_rule_allows(chapter):
    asked = []
    agent = one_call(chapter, command="ls", ask=lambda question: asked.append(question) or "n")
    agent.on(chapter.load("hooks").PreToolUse, lambda event: event.decide("ask", "It is late."))
    chapter.run(agent, "go")
    assert len(asked) == 1 and "It is late." in asked[0] and results(agent)[0].get("is_error")


def test_a_hook_that_fails_before_a_tool_refuses_the_call(chapter):
    agent = one_call(chapter)

    def broken(event):
        raise KeyError("oops")

    agent.on(chapter.load("hooks").PreToolUse, broken)
    assert chapter.run(agent, "go").text == "Done."
    assert results(agent)[0].get("is_error") and "broken" in results(agent)[0]["content"]
    assert not (chapter.workspace / "made").exists()


def test_a_hook_may_replace_what_runs_but_not_what_was_said(chapter):
    agent = one_call(chapter, command="touch one")

    def replace(event):
        event.call = {**event.call, "input": {"command": "touch two"}}

    agent.on(chapter.load("hooks").PreToolUse, replace)
    chapter.run(agent, "go")
    assert (chapter.workspace / "two").exists() and not (chapter.workspace / "one").exists()
    said = [b for m in agent.history.messages for b in m["content"] if b["type"] == "tool_use"]
    assert said[0]["input"] == {"command": "touch one"}


def test_what_a_hook_puts_in_is_checked_like_any_argument(chapter):
    agent = one_call(chapter)
    agent.on(chapter.load("hooks").PreToolUse, lambda event: setattr(event, "call", {**event.call, "input": {"cmd": "x"}}))
    chapter.run(agent, "go")
    assert results(agent)[0].get("is_error") and "command" in results(agent)[0]["content"]


def test_context_of_hooks_stands_behind_the_results_in_one_block(chapter):
    agent = one_call(chapter)
    hooks = chapter.load("hooks")
    agent.on(hooks.PreToolUse, lambda event: event.context.append("before"))
    agent.on(hooks.PostToolUse, lambda event: event.context.append(f"after {event.facts['exit_status']}"))
    chapter.run(agent, "go")
    kinds = [block["type"] for block in agent.history.messages[2]["content"]]
    assert kinds == ["tool_result", "text"]
    assert "before" in texts(agent)[-1] and "after 0" in texts(agent)[-1]


def test_invalid_and_unknown_calls_reach_no_hook(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("rocket"), Call("bash", cmd="x")]), Step("Done.")))
    seen = watch(chapter, agent)
    chapter.run(agent, "go")
    assert "PreToolUse" not in seen and "PostToolUse" not in seen


def test_post_tool_use_sees_errors_too(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("read_file", path="nowhere")]), Step("Done.")))
    seen = []
    agent.on(chapter.load("hooks").PostToolUse, lambda event: seen.append((event.call["name"], event.is_error)))
    chapter.run(agent, "go")
    assert seen == [("read_file", True)]


# --- requests, ends -------------------------------------------------------------------------------------------------


def test_a_hook_may_change_the_request(chapter):
    agent = chapter.agent(talk("go", Step("Done.")))

    def hide(event):
        event.request["tools"] = [tool for tool in event.request["tools"] if tool["name"] != "bash"]

    agent.on(chapter.load("hooks").BeforeModel, hide)
    chapter.run(agent, "go")
    assert "bash" not in [tool["name"] for tool in agent.model.script.requests[-1].body["tools"]]
    assert "bash" in agent.tools


def test_a_note_left_before_the_request_goes_out_with_it(chapter):
    agent = chapter.agent(talk("go", Step("Done.")))
    agent.on(chapter.load("hooks").BeforeModel, lambda event: event.agent.history.note("mode", "Plan first."))
    chapter.run(agent, "go")
    assert "Plan first." in str(agent.model.script.requests[-1].body["messages"][-1])


def test_any_other_hook_that_fails_is_reported_and_the_run_goes_on(chapter):
    hooks = chapter.load("hooks")
    agent = one_call(chapter)
    for event in (hooks.UserPromptSubmit, hooks.BeforeModel, hooks.AfterModel, hooks.PostToolUse, hooks.Stop, hooks.RunEnd):
        agent.on(event, lambda event: 1 / 0)
    assert chapter.run(agent, "go").reason == "end_turn"
    told = [data["text"] for kind, data in chapter.shown if kind == "notice" and "ZeroDivisionError" in data["text"]]
    assert len(told) == 8


def test_objections_go_back_in_one_message(chapter):
    agent = chapter.agent(talk("go", Step("Done."), Step("Now it is.")), AFTER)
    hooks = chapter.load("hooks")
    for words in ("The tests fail.", "The docs are old."):
        agent.on(hooks.Stop, lambda event, words=words: event.forced or event.objections.append(words))
    outcome = chapter.run(agent, "go")
    assert (outcome.text, outcome.turns) == ("Now it is.", 2)
    assert [m["role"] for m in agent.history.messages] == ["user", "assistant"] * 2
    assert texts(agent)[-1] == "<system-reminder>\nThe tests fail.\n\nThe docs are old.\n</system-reminder>"
    assert chapter.run(agent, "and now?").reason == "end_turn"


def test_a_gate_that_is_never_content_is_capped_and_tools_do_not_reset_the_cap(chapter):
    steps = []
    for number in range(9):
        steps += [Step(f"Done {number}."), Step(calls=[Call("bash", command=f"echo {number}")])]
    agent = chapter.agent(talk("go", *steps), AFTER)
    forced = []

    def never(event):
        forced.append(event.forced)
        event.objections.append("Not good enough.")

    agent.on(chapter.load("hooks").Stop, never)
    outcome = chapter.run(agent, "go")
    assert outcome.reason == "stop_limit" and "Not good enough." in outcome.detail
    assert forced == list(range(agent.max_forced + 1)) == list(range(9))
    agent.hooks.table.clear()
    assert chapter.run(agent, "and now?").reason == "end_turn"


def test_stop_fires_for_a_cut_reply_with_its_reason(chapter):
    agent = chapter.agent(
        talk("go", Step("Half a", calls=[Call("bash", command="touch made")], stop_reason="max_tokens"), Step("Whole.")), AFTER
    )
    reasons = []

    def continue_it(event):
        reasons.append(event.reason)
        if event.reason == "max_tokens":
            event.objections.append("Continue where you stopped.")

    agent.on(chapter.load("hooks").Stop, continue_it)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text, reasons) == ("end_turn", "Whole.", ["max_tokens", "end_turn"])
    assert not (chapter.workspace / "made").exists()
    assert chapter.run(agent, "and now?").reason == "end_turn"


def test_a_hook_can_end_the_run_once_the_results_are_in(chapter):
    agent = one_call(chapter)

    def halt(event):
        event.agent.halt = "A person is needed."

    agent.on(chapter.load("hooks").PostToolUse, halt)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.detail, outcome.turns) == ("halted", "A person is needed.", 1)
    assert len(results(agent)) == 1
    agent.hooks.table.clear()
    assert chapter.run(agent, "and now?").reason == "end_turn"


@pytest.mark.parametrize(
    "step", [Step("No.", stop_reason="refusal"), Step("x", fault=Fault(status=400), extra=True), Step("x", breaks_after=0, extra=True)]
)
def test_run_end_fires_on_every_way_out(chapter, step):
    agent = chapter.agent(talk("go", step), AFTER)
    seen = []
    agent.on(chapter.load("hooks").RunEnd, lambda event: seen.append(event.outcome.reason))
    reason = chapter.run(agent, "go").reason
    assert seen == [reason]
    chapter.run(agent, "and now?")
    assert seen == [reason, "end_turn"]


def test_sections_come_in_order_and_empty_ones_stay_out(chapter):
    agent = chapter.agent()
    before = [block["text"] for block in agent.request()["system"]]
    agent.add_section("late", "the end", order=99)
    agent.add_section("early", "the beginning", order=-1)
    agent.add_section("silent", "")
    assert [block["text"] for block in agent.request()["system"]] == ["the beginning", *before, "the end"]
    agent.add_section("late", "another end", order=99)
    assert agent.request()["system"][-1]["text"] == "another end"


# --- what later mechanisms hang on -----------------------------------------------------------------------------------


def has_commands(chapter):
    """Whether the chapter has late hooks, commands and a queue: they come with the first mechanism that needs them."""
    return hasattr(chapter.load("agent").Agent, "enqueue")


def test_late_hooks_run_after_all_others(load):
    hooks = load("hooks")
    table, seen = hooks.Hooks(), []
    if not hasattr(table, "late"):
        return
    for name, last in (("a", False), ("late", True), ("b", False), ("later", True), ("c", False)):
        table.on(hooks.RunEnd, lambda event, name=name: seen.append(name), last=last)
    table.fire(hooks.RunEnd(None, None))
    assert seen == ["a", "b", "c", "late", "later"]


def test_a_late_hook_sees_that_somebody_has_ended_the_run(chapter):
    if not has_commands(chapter):
        return
    agent, seen = chapter.agent(talk("go", Step("Never.", extra=True))), []
    hooks = chapter.load("hooks")
    agent.on(hooks.BeforeModel, lambda event: seen.append(event.agent.halt), last=True)
    agent.on(hooks.BeforeModel, lambda event: setattr(event.agent, "halt", "enough"))
    assert chapter.run(agent, "go").reason == "halted"
    assert seen == ["enough"]


def test_whoever_announces_state_learns_whether_it_was_kept(chapter):
    if not has_commands(chapter):
        return
    agent, heard = chapter.agent(), []
    changed = chapter.load("hooks").StateChanged
    assert agent.changed("x", 1) is True
    agent.on(changed, lambda event: heard.append((event.name, event.value)))
    assert agent.changed("x", 2) is True
    agent.on(changed, lambda event: setattr(event, "kept", event.name != "full"))
    assert (agent.changed("x", 3), agent.changed("full", 4)) == (True, False)
    agent.on(changed, lambda event: 1 / 0)
    assert agent.changed("x", 5) is False
    assert [value for _, value in heard] == [2, 3, 4, 5]
    assert "ZeroDivisionError" in chapter.shown[-1][1]["text"]


def test_commands_and_what_waits_are_the_agents_own(chapter):
    if not has_commands(chapter):
        return
    agent, other, typed = chapter.agent(), chapter.agent(), []
    agent.command("try", "tries it", typed.append)
    help, function = agent.commands["try"]
    function("this")
    agent.enqueue("first")
    agent.enqueue("second", "autopilot")
    assert (help, typed, list(agent.queue)) == ("tries it", ["this"], [("first", "person"), ("second", "autopilot")])
    assert "try" not in other.commands and not other.queue
