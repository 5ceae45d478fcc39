"""A chapter as a program: what goes to stdout and what to stderr, exit statuses, the prompt, Ctrl-C, and its end.

Chapters run as subprocesses, which takes time: so the first and the latest chapter stand for all.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from conftest import CHAPTERS
from conftest import ROOT
from conftest import chapters_with
from conftest import talk
from lessons import normalised
from test_shell import LONG
from test_shell import POSIX
from test_shell import UP
from test_shell import Alive
from test_shell import until

import offline_model
from offline_model.script import Call
from offline_model.script import Fault
from offline_model.script import Scenario
from offline_model.script import Step

FIRST, LATEST = CHAPTERS[0], CHAPTERS[-1]
BOTH = sorted({FIRST, LATEST})
SOON = 60  # seconds after which a test gives up waiting for what takes less than one
HELD_OPEN = f"({UP}; sleep {LONG}; touch canary) & {UP}; sleep {LONG}; touch canary"  # a command that must be ended


@pytest.fixture
def place(tmp_path):
    """Return a folder with nothing in it but a home, a folder for temporary files and one to work in."""
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def start(place):
    """Return ``start(chapter, *arguments, **options)``: a chapter as a process, started where no .env is."""
    started = []

    def start(chapter, *arguments, environment=(), program=("-m",), **options):
        kept = {
            name: value
            for name, value in os.environ.items()
            # The first two would hide faults.
            if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8")
        }
        kept.update({name: str(place / "temporary") for name in ("TMPDIR", "TEMP", "TMP")})
        kept.update(HOME=str(place / "home"), USERPROFILE=str(place / "home"), PYTHONPATH=str(ROOT), TERM="dumb")
        kept.update(environment)
        process = subprocess.Popen(
            [sys.executable, *program, chapter, *arguments],
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
            cwd=place,
            env=kept,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        with process:
            pass


@pytest.fixture
def run(start):
    """Return ``run(chapter, *arguments, typed=b"", …)``, which gives (exit status, stdout, stderr)."""

    def run(chapter, *arguments, typed=b"", encoding="utf-8", **options):
        process = start(chapter, *arguments, stdin=subprocess.PIPE, **options)
        out, err = (data.decode(encoding) for data in process.communicate(typed, SOON))
        assert "Traceback" not in err, err
        return process.returncode, out.replace("\r\n", "\n"), err.replace("\r\n", "\n")

    return run


@pytest.fixture
def serve():
    """Return ``serve(*exchanges)``: a server, and the environment in which a chapter takes it for a real model."""
    servers = []

    def serve(*exchanges, **options):
        server = offline_model.start(scenario=Scenario(about="test", exchanges=list(exchanges)), **options)
        servers.append(server)
        return server, {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_MODEL": offline_model.MODEL}

    yield serve
    for server in servers:
        server.close()


def side_by_side(test, *cases: tuple) -> None:
    """Run ``test(*case)`` for every case, all at once: most of the time a chapter waits for its imports."""
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(test, *case) for case in cases]:
            done.result()


def prompts(server) -> list[str]:
    """Return the text of the last user message of each request."""
    return ["".join(block.get("text", "") for block in asked.body["messages"][-1]["content"]) for asked in server.requests]


# One-shot


def test_the_final_reply_alone_goes_to_stdout(run, serve, place):
    """Without a standard input, too: then nobody can be asked, and the call that would ask is refused."""

    def test(chapter, program):
        server, environment = serve(
            talk(
                "do it now",
                Step("Looking.", thinking="I look first.", calls=[Call("bash", command="ls")]),
                Step("And again.", calls=[Call("bash", command="ls"), Call("bash", command="touch canary")]),
                Step("Done:\n10\u00a0km, \u3000ok"),
            )
        )
        status, out, err = run(chapter, "do", "it now", environment=environment, program=program)
        assert (status, out) == (0, "Done:\n10\u00a0km, \u3000ok\n")
        for text in (chapter, server.url, "Looking.", "I look first.", "bash  ls", "[exit status 0]", "And again."):
            assert text in err
        assert "Done" not in err
        assert "\x1b" not in out + err
        assert server.leftover() == server.problems == []
        kept = re.search("The workspace is kept: (.*)\n", err)  # somebody may want to see what a real model changed
        assert "canary" in os.listdir(kept[1]) if chapter == FIRST else kept is None

    side_by_side(test, *zip(BOTH, [("-m",), ("-c", CLOSED) if POSIX else ("-m",)]))
    assert len(os.listdir(place / "temporary")) == 1
    assert os.listdir(place / "home") == []


def test_a_prompt_from_a_pipe_and_a_reply_into_one(run, serve):
    """A mark at the start, another code page, and characters that the pipe's code page does not have."""

    def test(typed, reads, encoding, says, prints, reason):
        server, environment = serve(talk(reads, Step(says, stop_reason=reason)))
        environment["PYTHONIOENCODING"] = encoding
        status, out, err = run(FIRST, typed=typed, encoding=encoding, environment=environment)
        assert prompts(server) == [reads]
        assert out == prints
        assert status == 1  # the model did not end its turn
        assert re.search(r"\n\[.*: .*\]\n", err)

    side_by_side(
        test,
        ("\ufeffGrüße\r\n".encode(), "Grüße", "cp1252", "é → ☃ 😀", "é ? ? ?\n", "max_tokens"),
        ("Grüße".encode("cp1252"), "Gr\ufffd\ufffde", "gbk", "你 → é 😀", "你 → é ?\n", "refusal"),
    )


