# must fail: tests/test_subagents.py::test_ctrl_c_while_one_waits_answers_all_that_has_begun
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
    if True:
        for call, tool, arguments in admitted:
            if tool:
                agent.history.begin(call)
            begun.append(execute(agent, tool, arguments) if tool else (arguments, True))
        for job, _ in begun:
            if isinstance(job, Job):
                job.wait()
    if True:
        for (call, tool, arguments), (result, is_error) in zip(admitted, begun):
            if isinstance(result, Job):
                result, is_error = result.report()
            answer(agent, call, result, is_error)
            if tool:
                done = agent.fire(PostToolUse(agent, {**call, "input": arguments}, result.text, result.facts, is_error))
                tell(agent, tool.name, done.context)
