"""The autopilot: sends the model on while items get completed, and hands back when it is done, stuck or disturbed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Step

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "stagnation_cases.jsonl").read_text("utf-8").splitlines()
]
# S07, S08, S09 are about a guard against repeated calls, which is not ours. S12 and S13 are in test_plan_mode.py.
OURS = [case for case in CASES if case["id"] in ("S01", "S02", "S04")]
STATUS = {"[ ]": "pending", "[>]": "in_progress", "[x]": "completed", "[-]": "cancelled"}


class Desk:
    """A plan that can be approved, a list that can be written, and runs that end as one likes; no model and no loop."""

    def __init__(self, load, **policy):
        self.events, self.module, self.todo = load("hooks"), load("autopilot"), load("todo")
        self.Outcome = load("loop").Outcome
        self.hooks, self.queue = self.events.Hooks(), []
        self.on = self.hooks.on
        self.plan = SimpleNamespace(on_approval=[], active=False, pending=None)
        self.store = self.todo.TodoStore()
        self.pilot = self.module.install(self, store=self.store, plan=self.plan, **policy)

    def enqueue(self, prompt, source="person"):
        self.queue.append((prompt, source))

    def write(self, *rows):
        self.store.write([self.todo.Todo(row[4:], STATUS[row[:3]]) for row in rows], set())
        self.hooks.fire(self.events.StateChanged(self, "todos", None))

    def approve(self):
        for listener in self.plan.on_approval:
            listener()

    def run(self, *rows, source=None, reason="end_turn", detail=""):
        """A run, that of the next prompt in the queue if nobody else speaks. Returns what the person is told of it."""
        source = source or (self.queue.pop(0)[1] if self.queue else "person")
        self.hooks.fire(self.events.UserPromptSubmit(self, "x", source))
        if rows:
            self.write(*rows)
        outcome = self.Outcome(reason=reason, detail=detail)
        self.hooks.fire(self.events.RunEnd(self, outcome))
        self.outcome = outcome
        return outcome.detail

    def take_off(self, *rows):
        """A plan with these steps is approved, and the run in which it was is over."""
        self.write(*rows)
        self.approve()
        return self.run(source="person")

    def next(self):
        [(prompt, source)] = self.queue
        assert source == "autopilot"
        return prompt


@pytest.fixture
def desk(load):
    return Desk(load)


# The verdict is a function of the list and two counts.


@pytest.mark.parametrize("case", OURS, ids=lambda case: case["id"])
def test_a_case_from_the_field(load, case):
    module, given, action = load("autopilot"), case["given"], case["action"]
    Todo = load("todo").Todo
    best, stuck, said = given["done"], 0, []
    opens = action.get("open_after_each_run") or [given["open"]] * len(action["done_after_each_run"])
    for done, left in zip(action["done_after_each_run"], opens, strict=True):
        items = [Todo(f"d{n}", "completed") for n in range(done)] + [Todo(f"o{n}", "pending") for n in range(left)]
        verdict = module.judge(items, best, stuck, given["limit"])
        best, stuck = verdict.best, verdict.stuck
        said.append(verdict.word if verdict.word == "continue" else f"stop:{verdict.word}")
    assert said == case["expect"]["verdicts"]


def items(load, rows):
    return [load("todo").Todo(f"step {n}", STATUS[row]) for n, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "best", "stuck", "expect"),
    [
        (["[x]", "[ ]"], 0, 2, ("continue", 1, 0)),
        (["[x]", "[ ]"], 1, 1, ("continue", 1, 2)),
        (["[x]", "[ ]"], 1, 2, ("stagnated", 1, 3)),
        (["[>]", "[ ]"], 0, 0, ("continue", 0, 1)),  # begun is not done
        (["[-]", "[ ]"], 0, 2, ("stagnated", 0, 3)),  # and fewer pending ones are no progress
        (["[x]", "[ ]"], 3, 0, ("continue", 3, 1)),  # a maximum that was reached once is no news
        (["[x]", "[x]", "[ ]"], 1, 2, ("continue", 2, 0)),
        (["[x]", "[-]"], 1, 2, ("finished", 1, 0)),
        (["[x]", "[x]"], 0, 2, ("finished", 2, 0)),
        (["[-]"], 0, 0, ("finished", 0, 0)),
        (["[x]", "[>]"], 1, 0, ("continue", 1, 1)),
        ([], 2, 1, ("continue", 2, 2)),  # an empty list is not finished
        ([], 2, 2, ("stagnated", 2, 3)),
    ],
)
def test_the_verdict(load, rows, best, stuck, expect):
    verdict = load("autopilot").judge(items(load, rows), best, stuck)
    assert (verdict.word, verdict.best, verdict.stuck) == expect


# From the approval to the end.


def test_it_does_nothing_before_an_approval(desk):
    desk.write("[ ] A")
    assert desk.run() == "" and desk.queue == []


def test_the_first_prompt_states_the_rules_and_the_others_are_short(desk):
    assert desk.take_off("[ ] A", "[ ] B") == "Autopilot: 0/2 completed, goes on."
    first = desk.next()
    assert first == f'{desk.module.RULES}\nNext: "A".'
    for rule in ("in_progress before", "a changed status alone is no work", "looked at the result", "no reports of progress"):
        assert rule in first
    assert desk.run("[x] A", "[>] B") == "Autopilot: 1/2 completed, goes on."
    assert desk.next() == 'Go on with the approved plan.\nNext: "B".'
    assert desk.run("[x] A", "[x] B") == "Autopilot: 2/2 completed, finished."
    assert desk.queue == [] and desk.outcome.reason == "end_turn" and not desk.pilot.flying
    assert desk.run() == "" and desk.queue == []


def test_after_a_compaction_the_rules_come_again(desk):
    desk.take_off("[ ] A", "[ ] B")
    desk.run("[x] A", "[ ] B")
    assert "Four rules" not in desk.next()
    desk.pilot.forget()
    desk.run("[>] B")
    assert desk.next() == f'{desk.module.RULES}\n{desk.module.NOTHING_DONE}\nNext: "B".'
    desk.run("[x] B", "[ ] C")
    assert desk.next() == f'{desk.module.GO_ON}\n{desk.module.NOTHING_DONE}\nNext: "C".'


def test_all_done_in_the_run_of_the_approval_is_the_end(desk):
    desk.write("[ ] A")
    desk.approve()
    assert desk.run("[x] A") == "Autopilot: 1/1 completed, finished." and desk.queue == []


def test_three_runs_without_progress_hand_back(desk):
    desk.take_off("[x] A", "[ ] B", "[ ] C")
    assert desk.run("[x] A", "[>] B", "[ ] C").endswith("goes on.")
    assert desk.run("[x] A", "[ ] B", "[>] C").endswith("goes on.")
    assert desk.run() == "Autopilot: 1/3 completed, stopped after 3 runs in which no item was completed: over to you."
    assert (desk.outcome.reason, desk.queue, desk.pilot.flying) == ("halted", [], False)


def test_progress_starts_the_count_anew_and_the_run_of_the_approval_is_not_counted(desk):
    desk.take_off("[ ] A", "[ ] B")
    for rows in (["[>] A", "[ ] B"], ["[>] A", "[ ] B"], ["[x] A", "[ ] B"], ["[x] A", "[>] B"], ["[x] A", "[>] B"]):
        assert desk.run(*rows).endswith("goes on."), rows
    assert "stopped after 3 runs" in desk.run()


def test_done_and_open_again_is_no_progress_twice(desk):
    desk.take_off("[ ] A", "[ ] B")
    desk.run("[x] A", "[ ] B")
    desk.run("[ ] A", "[ ] B")
    desk.run("[x] A", "[ ] B")
    assert "stopped" in desk.run("[ ] A", "[ ] B")


def test_the_prompt_says_when_nothing_was_completed(desk):
    desk.take_off("[ ] A", "[ ] B")
    assert desk.module.NOTHING_DONE not in desk.next()
    desk.run("[>] A", "[ ] B")
    assert desk.next() == f'{desk.module.GO_ON}\n{desk.module.NOTHING_DONE}\nNext: "A".'
    desk.run("[x] A", "[ ] B")
    assert desk.next() == f'{desk.module.GO_ON}\nNext: "B".'


def test_an_empty_list_is_asked_for_and_not_taken_for_the_end(desk):
    desk.take_off("[ ] A")
    desk.write()
    assert desk.run() == "Autopilot: 0/0 completed, goes on."
    assert desk.next().endswith(desk.module.NOTHING_LISTED)
    desk.run()
    assert 'dropped from the list: "A"' in desk.run()


@pytest.mark.parametrize("reason", ["error", "interrupted", "max_turns", "max_tokens", "refusal", "blocked", "halted", "stop_limit", "context_window"])
def test_any_other_end_stops_it_at_once(desk, reason):
    desk.take_off("[ ] A", "[ ] B")
    said = desk.run("[x] A", "[ ] B", reason=reason, detail="So it was.")
    assert said == f"So it was. Autopilot: 1/2 completed, stopped, since the run ended with {reason}."
    assert desk.outcome.reason == reason and desk.queue == []
    assert desk.run() == ""


def test_the_run_of_the_approval_may_fail_too(desk):
    desk.write("[ ] A")
    desk.approve()
    assert "stopped" in desk.run(source="person", reason="error") and desk.queue == []


@pytest.mark.parametrize("state", [{"active": True}, {"pending": True}])
def test_plan_mode_chosen_again_stops_it(desk, state):
    desk.take_off("[ ] A")
    vars(desk.plan).update(state)
    assert desk.run() == "Autopilot: 0/1 completed, stopped for plan mode." and desk.queue == []


def test_what_was_cancelled_or_dropped_is_named_at_the_end(desk):
    desk.take_off("[ ] A", "[ ] B", "[ ] C")
    desk.run("[x] A", "[ ] B", "[ ] C", "[ ] D")  # D came later, and goes again
    desk.run("[-] B", "[>] C")  # A is done, so that it is no longer in the list is no loss
    assert desk.run("[-] B", "[x] C") == 'Autopilot: 1/2 completed, finished, cancelled: "B", dropped from the list: "D".'


def test_what_was_completed_within_a_run_and_left_out_is_not_called_dropped(desk):
    desk.take_off("[ ] A", "[ ] B")
    desk.write("[x] A", "[ ] B")
    desk.write("[x] B")
    assert desk.run() == "Autopilot: 1/1 completed, finished."


def test_other_state_is_not_taken_for_the_list(desk):
    desk.take_off("[ ] A", "[ ] B")
    desk.store.write([], set())
    desk.hooks.fire(desk.events.StateChanged(desk, "plan_mode", {"active": False}))
    assert [item.content for item in desk.pilot.known] == ["A", "B"]


def test_a_run_of_somebody_else_is_not_counted_and_takes_no_prompt_away(desk):
    desk.take_off("[ ] A")
    waiting = list(desk.queue)
    for _ in range(5):
        assert desk.run(source="notification") == ""
    assert desk.queue == waiting
    desk.run(source="person", reason="error")
    assert desk.queue == [], "what waits is taken back when it is over"


def test_prompts_of_others_stay_when_it_stops(desk):
    desk.take_off("[ ] A")
    desk.enqueue("mine")
    desk.run(source="person", reason="error")
    assert desk.queue == [("mine", "person")]


def test_a_new_approval_starts_anew(desk):
    desk.take_off("[ ] A")
    desk.run()
    desk.run()
    desk.write("[x] A", "[ ] B")
    desk.approve()
    assert desk.queue == [], "what waited was about another plan"
    desk.run(source="person")
    assert desk.next() == f'{desk.module.RULES}\nNext: "B".'
    for _ in range(2):
        assert desk.run().endswith("goes on.")
    assert "stopped after 3 runs" in desk.run()


def test_what_an_earlier_plan_has_reached_does_not_count(desk):
    desk.take_off("[ ] A", "[ ] B")
    assert "finished" in desk.run("[x] A", "[x] B")
    desk.take_off("[ ] C", "[ ] D")
    for _ in range(2):
        desk.run("[>] C", "[ ] D")
    desk.run("[x] C", "[ ] D")
    assert desk.module.NOTHING_DONE not in desk.next()
    assert desk.run("[x] C", "[x] D") == "Autopilot: 2/2 completed, finished."


def test_only_what_is_in_the_list_at_the_approval_can_be_dropped(desk):
    desk.write("[ ] idea")
    desk.take_off("[ ] A")
    assert desk.run("[x] A") == "Autopilot: 1/1 completed, finished."


def test_numbers_and_texts_are_parameters_and_checked(load):
    desk = Desk(load, max_stuck=1, rules="Work.", go_on="More.")
    desk.take_off("[ ] A", "[ ] B")
    assert desk.next() == 'Work.\nNext: "A".'
    desk.run("[x] A", "[ ] B")
    assert desk.next() == 'More.\nNext: "B".'
    assert "stopped after 1 run in" in desk.run()
    for wrong in ({"max_stuck": 0}, {"max_stuck": "3"}, {"max_stuck": True}, {"rules": " "}, {"rules": None}, {"go_on": ""}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Desk(load, **wrong)


def test_it_knows_nothing_of_a_terminal(load):
    text = Path(load("autopilot").__file__).read_text(encoding="utf-8")
    for word in ("console", "print(", "input(", "sys.", "show("):
        assert word not in text


# Through a whole agent, and the program's own way of running what waits.

PLAN = Call("exit_plan_mode", plan="# A plan")


def todo(*statuses):
    return Call("todo_write", todos=[{"content": f"step {n}", "status": status} for n, status in enumerate(statuses, 1)])


def work(chapter, agent, line):
    console = chapter.load("console").Console()
    return chapter.load("__main__").work(agent, console, line)


def prompts(agent):
    return [
        block["text"].splitlines()[0]
        for message in agent.history.messages if message["role"] == "user"
        for block in message["content"] if block["type"] == "text" and not block["text"].startswith("<system-reminder>")
    ]  # fmt: skip


def test_an_approved_plan_is_carried_out_to_the_end(chapter, capsys):
    agent = chapter.agent(
        talk("make it", Step(calls=[todo("pending", "pending"), PLAN]), Step("I begin.")),
        talk("", Step(calls=[todo("in_progress", "pending")]), Step(calls=[todo("completed", "pending")]), Step("One."), contains='"step 1"'),
        talk("", Step(calls=[todo("completed", "completed")]), Step("Two."), contains='"step 2"'),
        ask=lambda question: "approve",
    )
    sources = []
    agent.on(chapter.load("hooks").UserPromptSubmit, lambda event: sources.append(event.source))
    outcome = work(chapter, agent, "/plan make it")
    assert (outcome.reason, outcome.text) == ("end_turn", "Two.")
    assert outcome.detail == "Autopilot: 2/2 completed, finished."
    assert prompts(agent) == ["make it", chapter.load("autopilot").RULES.splitlines()[0], "Go on with the approved plan."]
    assert sources == ["person", "autopilot", "autopilot"]
    assert capsys.readouterr().out.splitlines() == ["[Autopilot: 0/2 completed, goes on.]", "[Autopilot: 1/2 completed, goes on.]"]
    assert agent.model.script.problems == []


def test_an_error_ends_it_in_a_whole_agent(chapter, capsys):
    agent = chapter.agent(
        talk("make it", Step(calls=[todo("pending"), PLAN]), Step("I begin.")),
        talk("", Step("x", fault=Fault(status=400), extra=True), contains="Four rules"),
        ask=lambda question: "approve",
    )
    outcome = work(chapter, agent, "/plan make it")
    assert outcome.reason == "error" and outcome.detail.endswith("Autopilot: 0/1 completed, stopped, since the run ended with error.")
    assert not agent.queue


def test_plan_mode_chosen_in_the_last_run_wins(chapter, capsys):
    agent = chapter.agent(
        talk("make it", Step(calls=[todo("pending"), PLAN]), Step("I begin.")),
        talk("", Step("Nothing yet."), contains="Four rules"),
        ask=lambda question: "approve",
    )
    plan = agent.restores["plan_mode"].__self__
    agent.on(chapter.load("hooks").AfterModel, lambda event: plan.choose(True) if "Nothing" in event.reply.text else None)
    assert "stopped for plan mode" in work(chapter, agent, "/plan make it").detail
    assert plan.pending and not plan.active and not agent.queue


def test_one_shot_prints_the_last_reply_and_nothing_else(chapter, capsys):
    agent = chapter.agent(
        talk("make it", Step("A plan.", calls=[todo("pending"), PLAN]), Step("I begin.")),
        talk("", Step(calls=[todo("completed")]), Step("It is done."), contains="Four rules"),
        ask=lambda question: "approve",
    )
    console = chapter.load("console").Console(one_shot=True)
    agent.show = console.show
    assert chapter.load("__main__").one_shot(agent, console, "/plan make it") == 0
    out, err = capsys.readouterr()
    assert out == "It is done.\n"
    assert "I begin." in err and "[Autopilot: 1/1 completed, finished.]" in err
