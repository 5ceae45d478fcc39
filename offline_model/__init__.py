"""A Messages API server on loopback with a scripted model: the course without a key.

    import offline_model
    server = offline_model.start(scenario="s05_todo_write")
    client = anthropic.Anthropic(api_key="offline", base_url=server.url)

Everything else in the course uses the real SDK over real HTTP, so there is no second code path. The server refuses
what the real API refuses (`referee.py`), says what its script says (`script.py`, `scenarios/`), and counts tokens
and cache hits by the real rules (`accountant.py`). It needs nothing but the standard library.
"""

from __future__ import annotations

from pathlib import Path

from .models import OFFLINE_FALLBACK as FALLBACK
from .models import OFFLINE_MODEL as MODEL
from .script import Scenario
from .script import load_scenario
from .server import Server

__all__ = ["FALLBACK", "MODEL", "Server", "make_workspace", "start"]

SAMPLE_PROJECT = Path(__file__).parent / "sample_project"


def start(
    scenario: str | Scenario | None = None,
    *,
    port: int = 0,
    pace: float = 0.0,
    context_limit: int | None = None,
    cache_minimum: int | None = None,
    orphan_index: str = "user",
    split_results: str = "merge",
) -> Server:
    """Start a server in a daemon thread and return its handle at once.

    scenario: the name of a file in `scenarios/`, a Scenario, or None. Without one (or with a name that does not
    exist) every prompt is unknown and gets an honest answer.
    port: 0 takes any free one. pace: seconds between two streamed pieces.
    context_limit: a smaller context window, in tokens, for every model. cache_minimum: the shortest prefix that is
    cached, in tokens, for every model.
    orphan_index: where the refusal of a tool call without a result points, "user" (the message that lacks it) or
    "assistant" (the message with the call): both are reported from the real API.
    split_results: results of one reply in several user messages are "merge"d (with a warning) or "refuse"d.

    Raises OSError if the port is taken, ValueError for an unknown switch.
    """
    loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
    return Server(
        loaded,
        port=port,
        pace=pace,
        context_limit=context_limit,
        cache_minimum=cache_minimum,
        orphan_index=orphan_index,
        split_results=split_results,
    )


def make_workspace() -> Path:
    """A fresh scratch folder that holds a copy of the sample project. Returns its resolved path."""
    import tempfile  # here, since it takes longer to import than all of this package

    workspace = Path(tempfile.mkdtemp(prefix="scratch-")).resolve()
    for source in sorted(SAMPLE_PROJECT.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            target = workspace / source.relative_to(SAMPLE_PROJECT)
            target.parent.mkdir(parents=True, exist_ok=True)
            # A checkout on Windows may have changed the line ends, and the edits of the scripts would not fit.
            target.write_bytes(source.read_bytes().replace(b"\r\n", b"\n"))
    return workspace
