"""A conversation that outlives the program: what happens goes into a log, and everything is taken back from there.

The log is the truth. Messages, todos, plan mode and cost are computed from it (folds.py), so there is no second copy
that could disagree. To resume is to compute them again; to fork is to do that with the first part of a log. What a log
permits is a question of the past: nothing starts acting by itself when a session comes back.
"""

from __future__ import annotations

import contextlib
import re
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable
from typing import Iterator
from typing import Sequence

from .folds import Past
from .folds import boundary
from .folds import mended
from .folds import past
from .hooks import AfterModel
from .hooks import RunEnd
from .hooks import SessionStart
from .hooks import StateChanged
from .hooks import UserPromptSubmit
from .loop import INTERRUPTED
from .loop import NOT_STARTED
from .recorder import Recorder
from .recorder import shape
from .session_log import VERSION
from .session_log import Log
from .session_log import Record
from .session_log import SessionError
from .session_log import found
from .session_log import new_id
from .session_log import place
from .session_log import read
from .session_log import write_new
from .thoughts import without_thoughts

if TYPE_CHECKING:
    from .agent import Agent

FOLDER = ".harness/sessions"  # in the workspace: that is what a session is about
KEYS = (r"sk-ant-[A-Za-z0-9_-]{20,}",)  # how keys look; the one that we hold is masked whatever it looks like
LISTED = 20  # sessions; who looks for an older one knows its name
SHOWN = 60  # characters of a prompt in the list

DIED = "Before this message the program ended in the middle of your work: what you were doing may be unfinished."


def install(agent: Agent, *, folder: str = FOLDER, keys: Sequence[str] = KEYS) -> Session:
    """Keep the conversation of ``agent`` in ``folder``, in the workspace. The person gets /resume, /fork and /sessions.

    ``keys`` are regular expressions: what they find is masked in every record, as is the key that the model is asked with.
    """
    session = Session(agent, folder, [re.compile(pattern) for pattern in keys])
    agent.history.listeners.append(session.hear)
    agent.on(UserPromptSubmit, session.begin_run)
    agent.on(AfterModel, session.count)
    agent.on(StateChanged, session.keep_state, last=True)
    agent.on(RunEnd, session.end_run, last=True)
    agent.command("resume", "go on with the session before this one, or with the one named", session.on_resume)
    agent.command("fork", "go on from a copy of this session; /fork 2: of its first two runs", session.on_fork)
    agent.command("sessions", "list the sessions of this folder", session.on_sessions)
    return session


