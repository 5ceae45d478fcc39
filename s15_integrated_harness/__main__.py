"""Run this chapter: ``python -m <chapter> [prompt]``, one-shot with a prompt, else interactive."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Callable

from . import mcp_config
from . import mcp_tools
from . import settings
from .agent import Agent
from .commands import MODES
from .commands import choose_model
from .console import Console
from .errors import ModelError
from .harness import build
from .loop import Outcome
from .loop import run
from .model import Model
from .model import connect
from .model import read_settings
from .output import FORMATS
from .output import Report
from .session_log import SessionError
from .settings import Settings
from .strict_json import FileError
from .terminal import ONCE_MORE
from .terminal import Terminal
from .todo_copy import OWN

LESSON = Path(__file__).resolve().parent.name
PACE = 0.01  # seconds between two words of the offline model, where somebody watches
LEAVE = ("/exit", "exit", "quit", "q")
SERVERS = ".mcp.json"  # in the workspace: which MCP servers it brings
SERVER_WAIT = 30.0  # seconds that one prompt waits for them: nobody is there who could ask again when they have come
LAST = "last"  # the name by which --resume means the session before this one
STATUSES = """exit status: 0 the model came to its end; 1 it did not, or something went wrong, and the last line says what
(with --output-format json, "reason" does); 2 the options are wrong; 130 Ctrl-C"""


def main() -> int:
    """Run the chapter. Returns the exit status: 0 when the model finished its last turn, 130 after Ctrl-C, else 1."""
    arguments = parse_arguments()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the start
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="replace")  # another code page must not end the program
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) == signal.SIG_DFL:  # under nohup it is ignored
            signal.signal(number, lambda *_: sys.exit(1))  # so that running commands are ended, too

    folder, before, agent = None, {}, None
    report = Report(arguments.output_format == "stream-json") if arguments.output_format != "text" else None
    try:
        prompt, typed = arguments.prompt, sys.stdin is not None and sys.stdin.isatty()
        if not prompt and not typed and sys.stdin is not None:
            prompt = sys.stdin.buffer.read().decode("utf-8-sig", "replace").strip()
        console = report or Terminal(one_shot=bool(prompt))
        model = connect(Path.cwd(), LESSON, pace=PACE if sys.stdout.isatty() else 0.0)
        if not (prompt or typed or model.script) or not prompt and report and not arguments.sessions:
            raise ModelError("There is no prompt: give it as an argument or on standard input.")
        folder = open_workspace(arguments.workdir)
        before = {} if arguments.workdir else contents(folder)
        ask = who_to_ask(console, model, typed and not prompt)
        wanted = wishes(arguments, folder, model, ask, console.show)
        console.show("notice", text=f"{LESSON} · {model.describe()} · workspace {folder}")
        own_folder = Path.home() / OWN if arguments.workdir else None  # a scratch workspace holds everything itself
        patience = SERVER_WAIT if prompt else mcp_tools.WAIT
        try:
            agent = build(model, folder, console.show, ask, own_folder, settings=wanted, patience=patience)
        except ValueError as error:  # what is wanted cannot hold; elsewhere it would be our fault
            raise ModelError(str(error)) from error
        console.serve(agent, agent.desk.status)
        is_plan = wanted.mode == "plan"
        agent.desk.choose("" if is_plan else wanted.mode)  # before a session remembers the rules
        if arguments.sessions:
            agent.commands["sessions"][1]("")
            return int(agent.session.refused)
        if arguments.resume or arguments.latest or arguments.fork:
            take_up = agent.session.fork if arguments.fork else agent.session.resume
            take_up("" if arguments.resume in (None, LAST) else arguments.resume)
        if is_plan and (why_not := agent.desk.choose("plan")):  # after a session has brought its mode back
            raise ModelError(why_not)
        if prompt:
            return one_shot(agent, console, prompt)
        return interactive(agent, console, model) if typed else play(agent, console, model)
    except (ModelError, SessionError, FileError) as error:
        return fail(report, agent, str(error))
    except KeyboardInterrupt:
        return fail(report, agent, "", "interrupted")
    except BrokenPipeError:
        sys.stdout = None  # whoever read the output is gone
        return 1
    except OSError as error:
        return fail(report, agent, f"The system refuses something that is needed here: {error}.")
    finally:
        if agent:
            agent.exits.close()  # servers, hooks, the log: on Windows an open file would keep the folder
        if folder and not arguments.workdir:
            leave_workspace(folder, is_worth_keeping=not model.script and contents(folder) != before)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {LESSON}", description="An agent that works in a folder.", epilog=STATUSES)
    parser.add_argument("prompt", nargs="*", help="what to do; without one it is read from a pipe, or else it is interactive")
    parser.add_argument("-p", "--prompt", dest="asked", metavar="PROMPT", help="the same, for scripts: it must not be empty")
    parser.add_argument("--workdir", type=named_folder, metavar="DIR", help="the folder to work in, instead of a scratch workspace")
    about = "go on with this session of the folder; `last` is the last one"
    parser.add_argument("--resume", type=named_session, metavar="ID", help=about)
    parser.add_argument("--continue", dest="latest", action="store_true", help="go on with its last session")
    parser.add_argument("--fork", action="store_true", help="go on from a copy of that session, and leave it as it is")
    parser.add_argument("--sessions", action="store_true", help="list the sessions of the folder")
    parser.add_argument("--output-format", choices=FORMATS, default="text", help="what stdout gets: the reply, or JSON with more")
    parser.add_argument("--max-turns", type=positive, metavar="N", help="model calls that a run may take")
    parser.add_argument("--permission-mode", choices=MODES, default="", help="; ".join(f"{m}: {MODES[m]}" for m in MODES))
    parser.add_argument("--model", metavar="NAME", help="who answers, instead of ANTHROPIC_MODEL")
    parser.add_argument("--sandbox", action="store_true", help="run commands behind a wall, where the system can build one")
    arguments = parser.parse_args()
    words = " ".join(arguments.prompt).strip()
    if arguments.asked is not None and (words or not arguments.asked.strip()):
        parser.error("-p needs a prompt, and there can be one only: it is empty, or there is another one.")
    arguments.prompt = (arguments.asked or words).strip()
    return arguments


def wishes(
    arguments: argparse.Namespace, folder: Path, model: Model, ask: Callable[[str], str] | None, show: Callable[..., None]
) -> Settings:
    """Return what holds for this start, and give ``model`` its names: options go before the environment, that before files.

    Raises FileError, ModelError.
    """
    servers, wrong = mcp_config.read_file(folder / SERVERS)
    ask = None if arguments.permission_mode == "deny-asks" else ask  # not even for trust
    wanted = settings.load(folder, own=settings.own_file(), ask=ask, also={SERVERS: servers})
    for line in filter(None, [*wanted.told, wrong]):
        show("notice", text=f"  [settings: {line}]")
    if arguments.model:
        choose_model(model, arguments.model)
    elif wanted.model and not model.script and not {"ANTHROPIC_MODEL", "MODEL_ID"} & set(read_settings(Path.cwd())):
        choose_model(model, wanted.model)
    model.fallback = model.fallback or wanted.fallback_model
    return replace(
        wanted,
        mode=arguments.permission_mode or wanted.mode,
        mcp_servers={**(servers if wanted.trusted else {}), **wanted.mcp_servers},
        limits={**wanted.limits, **({"max_turns": arguments.max_turns} if arguments.max_turns else {})},
        sandbox=arguments.sandbox or wanted.sandbox,
    )


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"give a whole number from 1 on, not {text!r}")
    return int(text)


def fail(report: Report | None, agent: Agent | None, text: str, reason: str = "error") -> int:
    """Say why it ended before its end, to the person and to the program that reads. Returns the exit status."""
    status = 130 if reason == "interrupted" else 1
    if text:
        print(f"{LESSON}: {text}", file=sys.stderr)
    if report:
        report.result(Outcome(reason=reason, detail=text), status, agent)
    return status


def who_to_ask(console: Console, model: Model, is_interactive: bool) -> Callable[[str], str] | None:
    """Return how a question reaches the person: the lesson's script, the terminal, or None where nobody is there."""
    if model.script and not is_interactive:
        return lambda question: answer_from_script(console, model, question)
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    return lambda question: console.ask(question, afresh=True)


