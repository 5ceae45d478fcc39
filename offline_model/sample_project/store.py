"""Keeps the notes: a list of dictionaries in one JSON file."""

import json
from pathlib import Path


def load(path: Path) -> list[dict]:
    """All notes, oldest first. A missing file holds none."""
    if not path.exists():
        return []
    return json.loads(path.read_text(encoding="utf-8"))


def save(path: Path, notes: list[dict]) -> None:
    """Replaces the file with these notes."""
    text = json.dumps(notes, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
