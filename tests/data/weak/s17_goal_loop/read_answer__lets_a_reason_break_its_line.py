# must fail: tests/test_goal.py::test_a_reason_is_one_line_of_a_bounded_length
def read_answer(reply: Reply) -> Verdict:
    """Return the verdict that ``reply`` is: one JSON object alone, or alone in one fence. Raises ValueError for all else."""
    if reply.calls:
        raise ValueError("the answer calls a tool")
    if reply.stop_reason not in WHOLE:
        raise ValueError(f"the answer is not whole, it ended with {reply.stop_reason}")
    text = reply.text.strip()
    fenced = FENCE.fullmatch(text)
    try:
        answer = json.loads(fenced[1] if fenced else text, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError):
        raise ValueError(f"the answer is not one JSON object alone: {in_short(text, 100)!r}") from None
    if not isinstance(answer, dict) or set(answer) != KEYS:
        raise ValueError("the answer must be an object with ok, reason and impossible, and nothing else")
    ok, reason, impossible = answer["ok"], answer["reason"], answer["impossible"]
    if not isinstance(ok, bool) or not isinstance(impossible, bool) or not isinstance(reason, str) or not reason.strip():
        raise ValueError("in the answer ok and impossible must be true or false, and reason a text")
    if ok and impossible:
        raise ValueError("the answer says that the condition is met, and that it cannot be")
    return Verdict(ok, in_short(clean(reason), REASON), impossible)
