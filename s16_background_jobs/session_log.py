"""A file that keeps what happened, one record a line, so that nothing is lost when the program dies.

A record is a JSON object with a ``type``, the ``time`` (seconds of the epoch), and what belongs to its type:

    session    the first line: version, id, parent ("" or the session it is a fork of), workspace, model
    message    content blocks were added: role, blocks; they join the message before if it has the same role
    replaced   all messages were replaced: messages
    begun      a tool call is about to run: call (its id)
    state      state that outlives a run has changed: name, value (all of it)
    usage      a reply came in: model (who was asked), usage (tokens, as the API counts them)
    run_ended  a run is over: reason
    hole       records are missing here, since they could not be written
    damaged    stands in no file: the reader puts it in the place of a line that cannot be read

Whoever reads skips the types that it does not know. Nothing is ever rewritten. A record goes out in one write and is
with the operating system when ``append`` returns: no kill can take it back, only a failing machine can.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import threading
import time
import uuid
from pathlib import Path
from typing import Any
from typing import Callable
from typing import Iterable
from typing import Iterator

from .file_lock import try_lock
from .model import DEPTH
from .model import is_plain

VERSION = 1  # of the format; types may be added without a new one
MAX_DEPTH = DEPTH + 10  # levels: those of a call's arguments, and what they lie in
MAX_LINE = 64_000_000  # bytes of a record: several times the longest conversation that fits into a model
ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}")
SUFFIX = ".jsonl"
LOCKED_BYTE = 1 << 40  # where Windows locks: far behind any record, since what is locked there nobody else can read
KINDS = {
    "session": {"id": str, "parent": str, "workspace": str},
    "message": {"role": str, "blocks": list},
    "replaced": {"messages": list},
    "begun": {"call": str},
    "state": {"name": str, "value": object},
    "usage": {"model": str, "usage": dict},
    "run_ended": {"reason": str},
}
BLOCKS = {
    "text": {"text": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_use_id": str, "content": (str, list)},
}

BUSY = "The session {0} is open elsewhere, and has one writer: go on from a copy, with --fork or /fork {0}."

Record = dict[str, Any]


class SessionError(Exception):
    """A session cannot be opened or forked: one sentence for the person. ``kind`` names the reason for code.

    Kinds: unknown, ambiguous, busy, newer, exists, boundary, open_run, not_kept, running.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Log:
    """A log that is open for writing, by this process alone: a lock is held until ``close``, or until the process dies."""

    def __init__(self, path: Path, mask: Callable[[str], str] = str) -> None:
        """Open ``path``, or make it. ``mask`` takes secrets out of a line. Raises OSError, SessionError ("busy")."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        self.path = path
        self.mask = mask
        self.lock = threading.Lock()
        self.file = os.open(path, flags, 0o600)  # it holds whatever the model has read
        try:
            if not stat.S_ISREG(os.fstat(self.file).st_mode):
                raise OSError(f"{path.name} is no file")
            if not try_lock(self.file, LOCKED_BYTE):
                raise SessionError("busy", BUSY.format(path.stem))
            size = os.fstat(self.file).st_size
            self.is_torn = size > 0 and not ends_a_line(self.file, size)
        except BaseException:
            os.close(self.file)
            raise

    def append(self, kind: str, **data: Any) -> None:
        """Write one record. It is safe from a kill when this returns. Raises OSError if it could not be written."""
        try:
            text = json.dumps({"type": kind, "time": time.time(), **data}, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise OSError(f"it is nothing that JSON can hold ({error})") from None
        line = (self.mask(text) + "\n").encode("utf-8", "replace")
        if len(line) > MAX_LINE:
            raise OSError(f"it has more than {MAX_LINE:,} bytes")
        with self.lock:
            if not is_at(self.file, self.path):
                raise OSError(f"{self.path.name} was moved, replaced or removed by somebody else")
            if self.is_torn:
                line = b"\n" + line  # what is left of a record must not swallow the next one
            self.is_torn = True
            if os.write(self.file, line) < len(line):
                raise OSError("only a part of it could be written: is the disk full?")
            self.is_torn = False

    def close(self) -> None:
        """Let others open it. More than once does no harm."""
        with self.lock:
            file, self.file = self.file, -1
            if file >= 0:
                os.close(file)


def read(path: Path) -> Iterator[Record]:
    """Yield the records of a log, one at a time, whatever its length. Raises OSError if it cannot be read at all.

    A line that is no record is yielded as one of the type "damaged"; a last line that is not ended is none, either: it
    was cut off while it was written, and nobody was told that it is kept.
    """
    with open(path, "rb") as file:
        while line := file.readline(MAX_LINE):
            whole = line.endswith(b"\n")
            while not line.endswith(b"\n") and (line := file.readline(MAX_LINE)):
                pass  # it is too long, and passed over piece by piece
            if not whole:
                yield {"type": "damaged"}
            elif not line.isspace():
                yield parse(line)


def parse(line: bytes) -> Record:
    """Return the record in a line, or one of the type "damaged"."""
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return {"type": "damaged"}
    return record if is_sound(record) else {"type": "damaged"}


def is_sound(record: Any) -> bool:
    """Whether ``record`` holds what those of its type must hold; of an unknown type only that it is a record."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return False
    if not is_plain(record, MAX_DEPTH) or not has(record, KINDS.get(record["type"], {})):
        return False
    if record["type"] == "message":
        return is_message(record["role"], record["blocks"])
    if record["type"] == "replaced":
        return all(isinstance(m, dict) and is_message(m.get("role"), m.get("content")) for m in record["messages"])
    return True


def is_message(role: Any, blocks: Any) -> bool:
    return (
        role in ("user", "assistant")
        and isinstance(blocks, list)
        and all(isinstance(b, dict) and isinstance(b.get("type"), str) for b in blocks)
        and all(has(b, BLOCKS.get(b["type"], {})) for b in blocks)
    )


def has(value: dict[str, Any], fields: dict[str, Any]) -> bool:
    return all(name in value and isinstance(value[name], kind) for name, kind in fields.items())


def place(folder: Path, id: str) -> Path:
    """Return where the session ``id`` is kept. Raises SessionError for an id that could lead elsewhere."""
    if not ID.fullmatch(id):
        raise SessionError("unknown", f"{id[:64]!r} is no name of a session: see them with /sessions.")
    return folder / f"{id}{SUFFIX}"


def new_id() -> str:
    """Return an id that sorts by time and that no other session has."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"


def found(folder: Path) -> list[Path]:
    """Return the logs in ``folder``, the one that was written last first; no links, nothing but files."""
    logs = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.scandir(folder):
            if entry.name.endswith(SUFFIX) and ID.fullmatch(entry.name.removesuffix(SUFFIX)):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        logs.append((status.st_mtime_ns, entry.name))
    return [folder / name for _, name in sorted(logs, reverse=True)]


def write_new(path: Path, records: Iterable[Record]) -> None:
    """Make a log of ``records``, all of them or none. Raises OSError, SessionError ("exists")."""
    if os.path.lexists(path):
        raise SessionError("exists", f"There is a session {path.stem} already: take another name.")
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for record in records:
                file.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def is_at(file: int, path: Path) -> bool:
    """Whether the open file is still the one at ``path``: what goes into another one, nobody finds again."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def ends_a_line(file: int, size: int) -> bool:
    """Whether the last byte ends a line: if not, the program died while it wrote it."""
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"
