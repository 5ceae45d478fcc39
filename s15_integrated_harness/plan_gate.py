"""The gate at the end of a run: work that is marked as going on is not left lying while it moves.

"Unfinished" alone must not hold anybody: who asks for a small thing in the middle of a large plan wants the small thing.
And a gate that holds a model which is stuck makes a loop without end. So the person must have asked for it, a phase must
be in progress, and since the gate last held, something must have moved. What moved is told by a ledger of facts: files
written, commands and how they ended. It shows that something was done, never that it was right.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from dataclasses import replace
from datetime import datetime
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .hooks import PostToolUse
from .hooks import Stop
from .plan_folder import LEDGER
from .plan_folder import PLAN
from .plan_folder import Plan
from .plan_folder import is_plan_file
from .plan_folder import lock_of
from .plan_folder import own
from .plan_folder import shown
from .plan_folder import update_state

if TYPE_CHECKING:
    from .agent import Agent

CAP = 20  # times that a plan may hold the model: more than any plan has phases, and an end to a plan that never ends
COMMAND_CHARS = 200  # of a command in the ledger: enough to know it again
LINE_BYTES = 10_000  # of a line that is read: an entry is far shorter, whatever else the file may hold
WRITE, COMMAND = "write", "command"

HOLD = (
    "The plan {} is gated, and phase {} of {} in it is in progress. Go on with it. If it is done, set its status to complete; "
    "if you cannot go on, set it to pending and say in your answer what is missing. (Held {} of {} times.)"
)


def install(agent: Agent, *, look: Callable[[], Plan], cap: int = CAP) -> None:
    """Keep the ledger of the plan that ``look()`` returns, and hold ``agent`` at most ``cap`` times while it is gated.

    Raises ValueError for a cap below 0; 0 never holds.
    """
    if cap < 0:
        raise ValueError(f"The gate's cap is {cap}: give 0, which never holds, or more.")
    gate = Gate(agent, look, cap)
    agent.on(PostToolUse, gate.record)
    agent.on(Stop, gate.at_stop)


@dataclass
class Gate:
    """The gate of one agent. What it remembers lies beside the plan, so that it outlives the session."""

    agent: Agent
    look: Callable[[], Plan]
    cap: int

    def record(self, event: PostToolUse) -> None:
        """Write down what really happened: by the tool's own facts, also where an agent started by this one did it."""
        plan = self.look()
        entry = fact(event)
        if plan.folder and entry and not is_plan_file(self.agent.workspace, plan.folder, entry.get("path", "")):
            append(plan.folder, entry)

    def at_stop(self, event: Stop) -> None:
        """Object to the stop, or let it go with a line for the person that orders nothing."""
        if event.reason != "end_turn":
            return
        plan = self.look()
        moved = entries(plan.folder) if plan.folder else 0
        why = why_not(plan, moved, event.forced, self.cap)
        if why is None:
            try:
                update_state(plan.folder, lambda state: replace(state, blocks=state.blocks + 1, seen=moved))
            except OSError as error:
                why = f"not held, since that could not be noted: {error}"
            else:
                event.objections.append(self.hold(plan))
        if why:
            self.agent.show("notice", text=f"[plan {plan.summary()}; {why}]")

    def hold(self, plan: Plan) -> str:
        """Return the objection: it names the file and the phase's number, and holds not a word of the plan itself."""
        number = 1 + [phase.status for phase in plan.phases].index("in_progress")
        where = shown(self.agent.workspace, plan.folder / PLAN)
        return HOLD.format(where, number, len(plan.phases), plan.state.blocks + 1, self.cap)


def why_not(plan: Plan, moved: int, forced: int, cap: int) -> str | None:
    """Return why the gate lets go ("" if there is nothing to say), or None if it holds.

    ``moved`` is the number of entries in the ledger, ``forced`` how often hooks have made this run go on already.
    """
    if plan.folder is None or (not plan.phases and not plan.problem):
        return ""
    if plan.problem:  # of a plan that was found: with none, or several, it ended above
        return "changed after it was sealed, so not judged" if plan.state.seal else "no text, so not judged"
    if not plan.whole:
        return "too long to be judged"
    if plan.count("complete") == len(plan.phases):
        return "all done"
    if not plan.state.gated:
        return "not gated"
    if forced:
        return "this run was made to go on already"
    if not plan.count("in_progress"):
        return "nothing is going on"
    if plan.state.blocks >= cap:
        return f"held {plan.state.blocks} times already, the cap is {cap}"
    if plan.state.blocks and moved <= plan.state.seen:
        return "nothing was written or run since it was held last"
    return None


def fact(event: PostToolUse) -> dict[str, Any]:
    """Return the entry for the ledger, from the facts of the tool; an empty one if nothing moved."""
    name, facts = event.call["name"], event.facts
    if name in ("write_file", "edit_file") and not event.is_error and isinstance(facts.get("path"), str):
        return {"event": WRITE, "path": facts["path"]}
    if isinstance(facts.get("exit_status"), int):
        return {"event": COMMAND, "command": str(facts.get("command", ""))[:COMMAND_CHARS], "exit_status": facts["exit_status"]}
    return {}


def append(folder: Path, entry: dict[str, Any]) -> None:
    """Add ``entry`` to the ledger of a plan. Nothing is lost however many do so at once. Raises OSError.

    One write at the end of the file; the lock is for systems on which two such writes can mix, and for the line that
    somebody who was killed has left unfinished.
    """
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    line = json.dumps({"time": now, **entry}).encode("ascii") + b"\n"
    with lock_of(folder), open(own(folder, LEDGER), "a+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line)


def entries(folder: Path) -> int:
    """Return how many entries the ledger has: no blank lines, no damaged ones, nothing of another kind."""
    try:
        with open(own(folder, LEDGER), "rb") as file:
            return sum(map(is_entry, iter(lambda: file.readline(LINE_BYTES), b"")))
    except OSError:
        return 0


def is_entry(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and entry.get("event") in (WRITE, COMMAND)
