"""What the harness adds to a turn: ``python tests/benchmarks/turns.py [chapter]``.

Both sides in one run, turn by turn in alternation: a bare loop of ``messages.stream`` over plain dictionaries, and the
chapter's agent with a tool that does nothing. The server is a process of its own that says the same thing each time.
"""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

LENGTHS = (10, 100, 1000)  # turns that the conversation has when the measuring begins
BLOCKS = 10  # the two sides take turns, so that what else the machine does falls on both
TURNS = 10  # in a block
MODEL = "claude-sonnet-5-5"
TOOL = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
TEXT = "This is the result of a tool, and as long as many are: " + "so many words " * 10


def events() -> list[dict]:
    usage = {"input_tokens": 10, "output_tokens": 10}
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": None}
    return [
        {"type": "message_start", "message": {**start, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}} for _ in range(10)],
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "ID", "name": "noop", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"n": 1}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


class Stub(BaseHTTPRequestHandler):
    """Answers every request with the same tool call, under a new id."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    count = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Stub.count += 1
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events()]
        body = "".join(lines).replace('"ID"', f'"toolu_{Stub.count}"').encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments) -> None:
        pass


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    print(server.server_port, flush=True)
    server.serve_forever()


def conversation(turns: int) -> list[dict]:
    """Return a conversation of so many turns, as plain dictionaries."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    for number in range(turns):
        use = {"type": "tool_use", "id": f"toolu_old_{number}", "name": "noop", "input": {"n": number}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": TEXT}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "word " * 10}, use]})
        messages.append({"role": "user", "content": [result]})
    return messages


class Bare:
    """The bare loop. It sends the same request as the harness: the same tools, the same system prompt."""

    def __init__(self, request: dict, url: str, turns: int) -> None:
        import anthropic

        self.request = request
        http = anthropic.DefaultHttpxClient(trust_env=False)
        self.client = anthropic.Anthropic(api_key="x", base_url=url, http_client=http)
        self.messages = conversation(turns)

    def run(self, turns: int) -> list[float]:
        """Run so many turns; return the milliseconds of each."""
        times = [time.perf_counter()]
        for _ in range(turns):
            with self.client.messages.stream(**self.request, messages=self.messages) as stream:
                for event in stream:
                    if event.type == "text":
                        str(event.text)
                reply = stream.get_final_message()
            self.messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": TEXT}
                for block in reply.content
                if block.type == "tool_use"
            ]
            self.messages.append({"role": "user", "content": results})
            times.append(time.perf_counter())
        return [(after - before) * 1000 for before, after in zip(times, times[1:])]


class Harness:
    """The chapter's agent, with a tool that does nothing."""

    def __init__(self, chapter: str, url: str, turns: int) -> None:
        self.load = lambda name: importlib.import_module(f"{chapter}.{name}")
        model = self.load("model").Model(MODEL, url, "x")
        self.agent = self.load("harness").build(model, Path(tempfile.mkdtemp()), lambda kind, **data: None)
        tools = self.load("tools")
        tools.add_tool(self.agent, tools.Tool("noop", "Does nothing.", TOOL, self.noop, read_only=True))
        self.agent.history.messages = conversation(turns)
        self.times: list[float] = []

    def noop(self, agent, n: int) -> str:
        self.times.append(time.perf_counter())
        return TEXT

    def run(self, turns: int) -> list[float]:
        """Run so many turns; return the milliseconds of each."""
        self.times = []
        self.agent.max_turns = turns + 1
        self.load("loop").run(self.agent, "go on")
        return [(after - before) * 1000 for before, after in zip(self.times, self.times[1:])]


def main() -> None:
    chapter = sys.argv[1] if len(sys.argv) > 1 else sorted(path.name for path in ROOT.glob("s[0-9][0-9]_*"))[-1]
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    print(f"{chapter}: milliseconds a turn, median of {BLOCKS} times {TURNS} turns on each side")
    print(f"{'turns before':>12} {'bare loop':>10} {'harness':>10} {'ratio':>7}")
    try:
        for length in LENGTHS:
            harness = Harness(chapter, url, length)
            sides = {"bare": Bare(harness.agent.request(), url, length), "harness": harness}
            times: dict[str, list[float]] = {name: [] for name in sides}
            for side in sides.values():
                side.run(3)  # connects and warms up
            for _ in range(BLOCKS):
                for name, side in sides.items():
                    times[name] += side.run(TURNS)
            bare, ours = (statistics.median(times[name]) for name in ("bare", "harness"))
            print(f"{length:>12} {bare:>10.2f} {ours:>10.2f} {ours / bare:>7.2f}")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
