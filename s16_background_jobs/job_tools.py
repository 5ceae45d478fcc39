"""What the model can do with background jobs: begin one with bash or task, read what it prints, end it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .hooks import PreToolUse
from .job import Command
from .job import Ended
from .job import Job
from .job import piece
from .job_subagent import Aside
from .shell import signals_held
from .tools import Result
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent
    from .background import Jobs

PIECE = 20_000  # characters that one look at the output returns, less than a command that is waited for
MAX_WAIT = 600  # seconds that one look may wait
POLL = 0.05  # seconds between two looks while waiting

ALSO = """ With run_in_background it goes on beside the conversation: for what takes long. You get its id at once and
are told when it has ended; read it with job_output, end it with job_stop. It ends with the program at the latest."""
IN_BACKGROUND = {"type": "boolean", "description": "Do not wait for it. Its time limit, if left out, is longer then."}
ALSO_TASK = """ With run_in_background it goes on beside the conversation, and you are told its report: for what you do not
need at once. Then it can ask nobody, so what no rule allows is refused to it."""
TASK_IN_BACKGROUND = {"type": "boolean", "description": "Do not wait for its report."}
ID = {"type": "string", "description": "The job, as bash named it, such as job_1."}
OUTPUT_TEXT = f"""Read what a background job has printed, while it runs or after it has ended: what is new since the last
look, or from an offset on, at most {PIECE} characters. There is no need to wait for its end: you are told."""
OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "id": ID,
        "offset": {"type": "integer", "minimum": 0, "description": "Character to read from; 0 is the beginning."},
        "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "description": "Seconds to wait for something new; 0 if left out."},
    },
    "required": ["id"],
    "additionalProperties": False,
}
STOP_TEXT = "End a background job, with all that it started."
STOP_SCHEMA = {"type": "object", "properties": {"id": ID}, "required": ["id"], "additionalProperties": False}

FULL = "{} jobs are running, and more may not: end one with job_stop, or run this when one has ended."
TASK = "task"
NOT_YOURS = "Only the main conversation is told how a job ends: run this without run_in_background, with a longer timeout."
BEGUN = "{} runs in the background. You are told when it has ended; job_output reads it until then."


def install(agent: Agent, jobs: Jobs) -> None:
    """Give ``agent`` job_output and job_stop, and its bash and task the argument run_in_background."""
    tools = JobTools(jobs, agent.tools["bash"], agent.tools.get(TASK))
    # The same tool with one more argument: what judges its calls by their command judges these as well.
    agent.tools["bash"] = extended(tools.waited_for, ALSO, IN_BACKGROUND, tools.bash)
    if tools.task_waited_for:
        agent.tools[TASK] = extended(tools.task_waited_for, ALSO_TASK, TASK_IN_BACKGROUND, tools.task)
    add_tool(agent, Tool("job_output", OUTPUT_TEXT, OUTPUT_SCHEMA, tools.job_output, read_only=True))
    add_tool(agent, Tool("job_stop", STOP_TEXT, STOP_SCHEMA, tools.job_stop))
    agent.on(PreToolUse, tools.allow_to_stop)


def extended(tool: Tool, also: str, argument: dict[str, Any], function: Callable[..., Any]) -> Tool:
    """Return ``tool`` with run_in_background among its arguments, and ``function`` behind it."""
    properties = {**tool.schema["properties"], "run_in_background": argument}
    schema = {**tool.schema, "properties": properties}
    return replace(tool, description=tool.description + also, schema=schema, function=function)


@dataclass
class JobTools:
    """The tools for the jobs of one agent; ``waited_for`` is bash as it was, ``task_waited_for`` task if there is one."""

    jobs: Jobs
    waited_for: Tool
    task_waited_for: Tool | None

    def bash(self, agent: Agent, run_in_background: bool = False, **arguments: Any) -> Any:
        """The tool: as before, or begin a job. Raises ToolError."""
        if not run_in_background:
            return self.waited_for.function(agent, **arguments)
        self.check_room(agent)
        jobs, command = self.jobs, arguments["command"]
        try:
            with signals_held():  # what has begun is watched over, whatever comes in between
                job = jobs.add(command, Command(agent.shell, command, arguments.get("timeout", jobs.seconds)))
        except OSError as error:
            raise ToolError(f"The command could not be started: {str(error).rstrip('.')}.") from None
        return Result(BEGUN.format(job.id), {"command": command, "job": job.id})

    def task(self, agent: Agent, /, run_in_background: bool = False, **arguments: Any) -> Any:
        """The tool: as before, or begin a subagent that nobody waits for. Raises ToolError."""
        if not run_in_background:
            return self.task_waited_for.function(agent, **arguments)
        self.check_room(agent)
        aside = Aside(self.task_waited_for.function(agent, in_background=True, **arguments))
        job = self.jobs.add("", aside, title=f"subagent: {aside.subagent.name}")
        return Result(BEGUN.format(job.id), {"job": job.id})

    def check_room(self, agent: Agent) -> None:
        """Raise ToolError if ``agent`` may not begin a job now."""
        if agent is not self.jobs.agent:
            raise ToolError(NOT_YOURS)
        if len(self.jobs.running()) >= self.jobs.max_running:
            raise ToolError(FULL.format(self.jobs.max_running))

    def job_output(self, agent: Agent, id: str, offset: int | None = None, wait: int = 0) -> Result:
        """The tool: return a piece of the output, and how the job stands. Raises ToolError."""
        job = self.find(id)
        start = job.read if offset is None else offset
        give_up = time.monotonic() + wait
        while True:
            ended = job.ended  # before the output, so that with it all of the output is there
            text, behind, end = piece(job.output, start, PIECE)
            if text or ended or time.monotonic() >= give_up:
                break
            time.sleep(POLL)
        if agent is self.jobs.agent:
            job.read = max(job.read, behind)
        state = ended.words if ended else "is running"
        more = f"; {end - behind} characters more from offset {behind} on" if behind < end else ""
        line_end = "" if not text or text.endswith("\n") else "\n"
        return Result(f"{text}{line_end}[{job.id} {state}{more}]", facts(job, ended))

    def job_stop(self, agent: Agent, id: str) -> Result:
        """The tool: end a job and return how it ended. Raises ToolError."""
        job = self.find(id)
        ended = self.jobs.stop(job)
        if not ended:
            raise ToolError(f"{job.id} does not end: go on without it, you are told when it has ended.")
        return Result(f"[{job.id} {ended.words}]", facts(job, ended))

    def allow_to_stop(self, event: PreToolUse) -> None:
        """Whoever was allowed to begin a job need not be asked before it ends; a rule can still deny it."""
        if event.call["name"] == "job_stop" and event.agent is self.jobs.agent:
            event.decide("allow")

    def find(self, id: str) -> Job:
        """Return the job. Raises ToolError that names those there are."""
        if id not in self.jobs.jobs:
            raise ToolError(f"There is no job {id!r}. There are: {', '.join(self.jobs.jobs) or 'none'}.")
        return self.jobs.jobs[id]


def facts(job: Job, ended: Ended | None) -> dict[str, Any]:
    """Return the facts of a result about ``job``; an exit status is one only when the command ended by itself."""
    if not ended:
        return {"job": job.id}
    command = {"command": job.command} if job.command else {}
    status = {} if ended.exit_status is None else {"exit_status": ended.exit_status}
    return {"job": job.id, "ended": True, **command, **status}
