"""The todo list as a Markdown file for people: one file a session, written anew at each change.

The list is state of the program; this is a copy to look at, with an editor or in a pull request. Nothing reads it back.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .hooks import StateChanged
from .paths import replace
from .paths import resolve
from .plan_folder import PLANNING
from .tools import ToolError

if TYPE_CHECKING:
    from .agent import Agent

FOLDER = "todos"
OWN = Path(".harness") / "plans"  # below the person's home
ROWS = {
    "pending": "- [ ] {}",
    "in_progress": "- [ ] **{}** (in progress)",
    "completed": "- [x] {}",
    "cancelled": "- [ ] ~~{}~~ (cancelled)",
}


def install(agent: Agent, *, folder: Path | None = None, session: Callable[[], str] | None = None) -> None:
    """Copy the todo list of ``agent`` into a Markdown file whenever it changes.

    In a git repository the file goes to the project's own plans, ``.planning/todos/``; elsewhere to ``folder``, by default
    the person's own. ``session()`` names the session; without it each agent is one.
    """
    name = f"{date.today().isoformat()}-{uuid.uuid4().hex[:8]}"
    copy = TodoCopy(agent, home_of(agent.workspace, folder), session or (lambda: name))
    agent.on(StateChanged, copy.write)


@dataclass
class TodoCopy:
    """Where the copy of one agent's list goes: that is decided once, so that a session's file does not wander."""

    agent: Agent
    folder: Path
    session: Callable[[], str]
    failed: bool = False

    def write(self, event: StateChanged) -> None:
        """Write the file anew, in one step. If that fails the person is told once: a copy stands in nobody's way."""
        if event.name != "todos":
            return
        try:
            target = self.folder / f"{Path(self.session()).name}.md"
            if target.is_relative_to(self.agent.workspace):
                target = resolve(self.agent.workspace, str(target))
            target.parent.mkdir(parents=True, exist_ok=True)
            replace(target, as_markdown((event.value or {"items": []})["items"]).encode("utf-8"))
        except (OSError, ToolError, KeyError, TypeError, ValueError) as error:
            if not self.failed:
                self.agent.show("notice", text=f"  [the todo list is not copied to {self.folder}: {error}]")
            self.failed = True


def home_of(workspace: Path, folder: Path | None) -> Path:
    """Return the folder for the copies: the project's in a git repository, else ``folder``, else the person's own."""
    if any((place / ".git").exists() for place in (workspace, *workspace.parents)):
        return workspace / PLANNING / FOLDER
    return folder or Path.home() / OWN


def as_markdown(items: list[dict[str, Any]]) -> str:
    """Return the list as Markdown."""
    rows = [ROWS[item["status"]].format(item["content"]) for item in items]
    return "\n".join(["# Todos", "", *(rows or ["(none)"])]) + "\n"
