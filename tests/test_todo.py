"""The todo list: replaced as a whole, shown as it stands, brought back into view, and not to be faked.

Lists are written here as they look: "[ ] " pending, "[>] " in_progress, "[x] " completed, "[-] " cancelled, and
" (id: 1)" at the end for an id.
"""

from __future__ import annotations

import json
import random
import re
import textwrap
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step

STATUS = {"[ ]": "pending", "[>]": "in_progress", "[x]": "completed", "[-]": "cancelled"}
CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "todo_cases.jsonl").read_text("utf-8").splitlines()]


def parse(row):
    """Return a row of a list as the object that a model sends."""
    content, id_ = re.fullmatch(r"(.*?)(?: \(id: (.*)\))?", row[4:], re.DOTALL).groups()
    return {"content": content, "status": STATUS[row[:3]], **({"id": id_} if id_ else {})}


class Desk:
    """Stands in for an agent: holds what a mechanism leaves on it, and does what the loop would do."""

    def __init__(self, load, **policy):
        self.todo, self.events = load("todo"), load("hooks")
        self.ToolError, self.check_arguments = load("tools").ToolError, load("tools").check_arguments
        self.hooks = self.events.Hooks()
        self.on = self.hooks.on
        self.tools, self.sections, self.restores = {}, {}, {}
        self.history, self.notes, self.shown, self.announced = self, [], [], []
        self.store = self.todo.TodoStore()
        self.todo.install(self, store=self.store, **policy)

    def add_section(self, name, text, order=50):
        self.sections[name] = text

    def note(self, kind, text, order=50, cut=False):
        self.notes.append((kind, text))

    def show(self, kind, **data):
        self.shown.append((kind, data))

    def changed(self, name, value):
        self.announced.append((name, json.loads(json.dumps(value))))

    def before_model(self):
        self.hooks.fire(self.events.BeforeModel(self, {}))

    def reply(self):
        """A reply has come in: what is written until the next one belongs to it."""
        self.hooks.fire(self.events.AfterModel(self, None))

    def turn(self):
        """A whole turn in which the list is not written."""
        self.before_model()
        self.reply()

    def send(self, todos):
        """Call the tool with ``todos`` as it comes, checked against the schema as the tools module does."""
        tool = self.tools["todo_write"]
        return tool.function(self, **self.check_arguments(tool, {"todos": todos}))

    def write(self, *rows):
        return self.send([parse(row) for row in rows])

    def next(self, *rows):
        """Write in a new reply."""
        self.reply()
        return self.write(*rows)

    def state(self):
        return self.store.items(), self.store.cancelled(), len(self.announced), len(self.shown)

    def refuse(self, todos):
        """Send what must be refused. Returns what the model is told; nothing else may have happened."""
        before = self.state()
        with pytest.raises(self.ToolError) as raised:
            self.send(todos)
        assert self.state() == before
        told, _, rest = str(raised.value).partition("\n")
        assert rest == "Nothing was changed. The list:\n" + self.todo.render(before[0])
        return told

    def refuse_rows(self, *rows):
        return self.refuse([parse(row) for row in rows])

    def rows(self):
        return [self.todo.row(item) for item in self.store.items()]


@pytest.fixture
def desk(load):
    return Desk(load)


# The cases seen in the field. The list of a case is [id, status]; an item's text is made of its id.

# Ours replaces the list, so that the list is what was sent and no memory of ids is needed; harness9 merges, because a
# model that sends only what is left erases what is done. We answer that by naming what vanished, and by refusing to
# let work in progress vanish.
OURS = {
    "T13": {"accept": True, "store": [["7", "completed"], ["8", "in_progress"]], "gone": "123456"},
    "T14": {"accept": False, "store": [["1", "pending"], ["2", "in_progress"], ["3", "completed"]], "error_mentions": "2"},
    "T15": {"accept": True, "store": [["3", "in_progress"], ["4", "pending"], ["1", "pending"]], "gone": "2"},
    # An empty list clears; there it reads, and no list can ever be cleared.
    "T16": {"accept": True, "store": [], "gone": "1"},
    # As T13: the cancelled item has left the list with the first write, and is remembered all the same.
    "T21": {"accepts": [True, False], "store": [["2", "pending"]]},
}


def of_case(desk, pairs):
    return [desk.todo.Todo(f"step {id_}", status, id_) for id_, status in pairs]


@pytest.mark.parametrize("case", [case for case in CASES if isinstance(case["given"], dict)], ids=lambda case: case["id"])
def test_a_case_from_the_field(desk, case):
    given = of_case(desk, case["given"]["store"])
    desk.store.write(given, {key for item in given if item.status == "cancelled" for key in desk.todo.keys(item)})
    expect = OURS.get(case["id"], case["expect"])
    writes = case["action"].get("writes") or [case["action"]["write"]]
    answer = ""
    for pairs, accept in zip(writes, expect.get("accepts") or [expect["accept"]], strict=True):
        todos = [{"id": id_, "status": status, "content": f"step {id_}"} for id_, status in pairs]
        desk.reply()
        answer = desk.send(todos) if accept else desk.refuse(todos)
    assert sorted((item.id, item.status) for item in desk.store.items()) == sorted(map(tuple, expect["store"]))
    assert expect.get("error_mentions", "") in answer
    for id_ in expect.get("gone", ""):
        assert f'"step {id_}"' in answer.partition("No longer in the list: ")[2]


def test_T22_who_listens_is_told_the_whole_list(desk):
    # There the file writer's fault is caught by the tool. Here the tool only announces; the agent keeps its listeners'
    # faults to itself, and what they are told is the list that stands, not the part that was sent.
    desk.next("[ ] A", "[ ] B (id: 2)")
    assert desk.announced[-1] == (
        "todos",
        {
            "items": [
                {"content": "A", "status": "pending", "id": ""},
                {"content": "B", "status": "pending", "id": "2"},
            ],
            "cancelled": [],
        },
    )


