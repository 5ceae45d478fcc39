"""The terminal: quiet lines and what was behind them, a status line, long messages, and what the line editor does."""

from __future__ import annotations

import io
import os
import re
import sys
from types import SimpleNamespace

import pytest
from conftest import chapters_with
from conftest import talk
from test_main import CTRL_C
from test_main import CTRL_D
from test_main import PROMPT
from test_main import Terminal
from test_main import prompts
from test_main import place  # noqa: F401  (fixtures)
from test_main import serve  # noqa: F401
from test_main import start  # noqa: F401
from test_shell import POSIX

from offline_model.script import Call
from offline_model.script import Step

LATEST = ["", *chapters_with("terminal")][-1]
CALL = {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "ls -l"}}


class Commands:
    """Stands in for an agent: keeps the commands."""

    def __init__(self):
        self.commands = {}

    def command(self, name, help, function):
        self.commands[name] = help, function


class Out:
    """Standard output as it is at that moment: a test has another one than its fixtures."""

    def write(self, text):
        sys.stdout.write(text)

    def flush(self):
        sys.stdout.flush()

    def isatty(self):
        return False


@pytest.fixture
def desk(load):
    """Return a terminal that works for an agent."""
    terminal = load("terminal").Terminal()
    terminal.side = terminal.words = Out()
    terminal.serve(Commands(), lambda: "")
    return terminal


def answer(terminal, text, call=CALL, is_error=False):
    terminal.show("tool_call", call=call)
    terminal.show("tool_result", call=call, text=text, facts={}, is_error=is_error)


def more(terminal, rest=""):
    terminal.agent.commands["more"][1](rest)


# What is shown, and the rest of it


def test_a_call_takes_two_lines_and_more_shows_the_rest(desk, capsys):
    answer(desk, "one\ntwo\nthree\n[exit status 0]")
    assert capsys.readouterr().out == "  bash  ls -l\n    three  (and 2 more)  [exit status 0]\n"
    more(desk)
    assert capsys.readouterr().out == "  bash  ls -l\n    one\n    two\n    three\n    [exit status 0]\n"


def test_the_latest_result_is_the_first(desk, capsys):
    for text in ("old", "new\x1b[2J"):
        answer(desk, text)
    capsys.readouterr()
    more(desk, "2")
    assert "    old\n" in capsys.readouterr().out
    more(desk, "1")
    assert capsys.readouterr().out.endswith("    new[2J\n")  # nothing in it drives the terminal
    more(desk, "list")
    assert capsys.readouterr().out == "  1  bash  ls -l  (1 lines)\n  2  bash  ls -l  (1 lines)\n"


@pytest.mark.parametrize("rest", ["3", "0", "-1", "x", "1 2", "²", "1.0"])
def test_more_of_what_is_not_there_says_what_is(desk, capsys, rest):
    answer(desk, "a")
    answer(desk, "b")
    capsys.readouterr()
    more(desk, rest)
    assert "there are 1 (the latest) to 2" in capsys.readouterr().out


def test_more_of_nothing(desk, capsys):
    more(desk)
    assert "none yet" in capsys.readouterr().out
    more(desk, "list")
    assert "no tool has answered yet" in capsys.readouterr().out


def test_only_so_much_is_kept(desk, load):
    module = load("terminal")
    for number in range(module.KEPT_RESULTS + 5):
        answer(desk, f"{number}:" + "x" * (module.KEPT_CHARS + 1))
    assert len(desk.results) == module.KEPT_RESULTS
    assert desk.results[0].text.startswith("5:") and len(desk.results[0].text) == module.KEPT_CHARS


