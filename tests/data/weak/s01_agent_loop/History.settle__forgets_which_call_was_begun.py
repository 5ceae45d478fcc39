# must fail: tests/test_history.py::test_a_call_that_was_begun_is_not_said_to_be_unstarted
def settle(self, not_begun: str) -> None:
    """Answer every open tool call with an error result; ``not_begun`` is the text for one that was not begun.

    Needed on every way out of a run: a call without a result would make the next request invalid.
    """
    texts = [(call, not_begun) for call in self.open_calls()]
    self.add("user", [result_block(call, text, is_error=True) for call, text in texts])
