"""What the lesson about skills says that labels save is what is counted, and the count is right."""

from __future__ import annotations

import pytest
from benchmarks import skill_tokens
from conftest import ROOT

from offline_model import accountant


def test_the_lessons_table_is_what_the_benchmark_counts():
    lesson = (ROOT / "s07_skill_loading" / "README.md").read_text(encoding="utf-8")
    table = skill_tokens.table(skill_tokens.requests_of_the_lesson())
    assert len(table) == 2 + len(skill_tokens.COUNTS) and "\n" + "\n".join(table) + "\n" in lesson


def test_the_benchmark_counts_what_it_says():
    request = {
        "model": "m", "system": [{"type": "text", "text": "You."}, {"type": "text", "text": skill_tokens.MARK + "\nold"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Go."}]}],
    }  # fmt: skip
    none, labels = (skill_tokens.tokens([request], text) for text in ("", "x" * 400))
    assert labels - none == pytest.approx(accountant.estimate("x" * 400), abs=12)