def test_an_error_and_what_came_before_it_go_to_stderr(run, serve):
    fault = Fault(status=200, error="invalid_request_error", message="It will not heal.")
    server, environment = serve(talk("go", Step("Half an answer.", fault=fault)))
    environment["ANTHROPIC_API_KEY"] = "sk-test-0123456789"
    status, out, err = run(LATEST, "go", environment=environment)
    assert (status, out) == (1, "")
    assert re.search(r"^Half.*\n\[.*broke its answer off.*: send the prompt again.*\]$", err, re.MULTILINE)
    assert "sk-test" not in err


def test_a_signal_ends_the_running_command_too(start, serve, place):
    if not POSIX:
        return  # there are no such signals to send

    def test(number, status):
        server, environment = serve(talk("go", Step("I wait.", calls=[Call("bash", command=HELD_OPEN)]), Step("Never.")))
        folder = place / "work" / str(status)
        folder.mkdir()
        alive = Alive(folder)
        process = start(FIRST, "go", "--workdir", str(folder), environment=environment)
        until(lambda: alive.is_up(processes=2))
        process.send_signal(number)
        out, err = process.communicate(timeout=SOON)
        assert (process.returncode, out) == (status, b"")
        assert b"Traceback" not in err
        until(alive.all_gone)
        os.close(alive.pipe)
        assert not (folder / "canary").exists()
        assert len(server.requests) == 1

    side_by_side(test, (signal.SIGINT, 130), (signal.SIGTERM, 1))


# Starting


def test_wrong_starts_say_what_to_do(start, place):
    """An unknown option; a folder that is none; an empty prompt on a pipe, with a real model (which is not asked)."""
    real = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    option = start(LATEST, "--no-such-option")
    folder = start(LATEST, "go", "--workdir", "no-such-folder")
    a_file = start(FIRST, "--workdir", __file__)
    empty = start(FIRST, environment=real)
    blank = start(LATEST, stdin=subprocess.PIPE, environment=real)
    closed = start(LATEST, program=("-c", CLOSED), environment=real)
    expected = [
        (option, 2, "usage: python -m .*unrecognized arguments: --no-such-option"),
        (folder, 1, "no-such-folder is no folder: make it first"),
        (a_file, 1, "test_main.py is no folder: make it first"),
        (empty, 1, "There is no prompt: give it as an argument or on standard input"),
        (blank, 1, "There is no prompt: give it as an argument or on standard input"),
        (closed, 1, "There is no prompt: give it as an argument or on standard input"),
    ]
    for process, status, words in expected:
        out, err = process.communicate(b" \r\n\t" if process is blank else None, SOON)
        assert (process.returncode, out) == (status, b"")
        assert re.search(words, err.decode(), re.DOTALL)
        assert b"Traceback" not in err
        assert err.count(b"\n") == (1 if status == 1 else err.count(b"\n"))
    assert os.listdir(place / "temporary") == []


def test_an_answer_that_nobody_can_read_is_no_success(start):
    if not POSIX:
        return  # there a program without standard output has a console
    for chapter in (FIRST, LATEST):
        process = start(chapter, "hello", program=("-c", CLOSED.replace("close(0)", "close(1)")))
        out, err = process.communicate(timeout=SOON)
        assert (process.returncode, out) == (1, b"") and b"Traceback" not in err
        assert err.splitlines()[-1].endswith(b"Standard output is closed: what belongs there is lost.")


