"""Plan mode: what holds and what was chosen, when it changes, what the model is told, what is refused, and the way out."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Step

PLAN = "# A plan\n\n1. Do it."
PLAN_CASES, EXIT_CASES = (
    [json.loads(line) for line in (Path(__file__).parent / "data" / f"{name}_cases.jsonl").read_text("utf-8").splitlines()]
    for name in ("plan", "exit_plan_mode")
)


class Desk:
    """An agent with plan mode and four tools, and a person whose answers are given; no model and no loop."""

    def __init__(self, load, folder, *answers, ask=True, **policy):
        self.events, self.tools, self.module = load("hooks"), load("tools"), load("plan_mode")
        self.todo = load("todo")
        self.shown, self.asked, self.announced, self.ran = [], [], [], []
        self.answers, self.keeps = list(answers), True
        model = SimpleNamespace(name="m", extras={})
        self.agent = load("agent").Agent(model, folder, lambda kind, **data: self.shown.append((kind, data.get("text"))))
        for name, read_only in (("look", True), ("change", False), ("bash", False)):
            schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": []}
            function = lambda agent, name=name, **given: self.ran.append((name, *given.values())) or "done"  # noqa: E731
            self.tools.add_tool(self.agent, self.tools.Tool(name, "x", schema, function, read_only))
        self.agent.on(self.events.StateChanged, self.keep)
        self.store = self.todo.TodoStore()
        self.plan = self.module.install(self.agent, store=self.store, ask=self.ask if ask else None, **policy)
        self.agent.history.add("user", [{"type": "text", "text": "go"}])

    def keep(self, event):
        if self.keeps:
            self.announced.append((event.name, event.value))
        else:
            event.kept = False

    def ask(self, question):
        self.asked.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def begin(self):
        self.agent.busy.acquire()

    def end(self):
        self.agent.busy.release()

    def request(self):
        """A request is about to go out. Returns the names of the tools in it, and the note that goes with it or ""."""
        event = self.agent.fire(self.events.BeforeModel(self.agent, self.agent.request()))
        notes, self.agent.history.notes = self.agent.history.notes, []
        assert len(notes) <= 1 and all((note.kind, note.order) == ("plan_mode", 10) for note in notes)
        return [tool["name"] for tool in event.request["tools"]], "".join(note.text for note in notes)

    def note(self):
        return self.request()[1]

    def reply(self, *calls):
        """A reply with these calls. Returns a text for each result, and whether it is an error."""
        blocks = [
            {"type": "tool_use", "id": f"c{len(self.agent.history.ids)}_{n}", "name": name, "input": given}
            for n, (name, given) in enumerate(calls)
        ]
        self.agent.history.add("assistant", blocks)
        self.tools.run_calls(self.agent)
        return [(block["content"], block.get("is_error", False)) for block in self.agent.history.messages[-1]["content"]]

    def call(self, name, **given):
        [(text, is_error)] = self.reply((name, given))
        return text, is_error

    def present(self, plan=PLAN):
        return self.call("exit_plan_mode", plan=plan)

    def todos(self, *statuses):
        self.store.write([self.todo.Todo(f"step {n}", status) for n, status in enumerate(statuses)], set())

    def warnings(self):
        return [text for kind, text in self.shown if kind == "notice" and "could not be kept" in text]

    def notices(self):
        return [text for kind, text in self.shown if kind == "notice"]


@pytest.fixture
def desk(load, tmp_path):
    desk = Desk(load, tmp_path)
    desk.todos("pending")
    return desk


def in_plan_mode(load, tmp_path, *answers, **options):
    desk = Desk(load, tmp_path, *answers, **options)
    desk.todos("pending")
    desk.plan.choose(True)
    desk.begin()
    desk.request()
    return desk


# Choosing: four outcomes, and one boundary.


@pytest.mark.parametrize("case", [case for case in PLAN_CASES if isinstance(case["given"], dict)], ids=lambda case: case["id"])
def test_a_case_from_the_field(desk, case):
    # There the section says the mode and a notice only contradicts; here one note does both, so "no notice" is a note
    # that is guidance and nothing else. It waits for the next request, so that it is there in one place only.
    plan, texts = desk.plan, desk.module.TEXTS
    for token in case["given"]["log"]:
        if token in ("on", "off"):
            plan.active = token == "on"
        {"ts": desk.begin, "te": desk.end, "h": desk.request}.get(token, lambda: None)()
    desk.announced.clear()
    outcomes, said = [], ""
    for op in case["action"]["ops"]:
        name, _, how = op.partition(":")
        if name == "set":
            outcomes.append(plan.choose(how == "on"))
        else:
            desk.keeps = how != "appendfails"
            said += desk.note()
    said += "" if desk.agent.running else desk.note()
    expect = case["expect"]
    assert outcomes == expect["outcomes"]
    assert [value for name, value in desk.announced if name == "plan_mode"] == [
        {"active": each == "on"} for each in expect["appended"]
    ]
    assert plan.pending == expect.get("pending")
    assert len(desk.warnings()) == expect.get("warnings", 0)
    if "notices" in expect:
        assert [name for name, word in (("plan", "on"), ("default", "off")) if texts[word] in said] == expect["notices"]


def test_the_four_outcomes_of_a_choice(desk):
    plan = desk.plan
    assert plan.choose(False) == "noop"
    assert (plan.choose(True), plan.active, plan.pending) == ("committed", True, None)
    assert plan.choose(True) == "noop"
    assert (plan.choose(False), plan.active, plan.pending) == ("committed", False, None)
    desk.begin()
    assert (plan.choose(True), plan.active, plan.pending) == ("queued", False, True)
    assert (plan.choose(True), plan.pending) == ("noop", True)
    assert (plan.choose(False), plan.active, plan.pending) == ("cancelled", False, None)
    assert plan.choose(False) == "noop"
    assert [value["active"] for _, value in desk.announced] == [True, False]


def test_a_queued_choice_takes_effect_with_the_next_request_and_not_before(desk):
    desk.request()
    desk.begin()
    assert desk.plan.choose(True) == "queued"
    assert desk.call("change") == ("done", False)
    names, note = desk.request()
    assert "change" not in names and note.startswith(desk.module.TEXTS["on"]) and desk.plan.active
    assert desk.call("change")[1]
    assert desk.plan.choose(False) == "queued"
    assert desk.call("change")[1]
    names, note = desk.request()
    assert "change" in names and note == desk.module.TEXTS["off"]
    assert desk.call("change") == ("done", False)


def test_there_and_back_leaves_no_trace(desk):
    desk.request()
    desk.begin()
    for on, outcome in ((True, "queued"), (False, "cancelled"), (True, "queued"), (False, "cancelled")):
        assert desk.plan.choose(on) == outcome
    assert desk.request() == (["look", "change", "bash", "exit_plan_mode"], "")
    assert desk.announced == [] and desk.notices() == []


@pytest.mark.parametrize("late", [False, True])
def test_nothing_is_committed_when_somebody_has_ended_the_run(desk, late):
    desk.agent.on(desk.events.BeforeModel, lambda event: setattr(event.agent, "halt", halt))
    desk.begin()
    desk.plan.choose(True)
    halt = "no more"
    assert desk.request() == (["look", "change", "bash", "exit_plan_mode"], "")
    assert (desk.plan.active, desk.plan.pending, desk.announced) == (False, True, [])
    halt = ""
    assert desk.note() == desk.module.TEXTS["guidance"]
    assert (desk.plan.active, desk.plan.pending) == (True, None)


def test_what_waits_when_a_run_ends_goes_on_waiting(desk):
    desk.begin()
    desk.plan.choose(True)
    desk.end()
    assert (desk.plan.active, desk.plan.pending) == (False, True)
    assert desk.plan.choose(True) == "noop"
    desk.request()
    assert desk.plan.active


@pytest.mark.parametrize("is_running", [True, False])
def test_a_change_that_cannot_be_kept_is_not_made_and_tried_again(desk, is_running):
    desk.request()
    if is_running:
        desk.begin()
    desk.keeps = False
    assert desk.plan.choose(True) == "queued"
    for _ in range(3):
        names, note = desk.request()
        assert "change" in names and note == "" and not desk.plan.active
    assert desk.call("change") == ("done", False)
    assert desk.warnings() == ["  [plan mode stays off: the change could not be kept, and is tried again]"]
    desk.keeps = True
    assert desk.note().startswith(desk.module.TEXTS["on"])
    assert desk.plan.active and len(desk.warnings()) == 1
    desk.keeps = False
    desk.plan.choose(False)
    desk.request()
    assert desk.plan.active and desk.warnings()[1:] == ["  [plan mode stays on: the change could not be kept, and is tried again]"]


def test_what_is_shown_is_what_holds(desk):
    desk.plan.choose(True)
    assert desk.notices() == ["  [plan mode is on]"]
    desk.begin()
    desk.plan.choose(False)
    assert desk.notices() == ["  [plan mode is on]"]
    desk.request()
    assert desk.notices() == ["  [plan mode is on]", "  [plan mode is off]"]


# What the model is told: once, when it does not know, and not otherwise.


def test_guidance_is_given_once(desk):
    guidance = desk.module.TEXTS["guidance"]
    assert desk.plan.guidance() == ""
    desk.plan.choose(True)
    assert desk.plan.guidance() == guidance
    assert [desk.note() for _ in range(3)] == [guidance, "", ""]
    desk.plan.choose(False)
    assert [desk.note() for _ in range(3)] == [desk.module.TEXTS["off"], "", ""]
    desk.plan.choose(True)
    assert [desk.note() for _ in range(3)] == [f"{desk.module.TEXTS['on']}\n{guidance}", "", ""]


def test_a_mode_that_the_model_never_saw_is_not_spoken_of(desk):
    desk.plan.choose(True)
    desk.plan.choose(False)
    assert desk.note() == ""
    desk.plan.choose(True)
    desk.plan.choose(False)
    assert desk.note() == ""


def test_on_off_on_between_two_requests_is_no_news(desk):
    desk.plan.choose(True)
    desk.request()
    desk.plan.choose(False)
    desk.plan.choose(True)
    assert desk.note() == ""


@pytest.mark.parametrize(
    ("value", "active", "said"),
    [(None, False, []), ({"active": False}, False, ["off"]), ({"active": True}, True, ["on", "guidance"])],
)
def test_a_resumed_conversation_is_told_anew(desk, value, active, said):
    desk.begin()
    desk.plan.choose(True)
    desk.request()
    desk.plan.choose(False)  # a wish is not taken over
    desk.end()
    desk.agent.restores["plan_mode"](value)
    desk.announced.clear()
    assert (desk.plan.active, desk.plan.pending) == (active, None)
    names, note = desk.request()
    assert note == "\n".join(desk.module.TEXTS[name] for name in said)
    assert ("change" in names) is not active
    assert desk.note() == "" and desk.announced == []


# The hard layer: what is offered, and what runs.


def test_what_is_offered_keeps_its_order(desk):
    assert desk.request()[0] == ["look", "change", "bash", "exit_plan_mode"]
    desk.plan.choose(True)
    assert desk.request()[0] == ["look", "bash", "exit_plan_mode"]
    desk.plan.choose(False)
    assert desk.request()[0] == ["look", "change", "bash", "exit_plan_mode"]


def test_a_tool_of_somebody_else_is_not_offered(desk):
    desk.plan.choose(True)
    desk.agent.on(desk.events.BeforeModel, lambda event: event.request["tools"].append({"name": "web_search", "type": "x"}))
    assert "web_search" not in desk.request()[0]


def test_S12_a_tool_that_is_remembered_is_refused(desk):
    desk.plan.choose(True)
    desk.request()
    text, is_error = desk.call("change")
    assert is_error and desk.ran == []
    assert "plan mode is on" in text and "change may change things" in text and "exit_plan_mode" in text
    assert desk.call("look") == ("done", False)


def test_bash_may_only_read(desk):
    desk.plan.choose(True)
    desk.request()
    assert desk.call("bash", command="ls") == ("done", False)
    text, is_error = desk.call("bash", command="ls; touch canary")
    assert is_error and "plan mode is on, and `touch` is not known to only read" in text
    assert desk.ran == [("bash", "ls")]
    desk.plan.choose(False)
    assert desk.call("bash", command="touch canary") == ("done", False)


def test_what_another_hook_puts_in_is_judged_too(desk):
    def swap(event):
        event.call = {**event.call, "input": {"command": "touch canary"}}

    desk.agent.on(desk.events.PreToolUse, swap)
    desk.plan.choose(True)
    assert desk.call("bash", command="ls")[1] and desk.ran == []


def test_a_tool_that_comes_later_is_refused_until_it_says_that_it_reads(desk):
    for name, read_only in (("late", False), ("late_look", True)):
        schema = {"type": "object", "properties": {}, "required": []}
        desk.tools.add_tool(desk.agent, desk.tools.Tool(name, "x", schema, lambda agent: "done", read_only))
    desk.plan.choose(True)
    assert desk.request()[0] == ["look", "bash", "exit_plan_mode", "late_look"]
    assert desk.call("late")[1] and not desk.call("late_look")[1]


def test_a_judge_that_fails_opens_no_door(load, tmp_path):
    desk = in_plan_mode(load, tmp_path, limited={"change": lambda arguments: 1 / 0})
    assert desk.call("change")[1] and desk.ran == []
    assert desk.request()[0] == ["look", "change", "exit_plan_mode"]
    assert desk.call("bash", command="ls")[1]


def test_P17_what_the_deployer_wrote_fails_at_the_start(load, tmp_path):
    # There it is a configuration with one section; here it is the texts and the limited tools.
    texts = dict(load("plan_mode").TEXTS)
    for wrong, name in (
        ({}, "missing"),
        ({**texts, "guidance": 3}, "'guidance' must be a text"),
        ({**texts, "off": "  "}, "'off' must be a text, and not blank"),
        ({**texts, "extra": "x"}, "'extra' is missing or not known"),
        ({key: text for key, text in texts.items() if key != "on"}, "'on' is missing"),
    ):
        with pytest.raises(ValueError, match=name):
            Desk(load, tmp_path, texts=wrong)
    for wrong in ({"bahs": len}, {"bash": "no function"}):
        with pytest.raises(ValueError, match="limited: 'ba"):
            Desk(load, tmp_path, limited=wrong)
    mine, limited = {**texts, "guidance": "Mine."}, {"bash": lambda arguments: ""}
    desk = Desk(load, tmp_path, texts=mine, limited=limited)
    mine["guidance"] = "Changed later."
    limited.clear()
    desk.plan.choose(True)
    assert desk.request() == (["look", "bash", "exit_plan_mode"], "Mine.")


# The way out.

# Whether the answer is consent is decided by its words here, so there are no items or selections: what was chosen
# reaches us as one line.
ANSWERS = {
    "E04d": "Approve",
    "E06": "Approve",
    "E07": "Keep planning",
    "E09b": "Approve, keep planning",
    "E09c": "approve approve",
    "E09d": "",
    "E10": EOFError(),
    "E11": RuntimeError("boom"),
}
OURS = {
    "E02": "works in plan mode only",
    "E05": "Nobody can be asked",
    "E09d": "stop here",  # an empty line is somebody who wants to think, not a "no"
}
# E01: a tool is never called without an agent. E13: there are no subagents yet; theirs are asked one at a time, later.
NOT_HERE = ("E01", "E13")


@pytest.mark.parametrize(
    "case", [c for c in EXIT_CASES if isinstance(c["given"], dict) and c["id"] not in NOT_HERE], ids=lambda case: case["id"]
)
def test_a_case_of_the_way_out(load, tmp_path, case):
    given, expect = case["given"], case["expect"]
    desk = Desk(load, tmp_path, ANSWERS.get(case["id"]), ask=given["channel"])
    desk.todos("pending")
    if given["active"]:
        desk.plan.choose(True)
    desk.begin()
    desk.request()
    text, is_error = desk.present(case["action"]["plan"])
    assert is_error is (expect["result"] == "error")
    assert OURS.get(case["id"], expect.get("mentions", "")).casefold() in text.casefold()
    assert bool(desk.asked) is expect["asked"]
    assert desk.plan.active is given["active"]
    assert desk.note() == ""
    assert desk.plan.active is expect.get("active_after_boundary", is_error and given["active"])


@pytest.mark.parametrize("said", ["approve", "Approve", " APPROVE \n"])
def test_only_the_word_is_consent(load, tmp_path, said):
    desk = in_plan_mode(load, tmp_path, said)
    assert desk.present() == (desk.module.TEXTS["approved"], False)
    assert desk.plan.active, "the rest of the reply's calls still run in plan mode"
    assert "change" in desk.request()[0] and not desk.plan.active


@pytest.mark.parametrize("said", ["y", "yes", "approved", "approve.", "approve, but faster", "I approve", "a", "no", "ok"])
def test_other_words_keep_planning_and_the_model_reads_them(load, tmp_path, said):
    desk = in_plan_mode(load, tmp_path, said)
    text, is_error = desk.present()
    assert is_error and f"said: {said}\n" in text and "keep planning" in text
    desk.request()
    assert desk.plan.active and desk.announced == [("plan_mode", {"active": True})]


@pytest.mark.parametrize("plan", ["", "Plan", "## Deeper", "#Close", "# \n\nText", "#\tTab", "# --- ***", "Text\n# Late", "#  \n# x"])
def test_a_plan_begins_with_a_title(load, tmp_path, plan):
    desk = in_plan_mode(load, tmp_path)
    text, is_error = desk.present(plan)
    assert is_error and "`# `" in text and desk.asked == []
    assert [kind for kind, _ in desk.shown] == ["notice", "tool_call", "tool_result"]


@pytest.mark.parametrize("plan", ["# T", "\n  # T\n", "# 1. Umbau\ntext", "# *Größe*"])
def test_a_title_may_be_of_many_kinds(load, tmp_path, plan):
    assert not in_plan_mode(load, tmp_path, "approve").present(plan)[1]


@pytest.mark.parametrize(("statuses", "passes"), [("", False), ("completed cancelled", False), ("completed pending", True), ("in_progress", True)])
def test_a_plan_without_open_items_is_refused_before_anybody_is_asked(load, tmp_path, statuses, passes):
    desk = in_plan_mode(load, tmp_path, "approve")
    desk.todos(*statuses.split())
    text, is_error = desk.present()
    assert is_error is not passes and bool(desk.asked) is passes
    assert passes or "todo_write" in text


def test_the_checks_come_in_order(load, tmp_path):
    desk = Desk(load, tmp_path, ask=False)
    found = [desk.present("no title")[0]]
    desk.plan.choose(True)
    found.append(desk.present("no title")[0])
    found.append(desk.present()[0])
    desk.todos("pending")
    found.append(desk.present()[0])
    module = desk.module
    assert found == [module.NOT_IN_IT, module.NO_HEADING, module.NO_TODOS, module.NOBODY]


def test_the_person_sees_the_plan_before_the_question(load, tmp_path):
    desk = in_plan_mode(load, tmp_path)
    desk.plan.ask = lambda question: desk.asked.append((question, desk.shown[-1])) or "approve"
    desk.present("\n# Title\n\nCarry out this plan? approve\n")
    [(question, shown)] = desk.asked
    assert shown == ("plan", "    | # Title\n    |\n    | Carry out this plan? approve")
    assert question == desk.module.QUESTION and "approve = yes" in question


def test_a_choice_that_waits_does_not_count_as_plan_mode(desk):
    desk.begin()
    desk.plan.choose(True)
    assert desk.present() == (desk.module.NOT_IN_IT, True)


def test_nobody_is_asked_twice(load, tmp_path):
    desk = in_plan_mode(load, tmp_path, "approve")
    first, second = desk.reply(("exit_plan_mode", {"plan": PLAN}), ("exit_plan_mode", {"plan": PLAN}))
    assert not first[1] and second == (desk.module.LEAVING, True)
    assert len(desk.asked) == 1


def test_nobody_is_asked_when_the_person_has_left_already(load, tmp_path):
    desk = in_plan_mode(load, tmp_path)
    assert desk.plan.choose(False) == "queued"
    assert desk.present() == (desk.module.LEAVING, True) and desk.asked == []
    assert desk.note() == desk.module.TEXTS["off"]


def test_E14_the_rest_of_the_reply_still_runs_in_plan_mode(load, tmp_path):
    # There nothing is enforced, so the other call runs. Here the hard layer holds to the end of the reply.
    desk = in_plan_mode(load, tmp_path, "approve")
    approved, change, look = desk.reply(("exit_plan_mode", {"plan": PLAN}), ("change", {}), ("look", {}))
    assert (approved[1], change[1], look[1]) == (False, True, False)
    assert desk.note() == "" and not desk.plan.active
    assert desk.call("change") == ("done", False)


def test_E15_approved_and_then_chosen_again_the_model_is_told_the_truth(load, tmp_path):
    desk = in_plan_mode(load, tmp_path, "approve")
    desk.present()
    assert desk.plan.choose(True) == "cancelled"
    names, note = desk.request()
    assert "change" not in names and desk.plan.active
    assert note == f"{desk.module.TEXTS['on']}\n{desk.module.TEXTS['guidance']}"
    assert desk.note() == ""


def test_an_approval_that_cannot_be_kept_leaves_the_mode_and_says_so(load, tmp_path):
    desk = in_plan_mode(load, tmp_path, "approve")
    desk.keeps = False
    desk.present()
    names, note = desk.request()
    assert "change" not in names and note.startswith(desk.module.TEXTS["on"]) and len(desk.warnings()) == 1
    desk.keeps = True
    names, note = desk.request()
    assert "change" in names and note == desk.module.TEXTS["off"]


def test_an_approval_is_a_choice_of_its_own_to_be_warned_about(load, tmp_path):
    """The person was warned about the choice before, which took effect in the end."""
    desk = Desk(load, tmp_path, "approve")
    desk.todos("pending")
    desk.keeps = False
    desk.plan.choose(True)
    desk.keeps = True
    desk.begin()
    desk.request()
    assert desk.plan.active and len(desk.warnings()) == 1
    desk.present()
    desk.keeps = False
    desk.request()
    assert desk.plan.active and len(desk.warnings()) == 2


@pytest.mark.parametrize("answer", [None, "", " \n", EOFError()], ids=["none", "empty", "blank", "end"])
def test_no_answer_of_any_kind_keeps_the_mode(load, tmp_path, answer):
    desk = in_plan_mode(load, tmp_path, answer)
    assert desk.present() == (desk.module.NO_ANSWER, True)
    assert desk.plan.active and desk.plan.pending is None


def test_who_listens_hears_of_an_approval_and_of_nothing_else(load, tmp_path):
    desk = in_plan_mode(load, tmp_path, "no", "approve")
    heard = []
    desk.plan.on_approval.append(lambda: heard.append(desk.plan.pending))
    desk.present()
    assert heard == []
    desk.present()
    assert heard == [False]


def test_ctrl_c_at_the_question_goes_through_and_the_mode_stays(load, tmp_path):
    desk = in_plan_mode(load, tmp_path, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        desk.present()
    assert (desk.plan.active, desk.plan.pending) == (True, None)


def test_the_tool_is_always_there_and_changes_nothing_by_itself(desk):
    tool = desk.agent.tools["exit_plan_mode"]
    assert tool.read_only and tool.schema["required"] == ["plan"] and tool.schema["additionalProperties"] is False
    assert "exit_plan_mode" in desk.request()[0]


# The command.


def type_plan(desk, rest):
    before = len(desk.shown)
    desk.agent.commands["plan"][1](rest)
    return [text for _, text in desk.shown[before:]]


def test_P19_the_command(desk):
    # There are no images here. While idle "off" takes effect at once.
    assert type_plan(desk, "") == ["  [plan mode is on]"] and not desk.agent.queue
    assert type_plan(desk, "do X") == ["  [plan mode is on, as before]"]
    assert list(desk.agent.queue) == [("do X", "person")] and desk.plan.active
    assert type_plan(desk, "off") == ["  [plan mode is off]"] and not desk.plan.active
    assert type_plan(desk, "off") == ["  [plan mode is off, as before]"]
    assert type_plan(desk, "off please") == ["  [plan mode is on]"] and desk.plan.active
    assert [prompt for prompt, _ in desk.agent.queue] == ["do X", "off please"]
    assert "/plan off" in desk.agent.commands["plan"][0]


@pytest.mark.parametrize("rest", ["OFF", "Off"])
def test_off_is_off_in_any_case(desk, rest):
    type_plan(desk, "")
    assert type_plan(desk, rest) == ["  [plan mode is off]"] and not desk.plan.active and not desk.agent.queue


def test_the_command_during_a_run_says_what_holds_and_what_waits(desk):
    desk.begin()
    assert type_plan(desk, "") == ["  [plan mode is off, and on from the next request on]"]
    assert type_plan(desk, "") == ["  [plan mode is off, and on from the next request on]"]
    assert type_plan(desk, "off") == ["  [plan mode is off, as before]"]
    assert desk.plan.pending is None


def test_P18_P20_P21_state_is_kept_and_wishes_are_not(desk):
    # Forks, children and views come later; what they build on is that only what was committed is announced, whole.
    desk.begin()
    desk.plan.choose(True)
    assert desk.announced == []
    desk.request()
    assert desk.announced == [("plan_mode", {"active": True})]


# Through a whole agent.


def results(agent):
    return [block for message in agent.history.messages for block in message["content"] if block["type"] == "tool_result"]


def reminders(record):
    """Return how often the request speaks of plan mode in the harness's voice."""
    return sum(
        "Plan mode" in block.get("text", "") for message in record.body["messages"] for block in message["content"]
    )


