"""Plays a chapter's lesson as a reader would, and stores what it prints: ``python tests/lessons.py [chapter …]``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted(path.name for path in ROOT.glob("s[0-9][0-9]_*") if (path / "__main__.py").exists())


def play(chapter: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    """Run the chapter offline, without a terminal, in a throw-away home; with no prompt it plays its lesson."""
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            [sys.executable, "-m", chapter, *arguments],
            input=stdin,
            capture_output=True,
            cwd=ROOT,
            env=clean_environment(home),
            timeout=120,
            check=False,
        )


def clean_environment(home: str) -> dict[str, str]:
    """Return the environment of a reader: no keys, and nothing that hides how Python really behaves."""
    hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "MODEL_ID", "FALLBACK_MODEL")
    kept = {n: v for n, v in os.environ.items() if n not in hidden and not n.startswith("ANTHROPIC_")}
    return {**kept, "HOME": home, "USERPROFILE": home, "PYTHONIOENCODING": "utf-8"}


def normalised(text: str) -> str:
    """Return ``text`` without what differs from run to run: the port, the workspace's path and what is as long as that,
    times, names of sessions, and how long a traceback is (each Python has its own)."""
    text = text.replace("\r\n", "\n")
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:<port>", text)
    text = re.sub(r"\S*scratch-\w+", "<workspace>", text)
    text = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b", "<session>", text)
    text = re.sub(r"\(and \d+ more\)  \[exit status 1\]", "(and <n> more)  [exit status 1]", text)  # a traceback
    text = re.sub(r"[\d,]+ characters, \d+% ---", "<n> characters, <p>% ---", text)  # the workspace's path is in there
    text = re.sub(r"(put together\b.*): [\d,]+ characters", r"\1: <n> characters", text)
    text = re.sub(r"(\bturns?,) [\d,]+ tokens", r"\1 <n> tokens", text)  # the workspace's path is in there
    text = re.sub(r"\([\d,]+ cached", "(<n> cached", text)
    text = re.sub(r"^  \[[a-z]+\.+\]$", "  [<bar>]", text, flags=re.MULTILINE)  # of /context: the path is in all of it
    text = re.sub(r"^(  [a-z.] .{34}) +[\d,]+ +\d+%$", r"\1 <n>  <p>%", text, flags=re.MULTILINE)
    text = re.sub(r"about [\d,]+ of ([\d,]+ tokens), \d+%", r"about <n> of \1, <p>%", text)
    text = re.sub(r"[\d,]+ tokens in, \d+% from", "<n> tokens in, <p>% from", text)
    text = re.sub(r"[\d,]+ from the cache, [\d,]+ into the cache", "<n> from the cache, <n> into the cache", text)
    text = re.sub(r"tokens: [\d,]+ in, ", "tokens: <n> in, ", text)  # what an evaluator read, tracebacks included
    return re.sub(r"\bin \d+\.\d+s", "in <time>", text)


def main() -> None:
    for chapter in sys.argv[1:] or CHAPTERS:
        done = play(chapter)
        if done.returncode:
            told = (done.stderr or done.stdout).decode("utf-8", "replace")[-500:]
            sys.exit(f"{chapter} ended with {done.returncode}. Are the packages installed for {sys.executable}? {told}")
        (ROOT / chapter / "expected.txt").write_text(normalised(done.stdout.decode("utf-8")), encoding="utf-8", newline="\n")
        print(f"{chapter}/expected.txt written")


if __name__ == "__main__":
    main()
