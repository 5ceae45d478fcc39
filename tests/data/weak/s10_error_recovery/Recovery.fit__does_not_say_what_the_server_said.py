# must fail: tests/test_recovery.py::test_still_too_long_after_that_is_said
def fit(self, request: dict[str, Any]) -> tuple[dict[str, Any], Reply]:
    """The second ladder: a conversation that is too long is compacted once, and sent once more.

    Returns the request that went through, and its reply. Raises ModelError.
    """
    original = request
    while True:
        try:
            reply = self.insist(self.ask, request)
        except ModelError as error:
            if not is_too_long(error):
                raise
            if not self.make_shorter():
                raise ModelError(CANNOT_FIT, error.status, error.kind, error.headers) from error
        else:
            if reply.stop_reason != FULL:
                self.compacted = request is not original
                return request, reply
            if not self.make_shorter():
                return request, reply  # the loop knows how to end with it
            self.agent.show("discard", reason="the room ran out in the middle of it")
        request = {**request, "messages": self.agent.history.deliver()}
