"""The way to a model: words arrive as they are said, and whatever a server does is a reply or one line with the cure.

The servers are small ones on loopback, and the offline model.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import CHAPTERS
from conftest import ROOT
from conftest import talk

import offline_model
from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Scenario
from offline_model.script import Step

KEY = "sk-ant-test-0123456789abcdef"
NAME = "claude-sonnet-5-5"
NOT_THE_API = "did not answer as a Messages API.*: check ANTHROPIC_BASE_URL"
INVALID = "invalid_request_error"
SOON = 10  # seconds after which a test gives up waiting for what takes milliseconds


# A small server


class Stub(ThreadingHTTPServer):
    """Gives its answers in order, the last one for ever. An answer is a function of the request's handler."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *answers) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.requests: list[SimpleNamespace] = []
        self.connections = 0
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.005,), daemon=True).start()

    def finish_request(self, request, client_address) -> None:
        self.connections += 1
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address) -> None:
        """Say nothing: clients go away in the middle here."""

    def close(self) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        stub = self.server
        stub.requests.append(SimpleNamespace(path=self.path, headers=self.headers, body=body))
        stub.answers[min(len(stub.requests), len(stub.answers)) - 1](self)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def begin(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def answer(status: int, body: str | dict, **headers: str):
    """Answer with ``body``, and ask the SDK not to try again."""
    data = (json.dumps(body) if isinstance(body, dict) else body).encode()

    def act(handler: Handler) -> None:
        handler.begin(status, **{"content_length": str(len(data)), "x_should_retry": "false", **headers})
        handler.wfile.write(data)

    return act


def refusal(status: int, kind: str, message: str, **headers: str):
    return answer(status, {"type": "error", "error": {"type": kind, "message": message}}, **headers)


def stream(*parts: str, then=lambda handler: handler.wfile.write(b"0\r\n\r\n")):
    """Stream ``parts``, and end as a server should, or otherwise by ``then``."""

    def act(handler: Handler) -> None:
        handler.begin(200, content_type="text/event-stream", transfer_encoding="chunked")
        for part in parts:
            handler.chunk(part)
        then(handler)

    return act


def stays_open(handler: Handler) -> None:
    handler.server.closing.wait(SOON)


def event(kind: str, **data) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


def block(index: int, start: dict, *deltas: dict) -> str:
    """Return the events of one content block."""
    return "".join(
        [
            event("content_block_start", index=index, content_block=start),
            *[event("content_block_delta", index=index, delta=delta) for delta in deltas],
            event("content_block_stop", index=index),
        ]
    )


def words(text: str) -> dict:
    return {"type": "text_delta", "text": text}


def ending(stop_reason: str = "end_turn") -> str:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage={"output_tokens": 7}) + event("message_stop")


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-of-the-server",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 1},
}
BEGINNING = event("message_start", message=MESSAGE)
TEXT = {"type": "text", "text": ""}
HELLO = BEGINNING + block(0, TEXT, words("Hel"), words("lo.")) + ending()


# Asking it


@pytest.fixture
def serve(load):
    """Return ``serve(*answers)``: a stub with these answers, and a model connected to it."""
    opened = []

    def serve(*answers, name: str = NAME, key: str = KEY, path: str = ""):
        stub = Stub(*answers)
        model = load("model").Model(name, stub.url + path, key)
        opened.append((model, stub))
        return model, stub

    yield serve
    for model, stub in opened:
        if model.client:
            model.client.close()
        stub.close()


@pytest.fixture
def offline(load):
    """Return ``offline(*steps)``: a model connected to the offline model, which says these steps to "go"."""
    servers = []

    def offline(*steps: Step, **options):
        server = offline_model.start(scenario=Scenario(about="test", exchanges=[talk("go", *steps)]), **options)
        servers.append(server)
        model = load("model").Model(offline_model.MODEL, server.url, "offline", server)
        servers.append(new_client(load, model))
        return model

    yield offline
    for server in servers:
        server.close()


def new_client(load, model, **options):
    """Give ``model`` its client early, with other options. Returns the client."""
    model.client = load("model").new_client(model.url, model.key).with_options(**options)
    return model.client


def ask(model, show=lambda kind, **data: None, **changes):
    request = {
        "model": model.name,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}],
        **model.extras,
        **changes,
    }
    return model(request, show)


