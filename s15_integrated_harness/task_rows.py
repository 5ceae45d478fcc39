"""How tasks are told to the model and shown to the person, one row each, facts first; and which texts they may have.

A subject is what somebody else wrote. It comes last in its row and has no line break, so whatever it says cannot pass for
a state, an owner or another row; a description has a mark before each of its lines.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Iterable

from .task_graph import STATES
from .task_graph import Board
from .task_graph import Task
from .todo import one_line
from .tools import ToolError

MAX_SUBJECT = 200  # characters: one line that tells it from the others
MAX_DESCRIPTION = 8_000  # characters: what somebody needs who was not there when it was written
MAX_ROWS = 50  # of the list: a screen or two; completed tasks are the first to be left out
MAX_NAMED = 8  # tasks named in one sentence
MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "failed": "[!]", "cancelled": "[-]"}


def table(board: Board, me: str) -> str:
    """Return all tasks as text, for the worker ``me``: rows, then a line that counts, then what is damaged."""
    ordered = board.ordered()
    lines = [row(board, task, me) for task in ordered[:MAX_ROWS]]
    if rest := ordered[MAX_ROWS:]:
        lines.append(f"… and {len(rest)} more, from #{rest[0].id} on: task_get shows one")
    lines.append(count(board) if ordered else "(no tasks)")
    lines += [f"Damaged, the others are not affected: {id}.json ({why})" for id, why in board.damaged.items()]
    return "\n".join(lines)


def row(board: Board, task: Task, me: str) -> str:
    """Return the task on one line."""
    return f"#{task.id} {MARKS[task.status]} {facts(board, task, me)}: {task.subject[:MAX_SUBJECT]}"


def whole(board: Board, task: Task, me: str) -> str:
    """Return the task with its description."""
    lines = plain(task.description)[:MAX_DESCRIPTION].splitlines()
    return "\n".join([row(board, task, me), *(f"  | {line}".rstrip() for line in lines)])


def facts(board: Board, task: Task, me: str) -> str:
    """Return where the task stands, and what holds it up."""
    stuck = board.stuck()
    state = board.state(task, task.id in stuck)
    whose = "your claim" if task.owner == me else f"the claim of {task.owner}"
    if state == "in_progress":
        return f"{'yours' if task.owner == me else 'held by ' + (task.owner or 'somebody')}, {left(board, task)}"
    if state == "ready" and task.status == "in_progress" and task.owner:
        return f"ready, {whose} ran out"
    if state == "waiting":
        return f"waits for {ids(board.open_dependencies(task))}"
    return f"stuck, {stuck[task.id]}" if state == "stuck" else state


def count(board: Board) -> str:
    """Return how many tasks are where."""
    counts = Counter(board.states().values())
    others = [f"{counts[state]} {state.replace('_', ' ')}" for state in STATES[:-1] if counts[state]]
    return f"({', '.join([f'{counts[STATES[-1]]}/{len(board.tasks)} completed', *others])})"


def ids(numbers: Iterable[int]) -> str:
    """Return ids as text, not too many of them."""
    numbers = list(numbers)
    more = f" and {len(numbers) - MAX_NAMED} more" if len(numbers) > MAX_NAMED else ""
    return ", ".join(f"#{number}" for number in numbers[:MAX_NAMED]) + more


def chain(way: list[int]) -> str:
    """Return ids that wait one for the other as text, of a long way its two ends."""
    names = [f"#{id}" for id in way]
    if len(names) > MAX_NAMED:
        names[MAX_NAMED // 2 : -MAX_NAMED // 2] = [f"… ({len(names) - MAX_NAMED} more) …"]
    return " waits for ".join(names)


def left(board: Board, task: Task) -> str:
    """Return for how long the claim holds."""
    seconds = task.lease - board.now
    return "under a minute left" if seconds < 60 else f"{math.ceil(seconds / 60)} min left"


def read_subject(subject: str) -> str:
    """Return ``subject`` on one line. Raises ToolError if it is empty or too long."""
    subject = one_line(subject)
    if not subject or len(subject) > MAX_SUBJECT:
        raise ToolError(f"The subject must be one line of 1 to {MAX_SUBJECT} characters: put the rest into the description.")
    return subject


def read_description(description: str) -> str:
    """Return ``description`` in lines of what can be seen. Raises ToolError if it is too long."""
    if len(text := plain(description)) > MAX_DESCRIPTION:
        raise ToolError(f"The description may have {MAX_DESCRIPTION:,} characters: put more into a file, and name the file.")
    return text


def plain(text: str) -> str:
    """Return ``text`` in lines of what can be seen."""
    lines = ["".join(char for char in line if char.isprintable()).rstrip() for line in text.expandtabs(4).splitlines()]
    return "\n".join(lines).strip("\n")
