"""The folds: what a log says is computed from its records alone, and what is damaged never gives a crooked history."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import pytest
from test_session_log import refused_by_the_api

CASES = {c["id"]: c for c in map(json.loads, (Path(__file__).parent / "data" / "log_cases.jsonl").read_text("utf-8").splitlines())}


@pytest.fixture
def folds(load):
    return load("folds")


def text(words):
    return {"type": "text", "text": words}


def call(number):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "bash", "input": {"command": "ls"}}


def result(number, words="fine"):
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": words}


def message(role, *blocks):
    return {"type": "message", "role": role, "blocks": list(blocks)}


def user(*blocks):
    return message("user", *blocks)


def model(*blocks):
    return message("assistant", *blocks)


def begun(number):
    return {"type": "begun", "call": f"toolu_{number}"}


def state(name, value):
    return {"type": "state", "name": name, "value": value}


def usage(tokens, who="m", **more):
    return {"type": "usage", "model": who, "usage": {"input_tokens": tokens, **more}}


END = {"type": "run_ended", "reason": "end_turn"}
HEAD = {"type": "session", "version": 1, "id": "a", "parent": "", "workspace": "/w", "model": "m"}


def run(number):
    """The records of a run with two calls."""
    return [
        user(text(f"prompt {number}")),
        model(text("a"), call(2 * number), call(2 * number + 1)),
        usage(10),
        begun(2 * number),
        user(result(2 * number)),
        begun(2 * number + 1),
        user(result(2 * number + 1)),
        model(text(f"done {number}")),
        usage(20),
        END,
    ]


LOG = [HEAD, *run(1), state("mode", {"active": True}), *run(2), state("mode", {"active": False}), *run(3)]


# What each fold says.


def test_messages_of_one_role_join_as_they_do_in_the_history(folds, load):
    records, history = [], load("history").History()
    history.listeners.append(lambda kind, **data: records.append(copy.deepcopy({"type": kind, **data})))
    for record in LOG:
        if record["type"] == "message":
            history.add(record["role"], record["blocks"])
        elif record["type"] == "begun":
            history.begin({"id": record["call"]})
    assert folds.messages(records) == history.messages
    history.replace(history.messages[-4:])
    history.add("user", [text("more")])
    assert folds.messages(records) == history.messages and len(history.messages) == 5
    assert folds.messages(records) == folds.messages(json.loads(json.dumps(records))), "and so after a way through a file"


def test_replaced_messages_take_the_place_of_all_before(folds):
    summary = [{"role": "user", "content": [text("summary")]}, {"role": "assistant", "content": [text("yes")]}]
    records = [*run(1), {"type": "replaced", "messages": summary}, user(text("next"))]
    assert folds.messages(records) == [*summary, {"role": "user", "content": [text("next")]}]


def test_a_fold_changes_no_record(folds):
    records = [*copy.deepcopy(LOG), {"type": "replaced", "messages": [{"role": "user", "content": [text("x")]}]}, user(text("y")), user(text("z"))]
    before = copy.deepcopy(records)
    first = folds.messages(records)
    folds.mended(first)
    assert records == before and folds.messages(records) == first


def test_the_last_value_of_a_state_wins(folds):
    assert folds.states(LOG) == {"mode": {"active": False}}
    assert folds.states(LOG[:12]) == {"mode": {"active": True}}
    assert folds.states([state("a", 1), state("b", None), state("a", None)]) == {"a": None, "b": None}


def test_the_cost_is_summed_up_by_model(folds):
    records = [usage(1, output_tokens=2), usage(3, "other", cache_read_input_tokens=5), usage(4, service_tier="x", cache_creation={"a": 1}, more=None)]
    assert folds.cost(records) == {"m": {"input_tokens": 5, "output_tokens": 2}, "other": {"input_tokens": 3, "cache_read_input_tokens": 5}}


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (1, {}),
        (2, {}),
        (3, {"toolu_2": False, "toolu_3": False}),
        (5, {"toolu_2": True, "toolu_3": False}),
        (6, {"toolu_3": False}),
        (7, {"toolu_3": True}),
        (8, {}),
        (11, {}),
    ],
)
def test_a_call_without_result_was_begun_or_not(folds, length, expected):
    assert folds.open_calls(LOG[:length]) == expected


def test_where_records_are_missing_a_call_may_have_been_begun(folds):
    assert folds.open_calls([*LOG[:3], {"type": "damaged"}]) == {"toolu_2": True, "toolu_3": True}
    assert folds.open_calls([*LOG[:3], {"type": "hole"}]) == {"toolu_2": True, "toolu_3": True}


def test_a_call_whose_result_is_lost_stays_begun_behind_the_end_of_its_run(folds):
    assert folds.open_calls([user(text("x")), model(call(1), call(2)), begun(1), END]) == {"toolu_1": True, "toolu_2": False}


def test_only_the_calls_of_the_last_reply_are_open(folds):
    """Also where a log was changed by hand, so that two replies follow each other."""
    replies = [{"role": "assistant", "content": [call(number)]} for number in (1, 2)]
    messages = [{"role": "user", "content": [text("x")]}, *replies]
    assert folds.open_calls([{"type": "replaced", "messages": messages}]) == {"toolu_2": False}


def test_runs_are_counted_and_an_open_one_is_known(folds):
    told = folds.past(LOG)
    assert (told.runs, told.reason, told.is_open, told.header, told.prompt) == (3, "end_turn", False, HEAD, "prompt 3")
    told = folds.past([*LOG, user(text("more\n of it")), user(text("<system-reminder>x</system-reminder>"))])
    assert (told.runs, told.is_open, told.prompt) == (3, True, "more of it")
    assert folds.past([*LOG, {"type": "run_ended", "reason": "interrupted"}]).reason == "interrupted"
    assert not folds.past([]).is_open and folds.past([state("a", 1)]).is_open is False


def test_an_unknown_type_is_skipped_and_counted(folds):
    told = folds.past([{"type": "dream"}, *LOG, {"type": "dream"}])
    assert told.unknown == 2 and told.messages == folds.messages(LOG)


def test_damage_is_counted(folds):
    told = folds.past([{"type": "damaged"}, *LOG, {"type": "damaged"}, {"type": "hole", "missing": ["todos"]}])
    assert (told.damaged, told.is_whole) == (2, False)
    assert (folds.past(LOG).damaged, folds.past(LOG).is_whole) == (0, True)


# Where a fork may begin.


def test_a_fork_begins_right_behind_a_run_that_one_included(folds):
    for number, length in ((1, 11), (2, 22), (3, 33)):
        assert folds.boundary(LOG, number) == length
        assert LOG[length - 1] is END


def test_without_a_number_what_follows_the_last_run_comes_along(folds):
    assert folds.boundary(LOG[:11]) == 11
    assert folds.boundary(LOG[:12]) == 12  # a choice that was made while nothing ran
    for length in (13, 15, 20):
        assert folds.boundary(LOG[:length]) == 12  # half a run does not
    assert folds.boundary(LOG) == len(LOG)


def test_the_end_of_a_run_is_one_whatever_its_reason(folds):
    for reason in ("interrupted", "error", "max_turns", "refusal"):
        assert folds.boundary([*LOG[:6], {"type": "run_ended", "reason": reason}], 1) == 7


def test_a_fork_reads_no_further_than_it_must(folds):
    records = iter(LOG)
    folds.boundary(records, 1)
    assert next(records)["type"] == "state"


@pytest.mark.parametrize("run", [0, -1, -3, 1.5, 2.0001, 4, 99, True - 1])
def test_X02_a_boundary_that_is_none_is_refused_with_a_reason(folds, load, run):
    assert CASES["X02"]["expect"].startswith("typed refusal for each")
    with pytest.raises(load("session_log").SessionError, match="from 1 to 3") as raised:
        folds.boundary(LOG, run)
    assert raised.value.kind == "boundary"


def test_X02_inside_an_open_run_there_is_no_boundary(folds, load):
    for length in (13, 15, 21):
        with pytest.raises(load("session_log").SessionError, match="Run 2 has not ended") as raised:
            folds.boundary(LOG[:length], 2)
        assert raised.value.kind == "open_run"


def test_where_nothing_has_ended_nothing_can_be_forked(folds, load):
    for records in ([], [HEAD], LOG[:5]):
        with pytest.raises(load("session_log").SessionError, match="none yet") as raised:
            folds.boundary(records)
        assert raised.value.kind == "boundary"


# Mending.


def test_what_is_whole_is_left_as_it_is(folds):
    for length in range(len(LOG) + 1):
        told = folds.messages(LOG[:length])
        assert folds.mended(told) == told


def test_a_lost_result_is_named_and_a_result_without_its_call_goes(folds):
    mended = folds.mended(folds.messages([user(text("x")), model(call(1), call(2)), user(result(2)), model(text("y"))]))
    assert [(b["tool_use_id"], b["content"]) for b in mended[1 + 1]["content"]] == [("toolu_2", "fine"), ("toolu_1", folds.LOST_RESULT)]
    assert mended[2]["content"][1]["is_error"] is True
    assert folds.mended(folds.messages([user(text("x"), result(9)), model(text("y"))]))[0] == {"role": "user", "content": [text("x")]}


def test_a_lost_message_leaves_a_mark_where_it_stood(folds):
    for records in ([model(text("a"))], [user(text(" ")), model(text("a"))], [user(result(1)), model(text("a"))]):
        assert folds.mended(folds.messages(records))[0] == {"role": "user", "content": [text(folds.LOST)]}
    two = [{"role": "user", "content": [text("x")]}, *2 * [{"role": "assistant", "content": [text("a")]}]]
    assert [m["role"] for m in folds.mended(two)] == ["user", "assistant", "user", "assistant"]


def test_two_replies_that_ran_into_each_other_are_told_apart_by_the_call_between_them(folds):
    for first in ([call(1)], [text("x"), call(1)], [call(1), call(2)]):
        told = [{"role": "user", "content": [text("go")]}, {"role": "assistant", "content": [*first, text("y")]}]
        calls = [block["id"] for block in first if block["type"] == "tool_use"]
        assert folds.mended(told) == [
            told[0],
            {"role": "assistant", "content": first},
            {"role": "user", "content": [folds.lost_result(each) for each in calls]},
            {"role": "assistant", "content": [text("y")]},
        ]


def test_the_last_calls_may_stay_open(folds):
    for records in (LOG[:3], LOG[:5], LOG[:6]):
        assert folds.mended(folds.messages(records)) == folds.messages(records)
    said_something = folds.mended(folds.messages([*LOG[:3], user(text("next prompt"))]))
    assert [b["type"] for b in said_something[-1]["content"]] == ["tool_result", "tool_result", "text"]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_lines_are_lost_the_api_takes_the_history(folds, load, seed):
    chance = random.Random(seed)
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    log = [HEAD, *run(1), user(text("p")), model({**thought}, call(100)), user(result(100), text("note")), model(text("z")), END, *run(5), *run(6)]
    for _ in range(300):
        records = [record for record in log if chance.random() > chance.choice([0.02, 0.1, 0.5])]
        told = folds.past([*records, {"type": "damaged"}])
        history = load("history").History()
        history.load(load("thoughts").without_thoughts(folds.mended(told.messages), {"s": "other"}, "m"), {c for c, b in told.open_calls().items() if b})
        history.load(folds.mended(history.messages), history.begun)
        history.settle("Not started")
        history.add("user", [text("go on")])
        refused_by_the_api(history.messages)
        load("history").check(history.messages)


# Thoughts belong to the model that had them.


def test_thoughts_of_another_model_are_left_out(folds, load):
    old, new = ({"type": "thinking", "thinking": "t", "signature": s} for s in ("old", "new"))
    hidden = {"type": "redacted_thinking", "data": "hidden"}
    records = [user(text("x")), model(old, hidden, call(1)), usage(1, "first"), user(result(1)), model(new, text("y")), usage(1, "second")]
    told = folds.past(records)
    assert told.thinkers == {"old": "first", "hidden": "first", "new": "second"}
    kept = load("thoughts").without_thoughts(told.messages, told.thinkers, "second")
    assert [m["content"] for m in kept] == [[text("x")], [call(1)], [result(1)], [new, text("y")]]
    assert told.messages[1]["content"] == [old, hidden, call(1)]
    assert load("thoughts").without_thoughts(told.messages, {}, "second") == told.messages, "nobody knows whose they are"