def fails(load, model, **changes) -> Exception:
    """Ask ``model``, and return its ModelError, which must be fit to be shown."""
    with pytest.raises(load("model").ModelError) as caught:
        ask(model, **changes)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 800
    assert KEY not in text
    return caught.value


# Replies


def test_words_are_shown_while_the_model_still_speaks(serve):
    heard = threading.Event()

    def speak(handler):
        handler.begin(200, content_type="text/event-stream", transfer_encoding="chunked")
        handler.chunk(BEGINNING + event("content_block_start", index=0, content_block=TEXT))
        handler.chunk(event("content_block_delta", index=0, delta=words("Hel")))
        assert heard.wait(SOON)
        handler.chunk(event("content_block_delta", index=0, delta=words("lo.")))
        handler.chunk(event("content_block_stop", index=0) + ending())
        handler.wfile.write(b"0\r\n\r\n")

    shown = []

    def show(kind, **data):
        shown.append((kind, data))
        heard.set()

    model, _ = serve(speak)
    assert ask(model, show).text == "Hello."
    assert shown == [("text", {"text": "Hel"}), ("text", {"text": "lo."})]


def test_the_reply_is_plain_data(serve):
    call = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}
    pieces = [{"type": "input_json_delta", "partial_json": part} for part in ('{"command": ', '"echo 1", "n": [1, null]}')]
    model, _ = serve(
        stream(
            BEGINNING,
            block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hm."},
                {"type": "signature_delta", "signature": "abc="},
            ),
            block(1, {"type": "text", "text": "", "citations": None}, words("Look: é")),
            block(2, {"type": "of_tomorrow", "anything": {"a": None}}),
            block(3, call, *pieces),
            ending("tool_use"),
        )
    )
    shown = []
    reply = ask(model, lambda kind, **data: shown.append((kind, data["text"])))
    expected = [
        {"type": "thinking", "thinking": "Hm.", "signature": "abc="},
        {"type": "text", "text": "Look: é", "citations": None},
        {"type": "of_tomorrow", "anything": {"a": None}},
        {**call, "input": {"command": "echo 1", "n": [1, None]}},
    ]
    assert reply.content == expected
    assert json.loads(json.dumps(reply.content)) == expected
    assert all(type(part) is dict for part in reply.content)
    assert (reply.stop_reason, reply.model, reply.text) == ("tool_use", "claude-of-the-server", "Look: é")
    assert reply.calls == [expected[3]]
    assert type(reply.usage) is dict
    assert (reply.usage["input_tokens"], reply.usage["output_tokens"]) == (5, 7)
    assert shown == [("thinking", "Hm."), ("text", "Look: é")]


@pytest.mark.parametrize(
    "reason",
    ["end_turn", "stop_sequence", "tool_use", "max_tokens", "pause_turn", "refusal", "model_context_window_exceeded", "new_one"],
)
def test_every_stop_reason_is_handed_on(serve, reason):
    model, _ = serve(stream(BEGINNING, ending(reason)))
    reply = ask(model)
    assert (reply.stop_reason, reply.content, reply.text, reply.calls) == (reason, [], "", [])


