"""Recovery: trouble is waited out, what is too long is made to fit, what was cut off goes on, and each of it ends.

Time is faked: a clock that moves when somebody sleeps. The model is a list of what it does, one entry a request.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from types import SimpleNamespace

import pytest
from conftest import talk

import offline_model
from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Step

NOON = 1_800_000_000.0  # seconds; an instant like any other
FAR = "Fri, 15 Jan 2027 08:00:30 GMT"  # thirty seconds later
FULL = "model_context_window_exceeded"
LONG = "So many words that it is worth something. " * 10


class Bench:
    """An agent with the ladders, a model that does what it is told, and a clock."""

    def __init__(self, load, tmp_path, **policy):
        self.load = load
        self.Reply, self.ModelError = load("model").Reply, load("errors").ModelError
        self.shown, self.sent, self.slept, self.now, self.queue = [], [], [], NOON, []
        self.name, self.extras, self.url, self.script = "first", {"cache_control": {"type": "ephemeral"}}, "http://x", None
        self.agent = load("agent").Agent(self.Asked(self), tmp_path, self.show)
        policy = {"sleep": self.sleep, "clock": lambda: self.now, "chance": lambda: 0.0, "fallback": "", **policy}
        self.recovery = load("recovery").install(self.agent, **policy)

    class Asked:
        """Stands for a Model: copied when another name is asked, it writes into the same book."""

        def __init__(self, bench):
            self.bench, self.name, self.extras = bench, bench.name, bench.extras

        def __call__(self, request, show):
            bench = self.bench
            bench.sent.append(json.loads(json.dumps(request)))
            if not bench.queue:
                raise AssertionError("the model was asked once more than expected")
            what = bench.queue.pop(0)
            if callable(what):
                what = what()
            if isinstance(what, BaseException):
                raise what
            for block in what.content:
                if block["type"] == "text":
                    show("text", text=block["text"])
            return what

    def show(self, kind, **data):
        self.shown.append((kind, data.get("text") or data.get("reason", "")))

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def says(self, text="Done.", stop_reason="end_turn", *more):
        content = ([{"type": "text", "text": text}] if text else []) + list(more)
        return self.Reply(content, stop_reason, {}, "some-server")

    def fails(self, status=None, kind="", said="no luck", **headers):
        return self.ModelError(said, status, kind, {name.replace("_", "-"): value for name, value in headers.items()})

    def run(self, *queue, prompt="go", source="person"):
        self.queue = list(queue)
        outcome = self.load("loop").run(self.agent, prompt, source)
        assert self.queue == [] or outcome.reason in ("error", "interrupted"), "not all of it was asked for"
        return outcome

    def call(self, *queue):
        """One call of the model, by all ladders. Returns the reply."""
        self.queue = list(queue)
        reply = self.agent.call_model(self.agent.request())
        assert self.queue == [], "not all of it was asked for"
        return reply

    def insist(self, *queue):
        """One call of the model, by the first ladder alone. Returns how it went, in the form of an outcome."""
        self.queue = list(queue)
        request = {**self.agent.request(), "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}]}
        try:
            reply = self.recovery.insist(self.recovery.ask, request)
        except self.ModelError as error:
            return SimpleNamespace(reason="error", text="", detail=str(error))
        assert self.queue == [], "not all of it was asked for"
        return SimpleNamespace(reason=reply.stop_reason, text=reply.text, detail="")

    def kinds(self, kind):
        return [text for shown, text in self.shown if shown == kind]

    @property
    def waited(self):
        return round(sum(self.slept), 6)

    def texts(self):
        return [b.get("text") for m in self.agent.history.messages for b in m["content"] if m["role"] == "assistant"]


@pytest.fixture
def bench(load, tmp_path):
    """Return ``bench(**policy)``."""
    return lambda **policy: Bench(load, tmp_path, **policy)


def thought(signature, text="Hm."):
    return {"type": "thinking", "thinking": text, "signature": signature}


def call(id_, command="touch canary"):
    return {"type": "tool_use", "id": id_, "name": "bash", "input": {"command": command}}


# The first ladder: trouble that passes


TRANSIENT = [
    (429, "rate_limit_error"), (500, "api_error"), (502, ""), (503, ""), (504, "timeout_error"), (529, "overloaded_error"), (529, ""),
    (408, ""), (409, ""), (None, "connection_error"), (None, "timeout_error"), (None, "broken_stream"), (200, "overloaded_error"),
    (200, "api_error"), (200, "rate_limit_error"),
]
LASTING = [
    (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"), (404, "not_found_error"), (402, "billing_error"),
    (422, ""), (400, "overloaded_error"), (200, "invalid_request_error"), (200, ""), (None, ""), (499, ""), (407, ""), (410, ""), (428, ""),
]


@pytest.mark.parametrize(("status", "kind"), TRANSIENT)
def test_trouble_that_passes_is_asked_again(bench, status, kind):
    b = bench()
    outcome = b.insist(b.fails(status, kind), b.says())
    assert (outcome.reason, outcome.text, len(b.sent)) == ("end_turn", "Done.", 2)
    assert b.sent[0] == b.sent[1]
    assert b.slept


@pytest.mark.parametrize(("status", "kind"), LASTING)
def test_what_cannot_heal_is_not_asked_again(bench, status, kind):
    b = bench(compact=lambda reason: True)
    outcome = b.insist(b.fails(status, kind, "no such luck"))
    assert (outcome.reason, outcome.detail, len(b.sent), b.slept) == ("error", "no such luck", 1, [])
    assert b.shown == []


def test_a_server_that_says_no_to_repeating_is_believed(bench):
    b = bench()
    assert b.insist(b.fails(503, x_should_retry="false")).reason == "error"
    assert b.insist(b.fails(503, x_should_retry="true"), b.says()).reason == "end_turn"


def test_waits_grow_twofold_up_to_a_bound_and_then_end(bench):
    b = bench(retries=5, first_wait=1.0, longest_wait=4.0)
    moments = []

    def failing():
        moments.append(b.now)
        return b.fails(500)

    assert b.insist(*[failing] * 6).detail == "no luck"
    assert [round(later - earlier, 3) for earlier, later in zip(moments, moments[1:])] == [1, 2, 4, 4, 4]


def test_after_thousands_of_failures_a_wait_is_still_a_number(bench):
    b = bench(retries=1100, longest_wait=0.001, patience=10.0)
    assert b.insist(*[b.fails(500)] * 1100, b.says()).reason == "end_turn"


def test_by_default_six_repetitions_in_half_a_minute(bench):
    b = bench()
    assert b.insist(*[b.fails(500)] * 7).reason == "error"
    assert (len(b.sent), b.waited) == (7, 31.5)


def test_part_of_each_wait_is_chance(bench):
    b = bench(chance=lambda: 1.0, first_wait=2.0)
    b.insist(b.fails(500), b.says())
    assert b.waited == 1.0
    b = bench(chance=lambda: 0.5, first_wait=2.0, jitter=0.2)
    b.insist(b.fails(500), b.says())
    assert b.waited == 1.8


def test_without_a_policy_time_and_chance_are_real(load, tmp_path):
    import random

    recovery = load("recovery").Recovery(None, None)
    assert (recovery.sleep, recovery.clock, recovery.chance) == (time.sleep, time.time, random.random)


def test_the_number_of_repetitions_is_counted_anew_in_each_call(bench):
    b = bench(retries=2)
    steps = [b.fails(500), b.fails(500), b.says("", "tool_use", call("t1", "true")), b.fails(500), b.fails(500), b.says()]
    assert b.run(*steps).text == "Done."
    assert len(b.sent) == 6


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "0"}, 0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after": "-3"}, 0),
        ({"retry_after": "60"}, 60),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": FAR}, 30),
        ({"retry_after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry_after": FAR, "date": "Fri, 15 Jan 2027 08:00:20 GMT"}, 10),
        ({"retry_after": "Thu, 14 Jan 2027 08:00:30 GMT", "date": "Thu, 14 Jan 2027 08:00:29 GMT"}, 1),
        ({"retry_after": "soon"}, 0.5),
        ({"retry_after": ""}, 0.5),
        ({"retry_after": "nan"}, 0.5),
        ({"retry_after": "inf"}, 0.5),
        ({"retry_after": FAR, "date": "today"}, 0.5),
        ({"retry_after_ms": "x", "retry_after": "2"}, 0.5),
    ],
)
def test_what_the_server_asks_to_wait_is_waited(bench, headers, seconds):
    b = bench()
    assert b.insist(b.fails(429, "rate_limit_error", **headers), b.says()).reason == "end_turn"
    assert b.waited == seconds


@pytest.mark.parametrize(
    ("said", "told"), [("61", "61 s"), ("119", "119 s"), ("3600", "60 minutes"), ("Fri, 15 Jan 2027 10:00:00 GMT", "120 minutes")]
)
def test_who_must_wait_too_long_is_told_instead(bench, said, told):
    b = bench()
    outcome = b.insist(b.fails(429, "rate_limit_error", "limits the rate", retry_after=said))
    assert outcome.reason == "error" and b.slept == []
    assert f"asks to wait {told}, " in outcome.detail and outcome.detail.endswith("limits the rate")
    assert "\n" not in outcome.detail


def test_all_waiting_together_is_bounded(bench):
    b = bench(retries=100, patience=100.0)
    outcome = b.insist(*[b.fails(429, "rate_limit_error", retry_after="40")] * 10)
    assert (outcome.reason, len(b.sent), b.waited) == ("error", 3, 80)


def test_time_that_the_repetitions_take_counts_too(bench):
    """A server that lets each request time out after minutes is not asked seven times."""
    b = bench()

    def silent():
        b.now += 600
        return b.fails(None, "timeout_error")

    b.insist(silent, silent, silent)
    assert len(b.sent) == 2


def test_a_long_answer_that_breaks_off_is_asked_again(bench):
    b = bench()

    def long():
        b.now += 900
        return b.fails(None, "broken_stream")

    assert b.insist(long, b.says()).reason == "end_turn"


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (529, "overloaded_error", "the model is overloaded"),
        (429, "rate_limit_error", "the rate is limited"),
        (None, "connection_error", "no connection"),
        (504, "timeout_error", "no answer in time"),
        (502, "", "the server is in trouble (502)"),
        (200, "api_error", None),
    ],
)
def test_each_wait_is_told_in_one_line(bench, status, kind, words):
    b = bench()
    b.insist(b.fails(status, kind, retry_after="3"), b.says())
    wanted = [f"  [{words}: asked again in 3 s]"] if words else []
    assert b.kinds("notice") == wanted
    assert len(b.kinds("discard")) == (not words)


@pytest.mark.parametrize(("seconds", "words"), [("0", "at once"), ("-3", "at once"), ("0.4", "in a moment"), ("1", "in 1 s"), ("12", "in 12 s")])
def test_how_long_is_told(bench, seconds, words):
    b = bench()
    b.insist(b.fails(500, retry_after=seconds), b.says())
    assert b.kinds("notice") == [f"  [the server is in trouble (500): asked again {words}]"]


@pytest.mark.parametrize(("status", "kind"), [(None, "broken_stream"), (200, "overloaded_error"), (200, "api_error")])
def test_what_was_said_before_it_broke_off_is_thrown_away_visibly(bench, status, kind):
    b = bench()

    def breaks():
        b.agent.show("text", text="Half an ans")
        return b.fails(status, kind)

    assert b.run(breaks, b.says("A whole answer.")).text == "A whole answer."
    assert [kind for kind, _ in b.shown] == ["text", "discard", "text"]
    assert b.texts() == ["A whole answer."]


def test_ctrl_c_ends_a_wait_at_once(bench, load):
    b = bench()

    def press(seconds):
        raise KeyboardInterrupt

    b.recovery.sleep = press
    outcome = b.run(b.fails(529, retry_after="50"), b.says())
    assert (outcome.reason, len(b.sent)) == ("interrupted", 1)
    assert b.run(b.says()).reason == "end_turn"
    assert [m["role"] for m in b.agent.history.messages] == ["user", "assistant"]


def test_a_wait_looks_up_often(bench):
    b = bench()
    b.insist(b.fails(529, retry_after="2"), b.says())
    assert max(b.slept) <= 0.1 and b.waited == 2


def test_whoever_ends_the_run_ends_the_wait(bench):
    b = bench()
    sleep = b.recovery.sleep

    def end(seconds):
        b.agent.halt = "It is enough."
        sleep(seconds)

    b.recovery.sleep = end
    b.run(b.fails(529, retry_after="50"))
    assert (len(b.sent), len(b.slept)) == (1, 1)


# The other model


def storm(b, number=3):
    return [b.fails(529, "overloaded_error")] * number


def test_repeated_overload_switches_once_and_says_so(bench):
    b = bench(fallback="second")
    assert b.run(*storm(b), b.says()).reason == "end_turn"
    assert [request["model"] for request in b.sent] == ["first"] * 3 + ["second"]
    rest = [{key: value for key, value in request.items() if key != "model"} for request in b.sent]
    assert rest == rest[:1] * 4
    assert b.kinds("discard") == []
    assert b.kinds("notice")[2:] == ["  [first is overloaded: until your next prompt second answers]"]
    assert b.waited == 1.5  # not before the first request to the other one


def test_an_overload_is_one_by_its_status_too(bench):
    b = bench(fallback="second")
    b.run(*[b.fails(529)] * 3, b.says())
    assert b.sent[-1]["model"] == "second"


def test_the_other_model_has_all_repetitions_of_its_own_and_then_it_ends(bench):
    b = bench(fallback="second", retries=4)
    assert b.insist(*storm(b, 3 + 5)).reason == "error"
    assert [request["model"] for request in b.sent] == ["first"] * 3 + ["second"] * 5
    assert b.waited == 1.5 + 7.5


def test_patience_does_not_begin_anew_at_the_switch(bench):
    b = bench(fallback="second")
    outcome = b.insist(*[b.fails(529, "overloaded_error", retry_after="60")] * 10)
    assert (outcome.reason, b.waited) == ("error", 180)
    assert [request["model"] for request in b.sent] == ["first"] * 3 + ["second"] * 2


def test_before_it_gives_up_it_switches(bench):
    b = bench(fallback="second", retries=2)
    assert b.insist(*storm(b), b.says()).reason == "end_turn"
    assert [request["model"] for request in b.sent] == ["first"] * 3 + ["second"]

    def late():
        b.now += 600
        return b.fails(529, "overloaded_error")

    b = bench(fallback="second")
    assert b.insist(*storm(b, 2), late, b.says()).reason == "end_turn"
    assert [request["model"] for request in b.sent] == ["first"] * 3 + ["second"]


def test_overloads_have_to_come_in_a_row(bench):
    b = bench(fallback="second")
    assert b.run(*storm(b, 2), b.fails(500), *storm(b, 2), b.says()).reason == "end_turn"
    assert {request["model"] for request in b.sent} == {"first"}


@pytest.mark.parametrize("fallback", ["", "first"])
def test_without_another_model_it_is_waited_on(bench, fallback):
    b = bench(fallback=fallback)
    assert b.run(*storm(b, 6), b.says()).reason == "end_turn"
    assert {request["model"] for request in b.sent} == {"first"}
    assert "until" not in str(b.shown)


def test_an_overload_in_the_middle_of_an_answer_counts_and_is_thrown_away(bench):
    b = bench(fallback="second", overloads=1)
    assert b.run(b.fails(200, "overloaded_error"), b.says()).reason == "end_turn"
    assert [kind for kind, _ in b.shown] == ["discard", "notice", "text"]
    assert b.sent[1]["model"] == "second"


def test_the_switch_holds_until_the_persons_next_prompt(bench):
    b = bench(fallback="second")
    b.run(*storm(b), b.says("", "tool_use", call("t1", "true")), b.says())
    b.run(b.says(), prompt="go on", source="autopilot")
    assert [request["model"] for request in b.sent[3:]] == ["second"] * 3
    assert b.agent.model.name == "second"
    b.shown.clear()
    b.run(b.says(), prompt="and now?")
    assert b.sent[-1]["model"] == "first"
    assert b.kinds("notice") == ["  [first is asked again]"]
    b.shown.clear()
    b.run(b.says(), prompt="and now?")
    assert b.kinds("notice") == []


def test_after_the_next_prompt_it_may_switch_again(bench):
    b = bench(fallback="second")
    b.run(*storm(b), b.says())
    b.run(*storm(b), b.says(), prompt="again")
    assert [request["model"] for request in b.sent] == (["first"] * 3 + ["second"]) * 2


def test_a_model_that_somebody_chose_meanwhile_stays(bench):
    b = bench(fallback="second")
    b.run(*storm(b), b.says())
    b.agent.model.name = "third"
    b.run(b.says(), prompt="again")
    assert b.sent[-1]["model"] == "third"
    b.queue = [b.says()]
    b.agent.side_call({"model": "first", "max_tokens": 50, "messages": []})
    assert b.sent[-1]["model"] == "first"


def test_the_first_model_keeps_its_own_settings(bench):
    b = bench(fallback="second")
    first = b.agent.model
    b.run(*storm(b), b.says())
    b.agent.model.extras.pop("cache_control")
    assert first.extras and first.name == "first"


def test_thoughts_of_another_model_are_left_out_of_the_request_and_not_of_the_history(bench):
    b = bench(fallback="second")
    b.run(b.says("One.", "end_turn", thought("a")), prompt="1")
    b.run(*storm(b), b.says("Two.", "end_turn", thought("b"), {"type": "redacted_thinking", "data": "c"}), prompt="2")
    b.run(b.says("Three."), prompt="3")
    kept = [[block["type"] for block in m["content"]] for m in b.agent.history.messages if m["role"] == "assistant"]
    assert kept == [["text", "thinking"], ["text", "thinking", "redacted_thinking"], ["text"]]
    second, third = b.sent[-2], b.sent[-1]
    assert (second["model"], third["model"]) == ("second", "first")
    assert [len(m["content"]) for m in second["messages"]] == [1, 1, 1]  # the first's thought is not there
    assert [len(m["content"]) for m in third["messages"]] == [1, 2, 1, 1, 1]  # the second's are not
    assert third["messages"][:3] == b.agent.history.messages[:3]


def test_a_message_of_thoughts_alone_goes_and_its_neighbours_become_one(bench):
    b = bench(fallback="second", least=0, larger=0)
    b.run(b.says("", "max_tokens", thought("a")), *storm(b), b.says())
    assert [m["role"] for m in b.agent.history.messages] == ["user", "assistant", "user", "assistant"]
    assert [m["role"] for m in b.sent[-1]["messages"]] == ["user"]
    assert len(b.sent[-1]["messages"][0]["content"]) == 2
    assert len(b.agent.history.messages[0]["content"]) == 1, "the history stays as it is"
    assert [m["role"] for m in b.sent[-2]["messages"]] == ["user", "assistant", "user"]


def test_thoughts_of_an_unknown_origin_go_back(bench):
    b = bench()
    b.agent.history.add("user", [{"type": "text", "text": "before"}])
    b.agent.history.add("assistant", [thought("from a session before"), {"type": "text", "text": "Yes."}])
    b.run(b.says("", "tool_use", thought("a"), call("t1", "true")), b.says())
    assert b.sent[-1]["messages"] == json.loads(json.dumps(b.agent.history.messages[:-1]))


# The second ladder: too long


REAL = [
    (400, "invalid_request_error", "prompt is too long: 207791 tokens > 200000 maximum"),
    (400, "", "input length and `max_tokens` exceed context limit: 170927 + 34048 > 200000, decrease input length or `max_tokens` and try again"),
    (413, "request_too_large", "Request exceeds the maximum size"),
    (400, "", "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
    (400, "", "the request exceeds the available context size, try increasing it"),
    (400, "", "error: context_length_exceeded"),
    (400, "", "Prompt is too long"),
]


class Shortening:
    """Stands for the compaction: the conversation becomes one message."""

    def __init__(self, works=True):
        self.works, self.reasons, self.agent = works, [], None

    def __call__(self, reason):
        self.reasons.append(reason)
        if self.works:
            self.agent.history.messages = [{"role": "user", "content": [{"type": "text", "text": f"in short, {len(self.reasons)}"}]}]
        return self.works


def shortening(bench, works=True, **policy):
    compact = Shortening(works)
    b = bench(compact=compact, **policy)
    compact.agent = b.agent
    return b, compact


@pytest.mark.parametrize(("status", "kind", "said"), REAL)
def test_too_long_is_compacted_and_sent_once_more(bench, status, kind, said):
    b, compact = shortening(bench)
    assert b.run(b.fails(status, kind, said), b.says()).reason == "end_turn"
    assert (compact.reasons, len(b.sent), b.slept) == (["too long"], 2, [])
    assert b.sent[1] == {**b.sent[0], "messages": [{"role": "user", "content": [{"type": "text", "text": "in short, 1"}]}]}


def test_notes_that_wait_go_out_with_the_second_request(bench):
    b, compact = shortening(bench)
    b.recovery.compact = lambda reason: b.agent.history.note("keeper", "The plan is this.") or compact(reason)
    b.run(b.fails(*REAL[0]), b.says())
    assert "The plan is this." in str(b.sent[1]["messages"])


def test_still_too_long_after_that_is_said(bench):
    b, compact = shortening(bench)
    outcome = b.run(b.fails(*REAL[0]), b.fails(*REAL[0]))
    assert (outcome.reason, len(b.sent), compact.reasons) == ("error", 2, ["too long"])
    assert "could not be made to fit: start a new one. prompt is too long: 207791" in outcome.detail
    assert "\n" not in outcome.detail


def test_another_error_after_that_is_that_error(bench):
    b, compact = shortening(bench)
    outcome = b.run(b.fails(*REAL[0]), b.fails(401, "", "refuses the key"))
    assert outcome.detail == "refuses the key"


@pytest.mark.parametrize("compact", [None, lambda reason: False])
def test_where_nothing_can_be_made_shorter_it_is_said_at_once(bench, compact):
    b = bench(compact=compact)
    outcome = b.run(b.fails(*REAL[0]))
    assert (outcome.reason, len(b.sent)) == ("error", 1)
    assert "could not be made to fit" in outcome.detail


def test_trouble_lies_inside_of_it(bench):
    b, compact = shortening(bench)
    assert b.run(b.fails(500), b.fails(*REAL[0]), b.fails(503), b.says()).reason == "end_turn"
    assert (len(b.sent), compact.reasons) == (4, ["too long"])


def test_a_window_that_is_full_in_mid_reply_is_too_long_as_well(bench):
    b, compact = shortening(bench)
    assert b.run(b.says("Half an", FULL, call("t1")), b.says()).text == "Done."
    assert compact.reasons == ["too long"]
    assert [kind for kind, _ in b.shown[:3]] == ["text", "discard", "text"]
    assert b.texts() == ["Done."]


def test_what_is_refused_for_another_reason_is_not_made_shorter(bench):
    b, compact = shortening(bench)
    assert b.run(b.fails(403, "", "your plan does not include the large context window")).reason == "error"
    assert b.run(b.fails(400, "", "messages.0: no such block")).reason == "error"
    assert compact.reasons == []


@pytest.mark.parametrize("works", [True, False])
def test_and_where_that_does_not_help_the_run_ends(bench, works):
    b, compact = shortening(bench, works)
    replies = [b.says("Half an", FULL)] * (2 if works else 1)
    outcome = b.run(*replies)
    assert (outcome.reason, outcome.text, compact.reasons) == ("context_window", "Half an", ["too long"])
    assert len(b.kinds("discard")) == works


def turn(b, number):
    return b.says("", "tool_use", call(f"t{number}", "true"))


def test_it_is_not_compacted_twice_in_a_row(bench):
    """The request after a compaction is too long again: whatever fills the room, it is not the past."""
    b, compact = shortening(bench)
    outcome = b.run(b.fails(*REAL[0]), turn(b, 1), b.fails(*REAL[0]))
    assert (outcome.reason, compact.reasons) == ("error", ["too long"])


def test_but_again_once_a_request_has_fitted_by_itself(bench):
    b, compact = shortening(bench)
    assert b.run(b.fails(*REAL[0]), turn(b, 1), turn(b, 2), b.fails(*REAL[0]), b.says()).reason == "end_turn"
    assert len(compact.reasons) == 2


def test_and_again_at_the_persons_next_prompt(bench):
    b, compact = shortening(bench)
    b.run(b.fails(*REAL[0]), b.fails(*REAL[0]))
    assert b.run(b.fails(*REAL[0]), prompt="the program", source="autopilot").reason == "error"
    assert len(compact.reasons) == 1
    assert b.run(b.fails(*REAL[0]), b.says(), prompt="next").reason == "end_turn"
    assert len(compact.reasons) == 2


# The third ladder: cut off


def test_a_cut_reply_is_asked_for_again_with_more_room_and_was_never_there(bench):
    b = bench()
    outcome = b.run(b.says("Half an", "max_tokens", call("t1")), b.says("A whole answer."))
    assert (outcome.reason, outcome.text, outcome.turns) == ("end_turn", "A whole answer.", 1)
    assert json.dumps(b.sent[1]) == json.dumps({**b.sent[0], "max_tokens": 64_000})
    assert b.texts() == ["A whole answer."]
    assert b.shown[1] == ("discard", "cut off at 16000 tokens, now with 64000")


def test_the_larger_limit_stays_for_the_run_and_no_longer(bench):
    b = bench()
    b.run(b.says("Half", "max_tokens"), turn(b, 1), b.says())
    b.run(b.says(), prompt="next")
    b.run(b.says("Half", "max_tokens"), b.says(), prompt="next", source="autopilot")
    assert [request["max_tokens"] for request in b.sent] == [16_000, 64_000, 64_000, 16_000, 16_000, 64_000]


def test_with_more_room_and_still_cut_it_is_kept_and_continued(bench):
    b = bench()
    outcome = b.run(b.says("Half", "max_tokens"), b.says(LONG, "max_tokens"), b.says("the rest."))
    assert (outcome.reason, outcome.text, outcome.turns) == ("end_turn", "the rest.", 2)
    assert b.texts() == [LONG, "the rest."]
    assert [request["max_tokens"] for request in b.sent] == [16_000, 64_000, 64_000]
    said = b.sent[-1]["messages"][-1]["content"][-1]["text"]
    assert said.startswith("<system-reminder>") and "Go on exactly where it stops" in said


def test_it_is_continued_a_bounded_number_of_times(bench):
    b = bench()
    outcome = b.run(*[b.says(LONG, "max_tokens")] * 5)
    assert (outcome.reason, outcome.turns) == ("max_tokens", 4)
    assert "say “go on”" in outcome.detail
    assert b.kinds("notice")[-1] == "  [not continued any more: that was done 3 times]"


@pytest.mark.parametrize(("text", "continued"), [("x" * 199, 1), ("x" * 200, 3), ("", 1), (" " * 300, 1), ("x" * 150 + " " * 100, 1)])
def test_continuations_that_add_almost_nothing_end_it(bench, text, continued):
    b = bench(larger=0)
    first = b.says("", "max_tokens", thought("a"))  # the first may be anything: it may have been thought all the way
    outcome = b.run(first, *[b.says(text, "max_tokens", thought("b"))] * continued)
    assert outcome.reason == "max_tokens"
    assert len(b.sent) == 1 + continued
    assert "almost nothing" in b.kinds("notice")[-1] or continued == 3


def test_a_reply_that_comes_to_its_end_opens_the_latch_again(bench):
    b = bench(larger=0, continuations=1)
    cut = [b.says(LONG, "max_tokens")]
    assert b.run(*cut, turn(b, 1), *cut, b.says()).reason == "end_turn"
    assert b.run(*cut * 2, prompt="next").reason == "max_tokens"
    assert b.run(*cut, b.says(), prompt="next", source="autopilot").reason == "end_turn"


def test_a_call_that_was_cut_off_is_neither_run_nor_left_open(bench, tmp_path):
    b = bench(larger=0)
    assert b.run(b.says("I write.", "max_tokens", call("t1"), call("t2")), b.says()).reason == "end_turn"
    assert not (tmp_path / "canary").exists()
    after = b.sent[-1]["messages"][-1]["content"]
    assert [block["type"] for block in after] == ["tool_result", "tool_result", "text"]
    assert all(block["is_error"] for block in after[:2])
    assert b.agent.history.open_calls() == []


def test_where_a_larger_limit_is_refused_the_cut_reply_counts(bench):
    said = "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for first"
    b = bench()
    outcome = b.run(b.says("Half", "max_tokens"), b.fails(400, "", said), b.says("the rest."))
    assert (outcome.reason, b.texts()) == ("end_turn", ["Half", "the rest."])
    assert [request["max_tokens"] for request in b.sent] == [16_000, 64_000, 16_000]
    assert said in b.kinds("notice")[0]


def test_where_the_room_runs_out_with_the_larger_limit_the_cut_reply_counts_too(bench):
    b, compact = shortening(bench)
    reply = b.call(b.says("Half", "max_tokens"), b.says("It goes on", FULL))
    assert (reply.text, reply.stop_reason, compact.reasons) == ("Half", "max_tokens", [])
    assert "the room ran out" in b.kinds("notice")[0]
    b.call(b.says("", "max_tokens"))
    assert [request["max_tokens"] for request in b.sent] == [16_000, 64_000, 16_000]


def test_and_the_run_goes_on_from_it(bench):
    b = bench()
    outcome = b.run(b.says("Half", "max_tokens"), b.says("It goes on", FULL), b.says("the rest."))
    assert (outcome.reason, b.texts()) == ("end_turn", ["Half", "the rest."])


@pytest.mark.parametrize("larger", ["the room runs out", "refused"])
def test_the_words_of_a_reply_that_counts_after_all_are_shown_again(bench, larger):
    """Where one prompt is run, what was thrown away is not held for standard output."""
    b = bench()
    console, show = b.load("console").Console(one_shot=True), b.agent.show
    console.words = None  # as where standard output is no terminal

    def shown(kind, **data):
        show(kind, **data)
        console.show(kind, **data)

    b.agent.show = shown
    b.call(b.says("Half", "max_tokens"), b.fails(400) if larger == "refused" else b.says("It goes on", FULL))
    assert [kind for kind, _ in b.shown][-2:] == ["notice", "text"]
    assert console.held == "Half"


def test_a_run_that_was_ended_asks_for_no_more_room(bench):
    b = bench()

    def halfway():
        b.agent.halt = "It is enough."
        return b.says("Half", "max_tokens")

    assert (b.call(halfway).text, len(b.sent), b.kinds("discard")) == ("Half", 1, [])


def test_and_is_not_tried_again_in_this_run(bench):
    b = bench()
    b.run(b.says("Half", "max_tokens"), b.fails(400), b.says(LONG, "max_tokens"), b.says("the rest."))
    assert [request["max_tokens"] for request in b.sent] == [16_000, 64_000, 16_000, 16_000]


def test_room_that_is_too_large_is_no_reason_to_compact(bench):
    b, compact = shortening(bench)
    assert b.run(b.says("Half", "max_tokens"), b.fails(*REAL[1]), b.says("the rest.")).reason == "end_turn"
    assert compact.reasons == []


@pytest.mark.parametrize("limit", [64_000, 100_000])
def test_where_the_limit_is_that_large_already_nothing_is_thrown_away(bench, limit):
    b = bench()
    b.agent.max_tokens = limit
    assert b.run(b.says("Half", "max_tokens"), b.says("the rest.")).turns == 2
    assert b.kinds("discard") == []
    assert [request["max_tokens"] for request in b.sent] == [limit] * 2


def test_trouble_and_length_lie_inside_of_it(bench):
    b, compact = shortening(bench)
    assert b.run(b.fails(*REAL[0]), b.says("Half", "max_tokens"), b.fails(503), b.says()).text == "Done."
    assert len(b.sent) == 4
    assert b.sent[3] == {**b.sent[1], "max_tokens": 64_000}, "the request that was made to fit, not the one before"


def test_the_other_model_is_asked_for_more_room_too(bench):
    b = bench(fallback="second")
    b.run(*storm(b), b.says("Half", "max_tokens"), b.says())
    assert [(r["model"], r["max_tokens"]) for r in b.sent[3:]] == [("second", 16_000), ("second", 64_000)]


def test_only_a_cut_reply_is_continued(bench):
    b = bench()
    stop = b.load("hooks").Stop(b.agent, "", "max_tokens", 0)
    b.agent.fire(stop)
    assert stop.objections == []  # it did not come through the ladder
    b.recovery.cut = True
    b.agent.fire(stop)
    assert len(stop.objections) == 1
    stop = b.load("hooks").Stop(b.agent, LONG, "end_turn", 0)
    b.agent.fire(stop)
    assert stop.objections == []


# Side calls, several agents, taking it off


def test_side_calls_have_the_first_ladder_only(bench):
    b, compact = shortening(bench)
    b.queue = [b.fails(200, "overloaded_error"), b.fails(500), b.says("In short.", "max_tokens")]
    request = {"model": "first", "max_tokens": 50, "messages": []}
    assert b.agent.side_call(request).text == "In short."
    assert b.sent == [request] * 3
    assert len(b.kinds("notice")) == 2 and b.kinds("discard") == b.kinds("text") == []
    b.queue = [b.fails(*REAL[0])]
    with pytest.raises(b.ModelError, match="^prompt is too long"):
        b.agent.side_call(request)
    assert compact.reasons == []


def test_a_side_call_to_a_model_of_its_own_stays_with_it(bench):
    b = bench(fallback="second")
    b.queue = [*storm(b, 4), b.says()]
    b.agent.side_call({"model": "small", "max_tokens": 50, "messages": []})
    assert {request["model"] for request in b.sent} == {"small"} and b.agent.model.name == "first"
    b.queue = [*storm(b, 3), b.says()]
    b.agent.side_call({"model": "first", "max_tokens": 50, "messages": []})
    assert b.sent[-1]["model"] == "second"
    b.queue = [b.says()]
    b.agent.side_call({"model": "small", "max_tokens": 50, "messages": []})
    assert b.sent[-1]["model"] == "small"


def test_a_side_call_that_was_prepared_before_the_switch_goes_to_the_other_model(bench):
    b = bench(fallback="second")
    b.run(*storm(b), b.says())
    b.queue = [b.says()]
    b.agent.side_call({"model": "first", "max_tokens": 50, "messages": []})
    assert b.sent[-1]["model"] == "second"


def test_two_agents_share_nothing(load, tmp_path):
    one, two = Bench(load, tmp_path, fallback="second"), Bench(load, tmp_path, fallback="second")
    one.run(*storm(one), one.says("Half", "max_tokens", thought("a")), one.says("More", "max_tokens"), one.says())
    assert two.run(two.says()).reason == "end_turn"
    assert (two.sent[0]["model"], two.sent[0]["max_tokens"], two.recovery.thinkers) == ("first", 16_000, {})


def test_taken_off_it_does_nothing(bench):
    b = bench(fallback="second", continuations=0)
    assert b.run(b.says("Half", "max_tokens"), b.says("Half", "max_tokens")).reason == "max_tokens"
    b.shown.clear()
    del b.agent.call_model
    assert b.run(b.fails(500)).reason == "error"
    assert b.run(b.says("Half", "max_tokens")).reason == "max_tokens"
    assert b.slept == [] and b.kinds("notice") == []


def test_it_wraps_what_is_there(load, tmp_path):
    b = Bench(load, tmp_path)
    asked, inner = [], b.agent.call_model
    b.agent.call_model = lambda request: asked.append("outer") or inner(request)
    assert b.run(b.fails(500), b.says()).reason == "end_turn"
    assert asked == ["outer"]


def test_an_unknown_policy_stops_the_program(bench):
    with pytest.raises(TypeError):
        bench(patients=3)


# With the real SDK, against the offline model


AFTER = talk("and now?", Step("All is well."))


def quick(agent):
    """Let it not wait where no header says how long."""
    agent.call_model.__self__.first_wait = 0
    return agent


def notices(chapter):
    return [data["text"] for kind, data in chapter.shown if kind == "notice"]


@pytest.mark.parametrize("fault", [
    Fault(429, headers={"retry-after": "0"}, times=3), Fault(529, headers={"retry-after": "0"}), Fault(500, headers={"retry-after-ms": "1"}),
    Fault(0), Fault(200),
])
def test_nothing_is_asked_twice_over(chapter, fault):
    """One failure, one repetition: were the SDK still at it, too, there would be more requests."""
    agent = quick(chapter.agent(talk("go", Step("The whole of it.", fault=fault)), AFTER))
    assert chapter.run(agent, "go").text == "The whole of it."
    assert len(agent.model.script.requests) == fault.times + 1
    bodies = [record.body for record in agent.model.script.requests]
    assert bodies == bodies[:1] * len(bodies)
    assert chapter.run(agent, "and now?").text == "All is well."


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_nor_is_what_cannot_heal(chapter, status):
    agent = chapter.agent(talk("go", Step("never", fault=Fault(status, message="no such luck"), extra=True)), AFTER)
    outcome = chapter.run(agent, "go")
    assert outcome.reason == "error" and "\n" not in outcome.detail and str(status) in outcome.detail
    assert len(agent.model.script.requests) == 1
    assert notices(chapter) == []


def test_an_answer_that_breaks_off_is_thrown_away_and_asked_again(chapter):
    agent = quick(chapter.agent(talk("go", Step("A long answer that is never finished.", breaks_after=10)), AFTER))
    assert chapter.run(agent, "go").text == "A long answer that is never finished."
    assert [data["reason"] for kind, data in chapter.shown if kind == "discard"] == ["the answer broke off"]
    assert [m["role"] for m in agent.history.messages] == ["user", "assistant"]
    assert chapter.run(agent, "and now?").text == "All is well."


def test_the_referee_takes_what_a_switch_leaves_of_the_history(chapter):
    """Thoughts of the first model, then of the second, then of the first again; each in a reply with a call."""
    echo = Call("bash", command="echo 1")
    agent = chapter.agent(
        talk("go", Step("One.", thinking="I look.", calls=[echo]), Step("Done.", thinking="It is so.")),
        talk("more", Step("Two.", fault=Fault(529, headers={"retry-after": "0"}, times=3), thinking="And here?", calls=[echo]), Step("Done.")),
        talk("again", Step("Three.", thinking="Once more.", calls=[echo]), Step("Done.")),
    )
    agent.call_model.__self__.fallback = offline_model.FALLBACK
    assert [chapter.run(agent, prompt).text for prompt in ("go", "more", "again")] == ["Done."] * 3
    records = agent.model.script.requests
    models = [record.body["model"] for record in records]
    assert models == [offline_model.MODEL] * 5 + [offline_model.FALLBACK] * 2 + [offline_model.MODEL] * 2
    assert [record.error for record in records if record.status == 400] == []
    kinds = [block["type"] for message in agent.history.messages for block in message["content"]]
    assert kinds.count("thinking") == 4
    one = [record.usage for record in records if record.status == 200 and record.body["model"] == offline_model.MODEL]
    for earlier, later in zip(one, one[1:]):
        assert later["cache_read_input_tokens"] == earlier["cache_read_input_tokens"] + earlier["cache_creation_input_tokens"]


def test_a_reply_that_is_really_longer_than_the_limit(chapter):
    text = "So it goes on, and on. " * 20
    agent = chapter.agent(talk("go", Step(text, calls=[Call("bash", command="echo made > made")]), Step("Done.", when="exit status 0")), AFTER)
    agent.max_tokens = 50
    outcome = chapter.run(agent, "go")
    assert (outcome.text, outcome.turns) == ("Done.", 2)
    assert [record.body["max_tokens"] for record in agent.model.script.requests] == [50, 64_000, 64_000]
    assert (chapter.workspace / "made").exists()
    assert agent.model.script.problems == []


def test_a_call_cut_off_with_all_the_room_there_is_answered_and_made_again(chapter):
    cut = Step("I write.", calls=[Call("bash", command="touch canary")], stop_reason="max_tokens")
    agent = chapter.agent(talk("go", cut, Step("In pieces.", when="cut off", calls=[Call("bash", command="echo 1")]), Step("Done.")), AFTER)
    assert chapter.run(agent, "go").text == "Done."
    assert not (chapter.workspace / "canary").exists()
    assert chapter.run(agent, "and now?").text == "All is well."


def test_a_prompt_that_is_really_too_long(chapter):
    agent = chapter.agent(talk("go", Step("Never.", extra=True)), context_limit=100)
    ladder = agent.call_model.__self__
    ladder.compact = None
    outcome = chapter.run(agent, "go")
    assert "could not be made to fit" in outcome.detail and "prompt is too long: " in outcome.detail
    called = []
    ladder.compact = lambda reason: called.append(reason) or False
    assert chapter.run(agent, "go").reason == "error" and called == ["too long"]


def test_ctrl_c_in_a_real_wait(chapter):
    agent = chapter.agent(talk("go", Step("never", fault=Fault(529, headers={"retry-after": "50"}), extra=True)), AFTER)
    waiting = threading.Event()
    show = agent.show

    def shown(kind, **data):
        show(kind, **data)
        waiting.set()

    agent.show = shown

    def press():
        waiting.wait(10)
        time.sleep(0.02)
        __import__("_thread").interrupt_main()

    threading.Thread(target=press, daemon=True).start()
    started = time.monotonic()
    assert chapter.run(agent, "go").reason == "interrupted"
    assert time.monotonic() - started < 5, "the wait went on"
    agent.show = show
    assert chapter.run(agent, "and now?").text == "All is well."


# Connecting


def connected(load, tmp_path, monkeypatch, lines="", **environment):
    (tmp_path / ".env").write_text(lines, encoding="utf-8")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return load("model").connect(tmp_path, "no such lesson")


def test_the_fallback_is_a_setting(load, tmp_path, monkeypatch):
    real = "ANTHROPIC_API_KEY=k\n"
    assert connected(load, tmp_path, monkeypatch, real).fallback == ""
    assert connected(load, tmp_path, monkeypatch, real + "FALLBACK_MODEL= m \n").fallback == "m"
    assert connected(load, tmp_path, monkeypatch, real + "FALLBACK_MODEL=m\n", FALLBACK_MODEL="e").fallback == "e"


def test_offline_there_is_another_model_too(load, tmp_path, monkeypatch):
    model = connected(load, tmp_path, monkeypatch, FALLBACK_MODEL="claude-haiku-5-5")
    model.script.close()
    assert model.fallback == offline_model.FALLBACK != offline_model.MODEL


def test_build_hands_the_fallback_on(chapter):
    agent = chapter.agent()
    assert agent.call_model.__self__.fallback == ""
    model = copy.copy(agent.model)
    model.fallback = "other"
    again = chapter.load("harness").build(model, chapter.workspace, chapter.show)
    assert again.call_model.__self__.fallback == "other"


def test_the_client_does_not_retry_by_itself(load):
    with load("model").new_client("http://127.0.0.1:1", "k") as client:
        assert client.max_retries == 0


def test_the_kinds_of_failure_are_told_apart(load, tmp_path):
    """What the SDK raises on the way becomes a kind that the ladder knows."""
    import anthropic
    import httpx2

    explain, request = load("errors").explain, httpx2.Request("POST", "http://x")
    model = SimpleNamespace(address="http://x", key="k", name="m", url="http://x")
    assert explain(anthropic.APIConnectionError(request=request), model).kind == "connection_error"
    assert explain(anthropic.APITimeoutError(request=request), model).kind == "timeout_error"
    assert explain(httpx2.ReadTimeout("timed out"), model).kind == "broken_stream"
    assert explain(httpx2.RemoteProtocolError("peer closed"), model).kind == "broken_stream"
