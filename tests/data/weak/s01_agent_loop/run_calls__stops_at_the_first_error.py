# must fail: tests/test_loop.py::test_wrong_calls_are_errors_that_tell_what_to_do
def run_calls(agent: Agent) -> None:
    """Run the open tool calls in order. Each gets its result into the history as soon as there is one."""
    for call in agent.history.open_calls():
        agent.show("tool_call", call=call)
        agent.history.begin(call)
        text, is_error = run_call(agent, call)
        agent.history.add("user", [result_block(call, text, is_error)])
        agent.show("tool_result", call=call, text=text, is_error=is_error)
        if is_error:
            break
