"""What a task is, and what follows from tasks that wait for each other: which are ready, which wait, which are stuck.

Nothing here reads or writes. A board is one look at all tasks at one moment; whoever wants to change something looks
anew, under the lock. The graph is in the tasks themselves: each names those that it waits for, and nothing else does, so
there are no two lists that could disagree.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from dataclasses import field
from functools import cached_property
from typing import Any
from typing import Iterable

STATUSES = ("pending", "in_progress", "completed", "failed", "cancelled")
STATES = ("in_progress", "ready", "stuck", "failed", "waiting", "cancelled", "completed")  # the order of the list


@dataclass(frozen=True)
class Task:
    """One piece of work. ``lease`` is the time (seconds since 1970) until which the claim of ``owner`` holds."""

    id: int
    subject: str
    description: str = ""
    status: str = "pending"
    owner: str = ""
    lease: float = 0.0
    blocked_by: tuple[int, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)  # fields that others wrote: kept as they are


@dataclass(frozen=True)
class Board:
    """All tasks at the moment ``now``, by their ids and in this order; and of damaged files, what is wrong with each."""

    tasks: dict[int, Task]
    damaged: dict[int, str]
    now: float

    def with_task(self, task: Task) -> Board:
        """Return the board as it is when ``task`` is so."""
        return Board({**self.tasks, task.id: task}, self.damaged, self.now)

    def is_held(self, task: Task) -> bool:
        """Whether somebody works on it. A claim that ran out holds nothing: its owner may be dead, or very slow."""
        return task.status == "in_progress" and task.lease > self.now

    def open_dependencies(self, task: Task) -> list[int]:
        """Return the ids that it still waits for: all that are not completed, or of which nothing is known."""
        return [id for id in task.blocked_by if id not in self.tasks or self.tasks[id].status != "completed"]

    def dead_end(self, id: int) -> str:
        """Return why the task ``id`` will not be completed if nobody acts, or "" if it may be."""
        if id not in self.tasks:
            return f"#{id} is {'damaged' if id in self.damaged else 'missing'}"
        if id in self.rings:
            return f"#{id} waits for itself"
        return f"#{id} {self.tasks[id].status}" if self.tasks[id].status in ("failed", "cancelled") else ""

    @cached_property
    def rings(self) -> set[int]:
        """One task or more of each cycle that there is: no tool makes one, but hands write files, too."""
        waits = {
            id: self.open_dependencies(task)
            for id, task in self.tasks.items()
            if task.status in STATUSES[:2] and not self.is_held(task)
        }
        found: set[int] = set()
        done: set[int] = set()
        for start in waits:
            way = {start: iter(waits[start])} if start not in done else {}  # from there to where we are
            while way:
                here = next(reversed(way))
                there = next(way[here], None)
                if there is None:
                    del way[here]
                    done.add(here)
                elif there in way:
                    found.add(there)
                elif there in waits and there not in done:
                    way[there] = iter(waits[there])
        return found

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
        reached = deque((id, why) for id in sorted(behind) if (why := self.dead_end(id)))
        while reached:
            id, why = reached.popleft()
            for waits in behind.get(id, ()):
                if waits not in found:
                    found[waits] = why
                    reached.append((waits, why))
        return found

    def states(self) -> dict[int, str]:
        """Return for each task where it stands now, one of STATES."""
        stuck = self.stuck()
        return {id: self.state(task, id in stuck) for id, task in self.tasks.items()}

    def state(self, task: Task, is_stuck: bool) -> str:
        if task.status not in STATUSES[:2] or self.is_held(task):
            return task.status
        if is_stuck:
            return "stuck"
        return "waiting" if self.open_dependencies(task) else "ready"

    def ordered(self) -> list[Task]:
        """Return the tasks as one reads them: what goes on, what can be done, what hangs, and so on; each as made."""
        states = self.states()
        return sorted(self.tasks.values(), key=lambda task: (STATES.index(states[task.id]), task.id))

    def ready(self) -> list[Task]:
        """Return the tasks that can be claimed, in the order in which they were made."""
        return [task for task in self.tasks.values() if self.state(task, False) == "ready"]

    def waiting_for(self, id: int) -> list[Task]:
        """Return the open tasks that name ``id`` among those that they wait for."""
        return [task for task in self.tasks.values() if id in task.blocked_by and task.status in STATUSES[:2]]

    def cycle(self, id: int, blocked_by: Iterable[int]) -> list[int]:
        """Return the way from ``id`` back to itself that would be there if it waited for ``blocked_by``, or []."""
        came_from = {dependency: id for dependency in blocked_by}
        reached = deque(came_from)
        while reached:
            here = reached.popleft()
            if here == id:
                way = [id, came_from[id]]
                while way[-1] != id:
                    way.append(came_from[way[-1]])
                return way[::-1]
            for dependency in self.tasks[here].blocked_by if here in self.tasks else ():
                if dependency not in came_from:
                    came_from[dependency] = here
                    reached.append(dependency)
        return []
