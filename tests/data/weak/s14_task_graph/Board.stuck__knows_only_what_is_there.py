# must fail: tests/test_tasks.py::test_who_waits_for_something_that_is_not_there_is_stuck
def stuck(self) -> dict[int, str]:
    """Return the tasks that wait, themselves or through others, for one that will not be completed, and for which.

    Nothing is decided for them: a program cannot know whether they still make sense, only that somebody must say.
    """
    waiting = {id: self.open_dependencies(task) for id, task in self.tasks.items() if task.status in STATUSES[:2]}
    behind: dict[int, list[int]] = {}
    for id, dependencies in waiting.items():
        for dependency in dependencies:
            behind.setdefault(dependency, []).append(id)
    found: dict[int, str] = {}
    reached = deque((id, why) for id in sorted(self.tasks) if (why := self.dead_end(id)))
    while reached:
        id, why = reached.popleft()
        for waits in behind.get(id, ()):
            if waits not in found:
                found[waits] = why
                reached.append((waits, why))
    return found
