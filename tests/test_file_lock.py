"""A lock on a file: one has it at a time, on each system, and it ends with whoever holds it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types

import pytest
from conftest import chapters_with


@pytest.fixture
def lock(load):
    return load("file_lock")


@pytest.fixture
def waits(lock):
    """Return the module in the chapters in which one can wait for a lock."""
    return lock if hasattr(lock, "locked") else __import__(f"{chapters_with('plan_folder')[0]}.file_lock", fromlist=["x"])


def test_one_has_it_at_a_time_and_closing_gives_it_back(lock, tmp_path):
    with open(tmp_path / "a", "ab") as one, open(tmp_path / "a", "ab") as other:
        assert lock.try_lock(one.fileno()) and not lock.try_lock(other.fileno())
        one.close()
        assert lock.try_lock(other.fileno())


def test_it_ends_with_the_process_that_holds_it(lock, tmp_path):
    child = "import sys, time, importlib; f = open(sys.argv[1], 'ab'); importlib.import_module(sys.argv[2]).try_lock(f.fileno());"
    child += "print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", child, tmp_path / "a", lock.__name__], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"held"
        with open(tmp_path / "a", "ab") as file:
            assert not lock.try_lock(file.fileno())
            process.kill()
            process.wait()
            assert lock.try_lock(file.fileno())


def test_who_waits_gets_it_or_is_told(waits, tmp_path):
    begun, over = threading.Event(), threading.Event()

    def hold():
        with waits.locked(tmp_path / "a", 1):
            begun.set()
            over.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait(10)
    with pytest.raises(TimeoutError, match="lock a for 0.02 seconds"), waits.locked(tmp_path / "a", 0.02):
        pass
    over.set()
    with waits.locked(tmp_path / "a", 10):
        holder.join(10)
    assert (tmp_path / "a").exists()


def test_it_is_given_back_when_something_fails(waits, tmp_path):
    with pytest.raises(ZeroDivisionError), waits.locked(tmp_path / "a", 1):
        raise ZeroDivisionError
    with waits.locked(tmp_path / "a", 0):
        pass


def test_what_is_no_plain_file_is_refused(waits, tmp_path):
    (tmp_path / "folder").mkdir()
    paths = [tmp_path / "folder"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        paths.append(tmp_path / "pipe")
    for path in paths:
        with pytest.raises(OSError, match="no plain file: take it away"), waits.locked(path, 0):
            pass


def test_windows_locks_a_byte_and_lets_it_go(waits, tmp_path, monkeypatch):
    tries = []

    def locking(number, mode, size):
        tries.append((mode, size, os.lseek(number, 0, os.SEEK_CUR)))
        if mode == 2 and len(tries) < 3:
            raise OSError("held")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0))
    with waits.locked(tmp_path / "a", 10):
        assert tries == [(2, 1, 0)] * 3
    assert tries[3:] == [(0, 1, 0)]
