# must fail: tests/test_hooks.py::test_a_hook_may_come_while_hooks_run
def fire(self, event: AnyEvent) -> AnyEvent:
    """Call the hooks for ``event``, and return it with what they have written into it."""
    for hook in self.table.get(type(event), ()):
        try:
            hook(event)
        except Exception as error:
            event.failed(hook, error)
    return event
