# must fail: tests/test_hooks.py::test_a_verdict_only_gets_stricter
def decide(self, verdict: str, reason: str = "") -> None:
    """Make the verdict stricter ("allow", then "ask", then "deny"); a milder one changes nothing."""
    if verdict not in STRICTNESS:
        raise ValueError(f"{verdict!r} is no verdict.")
    self.verdict, self.reason = verdict, reason