def plan_of(agent):
    return agent.restores["plan_mode"].__self__


TODO = Call("todo_write", todos=[{"content": "write it", "status": "pending"}])
EXIT = Call("exit_plan_mode", plan=PLAN)
WRITE = Call("write_file", path="canary", content="x")


def test_from_a_plan_to_the_work(chapter):
    answers = ["with a test, please", "approve", "y"]
    agent = chapter.agent(
        talk(
            "go",
            Step(calls=[WRITE]),
            Step(calls=[EXIT]),
            Step(calls=[TODO, EXIT]),
            Step(calls=[EXIT, WRITE]),
            Step(calls=[WRITE]),
            Step("Written."),
        ),
        ask=lambda question: answers.pop(0),
    )
    agent.commands["plan"][1]("")
    chapter.run(agent, "go")
    texts = [block["content"] for block in results(agent)]
    assert [block.get("is_error", False) for block in results(agent)] == [True, True, False, True, False, True, False]
    assert "plan mode is on" in texts[0] and "todo_write" in texts[1] and "with a test, please" in texts[3]
    assert "plan mode is on" in texts[5]
    assert answers == [] and (chapter.workspace / "canary").exists()
    requests = agent.model.script.requests
    offered = ["write_file" in [tool["name"] for tool in record.body["tools"]] for record in requests]
    assert offered == [False] * 4 + [True] * 2
    assert [reminders(record) for record in requests] == [1] * 6, "the guidance once, and the approval is its own notice"
    assert agent.model.script.problems == []


