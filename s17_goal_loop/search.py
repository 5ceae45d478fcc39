"""Two tools that find things: glob finds files by name, grep finds lines by a regular expression.

Their answers are bounded, in a fixed order, and say when something was left out. They never leave the workspace: a
folder that is a link is listed, but not entered.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from .paths import UNPRINTABLE
from .paths import relative
from .paths import resolve
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

SECRET = (".env",)  # files with keys in them: nobody looks for those, and a hit would show them
SKIPPED = (".git", ".harness", ".venv", "__pycache__", "node_modules")  # folders that hold nobody's own work, and a lot of it
MAX_PATHS = 300  # paths in one answer of glob: some 5,000 tokens
MAX_HITS = 100  # lines in one answer of grep: some 10,000 tokens if all are long
HIT_CHARS = 300  # characters shown of one of these lines
MAX_PATTERN = 1_000  # characters of a regular expression; longer ones take long before they search anything
GREP_BYTES = 10_000_000  # size of a file that is searched: bigger ones are data and logs
GREP_SECONDS = 20  # time for one search: enough for some 500 MB of source

GLOB = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "Such as '*', 'src/*.py' or '**/test_*.py', not {a,b}."},
        "path": {"type": "string", "description": "Folder to start from; the workspace if left out."},
    },
    "required": ["pattern"],
    "additionalProperties": False,
}
GREP = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "Python regular expression; looks at one line at a time."},
        "path": {"type": "string", "description": "File or folder to search; the workspace if left out."},
        "glob": {"type": "string", "description": "Only files like '*.py' (in any folder) or 'src/**/*.py'."},
        "ignore_case": {"type": "boolean", "description": "Upper and lower case are the same; false if left out."},
    },
    "required": ["pattern"],
    "additionalProperties": False,
}


def install(
    agent: Agent,
    *,
    max_paths: int = MAX_PATHS,
    max_hits: int = MAX_HITS,
    grep_bytes: int = GREP_BYTES,
    grep_seconds: float = GREP_SECONDS,
) -> None:
    """Give ``agent`` the tools glob and grep, with these limits."""
    find = partial(glob, max_paths=max_paths)
    search = partial(grep, max_hits=max_hits, max_bytes=grep_bytes, seconds=grep_seconds)
    skips = f"Does not look into {', '.join(SKIPPED)} unless path is in there."
    about_glob = f"Find files and folders (those end in /) by name; ** is any number of folders. {skips}"
    about_grep = f"Find lines of text files by a regular expression. Returns path:line: text. {skips}"
    add_tool(agent, Tool("glob", about_glob, GLOB, find, read_only=True))
    add_tool(agent, Tool("grep", about_grep, GREP, search, read_only=True))


def glob(agent: Agent, pattern: str, path: str = ".", *, max_paths: int = MAX_PATHS) -> str:
    """The tool: return what matches ``pattern`` in the folder ``path``, sorted, at most ``max_paths``.

    Raises ToolError if the pattern leads out of the folder, or the folder out of the workspace.
    """
    top = resolve(agent.workspace, path)
    wanted = parts_of(pattern)
    found = [name for name in walk(agent.workspace, top) if matches(name.rstrip("/").split("/"), wanted)]
    if not found:
        braces = " Patterns with {a,b} are not known: ask for a, then for b." if "{" in pattern else ""
        return f"[nothing matches {pattern!r}; with '**/' before it, all folders below are looked at.{braces}]"
    rows = [shown(agent.workspace, top, name) for name in found[:max_paths]]
    if len(found) > max_paths:
        rows.append(f"[these are {max_paths} of {len(found)}: narrow pattern or path to see others]")
    return "\n".join(rows)


def grep(
    agent: Agent,
    pattern: str,
    path: str = ".",
    glob: str | None = None,
    ignore_case: bool = False,
    *,
    max_hits: int = MAX_HITS,
    max_bytes: int = GREP_BYTES,
    seconds: float = GREP_SECONDS,
) -> str:
    """The tool: return the lines that match ``pattern``, as ``path:line: text``, in the order of the paths.

    Nothing in Python stops a regular expression that has begun, and all threads wait for it: (a+)+$ can take years.
    So the search is a process of its own that ends itself when its time is up. What it found by then is returned.
    Only the list of the files, made before, has no limit in time. Raises ToolError for a bad pattern or path.
    """
    if not 0 < len(pattern) <= MAX_PATTERN:
        raise ToolError(f"The pattern has {len(pattern)} characters: give one of 1 to {MAX_PATTERN}.")
    try:
        re.compile(pattern)
    except re.error as error:
        cure = "put a backslash before a sign that means itself"
        raise ToolError(f"{pattern!r} is no regular expression ({error}): {cure}.") from None
    top = resolve(agent.workspace, path)
    if top.is_file():
        top, names = top.parent, [top.name]
    else:
        wanted = parts_of(glob or "**")
        wanted = ["**", *wanted] if len(wanted) == 1 else wanted  # a name alone is meant in any folder
        paths = walk(agent.workspace, top)
        names = [name for name in paths if not name.endswith("/") and matches(name.split("/"), wanted)]
        names = [name for name in names if name.rsplit("/", 1)[-1] not in SECRET]
    job = {
        "pattern": pattern,
        "flags": re.IGNORECASE if ignore_case else 0,
        "files": [(name, shown(agent.workspace, top, name)) for name in names],
        "max_hits": max_hits,
        "max_bytes": max_bytes,
        "max_chars": HIT_CHARS,
        "seconds": seconds,
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", f"{inspect.getsource(scan)}\nscan()"],
        cwd=top,
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        check=False,
    )
    late = f"[stopped after {seconds} seconds: narrow path or glob, or simplify a pattern like (a+)+]"
    return done.stdout + late if done.returncode else done.stdout.removesuffix("\n")


def scan() -> None:
    """Search as the job on stdin says and print what is found. Its process has this text and nothing else."""
    import faulthandler
    import json
    import os
    import re
    import stat
    import sys

    job = json.load(sys.stdin)
    faulthandler.dump_traceback_later(job["seconds"], exit=True)  # a clock that no regular expression can hold up
    regex = re.compile(job["pattern"], job["flags"])
    hits = passed_over = 0
    for name, shown in job["files"]:
        try:
            status = os.lstat(name)
            if not stat.S_ISREG(status.st_mode):
                continue  # a pipe has no end, a link may lead out; inside, its file is there under its own name
            with open(name, "rb") as file:
                data = file.read() if status.st_size <= job["max_bytes"] else b"\0"
        except OSError:
            data = b"\0"
        if b"\0" in data:
            passed_over += 1
            continue
        lines = data.decode("utf-8-sig", "replace").split("\n")
        for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
            found = regex.search(line.removesuffix("\r"))
            if not found:
                continue
            if hits == job["max_hits"]:
                print(f"[stopped at {hits} lines: narrow path, glob or pattern to see others]")
                return
            hits += 1
            start = max(0, min(found.start() - job["max_chars"] // 2, len(line) - job["max_chars"]))
            text = line[start : start + job["max_chars"]].replace("\r", " ").rstrip()
            before, after = "… " * (start > 0), " …" * (start + job["max_chars"] < len(line))
            print(f"{shown}:{number}: {before}{text}{after}", flush=True)
    if not hits:
        print(f"[no line matches in {len(job['files'])} files]")
    if passed_over:
        print(f"[passed over {passed_over} files: not text, not readable, or over {job['max_bytes']:,} bytes]")


def walk(workspace: Path, top: Path) -> list[str]:
    """Return all below the folder ``top``: sorted paths relative to it, with ``/``, at the end of folders too.

    Not entered: folders in SKIPPED, links, and what may not be read. Raises ToolError if ``top`` is no folder.
    """
    if not top.is_dir():
        raise ToolError(f"{relative(workspace, top)} is no folder: give one that exists as path.")
    found: list[str] = []
    for folder, folders, files in os.walk(top):
        start = Path(folder).relative_to(top).as_posix() + "/"
        start = "" if start == "./" else start
        folders[:] = [name for name in folders if name not in SKIPPED]
        found += [start + name for name in files] + [f"{start}{name}/" for name in folders]
        # os.walk itself enters no links; but Python before 3.12 takes the junctions of Windows for folders.
        folders[:] = [name for name in folders if is_here(os.path.join(folder, name))]
    return sorted(found)


def is_here(folder: str) -> bool:
    """Whether a folder in a real place is really there, and no link or junction to another place."""
    return os.path.realpath(folder) == folder


def shown(workspace: Path, top: Path, name: str) -> str:
    """Return the path ``name``, relative to ``top``, as the other tools take it."""
    return re.sub(UNPRINTABLE, "?", name if top == workspace else f"{relative(workspace, top)}/{name}")


def parts_of(pattern: str) -> list[str]:
    """Split a glob pattern at its slashes. Raises ToolError if it is empty or leads out."""
    parts = [part for part in pattern.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or PureWindowsPath(pattern).anchor:
        raise ToolError(f"{pattern!r} leads out: give the folder as path, and a pattern for what is below it.")
    if not parts:
        raise ToolError("The pattern is empty: give one such as '*' or '**/*.py'.")
    return [part for part, before in zip(parts, ["", *parts]) if part != "**" or before != "**"]


def matches(parts: list[str], wanted: list[str]) -> bool:
    """Whether the names of a path match the parts of a pattern, where ``**`` is any number of names."""

    def with_none(places: set[int]) -> set[int]:
        return places | {place + 1 for place in places if place < len(wanted) and wanted[place] == "**"}

    places = with_none({0})  # how far into the pattern one can be; a set, so that nothing is tried twice
    for part in parts:
        stay = {place for place in places if place < len(wanted) and wanted[place] == "**"}
        go_on = {place + 1 for place in places - stay if place < len(wanted) and fnmatchcase(part, wanted[place])}
        places = with_none(stay | go_on)
    return len(wanted) in places
