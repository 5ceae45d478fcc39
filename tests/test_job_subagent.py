"""A subagent in the background: its report is told like the end of any job, it can ask nobody, and it ends with the program."""

from __future__ import annotations

import json
import threading
import time

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Exchange
from offline_model.script import Step

SOON = 10  # seconds after which something that should happen has not
CALLED = "something that you started in the background has ended"


def until(condition):
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def aside(prompt="Do.", **more):
    return Call("task", description="A", prompt=prompt, run_in_background=True, **more)


def job(prompt, *steps):
    """What a subagent does with its job."""
    return Exchange(says=prompt, typed=False, steps=list(steps))


def told(*steps):
    """What the model does when it is called for news."""
    return Exchange(contains=CALLED, typed=False, steps=list(steps))


class Room:
    """The agent of a chapter, its jobs, and a gate that holds each call of a subagent until a test opens it."""

    def __init__(self, chapter, *exchanges, **options):
        self.chapter, self.asked, self.gate = chapter, [], threading.Event()
        self.agent = chapter.agent(*exchanges, ask=self.ask, **options)
        hooks = chapter.load("hooks")
        self.agent.on(hooks.PreToolUse, lambda event: event.agent is self.agent or self.gate.wait(SOON))
        self.jobs = self.agent.tools["job_stop"].function.__self__.jobs

    def ask(self, question):
        self.asked.append(question)
        return "a"

    def run(self, prompt="Go."):
        return self.chapter.run(self.agent, prompt)

    def until_ended(self):
        self.gate.set()
        until(lambda: not self.jobs.running())

    def run_queue(self):
        until(lambda: self.agent.queue)
        outcomes = []
        while self.agent.queue:
            outcomes.append(self.chapter.load("loop").run(self.agent, *self.agent.queue.popleft()))
        return outcomes

    def results(self):
        blocks = [block for message in self.agent.history.messages for block in message["content"]]
        return [block["content"] for block in blocks if block["type"] == "tool_result"]

    def said(self, text):
        return json.dumps(self.agent.history.messages, ensure_ascii=False).count(text)


@pytest.fixture
def room(chapter):
    rooms = []
    yield lambda *exchanges, **options: rooms.append(Room(chapter, *exchanges, **options)) or rooms[-1]
    for each in rooms:
        each.gate.set()
        each.agent.exits.close()
        until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("subagent ")])


GLOB = Step("I look.", calls=[Call("glob", pattern="*")])


def test_it_outlives_the_run_and_its_report_is_told_when_the_model_has_stopped(chapter, room):
    here = room(
        talk("Go.", Step("Somebody looks.", calls=[aside()]), Step("I go on.", when="job_1 runs in the background")),
        job("Do.", GLOB, Step("The word is plover.")),
        told(Step("Plover, then.", when="Its report:\nThe word is plover.")),
    )
    assert here.run().text == "I go on."
    assert [str(each) for each in here.jobs.running()] == ["job_1 (subagent: A)"] and here.jobs.busy()
    here.until_ended()
    assert [outcome.text for outcome in here.run_queue()] == ["Plover, then."]
    assert here.said("The background job job_1 (subagent: A) has finished.") == 1 and here.said("completed: “A”, 2 turns") == 1
    assert not here.jobs.busy() and here.agent.model.script.problems == [] and here.agent.model.script.leftover() == []


def test_it_can_ask_nobody_and_says_what_it_could_not_do(chapter, room):
    here = room(
        talk("Go.", Step(calls=[aside()]), Step("I go on.")),
        job(
            "Do.",
            Step(calls=[Call("write_file", path="canary", content="x")]),
            Step("I may not.", when="nobody can be asked"),
        ),
        told(Step("I see.", when="I may not.")),
    )
    here.run()
    here.until_ended()
    here.run_queue()
    assert here.asked == [] and not (chapter.workspace / "canary").exists()
    assert here.agent.permissions.ask, "the person can still be asked by the model itself"


def test_what_the_person_has_always_allowed_holds_for_it_too(chapter, room):
    write = Call("write_file", path="a.txt", content="x")
    here = room(
        talk("Go.", Step(calls=[aside()]), Step(calls=[write]), Step("I go on.")),
        job("Do.", GLOB, Step(calls=[Call("write_file", path="b.txt", content="x")]), Step("Written.")),
        told(Step("Good.", when="Files it wrote: b.txt.")),
    )
    here.run()
    here.until_ended()
    here.run_queue()
    assert len(here.asked) == 1 and (chapter.workspace / "b.txt").exists()


