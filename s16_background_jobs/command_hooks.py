"""Command hooks: programs that a person has, called at the moments of a run, in the protocol of Claude Code's hooks.

Somebody's formatter, guard or log needs no Python and no change here: it reads one line of JSON and answers by its exit
status or in JSON (https://docs.claude.com/en/docs/claude-code/hooks). So hooks that people have run unchanged. All of
it goes through the events of the loop, as any hook here: a program can refuse, ask, change an input, add context, end
the run. What it cannot do is take the session down, or make anything of what a rule denies.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable
from typing import Sequence

from .hook_names import names_of
from .hook_names import our_input
from .hook_names import their_input
from .hook_names import their_result
from .hook_programs import Answer
from .hook_programs import Programs
from .hook_settings import EVENTS
from .hook_settings import TOOL_EVENTS
from .hook_settings import Hook
from .hook_settings import is_met
from .hook_settings import missing
from .hooks import PostCompact
from .hooks import PostToolUse
from .hooks import PreCompact
from .hooks import PreToolUse
from .hooks import RunEnd
from .hooks import SessionStart
from .hooks import Stop
from .hooks import UserPromptSubmit
from .large_results import Shelf
from .paths import replace

if TYPE_CHECKING:
    from .agent import Agent

CONTEXT_CHARS = 10_000  # of one text for the model, as there; the rest is in a file
FOLDER = ".harness"  # in the workspace
WITH_MODE = ("UserPromptSubmit", *TOOL_EVENTS, "Stop")
CUT = "{}\n[cut here: all of it ({:,} characters) is in {}]"
TROUBLE = "{}, `{}`: {}. It decides nothing: mend it, or take it out of the settings"
FEEDBACK = "A hook objects to stopping now: {}"


def default_mode() -> str:
    return "default"


def install(
    agent: Agent,
    *,
    hooks: Sequence[Hook],
    session_id: Callable[[], str] | None = None,
    mode: Callable[[], str] = default_mode,
    context_chars: int = CONTEXT_CHARS,
    folder: str = FOLDER,
) -> CommandHooks:
    """Call the programs ``hooks`` at the events of ``agent``, and give the person /hooks.

    ``session_id()`` names the session, ``mode()`` is its permission mode in Claude Code's words (default, plan, …).
    ``folder``, in the workspace, is for what hooks want to read and what is too long for the model.
    """
    made, shelf = uuid.uuid4().hex, Shelf(agent.workspace, folder)
    state = CommandHooks(agent, list(hooks), session_id or (lambda: made), mode, context_chars, shelf)
    agent.on(SessionStart, lambda event: state.begin(event.source))
    agent.on(UserPromptSubmit, state.prompt)
    agent.on(PreToolUse, state.before_tool)
    agent.on(PostToolUse, state.after_tool)
    agent.on(Stop, state.stop, last=True)  # who objects before them makes the run go on, so it does not stop yet
    agent.on(RunEnd, state.run_end)
    agent.on(PreCompact, state.before_compaction)
    agent.on(PostCompact, lambda event: state.begin("compact"))
    agent.command("hooks", "the programs that are called at events, and how often", state.on_command)
    for hook in state.hooks:
        trouble = missing(hook, agent.workspace)
        state.say(f"{hook.event}: {trouble}", bool(trouble))
    return state


@dataclass
class CommandHooks:
    """The command hooks of one agent and its subagents, and what became of them."""

    agent: Agent
    hooks: list[Hook]
    session_id: Callable[[], str]
    mode: Callable[[], str]
    context_chars: int
    shelf: Shelf
    fired: Counter = field(default_factory=Counter)
    silent: Counter = field(default_factory=Counter)  # how often a hook gave no verdict
    objected: bool = False  # the run goes on because of a Stop hook
    path: str = ""  # of the transcript
    lock: Any = field(default_factory=threading.Lock)  # subagents call hooks from threads of their own

    def __post_init__(self) -> None:
        self.programs = Programs(self.agent.workspace)

    def begin(self, source: str) -> None:
        """A session begins, or its conversation was shortened: what hooks print is for the model."""
        answers = self.call("SessionStart", self.agent, (source,), {"source": source, "model": self.agent.model.name})
        for text in self.texts(answers, plain=True):
            self.agent.history.note("context", text, cut=True)

    def prompt(self, event: UserPromptSubmit) -> None:
        if event.refused:
            return
        answers = self.call("UserPromptSubmit", event.agent, (), {"prompt": event.prompt})
        stops = [answer.reason for answer in answers if answer.verdict == "deny"] + halts(answers)
        event.refused = "\n".join(stops)
        event.context += self.texts(answers, plain=True)

    def before_tool(self, event: PreToolUse) -> None:
        name = event.call["name"]
        answers = self.call("PreToolUse", event.agent, names_of(name), self.told_of(event), event.call)
        for answer in answers:
            if answer.verdict:
                event.decide(answer.verdict, answer.reason)
            if answer.updated_input is not None:  # there the last to finish wins; here the last in the settings
                schema = event.agent.tools[name].schema
                event.call = {**event.call, "input": our_input(name, answer.updated_input, schema)}
        self.finish(event, answers)

    def after_tool(self, event: PostToolUse) -> None:
        name, status = event.call["name"], event.facts.get("exit_status")
        told = self.told_of(event)
        if event.is_error or status:
            kind = "PostToolUseFailure"
            told |= {"error": f"Exit code {status}\n{event.result}" if status else event.result, "is_interrupt": False}
        else:
            kind = "PostToolUse"
            told["tool_response"] = their_result(name, event.call["input"], event.result, event.facts)
        answers = self.call(kind, event.agent, names_of(name), told, event.call)
        event.context += [answer.reason for answer in answers if answer.verdict == "deny"]
        self.finish(event, answers)

    def stop(self, event: Stop) -> None:
        """The model wants to stop. The cap on objections is the loop's."""
        if event.reason != "end_turn" or event.objections:
            return
        told = {"stop_hook_active": self.objected, "last_assistant_message": event.text}
        answers = self.call("Stop", event.agent, (), {**told, "background_tasks": [], "session_crons": []})
        if ends := halts(answers):
            event.agent.halt = "\n".join(ends)
            return
        objections = [answer.reason for answer in answers if answer.verdict == "deny"] + self.texts(answers)
        event.objections += [FEEDBACK.format(self.capped(text)) for text in objections]
        self.objected = bool(objections)

    def run_end(self, event: RunEnd) -> None:
        self.objected = False

    def before_compaction(self, event: PreCompact) -> None:
        trigger = "manual" if event.reason == "asked" else "auto"
        answers = self.call("PreCompact", event.agent, (trigger,), {"trigger": trigger, "custom_instructions": event.focus})
        event.refused = "\n".join([answer.reason for answer in answers if answer.verdict == "deny"] + halts(answers))
        event.focus = "\n".join(filter(None, [event.focus, *self.texts(answers, plain=True)]))

    def finish(self, event: PreToolUse | PostToolUse, answers: list[Answer]) -> None:
        """What answers about a call have in common: context for the model, and the end of the run."""
        event.context += self.texts(answers)
        if ends := halts(answers):
            event.agent.halt = "\n".join(ends)

    def told_of(self, event: PreToolUse | PostToolUse) -> dict[str, Any]:
        name, given = event.call["name"], event.call["input"]
        theirs = their_input(name, given, event.agent.workspace)
        return {"tool_name": names_of(name)[-1], "tool_input": theirs, "tool_use_id": event.call["id"]}

    def call(
        self, kind: str, agent: Agent, names: tuple[str, ...], told: dict[str, Any], call: dict[str, Any] | None = None
    ) -> list[Answer]:
        """Run the hooks that are meant for an event, and return what they say, in the order of the settings."""
        meant = [hook for hook in self.hooks if hook.event == kind and hook.matches(names)]
        meant = [hook for hook in meant if call is None or is_met(hook, agent, call)]
        hooks = list({hook.identity: hook for hook in reversed(meant)}.values())[::-1]  # equal ones run once
        if not hooks:
            return []
        common = {"session_id": self.session_id(), "cwd": str(agent.workspace), "hook_event_name": kind}
        if path := self.transcript():
            common["transcript_path"] = path
        if kind in WITH_MODE:
            common["permission_mode"] = self.mode()
        if agent is not self.agent:
            common |= {"agent_id": f"{id(agent):x}", "agent_type": "general-purpose"}
        answers = self.programs.ask(hooks, {**common, **told}, self.environment())
        with self.lock:
            self.fired.update(hooks)
            self.silent.update(answer.hook for answer in answers if answer.trouble)
        for answer in answers:
            self.say(TROUBLE.format(kind, answer.hook.command, answer.trouble), bool(answer.trouble))
            self.say(answer.message, bool(answer.message))
        return answers

    def environment(self) -> dict[str, str]:
        """Return the environment of hooks: all of the person's own, as there, since they are the person's programs."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        kept |= {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": self.session_id()}
        return kept | {"CLAUDE_PROJECT_DIR": str(self.agent.workspace)}

    def transcript(self) -> str:
        """Write the conversation where hooks look for it, in their format. Returns its path, "" if it cannot be written."""
        with self.lock:
            beside = {"sessionId": self.session_id(), "cwd": str(self.agent.workspace), "isSidechain": False}
            messages = self.agent.history.messages
            rows = [{"type": each["role"], "message": each, "uuid": str(n), **beside} for n, each in enumerate(messages)]
            data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "replace")
            try:
                if not self.path or not os.path.exists(self.path):
                    self.path = str(self.agent.workspace / self.shelf.keep("hooks", "transcript.jsonl", data))
                else:
                    replace(self.agent.workspace / self.path, data)
            except OSError:
                return ""  # hooks run all the same
            return self.path

    def texts(self, answers: list[Answer], plain: bool = False) -> list[str]:
        """Return what hooks say to the model; ``plain``: at this event also by what they just print."""
        texts = [answer.context or (answer.plain if plain else "") for answer in answers]
        return [self.capped(text) for text in texts if text.strip()]

    def capped(self, text: str) -> str:
        if len(text) <= self.context_chars:
            return text
        try:
            place = self.shelf.keep("hooks", "output.txt", text.encode("utf-8", "replace"))
        except OSError:
            place = "no file, since none can be written"
        return CUT.format(text[: self.context_chars], len(text), place)

    def on_command(self, rest: str) -> None:
        """/hooks: what is called when, and how often."""
        rows = []
        for hook in sorted(self.hooks, key=lambda hook: EVENTS.index(hook.event)):
            silent = f", {self.silent[hook]} without a verdict" if self.silent[hook] else ""
            command = " ".join([hook.command, *(hook.args or ())])
            rows.append(f"{hook.event} {hook.matcher or '*'}: {command} (called {self.fired[hook]} times{silent})")
        self.agent.show("notice", text="\n".join(rows) or "  [there are no command hooks]")

    def say(self, text: str, is_wanted: bool = True) -> None:
        """Tell the person: always where the agent runs, since a subagent shows nothing."""
        if is_wanted:
            self.agent.show("notice", text=f"  [hook: {text}]")


def halts(answers: list[Answer]) -> list[str]:
    return [answer.halt for answer in answers if answer.halt]
