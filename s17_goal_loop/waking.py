"""Waking an idle prompt: the person is asked for a line, and meanwhile something happens that must not wait for it.

``input()`` cannot be called off by another thread. A signal can end it, if its handler raises. So on POSIX whoever wants
to be heard sends one to the main thread, and what the person had typed by then stands in the next line again. Windows has
no such signal. There the prompt waits for the first key in short naps, and lets a line that was begun be finished.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Callable

NAP = 0.1  # seconds between two signals, and where there are none, between two looks for a key


class Woken(KeyboardInterrupt):
    """Something waits to be run. It ends a prompt as Ctrl-C does, and is no wish to leave."""


class Waker:
    """The way to an idle prompt, from any thread. ``is_due()`` says whether something waits. Made in the main thread."""

    def __init__(self, is_due: Callable[[], bool], is_key: Callable[[], bool] | None = None) -> None:
        self.is_due = is_due
        self.is_key = is_key or key_on_windows()
        self.at_prompt = False
        self.typed = ""  # half a line, until it stands in the line editor again
        self.inserting = self.insisting = False
        self.lock = threading.Lock()
        if self.is_key is None:
            signal.signal(signal.SIGUSR1, self.on_signal)  # for good: without it, a late signal would end the program

    def wake(self) -> None:
        """Something waits: end the prompt, if the person is at it."""
        with self.lock:
            if self.at_prompt and self.is_key is None and not self.insisting:
                self.insisting = True
                threading.Thread(target=self.insist, daemon=True).start()

    def insist(self) -> None:
        """Send signals until the prompt has ended: one that comes while it is being shown may be lost."""
        while True:
            with self.lock:
                self.insisting = self.at_prompt and self.is_due()
                if not self.insisting:
                    return
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            time.sleep(NAP)

    def on_signal(self, number: int, frame: object) -> None:
        if self.at_prompt and self.is_due() and not self.inserting:
            self.typed = self.typed or typed_so_far()
            raise Woken

    def ask(self, ask: Callable[[], str]) -> str:
        """Return the line that ``ask()`` returns. Raises Woken as soon as something waits; half a line is kept for the
        next time."""
        before = watch_lines()
        put_back(self.insert if self.typed else None)
        try:
            self.at_prompt = True
            if self.is_due():
                raise Woken
            while self.is_key and not self.is_key():
                if self.is_due():
                    raise Woken
                time.sleep(NAP)
            line = ask()
            self.at_prompt = False
            return line
        except Woken:
            self.at_prompt = False
            if line := entered_since(before):  # the signal came behind Enter, and the line is not lost
                self.typed = ""
                return line
            raise
        finally:
            self.at_prompt = False
            put_back(None)
            unwatch_lines(before)

    def insert(self) -> None:
        """In the line editor, which has just begun: put back what was typed. An exception would be lost in there."""
        self.inserting = True
        readline_or_none().insert_text(self.typed)
        self.typed, self.inserting = "", False


def key_on_windows() -> Callable[[], bool] | None:
    """Return what says whether a key was pressed, where that is needed."""
    if os.name != "nt":
        return None
    import msvcrt

    return msvcrt.kbhit


def readline_or_none():
    """Return the platform's line editing, if there is one. Without it, half a line stays with the terminal itself."""
    try:
        import readline
    except ImportError:
        return None
    return readline


def typed_so_far() -> str:
    editor = readline_or_none()
    return editor.get_line_buffer() if editor else ""


def put_back(insert: Callable[[], None] | None) -> None:
    """Have the next prompt begin with a call of ``insert``."""
    if editor := readline_or_none():
        editor.set_startup_hook(insert)


def watch_lines() -> int:
    """Have the line editor note each line that is entered. Returns how many it knew before."""
    editor = readline_or_none()
    if not editor:
        return 0
    editor.set_auto_history(True)
    return editor.get_current_history_length()


def entered_since(before: int) -> str:
    """Return the line that was entered since the editor knew ``before`` lines; "" if none was."""
    editor = readline_or_none()
    now = editor.get_current_history_length() if editor else 0
    return editor.get_history_item(now) if now > before else ""


def unwatch_lines(before: int) -> None:
    """Take back what was noted: which lines are worth keeping, others decide."""
    editor = readline_or_none()
    if not editor:
        return
    editor.set_auto_history(False)
    while editor.get_current_history_length() > before:
        editor.remove_history_item(editor.get_current_history_length() - 1)