def test_the_offline_model_speaks_in_pieces(offline):
    model = offline(Step("One two three four five.", thinking="I count.", calls=[Call("bash", command="echo 1")]))
    tool = {"name": "bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
    shown = []
    reply = ask(model, lambda kind, **data: shown.append((kind, data["text"])), tools=[tool])
    texts = [text for kind, text in shown if kind == "text"]
    assert len(texts) > 1 and "".join(texts) == reply.text == "One two three four five."
    assert "".join(text for kind, text in shown if kind == "thinking") == "I count."
    assert [part["type"] for part in reply.content] == ["thinking", "text", "tool_use"]
    assert reply.calls[0]["input"] == {"command": "echo 1"}
    assert reply.stop_reason == "tool_use"
    assert model.script.problems == []


def test_ctrl_c_ends_the_answer_and_the_next_one_is_whole(serve):
    model, stub = serve(stream(HELLO, then=stays_open), stream(HELLO))

    def press(kind, **data):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(model, press)
    assert ask(model).text == "Hello."
    assert len(stub.requests) == 2


# The end of an answer


@pytest.mark.parametrize(
    "then",
    [
        stays_open,
        lambda handler: handler.hang_up(),
        lambda handler: handler.chunk(": and so on\n\n") or stays_open(handler),
    ],
    ids=["stays open", "hangs up", "chats on"],
)
def test_an_answer_is_over_when_the_message_is(load, serve, then):
    model, _ = serve(stream(HELLO, then=then))
    new_client(load, model, timeout=SOON / 2, max_retries=0)
    started = time.monotonic()
    assert ask(model).text == "Hello."
    assert time.monotonic() - started < SOON / 2
    assert ask(model).text == "Hello."


def test_a_connection_is_used_again(load, serve, monkeypatch):
    """Also later than a server that stays open would have been hung up on."""
    monkeypatch.setattr(load("model"), "LINGER", 0.05)
    model, stub = serve(stream(HELLO))
    give_up = time.monotonic() + SOON
    for _ in range(3):
        ask(model)
        while any(type(thread) is threading.Timer for thread in threading.enumerate()):
            assert time.monotonic() < give_up
            time.sleep(0.005)
    assert (len(stub.requests), stub.connections) == (3, 1)


SPOKEN = BEGINNING + event("content_block_start", index=0, content_block=TEXT)
SPOKEN += event("content_block_delta", index=0, delta=words("Hel"))


@pytest.mark.parametrize("said", [BEGINNING, SPOKEN, SPOKEN + event("content_block_stop", index=0)])
@pytest.mark.parametrize("hangs_up", [False, True])
def test_an_answer_that_breaks_off_is_none(load, serve, said, hangs_up):
    model, stub = serve(stream(said, then=lambda handler: handler.hang_up()) if hangs_up else stream(said))
    error = fails(load, model)
    assert "broke off" in str(error) and "send the prompt again" in str(error)
    assert error.kind == "broken_stream"
    assert len(stub.requests) == 1


def test_a_stream_of_the_offline_model_that_breaks_off_is_none(load, offline):
    model = offline(Step("One two three four five.", breaks_after=8))
    assert fails(load, model).kind == "broken_stream"
    assert ask(model).text == "One two three four five."


@pytest.mark.parametrize(
    ("kind", "cure"),
    [
        ("overloaded_error", "wait a minute"),
        ("api_error", "wait a minute"),
        ("timeout_error", "wait a minute"),
        ("rate_limit_error", "limits the rate.*wait a minute"),
        ("invalid_request_error", "send the prompt again.*Oh dear"),
        ("of_tomorrow", "send the prompt again.*Oh dear"),
    ],
)
def test_an_error_in_the_middle_of_an_answer(load, serve, kind, cure):
    model, _ = serve(stream(SPOKEN, event("error", error={"type": kind, "message": "Oh dear"})))
    error = fails(load, model)
    assert error.kind == kind
    assert re.search(cure, str(error))


def test_an_error_in_the_middle_of_the_offline_models_answer(load, offline):
    model = offline(Step("One two three.", fault=Fault(status=200)))
    error = fails(load, model)
    assert error.kind == "overloaded_error"
    assert "wait a minute" in str(error)
    assert ask(model).text == "One two three."


# Errors


@pytest.mark.parametrize(
    ("give", "cure"),
    [
        (refusal(401, "authentication_error", "invalid x-api-key"), "refuses the key.*: check ANTHROPIC_API_KEY.*[.]env"),
        (refusal(403, "permission_error", "Not for you."), "403.*Not for you.*Check what your key may use"),
        (refusal(404, "not_found_error", f"model: {NAME}"), f"'{NAME}'.*: set ANTHROPIC_MODEL"),
        (refusal(404, "not_found_error", "Not Found"), "no Messages API.*: check ANTHROPIC_BASE_URL.*without /v1"),
        (answer(404, "<html>Nothing here</html>"), "no Messages API.*: check ANTHROPIC_BASE_URL"),
        (answer(404, {"detail": "Not Found"}), "no Messages API.*: check ANTHROPIC_BASE_URL"),
        (refusal(400, INVALID, "prompt is too long: 9 tokens > 8 maximum"), "400.*prompt is too long: 9"),
        (refusal(413, "request_too_large", "Request exceeds\nthe maximum size"), "413.*Request exceeds the maximum size"),
        (refusal(429, "rate_limit_error", "Too fast.", retry_after="17"), "wait 17 s, then send the prompt again.*Too fast"),
        (refusal(429, "rate_limit_error", "Spent."), "wait a minute, then send the prompt again.*Spent"),
        (refusal(429, "rate_limit_error", "Too fast.", retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), "wait a minute, then"),
        (refusal(500, "api_error", "Internal server error"), "is in trouble.*: wait a minute, then send the prompt again"),
        (answer(500, "<html>Oh</html>"), "is in trouble.*500.*: wait a minute"),
        (answer(502, ""), "is in trouble.*502.*: wait a minute"),
        (refusal(529, "overloaded_error", "Overloaded"), "is in trouble.*overloaded.*: wait a minute"),
        (answer(200, "<html>Welcome</html>", content_type="text/html"), NOT_THE_API),
        (answer(200, {"id": "x"}, content_type="application/json"), NOT_THE_API),
        (answer(204, ""), NOT_THE_API),
        (stream(), "broke off.*: send the prompt again"),
        (stream('event: message_start\ndata: {"type": "mess'), "broke off.*: send the prompt again"),
        (stream(": nothing yet\n\nevent: ping\ndata: {}\n\n"), "broke off.*: send the prompt again"),
        (stream('event: message_start\ndata: {"type": "mess\n\n'), NOT_THE_API),
        (stream("event: message_start\ndata: [1]\n\n"), NOT_THE_API),
        (stream("event: message_start\ndata: null\n\n"), NOT_THE_API),
        (stream(event("message_start", message={}), ending()), NOT_THE_API),
        (stream(block(0, TEXT, words("Hi.")), ending()), NOT_THE_API),
        (stream(BEGINNING, event("content_block_delta", index=3, delta=words("Hi.")), ending()), NOT_THE_API),
        (lambda handler: handler.hang_up(), "Cannot reach.*: check the network"),
    ],
)
def test_an_error_is_one_line_with_its_cure(load, serve, give, cure):
    model, _ = serve(give)
    new_client(load, model, max_retries=0)
    error = fails(load, model)
    assert re.search(cure, str(error)), error
    assert model.url in str(error)


def test_an_error_carries_what_a_retry_needs(load, serve):
    limited = refusal(429, "rate_limit_error", "Too fast.", Retry_After="17")
    model, _ = serve(limited, refusal(529, "overloaded_error", "Overloaded"))
    error = fails(load, model)
    assert (error.status, error.kind, error.headers["retry-after"]) == (429, "rate_limit_error", "17")
    error = fails(load, model)
    assert (error.status, error.kind) == (529, "overloaded_error")


@pytest.mark.parametrize("status", [400, 403, 413, 429, 500])
def test_a_server_that_repeats_the_key_does_not_put_it_on_the_screen(load, serve, status):
    model, _ = serve(refusal(status, "of_tomorrow", f"no {KEY} no"))
    fails(load, model)  # looks for the key
    assert KEY not in repr(model)


def test_a_stand_in_for_a_key_is_a_word_like_any_other(load, serve):
    model, _ = serve(refusal(403, "permission_error", "Run ollama first."), key="ollama")
    assert "Run ollama first." in str(fails(load, model))


def test_an_endless_message_is_cut(load, serve):
    model, _ = serve(answer(403, "<p>no</p>\n" * 10_000))
    fails(load, model)  # looks at the length


def test_a_server_that_says_nothing_is_not_waited_for_without_end(load, serve):
    silent, _ = serve(stays_open)
    halting, _ = serve(stream(SPOKEN, then=stays_open))
    for model in (silent, halting):
        new_client(load, model, timeout=0.2, max_retries=0)
        assert "did not answer in time: check the network" in str(fails(load, model))


def test_a_server_that_is_not_there(load, serve):
    model, stub = serve(stream(HELLO))
    stub.close()
    new_client(load, model, max_retries=0)
    assert re.search("Cannot reach.*ConnectError.*: check the network.*ANTHROPIC_BASE_URL", str(fails(load, model)))


def test_a_passing_trouble_is_tried_again_by_the_sdk_or_else_by_the_harness_alone(load, serve):
    again = {"x_should_retry": "true", "retry_after_ms": "1"}
    model, stub = serve(refusal(529, "overloaded_error", "Overloaded", **again), stream(HELLO))
    if importlib.util.find_spec(f"{load('model').__package__}.recovery"):
        assert (fails(load, model).status, len(stub.requests)) == (529, 1)
        return
    assert ask(model).text == "Hello."
    assert len(stub.requests) == 2


def test_text_that_cannot_be_encoded_is_said(load, serve):
    model, stub = serve(stream(HELLO))
    assert "no Unicode" in str(fails(load, model, system="the folder \udcff"))
    assert stub.requests == []


def test_an_error_of_the_screen_is_not_the_models(serve):
    model, _ = serve(stream(HELLO))

    def show(kind, **data):
        raise ValueError("I/O operation on closed file")

    with pytest.raises(ValueError, match="closed file"):
        ask(model, show)


# What a server does not take


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("thinking", "thinking: Extra inputs are not permitted"),
        ("thinking", "thinking.adaptive.display: Extra inputs are not permitted"),
        ("thinking", '"thinking.type.adaptive" is not supported for this model.'),
        ("thinking", "adaptive thinking is not supported on this model"),
        ("thinking", "Unknown parameter: 'thinking'."),
        ("cache_control", "cache_control: Extra inputs are not permitted"),
        ("cache_control", "body.cache_control: Extra inputs are not permitted"),
        ("cache_control", "Unrecognized request argument supplied: cache_control"),
    ],
)
def test_a_part_that_is_not_taken_is_left_out_from_then_on(serve, status, part, message):
    model, stub = serve(refusal(status, "invalid_request_error", message), stream(HELLO))
    request = {"model": NAME, "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], **model.extras}
    before = json.dumps(request)
    assert model(request, lambda kind, **data: None).text == "Hello."
    assert json.dumps(request) == before
    first, second = [dict(asked.body) for asked in stub.requests]
    assert {key: value for key, value in first.items() if key != part} == second
    assert part in first

    ask(model)
    assert len(stub.requests) == 3
    assert part not in stub.requests[2].body


def test_both_parts_may_be_left_out(serve):
    refusals = [f"{part}: Extra inputs are not permitted" for part in ("thinking", "cache_control")]
    model, stub = serve(*[refusal(400, INVALID, message) for message in refusals], stream(HELLO))
    assert ask(model).text == "Hello."
    assert model.extras == {}
    assert len(stub.requests) == 3


def test_it_is_asked_again_only_once(load, serve):
    model, stub = serve(refusal(400, INVALID, "thinking: Extra inputs are not permitted"))
    assert fails(load, model).status == 400
    assert len(stub.requests) == 2


def test_a_request_made_before_the_part_was_dropped_is_asked_again_too(serve):
    """As when several agents share the model, and the refusal of the first has just arrived."""
    model, stub = serve(refusal(400, INVALID, "thinking: Extra inputs are not permitted"), stream(HELLO))
    thinking = model.extras.pop("thinking")
    assert ask(model, thinking=thinking).text == "Hello."
    assert "thinking" not in stub.requests[1].body


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response.",
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.thinking.signature: Field required",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, "
        "a final `assistant` message must start with a thinking block",
        "thinking blocks cannot be modified",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
        "system.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
        "tools.2.custom.cache_control: Extra inputs are not permitted",
        "prompt is too long: 207791 tokens > 200000 maximum",
    ],
)
def test_a_refusal_of_a_block_is_not_taken_for_that(load, serve, message):
    model, stub = serve(refusal(400, INVALID, message))
    assert " ".join(message.split())[:100] in str(fails(load, model))
    assert len(stub.requests) == 1
    assert set(model.extras) == {"thinking", "cache_control"}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("claude-sonnet-5-5", True),
        ("claude-fable-5-2", True),
        ("anthropic/claude-opus-5", True),
        ("claude-opus-4-8", True),
        ("claude-sonnet-4-6", True),
        (offline_model.MODEL, True),
        ("claude-sonnet-4-5-20250929", False),
        ("claude-haiku-4-5", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-3-5-haiku-latest", False),
        ("qwen3-coder", False),
    ],
)
def test_a_summary_of_the_thinking_is_asked_of_models_known_to_give_one(load, name, asked):
    extras = load("model").Model(name, "http://127.0.0.1:1", KEY).extras
    assert extras.get("thinking") == ({"type": "adaptive", "display": "summarized"} if asked else None)
    assert extras["cache_control"] == {"type": "ephemeral"}


