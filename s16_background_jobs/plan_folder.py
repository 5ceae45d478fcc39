"""Where the plan is, and what the harness keeps beside it: the one resolver, which every hook asks.

Three Markdown files outlive the session. task_plan.md alone says what is next, findings.md what was found out, and
progress.md what really happened. They lie in ``.planning/<name>/``, or in the workspace itself. Two copies of such rules
drift apart: then the model is shown one plan and held to another.
(Files and formats are those of https://github.com/OthmanAdi/planning-with-files.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import fields
from pathlib import Path
from typing import Callable
from typing import ContextManager

from .file_lock import locked
from .paths import need_file
from .paths import replace
from .paths import resolve
from .plan_text import Phase
from .plan_text import parse
from .tools import ToolError

PLANNING, POINTER = ".planning", ".active_plan"
PLAN, FINDINGS, PROGRESS = FILES = ("task_plan.md", "findings.md", "progress.md")
STATE, LEDGER, LOCK = OURS = (".plan_state.json", ".plan_ledger.jsonl", ".plan_lock")
ROOT = "."  # the name of a plan whose files lie in the workspace itself
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
MAX_BYTES = 256_000  # of a plan that is looked at: a plan is some kilobytes, and it is read at every tool call
LISTED = 8  # plans named where there are several
PATIENCE = 30.0  # seconds to wait for the lock of a plan: many may write at once, each for some milliseconds

MANY = "There are several plans ({}), and none was chosen: nothing is guessed. Choose with /planfiles use NAME."
GONE = "The plan {!r} of this session is not there any more: choose another with /planfiles use NAME."
NO_TEXT = "{} is no text, and is not shown to the model: write it anew, or go on without, /planfiles off."
EDITED = "{} was changed after it was sealed, and is not shown to the model: look at it, then /planfiles seal."


@dataclass(frozen=True)
class State:
    """What the harness keeps beside a plan; only commands of the person set the first two."""

    gated: bool = False
    seal: str = ""  # SHA-256 of the plan as the person approved it
    blocks: int = 0  # how often the gate has held the model since the plan was set up
    seen: int = 0  # entries of the ledger at the last of them


@dataclass(frozen=True)
class Plan:
    """The plan as it is on disk now. Without a folder there is none; ``problem`` says why it cannot be used."""

    folder: Path | None = None
    problem: str = ""
    name: str = ""
    text: str = ""
    whole: bool = True
    state: State = State()
    phases: tuple[Phase, ...] = ()

    def count(self, status: str) -> int:
        """Return how many phases have this status."""
        return sum(phase.status == status for phase in self.phases)

    def summary(self) -> str:
        """Return where the plan stands, in a line without a word of its text."""
        done, going = self.count("complete"), self.count("in_progress")
        return f"{self.name}: {done} of {len(self.phases)} phases complete, {going} in progress"


def look(workspace: Path, chosen: str = "") -> Plan:
    """Return the plan of ``workspace``: the one ``chosen``, else the active one, else the only one.

    Raises nothing that files can cause. Where several are possible and none was chosen, nothing is guessed.
    """
    name, problem = find(workspace, chosen)
    folder = folder_of(workspace, name) if name else None
    if folder is None:
        return Plan(problem=problem)
    data = read_bytes(workspace, folder / PLAN)
    state, text = load_state(folder), text_in(data)
    if state.seal and state.seal != seal_of(data):
        return Plan(folder, EDITED.format(shown(workspace, folder / PLAN)), name, state=state)
    if b"\0" in data:
        return Plan(folder, NO_TEXT.format(shown(workspace, folder / PLAN)), name, state=state)
    return Plan(folder, "", name, text, len(data) <= MAX_BYTES, state, parse(text))


def find(workspace: Path, chosen: str = "") -> tuple[str, str]:
    """Return the name of the plan to use, or "" and why there is none ("" if nobody plans with files here)."""
    if chosen:
        return (chosen, "") if folder_of(workspace, chosen) else ("", GONE.format(chosen))
    if folder_of(workspace, active := pointer(workspace)):
        return active, ""
    names = candidates(workspace)
    if not names:
        return "", ""
    if len(names) > 1 or nested(workspace):
        some = [*names, *nested(workspace)]
        return "", MANY.format(", ".join(some[:LISTED]) + (", …" if len(some) > LISTED else ""))
    return names[0], ""


def folder_of(workspace: Path, name: str) -> Path | None:
    """Return the real folder of the plan ``name``, or None unless its task_plan.md is a file inside the workspace."""
    if name != ROOT and not NAME.fullmatch(name):
        return None
    try:
        folder = resolve(workspace, name if name == ROOT else f"{PLANNING}/{name}")
        need_file(workspace, resolve(workspace, str(folder / PLAN)))
    except (ToolError, OSError, ValueError):
        return None
    return folder


def pointer(workspace: Path) -> str:
    """Return what the file .active_plan names; "" if there is none, or it is no name."""
    lines = text_in(read_bytes(workspace, workspace / PLANNING / POINTER)).splitlines()
    name = lines[0].strip() if lines else ""
    return name if name == ROOT or NAME.fullmatch(name) else ""


def candidates(workspace: Path) -> list[str]:
    """Return the names of all plans of the workspace, in order."""
    try:
        names = sorted(os.listdir(workspace / PLANNING))
    except OSError:
        names = []
    return [name for name in [ROOT, *names] if folder_of(workspace, name)]


def nested(workspace: Path) -> list[str]:
    """Return plans of projects right below the workspace: then the one above is a guess, too."""
    try:
        found = [path.parent for path in workspace.glob(f"*/{PLANNING}/*/{PLAN}") if path.is_file()]
    except OSError:
        found = []
    return sorted(shown(workspace, folder) for folder in found)


def is_plan_file(workspace: Path, folder: Path | None, path: str) -> bool:
    """Whether ``path`` is one of the plan files, or of what the harness keeps beside them. Wherever links lead."""
    try:
        target, planning = resolve(workspace, path), resolve(workspace, PLANNING)
    except (ToolError, OSError, ValueError):
        return False
    parts = target.relative_to(workspace).parts
    in_planning = bool(parts) and parts[0].casefold() == PLANNING  # some disks take other letters for the same
    in_planning = in_planning or target.is_relative_to(planning)
    return in_planning or (target.parent == folder and target.name.casefold() in (*FILES, *OURS))


def shown(workspace: Path, path: Path) -> str:
    return path.relative_to(workspace).as_posix()


def read_bytes(workspace: Path, path: Path, last: int = 0) -> bytes:
    """Return a file's first MAX_BYTES and one more, or its ``last`` bytes; none if it is no file of the workspace."""
    try:
        target = resolve(workspace, str(path))
        need_file(workspace, target)  # a pipe would wait for ever
        with open(target, "rb") as file:
            file.seek(max(0, target.stat().st_size - last) if last else 0)
            return file.read(last or MAX_BYTES + 1)
    except (ToolError, OSError, ValueError):
        return b""


