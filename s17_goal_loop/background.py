"""Background jobs: slow work goes on beside the conversation, and its end is told to the model.

A test suite of ten minutes, waited for, is ten minutes in which nothing else happens. So bash can leave a command to
itself and return at once. Then somebody must notice its end. The model cannot: between its replies it does not exist.
The harness can. It tells the model with its next request, and if there is none, since the model has stopped, it makes one.

The news is a fact that is computed: a job has ended, and no request has told it. What is put into the queue only calls
for a run. It carries nothing, so nothing is lost or said twice when it is dropped, or comes too late.
"""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

from . import job_tools
from .hooks import BeforeModel
from .hooks import Event
from .hooks import PostToolUse
from .hooks import RunEnd
from .hooks import UserPromptSubmit
from .job import Ended
from .job import Job
from .job import Work
from .job import end_of
from .job import told

if TYPE_CHECKING:
    from .agent import Agent

MAX_RUNNING = 8  # jobs at a time: each may start a dozen processes on the person's machine
MAX_ENDED = 20  # that can still be read; of older ones the news was told long ago
SECONDS = 3_600  # that a job may run if it names no limit: a night of forgotten servers is nobody's wish
STOPPING = 5.0  # seconds that a job which is being stopped may take to be gone
MAX_CALLED = 25  # runs in a row that began with a job's end: after so many without a word the person is asked for one

KIND = "jobs"
ORDER = 20  # among the notes of a turn: what has happened, behind what is allowed
CALL = (
    "This is the program, not the person: something that you started in the background has ended, a note says what. Go on "
    "with what waited for it. If nothing did, say in one line what came of it.",
    "notification",
)

LOST = Ended("was running when this conversation was left, and was ended: how far it came is unknown, its output is gone")
LEFT = "Still running in the background: {}."
OVER_TO_YOU = "{} runs in a row began with the end of a job: over to you."
GONE = "  [ended, since they belong to the conversation that is left: {}]"


def install(
    agent: Agent,
    *,
    max_running: int = MAX_RUNNING,
    max_ended: int = MAX_ENDED,
    seconds: int = SECONDS,
    max_called: int = MAX_CALLED,
) -> Jobs:
    """Let bash run commands in the background, and give the model job_output and job_stop, the person /jobs.

    Returns the Jobs. Raises ValueError for limits below one.
    """
    if min(max_running, max_ended, seconds, max_called) < 1:
        raise ValueError("max_running, max_ended, seconds and max_called must be whole numbers from 1 on.")
    jobs = Jobs(agent, max_running, max_ended, seconds, max_called)
    job_tools.install(agent, jobs)
    agent.on(UserPromptSubmit, jobs.count)
    agent.on(BeforeModel, jobs.tell, last=True)
    agent.on(PostToolUse, jobs.seen)
    agent.on(RunEnd, jobs.after_run)
    agent.command("jobs", "what runs in the background; `/jobs stop ID` ends a job", jobs.command)
    agent.beside.append(lambda: bool(jobs.running()))
    agent.restores["jobs"] = jobs.restore
    weakref.finalize(jobs, agent.shell.stop)  # at the latest when Python ends
    return jobs


@dataclass
class JobEnd(Event):
    """The model is told by a note how a command has ended. (An end that it reads with job_output is a PostToolUse.)

    ``exit_status`` is None where there is none to trust; ``output`` is the end of what the job has printed.
    """

    id: str
    command: str
    exit_status: int | None
    output: str


