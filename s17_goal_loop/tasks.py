"""Tasks that several workers share: made once, waiting for each other, and each worked on by one at a time.

A todo list is one agent's own, in its memory. Tasks are files, so that other agents, in other processes, see them too.
Two things must not happen then: that two take the same task, and that a task is lost with the worker that took it. So a
claim is made under a lock, and it holds for a time only, the lease; each update of the owner renews it. A lease never
asks whether a process is alive: ids of processes are used again, and to ask ends the process on some systems.

The tools are named after those of Claude Code, which keeps such a list; claiming and completing are as in
https://github.com/shareAI-lab/learn-claude-code.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from dataclasses import replace as changed
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .task_graph import Board
from .task_graph import Task
from .task_rows import MAX_NAMED
from .task_rows import chain
from .task_rows import count
from .task_rows import facts
from .task_rows import ids
from .task_rows import left
from .task_rows import read_description
from .task_rows import read_subject
from .task_rows import row
from .task_rows import table
from .task_rows import whole
from .task_store import OWNER
from .task_store import TaskStore
from .task_store import next_id
from .task_store import read_id
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

FOLDER = ".harness/tasks"
LEASE_SECONDS = 900.0  # longer than most steps take from one update to the next; a dead worker's task waits no longer
LOCK_SECONDS = 10.0  # a change takes milliseconds, so whoever waits so long waits for something that is broken

SECTION = """Tasks (task_create and so on) are for work that several workers share, or that another worker may have to go
on with. Claim a task before you work on it; complete it when you have seen the result; set it to failed if it cannot be
done. Leave alone what another worker holds. Your own next steps belong in todo_write, not here."""
CREATE = """Make a task for any worker: what is to be done, and which tasks have to be completed before. For your own
steps use todo_write."""
UPDATE = """Change a task that nobody else holds. failed: it was tried and cannot be done. cancelled: it is not needed.
pending: give it back, or take it up again. What waits for a failed or cancelled task is stuck until somebody decides.
Any update renews your claim; with the id alone it does nothing else."""
LIST = "Show all tasks: what goes on, what can be claimed, what is stuck, what waits."
GET = "Show one task with its description."
CLAIM = """Take a task that is ready, so that nobody else works on it: the one with this id, or the next one. The claim
holds for a time, and each update renews it."""
COMPLETE = "Complete a task that you claimed, when you have seen the result. Says what has become ready."
ID = {"type": ["string", "integer"], "description": "The number of the task"}
SUBJECT = {"type": "string", "description": "What is to be done, on one line"}
TEXT = {"type": "string", "description": "All that a worker needs to know who has not read this conversation"}
BLOCKED_BY = {"type": "array", "items": ID, "description": "All tasks that have to be completed before this one"}
STATUS = {"type": "string", "enum": ["pending", "failed", "cancelled"]}

UNKNOWN = "There is no task #{}: task_list shows those that there are."
DAMAGED = "#{} is damaged ({}): leave it alone, and tell the person, who can mend or remove the file."
CYCLE = "Refused, since it would be a cycle: {}. Leave out one of these."
HELD = "#{} is held by {} ({}): claim another task, or wait."
FINAL = "#{} is completed, and stays so, since others may rest on it: make a new task for what is still missing."
NOT_READY = "#{} is not ready ({}): claim another task; task_list shows which are ready."
NOT_OPEN = "#{} is {}: set it to pending with task_update, if it shall be taken up again."
NONE_READY = "No task is ready {}: look at task_list, help with what is stuck, or report what is left."
NOT_YOURS = "#{} is not claimed by you, so you cannot {} it: claim it first, and do its work."
BEGUN = "#{} is {}, and what a task waits for is settled before it begins: set it to pending in the same call."
STUCK = "\nStuck because of that: {}. Give them other blocked_by, cancel them, or set #{} to pending to try again."
TAKEN_OVER = "Taken over from {}, whose claim ran out: look first at what is done already.\n"
NOTHING = "There is nothing to change: give what shall be different in #{}."


def install(
    agent: Agent,
    *,
    folder: str = FOLDER,
    owner: str = "",
    session: Callable[[], str] = str,
    lease_seconds: float = LEASE_SECONDS,
    lock_seconds: float = LOCK_SECONDS,
    clock: Callable[[], float] = time.time,
    section: str = SECTION,
) -> TaskDesk:
    """Give ``agent`` six tools for the tasks in ``folder`` of its workspace, and a section about them.

    ``owner`` is the name under which it claims. Without one it is that of the ``session()``, so that one which is resumed
    is the same worker and a fork another; "" is none, and then it is a name that nobody else has. ``clock`` returns
    seconds since 1970. Raises ValueError for a name or a time that cannot be meant.
    """
    if owner and not OWNER.fullmatch(owner):
        raise ValueError(f"owner: {owner!r} must be one word of letters, digits and . _ - @, at most 64 characters.")
    if lease_seconds <= 0 or lock_seconds <= 0:
        raise ValueError("lease_seconds and lock_seconds must be more than 0.")
    store = TaskStore(agent.workspace, folder, lock_seconds, clock)
    new_name = uuid.uuid4().hex[:8]
    desk = TaskDesk(agent, store, lambda: owner or f"agent-{session() or new_name}", lease_seconds)
    new = {"subject": SUBJECT, "description": TEXT, "blocked_by": BLOCKED_BY}
    add_tool(agent, Tool("task_create", CREATE, takes(new, "subject"), desk.task_create))
    change = {"id": ID, "status": STATUS, **new}
    add_tool(agent, Tool("task_update", UPDATE, takes(change, "id"), desk.task_update))
    add_tool(agent, Tool("task_list", LIST, takes({}), desk.task_list, read_only=True))
    add_tool(agent, Tool("task_get", GET, takes({"id": ID}, "id"), desk.task_get, read_only=True))
    add_tool(agent, Tool("task_claim", CLAIM, takes({"id": ID}), desk.task_claim))
    add_tool(agent, Tool("task_complete", COMPLETE, takes({"id": ID}, "id"), desk.task_complete))
    agent.add_section("tasks", section)
    return desk


def takes(properties: dict, *required: str) -> dict:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class TaskDesk:
    """The six tools. Every rule stands here; each change looks and writes under one lock, or changes nothing."""

    def __init__(self, agent: Agent, store: TaskStore, owner: Callable[[], str], lease_seconds: float) -> None:
        self.store, self.owner, self.lease_seconds = store, owner, lease_seconds
        self.agent = weakref.ref(agent)
        self.others: list[tuple[weakref.ref, str]] = []  # that share the tools, with their names
        self.one_look = threading.Lock()

    def name_of(self, agent: Agent) -> str:
        """Return under which name ``agent`` claims. Agents that share these tools are workers of their own."""
        if self.agent() is agent:
            return self.owner()
        with self.one_look:
            known = [name for other, name in self.others if other() is agent]
            if not known:  # a number would be used again when the session is resumed, and another's claim with it
                known = [f"{self.owner()}.{uuid.uuid4().hex[:8]}"]
                self.others.append((weakref.ref(agent), known[0]))
        return known[0]

    def task_create(self, agent: Agent, subject: str, description: str = "", blocked_by: list | tuple = ()) -> str:
        """The tool: make a task that waits for ``blocked_by``. Raises ToolError."""
        subject, description = read_subject(subject), read_description(description)
        with self.store.changing() as (board, write):
            task = Task(next_id(board), subject, description)
            task = changed(task, blocked_by=read_dependencies(board, task.id, blocked_by))
            write(task)
            return f"Created {row(board.with_task(task), task, self.name_of(agent))}"

    def task_update(
        self,
        agent: Agent,
        id: str | int,
        status: str = "",
        subject: str | None = None,
        description: str | None = None,
        blocked_by: list | None = None,
    ) -> str:
        """The tool: change what is given, and renew the claim if it is the agent's own. Raises ToolError."""
        me = self.name_of(agent)
        new: dict[str, Any] = {}
        with self.store.changing() as (board, write):
            task = find(board, id)
            need_free(board, task, me)
            is_mine = task.status == "in_progress" and task.owner == me
            if status == "failed" and not is_mine:
                raise ToolError(NOT_YOURS.format(task.id, "fail"))
            if subject is not None:
                new["subject"] = read_subject(subject)
            if description is not None:
                new["description"] = read_description(description)
            if blocked_by is not None:
                if (status or task.status) != "pending":
                    raise ToolError(BEGUN.format(task.id, status or task.status))
                new["blocked_by"] = read_dependencies(board, task.id, blocked_by)
            if status:
                new |= {"status": status, "lease": 0.0, "owner": task.owner if status == "failed" else ""}
            elif is_mine:
                new["lease"] = board.now + self.lease_seconds
            if not new:
                raise ToolError(NOTHING.format(task.id))
            task = changed(task, **new)
            write(task)
            after = board.with_task(task)
            hurt = sorted(after.stuck().keys() - board.stuck().keys()) if status in ("failed", "cancelled") else []
            return row(after, task, me) + (STUCK.format(ids(hurt), task.id) if hurt else "")

    def task_list(self, agent: Agent) -> str:
        """The tool: return a row for each task, in an order that does not jump, and what is damaged."""
        board = self.store.look()
        text = table(board, self.name_of(agent))
        agent.show("tasks", text="    " + text.replace("\n", "\n    "))
        return text

    def task_get(self, agent: Agent, id: str | int) -> str:
        """The tool: return a task with its description, and what waits for it. Raises ToolError."""
        board = self.store.look()
        task = find(board, id)
        waiting = ids([each.id for each in board.waiting_for(task.id)])
        return whole(board, task, self.name_of(agent)) + (f"\nThose that wait for it: {waiting}" if waiting else "")

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
            task = changed(task, status="in_progress", owner=me, lease=board.now + self.lease_seconds)
            write(task)
            return (TAKEN_OVER.format(before) if before else "") + whole(board.with_task(task), task, me)

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
            freed = [each for each in after.ready() if each.id not in before]
            news = f"Ready now: {ids(each.id for each in freed)}" if freed else "Nothing became ready by it."
            return "\n".join([f"Completed #{task.id}. {news}", *(row(after, each, me) for each in freed[:MAX_NAMED])])


def find(board: Board, id: str | int) -> Task:
    """Return the task with this id. Raises ToolError."""
    number = read_id(id)
    if number in board.tasks:
        return board.tasks[number]
    raise ToolError(DAMAGED.format(number, board.damaged[number]) if number in board.damaged else UNKNOWN.format(number))


def need_free(board: Board, task: Task, me: str) -> None:
    """Raise ToolError if nobody may change the task, or only somebody else."""
    if task.status == "completed":
        raise ToolError(FINAL.format(task.id))
    if board.is_held(task) and task.owner != me:
        raise ToolError(HELD.format(task.id, task.owner or "somebody", left(board, task)))


def read_dependencies(board: Board, id: int, blocked_by: list) -> tuple[int, ...]:
    """Return the ids in ``blocked_by``, each once. Raises ToolError for one that is not there, and for a cycle."""
    found = tuple(dict.fromkeys(find(board, each).id if read_id(each) != id else id for each in blocked_by))
    if way := board.cycle(id, found):
        raise ToolError(CYCLE.format(chain(way)))
    return found
