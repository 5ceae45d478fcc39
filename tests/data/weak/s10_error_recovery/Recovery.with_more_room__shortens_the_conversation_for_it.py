# must fail: tests/test_recovery.py::test_room_that_is_too_large_is_no_reason_to_compact
def with_more_room(self, request: dict[str, Any], reply: Reply) -> Reply:
    """Return what the model answers to the same request with a larger limit; ``reply`` if it cannot be had."""
    if self.larger <= self.limit or self.agent.halt:
        return reply
    self.agent.show("discard", reason=f"cut off at {self.limit} tokens, now with {self.larger}")
    try:
        _, better = self.fit({**request, "max_tokens": self.larger})
        if better.stop_reason != FULL:
            self.limit = self.larger
            return better
        why = "the room ran out in the middle of it"
    except ModelError as error:
        why = str(error)
    self.agent.show("notice", text=f"  [no larger limit, so the reply counts as it was: {why}]")
    self.agent.show("text", text=reply.text)  # its words were thrown away before everybody's eyes
    return reply
