"""What a tool is, the table of tools, and how the model's calls are run.

A tool is a function, a schema and a result. The schema tells the model how to call it, and is checked before the
function runs. What goes wrong is a result like any other, marked as an error: the model reads it and does better.
Nothing that a model can send makes an exception out of here.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING
from typing import Any
from typing import Callable

from .history import Block
from .history import result_block
from .hooks import PostToolUse
from .hooks import PreToolUse

if TYPE_CHECKING:
    from .agent import Agent

MAX_RESULT = 100_000  # characters; tools keep their answers shorter, but an error may quote what it was given
TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


class ToolError(Exception):
    """What went wrong and what to do next, in words for the model. Becomes a result that is an error."""


@dataclass(frozen=True)
class Result:
    """What a tool returns: text for the model, and facts for everybody else (exit status, path)."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class Job:
    """Work that has begun, and goes on in threads of its own."""

    def wait(self) -> None:
        """Return when it has ended."""
        raise NotImplementedError

    def report(self) -> tuple[Result, bool]:
        """Return the result, and whether it is an error. What has not ended by then is ended here."""
        raise NotImplementedError


@dataclass(frozen=True)
class Tool:
    """A tool: ``function(agent, **arguments)`` returns text or a Result, and raises ToolError.

    ``schema`` is the JSON schema of the arguments. ``read_only`` is the tool's own word that it changes nothing.
    With ``side_by_side`` the function only begins the work and returns a Job, so that neighbouring calls run together.
    """

    name: str
    description: str
    schema: dict[str, Any]
    function: Callable[..., str | Result | Job]
    read_only: bool = False
    side_by_side: bool = False

    def definition(self) -> dict[str, Any]:
        """Return the tool as the Messages API wants it in a request."""
        return {"name": self.name, "description": self.description, "input_schema": self.schema}


def add_tool(agent: Agent, tool: Tool) -> None:
    """Put ``tool`` into the agent's table. Raises ValueError if its name is taken."""
    if tool.name in agent.tools:
        raise ValueError(f"There is already a tool named {tool.name!r}: give this one another name.")
    agent.tools[tool.name] = tool


def run_calls(agent: Agent) -> None:
    """Run the open tool calls in order. Each gets its result into the history as soon as there is one.

    Neighbours that run side by side are all admitted first, then all begun; their results come when all have ended.
    """
    for _, calls in groupby(agent.history.open_calls(), lambda call: is_side_by_side(agent, call) or call["id"]):
        run_together(agent, list(calls))


def is_side_by_side(agent: Agent, call: Block) -> bool:
    return call["name"] in agent.tools and agent.tools[call["name"]].side_by_side


def run_together(agent: Agent, calls: list[Block]) -> None:
    """Run ``calls``: one, or several that run side by side. Also after Ctrl-C each that has begun such work is answered."""
    admitted: list[tuple[Block, Tool | None, Any]] = []
    for call in calls:
        agent.show("tool_call", call=call)
        try:
            admitted.append((call, *admit(agent, call)))
        except ToolError as error:
            admitted.append((call, None, Result(str(error))))
    begun: list[tuple[Result | Job, bool]] = []
    try:
        for call, tool, arguments in admitted:
            if tool:
                agent.history.begin(call)
            begun.append(execute(agent, tool, arguments) if tool else (arguments, True))
        for job, _ in begun:
            if isinstance(job, Job):
                job.wait()
    finally:
        for (call, tool, arguments), (result, is_error) in zip(admitted, begun):
            if isinstance(result, Job):
                result, is_error = result.report()
            answer(agent, call, result, is_error)
            if tool:
                done = agent.fire(PostToolUse(agent, {**call, "input": arguments}, result.text, result.facts, is_error))
                tell(agent, tool.name, done.context)


def answer(agent: Agent, call: Block, result: Result, is_error: bool) -> None:
    """Put the result of ``call`` into the history, and show it."""
    text = result.text
    if len(text) > MAX_RESULT:
        text = f"{text[:MAX_RESULT]}\n[{len(text) - MAX_RESULT} characters left out]"
    agent.history.add("user", [result_block(call, text, is_error)])
    agent.show("tool_result", call=call, text=text, facts=result.facts, is_error=is_error)


