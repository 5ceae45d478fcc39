# must fail: tests/test_plan_mode.py::test_what_is_offered_keeps_its_order, tests/test_plan_mode.py::test_a_queued_choice_takes_effect_with_the_next_request_and_not_before
def before_model(self, event: BeforeModel) -> None:
    """A request is about to go out, and nobody has ended the run: the one place where a run's mode changes."""
    if self.agent.halt:
        return
    self.commit()
    heard, self.told = self.told, self.active
    words = [] if heard is None or heard == self.active else [self.texts["on" if self.active else "off"]]
    words += [self.guidance()] if self.active and not heard else []
    if words:
        self.agent.history.note("plan_mode", "\n".join(words), order=NOTE_ORDER)
