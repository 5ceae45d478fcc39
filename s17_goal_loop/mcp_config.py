"""Which MCP servers there are: `.mcp.json` in the workspace, the file that other clients read, too.

    {"mcpServers": {"NAME": {"command": "...", "args": ["..."], "env": {"KEY": "${VARIABLE}"}, "timeout": 60000}}}

Entries start programs, and the file comes with the folder: whoever uses it asks the person before. An entry that cannot
be meant is left out with a word why, the others work. Format: https://docs.claude.com/en/docs/claude-code/mcp
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Mapping

FILE_BYTES = 100_000  # of .mcp.json; a person writes some thousand
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # it becomes a part of the tools' names
VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")  # ${NAME} or ${NAME:-default}
LONGEST = 3_600  # seconds that an entry may give a call; more is a slip, such as milliseconds of milliseconds


class ServerError(Exception):
    """What went wrong with a server, and what to do next; ``said`` is what it said itself: not ours, so it is data."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said.strip()


@dataclass(frozen=True)
class Config:
    """One checked entry: how a server is started. ``seconds`` is the time limit of a call, None for the common one."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None


def read_file(path: Path) -> tuple[dict[str, Any], str]:
    """Return the entries of ``mcpServers`` in the file, as they stand there, and what is wrong with the file, or "".

    No file is no entry. A wrong file has none either: it comes with the folder, and must not keep the program from starting.
    """
    try:
        if not path.exists():
            return {}, ""
        if not path.is_file():  # to open a pipe would wait for somebody to write
            raise ValueError("it is no ordinary file")
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise ValueError(f"it is larger than {FILE_BYTES:,} bytes")
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=without_twins)
        if not isinstance(value, dict) or not isinstance(value.get("mcpServers"), dict):
            raise ValueError('it must be like {"mcpServers": {"NAME": {"command": "…", "args": []}}}')
        return value["mcpServers"], ""
    except json.JSONDecodeError as error:
        why = f"line {error.lineno}: {error.msg}"
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except RecursionError:
        why = "too many brackets"
    except (ValueError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
    return {}, f"No MCP server of {path.name} is started ({why}): mend the file, and start again."


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return value


def parse(name: str, entry: Any, environment: Mapping[str, str]) -> Config:
    """Return an entry checked, with the variables in it filled in. Raises ValueError that says what to mend."""
    if not NAME.fullmatch(name):
        raise ValueError("its name must be letters, digits, - and _, up to 64")
    if not isinstance(entry, dict):
        raise ValueError('it must be an object such as {"command": "…"}')
    if "url" in entry or entry.get("type", "stdio") != "stdio":
        raise ValueError("only servers of the type stdio can be used here: give a command that starts it")
    command, args, env, limit = (entry.get(key) for key in ("command", "args", "env", "timeout"))
    if not isinstance(command, str) or not command.strip():
        raise ValueError("its command must be a text, the program to start")
    if not isinstance(args := args or [], list) or not all(isinstance(each, str) for each in args):
        raise ValueError("its args must be a list of texts")
    if not isinstance(env := env or {}, dict) or not all(isinstance(each, str) for each in env.values()):
        raise ValueError("its env must be an object of texts")
    if limit is not None and not (type(limit) in (int, float) and 0 < limit <= LONGEST * 1000):
        raise ValueError(f"its timeout must be a number of milliseconds, up to {LONGEST * 1000:,}")

    def fill(text: str) -> str:
        return VARIABLE.sub(lambda found: value_of(found[1], found[2], environment), text)

    filled = {key: fill(value) for key, value in env.items()}
    return Config(fill(command), tuple(map(fill, args)), filled, limit and limit / 1000)


def value_of(variable: str, default: str | None, environment: Mapping[str, str]) -> str:
    value = environment.get(variable) or default  # as in a shell, an empty one counts as not set
    if value is None:
        raise ValueError(f"it needs the variable {variable} of the environment, which is not set")
    return value