def test_everything_else_is_shown_as_before(load, capsys):
    terminal, console = load("terminal").Terminal(), load("console").Console()
    for each in (terminal, console):
        each.show("text", text="Hello")
        each.show("thinking", text="hm")
        each.show("todo", text="[x] a")
        answer(each, "drawn already")
        each.show("discard", reason="cut off")
        each.show("notice", text="  [said]")
    first, second = [out for out in [capsys.readouterr().out] for out in (out[: len(out) // 2], out[len(out) // 2 :])]
    assert first == second and "[x] a" in first


# The status line


def test_the_status_line_is_cut_to_the_width_and_can_be_missing(desk, capsys):
    desk.width = 10
    desk.tell_status()
    assert capsys.readouterr().out == ""
    desk.status = lambda: "model · plan mode · context 3%"
    desk.tell_status()
    assert capsys.readouterr().out == "model · p…\n"


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "is_dim"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)]
)
def test_colour_only_where_it_is_wanted(load, monkeypatch, environment, is_dim):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Screen())
    terminal = load("terminal").Terminal()
    terminal.status = lambda: "model"
    terminal.tell_status()
    assert ("\x1b" in sys.stdout.getvalue()) == is_dim and "model" in sys.stdout.getvalue()


def test_another_code_page_spoils_nothing(load, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "cp1252", errors="replace", newline="\n"))
    terminal = load("terminal").Terminal()
    terminal.serve(Commands(), lambda: "model · 12%")
    terminal.tell_status()
    answer(terminal, "☃ snow\n…")
    more(terminal)
    assert raw.getvalue().decode("cp1252").startswith("model · 12%\n") and b"? snow" in raw.getvalue()


# What the person types


@pytest.fixture
def typed(load, monkeypatch):
    """Return ``typed(*lines, pasted=…)``: what read() makes of lines; the first ``pasted`` of them come at once."""

    def typed(*lines, pasted=0, marks_pastes=False):
        module = load("terminal")
        terminal, waiting = module.Terminal(), list(lines)
        terminal.marks_pastes = marks_pastes
        prompts = []

        def ask(prompt):
            prompts.append(prompt)
            line = waiting.pop(0)
            if isinstance(line, type):
                raise line
            return line

        monkeypatch.setattr(terminal, "ask", ask)
        monkeypatch.setattr(module, "more_waits", lambda pause: len(lines) - len(waiting) < pasted)
        return terminal.read(), prompts

    return typed


def test_a_line_is_a_message(typed):
    assert typed("  hello ", "not this") == ("hello", ["> "])
    assert typed("") == ("", ["> "])


def test_a_backslash_at_the_end_goes_on(typed):
    assert typed("one \\", "", "two\\", "three", "not this") == ("one", ["> ", ". "])
    assert typed("one \\", "two\\", "three", "not this") == ("one \ntwo\nthree", ["> ", ". ", ". "])


def test_two_backslashes_are_one_that_is_meant(typed):
    assert typed("C:\\dir\\\\", "not this")[0] == "C:\\dir\\\\"
    assert typed("x\\\\\\", "y")[0] == "x\\\\\ny"


def test_lines_that_arrive_together_are_one_message(typed):
    assert typed("one", "", "two\\", "three", "not this", pasted=4)[0] == "one\n\ntwo\\\nthree"
    assert typed("one", "two", "not this", pasted=3, marks_pastes=True)[0] == "one"  # typed ahead: the paste is marked


def test_the_end_of_input_ends_the_message_and_then_the_session(typed):
    assert typed("one\\", EOFError)[0] == "one"
    with pytest.raises(EOFError):
        typed(EOFError)


def test_ctrl_c_throws_the_message_away(typed):
    with pytest.raises(KeyboardInterrupt):
        typed("one\\", KeyboardInterrupt)


def test_commands_are_completed(load):
    matches = load("terminal").matches
    names = ["plan", "prompt", "help"]
    assert matches("/p", names) == ["/plan ", "/prompt "]
    assert matches("/plan", names) == ["/plan "] and matches("/x", names) == [] and len(matches("/", names)) == 3


def test_only_the_first_word_is_completed(desk):
    desk.agent.command("moreover", "", None)
    desk.editor = SimpleNamespace(get_begidx=lambda: 0)
    assert [desk.complete("/mor", number) for number in range(3)] == ["/more ", "/moreover ", None]
    assert desk.complete("mor", 0) is None
    desk.editor = SimpleNamespace(get_begidx=lambda: 5)
    assert desk.complete("/mor", 0) is None


