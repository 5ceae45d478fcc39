# must fail: tests/test_subagents.py::test_a_call_that_was_interrupted_as_it_began_has_an_unknown_outcome
def run_together(agent: Agent, calls: list[Block]) -> None:
    """Run ``calls``: one, or several that run side by side. Also after Ctrl-C each that has begun such work is answered."""
    admitted: list[tuple[Block, Tool | None, Any]] = []
    for call in calls:
        agent.show("tool_call", call=call)
        try:
            admitted.append((call, *admit(agent, call)))
        except ToolError as error:
            admitted.append((call, None, Result(str(error))))
    begun: list[tuple[Result | Job, bool]] = []
    try:
        for call, tool, arguments in admitted:
            begun.append(execute(agent, tool, arguments) if tool else (arguments, True))
        for job, _ in begun:
            if isinstance(job, Job):
                job.wait()
    finally:
        for (call, tool, arguments), (result, is_error) in zip(admitted, begun):
            if isinstance(result, Job):
                result, is_error = result.report()
            answer(agent, call, result, is_error)
            if tool:
                done = agent.fire(PostToolUse(agent, {**call, "input": arguments}, result.text, result.facts, is_error))
                tell(agent, tool.name, done.context)
