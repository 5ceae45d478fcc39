"""Our tools under the names by which people's hook scripts know them: those of Claude Code, inputs and results as well.

A script looks for `"tool_name": "Bash"` and for `tool_input.file_path`. So it is told of our tools in these words, and
what it says about an input is put back into ours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

THEIRS = {
    "bash": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "todo_write": "TodoWrite",
    "task": "Task",
    "load_skill": "Skill",
    "exit_plan_mode": "ExitPlanMode",
}
OURS = {theirs: ours for ours, theirs in THEIRS.items()} | {"Agent": "task"}
# Of each tool the arguments that are called differently: ours, theirs.
ARGUMENTS = {
    "read_file": {"path": "file_path"},
    "write_file": {"path": "file_path"},
    "edit_file": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "grep": {"ignore_case": "-i"},
    "task": {"agent": "subagent_type"},
    "load_skill": {"name": "skill"},
}
# What they have and we have not. It is told for scripts that look at it, and left out of what comes back.
ADDED = {"edit_file": {"replace_all": False}, "task": {"subagent_type": "general-purpose"}}
ONLY_THEIRS = {"bash": ("description", "run_in_background"), "edit_file": ("replace_all",)}
# Permission modes. Others are told as default, which asks.
MODES = {"accept-edits": "acceptEdits", "deny-asks": "dontAsk"}


def mode_of(mode: str, is_planning: bool) -> str:
    """Return the permission mode as a script is told of it. ``mode`` is ours as it was chosen; plan mode goes before."""
    return "plan" if is_planning else MODES.get(mode, "default")


def names_of(name: str) -> tuple[str, ...]:
    """Return the names by which a matcher may mean our tool; the last is the one that a script is told."""
    # Its old name is Task, and scripts have both.
    return ("Task", "Agent") if name == "task" else (THEIRS.get(name, name),)


def their_input(name: str, arguments: dict[str, Any], workspace: Path) -> dict[str, Any]:
    """Return the arguments of a call as a hook reads them: paths absolute, times in milliseconds."""
    renamed = ARGUMENTS.get(name, {})
    theirs = ADDED.get(name, {}) | {renamed.get(key, key): value for key, value in arguments.items()}
    if isinstance(theirs.get("file_path"), str) and name in THEIRS:
        theirs["file_path"] = os.path.normpath(workspace / theirs["file_path"])
    if name == "bash" and "timeout" in theirs:
        theirs["timeout"] *= 1000
    if name == "todo_write":
        todos = theirs["todos"] if isinstance(theirs["todos"], list) else []  # models spell a list in many ways
        theirs["todos"] = [{**todo, "activeForm": todo.get("content", "")} for todo in todos if isinstance(todo, dict)]
    return theirs


def our_input(name: str, theirs: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a hook wants to run instead, as arguments of our tool. They are checked later, like any.

    What we have not and is not switched on is left out; the rest is left in, and refused by name.
    """
    renamed = {their: our for our, their in ARGUMENTS.get(name, {}).items()}
    known = schema.get("properties", {})
    unwanted = [key for key in ONLY_THEIRS.get(name, ()) if key not in known]
    ours = {renamed.get(key, key): value for key, value in theirs.items() if key not in unwanted or value is True}
    if name == "task" and ours.get("agent") == ADDED["task"]["subagent_type"]:
        del ours["agent"]
    if name == "bash" and isinstance(ours.get("timeout"), (int, float)) and not isinstance(ours["timeout"], bool):
        ours["timeout"] = max(1, round(ours["timeout"] / 1000))
    if name == "todo_write" and isinstance(ours.get("todos"), list):
        own = known["todos"]["items"]["properties"]
        ours["todos"] = [
            {key: value for key, value in todo.items() if key in own} if isinstance(todo, dict) else todo
            for todo in ours["todos"]
        ]
    return ours


def their_result(name: str, arguments: dict[str, Any], text: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call as a hook reads it. What is not known here is left out, never made up."""
    path = {"filePath": arguments["path"]} if "path" in arguments else {}
    if name == "bash":
        output = text.removesuffix(f"[exit status {facts.get('exit_status')}]")
        return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    if name == "read_file":
        return {"type": "text", "file": {**path, "content": text}}
    if name == "write_file":
        created = text.startswith(f"{facts.get('path')} created")
        return {"type": "create" if created else "update", **path, "content": arguments["content"]}
    if name == "edit_file":
        return {**path, "oldString": arguments["old_text"], "newString": arguments["new_text"]}
    if name == "glob":
        rows = [row for row in text.splitlines() if not row.startswith("[")]
        return {"filenames": rows, "numFiles": len(rows)}
    if name == "grep":
        return {"mode": "content", "content": text}
    if name == "todo_write":
        return {"newTodos": their_input(name, arguments, Path())["todos"]}
    if name == "exit_plan_mode":
        return {"plan": arguments["plan"]}
    done = {"status": "completed"} if name == "task" else {}
    return {**done, "content": [{"type": "text", "text": text}]}
