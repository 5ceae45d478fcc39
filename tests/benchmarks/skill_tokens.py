"""What labels save over manuals in the prompt: ``python tests/benchmarks/skill_tokens.py``.

Plays the first prompt of the lesson about skills, and takes the requests that went out. Then it counts their tokens
three times, as the offline model does (four bytes a token): without skills, with the labels and the one manual that was
loaded, and with all manuals in the prompt. There are as many skills as COUNTS says: the two of the sample project, and
further ones as long as they are.
"""

from __future__ import annotations

import copy
import importlib
import shutil
import sys
import tempfile
from itertools import cycle
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import offline_model  # noqa: E402
from offline_model import accountant  # noqa: E402

CHAPTER = "s07_skill_loading"
COUNTS = (2, 10, 40)
MARK = "Skills are manuals"  # how the section begins


def load(module: str) -> Any:
    return importlib.import_module(f"{CHAPTER}.{module}")


def requests_of_the_lesson() -> list[dict]:
    """Return the requests of the lesson's first prompt that goes to the model."""
    workspace = offline_model.make_workspace()
    with offline_model.start(scenario=CHAPTER) as server:
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        agent = load("harness").build(model, workspace, lambda kind, **data: None, lambda question: "y")
        line = next(line for line in server.lines if not line.startswith("/"))
        load("loop").run(agent, line)
        requests = [copy.deepcopy(record.body) for record in server.requests if record.status == 200]
    shutil.rmtree(workspace)
    return requests


def skills(count: int) -> list[Any]:
    """Return so many skills: those of the sample project, and again under other names."""
    root = offline_model.SAMPLE_PROJECT / "skills"
    manifests = cycle(sorted(root.glob("*/SKILL.md")))
    read, found = load("skill_files").read_skill, []
    with tempfile.TemporaryDirectory() as folder:
        for number, manifest in enumerate(islice(manifests, count), 1):
            target = Path(folder, f"skill-{number}", "SKILL.md")
            target.parent.mkdir()
            target.write_bytes(manifest.read_bytes())
            found.append(read(target, Path(folder)))
    return found


def tokens(requests: list[dict], section: str, keep_manuals: bool = True) -> int:
    """Return the input tokens of all ``requests``, with ``section`` as what the prompt says about skills."""
    total = 0
    for request in copy.deepcopy(requests):
        others = [block for block in request["system"] if not block["text"].startswith(MARK)]
        request["system"] = others + ([{"type": "text", "text": section}] if section else [])
        for message in request["messages"] if not keep_manuals else []:
            for block in message["content"]:
                if block["type"] == "tool_result" and block["content"].startswith("Skill "):
                    block["content"] = ""
        total += accountant.measure(request).tokens
    return total


def table(requests: list[dict]) -> list[str]:
    """Return the rows of the lesson's table."""
    rows = ["| skills | labels, and one manual loaded | all manuals in the prompt | saved |", "|---|---|---|---|"]
    module = load("skills")
    base = tokens(requests, "", keep_manuals=False)
    for count in COUNTS:
        found = skills(count)
        labels = module.catalogue([module.label(skill, module.LABEL_CHARS) for skill in found], module.CATALOGUE_CHARS)
        manuals = "\n\n".join(f"# {skill.name}: {skill.description}\n\n{skill.body}" for skill in found)
        some = tokens(requests, f"{module.SECTION}\n{labels}") - base
        every = tokens(requests, manuals, keep_manuals=False) - base
        rows.append(f"| {count} | {some:,} | {every:,} | {1 - some / every:.0%} |")
    return rows


if __name__ == "__main__":
    found = requests_of_the_lesson()
    print(f"Input tokens for skills in {len(found)} requests, computed offline:\n")
    print("\n".join(table(found)))
