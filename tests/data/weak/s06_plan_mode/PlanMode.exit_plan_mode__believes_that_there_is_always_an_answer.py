# must fail: tests/test_plan_mode.py::test_no_answer_of_any_kind_keeps_the_mode
def exit_plan_mode(self, agent: Agent, plan: str) -> str:
    """The tool: show the plan, ask the person, and on "approve" leave plan mode with the next request.

    Raises ToolError in every other case; plan mode stays on then.
    """
    plan = plan.strip()
    if not self.active:
        raise ToolError(NOT_IN_IT)
    if self.pending is False:
        raise ToolError(LEAVING)
    if not HEADING.match(plan):
        raise ToolError(NO_HEADING)
    if not any(item.status in OPEN for item in self.store.items()):
        raise ToolError(NO_TODOS)
    if self.ask is None:
        raise ToolError(NOBODY)
    agent.show("plan", text="\n".join(f"    | {line}".rstrip() for line in plan.split("\n")))
    try:
        said = self.ask(QUESTION).strip()
    except EOFError:
        said = ""
    if said.casefold() != CONSENT:
        raise ToolError(KEEP_PLANNING.format(said) if said else NO_ANSWER)
    self.pending, self.warned = False, False
    self.told = False  # the result says it
    for listener in self.on_approval:
        listener()
    return self.texts["approved"]
