"""The loop: every stop reason has its branch, and whatever happens, the next request is a valid one.

Each test talks to the offline model, whose referee refuses a crooked history as the real API does.
"""

from __future__ import annotations

import os
import threading
import time

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Step

AFTER = talk("and now?", Step("All is well."))

def still_works(chapter, agent):
    """The conversation can go on: the referee takes the history."""
    outcome = chapter.run(agent, "and now?")
    assert (outcome.reason, outcome.text) == ("end_turn", "All is well."), outcome

def results(agent):
    return [b for m in agent.history.messages for b in m["content"] if b["type"] == "tool_result"]

def test_runs_tools_until_the_model_calls_none(chapter):
    agent = chapter.agent(
        talk(
            "go",
            Step("Looking.", calls=[Call("bash", command="echo one")]),
            Step(calls=[Call("bash", command="echo two"), Call("bash", command="exit 3")]),
            Step("Done."),
        ),
        AFTER,
    )
    outcome = chapter.run(agent, "go")
    assert (outcome.text, outcome.reason, outcome.turns, outcome.detail) == ("Done.", "end_turn", 3, "")
    assert [block["content"] for block in results(agent)] == [
        "one\n[exit status 0]",
        "two\n[exit status 0]",
        "[exit status 3]",
    ]
    assert [m["role"] for m in agent.history.messages] == ["user", "assistant"] * 3

    still_works(chapter, agent)
    assert agent.model.script.problems == []

def test_the_history_is_an_append_only_prefix(chapter):
    agent = chapter.agent(talk("go", *[Step(calls=[Call("bash", command=f"echo {n}")]) for n in range(4)], Step("Done.")))
    chapter.run(agent, "go")
    bodies = [record.body for record in agent.model.script.requests]
    for earlier, later in zip(bodies, bodies[1:]):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        assert {k: v for k, v in earlier.items() if k != "messages"} == {k: v for k, v in later.items() if k != "messages"}

def test_a_reply_cut_in_the_middle_of_a_call_is_not_run(chapter):
    cut = Step("I write.", calls=[Call("bash", command="touch canary")], stop_reason="max_tokens")
    agent = chapter.bare(chapter.agent(talk("go", cut), AFTER))
    outcome = chapter.run(agent, "go")
    assert outcome.reason == "max_tokens"
    assert "cut off" in outcome.detail
    assert not (chapter.workspace / "canary").exists()
    assert [block.get("is_error") for block in results(agent)] == [True]
    still_works(chapter, agent)

def test_a_refusal_ends_the_run(chapter):
    agent = chapter.agent(talk("go", Step("No.", stop_reason="refusal")), AFTER)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text) == ("refusal", "No.")
    assert outcome.detail
    still_works(chapter, agent)

def test_a_refusal_with_a_call_does_not_run_it(chapter):
    agent = chapter.agent(talk("go", Step("No.", calls=[Call("bash", command="touch canary")], stop_reason="refusal")), AFTER)
    assert chapter.run(agent, "go").reason == "refusal"
    assert not (chapter.workspace / "canary").exists()
    still_works(chapter, agent)

def test_a_full_context_window_ends_the_run(chapter):
    agent = chapter.agent(talk("go", Step("So far", stop_reason="model_context_window_exceeded")), AFTER)
    assert chapter.run(agent, "go").reason == "context_window"
    still_works(chapter, agent)

def test_a_pause_is_sent_again(chapter):
    agent = chapter.agent(talk("go", Step("Wait.", stop_reason="pause_turn"), Step("Done.")), AFTER)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text, outcome.turns) == ("end_turn", "Done.", 2)
    still_works(chapter, agent)

def test_a_stop_sequence_is_an_end(chapter):
    agent = chapter.agent(talk("go", Step("Here.", stop_reason="stop_sequence")), AFTER)
    assert chapter.run(agent, "go").reason == "end_turn"
    still_works(chapter, agent)

def test_an_empty_answer_after_results_gets_one_please_go_on(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="echo x")]), Step("", unless="was empty"), Step("Done.")), AFTER)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text, outcome.turns) == ("end_turn", "Done.", 3)
    still_works(chapter, agent)

def test_but_only_one(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="echo x")]), Step(""), Step("")), AFTER)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text, outcome.turns) == ("end_turn", "", 3)
    still_works(chapter, agent)

def test_an_empty_first_answer_is_an_end(chapter):
    agent = chapter.agent(talk("go", Step("")), AFTER)
    assert chapter.run(agent, "go").reason == "end_turn"
    still_works(chapter, agent)

def test_a_loop_without_end_is_stopped(chapter):
    agent = chapter.agent(talk("go", *[Step(calls=[Call("bash", command="echo x")]) for _ in range(5)]), AFTER)
    agent.max_turns = 3
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.turns) == ("max_turns", 3)
    assert "go on" in outcome.detail
    still_works(chapter, agent)

@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused_and_leaves_no_trace(chapter, prompt):
    agent = chapter.agent(AFTER)
    outcome = chapter.run(agent, prompt)
    assert (outcome.reason, outcome.turns) == ("blocked", 0)
    assert "say what to do" in outcome.detail
    assert agent.history.messages == []
    still_works(chapter, agent)

