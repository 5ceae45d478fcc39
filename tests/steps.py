"""How large the steps between chapters are. ``python tests/steps.py`` writes the table of CONTRIBUTING.md anew."""

from __future__ import annotations

import difflib
import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted(path.name for path in ROOT.glob("s[0-9][0-9]_*") if (path / "__main__.py").exists())
TABLE = re.compile(r"^\| step \|.*\n(?:\|.*\n)*", re.MULTILINE)
HEAD = """\
| step | new modules | lines in them | older modules touched | lines added there | lines changed or gone | of the code before, kept |
|---|---|---|---|---|---|---|
"""


def modules(chapter: str) -> dict[str, list[str]]:
    """Return the lines of each module of ``chapter``, by its name."""
    return {path.name: path.read_text(encoding="utf-8").splitlines() for path in sorted((ROOT / chapter).glob("*.py"))}


def row(before: str, after: str) -> str:
    """Return the row of the table for the step from ``before`` to ``after``."""
    old, now = modules(before), modules(after)
    new = {name: lines for name, lines in now.items() if name not in old}
    touched, added, gone = 0, 0, 0
    for name in [name for name in old if old[name] != now[name]]:
        steps = difflib.SequenceMatcher(None, old[name], now[name], autojunk=False).get_opcodes()
        touched += 1
        added += sum(end - start for kind, _, _, start, end in steps if kind != "equal")
        gone += sum(end - start for kind, start, end, _, _ in steps if kind != "equal")
    kept = 1 - gone / sum(map(len, old.values()))
    cells = (after[:3], len(new), sum(map(len, new.values())), touched, added, gone, f"{kept:.2%}")
    return f"| {' | '.join(map(str, cells))} |\n"


def table() -> str:
    """Return the table of all steps, as Markdown."""
    return HEAD + "".join(row(before, after) for before, after in pairwise(CHAPTERS))


def main() -> None:
    path = ROOT / "CONTRIBUTING.md"
    path.write_text(TABLE.sub(lambda _: table(), path.read_text(encoding="utf-8"), count=1), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
