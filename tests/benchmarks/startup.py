"""How soon a chapter speaks, asks, and is gone: ``python tests/benchmarks/startup.py [chapter]``.

Against a bare script that does nothing but ``import anthropic`` and one request. Both are started in turn, against the
same server, which notes when the request arrives and when its last byte has left. Where there are terminals, also when
the prompt stands on one, against a script that imports the SDK and then asks. Times are in milliseconds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 15  # of each, in alternation
BARE = """
import anthropic
http = anthropic.DefaultHttpxClient(trust_env=False)
client = anthropic.Anthropic(api_key="x", base_url="{url}", http_client=http)
messages = [{{"role": "user", "content": "hello"}}]
with client.messages.stream(model="claude-sonnet-5-5", max_tokens=1000, messages=messages) as stream:
    for event in stream:
        if event.type == "text":
            print(event.text, end="", flush=True)
"""
ASKS = 'import anthropic; input("\\n> ")'
PROMPT = b"\n> "
USAGE = {"input_tokens": 1, "output_tokens": 1}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "stop_sequence": None, "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
    {"type": "message_stop"},
]
BODY = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()


class Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    arrived = left = 0.0

    def do_POST(self) -> None:
        Stub.arrived = time.perf_counter()
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)
        Stub.left = time.perf_counter()

    def log_message(self, *arguments) -> None:
        pass


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Return the milliseconds from start to the first output, to the request, and from the last byte to the end."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    process.stdout.readline()
    spoke = time.perf_counter()
    process.stdout.read()
    process.wait()
    end = time.perf_counter()
    return (spoke - start) * 1000, (Stub.arrived - start) * 1000, (end - Stub.left) * 1000


def until_prompt(command: list[str], environment: dict[str, str]) -> float:
    """Return the milliseconds from start until the prompt stands on a terminal."""
    master, slave = os.openpty()
    start, seen = time.perf_counter(), b""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    while PROMPT not in seen:
        seen += os.read(master, 10_000)
    spent = time.perf_counter() - start
    process.kill()
    process.wait()
    os.close(master)
    return spent * 1000


def main() -> None:
    chapter = sys.argv[1] if len(sys.argv) > 1 else sorted(path.name for path in ROOT.glob("s[0-9][0-9]_*"))[-1]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**kept, "HOME": folder, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "x"}
        sides = {
            "bare script": [sys.executable, "-c", BARE.format(url=url)],
            chapter: [sys.executable, "-m", chapter, "--workdir", folder, "hello"],
        }
        asking = {"import, then a prompt": [sys.executable, "-c", ASKS], chapter: sides[chapter][:-1]}
        asking = asking if hasattr(os, "openpty") else {}
        results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
        prompts: dict[str, list[float]] = {name: [] for name in asking}
        for run in range(RUNS + 1):
            for name, command in sides.items():
                measured = measure(command, environment)
                if run:  # the first run writes bytecode
                    results[name].append(measured)
            for name, command in asking.items():
                spent = until_prompt(command, {**environment, "TERM": "dumb"})
                if run:
                    prompts[name].append(spent)
    print(f"{'median of ' + str(RUNS) + ' runs':<24} {'first output':>14} {'first request':>14} {'gone after':>14}")
    for name, rows in results.items():
        first, request, gone = (statistics.median(column) for column in zip(*rows))
        print(f"{name:<24} {first:>11.0f} ms {request:>11.0f} ms {gone:>11.0f} ms")
    for name, spent in prompts.items():
        print(f"prompt: {name:<24} {statistics.median(spent):>11.0f} ms")


if __name__ == "__main__":
    main()
