# must fail: tests/test_tasks.py::test_completing_names_only_what_it_unblocked
def task_complete(self, agent: Agent, id: str | int) -> str:
    """The tool: complete a claimed task. Returns what became ready by that and was not before. Raises ToolError."""
    me = self.name_of(agent)
    with self.store.changing() as (board, write):
        task = find(board, id)
        need_free(board, task, me)
        if task.status != "in_progress" or task.owner != me:
            raise ToolError(NOT_YOURS.format(task.id, "complete"))
        task = changed(task, status="completed", lease=0.0)
        write(task)
        before = {each.id for each in board.ready()}
        after = board.with_task(task)
        freed = board.waiting_for(task.id)
        news = f"Ready now: {ids(each.id for each in freed)}" if freed else "Nothing became ready by it."
        return "\n".join([f"Completed #{task.id}. {news}", *(row(after, each, me) for each in freed[:MAX_NAMED])])