# Keys, addresses, proxies


@pytest.mark.parametrize("key", ["sk-ant\nx", "sk-ant\tx", "sk-ant\x00x", "sk-clé", "ключ", "sk-\u200bx"])
def test_a_key_that_no_header_can_carry(load, serve, key):
    model, stub = serve(stream(HELLO), key=key)
    error = fails(load, model)
    assert re.search("key.*: copy it again into ANTHROPIC_API_KEY", str(error))
    assert key not in str(error)
    assert stub.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "api.anthropic.com",
        "ftp://127.0.0.1",
        "http://",
        "http:///v1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://127.0.0.1:80 /x",
        "http://127.0.0.1 :80",
        "http://two words",
        "http://127.0.0.1/two words",
        "http://a\x7fb",
        "http://[::1",
        "",
    ],
)
def test_an_address_that_is_none(load, url):
    model = load("model").Model(NAME, url, KEY)
    assert re.search("ANTHROPIC_BASE_URL.*no address: it should look like https://", str(fails(load, model)))


def test_a_path_in_the_address_is_kept(serve):
    model, stub = serve(stream(HELLO), path="/anthropic")
    assert ask(model).text == "Hello."
    assert stub.requests[0].path == "/anthropic/v1/messages"


def test_the_key_goes_out_in_both_ways(load, serve, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "not this one")
    model, stub = serve(stream(HELLO))
    ask(model)
    headers = stub.requests[0].headers
    assert (headers["x-api-key"], headers["authorization"]) == (KEY, f"Bearer {KEY}")
    with load("model").new_client(load("model").DEFAULT_URL, KEY) as client:
        assert "x-api-key" not in {name.lower() for name in client.default_headers}
        assert client.default_headers["Authorization"] == f"Bearer {KEY}"


