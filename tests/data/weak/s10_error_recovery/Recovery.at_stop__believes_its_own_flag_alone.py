# must fail: tests/test_recovery.py::test_only_a_cut_reply_is_continued
def at_stop(self, event: Stop) -> None:
    """A reply that is still cut off stays as it is, and is continued, as long as that leads anywhere."""
    if not self.cut:
        return
    adds_nothing = self.continued > 0 and len(event.text.strip()) < self.least
    if adds_nothing or self.continued >= self.continuations:
        why = "it adds almost nothing" if adds_nothing else f"that was done {self.continued} times"
        event.agent.show("notice", text=f"  [not continued any more: {why}]")
        return
    self.continued += 1
    event.objections.append(CONTINUE)
