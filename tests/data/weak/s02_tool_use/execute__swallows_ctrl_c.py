# must fail: tests/test_loop.py::test_ctrl_c_in_a_command
def execute(agent: Agent, tool: Tool, arguments: dict[str, Any]) -> tuple[Result, bool]:
    """Run ``tool``. Returns its result, and whether that is an error: whatever it raises becomes one."""
    try:
        returned = tool.function(agent, **arguments)
        return returned if isinstance(returned, Result) else Result(str(returned)), False
    except ToolError as error:
        return Result(str(error)), True
    except BaseException as error:
        return Result(f"{tool.name} failed with {type(error).__name__}: {error}. Try it another way."), True