@dataclass(eq=False)
class Jobs:
    """The background jobs of one agent. The threads that watch them write ``ended``, and call for a run; nothing else."""

    agent: Agent
    max_running: int
    max_ended: int
    seconds: int
    max_called: int
    jobs: dict[str, Job] = field(default_factory=dict)
    number: int = 0
    in_run: bool = False  # a request is still to come that can tell the news
    at_rest: bool = False  # the last run did not come to its own end: none of ours follows it
    called: int = 0  # runs of ours since the person spoke
    lock: Any = field(default_factory=threading.RLock)

    def add(self, command: str, work: Work, title: str = "") -> Job:
        """Watch over ``work``, which has begun: its end will be told. Whoever begins it looks at the limit before."""
        with self.lock:
            self.number += 1
            job = Job(f"job_{self.number}", command, work, title=title)
            self.jobs[job.id] = job
            for old in [each for each in self.jobs.values() if each.ended and each.was_told][: -self.max_ended]:
                del self.jobs[old.id]
        threading.Thread(target=self.follow, args=(job,), daemon=True).start()
        self.keep()
        return job

    def follow(self, job: Job) -> None:
        """Wait for the end of ``job``, in a thread of its own, and call for a run if none is going."""
        try:
            ended = job.work.wait()
        except Exception as error:  # a thread that dies would leave a job that never ends
            ended = Ended(f"failed with {type(error).__name__}: {error}")
        with self.lock:
            job.ended = ended
            if not (self.in_run and self.agent.running):
                self.call()

    def call(self) -> None:
        """Have the model called, once for each piece of news."""
        with self.lock:
            new = [job for job in self.news() if not job.was_called]
            for job in new:
                job.was_called = True
            if new and not self.at_rest:
                self.call_for_a_run()

    def call_for_a_run(self) -> None:
        if CALL not in self.agent.queue:
            self.agent.enqueue(*CALL)

    def count(self, event: UserPromptSubmit) -> None:
        """A prompt comes in: ours is one more in a row, the person's ends the row."""
        if event.agent is self.agent:
            self.called = 0 if event.source == "person" else self.called + (event.source == CALL[1])

    def tell(self, event: BeforeModel) -> None:
        """A request is about to go out: it tells what has ended, and then nobody needs to be called for it."""
        if event.agent is not self.agent or self.agent.halt:
            return
        with self.lock:
            self.in_run, self.at_rest = True, False
            news = self.news()
        for job in news:
            self.agent.show("notice", text=f"  [{job} {job.ended.words}: the model is told]")
            self.agent.history.note(KIND, told(job), order=ORDER)
            job.was_told = True
            if job.command:
                self.agent.fire(JobEnd(self.agent, job.id, job.command, job.ended.exit_status, end_of(job)[0]))
        if news:
            with self.lock:
                while CALL in self.agent.queue:
                    self.agent.queue.remove(CALL)
            self.keep()

    def seen(self, event: PostToolUse) -> None:
        """The model has read of a job's end in a result: that is told, and only now, since the result stands."""
        job = self.jobs.get(event.facts.get("job", ""))
        if job and event.facts.get("ended") and event.agent is self.agent:
            job.was_told = True
            self.keep()

    def after_run(self, event: RunEnd) -> None:
        """No request of this run will tell anything any more: what ended too late for it calls for the next one."""
        running = self.running()
        if self.called >= self.max_called and running and event.outcome.reason == "end_turn":
            event.outcome.end("halted", OVER_TO_YOU.format(self.called))
        with self.lock:
            self.in_run, self.at_rest = False, event.outcome.reason != "end_turn"
            self.call()
            waits = any(note.kind == KIND for note in self.agent.history.notes)  # there was no room for it
            if waits and not self.at_rest:
                self.call_for_a_run()
        if running:
            left = LEFT.format(", ".join(map(str, running)))
            event.outcome.detail = f"{event.outcome.detail} {left}".strip()

    def stop(self, job: Job) -> Ended | None:
        """End ``job`` and wait until it has ended, but not for ever."""
        if not job.ended:
            job.was_called = True  # whoever stops it knows that it ends
            job.work.stop()
        give_up = time.monotonic() + STOPPING
        while not job.ended and time.monotonic() < give_up:
            time.sleep(job_tools.POLL)
        return job.ended

    def close(self) -> None:
        """The program ends, and with it all that runs."""
        for job in self.running():
            job.work.stop()
        self.agent.shell.stop()

    def running(self) -> list[Job]:
        """Return the jobs that have not ended."""
        with self.lock:
            return [job for job in self.jobs.values() if not job.ended]

    def news(self) -> list[Job]:
        """Return the jobs whose end the model was not told."""
        with self.lock:
            return [job for job in self.jobs.values() if job.ended and not job.was_told]

    def busy(self) -> str:
        """Return why it is too early to judge the work: which jobs run, or have ended and make a run to come; "" if none."""
        with self.lock:
            to_come = [job for job in self.news() if not job.was_called or CALL in self.agent.queue]
            return ", ".join(map(str, [*self.running(), *to_come]))

    def overview(self) -> str:
        """Return the jobs, one a line; "" if there are none."""
        with self.lock:
            return "\n".join(f"- {job}: {job.ended.words if job.ended else 'is running'}" for job in self.jobs.values())

    def command(self, rest: str) -> None:
        """``/jobs``, ``/jobs stop ID``."""
        word, _, id = rest.partition(" ")
        job = self.jobs.get(id.strip())
        text = self.overview() or "There are no background jobs."
        if word == "stop" and job:
            ended = self.stop(job)
            text = f"{job} {ended.words if ended else 'does not end'}"
        elif rest:
            text = f"/jobs alone lists them, /jobs stop ID ends one.\n{text}"
        self.agent.show("notice", text=text)

    def keep(self) -> None:
        """Announce what a later process has to know: which jobs the model believes to be running."""
        with self.lock:
            not_told = [job for job in self.jobs.values() if not job.was_told]
            open_jobs = [{"id": job.id, "command": job.command, "title": job.title} for job in not_told]
            value = {"number": self.number, "open": open_jobs}
        self.agent.changed("jobs", value)

    def restore(self, value: dict[str, Any] | None) -> None:
        """Take back what ``agent.changed`` announced. Those jobs are gone; and those of the conversation before end now."""
        with self.lock:
            before, self.jobs = self.running(), {}
            self.number, self.called = value.get("number", 0) if value else 0, 0
            for each in value.get("open", []) if value else []:  # it waits for the person, as all does after a resume
                self.jobs[each["id"]] = Job(each["id"], each["command"], None, LOST, was_called=True, title=each.get("title", ""))
        if before:
            self.agent.show("notice", text=GONE.format(", ".join(map(str, before))))
        for job in before:
            job.work.stop()
