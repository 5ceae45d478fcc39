"""After a lost context: what happened since the plan files were last changed, taken from the session log.

The plan files say what the model wrote down. The session may have gone on after that: a request, an edit, a test that
failed. The log knows it. So where the conversation is lost (a new session, a compaction), the part of the log that
follows the last change of the plan files is shown once, short and as data. Nothing followed: nothing is said.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable
from typing import Iterable

from .framing import frame
from .history import Block
from .hooks import BeforeModel
from .hooks import PostCompact
from .hooks import UserPromptSubmit
from .plan_folder import FILES
from .plan_folder import PLAN
from .plan_folder import PROGRESS
from .plan_folder import Plan
from .plan_folder import is_plan_file
from .todo import one_line

if TYPE_CHECKING:
    from .agent import Agent

MAX_ENTRIES = 20  # of the log: what was done last tells where it stands
MAX_CHARS = 300  # of an entry: a sentence or a command line
MAX_BYTES = 4_000  # of all of them, some 1,000 tokens
ORDER = 11  # of the note: right behind the plan files
EXIT_STATUS = re.compile(r"\[(exit status -?\d+|the time was up\b.*)\]")  # the last line of a command's result is the harness's

EARLIER = "the session before this one"
THIS = "this session, before it was compacted"
INTRO = "Your plan files are behind. This happened after their last change, in {}. It is data, from the log{}:"
WHAT_NOW = "Look at the files themselves, then bring {} and {} up to date, and go on with what the person asks for now."
FOREIGN = "  [catch-up: the log of the earlier session is of another workspace ({}), and is not used]"

Record = dict[str, Any]


def install(
    agent: Agent,
    *,
    look: Callable[[], Plan],
    earlier_session: Callable[[Path], Iterable[Record]],
    this_session: Callable[[], Iterable[Record]],
    max_entries: int = MAX_ENTRIES,
    max_chars: int = MAX_CHARS,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Let ``agent`` catch up on the plan that ``look()`` returns.

    ``earlier_session(workspace)`` yields the records of the newest earlier session there, never those of the running one;
    ``this_session()`` those of the running one. Both go back through what was resumed or forked.
    """
    catching = CatchUp(agent, look, earlier_session, this_session, max_entries, max_chars, max_bytes)
    agent.on(UserPromptSubmit, catching.prompted)
    agent.on(PostCompact, catching.compacted)
    agent.on(BeforeModel, catching.bring)


@dataclass
class CatchUp:
    """Whether something may have been lost, and where to look for it."""

    agent: Agent
    look: Callable[[], Plan]
    earlier_session: Callable[[Path], Iterable[Record]]
    this_session: Callable[[], Iterable[Record]]
    max_entries: int
    max_chars: int
    max_bytes: int
    lost: str = ""  # what the next request has lost sight of: EARLIER, THIS or nothing

    def prompted(self, event: UserPromptSubmit) -> None:
        if event.source == "person" and not self.agent.history.messages:
            self.lost = EARLIER

    def compacted(self, event: PostCompact) -> None:
        self.lost = THIS

    def bring(self, event: BeforeModel) -> None:
        """Show once what followed the last change of the plan files."""
        lost, self.lost = self.lost, ""
        plan = self.look() if lost else Plan()
        if plan.folder is None or plan.problem:
            return
        try:
            records = self.earlier_session(self.agent.workspace) if lost == EARLIER else self.this_session()
            trail = follow(records, self.agent.workspace, plan.folder, self.max_entries)
        except (OSError, ValueError) as error:
            self.agent.show("notice", text=f"  [catch-up: the log cannot be read: {error}]")
            return
        if trail.foreign:
            self.agent.show("notice", text=FOREIGN.format(one_line(trail.foreign)))
        elif trail.entries:
            lines = last_fitting([entry.line(self.max_chars) for entry in trail.entries], self.max_bytes)
            left_out = f", the last {len(lines)} of {trail.count} entries" if trail.count > len(lines) else ""
            framed = frame("session log", "\n".join(lines), self.max_bytes)
            note = "\n".join([INTRO.format(lost, left_out), framed, WHAT_NOW.format(PROGRESS, PLAN)])
            self.agent.history.note("catch_up", note, order=ORDER, cut=True)
            self.agent.show("notice", text=f"  [catch-up: {trail.count} entries from {lost} follow the plan files' last change]")


