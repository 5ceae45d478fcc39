# must fail: tests/test_goal.py::test_a_stop_is_judged_by_what_the_evaluator_says
def judge(self, is_last: bool, held: bool) -> tuple[str, str]:
    """Return the result of this stop, one of seven, and its reason.

    ``is_last``: the run cannot be made to go on once more. ``held``: others make it go on in any case.
    """
    if not self.condition or not self.armed:
        return "allow", ""
    try:
        if self.busy() not in ("", self.waited_for):
            return "defer", BUSY.format(self.busy())
        if self.planning():
            return "defer", PLANNING
        verdict = self.evaluator.verdict(self.condition)
    except Exception as error:  # whatever fails, it must not pass for a goal that is met
        return "block", f"{type(error).__name__}: {error}"
    self.evaluations += 1
    return result_of(verdict, is_last, held)
