"""Run this chapter: ``python -m <chapter> [prompt]``, one-shot with a prompt, else interactive."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Callable

from .agent import Agent
from .agent_types import WrongType
from .console import Console
from .errors import ModelError
from .harness import build
from .loop import Outcome
from .loop import run
from .model import Model
from .model import connect
from .session_log import SessionError
from .todo_copy import OWN

LESSON = Path(__file__).resolve().parent.name
PACE = 0.01  # seconds between two words of the offline model, where somebody watches
LEAVE = ("/exit", "exit", "quit", "q")


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
    try:
        prompt, typed = arguments.prompt, sys.stdin is not None and sys.stdin.isatty()
        if not prompt and not typed and sys.stdin is not None:
            prompt = sys.stdin.buffer.read().decode("utf-8-sig", "replace").strip()
        console = Console(one_shot=bool(prompt))
        model = connect(Path.cwd(), LESSON, pace=PACE if sys.stdout.isatty() else 0.0)
        if not (prompt or typed or model.script):
            raise ModelError("There is no prompt: give it as an argument or on standard input.")
        folder = open_workspace(arguments.workdir)
        before = {} if arguments.workdir else contents(folder)
        console.show("notice", text=f"{LESSON} · {model.describe()} · workspace {folder}")
        own_folder = Path.home() / OWN if arguments.workdir else None  # a scratch workspace holds everything itself
        agent = build(model, folder, console.show, who_to_ask(console, model, typed and not prompt), own_folder)
        if arguments.sessions:
            agent.commands["sessions"][1]("")
            return int(agent.session.refused)
        if arguments.resume or arguments.latest or arguments.fork:
            take_up = agent.session.fork if arguments.fork else agent.session.resume
            take_up(arguments.resume or "")
        if prompt:
            return one_shot(agent, console, prompt)
        return interactive(agent, console, model) if typed else play(agent, console, model)
    except (ModelError, SessionError, WrongType) as error:
        print(f"{LESSON}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stdout = None  # whoever read the output is gone
        return 1
    except OSError as error:
        print(f"{LESSON}: The system refuses something that is needed here: {error}.", file=sys.stderr)
        return 1
    finally:
        if agent and agent.session:
            agent.session.close()  # on Windows an open file would keep the folder
        if folder and not arguments.workdir:
            leave_workspace(folder, is_worth_keeping=not model.script and contents(folder) != before)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {LESSON}", description="An agent that works in a folder.")
    parser.add_argument("prompt", nargs="*", help="what to do; without one it is interactive")
    parser.add_argument("--workdir", type=named_folder, metavar="DIR", help="the folder to work in, instead of a scratch workspace")
    about = "go on with this session of the folder"
    parser.add_argument("--resume", type=named_session, metavar="ID", help=about)
    parser.add_argument("--continue", dest="latest", action="store_true", help="go on with its last session")
    parser.add_argument("--fork", action="store_true", help="go on from a copy of that session, and leave it as it is")
    parser.add_argument("--sessions", action="store_true", help="list the sessions of the folder")
    arguments = parser.parse_args()
    arguments.prompt = " ".join(arguments.prompt).strip()
    return arguments


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
    if outcome.reason not in ("error", "interrupted"):
        held, console.held = console.held, ""
        if outcome.reason == "end_turn":
            held = held or outcome.text  # a notice behind it has moved it to stderr
        console.write(sys.stdout, held)
    return finish(console, outcome)


def interactive(agent: Agent, console: Console, model: Model) -> int:
    """Read prompts and run them until the person leaves."""
    try:
        import readline  # noqa: F401  (arrow keys and a history for input())
    except ImportError:
        pass
    suggestions = list(model.script.lines) if model.script else []
    console.line("Leave with /exit. Ctrl-C stops a run." + (" Enter runs the suggestion:" if suggestions else ""), dim=True)
    first, leaving = True, False
    while True:
        if suggestions:
            console.line(f"Try: {suggestions[0]}", dim=True)
        try:
            line = console.ask("> ").strip()
        except KeyboardInterrupt:
            if leaving:
                return 0
            leaving = True
            console.line("Ctrl-C once more leaves.", dim=True)
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
            first = False
            outcome = work(agent, console, line)
            finish(console, outcome)
            suggestions = [text for text in suggestions if text != line or outcome.reason != "end_turn"]


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
