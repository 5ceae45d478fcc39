"""A wall around the commands of the bash tool, where the system can build one: Linux, with bubblewrap.

Permissions judge what a command says. What it then does, `npm test` or a script, they cannot know. Here the kernel holds
it: a command can write in the workspace and in a /tmp of its own, nowhere else, and reaches no network. While plan mode
is on, it cannot write in the workspace either.

What it can still do: read whatever the person can read, fill the disk, and make or change files of the workspace
that a person runs later; of those that run unasked, what is there already is protected. Tools that are no commands
(files, search, servers, hooks) are not behind the wall; they have their own fences.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Callable
from typing import Sequence

from .hooks import PreToolUse

if TYPE_CHECKING:
    from .agent import Agent

PROGRAM = "bwrap"
PROBE = 10  # seconds; it takes some 20 ms, on a very busy machine a second
HIDDEN = ("/tmp", "/run")  # replaced by empty folders: other programs' files there, and sockets by which one gets out
# In the workspace, and yet not to be written by a command: a person's own git or the next session runs what stands there.
PROTECTED = (".git/hooks", ".git/config", ".harness/settings.json", ".mcp.json")
# Without ALL capabilities, so that root inside cannot take the walls down; what a command leaves running ends with it.
WALLS = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")

SECTION = """Commands of bash run in a sandbox. They can write in the workspace and in /tmp, which is empty for each command, and
nowhere else; they reach no network, and what they leave running in the background ends with them. When something fails
for that, look for no way around it: say what a person would have to do."""


class NoWall(ValueError):
    """Why no wall can be built, and what to do."""


def available() -> str:
    """Return "" if commands can be walled in on this machine, else one sentence that says why not and what to do.

    It is tried out: many systems have the program, and do not let it build anything.
    """
    if not sys.platform.startswith("linux"):
        return "The sandbox needs Linux with bubblewrap: leave it off here, and allow commands with care."
    program = shutil.which(PROGRAM)
    if not program:
        return "The sandbox needs bubblewrap: install it (apt install bubblewrap, dnf install bubblewrap), or leave it off."
    try:
        tried = subprocess.run(
            [program, *WALLS, "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"The sandbox does not work here ({error}): mend bubblewrap, or leave the sandbox off."
    if tried.returncode == 0:
        return ""
    said = " ".join(tried.stderr.decode("utf-8", "replace").split())[:200] or f"{PROGRAM} ended with {tried.returncode}"
    return f"The sandbox does not work here ({said}): allow user namespaces on this system, or leave the sandbox off."


def install(
    agent: Agent,
    *,
    read_only: Callable[[], bool] = lambda: False,
    protected: Sequence[str] = PROTECTED,
    section: str = SECTION,
) -> None:
    """Run every command of ``agent``, and of whoever shares its guards, behind a wall.

    While ``read_only()`` is true, the workspace cannot be written either; the files and folders named in ``protected``
    never. Raises NoWall with the cure where no wall can be built: nobody shall believe that there is one.
    """
    if trouble := available():
        raise NoWall(trouble)
    program = shutil.which(PROGRAM)

    def wrap(argv: Sequence[str], workspace: Path) -> list[str]:
        return [program, *walls(workspace, read_only(), protected), "--", *argv]

    def wall_in(event: PreToolUse) -> None:
        event.agent.shell.wrap = lambda argv: wrap(argv, event.agent.workspace)

    agent.shell.wrap = lambda argv: wrap(argv, agent.workspace)
    agent.on(PreToolUse, wall_in)  # a subagent has a shell of its own, and comes by here before each call
    agent.add_section("sandbox", section, order=20)


def walls(workspace: Path, is_read_only: bool, protected: Sequence[str]) -> list[str]:
    """Return the arguments of bubblewrap for one command in ``workspace``, an absolute path without links.

    A folder on the way to something protected is put in its own place: then it cannot be moved away with that.
    """
    arguments = [*WALLS]
    for place in HIDDEN:
        arguments += ["--tmpfs", place]
    for python in dict.fromkeys((sys.base_prefix, sys.prefix)):  # `python` is the one that runs this, wherever it lies
        if any(Path(python).is_relative_to(place) for place in HIDDEN):
            arguments += ["--ro-bind", python, python]
    bind = "--ro-bind" if is_read_only else "--bind"
    arguments += [bind, str(workspace), str(workspace)]
    last = [workspace / name for name in protected]
    way = [parent for place in last for parent in place.parents if workspace in parent.parents]
    for place in sorted({*way, *last}):  # what lies in a place comes after it
        if place.exists() and place.resolve() == place:  # what a link leads to outside cannot be written anyway
            is_way = place.is_dir() and place not in last
            arguments += [bind if is_way else "--ro-bind", str(place), str(place)]
    return [*arguments, "--setenv", "TMPDIR", "/tmp", "--chdir", str(workspace)]
