"""The offline model: what it refuses, how it answers, what it counts."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import anthropic
import pytest

import offline_model
from offline_model import marks
from offline_model.__main__ import scenario_names
from offline_model.accountant import LOOKBACK
from offline_model.accountant import Accountant
from offline_model.accountant import measure
from offline_model.models import MODELS
from offline_model.script import Call
from offline_model.script import Exchange
from offline_model.script import Fault
from offline_model.script import Scenario
from offline_model.script import Step
from offline_model.script import load_scenario

ROOT = Path(__file__).resolve().parents[1]
MODEL = offline_model.MODEL
EPHEMERAL = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
NEW = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
BEARER = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
OLD = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
BETA = {**NEW, "anthropic-beta": "message-threads-2026-08-12,compact-2026-09-04"}


# --- short ways to say things -----------------------------------------------------------------------------------


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(words="hello", **more):
    return {"type": "text", "text": words, **more}


def use(call_id="a", name="bash", **more):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}, **more}


def result(call_id="a", content="done", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def thought(words="hm", model=MODEL, shown=True):
    return {"type": "thinking", "thinking": words if shown else "", "signature": marks.sign(model, words, shown)}


def tool(name="bash", schema=None, **more):
    return {"name": name, "input_schema": schema or {"type": "object", "properties": {}}, **more}


def request(*messages, **more):
    return {"model": MODEL, "max_tokens": 1000, "messages": list(messages or [user(text())]), **more}


def without(body, name):
    return {key: value for key, value in body.items() if key != name}


def post(server, body, headers=NEW, path="/v1/messages", method="POST"):
    """Status, body, headers of one plain request."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode("utf-8")
    connection.request(method, path, raw, headers)
    answer = connection.getresponse()
    payload = answer.read()
    connection.close()
    return answer.status, json.loads(payload) if payload else None, answer.headers


def scripted(*steps, **more):
    return Scenario("test", [Exchange(says="go", steps=steps, **more)])


@pytest.fixture(scope="module")
def server():
    with offline_model.start() as running:
        yield running