def answer_from_script(console: Console, model: Model, question: str) -> str:
    answer = model.script.answer(question) or ""
    console.line(f"{question}{answer}   (the lesson's script answers)")
    return answer


def named_folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("name a folder: it is empty, is a variable unset?")
    return Path(text)


def named_session(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("name a session: it is empty, is a variable unset?")
    return text


def work(agent: Agent, console: Console, line: str) -> Outcome:
    """Do what the person typed, a command or a prompt, and what is to be run after it. Returns how the last run ended."""
    outcome = Outcome(reason="end_turn")
    typed, rest = re.fullmatch(r"\s*(\S*)\s*(.*?)\s*", line, re.DOTALL).groups()
    name = typed[1:].casefold()
    is_path = re.search("[/*]", name) and name.partition("/")[0] not in agent.commands  # or a comment
    if typed[:1] != "/" or is_path:
        agent.enqueue(line)
    elif name in agent.commands:
        agent.commands[name][1](rest)
    else:  # to take it for a prompt would do without what was asked for: plan mode, perhaps
        known = ", ".join(f"/{each}" for each in agent.commands)
        outcome.end("blocked", f"There is no command {typed}: there are {known}.")
    while agent.queue:
        outcome = run(agent, *agent.queue.popleft())
        if outcome.reason == "interrupted":
            agent.queue.clear()
        if agent.queue:
            finish(console, outcome)
    return outcome


def one_shot(agent: Agent, console: Console, prompt: str) -> int:
    """Run one prompt. The final reply alone goes to stdout."""
    outcome = work(agent, console, prompt)
    if agent.session.refused and outcome.reason == "end_turn":
        outcome.end("blocked")  # why, the person has read
    if isinstance(console, Report):
        status = finish(console, outcome)
        console.result(outcome, status, agent)
        return status
    if outcome.reason not in ("error", "interrupted"):
        held, console.held = console.held, ""
        if outcome.reason == "end_turn":
            held = held or outcome.text  # a notice behind it has moved it to stderr
        console.write(sys.stdout, held)
    return finish(console, outcome)


def interactive(agent: Agent, console: Terminal, model: Model) -> int:
    """Read prompts and run them until the person leaves."""
    console.prepare()
    suggestions = list(model.script.lines) if model.script else []
    console.line("Leave with /exit. Ctrl-C stops a run." + (" Enter runs the suggestion:" if suggestions else ""), dim=True)
    first, leaving, is_news = True, False, True
    while True:
        if suggestions:
            console.line(f"Try: {suggestions[0]}", dim=True)
        try:
            if is_news:
                console.tell_status()
            is_news = False
            line = console.read()
        except KeyboardInterrupt:
            if leaving:
                return 0
            leaving = True
            console.line(ONCE_MORE, dim=True)
            continue
        except EOFError:
            return 0
        leaving = False
        if not line and first and suggestions:
            line = suggestions[0]
            console.line(f"> {line}")
        if line.casefold() in LEAVE:
            return 0
        if line:
            first, is_news = False, True
            outcome = step(agent, console, line)
            suggestions = [text for text in suggestions if text != line or outcome.reason != "end_turn"]


def step(agent: Agent, console: Console, line: str) -> Outcome:
    """Do what was typed, and stay there: Ctrl-C ends a command, too, and not the session."""
    try:
        outcome = work(agent, console, line)
    except KeyboardInterrupt:
        outcome = Outcome(reason="interrupted", detail="Interrupted. The conversation is kept.")
    finish(console, outcome)
    return outcome


def play(agent: Agent, console: Console, model: Model) -> int:
    """Play the lesson: the script of the offline model types the prompts."""
    status = 0
    for line in model.script.lines:
        console.line(f"\n> {line}")
        status = finish(console, work(agent, console, line)) or status
        if status == 130:
            break
    return status


def finish(console: Console, outcome: Outcome) -> int:
    """End the run's output, say what the person should know, and return the exit status."""
    if not console.at_line_start:
        console.write(console.words or sys.stdout, "\n")
    if outcome.detail:
        console.line(f"[{outcome.detail}]")
    return {"end_turn": 0, "interrupted": 130}.get(outcome.reason, 1)


def open_workspace(workdir: Path | None) -> Path:
    """Return the folder to work in: the one asked for, or a fresh one with a small sample project."""
    if workdir:
        if not workdir.is_dir():
            raise ModelError(f"{workdir} is no folder: make it first, or leave --workdir out.")
        return workdir
    try:
        import offline_model
    except ImportError:
        return Path(tempfile.mkdtemp(prefix="scratch-"))
    return offline_model.make_workspace()


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the files below ``folder``, each with its size and the time of its last change."""
    own = folder / ".harness"  # what the harness keeps there is no work
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and own not in path.parents]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def leave_workspace(folder: Path, is_worth_keeping: bool) -> None:
    """Remove a scratch workspace, unless a real model changed something in it."""
    if is_worth_keeping:
        print(f"The workspace is kept: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def leave(status: int) -> None:
    """End the program at once: to take the SDK's thousands of classes apart first would keep the person waiting."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            status = status or 1  # nobody reads it any more
    if sys.__stdout__ is None and not status:
        print(f"{LESSON}: Standard output is closed: what belongs there is lost.", file=sys.stderr)
        status = 1
    os._exit(status)


if __name__ == "__main__":
    leave(main())
