"""The table of contents: what this agent is built from."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

from . import autopilot
from . import catch_up
from . import compaction
from . import files
from . import permissions
from . import plan_commands
from . import plan_files
from . import plan_gate
from . import plan_mode
from . import prompt
from . import questions
from . import recovery
from . import search
from . import session
from . import shell
from . import skills
from . import subagents
from . import syntax_check
from . import tasks
from . import todo
from . import todo_copy
from .agent import Agent
from .hooks import PostCompact
from .hooks import SessionStart
from .model import Model


def build(
    model: Model,
    workspace: Path,
    show: Callable[..., None],
    ask: Callable[[str], str] | None = None,
    own_folder: Path | None = None,
) -> Agent:
    """Return an agent that works in ``workspace`` and shows what it does through ``show(kind, **data)``.

    ``ask(question)`` returns what the person answers; without it nobody can be asked.
    ``own_folder`` is where copies for the person go that belong to no project; without it, in the workspace.
    """
    agent = Agent(model, workspace, show)
    shell.install(agent)
    files.install(agent)
    search.install(agent)
    permissions.install(agent, ask=ask)
    syntax_check.install(agent)
    store = todo.TodoStore()
    todo.install(agent, store=store)
    plan = plan_mode.install(agent, store=store, ask=ask)
    pilot = autopilot.install(agent, store=store, plan=plan)
    manuals = skills.install(agent)
    system = prompt.install(agent)
    compactor = compaction.install(agent)
    agent.keepers["Active Tasks"] = lambda: "\n".join(
        todo.row(item) for item in store.items() if item.status in todo.OPEN
    )
    agent.keepers["Plan mode"] = plan.guidance
    agent.keepers["Skills loaded"] = lambda: "\n".join(f"- {name}: load again if needed" for name in manuals.loaded)
    agent.on(PostCompact, lambda event: (pilot.forget(), manuals.rebuild(), system.rebuild()))
    recovery.install(agent, compact=compactor.compact, fallback=model.fallback)
    helpers = subagents.install(agent, build_child=build_child, desk=questions.install(agent), plan=plan)
    agent.session = session.install(agent)

    def begin_anew(event: SessionStart) -> None:
        """Another conversation stands in the history: what was computed from the old one is computed anew."""
        if event.source != "startup":
            pilot.flying = False
            compactor.begin_anew()
            manuals.rebuild()
            system.rebuild()

    agent.on(SessionStart, begin_anew)
    plans = plan_files.install(agent)
    plan_commands.install(agent, files=plans)
    plan_gate.install(agent, look=plans.look)
    log = agent.session
    catch_up.install(agent, look=plans.look, earlier_session=log.earlier, this_session=log.records)
    todo_copy.install(agent, folder=own_folder or agent.workspace / ".harness" / "todos", session=lambda: log.id)
    tasks.install(agent, session=lambda: log.id)
    helpers.check_kinds()  # all tools are there that a kind can name
    return agent


def build_child(parent: Agent) -> Agent:
    """Return a subagent of ``parent``: it has its own of what is installed here, and shares the rest.

    It shows nothing: the person sees where it begins, where it ends, and what is asked.
    """
    child = Agent(parent.model, parent.workspace, lambda kind, **data: None)
    todo.install(child)
    skills.install(child)
    prompt.install(child)
    recovery.install(child, fallback=child.model.fallback)
    return subagents.share(parent, child)
