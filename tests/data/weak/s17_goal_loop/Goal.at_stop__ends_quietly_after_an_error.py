# must fail: tests/test_goal.py::test_error_keeps_the_goal_and_is_no_success
def at_stop(self, event: Stop) -> None:
    """The model wants to stop, and the others have said what they object: judge, and act on the result."""
    if event.agent is not self.agent or event.reason != "end_turn" or self.agent.halt:
        return
    is_last = event.forced >= self.agent.max_forced
    held = bool(event.objections) and not is_last
    self.result, why = self.judge(is_last, held)
    self.why = why or self.why
    if self.result == "defer":
        self.say((KEPT if why == HELD else NOT_JUDGED).format(why))
    elif self.result == "error" and held:  # the run goes on, and its next stop is judged
        self.say(NO_VERDICT.format(why))
    elif self.result == "error":
        self.say(NO_VERDICT.format(why))
    elif self.result == "achieved":
        self.end("achieved", why)
    elif self.result == "failed":
        self.end("failed", why)
        self.agent.halt = GIVEN_UP.format(why)
    elif self.result in ("block", "limit"):
        # What others wrote stands in quotes and on one line: it cannot go on as somebody else.
        event.objections.append(OBJECTION.format(as_json(named(self.condition)), as_json(why)))
    if self.result == "limit":
        self.say(NOT_MET.format(self.costs()))
