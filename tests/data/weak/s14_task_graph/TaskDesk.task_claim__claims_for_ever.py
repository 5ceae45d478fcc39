# must fail: tests/test_tasks.py::test_how_long_a_claim_holds_is_a_parameter
def task_claim(self, agent: Agent, id: str | int = "") -> str:
    """The tool: take a task that is ready, the next one if none is named. Raises ToolError."""
    me = self.name_of(agent)
    with self.store.changing() as (board, write):
        ready = board.ready()
        if id == "" and not ready:
            raise ToolError(NONE_READY.format(count(board)))
        task = find(board, id) if id != "" else ready[0]
        need_free(board, task, me)
        if task.status in ("failed", "cancelled"):
            raise ToolError(NOT_OPEN.format(task.id, task.status))
        if task not in ready and not board.is_held(task):
            raise ToolError(NOT_READY.format(task.id, facts(board, task, me)))
        before = task.owner if task.status == "in_progress" and task.owner != me else ""
        task = changed(task, status="in_progress", owner=me, lease=board.now + 900.0)
        write(task)
        return (TAKEN_OVER.format(before) if before else "") + whole(board.with_task(task), task, me)
