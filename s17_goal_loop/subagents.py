"""Subagents: a job is done at a side desk, by an agent with a conversation of its own, and only its report comes back.

To look through forty files for one answer fills a conversation with forty files. A subagent reads them, and the parent
reads the answer. What is apart is the conversation, and nothing else: the folder is the same, and a subagent passes its
parent's guards and permissions, so that it never may do more. No code here trusts it to stay within its job.

The idea is learn-claude-code's (https://github.com/shareAI-lab/learn-claude-code), the way back to the parent's cache
that of a fork in Claude Code.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .agent_types import AgentType
from .agent_types import check_tools
from .agent_types import read_types
from .hooks import BeforeModel
from .hooks import PostToolUse
from .hooks import PreToolUse
from .hooks import RunEnd
from .plan_mode import PlanMode
from .questions import Desk
from .subagent import ENDED
from .subagent import Subagent
from .todo import one_line
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

MAX_TURNS = 20  # model calls of a subagent: a job that takes more is two jobs, or has lost its way
MAX_TOGETHER = 8  # subagents at a time: each is a stream of requests, and providers count those
NAME_CHARS = 60  # of a description, where it is the name of its subagent
FOLDER = "agents"
TASK = "task"
ORDER = 5  # of a subagent's section: behind who it is, before everything else

DESCRIPTION = """Give a job to a subagent: another agent in the same folder, of whose work you see nothing but its report.
For work whose details you do not need: searching, reading much, trying something out. Several calls in one reply run
side by side; let them not write the same files. The report begins with how it ended: only `completed` is finished."""
PROMPT = "The whole job: it knows nothing of this conversation. Say what you want to know, and where to look."
FORK = "If true, it knows all of this conversation up to this reply, and needs only to be told its part."
SECTION = """You are a subagent: another agent has given you one job. It sees nothing of your work but your last message,
so that is your report: what you found, what you did, which files you wrote, what is open. You have {turns} replies for
it, the report included. Ask nobody: put open questions into the report. Start no subagents."""
COPY = """You are a copy of the agent above from here on, a subagent with {turns} replies for one job. Do this job, not the
rest of what was asked. Your last message is your report: what you found, what you did, which files you wrote, what is
open. Ask nobody: put open questions into the report. Start no subagents. The job:
{job}"""
PLANNING = "Plan mode is on, for you as well: look, and change nothing. What should be changed belongs into your report."
NO_TOOL = "A {} needs the tool {}, which is not there now: is its server running? Take another kind, or none."
NO_TASK = "Refused: a subagent starts no subagents. Do the job yourself, or report that it is too large for one."
NO_EXIT = "Refused: a subagent presents no plan to the person. Put the plan, or the open question, into your final report."


def install(
    agent: Agent,
    *,
    build_child: Callable[[Agent], Agent],
    desk: Desk,
    plan: PlanMode | None = None,
    folder: str = FOLDER,
    max_turns: int = MAX_TURNS,
    max_together: int = MAX_TOGETHER,
) -> Subagents:
    """Give ``agent`` the tool task.

    ``build_child(agent)`` returns an agent as ``share`` leaves it. ``plan`` is the parent's plan mode, which is a
    subagent's as well. ``folder``, in the workspace, holds kinds of subagents; they are read now, and which
    tools they name is seen by ``check_kinds``. Raises ValueError.
    """
    if min(max_turns, max_together) < 1:
        raise ValueError("max_turns and max_together must be whole numbers from 1 on.")
    types, warnings = read_types(agent.workspace, folder)
    for warning in warnings:
        agent.show("notice", text=f"  [subagents: {warning}]")
    kinds = "".join(f"\n- {each.name}: {each.description}" for each in types.values())
    properties = {
        "description": {"type": "string", "description": "The job in three to six words, for the person who watches."},
        "prompt": {"type": "string", "description": PROMPT},
        "fork": {"type": "boolean", "description": FORK},
    }
    if types:
        properties["agent"] = {"type": "string", "enum": [*types], "description": f"A kind of subagent:{kinds}"}
    required = ["description", "prompt"]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    subagents = Subagents(agent, build_child, desk, plan, folder, types, max_turns, max_together)
    # By itself it changes nothing, so nobody is asked: each call that a subagent makes is judged like any other.
    add_tool(agent, Tool(TASK, DESCRIPTION, schema, subagents.task, read_only=True, side_by_side=True))
    agent.on(BeforeModel, subagents.keep_request, last=True)
    agent.on(PreToolUse, subagents.guard)
    agent.on(RunEnd, subagents.end_all)
    return subagents


def share(parent: Agent, child: Agent) -> Agent:
    """Put ``child`` under its parent's permissions and guards, and give it the tools that it has none of its own for.

    Guards are those of this moment and all that are added later. Returns the child.
    """
    child.tools = {name: child.tools.get(name, tool) for name, tool in parent.tools.items()}
    child.permissions = parent.permissions
    child.max_tokens = parent.max_tokens
    child.on(PreToolUse, parent.fire)
    child.on(PostToolUse, parent.fire)
    return child


@dataclass
class Subagents:
    """The subagents of one agent: those of the reply that is being worked on, and what holds for all."""

    agent: Agent
    build_child: Callable[[Agent], Agent]
    desk: Desk
    plan: PlanMode | None
    folder: str
    types: dict[str, AgentType]
    max_turns: int
    max_together: int
    request: dict[str, Any] = field(default_factory=dict)  # the agent's last one, without the messages
    begun: list[Subagent] = field(default_factory=list)

    def check_kinds(self) -> None:
        """Raise ValueError for a kind that names a tool that there is not. Call it when all are there."""
        check_tools(self.types, self.folder, [name for name in self.agent.tools if name != TASK])

    def task(
        self, agent: Agent, /, description: str, prompt: str, fork: bool = False, in_background: bool = False, **chosen: str
    ) -> Subagent:
        """The tool: begin a job at a side desk. ``chosen`` may hold ``agent``, the name of a kind. Raises ToolError."""
        kind = self.types.get(chosen.get("agent", ""))
        if not prompt.strip():
            raise ToolError("The prompt is empty: say what the subagent is to do.")
        if fork and kind:
            raise ToolError("A fork has the tools and the model of this conversation: leave out fork, or agent.")
        if missing := [name for name in (kind and kind.tools) or () if name not in agent.tools]:
            raise ToolError(NO_TOOL.format(kind.name, missing[0]))
        beside = self.running()
        if len(beside) >= self.max_together:
            raise ToolError(f"{self.max_together} subagents are at work: give this job to one when they have reported.")
        child = self.build_child(agent)
        child.max_turns = self.max_turns
        if fork:
            copy_conversation(agent, child)
            prompt = COPY.format(turns=self.max_turns, job=prompt)
        else:
            self.furnish(child, kind)
        name = one_line(description)[:NAME_CHARS]
        subagent = Subagent(agent, child, name, self.desk, self.is_offered, self.request if fork else {}, beside=beside)
        if in_background:  # the rules are its parent's, also those to come; only that nobody is there to be asked
            subagent.in_background = True
            child.permissions = copy(child.permissions)
            child.permissions.ask = None
        for other in beside:
            other.beside.append(subagent)
        self.begun = [*beside, subagent]
        subagent.begin(prompt)
        return subagent

    def furnish(self, child: Agent, kind: AgentType | None) -> None:
        """Tell a fresh subagent what it is, and take away what it shall not have."""
        texts = [SECTION.format(turns=self.max_turns), kind.text if kind else "", PLANNING if self.is_planning() else ""]
        child.add_section("subagent", "\n\n".join(text for text in texts if text), order=ORDER)
        child.tools.pop(TASK)
        if kind and kind.tools is not None:  # its own list and its own manuals are no power over anything
            own = [name for name, tool in child.tools.items() if tool is not self.agent.tools[name]]
            child.tools = {name: tool for name, tool in child.tools.items() if name in kind.tools or name in own}
        if kind and kind.model:
            extras = {name: value for name, value in child.model.extras.items() if name != "thinking"}
            child.model = replace(child.model, name=kind.model, extras=extras)

    def running(self) -> list[Subagent]:
        """Return those that nobody has ended yet, in the order in which they began."""
        return [each for each in self.begun if not each.stopped.is_set()]

    def is_planning(self) -> bool:
        return self.plan is not None and self.plan.active

    def is_offered(self, name: str) -> bool:
        """Whether a subagent is shown the tool: in plan mode what its parent is shown, too."""
        return not self.is_planning() or self.plan.is_offered(name)

    def keep_request(self, event: BeforeModel) -> None:
        """A request of the parent is about to go out: a fork will begin as this one does."""
        self.request = dict(event.request)

    def guard(self, event: PreToolUse) -> None:
        """What a subagent may not do, whatever it was shown. The parent's own calls pass."""
        if event.agent is self.agent:
            return
        if not any(each.child is event.agent and not each.closed for each in self.running()):
            event.decide("deny", ENDED)
        if event.call["name"] == TASK:
            event.decide("deny", NO_TASK)
        if event.call["name"] == "exit_plan_mode":
            event.decide("deny", NO_EXIT)

    def end_all(self, event: RunEnd) -> None:
        """The run is over, and so is whatever is still at work for it: Ctrl-C may have come twice."""
        for subagent in self.running():
            if not subagent.in_background:
                subagent.report()


def copy_conversation(parent: Agent, child: Agent) -> None:
    """Give ``child`` the messages of its parent up to the reply that is being worked on: its calls have no results yet."""
    messages = parent.history.messages
    last_reply = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
    for message in messages[:last_reply]:
        child.history.add(message["role"], message["content"])
