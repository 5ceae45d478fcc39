"""What each layer of compaction costs and saves, counted by the offline model: ``python tests/benchmarks/compaction.py``.

The lesson is played, and its requests are read off. The second table holds the two ways to ask for a summary side by
side: the conversation as it stands with one more text, or a small request of its own that holds it as text.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

CHAPTER = "s09_context_compaction"
READ, WRITE = 0.1, 1.25  # of the price of an input token: what is read from the cache, and what is written into it


def play() -> tuple[list[Any], list[int], str]:
    """Play the lesson. Returns the records of the server, which of them are the first after a compaction, and what ASK is."""
    import offline_model

    load = lambda module: importlib.import_module(f"{CHAPTER}.{module}")  # noqa: E731
    workspace, first = offline_model.make_workspace(), []
    with offline_model.start(scenario=CHAPTER) as server:
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        agent = load("harness").build(model, workspace, lambda kind, **data: None, server.answer)
        agent.on(load("hooks").PostCompact, lambda event: first.append(len(server.requests)))
        for line in server.lines:
            name, _, rest = line.partition(" ")
            agent.commands[name[1:]][1](rest) if name.startswith("/") else load("loop").run(agent, line)
        records = list(server.requests)
    shutil.rmtree(workspace)
    return records, first, load("summary").ASK


def whole(usage: dict[str, int]) -> int:
    return sum(usage[name] for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))


def price(usage: dict[str, int]) -> int:
    """Return what the input costs, in plain input tokens."""
    return round(usage["input_tokens"] + READ * usage["cache_read_input_tokens"] + WRITE * usage["cache_creation_input_tokens"])


def measure() -> dict[str, tuple[int, ...]]:
    """Return the rows: for each compaction the request before it and after it, and the two ways to ask for a summary."""
    from offline_model.accountant import Accountant
    from offline_model.accountant import measure as measured

    records, first, ask = play()
    is_ask = lambda record: ask[:40] in record.body["messages"][-1]["content"][-1].get("text", "")  # noqa: E731
    rows: dict[str, tuple[int, ...]] = {}
    for number, after in enumerate(first):
        before = next(record for record in reversed(records[:after]) if not is_ask(record))
        name = ("old results into files", "a summary", "a summary, by hand")[number]
        rows[name] = whole(before.usage), whole(records[after].usage), records[after].usage["cache_read_input_tokens"]
    asked = next(record for record in records if is_ask(record))
    rows["the conversation and one more text"] = whole(asked.usage), asked.usage["cache_read_input_tokens"], price(asked.usage)
    text = json.dumps(asked.body["messages"], ensure_ascii=False)
    alone = {"model": asked.body["model"], "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}
    usage = Accountant().charge(measured(alone), 16)
    rows["a request of its own"] = whole(usage), usage["cache_read_input_tokens"], price(usage)
    return rows


if __name__ == "__main__":
    for name, numbers in measure().items():
        print(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |")