def test_T23_the_reminder_carries_open_items_only(desk):
    # There it is part of the sent copy only. Here it is a note, and stays: nothing that was sent is ever rewritten.
    desk.next("[x] done", "[>] doing", "[ ] to do", "[-] dropped")
    for _ in range(4):
        desk.turn()
    [(kind, text)] = desk.notes
    assert kind == "todo"
    assert text.splitlines()[1:] == ["[>] doing", "[ ] to do"]


def test_T25_two_in_progress_are_refused(desk):
    # There a setting may allow it. One list is one agent's: two at once would mean that neither is.
    told = desk.refuse_rows("[>] A", "[>] B", "[ ] C")
    assert '"A", "B"' in told and '"C"' not in told and "pending" in told
    assert desk.announced == []


# The list: replaced as a whole, all or nothing.


def test_the_answer_is_the_list_as_it_stands(desk):
    assert desk.next("[x] read", "[>] write (id: w1)", "[ ] test", "[-] ship") == (
        "[x] read\n[>] write (id: w1)\n[ ] test\n[-] ship\n(1/4 completed, 1 cancelled)"
    )
    assert desk.next("[x] read", "[x] write", "[>] test") == (
        '[x] read\n[x] write\n[>] test\n(2/3 completed)\nNo longer in the list: "ship"'
    )
    assert desk.next("[>] test") == '[>] test\n(0/1 completed)\nNo longer in the list: "read", "write"'


def test_an_empty_list_says_so(desk):
    assert desk.next() == "(no todos)"
    assert desk.todo.render([]) == "(no todos)"


def test_a_write_replaces_the_whole_list_and_keeps_its_order(desk):
    desk.next("[ ] A", "[ ] B", "[ ] C")
    desk.next("[ ] C", "[ ] D", "[ ] A")
    assert desk.rows() == ["[ ] C", "[ ] D", "[ ] A"]


def test_what_vanished_is_named(desk):
    desk.next("[ ] A", "[x] B", "[ ] C")
    assert desk.next("[ ] C").endswith('\nNo longer in the list: "A", "B"')
    assert "No longer" not in desk.next("[>] c")


def test_a_reworded_item_is_named_by_its_old_words(desk):
    desk.next("[>] tidy the parser (id: 1)")
    assert desk.next("[x] rewrite everything (id: 1)").endswith('\nNo longer in the list: "tidy the parser"')


def test_one_bad_item_spoils_the_whole_write(desk):
    desk.next("[>] A", "[ ] B")
    told = desk.refuse([parse("[x] A"), {"content": "B", "status": "weird"}])
    assert told == "Item 2 has the status 'weird': use pending, in_progress, completed, cancelled."
    assert desk.rows() == ["[>] A", "[ ] B"]


def test_an_empty_list_clears_unless_something_is_in_progress(desk):
    desk.next("[ ] A", "[>] B")
    assert '"B"' in desk.refuse([])
    desk.next("[ ] A", "[ ] B")
    assert desk.next().endswith('No longer in the list: "A", "B"')
    assert desk.rows() == []


def test_input_store_and_output_are_three_lists(desk):
    todo = desk.todo.Todo("A", "pending")
    given, memory = [todo], {"text:b"}
    desk.store.write(given, memory)
    given.clear()
    memory.clear()
    desk.store.items().clear()
    desk.store.cancelled().clear()
    assert (desk.store.items(), desk.store.cancelled()) == ([todo], {"text:b"})

    sent = [{"content": "B", "status": "pending"}]
    desk.reply()
    desk.send(sent)
    sent[0]["content"] = "other"
    assert desk.rows() == ["[ ] B"]


def test_an_item_cannot_be_changed_in_place(load):
    item = load("todo").Todo("A", "pending")
    assert item.id == ""
    with pytest.raises(FrozenInstanceError):
        item.status = "completed"


def test_the_store_judges_nothing(desk):
    items = [desk.todo.Todo("A", "in_progress"), desk.todo.Todo("A", "in_progress"), desk.todo.Todo("", "weird")]
    desk.store.write(items, set())
    assert desk.store.items() == items


def test_two_agents_share_nothing(load):
    one, other = Desk(load), Desk(load)
    one.next("[-] A")
    assert other.next("[x] A") == "[x] A\n(1/1 completed)"


# What arrives.


ROWS = ["[x] read", "[>] it's “é” (id: 1)"]


@pytest.mark.parametrize("text", [json.dumps, lambda todos: json.dumps(todos, ensure_ascii=False, indent=1), repr])
def test_the_list_may_come_as_text(desk, text):
    desk.reply()
    desk.send(text([parse(row) for row in ROWS]))
    assert desk.rows() == ROWS


@pytest.mark.parametrize(
    "text",
    [
        r'[{"content": "a\/b \ud83d\udc4d", "status": "pending", "id": null}]',  # JSON, and no Python
        r"""({'content': 'a/b \U0001f44d', 'status': "pending", 'id': None},)""",  # Python, and no JSON
    ],
)
def test_either_spelling_will_do(desk, text):
    desk.send(text)
    assert desk.rows() == ["[ ] a/b 👍"]


def test_text_is_never_evaluated(desk, tmp_path):
    canary = tmp_path / "canary"
    told = desk.refuse(f"[{{'content': open({str(canary)!r}, 'w').name, 'status': 'pending'}}]")
    assert not canary.exists()
    assert told == "todos must be a list of objects with content and status: send it as a list, not as text."


NO_LIST = ["", "A, B", "[{", "{'a': 1}", "[{[]: 1}]", "null", "'A'", "3", "[\0]", "[\ud800]", "```json\n[]\n```"]


@pytest.mark.parametrize("text", NO_LIST)
def test_text_that_is_no_list_is_refused(desk, text):
    assert "must be a list" in desk.refuse(text)