@pytest.mark.parametrize(("version", "knows"), [("8.2", True), ("7.0", True), ("6.3", False), ("", False), ("x.1", False), ("10.1", True)])
def test_which_line_editor_knows_pastes(load, version, knows):
    assert load("terminal").knows_pastes(version) == knows


def test_the_history_takes_whatever_was_typed(load, monkeypatch):
    terminal, kept = load("terminal").Terminal(), []

    def add_history(text):
        text.encode("ascii")
        kept.append(text)

    terminal.editor = SimpleNamespace(add_history=add_history)
    lines = ["ok", "\ufffd", "  "]
    monkeypatch.setattr(terminal, "ask", lambda prompt: lines.pop(0))
    assert [terminal.read() for _ in range(3)] == ["ok", "\ufffd", ""] and kept == ["ok"]


def test_where_more_waits(load, monkeypatch):
    more_waits = load("terminal").more_waits
    for stdin in (None, io.StringIO("text")):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert more_waits(0) is False
    if not POSIX:
        return
    master, slave = os.openpty()
    with open(slave, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert more_waits(0.01) is False
        os.write(master, b"x\n")
        assert more_waits(5) is True
    os.close(master)


# On a terminal


def test_a_day_at_the_keyboard(start, serve, place):  # noqa: F811
    """A paste with its marks, a backslash, Tab, the arrow for the last prompt, Ctrl-C at the prompt, /more, /exit."""
    if not POSIX:
        return
    many = Call("bash", command="echo; pwd; pwd; pwd")
    server, environment = serve(
        talk("first\nsecond", Step("Both.")),
        talk("a\nb", Step("Long.")),
        talk("look", Step("I look.", calls=[many]), Step("Seen.")),
    )
    environment["TERM"] = "xterm"
    terminal = Terminal(start, LATEST, "--workdir", str(place / "work"), environment=environment)
    assert "offline-model · context" in terminal.expect("> ")
    terminal.type("\x1b[200~first\nsecond\x1b[201~")
    terminal.type("\r")
    terminal.expect("Both.")
    assert "tokens, " in terminal.expect("> ")
    terminal.type("a\\\r")
    terminal.expect(". ")
    terminal.type("b\r")
    terminal.expect("Long.")
    terminal.expect("> ")
    terminal.type("/cos\t\r")
    assert "from the cache" in terminal.expect("> ")
    terminal.type("look\r")
    terminal.expect("bash wants to run")
    terminal.type("y\r")
    terminal.expect("Seen.")
    terminal.expect("> ")
    terminal.type("/more\r")
    assert terminal.expect("[exit status 0]").count(str(place / "work")) == 3
    terminal.expect("> ")
    terminal.type("\x1b[A\x1b[A\r")  # not the "y": an answer is no prompt
    terminal.expect("bash wants to run")
    terminal.type("n\r")
    terminal.expect("Seen.")
    terminal.expect("> ")
    terminal.type("half a" + CTRL_C)
    terminal.expect("once more")
    terminal.expect("> ")
    terminal.type("/todo\r")  # so the next one is the first again
    terminal.expect("(no todos)")
    terminal.expect("> ")
    terminal.type(CTRL_C)
    terminal.expect("once more")
    terminal.expect("> ")
    terminal.type(CTRL_C)
    assert terminal.ends() == 0
    said = [re.sub("(?s)<system-reminder>.*", "", text) for text in prompts(server)]
    assert [text for text in said if text] == ["first\nsecond", "a\nb", "look", "look"]
    assert server.problems == server.leftover() == []


def test_a_paste_without_marks_is_one_message_too(start, serve, place):  # noqa: F811
    if not POSIX:
        return
    server, environment = serve(talk("first\nsecond\nthird", Step("All three.")))  # TERM is dumb here
    terminal = Terminal(start, LATEST, "--workdir", str(place / "work"), environment=environment)
    terminal.expect("> ")
    terminal.type("first\rsecond\rthird\r")
    terminal.expect("All three.")
    terminal.expect(PROMPT)
    terminal.type(CTRL_D)
    assert terminal.ends() == 0 and server.problems == []
