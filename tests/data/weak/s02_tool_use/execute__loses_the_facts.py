# must fail: tests/test_tools.py::test_the_exit_status_of_a_command_is_a_fact
def execute(agent: Agent, tool: Tool, arguments: dict[str, Any]) -> tuple[Result, bool]:
    """Run ``tool``. Returns its result, and whether that is an error: whatever it raises becomes one."""
    try:
        returned = tool.function(agent, **arguments)
        return Result(returned.text if isinstance(returned, Result) else str(returned)), False
    except ToolError as error:
        return Result(str(error)), True
    except Exception as error:
        return Result(f"{tool.name} failed with {type(error).__name__}: {error}. Try it another way."), True
