"""The table of recovery in the lessons is what the script measures."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT
from conftest import chapters_with


@pytest.mark.parametrize("name", [chapters_with("session")[0], chapters_with("plan_files")[0]])
def test_the_table_of_the_lesson_is_what_the_script_measures(name):
    found = importlib.util.spec_from_file_location("recovery", ROOT / "tests" / "benchmarks" / "recovery.py")
    recovery = importlib.util.module_from_spec(found)
    found.loader.exec_module(recovery)
    lesson = (ROOT / name / "README.md").read_text("utf-8")
    assert [row for row in recovery.table(name) if row not in lesson] == []
