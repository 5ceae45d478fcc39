# must fail: tests/test_plan_mode.py::test_a_change_that_cannot_be_kept_is_not_made_and_tried_again
def choose(self, on: bool) -> str:
    """Choose plan mode, or choose to leave it. Returns what came of it.

    ``noop``: it is so, or was chosen already. ``queued``: from the next request on. ``cancelled``: a choice that
    waited is taken back, and nothing was changed. ``committed``: it is so from now on, since no run is going.
    """
    if on == (self.active if self.pending is None else self.pending):
        return "noop"
    if on == self.active:
        self.pending = None
        return "cancelled"
    self.pending = on
    return "committed" if not self.agent.running and self.commit() else "queued"
