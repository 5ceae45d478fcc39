# must fail: tests/test_goal.py::test_a_goal_that_waits_is_not_judged
def judge(self, is_last: bool, held: bool) -> tuple[str, str]:
    """Return the result of this stop, one of seven, and its reason.

    ``is_last``: the run cannot be made to go on once more. ``held``: others make it go on in any case.
    """
    if not self.condition:
        return "allow", ""
    try:
        if self.busy() not in ("", self.waited_for):
            return "defer", BUSY.format(self.busy())
        if self.planning():
            return "defer", PLANNING
        verdict = self.evaluator.verdict(self.condition)
    except Exception as error:  # whatever fails, it must not pass for a goal that is met
        return "error", f"{type(error).__name__}: {error}"
    self.evaluations += 1
    return result_of(verdict, is_last, held)