def test_plan_mode_that_begins_meanwhile_is_its_limit_too(chapter, room):
    here = room(
        talk("Go.", Step(calls=[Call("write_file", path="a.txt", content="x")]), Step(calls=[aside()]), Step("I go on.")),
        job("Do.", GLOB, Step(calls=[Call("write_file", path="canary", content="x")]), Step("I may not.", when="Refused")),
        told(Step("I see.", when="I may not.")),
    )
    here.run()
    here.agent.commands["plan"][1]("")
    here.until_ended()
    here.run_queue()
    assert not (chapter.workspace / "canary").exists()


def test_one_that_is_stopped_has_not_finished_and_goes_no_further(chapter, room):
    here = room(
        talk("Go.", Step(calls=[aside()]), Step(calls=[Call("job_stop", id="job_1")]), Step("Stopped.", when="has not finished")),
        job("Do.", GLOB, Step("Never.")),
    )
    here.run()
    assert here.jobs.jobs["job_1"].ended.words == "has not finished"
    here.gate.set()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("subagent ")])
    assert "interrupted: “A”" in here.jobs.jobs["job_1"].output.text()
    assert len(here.agent.model.script.requests) <= 4, "three of the parent, and at most one of the subagent"


def test_its_command_ends_when_it_is_stopped_and_when_the_program_ends(chapter, room):
    wait = Call("bash", command="touch begun; while true; do sleep 0.05; done")
    here = room(talk("Go.", Step(calls=[Call("bash", command=wait.input["command"], timeout=1), aside()]), Step("I go on.")), job("Do.", Step(calls=[wait])))
    here.run()
    (chapter.workspace / "begun").unlink()
    here.gate.set()
    until((chapter.workspace / "begun").exists)
    here.agent.exits.close()
    until(lambda: not here.jobs.running())


def test_it_is_a_job_among_others(chapter, room):
    here = room(talk("Go.", Step(calls=[aside(), aside()]), Step("I go on.", when="1 jobs are running")), job("Do.", GLOB, Step("Done.")))
    here.jobs.max_running = 1
    here.run()
    assert here.results()[0].startswith("job_1 runs in the background") and "end one with job_stop" in here.results()[1]
    assert here.jobs.overview() == "- job_1 (subagent: A): is running"
    here.until_ended()
    assert sum("Do." in str(record.body["messages"][0]) for record in here.agent.model.script.requests) == 2, "of one alone"


def test_a_fork_in_the_background_reads_what_its_parent_has_left_in_the_cache(chapter, room):
    here = room(
        talk("Go.", Step(calls=[aside(fork=True)]), Step("I go on.")),
        Exchange(contains="The job:\nDo.", typed=False, steps=[GLOB, Step("Done.")]),
        told(Step("Good.", when="cached by its parent")),
    )
    here.run()
    here.until_ended()
    here.run_queue()
    forked = [r for r in here.agent.model.script.requests if "The job:\\nDo." in json.dumps(r.body["messages"][-1])]
    record = forked[0]
    assert record.usage["cache_read_input_tokens"] > 0


def test_to_stop_it_ends_the_command_that_it_runs(chapter, room):
    wait = "touch begun; while true; do sleep 0.05; done"
    first = Step(calls=[Call("bash", command=wait, timeout=1), aside()])  # the person allows it for good
    here = room(talk("Go.", first, Step("I go on.")), job("Do.", Step(calls=[Call("bash", command=wait)])))
    here.run()
    (chapter.workspace / "begun").unlink()
    here.gate.set()
    until((chapter.workspace / "begun").exists)
    assert here.jobs.stop(here.jobs.jobs["job_1"]).words == "has not finished"
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("subagent ")])


def test_a_look_at_it_while_it_works_and_after_it_has_ended(chapter, room):
    here = room(
        talk(
            "Go.",
            Step(calls=[aside()]),
            Step(calls=[Call("job_output", id="job_1")]),
            Step("It works.", when="[job_1 is running]"),
        ),
        job("Do.", GLOB, Step("Done.")),
        talk("And now?", Step(calls=[Call("job_output", id="job_1")]), Step("It has finished.", when="[job_1 has finished]")),
    )
    heard = []
    here.agent.on(chapter.load("hooks").PostToolUse, lambda event: heard.append(event.facts))
    here.agent.on(chapter.load("background").JobEnd, heard.append)
    here.run()
    here.until_ended()
    here.agent.queue.clear()
    here.jobs.jobs["job_1"].was_told = True
    assert here.run("And now?").text == "It has finished."
    assert heard[-1] == {"job": "job_1", "ended": True}, "it is no command, and nobody takes it for one"


def test_of_a_program_that_is_gone_its_title_is_known(chapter, room):
    here = room(talk("Go on.", Step("I see.", when="job_4 (subagent: A) was running when this conversation was left")))
    here.agent.restores["jobs"]({"number": 4, "open": [{"id": "job_4", "command": "", "title": "subagent: A"}]})
    assert here.run("Go on.").text == "I see."
