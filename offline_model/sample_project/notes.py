"""Short notes on the command line: add, list, done."""

import sys
from pathlib import Path

import store

USAGE = "usage: notes.py add TEXT | list | done NUMBER"
NOTES_FILE = Path("notes.json")


def add(path: Path, text: str) -> str:
    """Adds a note at the end."""
    notes = store.load(path)
    notes.append({"text": text, "done": False})
    store.save(path, notes)
    return f"Added note {len(notes)}."


def show(path: Path) -> str:
    """All notes, one a line, with their numbers."""
    notes = store.load(path)
    if not notes:
        return "No notes yet."
    return "\n".join(line(number, note) for number, note in enumerate(notes, start=1))


def done(path: Path, number: int) -> str:
    """Marks a note as done."""
    notes = store.load(path)
    notes[number - 1]["done"] = True
    store.save(path, notes)
    return f"Note {number} is done."


def line(number: int, note: dict) -> str:
    """One note as it is shown."""
    mark = "x" if note["done"] else " "
    return f"{number}. [{mark}] {note['text']}"


def main(arguments: list[str], path: Path = NOTES_FILE) -> int:
    """Runs one command. Returns the exit status."""
    match arguments:
        case ["add", text]:
            print(add(path, text))
        case ["list"]:
            print(show(path))
        case ["done", number]:
            print(done(path, int(number)))
        case _:
            print(USAGE)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