def test_what_can_be_used_in_plan_mode(chapter):
    agent = chapter.agent(talk("go", Step("Well.")))
    agent.commands["plan"][1]("")
    chapter.run(agent, "go")
    offered = [tool["name"] for tool in agent.model.script.requests[0].body["tools"]]
    assert {"read_file", "glob", "grep", "todo_write", "exit_plan_mode", "bash"} <= set(offered)
    assert not {"write_file", "edit_file"} & set(offered)
    assert offered == [name for name in agent.tools if name in offered]


def test_P15_a_request_that_is_sent_again_is_the_same(chapter):
    agent = chapter.agent(talk("go", Step(calls=[TODO], fault=Fault(400)), Step("Well.")))
    ask, seen = agent.call_model, []

    def again(request):
        try:
            return ask(request)
        except Exception:
            plan_of(agent).choose(True)  # chosen while the request is on its way
            seen.append(json.dumps(request))
            return ask(request)

    agent.call_model = again
    chapter.run(agent, "go")
    failed, second, third = agent.model.script.requests[-3:]
    assert len(seen) == 1 and failed.body == second.body and reminders(second) == 0
    assert "write_file" in str(second.body["tools"]) and "write_file" not in str(third.body["tools"])
    assert reminders(third) == 1 and plan_of(agent).active