@pytest.fixture
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:{}", "socks5://127.0.0.1:{}", "nonsense://{}"])
def test_a_proxy_does_not_disturb_loopback(serve, offline, monkeypatch, no_proxies, proxy):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.format(dead_port()))
    model, _ = serve(stream(HELLO))
    assert ask(model).text == "Hello."
    model.url = model.url.replace("127.0.0.1", "localhost")
    model.client.close()
    model.client = None
    assert ask(model).text == "Hello."
    assert ask(offline(Step("Hi."))).text == "Hi."


def test_a_proxy_is_used_for_what_is_elsewhere(serve, load, monkeypatch, no_proxies):
    _, stub = serve(stream(HELLO))
    monkeypatch.setenv("HTTP_PROXY", stub.url)
    model = load("model").Model(NAME, "http://model.invalid/api", KEY)
    with new_client(load, model):
        assert ask(model).text == "Hello."
    assert stub.requests[0].path == "http://model.invalid/api/v1/messages"


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "nonsense://127.0.0.1"), ("ALL_PROXY", "socks5://127.0.0.1:1"), ("SSL_CERT_FILE", "no-such-file.pem")],
)
def test_a_proxy_or_certificate_that_cannot_be_used(load, monkeypatch, no_proxies, name, value):
    if value.startswith("socks5") and importlib.util.find_spec("socksio"):
        return  # with this package such a proxy can be used
    monkeypatch.setenv(name, value)
    model = load("model").Model(NAME, "https://model.invalid", KEY)
    assert re.search(f"proxy or certificate settings.*: check .*{name}", str(fails(load, model)))


