"""The numbers in the lesson about compaction are measured, not remembered."""

from __future__ import annotations

import re

from benchmarks.compaction import CHAPTER
from benchmarks.compaction import measure
from conftest import ROOT


def test_the_numbers_in_the_lesson_are_measured():
    """Within a fiftieth: the path of the workspace, which is longer on some systems, counts too."""
    lesson = (ROOT / CHAPTER / "README.md").read_text(encoding="utf-8")
    for name, numbers in measure().items():
        row = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", lesson, re.MULTILINE)
        assert row, name
        told = [int(cell.replace(",", "")) for cell in row[1].split("|")]
        assert all(abs(one - other) <= 25 + other // 50 for one, other in zip(told, numbers, strict=True)), (name, numbers)