@pytest.fixture
def play():
    """Start a server with these steps after the prompt "go"; closed at the end of the test."""
    running = []

    def start(*steps, **options):
        scenario = steps[0] if steps and isinstance(steps[0], Scenario) else scripted(*steps)
        running.append(offline_model.start(scenario, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture(scope="module")
def sdk():
    """Calls of the SDK with strict validation, at any server."""
    client = anthropic.Anthropic(
        api_key="k",
        base_url="http://127.0.0.1:1",
        max_retries=0,
        _strict_response_validation=True,
        http_client=anthropic.DefaultHttpxClient(trust_env=False),
    )
    yield lambda server: client.with_options(base_url=server.url)
    client.close()


# --- what is refused --------------------------------------------------------------------------------------------

ASK = user(text())
GO_ON = user(text("<system-reminder>\nPlease go on.\n</system-reminder>"))
CALLED = [ASK, assistant(use())]
DONE = [*CALLED, user(result())]
ORPHAN = "`tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have"
STRANGE = "unexpected `tool_use_id` found in `tool_result` blocks: b. Each `tool_result` block must have a corresponding"
CHANGED = "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
MARKED = text("x", cache_control=EPHEMERAL)
PICTURE = {"type": "base64", "data": "aGk=", "media_type": "image/png"}
OPUS = {"model": "claude-opus-5"}
HAIKU = {"model": "claude-haiku-4-5"}
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
CALL_WITH_THOUGHT = marks.make_call_id("s", 0, 0, 0, MODEL, "0123456789ab")

# name: (request, part of the message)
REFUSED = {
    # fields
    "no max_tokens": (without(request(), "max_tokens"), "max_tokens: Field required"),
    "no messages": (without(request(), "messages"), "messages: Field required"),
    "no model": (without(request(), "model"), "model: Field required"),
    "unknown field": (request(foo=1), "foo: Extra inputs are not permitted"),
    "unknown field inside": (
        request(user(text(foo=1))),
        "messages.0.content.0.text.foo: Extra inputs are not permitted",
    ),
    "fields of a message": (request({**ASK, "name": "me"}), "messages.0.name: Extra inputs are not permitted"),
    "no text": (request(user({"type": "text"})), "messages.0.content.0.text.text: Field required"),
    "text is a number": (
        request(user(text(5))),
        "messages.0.content.0.text.text: Input should be a valid string",
    ),
    "content is a number": (
        request({"role": "user", "content": 5}),
        "messages.0.content: Input should be a valid list",
    ),
    "no block": (request(user("hello")), "messages.0.content.0: Input should be a valid dictionary"),
    "unknown block": (
        request(user({"type": "song"})),
        "messages.0.content.0: Input tag 'song' found using 'type'",
    ),
    "block without type": (request(user({})), "messages.0.content.0: Unable to extract tag"),
    "input is text": (
        request(ASK, assistant(use(input="{}"))),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "messages is text": (request() | {"messages": "hi"}, "messages: Input should be a valid list"),
    "nothing said": (request() | {"messages": []}, "messages: at least one message is required"),
    "max_tokens is text": (request(max_tokens="9"), "max_tokens: Input should be a valid integer"),
    "max_tokens is true": (request(max_tokens=True), "max_tokens: Input should be a valid integer"),
    "max_tokens below 0": (request(max_tokens=-1), "max_tokens: Input should be greater than or equal to 0"),
    "max_tokens too big": (
        request(**OPUS, max_tokens=128001),
        "max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for claude-opus-5",
    ),
    "max_tokens 0 and stream": (
        request(max_tokens=0, stream=True),
        "max_tokens: 0 is not supported with stream",
    ),
    "blank stop sequence": (
        request(stop_sequences=[" "]),
        "stop_sequences: each stop sequence must contain non-whitespace",
    ),
    "effort": (
        request(output_config={"effort": "huge"}),
        "output_config.effort: Input should be 'low', 'medium'",
    ),
    "sampling": (request(temperature=1.0), "temperature: Extra inputs are not permitted"),
    "citations of a user": (
        request(user(text(citations=[{}]))),
        "messages.0.content.0.text.citations: Extra inputs",
    ),
    "beta field without beta": (request(thread={"type": "create"}), "thread: Extra inputs are not permitted"),
    # roles and content
    "wrong role": (
        request({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    "assistant first": (request(assistant(text()), ASK), 'messages: first message must use the "user" role'),
    "empty content": (
        request(user()),
        "messages.0: all messages must have non-empty content except for the optional final",
    ),
    "empty string": (
        request({"role": "user", "content": ""}),
        "messages.0: all messages must have non-empty content",
    ),
    "empty answer": (request(ASK, assistant(), ASK), "messages.1: all messages must have non-empty content"),
    "empty text": (request(user(text(""))), "messages: text content blocks must be non-empty"),
    "blank text": (
        request(user(text(" \n"))),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "blank string": (
        request({"role": "user", "content": " "}),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "empty text in a result": (
        request(*CALLED, user(result(content=[text("")]))),
        "messages: text content blocks must be non-empty",
    ),
    "empty system text": (request(system=[text("")]), "system: text content blocks must be non-empty"),
    "prefill": (
        request(ASK, assistant(text())),
        "This model does not support assistant message prefill. The conversation must",
    ),
    "prefill with space": (
        request(ASK, assistant(text("so ")), **HAIKU),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    "call of the user": (
        request(user(use())),
        "messages.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "result of the assistant": (
        request(ASK, assistant(result())),
        "messages.1: `tool_result` blocks can only be in `user` messages",
    ),
    "thinking of the user": (
        request(user(thought())),
        "messages.0: `thinking` blocks can only be in `assistant` messages",
    ),
    "system first": (
        request({"role": "system", "content": "x"}, ASK),
        'messages: first message must use the "user" role',
    ),
    "system in the middle": (
        request(ASK, {"role": "system", "content": "x"}, ASK),
        "messages.1: a system message must follow",
    ),
    "system before the result": (
        request(*CALLED, {"role": "system", "content": "x"}, user(result())),
        "messages.2: a system message must",
    ),
    # calls and results (which message is named is a switch: the index is not asserted here)
    "no result": (request(*CALLED, ASK), ORPHAN),
    "no result at the end": (request(*CALLED), ORPHAN),
    "text before the result": (request(*CALLED, user(text(), result())), ORPHAN),
    "text after the call": (request(ASK, assistant(use(), text()), user(result())), ORPHAN),
    "one of two": (request(ASK, assistant(use(), use("b")), user(result("b"))), ORPHAN),
    "text between results": (request(ASK, assistant(use("b"), use()), user(result("b"), text(), result())), ORPHAN),
    "result without call": (request(user(result("b"))), "messages.0.content.0: " + STRANGE),
    "result of an older call": (
        request(*DONE, assistant(text()), user(result())),
        "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.",
    ),
    "result too many": (request(*CALLED, user(result(), result("b"))), "messages.2.content.1: " + STRANGE),
    "two results": (
        request(*CALLED, user(result(), result())),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
    ),
    "same id twice": (
        request(ASK, assistant(use(), use()), user(result())),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "same id later": (
        request(*DONE, assistant(use()), user(result())),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "blank id": (
        request(ASK, assistant(use(""))),
        "messages.1.content.0.tool_use.id: String should match pattern",
    ),
    "id with a line break": (
        request(ASK, assistant(use("a\n"))),
        "messages.1.content.0.tool_use.id: String should match pattern",
    ),
    "bad name in a call": (
        request(ASK, assistant(use(name="a b"))),
        "messages.1.content.0.tool_use.name: String should match pattern",
    ),
    "unfinished server tool": (
        request(ASK, assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), ASK),
        "`web_search` tool use with id `s` was found without a corresponding `web_search_tool_result` block",
    ),
    # tools
    "tool name": (
        request(tools=[tool("a b")]),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "tool name too long": (
        request(tools=[tool("a" * 129)]),
        "tools.0.custom.name: String should match pattern",
    ),
    "tool name twice": (request(tools=[tool(), tool()]), "tools: Tool names must be unique."),
    "no schema": (request(tools=[{"name": "a"}]), "tools.0.custom.input_schema: Field required"),
    "schema without type": (
        request(tools=[tool(schema={"properties": {}})]),
        "tools.0.custom.input_schema.type: Field required",
    ),
    "schema of a list": (
        request(tools=[tool(schema={"type": "array"})]),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "broken schema": (
        request(tools=[tool(), tool("b", {"type": "object", "properties": {"x": {"type": "text"}}})]),
        "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    ),
    "oneOf on top": (
        request(tools=[tool(schema={"type": "object", "oneOf": [{}]})]),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    "unknown tool field": (request(tools=[tool(foo=1)]), "tools.0.custom.foo: Extra inputs are not permitted"),
    "unknown provider tool": (
        request(tools=[{"type": "oven_2026", "name": "x"}]),
        "tools.0: Input tag 'oven_2026' found using 'type'",
    ),
    "choice without tools": (
        request(tool_choice={"type": "auto"}),
        "tool_choice: may only be specified while providing tools",
    ),
    "forced": (
        request(tools=[tool()], tool_choice={"type": "any"}),
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ),
    "forced and thinking": (
        request(**HAIKU, **ENABLED | {"tools": [tool()], "tool_choice": {"type": "any"}}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "choice of no tool": (
        request(**OPUS, tools=[tool()], tool_choice={"type": "tool", "name": "x"}),
        "Tool 'x' not found",
    ),
    # thinking
    "enabled": (
        request(**ENABLED),
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort"',
    ),
    "adaptive, old model": (
        request(**HAIKU, thinking={"type": "adaptive"}),
        "adaptive thinking is not supported on this model",
    ),
    "disabled": (
        request(thinking={"type": "disabled"}),
        '"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode when not specified',
    ),
    "disabled, hard work": (
        request(**OPUS, thinking={"type": "disabled"}, output_config={"effort": "max"}),
        '"thinking.type.disabled" is not supported for this model at "output_config.effort" max.',
    ),
    "between tools": (
        request(thinking={"type": "between_tools"}),
        '"thinking.type.between_tools" is not supported',
    ),
    "small budget": (
        request(**HAIKU, thinking={"type": "enabled", "budget_tokens": 1000}),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "budget above the limit": (
        request(**HAIKU, thinking={"type": "enabled", "budget_tokens": 1024}),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    "edited thinking": (request(ASK, assistant(thought() | {"thinking": "ha"}, text()), ASK), CHANGED),
    "filled thinking": (request(ASK, assistant(thought(shown=False) | {"thinking": "hm"}, text()), ASK), CHANGED),
    "emptied thinking": (request(ASK, assistant(thought() | {"thinking": ""}, text()), ASK), CHANGED),
    "edited thinking, earlier": (
        request(ASK, assistant(thought() | {"thinking": "ha"}, text()), ASK, assistant(text()), ASK),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "thinking of another model": (
        request(ASK, assistant(thought(model="claude-opus-5"), text()), ASK),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "made-up signature": (
        request(ASK, assistant(thought() | {"signature": "é"}, text()), ASK),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "no signature": (
        request(ASK, assistant(without(thought(), "signature"), text()), ASK),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "dropped thinking": (request(ASK, assistant(use(CALL_WITH_THOUGHT)), user(result(CALL_WITH_THOUGHT))), CHANGED),
    "dropped thinking, enabled": (
        request(*DONE, **HAIKU, **ENABLED),
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is",
    ),
    # cache breakpoints
    "five breakpoints": (
        request(user(*[MARKED] * 5)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "four and the automatic one": (
        request(user(*[MARKED] * 3), tools=[tool(cache_control=EPHEMERAL)], cache_control=EPHEMERAL),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "breakpoint on empty text": (
        request(user(text(), text("", cache_control=EPHEMERAL))),
        "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
    ),
    "breakpoint on thinking": (
        request(ASK, assistant(thought() | {"cache_control": EPHEMERAL}, text()), ASK),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "long after short": (
        request(user(text("x", cache_control=LONG)), system=[MARKED]),
        "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'",
    ),
    "long automatic after short": (
        request(system=[MARKED], cache_control=LONG),
        "cache_control.ttl: a ttl='1h'",
    ),
    "automatic with another time": (request(user(MARKED), cache_control=LONG), "has another ttl"),
    "unknown time": (
        request(cache_control={"type": "ephemeral", "ttl": "1d"}),
        "cache_control.ttl: Input should be '5m' or '1h'",
    ),
    "unknown cache": (
        request(cache_control={"type": "eternal"}),
        "cache_control.type: Input should be 'ephemeral'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server, name):
    body, words = REFUSED[name]
    status, answer, headers = post(server, body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error"), answer
    assert words in answer["error"]["message"]
    assert headers["x-should-retry"] == "false"
    assert answer["request_id"] == headers["request-id"]


ACCEPTED = {
    "strings": request({"role": "user", "content": "hi"}, system="be brief"),
    "roles in a row": request(ASK, ASK, assistant(text()), assistant(text()), ASK),
    "a tool's turn": request(*DONE, tools=[tool()]),
    "results, then text": request(*CALLED, user(result(), text())),
    "results of a reply in any order": request(ASK, assistant(use(), use("b")), user(result("b"), result())),
    "results in two messages": request(ASK, assistant(use(), use("b")), user(result()), user(result("b"))),
    "result without content": request(*CALLED, user(without(result(), "content"))),
    "result with empty content": request(*CALLED, user(result(content="", is_error=False))),
    "result with a picture": request(
        *CALLED, user(result(content=[{"type": "image", "source": PICTURE}]))
    ),
    "calls of tools that are gone": request(*DONE),
    "thinking, shown": request(ASK, assistant(thought(), use()), user(result())),
    "thinking, not shown": request(ASK, assistant(thought(shown=False), use()), user(result())),
    "thinking dropped by another model": request(
        ASK, assistant(use(CALL_WITH_THOUGHT)), user(result(CALL_WITH_THOUGHT)), model="claude-opus-5-5"
    ),
    "thinking dropped long ago": request(
        ASK, assistant(use(CALL_WITH_THOUGHT)), user(result(CALL_WITH_THOUGHT)), assistant(text()), ASK
    ),
    "system at the end": request(ASK, {"role": "system", "content": "x"}),
    "system in between": request(ASK, {"role": "system", "content": "x"}, assistant(text()), ASK),
    "prefill of an old model": request(ASK, assistant(text("so")), **HAIKU),
    "forced, older model": request(**OPUS, tools=[tool()], tool_choice={"type": "any"}),
    "four breakpoints": request(user(*[MARKED] * 3), cache_control=EPHEMERAL),
    "long before short": request(user(MARKED), system=[text("x", cache_control=LONG)]),
    "provider's tool": request(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    "schema": request(
        tools=[
            tool(
                schema={
                    "type": "object",
                    "properties": {"todos": {"type": ["array", "string"], "items": {"type": "object"}}},
                    "required": ["todos"],
                    "additionalProperties": False,
                }
            )
        ]
    ),
    "nothing but the cache": request(max_tokens=0, cache_control=EPHEMERAL),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(server, name):
    status, answer, _ = post(server, ACCEPTED[name])
    assert status == 200, answer


@pytest.mark.parametrize(
    "body, headers, status, kind, words",
    [
        (request(), {"anthropic-version": "2026-10-21"}, 401, "authentication_error", "x-api-key header is required"),
        (request(), {**NEW, "x-api-key": ""}, 401, "authentication_error", "invalid x-api-key"),
        (request(), {**BEARER, "authorization": "Basic k"}, 401, "authentication_error", "invalid x-api-key"),
        (request(), {"x-api-key": "k"}, 400, "invalid_request_error", "anthropic-version: header is required"),
        (request(), {**NEW, "anthropic-version": "2020-01-01"}, 400, "invalid_request_error", "is not a valid version"),
        (request(), {**NEW, "anthropic-beta": "x"}, 400, "invalid_request_error", "Unexpected value(s) `x` for the"),
        (request(model="claude-nope"), NEW, 404, "not_found_error", "model: claude-nope"),
        (request(thread={"type": "create"}), BETA, 400, "invalid_request_error", "thread: "),
        (request(temperature=2), OLD, 400, "invalid_request_error", "temperature: Input should be less than or equal to 1"),
        (b"{nope", NEW, 400, "invalid_request_error", "The request body is not valid JSON: "),
        (b"", NEW, 400, "invalid_request_error", "The request body is not valid JSON: "),
        (b"[]", NEW, 400, "invalid_request_error", "Input should be a valid dictionary"),
        (b'{"a": "\xff"}', NEW, 400, "invalid_request_error", "The request body is not valid JSON: "),
        (b'{"a": NaN}', NEW, 400, "invalid_request_error", "NaN"),
        (b"[" * 100_000, NEW, 400, "invalid_request_error", "nested too deeply"),
        (b'{"a": "\\ud83d"}', NEW, 400, "invalid_request_error", "no low surrogate in string: line 1 column 7 (char 6)"),
        (b" " * (32 * 1024 * 1024 + 1), NEW, 413, "request_too_large", "Request exceeds the maximum size"),
    ],
)
def test_refused_before_the_rules(server, body, headers, status, kind, words):
    found, answer, _ = post(server, body, headers)
    assert (found, answer["error"]["type"]) == (status, kind)
    assert words in answer["error"]["message"]


def test_what_the_old_version_still_takes(server):
    assert post(server, request(temperature=0.5, top_p=0.9, top_k=5), OLD, "/v1/messages?beta=true")[0] == 200
    assert post(server, request(), {**BEARER, "anthropic-version": "2023-06-01"})[0] == 200
    beta = {**OLD, "anthropic-beta": "context-management-2025-06-27"}
    assert post(server, request(context_management={"edits": []}), beta)[0] == 200


def test_threads_are_refused_in_the_way_that_makes_the_sdk_fall_back(server):
    _, answer, _ = post(server, request(thread={"type": "create"}), BETA)
    assert answer["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_counting_has_the_same_rules_and_no_max_tokens(server):
    path = "/v1/messages/count_tokens"
    assert post(server, without(request(), "max_tokens"), path=path)[1]["input_tokens"] > 0
    assert post(server, request(), path=path)[1]["error"]["message"] == "max_tokens: Extra inputs are not permitted"
    assert ORPHAN in post(server, without(request(*CALLED, ASK), "max_tokens"), path=path)[1]["error"]["message"]


def test_the_two_open_points_are_switches(play):
    split = request(ASK, assistant(use(), use("b")), user(result()), user(result("b")))
    merging, refusing = play(), play(split_results="refuse", orphan_index="assistant")
    status, _, headers = post(merging, split)
    assert status == 200 and "parallel" in headers["x-offline-model-warning"]
    assert "parallel" in merging.requests[0].warnings[0]
    assert "immediately after: b." in post(refusing, split)[1]["error"]["message"]
    orphan = request(*CALLED, ASK)
    assert post(merging, orphan)[1]["error"]["message"].startswith("messages.2: ")
    assert post(refusing, orphan)[1]["error"]["message"].startswith("messages.1: ")
    for wrong in ({"split_results": "x"}, {"orphan_index": "x"}):
        with pytest.raises(ValueError):
            offline_model.start(**wrong)


def test_context_window(play):
    server = play(Step("word " * 200), context_limit=100)
    long = request(user(text("x" * 1000)))
    counted = post(server, without(long, "max_tokens"), path="/v1/messages/count_tokens")[1]["input_tokens"]
    assert post(server, long)[1]["error"]["message"] == f"prompt is too long: {counted} tokens > 100 maximum"
    _, answer, _ = post(server, request(user(text("go"))))
    assert answer["stop_reason"] == "model_context_window_exceeded"
    assert answer["usage"]["input_tokens"] + answer["usage"]["output_tokens"] == 100


def test_other_paths(server):
    assert post(server, None, {}, "/", "HEAD")[0] == 200
    assert post(server, None, {}, "/", "GET")[0] == 200
    assert post(server, None, {}, "/v1/models", "GET")[0] == 401
    assert post(server, None, NEW, "/v1/models/claude-nope", "GET")[0] == 404
    assert post(server, None, NEW, "/v1/batches", "GET")[0] == 404
    assert post(server, b"{}", NEW, "/v1/complete")[0] == 404
    assert post(server, None, NEW, "/v1/messages", "DELETE")[0] == 405


# --- the SDK ----------------------------------------------------------------------------------------------------

STEPS = (
    Step("Two calls.", thinking="Both at once.", calls=[Call("bash", command="ls é"), Call("bash", command="x" * 100)]),
    Step("Done."),
)


def converse(call, first="go", turns=10, **options):
    """Talk until no tool is called. `call(**request)` gives a message. Returns the messages."""
    messages = [user(text(first))]
    for _ in range(turns):
        message = call(model=MODEL, max_tokens=1000, messages=messages, **options)
        messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            break
        messages.append(user(*[result(block.id) for block in calls]))
    return messages


def streamed(client):
    def call(**options):
        with client.messages.stream(**options) as events:
            return events.get_final_message()

    return call


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_stream_and_create_say_the_same(sdk, play, display):
    client = sdk(play(*STEPS))
    thinking = {"type": "adaptive", "display": display}
    assert client.messages.create(**request())._request_id.startswith("req_011C")
    whole = converse(client.messages.create, thinking=thinking)
    pieces = converse(streamed(client), thinking=thinking)
    assert pieces == whole
    kinds = [block["type"] for block in whole[1]["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert whole[1]["content"][0]["thinking"] == ("Both at once." if display == "summarized" else "")
    assert whole[1]["content"][2]["input"] == {"command": "ls é"}
    assert whole[3]["content"] == [text("Done.")]


def test_stream_comes_in_pieces(sdk, play):
    with sdk(play(*STEPS)).messages.stream(model=MODEL, max_tokens=1000, messages=[user(text("go"))]) as events:
        seen = list(events)
        final = events.get_final_message()
    assert [event.text for event in seen if event.type == "text"] == ["Two", " calls."]
    assert sum(event.type == "input_json" for event in seen) > 4
    assert seen[0].type == "message_start" and seen[0].message.usage.input_tokens > 0
    assert final.stop_reason == "tool_use"
    assert final.usage.output_tokens > 20 and final.usage.output_tokens_details.thinking_tokens > 0


def test_events_on_the_wire(play):
    server = play(Step("One two.", calls=[Call("bash", command="ls")]))
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.request("POST", "/v1/messages", json.dumps(request(user(text("go")), stream=True)), NEW)
    answer = connection.getresponse()
    lines = answer.read().decode("utf-8").split("\n\n")
    connection.close()
    assert answer.headers["content-type"].startswith("text/event-stream")
    names = [event.split("\n")[0].removeprefix("event: ") for event in lines if event]
    assert all(json.loads(event.split("data: ", 1)[1])["type"] == name for event, name in zip(lines, names))
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_pace(sdk, play):
    start = time.perf_counter()
    streamed(sdk(play(Step("one two three four"), pace=0.02)))(**request(user(text("go"))))
    assert time.perf_counter() - start >= 0.08


def test_models_and_count(sdk, server):
    client = sdk(server)
    assert {model.id for model in client.models.list()} == set(MODELS)
    assert client.models.retrieve(MODEL).max_input_tokens == MODELS[MODEL].context
    body = without(request(system="s", tools=[tool()]), "max_tokens")
    counted = client.messages.count_tokens(**body).input_tokens
    usage = client.messages.create(**body, max_tokens=10).usage
    assert usage.input_tokens == counted


def test_tool_runner_falls_back_to_the_whole_history(sdk, play):
    @anthropic.beta_tool
    def bash(command: str) -> str:
        """Pretend to run a command.

        Args:
            command: what to run.
        """
        return command

    server = play(*STEPS)
    runner = sdk(server).beta.messages.tool_runner(**request(user(text("go"))), tools=[bash])
    assert runner.until_done().content[-1].text == "Done."
    assert not server.problems and not server.leftover()


def test_stop_sequences(sdk, play):
    answer = sdk(play(Step("one two three", calls=[Call("bash")]))).messages.create(
        model=MODEL, max_tokens=100, messages=[user(text("go"))], stop_sequences=["three", "two"]
    )
    assert (answer.stop_reason, answer.stop_sequence, answer.content[0].text) == ("stop_sequence", "two", "one ")
    assert len(answer.content) == 1


# --- cuts, faults, breaks ---------------------------------------------------------------------------------------


def test_a_text_is_cut_at_max_tokens(sdk, play):
    client = sdk(play(Step("word " * 50, calls=[Call("bash")])))
    for call in (client.messages.create, streamed(client)):
        answer = call(model=MODEL, max_tokens=5, messages=[user(text("go"))])
        assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 5)
        assert [block.to_dict() for block in answer.content] == [text(("word " * 50)[:20])]


def test_a_call_is_cut_in_the_middle_of_its_json(sdk, play):
    client = sdk(play(Step("Hm.", calls=[Call("bash", command="ls " * 50)])))
    pieces = []
    with client.messages.stream(model=MODEL, max_tokens=8, messages=[user(text("go"))]) as events:
        for event in events:
            if event.type == "input_json":
                pieces.append(event.partial_json)
        answer = events.get_final_message()
    assert answer.stop_reason == "max_tokens" and answer.content[1].input == {}
    assert "".join(pieces).startswith('{"command": "ls ls') and not "".join(pieces).endswith("}")
    whole = client.messages.create(model=MODEL, max_tokens=8, messages=[user(text("go"))])
    assert whole.stop_reason == "max_tokens" and whole.content[1].input == {}


def test_a_cut_text_is_gone_on_from(sdk, play):
    server = play(Step("One two three four five six."), Step("Seven."))
    client = sdk(server)
    messages = [user(text("go"))]
    cut = client.messages.create(model=MODEL, max_tokens=4, messages=messages)
    again = client.messages.create(model=MODEL, max_tokens=400, messages=messages)  # the same request with more room
    messages += [assistant(text(cut.content[0].text)), GO_ON]
    after = client.messages.create(model=MODEL, max_tokens=400, messages=messages)
    assert (again.content[0].text, after.content[0].text) == ("One two three four five six.", "Seven.")


def test_max_tokens_zero_only_fills_the_cache(sdk, play):
    client = sdk(play(Step("x")))
    body = {"model": MODEL, "messages": [user(text("go " * 50))], "cache_control": EPHEMERAL}
    first = client.messages.create(max_tokens=0, **body)
    second = client.messages.create(max_tokens=10, **body)
    assert (first.content, first.stop_reason) == ([], "max_tokens")
    assert second.usage.cache_read_input_tokens == first.usage.cache_creation_input_tokens > 0


def test_faults_come_first_and_then_the_reply(sdk, play):
    server = play(Step("Here.", fault=Fault(529, headers={"retry-after": "0"}, times=2)))
    client = sdk(server)
    for _ in range(2):
        with pytest.raises(anthropic.OverloadedError) as caught:
            client.messages.create(**request(user(text("go"))))
        assert (caught.value.type, caught.value.response.headers["retry-after"]) == ("overloaded_error", "0")
        assert "x-should-retry" not in caught.value.response.headers
    assert server.leftover()
    assert client.messages.create(**request(user(text("go")))).content[0].text == "Here."
    assert not server.leftover()


def test_the_sdk_retries_a_fault_by_itself(sdk, play):
    server = play(Step("Here.", fault=Fault(500, headers={"retry-after-ms": "1"}, times=2)))
    answer = sdk(server).with_options(max_retries=2).messages.create(**request(user(text("go"))))
    assert answer.content[0].text == "Here." and [entry.status for entry in server.requests] == [500, 500, 200]


def test_other_faults(sdk, play):
    server = play(Step("A long reply indeed.", fault=Fault(200)), Step("x", fault=Fault(0)))
    client = sdk(server)
    with pytest.raises(anthropic.APIStatusError) as caught:
        streamed(client)(**request(user(text("go"))))
    assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
    streamed(client)(**request(user(text("go"))))
    after = request(user(text("go")), assistant(text("A long reply indeed.")), GO_ON)
    with pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**after)
    assert client.messages.create(**after).content[0].text == "x"


def test_a_stream_breaks_off_once(sdk, play):
    call = streamed(sdk(play(Step("A sentence that is not finished.", breaks_after=15))))
    broken = call(**request(user(text("go"))))
    assert (broken.stop_reason, broken.content[0].text) == (None, "A sentence that")
    assert call(**request(user(text("go")))).stop_reason == "end_turn"


def test_a_break_inside_a_call(sdk, play):
    call = streamed(sdk(play(Step("Hm.", calls=[Call("bash", command="ls -la")], breaks_after=16))))
    broken = call(**request(user(text("go"))))
    assert broken.stop_reason is None and broken.content[1].input == {}


def test_stop_reasons(sdk, play):
    client = sdk(play(Step("Wait.", stop_reason="pause_turn"), Step("I won't.", stop_reason="refusal")))
    first = client.messages.create(**request(user(text("go"))))
    second = client.messages.create(**request(user(text("go")), assistant(text("Wait."))))  # goes back as it is
    assert (first.stop_reason, second.stop_reason, second.stop_details.type) == ("pause_turn", "refusal", "refusal")


# --- the script -------------------------------------------------------------------------------------------------


def say(server, *messages, **more):
    """The reply to these messages, raw."""
    status, answer, _ = post(server, request(*messages, **more))
    assert status == 200, answer
    return answer


def test_conditions(play):
    steps = (
        Step("a", calls=[Call("x")]),
        Step("refused", when="REFUSED"),
        Step("fine", unless="refused", offered="extra_tool"),
        Step("plain", unless="refused"),
    )
    server = play(*steps)
    first = say(server, user(text("go")))["content"]
    call_id = first[1]["id"]

    def next_text(content, **more):
        messages = [user(text("go")), assistant(*first), user(result(call_id, content))]
        return say(server, *messages, **more)["content"][0]["text"]

    assert next_text("Refused by the person") == "refused"
    assert next_text("ok") == "plain"
    assert next_text([text("ok")], tools=[tool("extra_tool")]) == "fine"


def test_a_step_for_a_model_that_was_told(play):
    server = play(Step("told", told="a row in docs"), Step("not told"))

    def first_text(*blocks, **more):
        return say(server, user(text("go"), *blocks), **more)["content"][0]["text"]

    assert first_text() == "not told"
    assert first_text(system=[{"type": "text", "text": "Write a row in docs."}]) == "told"
    assert first_text(system="Write a row in docs.") == "told"
    assert first_text(text("<system-reminder>\na row in docs\n</system-reminder>")) == "told"


def test_a_prompt_asked_twice_gets_new_ids(play):
    server = play(*STEPS)
    messages, ids = [], []
    for _ in range(3):
        messages.append(user(text("go")))
        while True:
            blocks = say(server, *messages)["content"]
            messages.append(assistant(*blocks))
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if not calls:
                break
            messages.append(user(*map(result, calls)))
            ids += calls
    assert len(ids) == len(set(ids)) == 6


def test_a_retry_is_the_same_request(play):
    server = play(*STEPS)
    assert say(server, user(text("go")))["content"] == say(server, user(text("go")))["content"]


def test_a_server_started_anew_finds_its_place(play):
    messages = [user(text("go"))]
    messages.append(assistant(*say(play(*STEPS), *messages)["content"]))
    messages.append(user(*[result(block["id"]) for block in messages[1]["content"] if block["type"] == "tool_use"]))
    assert say(play(*STEPS), *messages)["content"] == [text("Done.")]


def test_thinking_alone_marks_the_place(play):
    server = play(Step(thinking="First.", calls=()), Step("Second."))
    first = say(server, user(text("go")))["content"]
    assert [block["type"] for block in first] == ["thinking"]
    after = [assistant(*first), GO_ON]
    assert say(server, user(text("go")), *after)["content"] == [text("Second.")]


def test_harness_text_is_no_prompt_and_prompts_may_be_contained(play):
    scenario = Scenario(
        "test",
        [
            Exchange(says="go", steps=[Step("person")]),
            Exchange(contains="Summarise", typed=False, steps=[Step("summary")]),
        ],
    )
    server = play(scenario)
    assert server.lines == ["go"]
    reminder = text("<system-reminder>Summarise go</system-reminder>")
    assert say(server, user(text(" go\n"), reminder))["content"] == [text("person")]
    assert say(server, user(text("Summarise this: go")))["content"] == [text("summary")]
    assert not server.leftover() and not server.problems


def test_unknown_prompts_get_an_honest_answer(play, server):
    known = play(*STEPS)
    answer = say(known, user(text("Write a poem")))["content"][0]["text"]
    assert "offline model" in answer and "- go" in answer and "ANTHROPIC_API_KEY" in answer
    later = say(known, user(text("go")), assistant(text("Done.")), user(text("Write a poem")))["content"][0]["text"]
    assert "I do not know this prompt" in later
    assert "No script is loaded" in say(server, user(text("go")))["content"][0]["text"]
    assert not known.problems


def test_a_script_that_runs_short_says_so(play):
    server = play(Step("One."))
    answer = say(server, user(text("go")), assistant(text("One.")), GO_ON)
    assert "script of the offline model ends here" in answer["content"][0]["text"]
    assert server.problems == ["the script has no further step after 'go'"]


def test_leftover(play):
    scenario = Scenario(
        "test",
        [
            Exchange(
                says="go",
                steps=[Step("one", calls=[Call("x")]), Step("two"), Step("extra", extra=True)],
                answers={"ls": "y"},
            ),
            Exchange(says="later", steps=[Step("three")]),
            Exchange(says="experiment", typed=False, extra=True, steps=[Step("four")]),
        ],
    )
    server = play(scenario)
    say(server, user(text("go")))
    assert server.leftover() == [
        "step 2 after 'go' not used: 'two'",
        "answer to 'ls' not asked for (0 of 1)",
        "line not typed: 'later'",
        "step 1 after 'later' not used: 'three'",
    ]


def test_answers(play):
    scenario = Scenario(
        "test",
        [
            Exchange(says="go", steps=[], answers={"bash(ls)": "y", "write": ["y", "n"]}),
            Exchange(says="later", steps=[Step("x")], answers={"bash": "a"}),
        ],
    )
    server = play(scenario)
    assert [server.answer("Allow bash(ls)?") for _ in range(2)] == ["y", "y"]
    assert [server.answer("Allow write_file(x)?") for _ in range(3)] == ["y", "n", None]
    assert server.answer("Allow bash(cat)?") == "a"
    assert server.answer("Who are you?") is None
    say(server, user(text("later")))
    assert server.answer("Allow bash(ls)?") == "a"  # of the exchange that is going on


# --- the accountant ---------------------------------------------------------------------------------------------


def usage(server, *messages, **more):
    counts = say(server, *messages, **more)["usage"]
    return counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"], counts["input_tokens"]


def turns(count, size=40):
    """A conversation of so many short turns, ending with the person."""
    return [(user, assistant)[n % 2](text(f"{n} " + "x" * size)) for n in range(2 * count + 1)]


def test_a_growing_conversation_reads_what_it_wrote(play):
    server = play()
    more = {"cache_control": EPHEMERAL, "system": "s" * 100, "tools": [tool()]}
    had = 0
    for count in range(5):
        read, written, fresh = usage(server, *turns(count), **more)
        assert (read, fresh) == (had, 3)
        had = read + written
        assert written > 0


def test_nothing_is_cached_unasked(play):
    server = play()
    for _ in range(2):
        read, written, fresh = usage(server, *turns(3))
        assert (read, written) == (0, 0) and fresh > 50


def test_total_input_is_the_same_with_and_without_cache(play):
    server = play()
    plain = usage(server, *turns(4))
    assert sum(usage(server, *turns(4), cache_control=EPHEMERAL)) == sum(plain)


@pytest.mark.parametrize(
    "change, kept",
    [
        ({}, "all"),
        ({"tools": [tool("other")]}, "nothing"),
        ({"system": [text("other" * 20, cache_control=EPHEMERAL)]}, "tools"),
        ({"output_config": {"effort": "low"}}, "system"),
        ({"thinking": {"type": "adaptive"}}, "system"),
        ({"tool_choice": {"type": "none"}}, "system"),
        ({"max_tokens": 5}, "all"),
        ({"messages": turns(2)[:2] + [user(text("other"))]}, "system"),
        ({"model": "claude-opus-5"}, "nothing"),
    ],
)
def test_what_a_change_throws_away(play, change, kept):
    server = play(cache_minimum=1)
    base = request(
        *turns(2),
        tools=[tool(description="d" * 50, cache_control=EPHEMERAL)],
        system=[text("s" * 100, cache_control=EPHEMERAL)],
        cache_control=EPHEMERAL,
    )
    ends = {"nothing": 0}
    positions = measure(base).positions
    ends |= {"tools": positions[0].tokens, "system": positions[1].tokens, "all": positions[-1].tokens}
    post(server, base)
    counts = post(server, base | change)[1]["usage"]
    assert counts["cache_read_input_tokens"] == ends[kept]


def test_order_of_keys_and_the_place_of_breakpoints_do_not_matter_but_text_does(play):
    server = play(cache_minimum=1)
    _, written, _ = usage(server, user({"type": "text", "text": "hello", "cache_control": EPHEMERAL}))
    assert usage(server, user({"text": "hello", "type": "text"}), cache_control=EPHEMERAL)[0] == written
    assert usage(server, {"role": "user", "content": "hello"}, cache_control=EPHEMERAL)[0] == written
    assert usage(server, user(text("hello!")), cache_control=EPHEMERAL)[0] == 0


@pytest.mark.parametrize("new_blocks, hit", [(LOOKBACK - 1, True), (LOOKBACK, False)])
def test_lookback(play, new_blocks, hit):
    server = play(cache_minimum=1)
    first = [text("x" * 100)]
    _, written, _ = usage(server, user(*first), cache_control=EPHEMERAL)
    read, _, _ = usage(server, user(*first, *[text(str(n)) for n in range(new_blocks)]), cache_control=EPHEMERAL)
    assert read == (written if hit else 0)


def test_only_what_ends_at_a_breakpoint_is_written(play):
    server = play(cache_minimum=1)
    usage(server, user(text("a" * 50), text("b" * 50)), cache_control=EPHEMERAL)
    assert usage(server, user(text("a" * 50), text("c" * 50)), cache_control=EPHEMERAL)[0] == 0


def test_input_tokens_are_what_follows_the_last_breakpoint(play):
    server = play(cache_minimum=1)
    tail = text("y" * 400)
    _, _, fresh = usage(server, user(text("x" * 400, cache_control=EPHEMERAL), tail))
    assert 100 < fresh < 120


def test_minimum_and_lifetimes(play):
    server = play(cache_minimum=100)
    assert usage(server, user(text("x" * 40)), cache_control=EPHEMERAL)[:2] == (0, 0)
    counts = say(server, user(text("x" * 900, cache_control=LONG), text("y" * 900)), cache_control=EPHEMERAL)["usage"]
    assert counts["cache_creation"]["ephemeral_1h_input_tokens"] > 200
    assert counts["cache_creation"]["ephemeral_5m_input_tokens"] > 200
    assert sum(counts["cache_creation"].values()) == counts["cache_creation_input_tokens"]

    now = [0.0]
    accountant = Accountant(clock=lambda: now[0])
    measured = measure(request(user(text("x" * 400)), cache_control=EPHEMERAL))
    reads = []
    for now[0] in (0.0, 299.0, 597.0, 898.0):
        reads.append(accountant.charge(measured, 1)["cache_read_input_tokens"] > 0)
    assert reads == [False, True, True, False]  # reading renews


def test_a_refused_or_failed_request_writes_nothing(play):
    server = play(Step("x", fault=Fault(529)))
    body = request(user(text("go")), cache_control=EPHEMERAL)
    assert post(server, body)[0] == 529
    assert usage(server, user(text("go")), cache_control=EPHEMERAL)[0] == 0


# --- the server -------------------------------------------------------------------------------------------------


def test_parallel_requests_overlap(play):
    server = play(Step("one two three four five"), pace=0.02)
    body = request(user(text("go")), stream=True)
    threads = [threading.Thread(target=post_stream, args=(server, body)) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = server.requests
    assert [entry.status for entry in entries] == [200] * 40
    assert sum(a.started < b.ended and b.started < a.ended for a in entries for b in entries) > 40 * 20


def post_stream(server, body):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.request("POST", "/v1/messages", json.dumps(body), NEW)
    assert connection.getresponse().read().endswith(b'{"type":"message_stop"}\n\n')
    connection.close()


def test_records(play):
    server = play(Step("Hi."))
    post(server, request(user(text("go"))), {**NEW, "X-Api-Key": "secret", "Authorization": "Bearer secret"})
    post(server, request(user(text("go")), foo=1))
    good, bad = server.requests
    assert "secret" not in json.dumps(good.headers) and good.headers["x-api-key"] == "(redacted)"
    assert (good.path, good.status, good.body["messages"]) == ("/v1/messages", 200, [user(text("go"))])
    assert good.reply["content"] == [text("Hi.")] and good.usage == good.reply["usage"]
    assert good.started <= good.ended <= bad.ended
    assert (bad.status, bad.reply, bad.error) == (400, None, "foo: Extra inputs are not permitted")


def test_records_share_what_is_the_same(play):
    server = play()
    for count in (1, 2):
        post(server, request(*turns(count)))
    first, second = (entry.body["messages"] for entry in server.requests)
    assert second == turns(2) and all(one is other for one, other in zip(first, second))


def test_nothing_a_client_sends_brings_it_down(capfd):
    bodies = [b"\x00\xffgarbage\r\n\r\n", b"GET /\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"]
    head = b"POST /v1/messages HTTP/1.1\r\nx-api-key: k\r\nanthropic-version: 2026-10-21\r\nconnection: close\r\n"
    bodies += [head + b"content-length: x\r\n\r\n", head + b"transfer-encoding: chunked\r\n\r\nzz\r\n"]
    bodies += [head + b"content-encoding: gzip\r\ncontent-length: 1\r\n\r\nx"]
    with offline_model.start(pace=0.01) as server:
        host, port = server.url.removeprefix("http://").split(":")
        for raw in bodies:
            connection = http.client.HTTPConnection(host, int(port), timeout=10)
            connection.connect()
            connection.sock.sendall(raw)
            answer = connection.sock.makefile("rb").read()
            assert b'"type"' in answer
            connection.close()
        for cut in (head, head + b"content-length: 100\r\n\r\n{", b""):
            connection = http.client.HTTPConnection(host, int(port), timeout=10)
            connection.connect()
            connection.sock.sendall(cut)
            connection.close()
        streaming = json.dumps(request(stream=True)).encode("utf-8")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", "/v1/messages", streaming, NEW)
        connection.getresponse().read(10)
        connection.close()  # in the middle of the stream
        time.sleep(0.1)
        assert post(server, request())[0] == 200
        assert not server.problems
    assert capfd.readouterr() == ("", "")


def test_chunked_bodies(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    raw = json.dumps(request()).encode("utf-8")
    connection.request("POST", "/v1/messages", iter([raw[:9], raw[9:]]), NEW, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


def test_close_ends_everything():
    before = threading.active_count()
    server = offline_model.start()
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.request("POST", "/v1/messages", json.dumps(request()), NEW)
    connection.getresponse().read()
    start = time.perf_counter()
    server.close()
    server.close()
    assert time.perf_counter() - start < 1
    connection.close()
    deadline = time.perf_counter() + 2
    while threading.active_count() > before and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
    with pytest.raises(OSError):
        post(server, request())


def test_starting_is_quick_and_imports_nothing_heavy():
    code = """
import sys, time
start = time.perf_counter()
import offline_model
eager = [name for name in ("anthropic", "http.server", "ssl", "shutil", "tempfile") if name in sys.modules]
offline_model.start("s01_agent_loop")
print(time.perf_counter() - start, *eager)
"""
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(3)]
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.2
    assert [run.stdout.split()[1:] for run in runs] == [[]] * 3


def test_port_taken(server, capsys):
    from offline_model.__main__ import main

    assert main(["--port", server.url.rpartition(":")[2]]) == 1
    assert "Choose another with --port" in capsys.readouterr().err


def test_the_program_prints_its_address_and_ends_quietly():
    import signal

    command = [sys.executable, "-u", "-m", "offline_model", "--port", "0", "--scenario", "s01_agent_loop"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        prompt = load_scenario("s01_agent_loop").exchanges[-1].says
        printed = ""
        while prompt not in printed:
            line = program.stdout.readline()
            assert line, program.stderr.read()
            printed += line
        if sys.platform == "win32":
            program.kill()
            return
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=10)
    assert (program.returncode, errors) == (0, "")
    assert "http://127.0.0.1:" in printed and "ANTHROPIC_BASE_URL" in printed


# --- scenarios and the sample project ---------------------------------------------------------------------------


def test_scenarios_that_do_not_exist():
    assert load_scenario("s99_nothing") is None and load_scenario("../x") is None and load_scenario("") is None


@pytest.mark.parametrize("name", scenario_names())
def test_scenarios_are_sound(name):
    scenario = load_scenario(name)
    assert scenario.about and scenario.exchanges
    for exchange in scenario.exchanges:
        is_command = bool(exchange.line) and not (exchange.says or exchange.contains)
        assert is_command or bool(exchange.says) != bool(exchange.contains)
        assert bool(exchange.steps) != is_command or exchange.extra
        for step in exchange.steps:
            for call in step.calls:
                json.dumps(call.input)
                command = call.input.get("command", "")
                assert not {"rm", "rmdir", "mv", "dd", "sudo", "curl", "wget"} & set(command.split())
                assert "~" not in command and " /" not in command and ".." not in command


def test_workspace():
    import shutil

    one, other = offline_model.make_workspace(), offline_model.make_workspace()
    try:
        assert one != other and one.is_absolute()
        names = sorted(path.relative_to(one).as_posix() for path in one.rglob("*") if path.is_file())
        skills = ["skills/new-command/SKILL.md", "skills/new-command/check.sh", "skills/release-note/SKILL.md"]
        assert names == ["AGENTS.md", "README.md", "docs/usage.md", "notes.py", *skills, "store.py", "test_notes.py"]
        assert all(b"\r" not in path.read_bytes() for path in one.rglob("*.*") if path.is_file())
        run = subprocess.run([sys.executable, "-m", "unittest"], cwd=one, capture_output=True, text=True)
        assert run.returncode == 0 and "Ran 4 tests" in run.stderr
    finally:
        shutil.rmtree(one)
        shutil.rmtree(other)