def text_in(data: bytes) -> str:
    """Return ``data`` as text; "" if it is none."""
    return "" if b"\0" in data else data[:MAX_BYTES].decode("utf-8-sig", "replace")


def seal_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def own(folder: Path, name: str) -> Path:
    """Return the path of a file that the harness keeps beside a plan. Raises OSError for anything else there."""
    path = folder / name
    if path.is_symlink():
        raise OSError(f"{name} is a link: take it away")
    if path.exists() and not path.is_file():
        raise OSError(f"{name} is no plain file: take it away")  # a pipe would hold us for ever
    return path


def load_state(folder: Path) -> State:
    """Return what is kept beside the plan. What cannot be read opens nothing: no gate, and a seal that fits no plan."""
    try:
        kept = json.loads(own(folder, STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return State()
    except (OSError, ValueError, RecursionError):
        return State(seal="damaged")
    if not isinstance(kept, dict):
        return State(seal="damaged")
    known = {each.name: kept[each.name] for each in fields(State) if type(kept.get(each.name)) is type(each.default)}
    return State(**{"seal": "damaged" if "seal" in kept else "", **known})


def update_state(folder: Path, change: Callable[[State], State]) -> State:
    """Replace the state by ``change(state)``, one after the other however many do so. Raises OSError."""
    with lock_of(folder):
        state = change(load_state(folder))
        replace(own(folder, STATE), json.dumps(asdict(state)).encode("utf-8"))
    return state


def lock_of(folder: Path) -> ContextManager[None]:
    """Return the lock of a plan, to be held while something beside it is changed. Raises OSError."""
    return locked(own(folder, LOCK), PATIENCE)
