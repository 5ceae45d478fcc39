"""Tasks on disk: one JSON file a task, in one folder, changed by one process at a time.

Each file is replaced in one step, so that who reads needs no lock and never sees half a task. Who changes something holds
the lock from the look to the write: between "nobody has it" and "I have it" there must be no gap. The lock is the
system's own and ends with the process that holds it, however that ends. A file that holds no task is named, and hides no
other one. After an idea of https://github.com/shareAI-lab/learn-claude-code.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from contextlib import contextmanager
from contextlib import suppress
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Any
from typing import Callable
from typing import Iterator
from typing import TypeVar

from .file_lock import locked
from .paths import replace
from .paths import resolve
from .task_graph import STATUSES
from .task_graph import Board
from .task_graph import Task
from .todo import one_line
from .tools import ToolError

ID = re.compile("[1-9][0-9]{0,3}")  # every change looks at every file: 9999 are far too many already
OWNER = re.compile(r"[\w.@-]{1,64}")  # one word, so that it can be told from the words around it
MAX_BYTES = 200_000  # of a file: what is written here stays below, whatever stands in it
LATEST = 1e11  # seconds since 1970: the year 5138; no claim holds so long
PAUSES = (0.01, 0.05, 0.2)  # seconds; on Windows a file that somebody is reading cannot be replaced just then

UNREACHABLE = "The tasks cannot be read or written ({}). Nothing was changed: tell the person if it stays so."
BUSY = "The tasks are being changed by others ({}). Nothing was changed: try again."
LINK = "{} is a link, and tasks are not followed through links: tell the person."

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TaskStore:
    """The tasks in ``folder`` (relative to the workspace). ``clock`` returns seconds since 1970."""

    workspace: Path
    folder: str
    lock_seconds: float
    clock: Callable[[], float] = time.time

    def look(self) -> Board:
        """Return all tasks as they are now; changes nothing, and waits for nobody. Raises ToolError."""
        with told():
            return self.board(resolve(self.workspace, self.folder))

    @contextmanager
    def changing(self) -> Iterator[tuple[Board, Callable[[Task], None]]]:
        """Look at all tasks, and let nobody else change one meanwhile. Gives the board, and a function that writes a task.

        Raises ToolError for what the disk refuses, and if the lock cannot be had within ``lock_seconds``.
        """
        with told():
            place = resolve(self.workspace, self.folder)
            place.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError), open(place / ".gitignore", "x", encoding="utf-8") as file:
                file.write("*\n")
            if (place / ".lock").is_symlink():
                raise ToolError(LINK.format(".lock"))
            with locked(place / ".lock", self.lock_seconds):
                yield self.board(place), lambda task: write(place, task)

    def board(self, place: Path) -> Board:
        names = os.listdir(place) if place.exists() else []
        ids = sorted(int(name[:-5]) for name in names if name.endswith(".json") and ID.fullmatch(name[:-5]))
        tasks: dict[int, Task] = {}
        damaged: dict[int, str] = {}
        for id in ids:
            try:
                tasks[id] = read(place, id)
            except (OSError, ValueError, RecursionError, MemoryError) as error:
                damaged[id] = one_line(getattr(error, "strerror", None) or str(error))[:100]
        return Board(tasks, damaged, self.clock())


def next_id(board: Board) -> int:
    """Return the id for a new task: after all that there are, damaged ones too. Raises ToolError if none is left."""
    id = max([0, *board.tasks, *board.damaged]) + 1
    if not ID.fullmatch(str(id)):
        raise ToolError(f"There is no id left after #{id - 1}: tell the person that old tasks have to be moved away.")
    return id


def read_id(value: str | int) -> int:
    """Return the id that ``value`` stands for: 3, "3" or "#3". Raises ToolError."""
    text = str(value).strip().removeprefix("#")
    if not ID.fullmatch(text):
        raise ToolError(f"{one_line(value)[:40]!r} is no id of a task: an id is a number that task_list shows, such as 3.")
    return int(text)


def read(place: Path, id: int) -> Task:
    """Return the task in one file. Raises OSError, or ValueError that says what is wrong with it."""
    path = place / f"{id}.json"
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("a link" if stat.S_ISLNK(about.st_mode) else "no ordinary file")
    if about.st_size > MAX_BYTES:
        raise ValueError(f"too large, {about.st_size:,} bytes")
    data = patiently(path.read_bytes).decode("utf-8-sig")
    try:
        value = json.loads(data)
    except ValueError:
        raise ValueError("no JSON" if data.strip() else "empty") from None
    return as_task(id, value)


def as_task(id: int, value: Any) -> Task:
    """Return the task that ``value``, which somebody else may have written, describes. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    names = [name for name in Task.__dataclass_fields__ if name != "more"]
    task = Task(**{"subject": "", **{name: value[name] for name in names if name in value}, "id": value.get("id")})
    numbers = task.blocked_by if isinstance(task.blocked_by, (list, tuple)) else None
    checks = {
        "id": type(task.id) is int and task.id == id,
        "subject": isinstance(task.subject, str) and one_line(task.subject),
        "description": isinstance(task.description, str),
        "status": task.status in STATUSES,
        "owner": isinstance(task.owner, str) and (OWNER.fullmatch(task.owner) or not task.owner),
        "lease": type(task.lease) in (int, float) and 0 <= task.lease <= LATEST,
        "blocked_by": numbers is not None and all(type(n) is int and n != id and ID.fullmatch(str(n)) for n in numbers),
    }
    if wrong := [name for name, is_right in checks.items() if not is_right]:
        raise ValueError(f"the field {wrong[0]} is wrong or missing")
    more = {name: each for name, each in value.items() if name not in names}
    return changed(task, subject=one_line(task.subject), blocked_by=tuple(dict.fromkeys(numbers)), more=more)


def write(place: Path, task: Task) -> None:
    """Put the task into its file in one step. Raises OSError."""
    value = asdict(task)
    value = {**value.pop("more"), **value}
    data = (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    patiently(lambda: replace(place / f"{task.id}.json", data))


def patiently(act: Callable[[], Answer]) -> Answer:
    """Return what ``act`` returns, and try again where somebody has the file open just now."""
    for pause in PAUSES:
        try:
            return act()
        except PermissionError:
            time.sleep(pause)
    return act()


@contextmanager
def told() -> Iterator[None]:
    """Turn what the disk refuses into words for the model."""
    try:
        yield
    except TimeoutError as error:
        raise ToolError(BUSY.format(error)) from None
    except OSError as error:
        raise ToolError(UNREACHABLE.format(one_line(error.strerror or str(error)))) from None