def test_two_models_live_in_one_process(serve):
    no = refusal(400, INVALID, "thinking: no")
    one, stub_one = serve(no, stream(HELLO), name="claude-opus-5", key="key-one")
    two, stub_two = serve(stream(HELLO), name="claude-fable-5", key="key-two")
    for model in (one, two, one, two):
        assert ask(model).text == "Hello."
    for stub, key, name in ((stub_one, "key-one", "claude-opus-5"), (stub_two, "key-two", "claude-fable-5")):
        assert {(asked.headers["x-api-key"], asked.body["model"]) for asked in stub.requests} == {(key, name)}
    assert "thinking" not in one.extras
    assert all("thinking" in asked.body for asked in stub_two.requests)


# Settings


@pytest.fixture
def settings(load, tmp_path):
    """Return ``settings(text)``: what is read from a folder whose .env holds ``text`` (str or bytes)."""

    def settings(text):
        (tmp_path / ".env").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load("model").read_settings(tmp_path)

    return settings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ANTHROPIC_API_KEY=k", {"ANTHROPIC_API_KEY": "k"}),
        ("\ufeffANTHROPIC_API_KEY=k", {"ANTHROPIC_API_KEY": "k"}),
        ("ANTHROPIC_API_KEY=k\r\nMODEL_ID=m\r\n", {"ANTHROPIC_API_KEY": "k", "MODEL_ID": "m"}),
        ("ANTHROPIC_API_KEY = 'k'", {"ANTHROPIC_API_KEY": "k"}),
        ('export ANTHROPIC_API_KEY="k"  # mine', {"ANTHROPIC_API_KEY": "k"}),
        ("# ANTHROPIC_API_KEY=k\n\n", {}),
        ("ANTHROPIC_API_KEY=\nANTHROPIC_BASE_URL=''\nANTHROPIC_MODEL='  '\nMODEL_ID", {}),
        ("ANTHROPIC_API_KEY=' k '", {"ANTHROPIC_API_KEY": "k"}),
        ("PATH=/nowhere\nOPENAI_API_KEY=o\nmodel_id=m", {}),
        ("", {}),
    ],
)
def test_settings_of_the_file(settings, text, found):
    before = dict(os.environ)
    assert settings(text) == found
    assert dict(os.environ) == before