def test_lone_surrogates_do_not_break_a_request(chapter):
    agent = chapter.agent(talk("x?", Step(calls=[Call("bash", command="printf '\\377\\376'")]), Step("Done.")), AFTER)
    assert chapter.run(agent, "x\ud800").reason == "end_turn"
    still_works(chapter, agent)

@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (Call("bash", cmd="touch canary"), "command"),
        (Call("bash", command=3), "command"),
        (Call("bash"), "command"),
        (Call("bash", command="touch canary", timeout="soon"), "timeout"),
        (Call("rocket", command="touch canary"), "bash"),
    ],
)
def test_wrong_calls_are_errors_that_tell_what_to_do(chapter, call, hint):
    agent = chapter.agent(talk("go", Step(calls=[call, Call("bash", command="echo fine")]), Step("Done.")), AFTER)
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.detail) == ("end_turn", "")
    wrong, right = results(agent)
    assert wrong.get("is_error") and hint in wrong["content"]
    assert right["content"] == "fine\n[exit status 0]"
    assert not (chapter.workspace / "canary").exists()
    still_works(chapter, agent)

def test_a_stream_that_breaks_off_is_no_answer(chapter):
    agent = chapter.bare(chapter.agent(talk("go", Step("A long answer that is never finished.", breaks_after=10)), AFTER))
    outcome = chapter.run(agent, "go")
    assert outcome.reason == "error" and "again" in outcome.detail
    assert [m["role"] for m in agent.history.messages] == ["user"]
    still_works(chapter, agent)

def test_an_error_of_the_server_ends_the_run_with_one_line(chapter):
    fault = Fault(status=400, error="invalid_request_error", message="no such luck")
    agent = chapter.agent(talk("go", Step("never", fault=fault, extra=True)), AFTER)
    outcome = chapter.run(agent, "go")
    assert outcome.reason == "error" and "no such luck" in outcome.detail and "\n" not in outcome.detail
    still_works(chapter, agent)

def test_one_run_at_a_time(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="sleep 0.3")]), Step("Done.")), AFTER)
    outcomes = []
    first = threading.Thread(target=lambda: outcomes.append(chapter.run(agent, "go")))
    first.start()
    while not agent.running:
        time.sleep(0.001)
    second = chapter.run(agent, "and now?")
    assert second.reason == "blocked" and "wait" in second.detail
    first.join()
    assert outcomes[0].reason == "end_turn" and not agent.running
    still_works(chapter, agent)

def test_two_agents_do_not_see_each_other(chapter):
    one, two = (chapter.agent(talk("go", Step(f"I am {name}.")), AFTER) for name in ("one", "two"))
    assert chapter.run(one, "go").text == "I am one."
    assert two.history.messages == []
    assert chapter.run(two, "go").text == "I am two."
    assert len(one.history.messages) == 2

# --- Ctrl-C ---------------------------------------------------------------------------------------------------------

def interrupt_when(chapter, agent, kind):
    """Make the next thing of this kind that is shown raise KeyboardInterrupt, as Ctrl-C does in the main thread."""
    show = agent.show

    def interrupting(shown, **data):
        show(shown, **data)
        if shown == kind:
            agent.show = show
            raise KeyboardInterrupt

    agent.show = interrupting

def test_ctrl_c_in_a_reply_drops_it_and_the_next_prompt_says_so(chapter):
    agent = chapter.agent(talk("go", Step("A long answer, and then the rest of it.")), AFTER)
    interrupt_when(chapter, agent, "text")
    outcome = chapter.run(agent, "go")
    assert (outcome.reason, outcome.text) == ("interrupted", "")
    assert [m["role"] for m in agent.history.messages] == ["user"]
    still_works(chapter, agent)
    sent = agent.history.messages[0]["content"]
    assert [block["text"] for block in sent[:1]] == ["go"]
    assert any("interrupted" in block["text"] for block in sent)

def test_ctrl_c_before_a_call_is_begun(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="touch canary"), Call("bash", command="touch canary")])), AFTER)
    interrupt_when(chapter, agent, "tool_call")
    assert chapter.run(agent, "go").reason == "interrupted"
    assert not (chapter.workspace / "canary").exists()
    assert all("Not started" in block["content"] for block in results(agent)) and len(results(agent)) == 2
    still_works(chapter, agent)

def test_ctrl_c_in_a_command(chapter):
    """The finished call keeps its result, the running one is unknown, and the last was never started."""
    agent = chapter.agent(
        talk(
            "go",
            Step(
                calls=[
                    Call("bash", command="echo first"),
                    Call("bash", command="touch begun; sleep 5; touch canary"),
                    Call("bash", command="touch canary"),
                ]
            ),
        ),
        AFTER,
    )

    def press():
        while not (chapter.workspace / "begun").exists():
            time.sleep(0.005)
        # A real signal, so that the waiting main thread wakes up as it does at a terminal.
        os.kill(os.getpid(), 2) if os.name == "posix" else __import__("_thread").interrupt_main()

    threading.Thread(target=press, daemon=True).start()
    started = time.monotonic()
    outcome = chapter.run(agent, "go")
    assert outcome.reason == "interrupted"
    assert time.monotonic() - started < 4, "the command was waited for"
    first, second, third = (block["content"] for block in results(agent))
    assert [first.split("\n")[0], "unknown" in second, "Not started" in third] == ["first", True, True]
    still_works(chapter, agent)
    assert not (chapter.workspace / "canary").exists()
