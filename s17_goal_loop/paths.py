"""The fence around the workspace, and what the tools for files have in common.

A path is judged by where it really leads, links and all. This is a fence against mistakes, not a sandbox: bash can
go anywhere, and so can a program that puts a link in place between the check and the use.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shutil
import uuid
from pathlib import Path
from pathlib import PureWindowsPath

from .tools import ToolError

HEAD = 8_192  # bytes looked at to tell text from anything else
NOT_TEXT = 0.3  # share of undecodable characters above which a file is no UTF-8 text; Latin-1 prose has some 0.05
NEIGHBOURS = 1_000  # names looked at for one like a missing file
UNPRINTABLE = r"[\x00-\x1f\x7f\ud800-\udfff]"  # names can hold line breaks, and bytes that are no text


def resolve(workspace: Path, path: str) -> Path:
    """Return the real place (absolute, links followed; nothing need be there) of ``path``, which is relative to
    ``workspace`` or absolute. Raises ToolError when it leads out: directly, by ``..``, or through a symbolic link.
    """
    if not path.strip() or "\0" in path:
        raise ToolError(f"{path!r} is no path: give one inside the workspace, such as 'src/app.py'.")
    if PureWindowsPath(path).drive.lower() not in ("", workspace.drive.lower()):
        raise ToolError(f"{path!r} is on another drive or computer: give a path inside the workspace.")
    target = Path(os.path.realpath(workspace / path))
    if not target.is_relative_to(workspace):
        if Path(os.path.normpath(workspace / path)).is_relative_to(workspace):
            raise ToolError(f"{path!r} follows a symbolic link that leads out of the workspace: stay inside it.")
        raise ToolError(f"{path!r} leads out of the workspace: give a path inside it.")
    # What is still a link now is part of a circle, and what realpath made of the rest of the path proves nothing.
    if any(os.path.islink(part) for part in (target, *target.parents)):
        raise ToolError(f"{path!r} follows symbolic links that lead in a circle: give another path.")
    return target


def relative(workspace: Path, target: Path) -> str:
    """Return ``target`` as the model sees it: relative to ``workspace``, with ``/``, on one line, valid text."""
    return re.sub(UNPRINTABLE, "?", target.relative_to(workspace).as_posix())


def replace(target: Path, data: bytes) -> None:
    """Put ``data`` at ``target`` in one step, never half of it. Its mode stays; hard links keep the old content."""
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                shutil.copymode(target, temporary)  # while it is empty: what is private stays private
            file.write(data)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.chmod(temporary, 0o600)  # Windows does not remove a read-only file
            os.unlink(temporary)
        raise


def text_file(workspace: Path, path: str) -> tuple[Path, str]:
    """Return the place and the shown name of a text file. Raises ToolError with the cure if it is anything else."""
    target = resolve(workspace, path)
    need_file(workspace, target)
    with open(target, "rb") as file:
        head = file.read(HEAD)
    name, text = relative(workspace, target), head.decode("utf-8", "replace")
    undecodable = text.count("\ufffd") - head.count("\ufffd".encode("utf-8"))
    if b"\0" in head or undecodable > NOT_TEXT * len(text):
        raise ToolError(f"{name} ({target.stat().st_size:,} bytes) is binary, or no UTF-8: use bash to look at it.")
    return target, name


def need_file(workspace: Path, target: Path) -> None:
    """Raise ToolError with the cure unless ``target`` is an ordinary file."""
    name = relative(workspace, target)
    if target.is_file():
        return
    if target.is_dir():
        raise ToolError(f"{name} is a folder: use glob with this path and the pattern '*' to see what is in it.")
    if target.exists():
        raise ToolError(f"{name} is a pipe, socket or device, no file: leave it alone.")
    names = os.listdir(target.parent) if target.parent.is_dir() else []
    folded = {name.casefold(): name for name in names[:NEIGHBOURS]}
    close = difflib.get_close_matches(target.name.casefold(), folded)
    near = ", ".join(relative(workspace, target.with_name(folded[match])) for match in close)
    raise ToolError(f"{name} does not exist{f', but there is: {near}' if near else ''}. Use glob to find the file.")