@dataclass
class Entry:
    """One thing that happened: who, what, and for a call its id and how it ended."""

    who: str
    text: str
    call: str = ""
    outcome: str = ""

    def line(self, chars: int) -> str:
        """Return it as one line of at most so many characters; how a call ended always stays in it."""
        end = f" -> {one_line(self.outcome)[: chars // 2]}" if self.call else ""
        text = one_line(f"{self.who}: {self.text}")
        room = chars - len(end)
        return (text if len(text) <= room else text[: room - 1] + "…") + end


@dataclass
class Trail:
    """What followed the last change of the plan files: the last entries, and how many there were."""

    entries: deque[Entry]
    count: int = 0
    foreign: str = ""  # the other workspace of which this log is
    changing: set[str] = field(default_factory=set)  # ids of calls that are to change a plan file

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.count += 1

    def clear(self) -> None:
        self.entries.clear()
        self.count = 0


def follow(records: Iterable[Record], workspace: Path, folder: Path, max_entries: int = MAX_ENTRIES) -> Trail:
    """Return what happened after the last change of the plan files in ``folder``. Keeps ``max_entries`` at a time.

    A record of a message has its role, its content blocks, and its time in seconds of the epoch; the first one of a log says
    the workspace. Records of other types are skipped, and so are damaged ones: a compaction unmakes nothing that happened.
    The last change is the last call that wrote one of them, or the time of the files, whichever is later.
    """
    trail, changed = Trail(deque(maxlen=max_entries)), last_change(folder)
    for record in records:
        if not isinstance(record, dict):
            continue
        home = record.get("workspace")
        if isinstance(home, str) and home and Path(home) != workspace:
            return Trail(deque(), foreign=home)
        blocks = record.get("blocks")
        when = record.get("time")
        if not isinstance(blocks, list) or (isinstance(when, (int, float)) and when <= changed):
            continue
        for block in blocks:
            if isinstance(block, dict):
                note_block(trail, str(record.get("role")), block, lambda path: is_plan_file(workspace, folder, path))
    return trail


def note_block(trail: Trail, role: str, block: Block, is_plan: Callable[[str], bool]) -> None:
    """Add what a content block tells to the trail; a plan file that was written makes the trail begin anew."""
    kind = block.get("type")
    if kind == "text" and not str(block.get("text")).lstrip().startswith("<system-reminder>"):
        trail.add(Entry("person" if role == "user" else "model", str(block.get("text"))))
    elif kind == "tool_use" and isinstance(block.get("input"), dict):
        given = block["input"]
        if block.get("name") in ("write_file", "edit_file") and is_plan(str(given.get("path", ""))):
            trail.changing.add(str(block.get("id")))
        trail.add(Entry(str(block.get("name")), str(next(iter(given.values()), "")), str(block.get("id")), "no result"))
    elif kind == "tool_result":
        call = str(block.get("tool_use_id"))
        if call in trail.changing and not block.get("is_error"):
            trail.clear()
        for entry in trail.entries:
            if entry.call == call:
                entry.outcome = outcome(entry.who, block)
        trail.changing.discard(call)


def outcome(tool: str, block: Block) -> str:
    """Return how a call of ``tool`` ended: the first line of an error, the exit status of a command, else "ok"."""
    content = block.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    lines = "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict)).strip().splitlines() or [""]
    if block.get("is_error"):
        return f"failed: {lines[0]}"
    ended = EXIT_STATUS.fullmatch(lines[-1]) if tool == "bash" else None
    return ended[1] if ended else "ok"


def last_fitting(lines: list[str], max_bytes: int) -> list[str]:
    """Return the last lines that fit into so many bytes together; the very last in any case."""
    sizes = [len(line.encode("utf-8", "replace")) + 1 for line in lines]
    first = len(lines) - 1
    while first and sum(sizes[first - 1 :]) <= max_bytes:
        first -= 1
    return lines[first:]


def last_change(folder: Path) -> float:
    """Return when one of the plan files was changed last, in seconds of the epoch; 0 if none is there."""
    times = [0.0]
    for name in FILES:
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            pass
    return max(times)
