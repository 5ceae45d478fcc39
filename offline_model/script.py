"""The scripted model: finds what to say next from the request alone.

A scenario is a list of exchanges. An exchange begins with a prompt and goes on in steps; a step is one reply. To find
the next step the request is read backwards: a tool call with an id of this script, a text or a thinking block of a
step, or a prompt tells the place. Nothing is remembered about the conversation, so a script works through resumes,
forks and parallel children. Only faults and used steps are counted, for one run of the server.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any

from . import marks

SCRIPT_ENDS = "(The script of the offline model ends here: it has no reply to what just happened.)"
SURPRISED = (
    "I am a script, and at this place I expect all calls to work. One did not: “{}” A model would think of something now; "
    "I can only stop. Start the lesson again to see how it goes on."
)
REMINDER = "<system-reminder>"  # text that begins so is the harness's, never a prompt


@dataclass(frozen=True, init=False)
class Call:
    """One tool call: `Call("bash", command="ls")`."""

    name: str
    input: dict[str, Any]

    def __init__(self, name: str, /, **arguments: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "input", arguments)


@dataclass(frozen=True)
class Fault:
    """An error in place of a reply, the first `times` requests for its step.

    status: an HTTP status; 200 lets the reply begin and sends an error event in the middle of the stream; 0 closes
    the connection without an answer. error and message: empty means the API's own for that status.
    """

    status: int
    error: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1


@dataclass(frozen=True)
class Step:
    """One reply of the model."""

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    when: str = ""  # taken only if this stands in what came back since the last reply (in any case)
    unless: str = ""  # passed over if this stands there
    offered: str = ""  # taken only if this tool is offered in the request
    told: str = ""  # taken only if the model was told this: by the system prompt, or by a text in the conversation
    fault: Fault | None = None
    breaks_after: int | None = None  # the first time, the stream ends after so many characters, without message_stop
    stop_reason: str = ""  # empty: tool_use or end_turn
    extra: bool = False  # for experiments: never counted as left over


@dataclass(frozen=True)
class Exchange:
    """A prompt and the replies it leads to."""

    says: str = ""  # the prompt, exactly (but for white space around it)
    contains: str = ""  # or: a part of it, for prompts that mechanisms write
    typed: bool = True  # one of the person's typed lines, in order (only with `says` or `line`)
    line: str = ""  # what is typed where that is not the prompt itself: a command of the harness
    steps: Sequence[Step] = ()
    answers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)  # part of a question -> answer(s)
    extra: bool = False  # for experiments: never counted as left over

    def asks(self, text: str) -> bool:
        """Is this text the prompt?"""
        if self.says:
            return text.strip() == self.says.strip()
        return bool(self.contains) and self.contains in text


@dataclass(frozen=True)
class Scenario:
    """The script of one lesson."""

    about: str
    exchanges: Sequence[Exchange]
    name: str = "scenario"
    context_limit: int | None = None  # tokens in the model's window, where a lesson needs a small one
    stops_at_errors: bool = False  # whether an error that no step has in its `when` ends it: a lesson must not pretend


def load_scenario(name: str) -> Scenario | None:
    """The scenario in `scenarios/<name>.py`, or None if there is no such file. Errors inside the file are raised."""
    if not re.fullmatch(r"\w+", name):
        return None
    module_name = f"{__package__}.scenarios.{name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name == module_name:
            return None
        raise
    found = module.SCENARIO
    return replace(found, name=name, stops_at_errors=True)


@dataclass(frozen=True)
class Turn:
    """What the script says to one request. exchange and step are -1 for an honest answer outside the script."""

    exchange: int
    step_index: int
    step: Step
    fault: Fault | None = None
    breaks_after: int | None = None


class Run:
    """One run of the script: which steps were used, which faults and answers are spent. Safe for threads."""

    def __init__(self, scenario: Scenario | None) -> None:
        self.scenario = scenario or Scenario("no scenario", ())
        self.problems: list[str] = []
        self._lock = threading.Lock()
        self._used: set[tuple[int, int]] = set()
        self._asked: list[int] = []  # exchanges whose prompt was seen, the latest last
        self._faults: dict[tuple[int, int], int] = {}
        self._breaks: set[tuple[int, int]] = set()
        self._answers: dict[tuple[int, str], int] = {}

    @property
    def lines(self) -> list[str]:
        """The person's typed lines, in order."""
        lines = [exchange.line or exchange.says for exchange in self.scenario.exchanges if exchange.typed]
        return [line for line in lines if line]

    def turn(self, request: dict) -> Turn:
        """What to say to this request; counts its faults."""
        exchange, after = self._place(request)
        if exchange < 0:
            return Turn(-1, -1, Step(_unknown_prompt(self.scenario)))
        with self._lock:
            if exchange in self._asked:
                self._asked.remove(exchange)
            self._asked.append(exchange)
        came_back = _came_back(request["messages"])
        offered = {tool.get("name") for tool in request.get("tools") or []}
        steps = self.scenario.exchanges[exchange].steps
        for index in range(after + 1, len(steps)):
            if _fits(steps[index], came_back, offered) and _is_told(steps[index].told, request):
                error = _first_error(request["messages"])
                if error and not steps[index].when and self.scenario.stops_at_errors:
                    return self._surprised(exchange, error)
                return self._take(exchange, index)
        return self._ran_short(exchange)

    def pauses(self, request: dict) -> bool:
        """Does the request end with a reply that only paused (pause_turn), so that it may go back as it is?"""
        if request["messages"][-1]["role"] != "assistant":
            return False
        exchange, step = self._place(request)
        return step >= 0 and self.scenario.exchanges[exchange].steps[step].stop_reason == "pause_turn"

    def answer(self, question: str) -> str | None:
        """The person's answer to a question of the harness, or None. The exchange asked last is looked at first."""
        with self._lock:
            exchanges = self.scenario.exchanges
            rest = [index for index in range(len(exchanges)) if index not in self._asked]
            for index in [*reversed(self._asked), *rest]:
                for part, answer in exchanges[index].answers.items():
                    if part not in question:
                        continue
                    key = (index, part)
                    spent = self._answers.get(key, 0)
                    if isinstance(answer, str):
                        self._answers[key] = 1
                        return answer
                    if spent < len(answer):
                        self._answers[key] = spent + 1
                        return answer[spent]
            return None

    def leftover(self) -> list[str]:
        """Lines not typed, steps not taken and answers not asked for, in words."""
        with self._lock:
            return list(self._leftover())

    def _leftover(self) -> Iterator[str]:
        for number, exchange in enumerate(self.scenario.exchanges):
            if exchange.extra:
                continue
            prompt = exchange.says or exchange.contains
            if exchange.typed and exchange.says and number not in self._asked:
                yield f"line not typed: {prompt!r}"
            for index, step in enumerate(exchange.steps):
                if (number, index) not in self._used and not step.extra:
                    yield f"step {index + 1} after {_brief(prompt)!r} not used: {_name(step)}"
            for part, answer in exchange.answers.items():
                spent = self._answers.get((number, part), 0)
                wanted = 1 if isinstance(answer, str) else len(answer)
                if spent < wanted:
                    yield f"answer to {part!r} not asked for ({spent} of {wanted})"

    def _place(self, request: dict) -> tuple[int, int]:
        """Exchange and last step (-1: none yet) of this request, or (-1, -1) for a prompt that is not known."""
        said: list[dict] = []  # the model's blocks between the place found and the end, latest first
        still_new = True  # nothing of the model seen yet
        for message in reversed(request["messages"]):
            blocks = _blocks(message)
            if message["role"] == "assistant":
                for block in reversed(blocks):
                    mark = marks.read_call_id(block["id"]) if block["type"] == "tool_use" else None
                    if mark and mark.scenario == marks.short(self.scenario.name):
                        return self._follow(mark.exchange, mark.step, said)
                    said.append(block)
                still_new = False
            elif message["role"] == "user":
                prompts = [block["text"] for block in blocks if _is_prompt(block)]
                for text in reversed(prompts):
                    for number, exchange in enumerate(self.scenario.exchanges):
                        if exchange.asks(text):
                            return self._follow(number, -1, said)
                if prompts and still_new:
                    break
        return -1, -1

    def _follow(self, exchange: int, step: int, said: list[dict]) -> tuple[int, int]:
        """From a known place through what the model said since: texts and thoughts that are a later step's."""
        if exchange >= len(self.scenario.exchanges):
            return -1, -1
        steps = self.scenario.exchanges[exchange].steps
        for block in reversed(said):
            for index in range(step + 1, len(steps)):
                if _said_in(block, steps[index]):
                    step = index
                    break
        return exchange, step

    def _take(self, exchange: int, index: int) -> Turn:
        step = self.scenario.exchanges[exchange].steps[index]
        key = (exchange, index)
        with self._lock:
            if step.fault and self._faults.get(key, 0) < step.fault.times:
                self._faults[key] = self._faults.get(key, 0) + 1
                return Turn(exchange, index, step, fault=step.fault)
            if step.breaks_after is not None and key not in self._breaks:
                self._breaks.add(key)
                return Turn(exchange, index, step, breaks_after=step.breaks_after)
            self._used.add(key)
        return Turn(exchange, index, step)

    def _surprised(self, exchange: int, error: str) -> Turn:
        with self._lock:
            self.problems.append(f"the script did not expect this error: {_brief(error)!r}")
        answers = self.scenario.exchanges[exchange].answers
        wanted = [answer if isinstance(answer, str) else ", ".join(answer) for answer in answers.values()]
        hint = f" Where you are asked, it wants: {', '.join(wanted)}." if wanted else ""
        return Turn(-1, -1, Step(SURPRISED.format(_brief(error)) + hint))

    def _ran_short(self, exchange: int) -> Turn:
        prompt = self.scenario.exchanges[exchange].says or self.scenario.exchanges[exchange].contains
        with self._lock:
            self.problems.append(f"the script has no further step after {_brief(prompt)!r}")
        return Turn(-1, -1, Step(SCRIPT_ENDS))


