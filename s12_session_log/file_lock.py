"""A lock on an open file: one process has it at a time, and it ends with that process, however that ends.

It is the system's own. A file with a process number in it would be left behind by a crash, and on Windows the question
whether that process is alive ends it.
"""

from __future__ import annotations

import os


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
