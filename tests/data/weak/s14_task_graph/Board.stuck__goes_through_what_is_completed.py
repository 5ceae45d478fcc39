# must fail: tests/test_tasks.py::test_who_is_stuck_and_why
def stuck(self) -> dict[int, str]:
    """Return the tasks that wait, themselves or through others, for one that will not be completed, and for which.

    Nothing is decided for them: a program cannot know whether they still make sense, only that somebody must say.
    """
    waiting = {id: task.blocked_by for id, task in self.tasks.items()}
    behind: dict[int, list[int]] = {}
    for id, dependencies in waiting.items():
        for dependency in dependencies:
            behind.setdefault(dependency, []).append(id)
    found: dict[int, str] = {}
    reached = deque((id, why) for id in sorted(behind) if (why := self.dead_end(id)))
    while reached:
        id, why = reached.popleft()
        for waits in behind.get(id, ()):
            if waits not in found:
                found[waits] = why
                reached.append((waits, why))
    return found