# A program that closes its standard input, then is the chapter.
CLOSED = """
import os, sys
os.close(0)
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
"""


def test_ctrl_c_while_the_prompt_is_awaited_on_a_pipe(start):
    if not POSIX:
        return
    process = start(FIRST, stdin=subprocess.PIPE, program=("-c", LOUD))
    assert process.stdout.readline() == b"reading\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SOON)
    assert (process.returncode, out, err) == (130, b"", b"")


# A program that is the chapter, and says when its standard input is about to be read.
LOUD = """
import io, runpy, sys

class Loud(io.BufferedReader):
    def read(self, *size):
        print("reading", flush=True)
        return super().read(*size)

sys.stdin = io.TextIOWrapper(Loud(sys.stdin.buffer.raw))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def test_nothing_heavy_is_imported_before_the_prompt(start, place):
    """The SDK comes in a thread meanwhile; the rest, when a server, a skill or a memory needs it."""

    def test(address, heavy):
        environment = {"ANTHROPIC_BASE_URL": address}
        program = start(LATEST, program=("-c", UP_TO_THE_PROMPT), environment=environment)
        out, err = (data.decode() for data in program.communicate(timeout=SOON))
        assert (program.returncode, "Traceback" in err) == (0, False), err
        imported = {name.partition(".")[0] for name in out.split()}
        assert LATEST in imported and imported & heavy == set()

    client = {"anthropic", "httpx2", "pydantic"}
    others = {"mcp", "starlette", "uvicorn", "yaml"}
    server = {"http", "ssl", "asyncio"}  # the offline model is one
    side_by_side(test, ("http://127.0.0.1:1", client | others | server), ("", client | others))


# A program that is the chapter at a terminal, and lists what it has imported in place of the prompt. The thread
# that imports the SDK does nothing here: what it has done by then is chance.
UP_TO_THE_PROMPT = """
import importlib, sys
name = sys.argv[1]
importlib.import_module(f"{name}.model").import_sdk = lambda: None
main = importlib.import_module(f"{name}.__main__")
main.interactive = lambda *arguments: print(*sys.modules, sep="\\n") or 0
sys.stdin.isatty = lambda: True
sys.argv[1:] = []
sys.exit(main.main())
"""


# The lesson without a terminal


def test_an_empty_pipe_plays_the_lesson(run, place):
    def test(chapter):
        status, out, err = run(chapter)
        assert (status, err) == (0, "")
        assert normalised(out) == (ROOT / chapter / "expected.txt").read_text(encoding="utf-8")
        assert str(place / "temporary") in out.splitlines()[0]

    side_by_side(test, *[(chapter,) for chapter in BOTH])
    assert os.listdir(place / "temporary") == []


@pytest.mark.parametrize("name", BOTH)
def test_ctrl_c_ends_the_lesson(monkeypatch, capsys, name):
    main = importlib.import_module(f"{name}.__main__")
    asked = []

    def run(agent, line, source="person"):
        asked.append(line)
        return main.Outcome(reason="interrupted", detail="Interrupted.")

    monkeypatch.setattr(main, "run", run)
    model = SimpleNamespace(script=SimpleNamespace(lines=["one", "two"]))
    agent = SimpleNamespace(queue=deque())
    agent.enqueue = lambda prompt: agent.queue.append((prompt, "person"))
    assert main.play(agent, main.Console(), model) == 130
    assert asked == ["one"]
    assert "[Interrupted.]" in capsys.readouterr().out


# What the person typed, and what is to be run after it; in this process

WITH_COMMANDS = [name for name in CHAPTERS if "def work(" in (ROOT / name / "__main__.py").read_text(encoding="utf-8")]


@pytest.fixture(params=WITH_COMMANDS)
def at_work(request, tmp_path, capsys):
    """Return ``at_work(line, *exchanges)``: do what was typed, with two commands. Gives the outcome, what ran, what was shown."""
    load = lambda part: importlib.import_module(f"{request.param}.{part}")  # noqa: E731
    servers = []

    def at_work(line, *exchanges, in_run=lambda agent, prompt: None):
        server = offline_model.start(scenario=Scenario(about="test", exchanges=list(exchanges)))
        servers.append(server)
        console = load("console").Console()
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        agent = load("harness").build(model, tmp_path, console.show, None)
        agent.command("say", "shows it", lambda rest: console.show("notice", text=f"said {rest!r}"))
        agent.command("twice", "runs it twice", lambda rest: [agent.enqueue(rest), agent.enqueue(rest, "autopilot")])
        ran = []

        def submitted(event):
            ran.append((event.prompt, event.source))
            in_run(agent, event.prompt)

        agent.on(load("hooks").UserPromptSubmit, submitted)
        outcome = load("__main__").work(agent, console, line)
        return outcome, ran, capsys.readouterr().out, agent

    yield at_work
    for server in servers:
        server.close()


def test_a_prompt_is_run_and_a_command_is_done(at_work):
    outcome, ran, out, _ = at_work("hello", talk("hello", Step("Good day.")))
    assert (outcome.reason, ran, out) == ("end_turn", [("hello", "person")], "Good day.")
    outcome, ran, out, agent = at_work("/say  a b ")
    assert (outcome.reason, outcome.detail, ran, out) == ("end_turn", "", [], "said 'a b'\n")
    assert agent.model.script.requests == []


def test_an_unknown_command_names_those_there_are(at_work):
    outcome, ran, out, _ = at_work("/sya x")
    assert outcome.reason == "blocked" and ran == []
    assert outcome.detail.startswith("There is no command /sya: there are ") and "/say, /twice" in outcome.detail


@pytest.mark.parametrize("line", ["/SAY a b", "/Say\ta b", "/say\na b", "/say\u00a0a b", " /say \t a b\n"])
def test_a_command_may_be_written_in_any_case_and_with_any_white_space(at_work, line):
    outcome, ran, out, _ = at_work(line)
    assert (outcome.reason, outcome.detail, ran, out) == ("end_turn", "", [], "said 'a b'\n")


@pytest.mark.parametrize("typed", ["/say-x", "/say2", "/say:", "/say/x", "/SAY/x", "/", "/\u0455ay"])
def test_what_is_no_command_and_looks_like_one_never_runs(at_work, typed):
    # As a prompt "/plan-x" would be carried out without plan mode, and without a word.
    for line in (typed, f"{typed} a b", f"{typed}\na b"):
        outcome, ran, _, agent = at_work(line)
        assert (outcome.reason, ran) == ("blocked", [])
        assert outcome.detail.startswith(f"There is no command {typed}: there are ")


@pytest.mark.parametrize("line", ["/usr/bin/x is missing", "/tmp/say x", "//say", "/* say */", "say/x", "a\n/say b"])
def test_what_only_begins_like_a_command_is_a_prompt(at_work, line):
    assert at_work(line, talk(line, Step("I see.")))[1] == [(line, "person")]


def test_what_waits_is_run_in_order_and_each_run_is_closed(at_work):
    def more(agent, prompt):
        if prompt == "one" and not agent.queue:
            agent.enqueue("two", "notification")

    outcome, ran, out, agent = at_work("/twice one", talk("one", Step("First.")), talk("two", Step("Second.")), in_run=more)
    assert ran == [("one", "person"), ("one", "autopilot"), ("two", "notification")]
    assert out == "First.\nFirst.\nSecond." and outcome.text == "Second."
    assert not agent.queue


def test_an_error_in_between_is_told_and_the_next_runs(at_work):
    def more(agent, prompt):
        if prompt == "bad":
            agent.enqueue("good")

    outcome, _, out, _ = at_work("bad", talk("bad", Step("x", fault=Fault(400), extra=True)), talk("good", Step("Well.")), in_run=more)
    assert (outcome.reason, outcome.text) == ("end_turn", "Well.")
    assert re.fullmatch(r"\[.*refuses the request \(400\).*\]\nWell\.", out)


def test_ctrl_c_clears_what_waits(at_work):
    def interrupt(agent, prompt):
        raise KeyboardInterrupt

    outcome, ran, out, agent = at_work("/twice one", in_run=interrupt)
    assert outcome.reason == "interrupted" and ran == [("one", "person")] and not agent.queue


def test_whoever_reads_the_output_may_leave(start, place):
    process = start(LATEST)
    assert b"offline model" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(SOON) == 1
    assert os.listdir(place / "temporary") == []


# For scripts: what is asked for by options, and what a program reads; in this process


@pytest.fixture(params=chapters_with("output"))
def program(request, serve, place, monkeypatch):
    """Return ``program(*arguments, typed=b"")``: run main in the folder work. Gives status, stdout and stderr.

    ``program.talks(*exchanges)`` gives it a server, ``program.main`` is its module.
    """
    main = importlib.import_module(f"{request.param}.__main__")
    kept = {number: signal.getsignal(number) for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}}
    monkeypatch.chdir(place)

    def program(*arguments, typed=b""):
        monkeypatch.setattr(sys, "argv", [request.param, "--workdir", str(place / "work"), *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(io.BytesIO(), "cp1252", write_through=True, newline="\n")
            monkeypatch.setattr(sys, name, stream)
        try:
            status = main.main()
        except SystemExit as wrong:
            status = wrong.code
        out, err = (getattr(sys, name).buffer.getvalue().decode("cp1252") for name in ("stdout", "stderr"))
        return status, out, err

    def talks(*exchanges):
        server, environment = serve(*exchanges)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return server

    program.talks, program.main = talks, main
    yield program
    for number, handler in kept.items():
        signal.signal(number, handler)


LOOK = talk("look", Step("I look.", calls=[Call("bash", command="pwd")]), Step("Seen: \u2603"))
MORE = talk("more", Step("More."))


def last(out):
    """Return the last object of what a program reads."""
    return json.loads(out.splitlines()[-1])


def test_an_option_for_the_prompt(program):
    program.talks(LOOK)
    status, out, err = program("-p", "look")
    assert (status, out) == (0, "Seen: ?\n") and "bash  pwd" in err


def test_one_object_for_a_program(program):
    server = program.talks(LOOK)
    status, out, err = program("--output-format", "json", typed=b"look\n")
    assert status == 0 and out.count("\n") == 1 and "bash  pwd" in err and "I look." in err
    told = json.loads(out)
    used = told.pop("usage")
    assert re.fullmatch(r"\d{8}-\d{6}-\w+", told.pop("session_id"))
    assert told == {
        "type": "result",
        "result": "Seen: \u2603",
        "reason": "end_turn",
        "detail": "",
        "is_error": False,
        "exit_status": 0,
        "turns": 2,
        "model": "offline-model",
    }
    assert used["output_tokens"] > 0 and used["cache_read_input_tokens"] > 0 and len(used) == 4
    assert server.problems == []


def test_an_object_for_each_thing_that_happens(program):
    program.talks(LOOK)
    status, out, _ = program("look", "--output-format", "stream-json")
    assert status == 0 and out.isascii()
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "notice" and kinds[-1] == "result" and kinds.count("result") == 1
    assert "".join(event["text"] for event in events if event["type"] == "text") == "I look.Seen: \u2603"
    call, result = (next(event for event in events if event["type"] == kind) for kind in ("tool_call", "tool_result"))
    assert call["call"]["input"] == {"command": "pwd"}
    assert result["facts"]["exit_status"] == 0 and result["is_error"] is False and result["call"]["id"] == call["call"]["id"]


def test_how_it_ended_is_told(program):
    program.talks(LOOK)
    status, out, err = program("look", "--max-turns", "1", "--output-format", "json")
    told = last(out)
    assert (status, told["exit_status"], told["is_error"], told["reason"], told["turns"]) == (1, 1, True, "max_turns", 1)
    assert told["detail"] in err
    assert program("look", "--max-turns", "1")[0] == 1


def test_an_error_is_told_too(program):
    program.talks(talk("go", Step("x", fault=Fault(400), extra=True)))
    status, out, err = program("go", "--output-format", "json")
    assert status == 1 and last(out)["reason"] == "error" and "400" in last(out)["detail"]


def test_ctrl_c_is_told(program, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    program.talks(LOOK)
    monkeypatch.setattr(program.main, "run", interrupted)
    status, out, _ = program("look", "--output-format", "json")
    assert (status, last(out)["reason"], last(out)["exit_status"]) == (130, "interrupted", 130)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["look", "--resume", "no-such"], "There is no session 'no-such'"),
        (["look", "--resume", "last"], "There is no earlier session"),
        ([], "There is no prompt"),
        (["look", "--workdir", "no-such-folder"], "is no folder"),
        (["look", "--model", "two words"], "is no name of a model"),
    ],
)
def test_what_cannot_begin_is_told(program, arguments, words):
    server = program.talks(LOOK)
    status, out, err = program(*arguments, "--output-format", "json")
    assert status == 1 and words in err and words in last(out)["detail"]
    assert last(out)["reason"] == "error" and last(out)["turns"] == 0 and out.count("\n") == 1
    assert server.requests == []


def test_what_cannot_hold_together_is_told(program, monkeypatch):
    def build(*arguments, **options):
        raise ValueError("This and that cannot be together: take one out.")

    server = program.talks(LOOK)
    monkeypatch.setattr(program.main, "build", build)
    status, out, err = program("look", "--output-format", "json")
    assert status == 1 and err.splitlines()[-1].endswith(": This and that cannot be together: take one out.")
    assert last(out)["detail"] == "This and that cannot be together: take one out." and server.requests == []


@pytest.mark.parametrize(
    "arguments",
    [["-p", " "], ["-p", "a", "b"], ["--max-turns", "0"], ["--max-turns", "x"], ["--output-format", "xml"], ["--permission-mode", "all"]],
)
def test_wrong_options_are_refused(program, arguments):
    status, out, err = program(*arguments)
    assert (status, out) == (2, "") and err.startswith("usage: ")


def test_the_exit_statuses_are_told(program):
    status, out, _ = program("--help")
    assert status == 0
    for each in ("0 the model", "1 it did not", "2 the options", "130 Ctrl-C"):
        assert each in " ".join(out.split())


def test_a_session_goes_on_and_a_copy_of_it(program):
    server = program.talks(LOOK, MORE)
    first = last(program("look", "--output-format", "json")[1])
    second = last(program("more", "--resume", "last", "--output-format", "json")[1])
    assert second["session_id"] == first["session_id"] and second["turns"] == 1
    assert len(server.requests[-1].body["messages"]) == 5 and server.requests[-1].status == 200
    copy = last(program("more", "--resume", first["session_id"], "--fork", "--output-format", "json")[1])
    assert copy["session_id"] != first["session_id"] and len(server.requests[-1].body["messages"]) == 7
    fresh = last(program("more", "--output-format", "json")[1])
    assert fresh["session_id"] not in (first["session_id"], copy["session_id"])
    assert len(server.requests[-1].body["messages"]) == 1


def test_another_model(program):
    server = program.talks(LOOK)
    program("look", "--model", "claude-x")
    assert server.requests[0].body["model"] == "claude-x"


@pytest.mark.parametrize(("mode", "made"), [("default", []), ("deny-asks", []), ("plan", []), ("accept-edits", ["a.txt"])])
def test_permission_modes(program, place, mode, made):
    program.talks(
        talk("go", Step(calls=[Call("write_file", path="a.txt", content="x\n"), Call("bash", command="touch canary")]), Step("Done."))
    )
    status, _, err = program("go", "--permission-mode", mode)
    assert status == 0
    assert [name for name in ("a.txt", "canary") if (place / "work" / name).exists()] == made
    assert ("plan mode is on" in err) == (mode == "plan")


@pytest.mark.parametrize(
    ("mode", "told"),
    [("default", "default"), ("deny-asks", "dontAsk"), ("plan", "plan"), ("accept-edits", "acceptEdits")],
)
def test_a_hook_is_told_the_mode(program, place, monkeypatch, mode, told):
    """In the words of its protocol."""
    program.talks(LOOK)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(place / "home"))
    settings = place / "home" / ".harness" / "settings.json"
    settings.parent.mkdir()
    hook = {"hooks": [{"type": "command", "command": "cat > told.json"}]}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}), encoding="utf-8")
    assert program("look", "--permission-mode", mode)[0] == 0
    assert json.loads((place / "work" / "told.json").read_text(encoding="utf-8"))["permission_mode"] == told


def test_deny_asks_does_not_even_ask_for_trust(program, place, monkeypatch):
    """At a terminal, too: what the folder brings is left out."""
    program.talks(LOOK)
    asked = []
    monkeypatch.setattr(program.main, "who_to_ask", lambda *_: asked.append)
    servers = {"mcpServers": {"clock": {"command": "no-such"}}}
    (place / "work" / ".mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    status, _, err = program("look", "--permission-mode", "deny-asks")
    assert (status, asked) == (0, []) and "left out, since you have not trusted this folder: .mcp.json" in err
    assert program("look")[0] == 0 and len(asked) == 1


def test_plan_mode_holds_in_a_session_that_comes_back(program, place):
    edit = talk("edit", Step(calls=[Call("write_file", path="a.txt", content="x\n")]), Step("Done."))
    program.talks(LOOK, edit)
    assert program("look", "--permission-mode", "plan")[0] == 0
    assert program("edit", "--continue", "--permission-mode", "accept-edits")[0] == 0  # the milder one of the two is no way out
    assert not (place / "work" / "a.txt").exists()
    assert program("edit", "--permission-mode", "accept-edits")[0] == 0
    assert (place / "work" / "a.txt").exists()


def test_the_sandbox_is_asked_for(program, monkeypatch):
    program.talks(LOOK)
    asked = []

    def build(*arguments, settings, **more):
        asked.append(settings.sandbox)
        raise program.main.ModelError("no wall here")

    monkeypatch.setattr(program.main, "build", build)
    assert program("look", "--sandbox")[0] == 1
    assert program("look")[0] == 1
    assert asked == [True, False]


def test_the_sandbox_is_there_or_the_program_does_not_begin(program, place, monkeypatch):
    """The option for real, as far as this machine goes: a wall that holds, or one line that says why not."""
    sandbox = importlib.import_module(program.main.__name__.replace("__main__", "sandbox"))
    trouble = sandbox.available()
    (place / "outside").mkdir()
    touch = Call("bash", command="touch canary || echo refused; touch ../outside/canary || echo refused")
    server = program.talks(talk("go", Step(calls=[touch]), Step("Done.")))
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(place / "home"))
    settings = place / "home" / ".harness" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"allow": ["bash(touch:*)", "bash(echo:*)"]}}', encoding="utf-8")
    status, out, err = program("go", "--sandbox")
    if trouble:
        assert (status, out, server.requests) == (1, "", []) and err.splitlines()[-1].endswith(f": {trouble}")
    else:
        assert (status, out) == (0, "Done.\n") and err.count("refused\n") == 1
        assert program("go", "--sandbox", "--permission-mode", "plan")[0] == 0
    assert (place / "work" / "canary").exists() == (not trouble) and os.listdir(place / "outside") == []


def test_ctrl_c_in_a_command_does_not_end_the_session(program, capsys):
    main = program.main

    def interrupted(rest):
        raise KeyboardInterrupt

    agent = SimpleNamespace(queue=deque(), commands={"slow": ("", interrupted)})
    assert main.step(agent, main.Terminal(), "/slow").reason == "interrupted"


# On a terminal


class Terminal:
    """A chapter on a terminal of its own."""

    def __init__(self, start, chapter, *arguments, on_hang_up: str = "SIG_DFL", **options) -> None:
        self.master, slave = os.openpty()
        ends = {"stdin": slave, "stdout": slave, "stderr": slave}
        program = ("-c", ON_TERMINAL.format(on_hang_up))
        self.process = start(chapter, *arguments, program=program, start_new_session=True, **ends, **options)
        os.close(slave)
        self.raw = b""
        self.output = ""  # without the marks for colour
        self.seen = 0

    def read(self) -> bool:
        """Read what has arrived. Returns False when the program has left the terminal."""
        try:
            while select.select([self.master], [], [], 0.01)[0]:
                data = os.read(self.master, 10_000)
                if not data:
                    return False
                self.raw += data
                text = self.raw.decode("utf-8", "replace").replace("\r\n", "\n")
                self.output = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", text)
        except OSError:  # so Linux says that nobody is left at the other end
            return False
        return True

    def expect(self, text: str) -> str:
        """Wait for ``text``, and return what stood before it, after what was waited for last."""
        give_up = time.monotonic() + SOON
        while text not in self.output[self.seen :]:
            assert self.read() and time.monotonic() < give_up, f"{text!r} never came after {self.output!r}"
        at = self.output.index(text, self.seen)
        before, self.seen = self.output[self.seen : at], at + len(text)
        return before

    def type(self, keys: str | bytes) -> None:
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def ends(self) -> int:
        """Wait for the end of the program, and return its exit status."""
        until(lambda: not self.read())
        status = self.process.wait(SOON)
        os.close(self.master)
        assert "Traceback" not in self.output, self.output
        return status


# A program that makes its standard input its terminal, then is the chapter.
ON_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.{})
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
"""
PROMPT = "\n> "
CTRL_C, CTRL_D = "\x03", "\x04"


