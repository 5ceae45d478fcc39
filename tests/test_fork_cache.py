"""What the lesson about subagents says that a fork saves is what is counted."""

from __future__ import annotations

from benchmarks import fork_cache
from conftest import ROOT


def test_the_table_of_forks_is_what_its_script_prints():
    """If it fails: python tests/benchmarks/fork_cache.py prints the table as it is now."""
    lesson = (ROOT / fork_cache.CHAPTER / "README.md").read_text(encoding="utf-8")
    assert "\n" + fork_cache.table() + "\n" in lesson


def test_a_fork_reads_from_the_cache_only_if_it_begins_to_the_letter_as_its_parent():
    shares = {}
    for name, way in fork_cache.WAYS.items():
        first = fork_cache.play(*way)[0].usage
        shares[name] = first["cache_read_input_tokens"] > 0
    assert shares.pop("a fork (ours)") and not any(shares.values())
