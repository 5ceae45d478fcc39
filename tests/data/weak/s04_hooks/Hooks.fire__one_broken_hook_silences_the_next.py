# must fail: tests/test_hooks.py::test_a_hook_that_fails_before_a_tool_refuses_the_call
def fire(self, event: AnyEvent) -> AnyEvent:
    """Call the hooks for ``event``, and return it with what they have written into it."""
    try:
        for hook in list(self.table.get(type(event), ())):
            hook(event)
    except Exception:
        pass
    return event
