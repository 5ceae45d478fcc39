"""What a learner has reached, in one file that nobody misses: it may be damaged or deleted at any time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FILE = ".progress.json"


def load(root: Path) -> dict[str, dict[str, Any]]:
    """Return for each chapter {"passed": names of functions, "all": do all tests pass, "hints": {name: shown}}."""
    try:
        found = json.loads((root / FILE).read_text(encoding="utf-8"))
        return {name: sound(entry) for name, entry in found.items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def sound(entry: Any) -> dict[str, Any]:
    """Return an entry of which all parts are of the right kind."""
    passed, hints = entry.get("passed"), entry.get("hints")
    return {
        "passed": [str(name) for name in passed] if isinstance(passed, list) else [],
        "all": entry.get("all") is True,
        "hints": {name: n for name, n in hints.items() if isinstance(n, int) and n > 0} if isinstance(hints, dict) else {},
    }


def of(root: Path, chapter: str) -> dict[str, Any]:
    return load(root).get(chapter, sound({}))


def save(root: Path, chapter: str, entry: dict[str, Any] | None) -> None:
    """Keep the entry of a chapter; None forgets it. What cannot be written is not worth a failure."""
    entries = load(root)
    entries.pop(chapter, None)
    if entry is not None:
        entries[chapter] = entry
    half = root / f"{FILE}.{os.getpid()}"
    try:
        half.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(half, root / FILE)
    except OSError:
        pass
    finally:
        half.unlink(missing_ok=True)
