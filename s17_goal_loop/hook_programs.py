"""Runs hook programs side by side and reads their answers, whatever they do: hang, crash, flood, or print rubbish.

A program gets one line of JSON on its input. It answers by its exit status (2 means no), by a JSON object, or by plain
text. Whatever it is that cannot be read as an answer decides nothing, and the person is told: a guard that has fallen
over must not look like one that has no objection.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from .history import clean
from .hook_settings import TOOL_EVENTS
from .hook_settings import Hook
from .shell import CHUNK
from .shell import LINGER
from .shell import end_tree
from .shell import find_bash
from .shell import wait

MAX_OUTPUT = 1_000_000  # bytes kept of what a hook prints; the rest is read and thrown away, so that it can end
SHOWN = 300  # characters of what went wrong: the first error, not the whole trace
WAKE = 0.1  # seconds; on Windows a wait must be cut up, or Ctrl-C would not get through
SH = "/bin/sh"  # as there: what works in bash alone fails here as it fails there
PLACEHOLDER = "${CLAUDE_PROJECT_DIR}"

BLOCKS = "Blocked by a hook, without a reason: do it another way, or ask the person."
SAYS_NO = 2  # the exit status
STRICTNESS = ("allow", "ask", "deny")
TEXTS = ("stopReason", "systemMessage", "reason")
SPECIFIC_TEXTS = ("permissionDecisionReason", "additionalContext")
CANNOT_BLOCK = ("SessionStart",)  # there, exit status 2 is a failure like any other


@dataclass
class Ran:
    """How a program ended. ``error`` is set when it has given no answer that counts: not started, or its time was up."""

    status: int = 0
    output: str = ""
    errors: str = ""
    error: str = ""


@dataclass
class Answer:
    """What one hook has said. Empty fields say nothing."""

    hook: Hook
    verdict: str = ""  # allow, ask or deny; for what is no tool call, deny means: block
    reason: str = ""
    context: str = ""  # for the model
    plain: str = ""  # plain text of a hook that ended well; some events give it to the model
    updated_input: dict[str, Any] | None = None
    halt: str = ""  # the run is to end, and why
    message: str = ""  # for the person
    trouble: str = ""  # why it gave no verdict


@dataclass
class Programs:
    """Those that are running, and where: they can all be ended at once."""

    folder: Path
    running: set[subprocess.Popen] = field(default_factory=set)

    def ask(self, hooks: list[Hook], payload: dict[str, Any], environment: dict[str, str]) -> list[Answer]:
        """Run ``hooks`` side by side, wait for all that are not in the background, and return their answers in order.

        On Ctrl-C, those that run are ended first.
        """
        line = json.dumps(clean(payload), ensure_ascii=False) + "\n"
        results = [Ran() for _ in hooks]
        cancelled = threading.Event()
        threads = [
            threading.Thread(target=self.run, args=(hook, line, environment, result, cancelled), daemon=True)
            for hook, result in zip(hooks, results, strict=True)
        ]
        try:
            for thread in threads:
                thread.start()
            for hook, thread in zip(hooks, threads, strict=True):
                while not hook.in_background and thread.is_alive():
                    thread.join(WAKE if os.name == "nt" else None)
        except BaseException:
            cancelled.set()
            self.stop()
            raise
        pairs = zip(hooks, results, strict=True)
        return [Answer(hook) if hook.in_background else read(hook, result) for hook, result in pairs]

    def stop(self) -> None:
        """End every hook that is running, with all it started."""
        for process in list(self.running):
            end_tree(process)

    def run(self, hook: Hook, line: str, environment: dict[str, str], ran: Ran, cancelled: threading.Event) -> None:
        """Run one program in this thread, and write into ``ran`` how it ended. Raises nothing."""
        try:
            self.run_to_its_end(hook, line, environment, ran, cancelled)
        except (OSError, ValueError) as error:
            ran.error = f"could not be run: {error}"

    def run_to_its_end(
        self, hook: Hook, line: str, environment: dict[str, str], ran: Ran, cancelled: threading.Event
    ) -> None:
        timed_out = threading.Event()
        with tempfile.TemporaryFile() as given:  # not a pipe: many never read it, and then nobody must wait for them
            given.write(line.encode("utf-8"))
            given.seek(0)
            process = subprocess.Popen(
                argv_of(hook, self.folder),
                cwd=self.folder,
                env=environment,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self.running.add(process)
        if cancelled.is_set():  # in the meantime: whoever ended the others did not see this one
            end_tree(process)
        timer = threading.Timer(hook.timeout, lambda: (timed_out.set(), end_tree(process)))
        timer.daemon = True
        timer.start()
        pipes = [(process.stdout, bytearray()), (process.stderr, bytearray())]
        readers = [threading.Thread(target=collect, args=pipe, daemon=True) for pipe in pipes]
        for reader in readers:
            reader.start()
        wait(process)
        timer.cancel()
        for reader in readers:
            reader.join(LINGER)  # not longer: something in the background may hold the pipe open
        self.running.discard(process)
        ran.status = process.returncode
        ran.output, ran.errors = (bytes(kept).decode("utf-8", "replace") for _, kept in pipes)
        if timed_out.is_set():
            ran.error = f"its time was up ({hook.timeout:g} s), it was ended"


def argv_of(hook: Hook, folder: Path) -> list[str]:
    """Return what is really started. Raises OSError where there is no shell."""
    if hook.args is not None:
        return [text.replace(PLACEHOLDER, str(folder)) for text in (hook.command, *hook.args)]
    if os.name == "nt" or hook.shell == "bash":
        return [find_bash(), "-c", hook.command]
    return [SH, "-c", hook.command]


def collect(stream: Any, kept: bytearray) -> None:
    """Read ``stream`` to its end, and keep its beginning."""
    with stream:
        while chunk := os.read(stream.fileno(), CHUNK):
            kept += chunk[: MAX_OUTPUT - len(kept)]


def read(hook: Hook, ran: Ran) -> Answer:
    """Return what a program has said."""
    answer = Answer(hook, trouble=ran.error)
    if ran.error:
        return answer
    said = object_in(ran.output)
    if said is not None:
        answer.trouble = wrong_in(said, hook.event)
    is_answer = said is not None and not answer.trouble
    if is_answer:
        fill(answer, said)
    if ran.status == SAYS_NO and hook.event not in CANNOT_BLOCK:
        if answer.verdict != "deny":
            answer.verdict, answer.reason = "deny", complaint(hook, ran)
        answer.updated_input = None
    elif ran.status and not is_answer:
        said_so = in_short(ran.errors)
        answer.trouble = answer.trouble or f"it ended {ending(ran.status)}" + (f": {said_so}" if said_so else "")
    elif said is None:
        answer.plain = ran.output.strip()
        if any(row.lstrip().startswith("{") for row in ran.output.splitlines()):
            answer.trouble = "it printed JSON that is broken, or not alone, so it counts as plain text"
    return answer


def object_in(output: str) -> dict[str, Any] | None:
    """Return the JSON object that ``output`` is, None if it is anything else."""
    if not output.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def wrong_in(said: dict[str, Any], event: str) -> str:
    """Return why ``said`` is no valid answer, "" if it is. Unknown keys are let pass."""
    specific = said.get("hookSpecificOutput", {"hookEventName": event})
    is_wanted = isinstance(specific, dict) and specific.get("hookEventName") == event
    if not is_wanted or event == "PreCompact" and len(specific) > 1:
        return f'its hookSpecificOutput is not one for {event}: it needs "hookEventName": "{event}"'
    wrong = [key for key in ("continue", "suppressOutput") if not isinstance(said.get(key, True), bool)]
    wrong += [key for key in TEXTS if not isinstance(said.get(key, ""), str)]
    wrong += [key for key in SPECIFIC_TEXTS if not isinstance(specific.get(key, ""), str)]
    wrong += ["decision"] if said.get("decision", "block") not in ("block", "approve") else []
    wrong += ["permissionDecision"] if specific.get("permissionDecision", "ask") not in (*STRICTNESS, "defer") else []
    wrong += ["updatedInput"] if not isinstance(specific.get("updatedInput", {}), dict) else []
    return f"the value of its {wrong[0]} means nothing" if wrong else ""


def fill(answer: Answer, said: dict[str, Any]) -> None:
    """Put a valid answer into its fields."""
    if said.get("async"):
        return  # it has ended by now, but what it says is not to count
    specific = said.get("hookSpecificOutput", {})
    verdict = {"approve": "allow", "block": "deny"}.get(said.get("decision", ""), "")
    answer.verdict = verdict if verdict == "deny" or answer.hook.event == "PreToolUse" else ""
    answer.reason = said.get("reason", "")
    if "permissionDecision" in specific and answer.hook.event == "PreToolUse":
        decided = specific["permissionDecision"].replace("defer", "ask")  # who can defer are other programs
        answer.verdict, answer.reason = decided, specific.get("permissionDecisionReason", "")
    answer.reason = answer.reason or (BLOCKS if answer.verdict == "deny" else "")
    answer.context = specific.get("additionalContext", "")
    answer.updated_input = specific.get("updatedInput") if answer.hook.event == "PreToolUse" else None
    answer.message = said.get("systemMessage", "")
    if said.get("continue") is False:
        answer.halt = said.get("stopReason") or "A hook has ended the run."
    if "updatedToolOutput" in specific and answer.hook.event in TOOL_EVENTS:
        answer.trouble = "its updatedToolOutput is not done here, the model has the result as it was"


def complaint(hook: Hook, ran: Ran) -> str:
    """Return why a hook said no by its exit status. Its command is named: a missing script ends with 2 as well."""
    said = ran.errors.strip()
    return f"[{hook.command}]: {said}" if said else BLOCKS


def ending(status: int) -> str:
    if status < 0:
        return f"by the signal {signal.Signals(-status).name if -status in signal.valid_signals() else -status}"
    known = {126: " (it cannot be run)", 127: " (the command was not found)"}.get(status, "")
    return f"with status {status}{known}"


def in_short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"