HUGE = {
    "lists": '"[" * n',
    "pairs": '"[" * (n // 2) + "]" * (n // 2)',
    "objects": '\'{"a":\' * (n // 5) + "1" + "}" * (n // 5)',
    "brackets": '"(" * n',
    "minus": '"-" * n + "1"',
    "sum": '"+".join(["1"] * (n // 2))',
    "power": '"**".join(["1"] * (n // 3))',
    "not": '"not " * (n // 4) + "1"',
    "if": '"1 if 1 else " * (n // 12) + "1"',
    "names": '"a" + ".b" * (n // 2)',
    "digits": '"[" + "9" * (n - 2) + "]"',
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("size", [20_000, 99_990, 5_000_000])
def test_huge_and_deeply_nested_text_is_refused(desk, text, size):
    assert "must be a list" in desk.refuse(eval(text, {"n": size}))


def test_text_at_the_limit_is_read_and_beyond_it_is_not(desk):
    text = json.dumps([parse("[ ] A")])
    limit = desk.todo.MAX_INPUT
    desk.send(text + " " * (limit - len(text)))
    assert desk.rows() == ["[ ] A"]
    desk.refuse(text + " " * (limit - len(text) + 1))


@pytest.mark.parametrize("item", ["A", None, 3, ["A"], {}, {"content": "A"}, {"status": "pending"}])
def test_an_item_that_is_none_is_refused_by_its_number(desk, item):
    for todos in ([parse("[ ] first"), item], repr([parse("[ ] first"), item])):
        before = desk.state()
        with pytest.raises(desk.ToolError, match=r"[Ii]tem 2\b"):
            desk.send(todos)
        assert desk.state() == before


@pytest.mark.parametrize("content", ["", " \n\t", "\u200b", "\x00\x1b", "[ ]", "[x] [x]", None, {"a": 1}, ["A"], True, 1.5])
def test_an_item_needs_words(desk, content):
    assert desk.refuse([{"content": content, "status": "pending"}]).startswith("Item 1")


@pytest.mark.parametrize("status", ["weird", "done", "", " ", None, True, 1, ["pending"], {"pending": 1}, "x" * 10_000])
def test_an_unknown_status_is_refused_by_name(desk, status):
    told = desk.refuse([{"content": "A", "status": status}])
    assert told.startswith("Item 1") and len(told) < 200
    if status in ("weird", "done"):
        assert repr(status) in told and "pending, in_progress, completed, cancelled" in told


@pytest.mark.parametrize("status", ["in_progress", " IN_PROGRESS\n", "In Progress", "in-progress", "ｉｎ_progress"])
def test_case_and_space_of_a_status_do_not_count(desk, status):
    desk.send([{"content": "A", "status": status}])
    assert desk.rows() == ["[>] A"]


def test_a_field_that_is_unknown_is_refused_by_name(desk):
    told = desk.refuse([{**parse("[ ] A"), "activeForm": "Doing A"}])
    assert "Item 1" in told and "'activeForm'" in told and "content, status, id" in told
    assert desk.refuse("[{'content': 'A', 'status': 'pending', 1: 'A'}]").startswith("Item 1")


def test_a_number_is_as_good_an_id_as_its_digits(desk):
    desk.next("[>] A (id: 0)")
    desk.reply()
    desk.send([{"id": 0, "content": "B", "status": "completed"}])
    assert desk.rows() == ["[x] B (id: 0)"]
    for wrong in (True, 1.5, [1], {"a": 1}):
        assert "'id'" in desk.refuse([{**parse("[ ] C"), "id": wrong}])


def test_a_number_without_end_is_an_error_like_any_other(desk):
    with pytest.raises((desk.ToolError, ValueError)):
        desk.send("[{'content': 'A', 'status': 'pending', 'id': 0x" + "f" * 9000 + "}]")
    assert desk.rows() == []


def test_the_number_of_items_is_bounded(load):
    desk = Desk(load, max_items=3)
    desk.next("[ ] A", "[ ] B", "[ ] C")
    told = desk.refuse_rows("[ ] A", "[ ] B", "[ ] C", "[ ] D")
    assert "4 items, at most 3" in told and "merge" in told
    desk.next("[ ] B", "[ ] C", "[ ] D")


def test_the_length_of_texts_and_ids_is_bounded(load):
    desk = Desk(load, max_chars=5)
    desk.next("[ ] 12345 (id: 12345)", "[ ]    123\n5")
    assert desk.refuse_rows("[ ] A", "[ ] 123456") == "Item 2 has more than 5 characters: say it shorter."
    assert "Item 1" in desk.refuse_rows("[ ] A (id: 123456)")


def test_a_limit_that_was_lowered_since_traps_no_item(load):
    desk = Desk(load, max_chars=5)
    desk.restores["todos"]({"items": [{"content": "a long text", "status": "in_progress", "id": ""}], "cancelled": []})
    desk.next("[x] a long text")
    desk.refuse_rows("[ ] a longer text")


def test_defaults_leave_room_for_real_lists(desk):
    desk.next(*[f"[ ] {str(n).rjust(desk.todo.MAX_CHARS, 'x')}" for n in range(desk.todo.MAX_ITEMS)])
    assert len(desk.rows()) == desk.todo.MAX_ITEMS >= 20
    desk.refuse_rows("[ ] " + "x" * (desk.todo.MAX_CHARS + 1))


# What an item looks like: nothing in a text can pass for another row.

BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("char", [*BREAKS, "\t", "\u3000", "\xa0"], ids=ascii)
def test_white_space_becomes_one_space(desk, char):
    desk.send([{"content": f"{char}A{char}{char}[x] B{char}", "status": "pending", "id": f"1{char}2"}])
    assert desk.rows() == ["[ ] A [x] B (id: 1 2)"]
    assert len(desk.todo.render(desk.store.items()).splitlines()) == 2


UNSEEN = ["\x00", "\x08", "\x1b", "\x7f", "\x9b", "\u200b", "\u202e", "\u2066", "\ufeff", "\ud800"]


@pytest.mark.parametrize("char", UNSEEN, ids=ascii)
def test_what_nobody_sees_is_left_out(desk, char):
    desk.send([{"content": f"{char}A{char}B", "status": "pending", "id": f"1{char}"}])
    assert desk.rows() == ["[ ] AB (id: 1)"]


@pytest.mark.parametrize("mark", ["[x]", "[X]", "[>] ", "[ ]", "[-]", "[x] [ ] ", "[\u200bx] ", "\n[x] "])
def test_a_text_cannot_begin_like_a_row(desk, mark):
    desk.send([{"content": f"{mark}Deploy", "status": "pending"}])
    assert desk.rows() == ["[ ] Deploy"]


def test_no_text_at_all_makes_two_rows_or_none(desk):
    for char in (chr(code) for code in [*range(0x3100), *range(0xD7F0, 0x10000, 13)] if not chr(code).isalnum()):
        item = desk.todo.read_item(1, {"content": f"A{char}[x] B", "status": "pending", "id": f"1{char}[x] B"})
        first, *others = desk.todo.render([item]).splitlines()
        assert first.startswith("[ ] A") and others == ["(0/1 completed)"], ascii(char)
        assert first.isprintable(), ascii(char)


def test_other_scripts_and_brackets_stay(desk):
    desk.send([{"content": "修复 a[x] – naïve 👍", "status": "pending"}])
    assert desk.rows() == ["[ ] 修复 a[x] – naïve 👍"]


# The same item.

SAME = [("Straße", "STRASSE"), ("ﬁx", "FIX"), ("Ａ１", "a1"), ("e\u0301", "é"), ("a  b", "A B"), ("\u200ba", "a")]
SAME += [("ß\u0301", "SS\u0301")]  # composed again only after its case is folded


@pytest.mark.parametrize(("one", "other"), SAME)
def test_texts_that_read_the_same_are_the_same(desk, one, other):
    assert desk.todo.fold(desk.todo.one_line(one)) == desk.todo.fold(desk.todo.one_line(other))
    told = desk.refuse_rows(f"[ ] {one}", "[ ] between", f"[ ] {other}")
    assert told.startswith("Same text or id") and "between" not in told and "Merge them" in told


def test_folding_twice_changes_nothing_more(load):
    fold = load("todo").fold
    for code in range(0x20, 0x30000, 7):
        text = f"a{chr(code)}\u0301B"
        assert fold(fold(text)) == fold(text), ascii(text)


def test_a_list_has_no_doubles(desk):
    assert '"A", "B"' in desk.refuse_rows("[ ] A (id: 1)", "[ ] B (id: 1)")
    assert '"A", "a"' in desk.refuse_rows("[ ] A (id: 1)", "[ ] a (id: 2)")
    assert '"A", "a"' in desk.refuse_rows("[ ] A", "[ ] a (id: 2)")
    assert '"B", "C"' in desk.refuse_rows("[ ] A (id: 1)", "[ ] B (id: t1)", "[ ] C (id: T1)")
    desk.next("[ ] 1", "[ ] A (id: 1)", "[ ] B", "[ ] C")


def test_an_item_keeps_its_past_by_its_id(desk):
    desk.next("[>] A (id: 1)", "[ ] B", "[ ] C")
    desk.next("[x] A, in other words (id: 1)", "[x] B", "[ ] C")


def test_an_item_keeps_its_past_by_its_text(desk):
    desk.next("[>] A (id: 1)", "[ ] B", "[ ] C")
    desk.next("[x] a (id: 9)", "[x] B", "[ ] C")
    desk.next("[x] A", "[x] B", "[>] C (id: 3)")
    desk.next("[x] A", "[x] B", "[x] C")


def test_ids_that_move_up_are_no_offence(desk):
    desk.next("[x] A (id: 1)", "[>] B (id: 2)", "[ ] C (id: 3)", "[ ] D (id: 4)")
    desk.next("[x] B (id: 1)", "[>] C (id: 2)", "[ ] D (id: 3)")
    assert desk.rows() == ["[x] B (id: 1)", "[>] C (id: 2)", "[ ] D (id: 3)"]


def test_text_counts_before_id(desk):
    Todo, match = desk.todo.Todo, desk.todo.match
    a, b = Todo("A", "in_progress", "1"), Todo("B", "pending", "2")
    swapped = [Todo("B", "pending", "1"), Todo("a", "pending", "2")]
    assert match(swapped, [a, b]) == ({swapped[0]: b, swapped[1]: a}, [])
    other = [Todo("C", "pending", "1"), Todo("D", "pending")]
    assert match(other, [a, b]) == ({other[0]: a}, [b])
    assert match([], [a, b]) == ({}, [a, b])
    assert match(other, []) == ({}, [])


def test_an_old_item_is_the_past_of_one_new_item_only(desk):
    Todo, match = desk.todo.Todo, desk.todo.match
    a, b = Todo("A", "in_progress", "1"), Todo("B", "pending")
    new = [Todo("A", "completed"), Todo("more", "completed", "1")]
    assert match(new, [a]) == ({new[0]: a}, [])
    assert match([Todo("C", "pending")], [b]) == ({}, [b]), "no id is no id"


# Progress cannot be faked: one item at most may leap to completed in a reply.


def test_the_incident_nine_of_eleven_at_once(desk):
    desk.next(*[f"[ ] step {n}" for n in range(1, 12)])
    told = desk.refuse_rows(*[f"[x] step {n}" for n in range(1, 10)], "[ ] step 10", "[ ] step 11")
    assert told.startswith("Refused: 9 items")
    assert all(f'"step {n}"' in told for n in range(1, 10)) and '"step 10"' not in told
    assert "in_progress" in told and "later reply" in told


def test_one_honest_step_may_be_recorded_at_once(desk):
    desk.next("[ ] A", "[ ] B", "[ ] C")
    desk.next("[x] A", "[ ] B", "[ ] C")


def test_two_are_refused(desk):
    desk.next("[ ] A", "[ ] B", "[ ] C")
    desk.reply()
    assert '"A", "B"' in desk.refuse_rows("[x] A", "[x] B", "[ ] C")


def test_what_was_in_progress_completes_beside_the_one(desk):
    desk.next("[>] A", "[ ] B", "[ ] C")
    desk.next("[x] A", "[x] B", "[>] C")
    assert desk.next("[x] A", "[x] B", "[x] C") == "[x] A\n[x] B\n[x] C\n(3/3 completed)"


def test_a_new_item_that_arrives_completed_counts(desk):
    assert '"A", "B"' in desk.refuse_rows("[x] A", "[x] B")
    desk.next("[x] A", "[ ] B")
    assert '"B", "C"' in desk.refuse_rows("[x] A", "[x] B", "[x] C")


def test_what_was_opened_again_counts(desk):
    desk.next("[x] A", "[ ] B")
    desk.next("[ ] A", "[ ] B")
    desk.reply()
    assert '"A", "B"' in desk.refuse_rows("[x] A", "[x] B")
    desk.next("[x] A", "[ ] B")


def test_leaving_out_and_adding_again_is_no_way_round(desk):
    desk.next("[ ] A", "[ ] B")
    desk.next()
    desk.reply()
    assert '"A", "B"' in desk.refuse_rows("[x] A", "[x] B")


def test_calls_of_one_reply_cannot_walk_items_through(desk):
    desk.next("[ ] A", "[ ] B", "[ ] C")
    desk.next("[>] A", "[ ] B", "[ ] C")
    desk.next("[x] A", "[>] B", "[ ] C")
    desk.write("[x] A", "[x] B", "[>] C")  # B was not started before this reply: that is the one
    assert '"B", "C"' in desk.refuse_rows("[x] A", "[x] B", "[x] C")
    desk.next("[x] A", "[x] B", "[x] C")


def test_the_one_is_for_the_whole_reply(desk):
    desk.next("[ ] A", "[ ] B", "[ ] C")
    desk.next("[x] A", "[ ] B", "[ ] C")
    for rows in (
        ["[x] A", "[x] B", "[ ] C"],
        ["[ ] A", "[x] B", "[ ] C"],  # set back
        ["[-] A", "[x] B", "[ ] C"],  # set aside
        ["[x] B", "[ ] C"],  # left out
        ["[x] D", "[ ] B", "[ ] C"],  # another one in its place
    ):
        told = desk.refuse_rows(*rows)
        assert told.startswith("Refused: 2 items") and '"A"' in told
    desk.write("[x] A", "[>] B", "[ ] C")
    desk.next("[x] A", "[x] B", "[ ] C")


def test_an_id_that_wanders_over_the_calls_of_a_reply_makes_no_two_items_one(desk):
    desk.next("[ ] A", "[ ] B", "[ ] C", "[ ] D")
    desk.next("[x] A (id: 1)", "[ ] B", "[ ] C", "[ ] D")
    told = desk.refuse_rows("[x] B (id: 1)", "[ ] C", "[ ] D")
    assert told.startswith("Refused: 2 items") and '"A", "B"' in told
    desk.write("[ ] B (id: 1)", "[ ] C", "[ ] D")
    desk.refuse_rows("[ ] B", "[x] C (id: 1)", "[ ] D")
    desk.next("[x] B (id: 1)", "[ ] C", "[ ] D")


def test_a_refused_call_does_not_use_up_the_one(desk):
    desk.next("[ ] A", "[ ] B")
    desk.reply()
    desk.refuse_rows("[x] A", "[x] B")
    desk.write("[ ] A", "[x] B")


def test_the_same_one_may_be_written_again_in_its_reply(desk):
    desk.next("[ ] A (id: 1)", "[ ] B")
    desk.next("[x] A (id: 1)", "[ ] B", "[ ] C")
    desk.write("[x] A (id: 1)", "[ ] C", "[ ] B")
    desk.write("[x] A in other words (id: 1)", "[>] B")


def test_one_in_progress_cannot_vouch_for_two(desk):
    desk.next("[>] A (id: 1)", "[ ] B", "[ ] C")
    desk.reply()
    told = desk.refuse_rows("[x] A", "[x] more (id: 1)", "[x] B", "[ ] C")
    assert '"more", "B"' in told
    desk.write("[x] A", "[x] more (id: 1)", "[ ] B", "[ ] C")


def test_one_completed_cannot_vouch_for_another(desk):
    desk.next("[x] A (id: 1)", "[ ] B", "[ ] C")
    desk.reply()
    assert '"B", "C"' in desk.refuse_rows("[x] A", "[x] B (id: 1)", "[x] C")


def test_the_threshold_is_a_parameter(load):
    strict, loose = Desk(load, max_unstarted=0), Desk(load, max_unstarted=2)
    strict.next("[ ] A", "[ ] B")
    assert "at most 0 may" in strict.refuse_rows("[x] A", "[ ] B")
    strict.next("[>] A", "[ ] B")
    strict.next("[x] A", "[ ] B")
    loose.next("[x] A", "[x] B", "[ ] C")
    assert "at most 2 may" in loose.refuse_rows("[x] A", "[x] B", "[x] C")


# What was cancelled stays cancelled until it is opened again.


@pytest.mark.parametrize("again", ["[x] A (id: 1)", "[x] a (id: 7)", "[x] A", "[x] other words (id: 1)"])
def test_what_was_cancelled_cannot_become_completed(desk, again):
    desk.next("[-] A (id: 1)", "[ ] B")
    desk.reply()
    told = desk.refuse_rows(again, "[ ] B")
    assert told.startswith("Refused: what was cancelled") and f'"{parse(again)["content"]}"' in told
    assert "pending or in_progress" in told

    desk.next("[ ] B")  # left out
    desk.reply()
    desk.refuse_rows(again, "[ ] B")
    desk.next()  # and the list cleared
    desk.reply()
    desk.refuse_rows(again)


def test_what_was_cancelled_without_an_id_is_known_by_its_text(desk):
    desk.next("[-] A")
    desk.reply()
    desk.refuse_rows("[x] a (id: 3)")


def test_what_was_cancelled_can_be_taken_up_again(desk):
    for again in ("[ ] A (id: 1)", "[>] A (id: 1)"):
        desk.next("[-] A (id: 1)")
        desk.next(again)
        assert desk.store.cancelled() == set()
        desk.next("[x] A (id: 1)")


def test_taking_it_up_under_a_new_id_frees_the_text_and_not_the_old_id(desk):
    desk.next("[-] A (id: 1)")
    desk.next("[>] A (id: 2)")
    desk.reply()
    desk.refuse_rows("[x] A (id: 1)")
    desk.write("[x] A (id: 2)")


def test_giving_the_id_to_other_work_does_not_free_the_text(desk):
    desk.next("[-] A (id: 1)")
    desk.next("[>] C (id: 1)")
    desk.reply()
    desk.refuse_rows("[x] A", "[>] C (id: 1)")
    desk.write("[x] C (id: 1)")


def test_taking_it_up_and_completing_it_takes_two_replies(desk):
    desk.next("[-] A")
    desk.next("[>] A")
    assert "cancelled" in desk.refuse_rows("[x] A")
    desk.next("[x] A")


def test_cancelled_and_completed_in_one_reply_is_refused_too(desk):
    desk.next("[>] A", "[ ] B")
    desk.next("[-] A", "[ ] B")
    assert "cancelled" in desk.refuse_rows("[x] A", "[ ] B")


def test_what_is_completed_may_be_cancelled(desk):
    desk.next("[x] A")
    desk.next("[-] A")
    desk.reply()
    desk.refuse_rows("[x] A")


# What is in progress cannot just vanish.


@pytest.mark.parametrize("rest", [[], ["[ ] B"], ["[ ] B", "[>] C"], ["[ ] A, in other words"], ["[ ] B (id: 1)"]])
def test_what_is_in_progress_cannot_just_vanish(desk, rest):
    desk.next("[>] A (id: 1)", "[ ] B")
    desk.reply()
    told = desk.refuse_rows(*rest)
    assert told.startswith('Refused: "A" is in_progress and cannot just vanish')
    assert "completed, cancelled or pending" in told


@pytest.mark.parametrize("rest", [["[x] A"], ["[-] A"], ["[ ] A"], ["[>] A"], ["[ ] other words (id: 1)", "[>] B"]])
def test_it_may_be_completed_cancelled_or_put_back(desk, rest):
    desk.next("[>] A (id: 1)", "[ ] B")
    desk.next(*rest)


def test_put_back_it_may_be_left_out(desk):
    desk.next("[>] A", "[ ] B")
    desk.write("[ ] A", "[ ] B")
    assert desk.write("[ ] B").endswith('No longer in the list: "A"')


def test_reworded_without_an_id_it_is_cancelled_and_added(desk):
    desk.next("[>] A", "[ ] B")
    desk.reply()
    assert "cancel it and add another" in desk.refuse_rows("[>] A, in other words", "[ ] B")
    desk.write("[-] A", "[>] A, in other words", "[ ] B")
    desk.next("[x] A, in other words", "[ ] B")


# Shown, announced, taken back.


def test_a_change_is_shown_and_announced(desk):
    answer = desk.next("[ ] A")
    assert desk.shown == [("todos", {"text": textwrap.indent(answer, "    ")})]
    assert [name for name, _ in desk.announced] == ["todos"]
    desk.next("[ ] A")
    assert len(desk.shown) == len(desk.announced) == 1
    desk.next("[>] A")
    assert len(desk.shown) == len(desk.announced) == 2
    assert desk.next("[ ] B", "[ ] A").startswith("[ ] B")
    desk.next("[ ] A", "[ ] B")
    assert len(desk.shown) == len(desk.announced) == 4


def test_the_person_sees_what_vanished(desk):
    desk.next("[ ] A", "[ ] B")
    desk.next("[ ] B")
    assert desk.shown[-1][1]["text"].endswith('No longer in the list: "A"')


def test_the_list_is_announced_when_it_stands(desk):
    seen = []
    desk.changed = lambda name, value: seen.append(desk.rows())
    desk.next("[ ] A")
    assert seen == [["[ ] A"]]


def test_what_was_announced_can_be_taken_back(load):
    one, other = Desk(load), Desk(load)
    one.next("[-] A (id: 1)", "[>] B")
    one.next("[>] B", "[ ] C (id: 3)")
    other.restores["todos"](one.announced[-1][1])
    assert other.rows() == ["[>] B", "[ ] C (id: 3)"]
    assert other.store.items() == one.store.items() and other.store.cancelled() == one.store.cancelled()
    assert other.announced == other.shown == []
    other.reply()
    for faked in ("[x] A", "[x] Z (id: 1)"):
        assert "cancelled" in other.refuse_rows("[>] B", faked)
    other.write("[x] B", "[x] C (id: 3)")
    other.restores["todos"](None)
    assert other.rows() == [] and other.store.cancelled() == set()


def test_a_list_that_was_taken_back_is_a_list_of_its_own(load):
    one = Desk(load)
    value = {"items": [{"content": "A", "status": "pending", "id": ""}], "cancelled": ["text:b"]}
    one.restores["todos"](value)
    value["items"][0]["content"] = "other"
    value["cancelled"].clear()
    assert one.rows() == ["[ ] A"] and one.store.cancelled() == {"text:b"}


# The reminder.


def test_reminds_after_three_turns_without_a_write(desk):
    desk.next("[>] A", "[ ] B")
    for _ in range(3):
        desk.turn()
        assert desk.notes == []
    desk.before_model()
    assert [kind for kind, _ in desk.notes] == ["todo"]
    assert "3 turns" in desk.notes[0][1] and "todo_write" in desk.notes[0][1]


def test_the_counter_restarts_when_the_reminder_is_sent(desk):
    desk.next("[>] A")
    counts = []
    for _ in range(10):
        desk.turn()
        counts.append(len(desk.notes))
    assert counts == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_a_write_restarts_the_counter_even_without_a_change(desk):
    desk.next("[>] A")
    for _ in range(3):
        desk.turn()
    desk.write("[>] A")
    for _ in range(3):
        desk.turn()
    assert desk.notes == []
    desk.turn()
    assert len(desk.notes) == 1


def test_a_refused_call_does_not_restart_the_counter(desk):
    desk.next("[>] A")
    for _ in range(3):
        desk.turn()
        desk.refuse([])
        desk.refuse("nonsense")
    desk.turn()
    assert len(desk.notes) == 1


def test_a_new_prompt_does_not_restart_the_counter(desk):
    desk.next("[>] A")
    for _ in range(4):
        desk.hooks.fire(desk.events.UserPromptSubmit(desk, "and now?"))
        desk.turn()
        desk.hooks.fire(desk.events.RunEnd(desk, None))
    assert len(desk.notes) == 1


@pytest.mark.parametrize("rows", [[], ["[x] A"], ["[x] A", "[-] B"]])
def test_no_reminder_without_open_items(desk, rows):
    desk.next(*rows)
    for _ in range(10):
        desk.turn()
    assert desk.notes == []


def test_turns_before_there_was_a_list_do_not_count(desk):
    for _ in range(10):
        desk.turn()
    desk.next("[ ] A")
    for _ in range(3):
        desk.turn()
    assert desk.notes == []


def test_a_list_that_was_taken_back_is_reminded_of(desk):
    desk.restores["todos"]({"items": [{"content": "A", "status": "pending", "id": ""}], "cancelled": []})
    for _ in range(3):
        desk.turn()
    assert desk.notes == []
    desk.turn()
    assert len(desk.notes) == 1


def test_when_to_remind_is_a_parameter(load):
    desk = Desk(load, remind_after=1)
    desk.next("[ ] A")
    desk.turn()
    desk.before_model()
    assert len(desk.notes) == 1


# What the model is told.


def test_the_section_says_when_a_list_is_worth_it_and_when_not(load):
    section = Desk(load).sections["todo"]
    assert "todo_write" in section and "three or more steps" in section and "Use none for" in section
    assert Desk(load, section="Other words.").sections == {"todo": "Other words."}


def test_the_tool_changes_nothing_but_the_list_and_says_so(desk):
    tool = desk.tools["todo_write"]
    assert tool.read_only
    todos = tool.schema["properties"]["todos"]
    assert todos["type"] == ["array", "string"]
    assert todos["items"]["properties"]["status"]["enum"] == ["pending", "in_progress", "completed", "cancelled"]
    assert {field["type"] for field in todos["items"]["properties"].values()} == {"string"}
    for schema, required in ((tool.schema, ["todos"]), (todos["items"], ["content", "status"])):
        assert schema["type"] == "object" and schema["required"] == required
        assert schema["additionalProperties"] is False


# Whatever a model sends, in any order.


class Walk:
    """A random walk: what was allowed is held against a bookkeeping of its own, simpler than the rules."""

    def __init__(self, load, seed):
        self.desk, self.random = Desk(load), random.Random(seed)
        self.dead = set()  # keys cancelled and not opened since
        self.begin()

    def begin(self):
        self.desk.reply()
        self.before, self.dead_before = self.desk.store.items(), set(self.dead)
        self.leapt = set()  # texts that were there before the reply, not started, and are completed since

    def any_list(self):
        """Return some list: from nowhere, or the present one with a few things changed."""
        pick = self.random
        words, ids = ["A", "b", "B", "C", "D", "E"], ["", "", "", "1", "2", "3"]
        items = [{"content": t.content, "status": t.status, "id": t.id} for t in self.desk.store.items()]
        waiting = [item for item in items if item["status"] == "pending"]
        if waiting and pick.random() < 0.3:  # one is done under the id of another one, which is left out
            gone = [item for item in items if item["status"] == "completed" and item["id"] == "1"]
            pick.choice(waiting).update(status="completed", id="1")
            return [item for item in items if item not in gone]
        if pick.random() < 0.3:
            items = []
        for _ in range(pick.randint(0, 3)):
            move = pick.randrange(5)
            if move == 0 and items:
                items.pop(pick.randrange(len(items)))
            elif move == 1 and items:
                pick.choice(items)["content"] = pick.choice(words)
            elif move == 2 and items:
                pick.choice(items)["id"] = pick.choice(ids)
            elif move == 3 and items:
                pick.choice(items)["status"] = pick.choice(list(STATUS.values()))
            else:
                status = pick.choice(list(STATUS.values()))
                items.append({"content": pick.choice(words), "status": status, "id": pick.choice(ids)})
        return items

    def call(self):
        desk, old = self.desk, self.desk.store.items()
        todos, state = self.any_list(), self.desk.state()
        try:
            answer = desk.send(todos)
        except desk.ToolError:
            assert desk.state() == state
            return False
        self.check(old, desk.store.items(), answer)
        return True

    def check(self, old, new, answer):
        assert sum(t.status == "in_progress" for t in new) <= 1
        for names in ([t.content.casefold() for t in new], [t.id for t in new if t.id]):
            assert len(set(names)) == len(names)
        started = [t for t in self.before if t.status in ("in_progress", "completed")]
        done = [t for t in new if t.status == "completed"]
        assert len(done) <= len(started) + 1, "more is completed than was started, and one"
        names = [{t.content.casefold()} | ({t.id} - {""}) for t in started]
        assert sum(not any({t.content.casefold(), t.id} & known for known in names) for t in done) <= 1
        unstarted = {t.content.casefold() for t in self.before if t not in started}
        self.leapt |= unstarted & {t.content.casefold() for t in done}
        assert len(self.leapt) <= 1, "two leapt in one reply"
        for t in done:
            assert not keys_of(t) & (self.dead | self.dead_before), "what was cancelled came back completed"
        for t in old:
            if t.status == "in_progress":
                assert any(keys_of(t) & keys_of(other) for other in new), "what was in progress vanished"
            if t.content.casefold() not in {other.content.casefold() for other in new}:
                assert f'"{t.content}"' in answer.partition("No longer in the list")[2]
        for t in new:
            self.dead = self.dead | keys_of(t) if t.status == "cancelled" else self.dead - keys_of(t)
        assert answer.splitlines()[: len(new)] == [self.desk.todo.row(t) for t in new]


def keys_of(item):
    return {("text", item.content.casefold())} | ({("id", item.id)} if item.id else set())


SEEDS = range(25)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_walk_breaks_the_rules(load, seed):
    walk = Walk(load, seed)
    allowed = 0
    for _ in range(60):
        walk.begin()
        allowed += sum(walk.call() for _ in range(walk.random.randint(1, 4)))
    assert 20 < allowed < 200, "the walk should see both: what is allowed and what is not"


def as_sent(items, **statuses):
    """Return the list as a model would send it, with the status of some contents changed."""
    return [{"content": t.content, "id": t.id, "status": statuses.get(t.content, t.status)} for t in items]


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_always_a_legal_next_move(load, seed):
    """From wherever a walk leads, in the middle of a reply too, honest steps alone lead to an end where all is done."""
    walk = Walk(load, 1000 + seed)
    desk = walk.desk
    for _ in range(12):
        for _ in range(5):
            walk.begin()
            for _ in range(walk.random.randint(1, 3)):
                walk.call()
        desk.send(as_sent(desk.store.items()))  # the list as it stands is always allowed
        stood = desk.store.items(), desk.store.cancelled()

        desk.send(as_sent(desk.store.items(), **{t.content: "pending" for t in stood[0] if t.status == "in_progress"}))
        for item in [t for t in desk.store.items() if t.status != "completed"]:
            for status in ("in_progress", "completed"):
                desk.reply()
                desk.send(as_sent(desk.store.items(), **{item.content: status}))
        assert {t.status for t in desk.store.items()} <= {"completed"}

        desk.reply()
        desk.send([])
        desk.store.write(*stood)
        walk.dead = {("text" if key.startswith("text:") else "id", key.partition(":")[2]) for key in stood[1]}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_walk_can_be_taken_back_at_any_point(load, seed):
    """The last value announced is the whole state: after it, both lists refuse and allow the same."""
    walk = Walk(load, 2000 + seed)
    for _ in range(40):
        walk.begin()
        walk.call()
    twin = Desk(load)
    if walk.desk.announced:
        twin.restores["todos"](walk.desk.announced[-1][1])
    for _ in range(40):
        todos = walk.any_list()
        outcomes = []
        for desk in (walk.desk, twin):
            desk.reply()
            try:
                outcomes.append(desk.send(todos))
            except desk.ToolError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


# Through a whole agent.


def todos(*rows):
    return Call("todo_write", todos=[parse(row) for row in rows])


def results(agent):
    return [b for m in agent.history.messages for b in m["content"] if b["type"] == "tool_result"]


def test_a_faked_list_is_refused_and_the_run_goes_on(chapter):
    steps = [f"step {n}" for n in range(1, 12)]
    agent = chapter.agent(
        talk(
            "go",
            Step(calls=[todos(*[f"[ ] {step}" for step in steps])]),
            Step(calls=[todos(*[f"[x] {step}" for step in steps[:9]], "[ ] step 10", "[ ] step 11")]),
            Step(calls=[todos("[>] step 1", *[f"[ ] {step}" for step in steps[1:]])]),
            Step("One after the other, then."),
        ),
        ask=None,  # nobody is asked, since only the list changes
    )
    assert chapter.run(agent, "go").reason == "end_turn"
    first, faked, honest = results(agent)
    assert not first.get("is_error") and first["content"].endswith("(0/11 completed)")
    assert faked["is_error"] and faked["content"].startswith("Refused: 9 items")
    assert not honest.get("is_error") and honest["content"].startswith("[>] step 1\n[ ] step 2")
    drawn = [textwrap.dedent(data["text"]) for kind, data in chapter.shown if kind == "todos"]
    assert drawn == [first["content"], honest["content"]]
    assert agent.model.script.problems == []


def test_several_calls_of_one_reply_are_held_against_the_list_before_it(chapter):
    walk = [todos("[>] A", "[ ] B"), todos("[x] A", "[>] B"), todos("[x] A", "[x] B")]
    agent = chapter.agent(talk("go", Step(calls=[todos("[ ] A", "[ ] B")]), Step(calls=walk), Step("Well.")))
    chapter.run(agent, "go")
    assert [bool(block.get("is_error")) for block in results(agent)] == [False, False, False, True]


def test_a_list_in_any_spelling_comes_through(chapter):
    rows = [parse("[ ] it's A"), parse("[>] B")]
    calls = [Call("todo_write", todos=text) for text in (repr(rows), json.dumps(rows), "[", [*map(json.dumps, rows)])]
    agent = chapter.agent(talk("go", Step(calls=calls), Step("Well.")))
    chapter.run(agent, "go")
    assert [block["content"].split("\n")[0] for block in results(agent)] == [
        "[ ] it's A",
        "[ ] it's A",
        "todos must be a list of objects with content and status: send it as a list, not as text.",
        "[ ] it's A",
    ]


def test_the_reminder_comes_after_the_results_and_across_prompts(chapter):
    look = Step(calls=[Call("bash", command="echo")])
    agent = chapter.agent(
        talk("go", Step(calls=[todos("[>] A", "[ ] B", "[-] C")]), look, Step("So far.")),
        talk("go on", look, Step("Reminded.")),
    )
    chapter.run(agent, "go")
    chapter.run(agent, "go on")
    *earlier, last = [record.body["messages"] for record in agent.model.script.requests]
    assert "todo_write for" not in json.dumps(earlier)
    result, note = last[-1]["content"]
    assert result["type"] == "tool_result"
    assert re.fullmatch(r"<system-reminder>\n[^\n]* 3 turns[^\n]*\n\[>\] A\n\[ \] B\n</system-reminder>", note["text"])


def test_the_agent_announces_the_list_and_takes_it_back(chapter):
    agent = chapter.agent(talk("go", Step(calls=[todos("[-] A", "[>] B")]), Step("Well.")))
    heard = []
    agent.changed = lambda name, value: heard.append((name, value))
    chapter.run(agent, "go")
    [value] = [value for name, value in heard if name == "todos"]

    other = chapter.agent(talk("go", Step(calls=[todos("[x] A", "[>] B")]), Step(calls=[todos("[x] B")]), Step("Well.")))
    other.restores["todos"](json.loads(json.dumps(value)))
    chapter.run(other, "go")
    faked, honest = results(other)
    assert faked["is_error"] and '"A"' in faked["content"]
    assert not honest.get("is_error")


def test_the_prompt_says_when_to_keep_a_list(chapter):
    agent = chapter.agent(talk("go", Step("Well.")))
    chapter.run(agent, "go")
    [record] = agent.model.script.requests
    assert json.dumps(record.body["system"]).count("Keep a list with todo_write") == 1
    assert "todo_write" in [tool["name"] for tool in record.body["tools"]]
