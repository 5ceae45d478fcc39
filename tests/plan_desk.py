"""A desk for the tests of plan files: stands in for an agent, and does what the loop would do with the hooks."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from types import SimpleNamespace

TODAY = date(2026, 1, 5)
NAME = "2026-01-05-search"
PLAN = """# Task plan
## Phases
### Phase 1: Alpha
- [ ] t
- **Status:** in_progress

### Phase 2: Beta
- **Status:** pending
"""
DONE = PLAN.replace("in_progress", "complete").replace("pending", "complete")


class Desk:
    """Holds what the mechanisms leave on it. ``earlier`` and ``this`` are the records of sessions."""

    def __init__(self, load, workspace, *, cap=None, earlier=(), this=(), **policy):
        self.load, self.workspace = load, workspace.resolve()
        self.events = load("hooks")
        self.hooks = self.events.Hooks()
        self.on = self.hooks.on
        self.history = SimpleNamespace(messages=[], note=self.note)
        self.notes, self.shown, self.announced, self.restores, self.commands = [], [], [], {}, {}
        self.earlier, self.this = list(earlier), list(this)
        self.files = load("plan_files").install(self, **policy)
        load("plan_commands").install(self, files=self.files, today=lambda: TODAY)
        load("plan_gate").install(self, look=self.files.look, **({} if cap is None else {"cap": cap}))
        load("catch_up").install(
            self, look=self.files.look, earlier_session=lambda folder: self.earlier, this_session=lambda: self.this
        )

    def note(self, kind, text, order=50, cut=False):
        self.notes.append((kind, text))

    def show(self, kind, **data):
        self.shown.append(data["text"])

    def changed(self, name, value):
        self.announced.append((name, json.loads(json.dumps(value))))

    def command(self, name, help, function):
        self.commands[name] = function

    def typed(self, rest):
        """The person types /planfiles and this. Returns what is shown."""
        before = len(self.shown)
        self.commands["planfiles"](rest)
        return "\n".join(self.shown[before:])

    def put(self, path, text):
        """Write a file as bash would: past all hooks."""
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return target

    def read(self, path):
        return (self.workspace / path).read_text(encoding="utf-8")

    def request(self):
        """A request goes out. Returns the notes that go with it."""
        self.hooks.fire(self.events.BeforeModel(self, {}))
        self.history.messages.append({})
        sent, self.notes = self.notes, []
        return [text for _, text in sent]

    def ask(self, prompt="go on", source="person"):
        """A prompt, and the first request after it. Returns its notes."""
        self.hooks.fire(self.events.UserPromptSubmit(self, prompt, source))
        return self.request()

    def compacted(self):
        self.hooks.fire(self.events.PostCompact(self))
        return self.request()

    def before_tool(self, name, agent=None, **arguments):
        """A call is about to run. Returns why it is refused, or ""."""
        event = self.hooks.fire(self.events.PreToolUse(agent or self, {"id": "1", "name": name, "input": arguments}))
        return event.reason if event.verdict == "deny" else ""

    def after_tool(self, name, facts, agent=None, is_error=False, **arguments):
        call = {"id": "1", "name": name, "input": arguments}
        self.hooks.fire(self.events.PostToolUse(agent or self, call, "", facts, is_error))

    def wrote(self, path, **options):
        self.after_tool("write_file", {"path": path}, path=path, content="", **options)

    def ran(self, command, status=0):
        self.after_tool("bash", {"command": command, "exit_status": status}, command=command)

    def stop(self, forced=0, reason="end_turn"):
        """The model wants to stop. Returns the objections, and what is shown."""
        before = len(self.shown)
        event = self.hooks.fire(self.events.Stop(self, "Done.", reason, forced))
        return event.objections, self.shown[before:]

    def state(self, folder=f".planning/{NAME}"):
        return json.loads(self.read(f"{folder}/.plan_state.json"))

    def ledger(self, folder=f".planning/{NAME}"):
        path = self.workspace / folder / ".plan_ledger.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def gated(self, plan=PLAN):
        """Set up the gated plan NAME, with this text."""
        self.typed("init search --gated")
        self.put(f".planning/{NAME}/task_plan.md", plan)
        return self


def touch(path: Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds))
