# must fail: tests/test_subagents.py::test_one_that_was_cut_off_or_declined_has_failed
def ending(self) -> tuple[str, str]:
    """Return how it ended, and for an error `reason, detail` of its outcome on one line, else "".

    One without an outcome is still at work, so it is interrupted; all but two outcomes are errors.
    """
    if self.outcome is None:
        return "interrupted", ""
    how = {"error": "error", "max_turns": "max_turns"}.get(self.outcome.reason, "completed")
    return how, one_line(f"{self.outcome.reason}, {self.outcome.detail}") if how == "error" else ""
