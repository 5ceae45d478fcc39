"""Tests of the notes app."""

import tempfile
import unittest
from pathlib import Path

import notes


class NotesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "notes.json"

    def test_add_counts_up(self) -> None:
        self.assertEqual(notes.add(self.path, "buy milk"), "Added note 1.")
        self.assertEqual(notes.add(self.path, "call Ada"), "Added note 2.")

    def test_list_shows_numbers(self) -> None:
        notes.add(self.path, "buy milk")
        self.assertEqual(notes.show(self.path), "1. [ ] buy milk")

    def test_empty_list(self) -> None:
        self.assertEqual(notes.show(self.path), "No notes yet.")

    def test_done_marks_the_note(self) -> None:
        notes.add(self.path, "buy milk")
        self.assertEqual(notes.done(self.path, 1), "Note 1 is done.")
        self.assertEqual(notes.show(self.path), "1. [x] buy milk")


if __name__ == "__main__":
    unittest.main()
