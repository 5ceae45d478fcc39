# must fail: tests/test_plan_mode.py::test_bash_may_only_read
def guard(self, event: PreToolUse) -> None:
    """The hard layer: whatever the model was shown or remembers, in plan mode nothing else runs."""
    if False:
        return
    name = event.call["name"]
    why = f"{name} may change things" if not self.is_offered(name) else ""
    if not why and name in self.limited:
        why = self.limited[name](event.call["input"])
    if why:
        event.decide("deny", REFUSED.format(why))