def test_enter_runs_the_suggestion_and_an_empty_line_does_nothing(start, place):
    if not POSIX:
        return  # Windows has no such terminal to write to
    terminal = Terminal(start, FIRST)
    with offline_model.start(scenario=FIRST) as server:
        first, second, *_ = server.lines
    assert "Leave with /exit" in terminal.expect(f"Try: {first}\n")
    terminal.expect("> ")
    terminal.type("\r")
    terminal.expect(f"\n> {first}\n")
    assert "bash  ls" in terminal.expect(f"\nTry: {second}")
    terminal.expect(PROMPT)
    for line in ("", "   "):
        terminal.type(f"{line}\r")
        between = terminal.expect(PROMPT)
        assert re.fullmatch(rf"\s*(Try: {re.escape(second)})?", between), between
    terminal.type("What is this?\r")
    assert "I am the offline model" in terminal.expect(PROMPT)
    terminal.type("/exit\r")
    assert terminal.ends() == 0
    assert os.listdir(place / "temporary") == []


def test_ways_to_leave(start, place):
    if not POSIX:
        return
    keys = ["/exit\r", " Exit \r", "quit\r", "q\r", CTRL_D, CTRL_C, "half a line" + CTRL_C]
    terminals = [Terminal(start, (FIRST, LATEST)[number % 2]) for number in range(len(keys))]
    signals = {signal.SIGTERM: Terminal(start, FIRST), signal.SIGHUP: Terminal(start, LATEST)}
    (place / "work" / "mine").touch()
    nohup = Terminal(start, FIRST, "--workdir", str(place / "work"), on_hang_up="SIG_IGN")
    for terminal in [*terminals, *signals.values(), nohup]:
        terminal.expect("> ")
    for terminal, pressed in zip(terminals, keys):
        terminal.type(pressed)
    for terminal, second in zip(terminals[-2:], (CTRL_C, CTRL_D)):
        terminal.expect("once more")  # one Ctrl-C too many must not end the conversation
        terminal.expect("> ")
        terminal.type(second)
    for number, terminal in signals.items():
        terminal.process.send_signal(number)
    nohup.process.send_signal(signal.SIGHUP)
    nohup.type("q\r")
    assert [terminal.ends() for terminal in terminals] == [0] * len(keys)
    assert [terminal.ends() for terminal in signals.values()] == [1, 1]
    assert nohup.ends() == 0
    assert os.listdir(place / "work") == ["mine"]
    assert os.listdir(place / "temporary") == []