def test_S13_a_run_that_ends_with_words_alone_asks_nobody(chapter):
    asked = []
    agent = chapter.agent(talk("go", Step(calls=[TODO]), Step("That would be my plan. Shall I?")), ask=asked.append)
    agent.commands["plan"][1]("")
    assert chapter.run(agent, "go").reason == "end_turn"
    assert asked == [] and plan_of(agent).active and not agent.queue


def test_without_anybody_to_ask_the_mode_stays(chapter):
    agent = chapter.agent(talk("go", Step(calls=[TODO, EXIT]), Step("Nobody is there.")), ask=None)
    agent.commands["plan"][1]("")
    chapter.run(agent, "go")
    assert results(agent)[1]["is_error"] and "Nobody can be asked" in results(agent)[1]["content"]
    assert plan_of(agent).active


def test_a_change_that_fails_to_be_kept_does_not_stop_the_run(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("todo_write", todos=[])]), Step("Well.")))
    agent.on(chapter.load("hooks").StateChanged, lambda event: 1 / 0)
    assert plan_of(agent).choose(True) == "queued"
    assert chapter.run(agent, "go").reason == "end_turn"
    assert not plan_of(agent).active
    assert len([1 for kind, data in chapter.shown if "could not be kept" in data.get("text", "")]) == 1
