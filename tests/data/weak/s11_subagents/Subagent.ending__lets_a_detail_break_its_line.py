# must fail: tests/test_subagents.py::test_why_it_failed_is_one_line
def ending(self) -> tuple[str, str]:
    """Return how it ended, and for an error `reason, detail` of its outcome on one line, else "".

    One without an outcome is still at work, so it is interrupted; all but two outcomes are errors.
    """
    if self.outcome is None:
        return "interrupted", ""
    how = {"end_turn": "completed", "max_turns": "max_turns"}.get(self.outcome.reason, "error")
    return how, f"{self.outcome.reason}, {self.outcome.detail}" if how == "error" else ""