def _fits(step: Step, came_back: str, offered: set) -> bool:
    if step.when and step.when.casefold() not in came_back:
        return False
    if step.unless and step.unless.casefold() in came_back:
        return False
    return not step.offered or step.offered in offered


def _is_told(text: str, request: dict) -> bool:
    """Does this text stand in the system prompt, or in what the user's side wrote (results of tools do not count)?"""
    if not text:
        return True
    said = [message for message in request["messages"] if message["role"] == "user"]
    blocks = [block for holder in ({"content": request.get("system")}, *said) for block in _blocks(holder)]
    return any(text in block["text"] for block in blocks if block["type"] == "text")


def _said_in(block: dict, step: Step) -> bool:
    """Is this block of an assistant message the step's? A text may have been cut off."""
    if block["type"] == "text":
        said = block["text"].strip()
        return bool(said) and bool(step.text) and step.text.strip().startswith(said)
    if block["type"] == "thinking" and step.thinking:
        return marks.signs(block["signature"], step.thinking)
    return False


def _is_prompt(block: dict) -> bool:
    return block["type"] == "text" and not block["text"].lstrip().startswith(REMINDER)


def _came_back(messages: list[dict]) -> str:
    """All text since the last assistant message, case folded."""
    texts: list[str] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        texts.append("\n".join(_texts(_blocks(message))))
    return "\n".join(reversed(texts)).casefold()


def _first_error(messages: list[dict]) -> str:
    """The first line of the first error among the tool results since the last assistant message, or ""."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        for block in _blocks(message):
            if block["type"] == "tool_result" and block.get("is_error"):
                return next(iter("".join(_texts(_blocks(block))).splitlines()), "an error")
    return ""


def _texts(blocks: list[dict]) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_result":
            yield from _texts(_blocks(block))


def _blocks(holder: dict) -> list[dict]:
    """The content of a message or a tool result as a list of blocks."""
    content = holder.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unknown_prompt(scenario: Scenario) -> str:
    known = [exchange.says for exchange in scenario.exchanges if exchange.typed and exchange.says]
    lines = ["I am the offline model: a script that plays a lesson, not a language model."]
    if known:
        lines.append("I do not know this prompt. The ones I know are:")
        lines += [f"  - {prompt}" for prompt in known]
    else:
        lines.append("No script is loaded, so I know no prompt at all.")
    lines.append("To talk to a real model, put ANTHROPIC_API_KEY=... into a file named .env and start again.")
    return "\n".join(lines)


def _brief(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _name(step: Step) -> str:
    calls = ", ".join(call.name for call in step.calls)
    return repr(_brief(step.text)) + (f" with {calls}" if calls else "")
