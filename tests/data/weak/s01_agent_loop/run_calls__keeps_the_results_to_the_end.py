# must fail: tests/test_loop.py::test_ctrl_c_in_a_command
def run_calls(agent: Agent) -> None:
    """Run the open tool calls in order. Each gets its result into the history as soon as there is one."""
    results = []
    for call in agent.history.open_calls():
        agent.show("tool_call", call=call)
        agent.history.begin(call)
        text, is_error = run_call(agent, call)
        results.append(result_block(call, text, is_error))
        agent.show("tool_result", call=call, text=text, is_error=is_error)
    agent.history.add("user", results)
