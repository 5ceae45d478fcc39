# must fail: tests/test_loop.py::test_a_reply_cut_in_the_middle_of_a_call_is_not_run
def converse(agent: Agent, prompt: str, outcome: Outcome) -> None:
    """The loop itself. It fills in ``outcome`` as it goes."""
    history = agent.history
    if not prompt.strip():
        return outcome.end("blocked", NO_PROMPT)
    history.add("user", [text_block(prompt)])
    asked_to_go_on = False
    for turn in range(1, agent.max_turns + 1):
        request = agent.request()
        request["messages"] = history.deliver()
        reply = agent.call_model(request)
        history.add("assistant", reply.content)
        outcome.turns, outcome.text = turn, reply.text

        if reply.stop_reason == "pause_turn" and not reply.calls:
            continue
        if reply.stop_reason == "refusal":
            return outcome.end("refusal", "The model declined to answer: put the request in other words.")
        if reply.stop_reason == "model_context_window_exceeded":
            return outcome.end("context_window", "The conversation is too long for this model: start a new one.")
        if reply.stop_reason == "max_tokens" and not reply.calls:
            return outcome.end("max_tokens", "The reply was cut off, it had grown too long: say “go on”.")

        if reply.calls:
            run_calls(agent)
            continue

        if reply.text.strip() or turn == 1 or asked_to_go_on:
            return outcome.end("end_turn", "" if reply.text.strip() else EMPTY)
        history.add("user", [text_block(reminder([GO_ON]))])
        asked_to_go_on = True
    outcome.end("max_turns", f"Stopped after {agent.max_turns} model calls: say “go on” to continue.")
