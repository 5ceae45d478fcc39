# must fail: tests/test_tools.py::test_a_tool_that_raises_is_a_result_and_the_next_call_runs
def execute(agent: Agent, tool: Tool, arguments: dict[str, Any]) -> tuple[Result, bool]:
    """Run ``tool``. Returns its result, and whether that is an error: whatever it raises becomes one."""
    try:
        returned = tool.function(agent, **arguments)
        return returned if isinstance(returned, Result) else Result(str(returned)), False
    except ToolError as error:
        return Result(str(error)), True