def test_the_environment_wins_over_the_file_and_blanks_count_as_unset(settings, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", " from the environment ")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "  ")
    monkeypatch.setenv("MODEL_ID", "")
    monkeypatch.setenv("SOMETHING_ELSE", "x")
    assert settings("ANTHROPIC_API_KEY=f\nANTHROPIC_BASE_URL=u\nMODEL_ID=m\n") == {
        "ANTHROPIC_API_KEY": "from the environment",
        "ANTHROPIC_BASE_URL": "u",
        "MODEL_ID": "m",
    }


def test_settings_come_from_the_given_folder_only(load, tmp_path, monkeypatch):
    below, beside = tmp_path / "below", tmp_path / "beside"
    below.mkdir()
    beside.mkdir()
    for folder in (tmp_path, beside):
        (folder / ".env").write_text("ANTHROPIC_API_KEY=k\n", encoding="utf-8")
    monkeypatch.chdir(beside)
    assert load("model").read_settings(below) == {}
    (below / ".env").mkdir()
    assert load("model").read_settings(below) == {}


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_a_file_in_another_encoding_is_said(load, settings, encoding):
    """PowerShell's ">" writes UTF-16."""
    with pytest.raises(load("model").ModelError, match=r"[.]env.*: save it as UTF-8"):
        settings("ANTHROPIC_API_KEY=clé\n".encode(encoding))


# Connecting


@pytest.fixture
def connect(load, tmp_path, monkeypatch):
    """Return ``connect(**environment)``."""
    opened = []

    def connect(**environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        model = load("model").connect(tmp_path, "no such lesson")
        opened.append(model)
        return model

    yield connect
    for model in opened:
        if model.client:
            model.client.close()
        if model.script:
            model.script.close()


def test_without_settings_it_is_the_offline_model(connect):
    model = connect()
    assert (model.name, model.url) == (offline_model.MODEL, model.script.url)
    assert model.script.lines == []
    assert "offline model" in model.describe() and model.url in model.describe()
    assert "I am the offline model" in ask(model).text


def test_with_a_key_it_is_the_default_model(load, connect):
    module = load("model")
    model = connect(ANTHROPIC_API_KEY=KEY)
    assert (model.name, model.url, model.key) == (module.DEFAULT_MODEL, module.DEFAULT_URL, KEY)
    assert model.script is None
    assert module.DEFAULT_MODEL in model.describe() and KEY not in model.describe() + repr(model)


def test_the_file_counts_too(connect, tmp_path):
    (tmp_path / ".env").write_text("ANTHROPIC_AUTH_TOKEN=t\nMODEL_ID=m\n", encoding="utf-8")
    model = connect()
    assert (model.name, model.key) == ("m", "t")
    assert "ANTHROPIC_AUTH_TOKEN" not in os.environ


def test_the_key_and_the_name_that_win(connect):
    model = connect(ANTHROPIC_API_KEY="k", ANTHROPIC_AUTH_TOKEN="t", ANTHROPIC_MODEL="a", MODEL_ID="m")
    assert (model.name, model.key) == ("a", "k")


def test_an_address_without_a_key_is_enough(connect):
    model = connect(ANTHROPIC_BASE_URL="http://127.0.0.1:1/x/", MODEL_ID="m")
    assert (model.name, model.url) == ("m", "http://127.0.0.1:1/x")
    assert model.key and model.script is None


def test_neither_a_key_nor_the_offline_model(load, connect, monkeypatch):
    monkeypatch.setitem(sys.modules, "offline_model", None)
    with pytest.raises(load("model").ModelError, match="No model: set ANTHROPIC_API_KEY.*offline_model"):
        connect()


def test_without_the_sdk_the_first_request_says_how_to_get_it(load, serve, monkeypatch):
    model, _ = serve(stream(HELLO))
    monkeypatch.setitem(sys.modules, "anthropic", None)
    load("model").import_sdk()
    assert gc.isenabled()
    assert re.search("SDK.*: run pip install", str(fails(load, model)))


def test_without_dotenv_the_file_is_not_passed_over(load, settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "dotenv", None)
    with pytest.raises(load("model").ModelError, match="package.*: run pip install"):
        settings("ANTHROPIC_API_KEY=k")


def test_importing_a_chapter_has_no_side_effect():
    """No thread, socket, process or file written, no change of environment or path, nothing heavy loaded."""
    modules = [f"{name}.{path.stem}" for name in CHAPTERS for path in sorted((ROOT / name).glob("*.py"))]
    code = """
import importlib, json, os, signal, sys, threading
import argparse, dataclasses, shutil, socket, subprocess, tempfile, urllib.parse  # these may do what they like
events = []
NOTED = ("_thread.start_new_thread", "socket.", "subprocess.Popen", "os.system", "os.putenv", "os.chdir", "os.mkdir", "os.remove")
sys.addaudithook(lambda name, arguments: name.startswith(NOTED) and "__pycache__" not in str(arguments) and events.append(name))
state = lambda: [dict(os.environ), sys.path[:], os.getcwd(), threading.active_count(), signal.getsignal(signal.SIGTERM)]
before = state()
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
heavy = {"anthropic", "httpx2", "pydantic", "dotenv", "yaml", "offline_model"} & set(sys.modules)
print(json.dumps([events, state() == before, sorted(heavy)]))
"""
    command = [sys.executable, "-c", code, json.dumps(modules)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert json.loads(ran.stdout) == [[], True, []]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"command": "ls", "n": [1, 2.5, None, True]}, {"command": "ls", "n": [1, 2.5, None, True]}),
        ([1, 2], {}),
        ("ls", {}),
        (None, {}),
        ({"timeout": float("nan")}, {}),
        ({"timeout": float("inf")}, {}),
    ],
)
def test_arguments_that_no_request_could_carry_become_none(load, given, wanted):
    assert load("model").sound({"type": "tool_use", "id": "a", "name": "b", "input": given})["input"] == wanted


def test_arguments_nested_without_end_become_none(load):
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert load("model").sound({"type": "tool_use", "id": "a", "name": "b", "input": {"x": deep}})["input"] == {}


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"type": None},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "tool_use", "name": "a", "input": {}},
        {"type": "tool_use", "id": ["x"], "name": "a", "input": {}},
        {"type": "tool_use", "id": "x", "name": ["a"], "input": {}},
    ],
)
def test_a_block_that_is_none_is_nonsense(load, block):
    with pytest.raises(TypeError):
        load("model").sound(block)


def test_a_password_in_the_address_is_not_shown(load):
    model = load("model").Model("m", "https://me:secret@example.org/x", "k")
    assert model.describe() == "m at https://example.org/x"
