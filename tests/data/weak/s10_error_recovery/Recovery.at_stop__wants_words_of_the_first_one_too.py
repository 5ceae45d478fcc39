# must fail: tests/test_recovery.py::test_continuations_that_add_almost_nothing_end_it
def at_stop(self, event: Stop) -> None:
    """A reply that is still cut off stays as it is, and is continued, as long as that leads anywhere."""
    if event.reason != "max_tokens" or not self.cut:
        return
    adds_nothing = len(event.text.strip()) < self.least
    if adds_nothing or self.continued >= self.continuations:
        why = "it adds almost nothing" if adds_nothing else f"that was done {self.continued} times"
        event.agent.show("notice", text=f"  [not continued any more: {why}]")
        return
    self.continued += 1
    event.objections.append(CONTINUE)
