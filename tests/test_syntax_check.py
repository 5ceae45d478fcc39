"""Python that does not compile is told at once, and asked about once when the model wants to stop."""

from __future__ import annotations

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step


@pytest.mark.parametrize(
    ("text", "found"),
    [(b"x = 1\n", ""), (b"def f(:\n", "line 1"), (b"x = 1\n  y = 2\n", "line 2"), (b"\0", "null"), (b"x = '\xff'\n", "line 1"), (b"", "")],
)
def test_what_does_not_compile_is_named_with_its_line(load, tmp_path, text, found):
    (tmp_path / "a.py").write_bytes(text)
    said = load("syntax_check").syntax_error(tmp_path / "a.py")
    assert (found in said) if found else said == ""


def test_a_file_that_is_gone_is_no_fault(load, tmp_path):
    assert load("syntax_check").syntax_error(tmp_path / "gone.py") == ""


def write(path, content):
    return Step(calls=[Call("write_file", path=path, content=content)])


def objections(agent):
    """What the model was told when it wanted to stop: a user message without results, after the first one."""
    later = [m["content"] for m in agent.history.messages[1:] if m["role"] == "user"]
    alone = [content for content in later if all(block["type"] == "text" for block in content)]
    return [block["text"] for content in alone for block in content if ".py" in block["text"]]


def run(chapter, agent):
    """Run the prompt, and see that no hook failed on the way."""
    outcome = chapter.run(agent, "go")
    assert [data["text"] for kind, data in chapter.shown if kind == "notice" and "[the hook" in data["text"]] == []
    return outcome


def test_the_model_is_told_and_held_until_it_is_mended(chapter):
    agent = chapter.agent(talk("go", write("a.py", "def f(:\n"), Step("Done."), write("a.py", "def f(): pass\n"), Step("Mended.")))
    outcome = run(chapter, agent)
    assert (outcome.text, outcome.turns) == ("Mended.", 4)
    told = agent.history.messages[2]["content"][-1]["text"]
    assert "a.py does not compile" in told and "line 1" in told
    (said,) = objections(agent)
    what_to_do = said.partition("line 1")[2].removesuffix("</system-reminder>").strip(". \n")
    assert what_to_do, "an objection also says what would satisfy it"


def test_but_it_is_asked_only_once(chapter):
    agent = chapter.agent(talk("go", write("a.py", "print 'two'\n"), Step("Done."), Step("It is Python 2, and has to be so.")))
    outcome = run(chapter, agent)
    assert (outcome.reason, outcome.turns) == ("end_turn", 3)
    assert len(objections(agent)) == 1


def test_other_files_and_failed_writes_are_none_of_its_business(chapter):
    agent = chapter.agent(talk("go", write("a.txt", "def f(:\n"), write("../a.py", "def f(:\n"), Step("Done.")))
    assert run(chapter, agent).turns == 3
    assert objections(agent) == []


def test_what_compiles_is_not_objected_to(chapter):
    agent = chapter.agent(talk("go", write("a.py", "x = 1\n"), Step("Done.")))
    assert run(chapter, agent).turns == 2
    assert objections(agent) == []


def test_another_fault_in_the_same_file_is_asked_about_too(chapter):
    steps = [write("a.py", "def f(:\n"), Step("Done."), write("a.py", "x = 1\n  y = 2\n"), Step("Now it is."), Step("It has to be so.")]
    agent = chapter.agent(talk("go", *steps))
    assert run(chapter, agent).turns == 5
    assert len(objections(agent)) == 2


def test_a_reply_that_was_cut_off_is_not_asked_about(chapter):
    agent = chapter.bare(chapter.agent(talk("go", write("a.py", "def f(:\n"), Step("Half an", stop_reason="max_tokens"))))
    assert run(chapter, agent).reason == "max_tokens"
    assert objections(agent) == []
