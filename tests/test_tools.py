"""The table of tools: arguments are checked, errors are results, and every call gets exactly one result."""

from __future__ import annotations

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": "number"},
        "loud": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "items": {"type": "array", "items": {"type": "integer"}},
        "extra": {"type": "object"},
        "either": {"type": ["array", "string"]},
        "anything": {},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.fixture
def check(load):
    tools = load("tools")
    tool = tools.Tool("probe", "", SCHEMA, lambda agent, **arguments: "")
    return lambda given: tools.check_arguments(tool, given)


@pytest.mark.parametrize(
    "given",
    [
        {"name": "x"},
        {"name": "", "count": 1},
        {"name": "x", "count": 9, "share": 2, "loud": False, "mode": "slow"},
        {"name": "x", "share": 0.5, "items": [], "extra": {}},
        {"name": "x", "either": "text"},
        {"name": "x", "either": [1]},
        {"name": "x", "anything": None},
    ],
)
def test_right_arguments_pass_as_they_are(check, given):
    assert check(given) == given


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"items": "[1, 2]"}, {"items": [1, 2]}),
        ({"extra": '{"a": 1}'}, {"extra": {"a": 1}}),
        ({"either": "[1, 2]"}, {"either": "[1, 2]"}),
    ],
)
def test_a_list_that_arrives_as_a_json_string_is_taken_out_of_it(check, given, wanted):
    assert check({"name": "x", **given}) == {"name": "x", **wanted}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["needs", "'name'"]),
        ({"name": 3}, ["'name'", "string", "integer"]),
        ({"name": None}, ["'name'", "string", "null"]),
        ({"name": "x", "nmae": "y"}, ["'nmae'", "name"]),
        ({"name": "x", "count": True}, ["'count'", "integer", "boolean"]),
        ({"name": "x", "count": 1.5}, ["'count'", "integer", "number"]),
        ({"name": "x", "count": 0}, ["'count'", "at least 1"]),
        ({"name": "x", "count": 10}, ["'count'", "at most 9"]),
        ({"name": "x", "share": "half"}, ["'share'", "number"]),
        ({"name": "x", "loud": "yes"}, ["'loud'", "boolean"]),
        ({"name": "x", "mode": "medium"}, ["'mode'", "fast, slow"]),
        ({"name": "x", "items": "[1, "}, ["'items'", "no JSON"]),
        ({"name": "x", "items": '{"a": 1}'}, ["'items'", "array", "object"]),
        ({"name": "x", "items": [1, "two"]}, ["'items'", "item 2", "integer"]),
        ({"name": "x", "extra": "[" * 100_000}, ["'extra'", "no JSON"]),
        ({"name": "x", "extra": []}, ["'extra'", "object", "array"]),
        (["x"], ["probe", "named arguments", "array"]),
        ("x", ["probe", "named arguments", "string"]),
    ],
)
def test_wrong_arguments_are_named(check, load, given, words):
    with pytest.raises(load("tools").ToolError) as error:
        check(given)
    assert [word for word in words if word not in str(error.value)] == []


def test_two_tools_cannot_share_a_name(chapter):
    tools = chapter.load("tools")
    agent = chapter.agent()
    with pytest.raises(ValueError, match="already"):
        tools.add_tool(agent, tools.Tool("bash", "", SCHEMA, lambda agent: ""))


def results(agent):
    return [b for m in agent.history.messages for b in m["content"] if b["type"] == "tool_result"]


def run_with(chapter, function, *calls, schema=SCHEMA):
    """Give the agent one more tool, let the model make the calls, and return the outcome and the results."""
    tools = chapter.load("tools")
    agent = chapter.agent(talk("go", Step(calls=calls), Step("Done.")), talk("and now?", Step("All is well.")))
    tools.add_tool(agent, tools.Tool("probe", "A probe.", schema, function, read_only=True))
    outcome = chapter.run(agent, "go")
    found = results(agent)
    assert chapter.run(agent, "and now?").text == "All is well."
    return outcome, found


def test_a_tool_that_raises_is_a_result_and_the_next_call_runs(chapter):
    def explode(agent, name):
        if name == "one":
            raise RuntimeError("kaputt")
        return f"hello {name}"

    outcome, found = run_with(chapter, explode, Call("probe", name="one"), Call("probe", name="two"))
    assert outcome.text == "Done."
    assert found[0].get("is_error") and "RuntimeError" in found[0]["content"] and "kaputt" in found[0]["content"]
    assert found[1]["content"] == "hello two" and "is_error" not in found[1]


def test_a_tool_error_reaches_the_model_in_its_own_words(chapter):
    def refuse(agent, name):
        raise chapter.load("tools").ToolError("Not today. Try tomorrow.")

    _, found = run_with(chapter, refuse, Call("probe", name="x"))
    assert found[0]["content"] == "Not today. Try tomorrow." and found[0].get("is_error")


def test_an_unknown_tool_lists_what_there_is(chapter):
    _, found = run_with(chapter, lambda agent, name: "", Call("prob", name="x"))
    assert found[0].get("is_error") and "probe" in found[0]["content"] and "bash" in found[0]["content"]


def test_facts_are_shown_and_kept_from_the_model(chapter):
    def fact(agent, name):
        return chapter.load("tools").Result("text", {"exit_status": 7})

    _, found = run_with(chapter, fact, Call("probe", name="x"))
    assert found[0]["content"] == "text"
    assert [data["facts"] for kind, data in chapter.shown if kind == "tool_result"] == [{"exit_status": 7}]


def test_output_that_no_request_can_carry_is_mended(chapter):
    _, found = run_with(chapter, lambda agent, name: "a\ud800b", Call("probe", name="x"), Call("probe", name="y"))
    assert found[0]["content"] == "a?b"


def test_the_exit_status_of_a_command_is_a_fact(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="echo '[exit status 0]'; exit 4")]), Step("Done.")))
    chapter.run(agent, "go")
    facts = [data["facts"] for kind, data in chapter.shown if kind == "tool_result"]
    assert facts == [{"command": "echo '[exit status 0]'; exit 4", "exit_status": 4}]


def test_every_tool_is_offered_with_its_schema(chapter):
    agent = chapter.agent()
    for definition in agent.request()["tools"]:
        schema = definition["input_schema"]
        assert definition["description"]
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        assert agent.tools[definition["name"]].schema is schema


def test_a_result_of_megabytes_is_cut(chapter):
    _, found = run_with(chapter, lambda agent, name: "x" * 300_000, Call("probe", name="x"))
    assert found[0]["content"].endswith("x\n[200000 characters left out]") and len(found[0]["content"]) < 101_000
