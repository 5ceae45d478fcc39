# must fail: tests/test_plan_mode.py::test_guidance_is_given_once
def before_model(self, event: BeforeModel) -> None:
    """A request is about to go out, and nobody has ended the run: the one place where a run's mode changes."""
    if self.agent.halt:
        return
    self.commit()
    heard, self.told = self.told, self.active
    words = [] if heard == self.active else [self.texts["on" if self.active else "off"]]
    words += [self.guidance()] if self.active and not heard else []
    if words:
        self.agent.history.note("plan_mode", "\n".join(words), order=NOTE_ORDER)
    if self.active:
        event.request["tools"] = [each for each in event.request["tools"] if self.is_offered(each["name"])]
