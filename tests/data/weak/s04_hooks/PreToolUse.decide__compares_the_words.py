# must fail: tests/test_hooks.py::test_a_word_that_is_no_verdict_is_an_error
def decide(self, verdict: str, reason: str = "") -> None:
    """Make the verdict stricter ("allow", then "ask", then "deny"); a milder one changes nothing."""
    if verdict > self.verdict:
        self.verdict, self.reason = verdict, reason
