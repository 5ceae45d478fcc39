"""The HTTP side: reads a request, asks the referee, the script and the accountant, and writes the answer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

from . import referee
from .accountant import Measure
from .accountant import measure
from .errors import ApiError
from .errors import invalid
from .models import MODELS
from .models import Model
from .models import describe
from .reply import broken_off
from .reply import compose
from .reply import events
from .script import Fault
from .server import Record
from .server import Server

MAX_BODY = 32 * 1024 * 1024  # bytes; the API's own limit
MAX_DRAIN = 64 * 1024 * 1024  # bytes of a body too large that are still read, so that the client hears the refusal
BLOCK = 64 * 1024  # bytes read at a time while draining
NO_RETRY = (400, 401, 403, 404, 405, 413)  # statuses that a client should not try again
SECRET_HEADERS = ("x-api-key", "authorization")
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a pair, as JSON writes it
USUAL_MESSAGES = {429: "Rate limited", 500: "Internal server error", 504: "Timeout", 529: "Overloaded"}


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server_version = "offline-model"
    sys_version = ""
    disable_nagle_algorithm = True  # else each streamed reply takes 40 ms longer
    wbufsize = BLOCK
    server: Server
    entry: Record | None = None  # of the request at hand, if it is a POST
    request_id = ""

    def do_HEAD(self) -> None:
        self._guarded(self._get)

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the lesson."""

    def handle_expect_100(self) -> bool:
        carry_on = super().handle_expect_100()
        self.wfile.flush()
        return carry_on

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server refuses by itself (a broken request line, an unknown method) is answered as JSON too."""
        self.close_connection = True
        self.entry, self.request_id = None, new_request_id()
        self._refuse(ApiError(405 if code == 501 else code, message or "Bad request"))

    def _guarded(self, act: Callable[[], None]) -> None:
        """Whatever a client sends, it gets an answer, and nothing is printed."""
        self.entry, self.request_id = None, new_request_id()
        try:
            act()
        except ApiError as error:
            self._refuse(error)
        except RecursionError:
            self._refuse(invalid("The request body is nested too deeply"))
        except OSError:
            self.close_connection = True  # the client went away
        except Exception as error:
            self.server.problems.append(f"the server itself failed: {type(error).__name__}: {error}")
            self._refuse(ApiError(500, "Internal server error"))
        finally:
            self._ended()

    def _get(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._send(200, {"type": "offline_model", "message": "POST /v1/messages"})
            return
        self._check_headers()
        if path == "/v1/models":
            models = [describe(model) for model in MODELS.values()]
            ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]}
            self._send(200, {"data": models, "has_more": False, **ends})
        elif path.startswith("/v1/models/"):
            name = path[len("/v1/models/") :]
            if name not in MODELS:
                raise ApiError(404, f"model: {name}")
            self._send(200, describe(MODELS[name]))
        else:
            raise ApiError(404, "Not Found")

    def _post(self) -> None:
        path = self.path.partition("?")[0]
        self.entry = self.server.record(self.path, self._safe_headers())
        raw = self._read_body()
        self._check_headers()
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            raise ApiError(404, "Not Found")
        request = _parse(raw)
        self.server.keep_body(self.entry, request)
        counting = path.endswith("count_tokens")
        referee.check_shape(request, self._version(), self._betas(), counting)
        model = MODELS.get(request["model"])
        if model is None:
            raise ApiError(404, f"model: {request['model']}")
        if self.server.context_limit is not None:
            model = replace(model, context=self.server.context_limit)
        if self.server.cache_minimum is not None:
            model = replace(model, cache_minimum=self.server.cache_minimum)
        self.entry.warnings = referee.check_meaning(
            request,
            model,
            counting,
            self.server.script.pauses(request),
            self.server.orphan_index,
            self.server.split_results,
        )
        measured = measure(request)
        if counting:
            self.entry.usage = {"input_tokens": measured.tokens}
            self._send(200, self.entry.usage)
            return
        if measured.tokens > model.context:
            raise invalid(f"prompt is too long: {measured.tokens} tokens > {model.context} maximum")
        self._reply(request, model, measured)

    def _reply(self, request: dict, model: Model, measured: Measure) -> None:
        server = self.server
        turn = server.script.turn(request)
        fault = turn.fault
        if fault and not (fault.status == 200 and request.get("stream")):
            self._fail(fault)
            return
        charged = server.accountant.charge(measured, model.cache_minimum)
        reply = compose(turn, request, model, server.script.scenario.name, measured.digest, measured.tokens)
        usage = reply.usage(charged)
        self.entry.usage = usage
        self.entry.reply = reply.message(usage)
        if not request.get("stream"):
            if turn.breaks_after is not None:
                self.close_connection = True
                return
            self._send(200, self.entry.reply)
            return
        stream = events(reply, usage)
        if fault:
            stream = _with_error(broken_off(stream, len(turn.step.text) // 2), fault)
        elif turn.breaks_after is not None:
            stream = broken_off(stream, turn.breaks_after)
            self.close_connection = True  # said in the head, or the client would try to use the connection again
        self._stream(stream)

    def _fail(self, fault: Fault) -> None:
        if fault.status == 0:
            self.close_connection = True
            return
        status = 529 if fault.status == 200 else fault.status
        message = fault.message or USUAL_MESSAGES.get(status, "Error")
        self._refuse(ApiError(status, message, fault.error), fault.headers)

    def _stream(self, stream: Iterator[dict]) -> None:
        self._head(200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}, None)
        pace = self.server.pace
        for event in stream:
            data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            chunk = f"event: {event['type']}\ndata: {data}\n\n".encode("utf-8")
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            if pace:
                self.wfile.flush()
                if event["type"] == "content_block_delta":
                    time.sleep(pace)
        self._ended()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _refuse(self, error: ApiError, headers: dict | None = None) -> None:
        if self.entry:
            self.entry.error = error.message
        extra = dict(headers or {})
        if error.status in NO_RETRY:
            extra.setdefault("x-should-retry", "false")
        try:
            self._send(error.status, error.body(self.request_id), extra)
        except OSError:
            self.close_connection = True

    def _send(self, status: int, payload: dict, headers: dict | None = None) -> None:
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")
        self._head(status, {"content-type": "application/json", **(headers or {})}, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)
        self._ended()
        self.wfile.flush()

    def _ended(self) -> None:
        """Note the end in the record; before the last byte goes out, so that whoever has the answer can read it."""
        if self.entry and not self.entry.ended:
            self.entry.ended = time.monotonic()

    def _head(self, status: int, headers: dict, length: int | None) -> None:
        """length: bytes of the body, None for one in chunks."""
        if self.entry:
            self.entry.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("request-id", self.request_id)
        for warning in self.entry.warnings if self.entry else ():
            self.send_header("x-offline-model-warning", warning)
        if length is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(length))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()

    def _check_headers(self) -> None:
        key = self.headers.get("x-api-key")
        bearer = self.headers.get("authorization")
        if key is None and bearer is None:
            raise ApiError(401, "x-api-key header is required")
        if not (key or "").strip() and not re.fullmatch(r"(?i)bearer\s+\S+\s*", bearer or ""):
            raise ApiError(401, "invalid x-api-key")
        version = self._version()
        if not version:
            raise invalid("anthropic-version: header is required")
        if version not in referee.VERSIONS:
            raise invalid(f'anthropic-version: "{version}" is not a valid version')
        unknown = [beta for beta in self._betas() if not re.fullmatch(r"[a-z0-9-]+-20\d\d-\d\d-\d\d", beta)]
        if unknown:
            names = ", ".join(f"`{beta}`" for beta in unknown)
            raise invalid(
                f"Unexpected value(s) {names} for the `anthropic-beta` header. Please consult our documentation at "
                "platform.claude.com/docs or try again without the header."
            )

    def _version(self) -> str:
        return self.headers.get("anthropic-version", "")

    def _betas(self) -> list[str]:
        values = ",".join(self.headers.get_all("anthropic-beta") or [])
        return [beta.strip() for beta in values.split(",") if beta.strip()]

    def _safe_headers(self) -> dict[str, str]:
        return {
            name.lower(): "(redacted)" if name.lower() in SECRET_HEADERS else value
            for name, value in self.headers.items()
        }

    def _read_body(self) -> bytes:
        encoding = self.headers.get("content-encoding", "identity")
        if encoding != "identity":
            self.close_connection = True
            raise invalid(f"content-encoding {encoding} is not supported", "request_body_encoding_unsupported")
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._read_chunks()
        length = self.headers.get("content-length", "0")
        if not re.fullmatch(r"[0-9]{1,15}", length):
            self.close_connection = True
            raise invalid("content-length: not a number")
        if int(length) > MAX_BODY:
            self._drain(int(length))
            raise ApiError(413, "Request exceeds the maximum size")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the client left in the middle of its request")
        return body

    def _read_chunks(self) -> bytes:
        body = b""
        while True:
            head = self.rfile.readline(BLOCK).partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", head):
                self.close_connection = True
                raise invalid("transfer-encoding: a chunk has no size")
            size = int(head, 16)
            if len(body) + size > MAX_BODY:
                self._drain(size)
                raise ApiError(413, "Request exceeds the maximum size")
            body += self.rfile.read(size)
            if self.rfile.readline(BLOCK).strip():
                self.close_connection = True
                raise invalid("transfer-encoding: a chunk has another size than it says")
            if size == 0:
                return body

    def _drain(self, length: int) -> None:
        self.close_connection = True
        left = min(length, MAX_DRAIN)
        while left > 0:
            block = self.rfile.read(min(BLOCK, left))
            if not block:
                return
            left -= len(block)


def new_request_id() -> str:
    """An id in the API's form."""
    return f"req_011C{time.time_ns():020d}"


def _parse(raw: bytes) -> dict:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"The request body is not valid JSON: {error}", "request_body_encoding_invalid") from None
    try:
        request = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None
    if SURROGATE.search(text):
        try:
            json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        except UnicodeEncodeError as error:
            raise invalid(
                "The request body is not valid JSON: no low surrogate in string: "
                f"line 1 column {error.start + 1} (char {error.start})"
            ) from None
    if not isinstance(request, dict):
        raise invalid("Input should be a valid dictionary or object to extract fields from")
    return request


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _with_error(stream: Iterator[dict], fault: Fault) -> Iterator[dict]:
    yield from stream
    error = {"type": fault.error or "overloaded_error", "message": fault.message or "Overloaded"}
    yield {"type": "error", "error": error}
