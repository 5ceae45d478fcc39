# must fail: tests/test_tasks.py::test_who_is_late_and_was_not_missed_goes_on
def task_complete(self, agent: Agent, id: str | int) -> str:
    """The tool: complete a claimed task. Returns what became ready by that and was not before. Raises ToolError."""
    me = self.name_of(agent)
    with self.store.changing() as (board, write):
        task = find(board, id)
        need_free(board, task, me)
        if not board.is_held(task):
            raise ToolError(NOT_YOURS.format(task.id, "complete"))
        task = changed(task, status="completed", lease=0.0)
        write(task)
        before = {each.id for each in board.ready()}
        after = board.with_task(task)
        freed = [each for each in after.ready() if each.id not in before]
        news = f"Ready now: {ids(each.id for each in freed)}" if freed else "Nothing became ready by it."
        return "\n".join([f"Completed #{task.id}. {news}", *(row(after, each, me) for each in freed[:MAX_NAMED])])
