"""A session in a process of its own, without the SDK, on a model that is a function: so that it can be killed.

    python tests/session_child.py work CHAPTER WORKSPACE [ID]    plays three prompts, in a new session or in that one
    python tests/session_child.py hold CHAPTER LOG               opens a log, says so, and waits for the end of stdin
    python tests/session_child.py shout CHAPTER LOG NAME COUNT   appends without asking for the lock
    python tests/session_child.py nursery CHAPTER                does "work" in a fork for each line of stdin (POSIX)

``work`` prints a line for each record as soon as the program believes that it is kept.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import time
from pathlib import Path

COPY = os.environ.get("COURSE_UNDER_TEST")  # the folder of a practice copy
PLACE = Path(COPY).parent if COPY else Path(__file__).resolve().parents[1]  # where the chapter is
PROMPTS = ("first", "second", "third")
STEPS = ("look", "build", "test", "tell")


def load(module: str):
    return importlib.import_module(f"{sys.argv[2]}.{module}")


def digest(data: dict) -> str:
    """Return what stands for a record: all of it but its type and its time."""
    kept = {name: value for name, value in data.items() if name not in ("type", "time")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def acknowledge() -> None:
    """From now on each record that was appended is announced on stdout."""
    log = load("session_log").Log
    append = log.append

    def append_and_say(self, kind: str, **data) -> None:
        append(self, kind, **data)
        os.write(1, f"{self.path.stem} {kind} {digest(data)}\n".encode())

    log.append = append_and_say


def answer(request: dict):
    """The model: what it does next follows from how often it has spoken since the last prompt."""
    spoken, number = 0, 0
    for message in request["messages"]:
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        if message["role"] == "assistant":
            spoken, number = spoken + 1, number + 1
        elif set(texts) & set(PROMPTS):
            spoken = 0
    todos = [{"content": f"{step} {number}", "status": "pending"} for step in STEPS]
    calls = {
        0: [("todo_write", {"todos": todos}), ("write_file", {"path": f"note-{number}.txt", "content": "x" * 3000})],
        1: [("nap", {}), ("todo_write", {"todos": [{**todos[0], "status": "in_progress"}]}), ("nap", {})],
        2: [("nap", {}), ("glob", {"pattern": "*.txt"})],
    }.get(spoken, [])
    blocks = [{"type": "text", "text": f"turn {number}"}]
    for place, (name, arguments) in enumerate(calls):
        blocks.append({"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": arguments})
    return load("model").Reply(blocks, "tool_use" if calls else "end_turn", {"input_tokens": 7, "output_tokens": 3}, "fake")


def nap(agent) -> str:
    time.sleep(0.002)
    return "rested"


def new_agent(workspace: Path, show=lambda kind, **data: None):
    """Return the chapter's agent with the model above, and a tool that takes its time."""
    model = load("model").Model("offline-model", "http://127.0.0.1:9", "none")
    agent = load("harness").build(model, workspace, show, lambda question: "y")
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    load("tools").add_tool(agent, load("tools").Tool("nap", "Rests.", schema, nap, read_only=True))
    agent.call_model = answer
    return agent


def work(workspace: str, name: str = "") -> None:
    acknowledge()
    agent = new_agent(Path(workspace))
    if name:
        agent.session.resume(name)
    for prompt in PROMPTS:
        load("loop").run(agent, prompt)


def hold(path: str) -> None:
    log = load("session_log").Log(Path(path))
    log.append("begun", call="held")
    print("open", flush=True)
    sys.stdin.read()


def shout(path: str, name: str, count: str) -> None:
    load("session_log").try_lock = lambda file, at: True
    log = load("session_log").Log(Path(path))
    for number in range(int(count)):
        log.append("state", name=f"{name}-{number}", value="x" * 20_000)


def nursery() -> None:
    """For each line "WORKSPACE [ID]" on stdin do the work in a fork of this process, which has all imported already."""
    load("harness")
    for line in sys.stdin:
        process = os.fork()
        if not process:
            work(*line.split())
            os._exit(0)
        os.write(1, f"{process}\n".encode())
        os.waitpid(process, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    sys.path.insert(0, str(PLACE))
    {"work": work, "hold": hold, "shout": shout, "nursery": nursery}[sys.argv[1]](*sys.argv[3:])
