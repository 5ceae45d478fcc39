"""The table of contents: what this agent is built from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

from . import autopilot
from . import background
from . import catch_up
from . import command_hooks
from . import commands
from . import compaction
from . import files
from . import goal
from . import hook_names
from . import mcp_tools
from . import memory
from . import permissions
from . import plan_commands
from . import plan_files
from . import plan_gate
from . import plan_mode
from . import prompt
from . import questions
from . import recovery
from . import sandbox
from . import search
from . import session
from . import shell
from . import skills
from . import subagents
from . import syntax_check
from . import tasks
from . import todo
from . import todo_copy
from . import usage
from .agent import Agent
from .hooks import AfterModel
from .hooks import PostCompact
from .hooks import SessionStart
from .model import Model
from .settings import Settings

NO_KINDS = "  [no kinds: a Markdown file in the folder agents is one]"


def build(
    model: Model,
    workspace: Path,
    show: Callable[..., None],
    ask: Callable[[str], str] | None = None,
    own_folder: Path | None = None,
    *,
    settings: Settings = Settings(),
    patience: float = mcp_tools.WAIT,
) -> Agent:
    """Return an agent that works in ``workspace`` and shows what it does through ``show(kind, **data)``.

    ``ask(question)`` returns what the person answers; without it nobody can be asked.
    ``own_folder`` is where copies for the person go that belong to no project; without it, in the workspace.
    ``settings`` are what the person and the folder want; the first prompt waits ``patience`` seconds for MCP servers.
    Raises ValueError for settings that cannot hold here. When the agent has done its work: ``agent.exits.close()``.
    """
    agent = Agent(model, workspace, show)
    for name in ("max_turns", "max_tokens", "max_forced"):
        setattr(agent, name, settings.limits.get(name, getattr(agent, name)))

    # Hands, and the rules for them.
    shell.install(agent)
    files.install(agent)
    search.install(agent)
    permissions.install(agent, ask=ask)
    syntax_check.install(agent)

    # What is to be done, and when it may begin.
    store = todo.TodoStore()
    todo.install(agent, store=store)
    plan = plan_mode.install(agent, store=store, ask=ask)
    if settings.sandbox:
        sandbox.install(agent, read_only=lambda: plan.active)
    pilot = autopilot.install(agent, store=store, plan=plan)

    # What the model knows.
    manuals = skills.install(agent)
    system = prompt.install(agent)
    memories = memory.install(agent, add_fact=system.add_fact) if settings.memory else None

    # What happens when there is no room, no answer, or too much for one.
    compactor = compaction.install(agent, window=settings.limits.get("context_window"))
    agent.keepers["Active Tasks"] = lambda: "\n".join(
        todo.row(item) for item in store.items() if item.status in todo.OPEN
    )
    agent.keepers["Plan mode"] = plan.guidance
    agent.keepers["Skills loaded"] = lambda: "\n".join(f"- {name}: load again if needed" for name in manuals.loaded)
    agent.on(PostCompact, lambda event: (pilot.forget(), manuals.rebuild(), system.rebuild()))
    recovery.install(agent, compact=compactor.compact, fallback=model.fallback)
    meter = usage.install(agent)
    helpers = subagents.install(agent, build_child=build_child, desk=questions.install(agent), plan=plan)

    # What outlives the conversation.
    agent.session = session.install(agent)
    agent.exits.callback(agent.session.close)

    def begin_anew(event: SessionStart) -> None:
        """Another conversation stands in the history: what was computed from the old one is computed anew."""
        if event.source != "startup":
            pilot.flying = False
            compactor.begin_anew()
            if memories:
                memories.seen.clear()
            manuals.rebuild()
            system.rebuild()

    agent.on(SessionStart, begin_anew)
    plans = plan_files.install(agent)
    plan_commands.install(agent, files=plans)
    plan_gate.install(agent, look=plans.look)
    log = agent.session
    catch_up.install(agent, look=plans.look, earlier_session=log.earlier, this_session=log.records)
    todo_copy.install(agent, folder=own_folder or agent.workspace / ".harness" / "todos", session=lambda: log.id)
    board = tasks.install(agent, session=lambda: log.id)

    # What goes on beside the conversation.
    jobs = background.install(agent)
    agent.exits.callback(jobs.close)
    agent.keepers["Background jobs"] = jobs.overview
    pilot.busy = jobs.busy

    # What the person and the folder bring along.
    settings.check_rules(agent.tools)  # all tools are there that a rule can name
    helpers.check_kinds()
    agent.permissions.rules = permissions.Permissions(settings.rules, ask, agent.tools).rules
    servers = mcp_tools.install(agent, servers=settings.mcp_servers, environment=os.environ, wait_seconds=patience)
    agent.exits.callback(servers.close)
    kinds = "\n".join(f"  {each.name}: {each.description}" for each in helpers.types.values())
    lists = {
        "tasks": (
            "the tasks of this folder, of all workers",
            lambda: tasks.table(board.store.look(), board.name_of(agent)),
        ),
        "agents": ("the kinds of subagents of this folder", lambda: kinds or NO_KINDS),
    }
    agent.desk = commands.install(
        agent, store=store, plan=plan, system=system, room=compactor, meter=meter, lists=lists
    )
    programs = command_hooks.install(
        agent,
        hooks=settings.hooks,
        session_id=lambda: log.id,
        mode=lambda: hook_names.mode_of(agent.desk.mode, plan.active),
    )
    agent.exits.callback(programs.programs.stop)

    # When it may stop: whoever judges that hears what all others object first.
    goal.install(agent, busy=jobs.busy, planning=lambda: plan.active)
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
    child.on(AfterModel, parent.desk.meter.count)
    return subagents.share(parent, child)