def test_ctrl_c_ends_a_run_and_not_the_session(start, serve, place):
    if not POSIX:
        return

    def test(chapter):
        canary = Call("bash", command="touch canary")
        server, environment = serve(
            talk("talk", Step("And so " * 500)),
            talk("go on", Step("Going on.")),
            talk("work", Step("I wait.", calls=[Call("bash", command=HELD_OPEN), canary]), Step("Never.")),
            talk("well?", Step("All is well.")),
            talk("Grü\ufffd", Step("A good day.")),
            pace=0.01,
        )
        folder = place / "work" / chapter
        folder.mkdir()
        alive = Alive(folder)
        terminal = Terminal(start, chapter, "--workdir", str(folder), environment=environment)
        terminal.expect(PROMPT)
        terminal.type("talk\r")
        terminal.expect("And so And so")
        terminal.type(CTRL_C)
        terminal.expect("[Interrupted")
        terminal.expect(PROMPT)
        terminal.type("go on\r")
        terminal.expect("Going on.")
        terminal.expect(PROMPT)

        terminal.type("work\r")
        if (ROOT / chapter / "permissions.py").exists():
            terminal.expect("bash wants to run")
            terminal.type("y\r")
        until(lambda: alive.is_up(processes=2))
        terminal.type(CTRL_C)
        terminal.expect("[Interrupted")
        terminal.expect(PROMPT)
        until(alive.all_gone)
        terminal.type("well?\r")
        terminal.expect("All is well.")
        terminal.expect(PROMPT)
        terminal.type(b"Gr\xc3\xbc\xff\r")  # bytes that are no UTF-8
        terminal.expect("A good day.")
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.ends() == 0

        assert server.problems == []
        assert [asked.status for asked in server.requests] == [200] * 5  # a crooked history would be refused
        last = server.requests[-1].body["messages"]
        assert "And so" not in str(last)
        results = [block for message in last for block in message["content"] if block["type"] == "tool_result"]
        assert [block.get("is_error") for block in results] == [True, True]
        assert "unknown" in str(results[0]) and "Not started" in str(results[1])
        texts = [block.get("text", "") for message in last for block in message["content"]]
        assert len([text for text in texts if "<system-reminder>" in text and "interrupted" in text]) == 2
        assert not (folder / "canary").exists()
        os.close(alive.pipe)

    side_by_side(test, *[(chapter,) for chapter in BOTH])
