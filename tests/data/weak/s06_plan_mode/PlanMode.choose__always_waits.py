# must fail: tests/test_plan_mode.py::test_the_four_outcomes_of_a_choice
def choose(self, on: bool) -> str:
    """Choose plan mode, or choose to leave it. Returns what came of it.

    ``noop``: it is so, or was chosen already. ``queued``: from the next request on. ``cancelled``: a choice that
    waited is taken back, and nothing was changed. ``committed``: it is so from now on, since no run is going.
    """
    if on == (self.active if self.pending is None else self.pending):
        return "noop"
    self.warned = False
    if on == self.active:
        self.pending = None
        return "cancelled"
    self.pending = on
    return "queued"
