"""A harness that looks over the model's shoulder: Python that does not compile is noticed at once.

Two hooks and no line in the loop. After a file was written, the model is told what is wrong with it; when the model
wants to stop with a broken file, it is asked once to mend it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .hooks import PostToolUse
from .hooks import Stop

if TYPE_CHECKING:
    from .agent import Agent


def install(agent: Agent) -> None:
    """Watch the Python files that ``agent`` writes."""
    written: set[str] = set()
    objected: set[str] = set()

    def after_tool(event: PostToolUse) -> None:
        path = str(event.facts.get("path", ""))
        if path.endswith(".py") and event.call["name"] in ("write_file", "edit_file") and not event.is_error:
            written.add(path)
            error = syntax_error(agent.workspace / path)
            if error:
                event.context.append(f"{path} does not compile: {error}")

    def at_stop(event: Stop) -> None:
        if event.reason != "end_turn":
            return
        for path in sorted(written):
            error = syntax_error(agent.workspace / path)
            # Asked once for each fault: a model that says that it is meant so may stop.
            if error and f"{path}: {error}" not in objected:
                objected.add(f"{path}: {error}")
                event.objections.append(f"{path} does not compile: {error}. Mend it, or say why it has to be so.")

    agent.on(PostToolUse, after_tool)
    agent.on(Stop, at_stop)


def syntax_error(path: Path) -> str:
    """Return what keeps the Python file ``path`` from compiling, with its line, or "" (also for no file)."""
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    except ValueError as error:
        return str(error)
    except (OSError, RecursionError, MemoryError):
        return ""
    return ""
