# must fail: tests/test_autopilot.py::test_the_verdict
def judge(items: list[Todo], best: int, stuck: int, max_stuck: int = MAX_STUCK) -> Verdict:
    """Return the verdict after a run that ended well, from the list and the counts before it. Pure."""
    done = sum(item.status == "completed" for item in items)
    if items and not any(item.status in OPEN for item in items):
        return Verdict("finished", max(best, done), 0)
    stuck = 0 if done > best else stuck + 1
    return Verdict("stagnated" if stuck >= max_stuck else "continue", done, stuck)
