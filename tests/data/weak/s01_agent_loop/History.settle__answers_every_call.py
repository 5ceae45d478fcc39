# must fail: tests/test_history.py::test_settle_answers_only_what_is_open
def settle(self, not_begun: str) -> None:
    """Answer every open tool call with an error result; ``not_begun`` is the text for one that was not begun.

    Needed on every way out of a run: a call without a result would make the next request invalid.
    """
    for message in self.messages:
        for block in message["content"]:
            if block["type"] == "tool_use":
                text = UNKNOWN if block["id"] in self.begun else not_begun
                self.add("user", [result_block(block, text, is_error=True)])