class Session(Recorder):
    """The session of one agent: writes its log, and makes the agent what a log says."""

    source = "startup"  # how this session began; "" once that was announced
    allowed: list[Any] | None = None  # the rules before anybody answered "always"
    refused = False  # whether the person's last command could not be done

    def begin_run(self, event: UserPromptSubmit) -> None:
        """A prompt has come. What Ctrl-C kept from being written when the last run ended is written now."""
        self.settle("interrupted")
        source, self.source = self.source, ""
        if source:
            self.remember_rules()
            self.agent.fire(SessionStart(self.agent, source))

    def resume(self, name: str = "") -> None:
        """Go on with the session ``name`` (a part of its id will do), or with the last one. Raises SessionError, OSError."""
        self.need_rest()
        self.take_up(self.find(name), "resume")

    def fork(self, name: str = "", run: float | None = None) -> None:
        """Go on from a copy of a session up to the end of its run ``run``, or as far as it has come.

        Without a name it is this session, or the last one if this one has not begun. Raises SessionError, OSError.
        """
        self.need_rest()
        source = self.log.path if self.log and not name else self.find(name)
        if source.stem == self.id and not self.is_kept:
            raise SessionError("not_kept", "This session is not kept any more: a copy would lack its last part.")
        child = place(self.own_folder(), new_id())
        write_new(child, self.copied(source, child.stem, run))
        self.take_up(child, "fork")

    def copied(self, source: Path, id: str, run: float | None) -> Iterator[Record]:
        """Yield the records of a fork: a header of its own, then what ``source`` has, of unknown types too."""
        count = boundary(read(source), run)
        yield {"type": "session", "time": time.time(), **self.header(id, source.stem, count)}
        for record in islice(read(source), count):
            if record["type"] not in ("session", "damaged"):
                yield record

    def take_up(self, path: Path, source: str) -> None:
        """Leave this session, and make the agent what the log at ``path`` says. Raises SessionError, OSError."""
        if path.stem == self.id:
            raise SessionError("busy", f"{self.id} is the session that you are in.")
        log = Log(path, self.mask)
        try:
            told = past(read(path))
            if told.header.get("version", VERSION) != VERSION:
                raise SessionError("newer", f"Another version of this program wrote {path.stem}: use that one.")
        except BaseException:
            log.close()
            raise
        self.close()
        self.log, self.source, self.is_kept, self.unkept = log, "", True, set()
        self.take_back(told)
        self.agent.fire(SessionStart(self.agent, source))
        self.say(described(told, self.id, self.agent.workspace))

    def take_back(self, told: Past) -> None:
        """Give history and state back as the log has them. What only waited in memory is dropped: a wish is no state."""
        agent, whole = self.agent, mended(told.messages)
        agent.queue.clear()
        self.remember_rules()
        if whole != told.messages:
            self.must_append("replaced", messages=whole)
        begun = {call for call, may_have_begun in told.open_calls().items() if may_have_begun}
        # Mended again: a message may be empty without the thoughts of another model. That is no part of the log.
        agent.history.load(mended(without_thoughts(whole, told.thinkers, agent.model.name)), begun)
        self.shape, self.is_open = shape(agent), told.is_open
        agent.history.settle(NOT_STARTED)
        self.settle("interrupted")
        if told.is_open or told.reason == "interrupted":
            agent.history.note("interrupt", DIED if told.is_open else INTERRUPTED, order=0)
        for name, restore in agent.restores.items():
            try:
                restore(told.states.get(name))
            except Exception as error:  # it was written by another version, or by hand
                self.say(f"what was kept of {name} cannot be used ({type(error).__name__}): it starts anew")
                restore(None)

    def remember_rules(self) -> None:
        """What the person allowed "always" was for the session in which it was said, and comes back in no other."""
        permissions = self.agent.permissions
        if permissions and self.allowed is None:
            self.allowed = list(permissions.rules["allow"])
        elif permissions:
            permissions.rules["allow"] = list(self.allowed)

    def need_rest(self) -> None:
        if self.agent.running:
            raise SessionError("running", "A run is going: wait until it has ended.")

    def find(self, name: str) -> Path:
        """Return the log of the session ``name``, or of a part of it; "" is the last one of this folder but ours."""
        logs = found(self.own_folder(make=False))
        matches = [path for path in logs if path.stem == name] or [path for path in logs if name in path.stem]
        if not name:
            earlier = (path for path in logs if path.stem != self.id and self.is_of_here(path))
            matches = list(islice(earlier, 1))
        if len(matches) > 1:
            raise SessionError("ambiguous", f"{name!r} can be {' or '.join(path.stem for path in matches)}: say which.")
        if not matches:
            what = f"no session {name!r}" if name else "no earlier session"
            where = self.agent.workspace
            raise SessionError("unknown", f"There is {what} in {where}: another folder is --workdir DIR.")
        return matches[0]

    def is_of_here(self, path: Path) -> bool:
        """Whether a log is about this very folder: one that came along with the files of a project is not our past."""
        try:
            with contextlib.closing(read(path)) as records:
                return next(records, {}).get("workspace") == str(self.agent.workspace)
        except OSError as error:  # somebody else's, perhaps
            self.say(f"{path.stem} cannot be read and is passed over: {error}")
            return False

    def records(self) -> Iterator[Record]:
        """Yield what is kept of this session so far, with all that a fork took over."""
        return read(self.log.path) if self.log else iter(())

    def earlier(self, workspace: Path) -> Iterator[Record]:
        """Yield the records of the last session of this workspace before this one; none if there is none."""
        try:
            return read(self.find(""))
        except (SessionError, OSError):
            return iter(())

    def close(self) -> None:
        """Let others open the session; nothing more is written."""
        if self.log:
            self.log.close()

    def on_resume(self, rest: str) -> None:
        """/resume, /resume ID."""
        self.try_to(self.resume, rest)

    def on_fork(self, rest: str) -> None:
        """/fork, /fork RUN, /fork ID, /fork ID RUN."""
        words = rest.split()
        number = float(words[-1]) if words and re.fullmatch(r"-?\d+(\.\d+)?", words[-1]) else None
        self.try_to(self.fork, " ".join(words if number is None else words[:-1]), number)

    def on_sessions(self, rest: str) -> None:
        """/sessions: what there is, the last one first."""
        self.try_to(self.list_sessions)

    def list_sessions(self) -> None:
        logs = found(self.own_folder(make=False))
        for path in logs[:LISTED]:
            try:
                told = past(read(path))
            except OSError as error:
                self.agent.show("notice", text=f"    {path.stem}  cannot be read: {error}")
                continue
            here = " <- this one" if path.stem == self.id else ""
            parent = f", a copy of {told.header['parent']}" if told.header.get("parent") else ""
            prompt = told.prompt if len(told.prompt) <= SHOWN else told.prompt[: SHOWN - 1] + "…"
            self.agent.show("notice", text=f"    {path.stem}  {counted(told)}, the last one: “{prompt}”{parent}{here}")
        rest = f", {len(logs) - LISTED} older ones are not shown" if len(logs) > LISTED else ""
        self.say(f"{len(logs)} in {self.agent.workspace}{rest}" if logs else f"there is none in {self.agent.workspace}")

    def try_to(self, function: Callable[..., None], *arguments: Any) -> None:
        """Do what the person typed, and say why if it cannot be done."""
        self.refused = False
        try:
            function(*arguments)
        except (SessionError, OSError) as error:
            self.refused = True
            self.say(str(error))


def counted(told: Past) -> str:
    return "1 run" if told.runs == 1 else f"{told.runs} runs"


def described(told: Past, id: str, workspace: Path) -> str:
    """Return what the person has to know of a session that has come back."""
    parts = [f"{id} is back, {counted(told)}"]
    if told.header.get("parent"):
        parts[0] = f"{id} is a copy of {told.header['parent']}, {counted(told)}"
    if told.is_open:
        parts.append("the last one was cut off")
    if told.damaged:
        parts.append(f"{told.damaged} lines of its log cannot be read and are left out")
        parts.append("plan mode, todos and other state may be older than they were: see to them first")
    if not told.is_whole:
        parts.append("not all of it could be kept")
    if told.header.get("workspace") != str(workspace):
        parts.append(f"it was kept in {told.header.get('workspace')}: its paths may lead nowhere")
    return "; ".join([*parts, "nothing runs until you say so"])
