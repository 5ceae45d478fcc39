"""A lock on an open file: one process has it at a time, and it ends with that process, however that ends.

It is the system's own. A file with a process number in it would be left behind by a crash, and on Windows the question
whether that process is alive ends it.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from contextlib import suppress
from pathlib import Path
from typing import Iterator

POLL = 0.005  # seconds between two looks; such a lock is held for some milliseconds


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of the file ``path``. Raises OSError, and TimeoutError if others have it for so many seconds.

    The file is made if need be, and stays. Whoever deletes it lets the next one lock another file, beside those who wait.
    """
    if path.exists() and not path.is_file():
        raise OSError(f"{path.name} is no plain file: take it away")  # a pipe would hold us for ever
    with open(path, "ab") as file:
        until = time.monotonic() + seconds
        while not try_lock(file.fileno()):
            if time.monotonic() > until:
                raise TimeoutError(f"others have had the lock {path.name} for {seconds:g} seconds")
            time.sleep(POLL)
        try:
            yield
        finally:
            unlock(file.fileno())


def try_lock(file: int, at: int = 0) -> bool:
    """Take the lock on an open file. Returns False if another has it; it is let go when the file is closed.

    ``at`` is the byte that Windows locks: nobody else can read what is locked there. Raises OSError where there are no locks.
    """
    try:
        import fcntl
    except ImportError:
        import msvcrt

        os.lseek(file, at, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: int) -> None:
    """Give the lock back. On POSIX closing the file does that; Windows wants to be told."""
    with suppress(ImportError):
        import msvcrt

        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