def admit(agent: Agent, call: Block) -> tuple[Tool, dict[str, Any]]:
    """Return the tool and the checked arguments of ``call``. Raises ToolError if it may not or cannot run."""
    tool = agent.tools.get(call["name"])
    if tool is None:
        raise ToolError(f"There is no tool {call['name']!r}. There are: {', '.join(agent.tools)}.")
    # A copy: what a tool does to its arguments must not change what the model reads of its own call.
    arguments = check_arguments(tool, copy.deepcopy(call["input"]))
    asked = agent.fire(PreToolUse(agent, {**call, "input": arguments}))
    tell(agent, tool.name, asked.context)
    if asked.verdict == "deny":
        raise ToolError(asked.reason or "Refused by a hook: do it another way.")
    arguments = check_arguments(tool, asked.call["input"])
    if agent.permissions:
        decision = agent.permissions.check(agent, tool, {**call, "input": arguments}, asked.verdict, asked.reason)
        if decision.verdict != "allow":
            raise ToolError(decision.reason)
    elif asked.verdict == "ask":
        raise ToolError(asked.reason or "Refused: a hook wants the person to be asked, and nobody can be. Do without it.")
    return tool, arguments


def tell(agent: Agent, name: str, context: list[str]) -> None:
    """Hand on to the model what hooks have to say about a call of the tool ``name``."""
    for text in context:
        agent.show("notice", text=f"    [the model is told: {text}]")
        agent.history.note("context", f"About your call of {name}: {text}", cut=True)


def execute(agent: Agent, tool: Tool, arguments: dict[str, Any]) -> tuple[Result | Job, bool]:
    """Run ``tool``. Returns its result, or the work that it began, and whether that is an error: whatever it raises is one."""
    try:
        returned = tool.function(agent, **arguments)
        return returned if isinstance(returned, (Result, Job)) else Result(str(returned)), False
    except ToolError as error:
        return Result(str(error)), True
    except Exception as error:
        return Result(f"{tool.name} failed with {type(error).__name__}: {error}. Try it another way."), True


def check_arguments(tool: Tool, given: Any) -> dict[str, Any]:
    """Return the arguments of a call, checked against the tool's schema. Raises ToolError that names the wrong one.

    Knows of JSON schema what tools here use: types, required, enum, minimum, maximum, the type of items, and no names
    that are not listed. A list or an object that arrives as a JSON string is taken out of it: some models do that.
    """
    schema = tool.schema
    if not isinstance(given, dict):
        raise ToolError(f"{tool.name} takes an object of named arguments, not {kind_of(given)}.")
    missing = [name for name in schema.get("required", []) if name not in given]
    if missing:
        raise ToolError(f"{tool.name} needs the argument {missing[0]!r}. It takes: {', '.join(schema['properties'])}.")
    checked = {}
    for name, value in given.items():
        if name not in schema["properties"]:
            raise ToolError(f"{tool.name} has no argument {name!r}. It takes: {', '.join(schema['properties'])}.")
        checked[name] = check_value(f"{tool.name}: the argument {name!r}", schema["properties"][name], value)
    return checked


def check_value(what: str, schema: dict[str, Any], value: Any) -> Any:
    """Return ``value`` if it is what ``schema`` asks for. Raises ToolError that begins with ``what``."""
    types = schema.get("type", list(TYPES))
    types = [types] if isinstance(types, str) else types
    if isinstance(value, str) and "string" not in types and {"array", "object"} & set(types):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ToolError(f"{what} must be {' or '.join(types)}, and this text is no JSON.") from None
    if not any(has_type(value, name) for name in types):
        raise ToolError(f"{what} must be {' or '.join(types)}, not {kind_of(value)}.")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{what} must be one of {', '.join(map(str, schema['enum']))}.")
    if "minimum" in schema and value < schema["minimum"]:
        raise ToolError(f"{what} must be at least {schema['minimum']}.")
    if "maximum" in schema and value > schema["maximum"]:
        raise ToolError(f"{what} must be at most {schema['maximum']}.")
    if isinstance(value, list) and "items" in schema:
        value = [check_value(f"{what}, item {number}", schema["items"], item) for number, item in enumerate(value, 1)]
    return value


def has_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def kind_of(value: Any) -> str:
    """Return the JSON name of the type of ``value``."""
    return next(name for name in ("boolean", *TYPES) if has_type(value, name))
