# must fail: tests/test_tools.py::test_a_tool_error_reaches_the_model_in_its_own_words
def execute(agent: Agent, tool: Tool, arguments: dict[str, Any]) -> tuple[Result, bool]:
    """Run ``tool``. Returns its result, and whether that is an error: whatever it raises becomes one."""
    try:
        returned = tool.function(agent, **arguments)
        return returned if isinstance(returned, Result) else Result(str(returned)), False
    except Exception as error:
        return Result(f"{tool.name} failed with {type(error).__name__}: {error}. Try it another way."), True
