"""Forty bad files and more, each before the whole program: it is told in one line with its cure, and stays as it is.

What the person has written for the harness stops it; what only lies there is left out, and the work goes on. The
modules have more cases each, in tests of their own. Here the program is started, and all that it says is looked at.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass

import pytest
from conftest import CHAPTERS
from conftest import talk
from test_main import place  # noqa: F401  (fixtures)
from test_main import program  # noqa: F401
from test_main import serve  # noqa: F401
from test_shell import POSIX

from offline_model.script import Step

OWN, THEIRS = "home/.harness/settings.json", "work/.harness/settings.json"
SERVERS, MEMORY, LOG = "work/.mcp.json", "work/.harness/memory/", "work/.harness/sessions/"
FOLDER = None  # in the place of a file


@dataclass(frozen=True)
class Case:
    """Files by their path, and what is to be told: a regular expression a line. With status 1 nothing is begun."""

    files: dict[str, bytes | str | None]
    told: tuple[str, ...]
    status: int = 0
    options: tuple[str, ...] = ()
    answer: str = "y"


def stops(path, text, *told, **more):
    """The program does not begin: of ``path``, ``told`` is said."""
    return Case({path: text}, (re.escape(path.partition("/")[2]) + ".*" + ".*".join(told),), status=1, **more)


def left_out(path, text, *told, **more):
    """What ``path`` holds is left out, with the line ``told``, and the work goes on."""
    return Case({path: text}, (re.escape(path.partition("/")[2]) + ".*" + ".*".join(told),), **more)


def entry(text):
    return json.dumps({"mcpServers": {"clock": text}})


def server(text, *told):
    """One server cannot be used, and is named with its file."""
    return Case({SERVERS: entry(text)}, ("The MCP server clock is not there: .*" + ".*".join(told),))


def hooked(event, command, **more):
    return json.dumps({"hooks": {event: [{"hooks": [{"type": "command", "command": command, **more}]}]}})


def hook(command, *told, **more):
    """A program that gives no answer is named, and decides nothing."""
    text = hooked("UserPromptSubmit", command, **more)
    return Case({OWN: text}, (re.escape(f"UserPromptSubmit, `{command}`: ") + ".*" + ".*".join(told),))


def fact(front, text="Text."):
    return f"---\n{front}\n---\n\n{text}\n"


HEADER = {"type": "session", "version": 1, "id": "old", "parent": "", "workspace": "elsewhere", "model": "m"}


def log(*lines, end="\n", **header):
    rows = [
        json.dumps({**HEADER, **header}),
        *(line if isinstance(line, str) else json.dumps(line) for line in lines),
    ]
    return "\n".join(rows) + end


SAID = {"type": "message", "role": "user", "blocks": [{"type": "text", "text": "hello"}]}
ENDED = {"type": "run_ended", "reason": "end_turn"}
REPLIED = {"type": "message", "role": "assistant", "blocks": [{"type": "text", "text": "Good day."}]}
CALLED = {
    "type": "message",
    "role": "assistant",
    "blocks": [{"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}],
}
RESUME = ("--resume", "old")


def back(text, *told, **more):
    """A session comes back all the same."""
    return Case(
        {LOG + "old.jsonl": text}, ("session: old is back.*" + ".*".join(told),), options=RESUME, **more
    )


CASES = {
    # Settings
    "settings that are empty": stops(OWN, "", "line 1: it is empty", "write {}"),
    "settings with a comma too many": stops(OWN, '{\n "memory": true,\n}', "line 3: a comma", "take it out"),
    "settings with a comment": stops(
        THEIRS, "{\n// mine\n}", "line 2: JSON has no comments", "take this one out"
    ),
    "settings cut off": stops(THEIRS, '{"model": "x"', "line 1: it ends in the middle"),
    "settings in another encoding": stops(
        OWN, '{"model": "ü"}'.encode("latin-1"), "line 1: this is no UTF-8", "save"
    ),
    "settings that are a folder": stops(THEIRS, FOLDER, "this is no file: move it away"),
    "settings far too long": stops(OWN, '"' + "x" * 200_000 + '"', "longer than", "take out"),
    "a key that is not known": stops(
        THEIRS, '{\n"modell": "x"}', "line 2: 'modell' is not known", "'model' meant"
    ),
    "a limit that is a slip": stops(OWN, '{"limits": {"max_turns": 0}}', "limits.max_turns must be from 1"),
    "a mode that is not known": stops(
        OWN, '{"permissions": {"default_mode": "yolo"}}', "there are accept-edits"
    ),
    "a rule without a tool": stops(
        OWN, '{"permissions": {"deny": ["bsh(rm:*)"]}}', "names no tool", "'bash' meant"
    ),
    "a rule that cannot be read": stops(THEIRS, '{"permissions": {"deny": ["bash(ls"]}}', "bash\\(ls"),
    "a store of trust that is damaged": Case(
        {"home/.harness/trusted.json": "{", SERVERS: entry({"command": "x", "args": 1})},
        ("trusted.json, line 1: .* trust is asked for each time", "The MCP server clock"),
    ),
    "a folder that is not trusted": Case(
        {THEIRS: hooked("Stop", "exit 0")}, ("left out, since you have not trusted.*answer y",), answer="n"
    ),
    "an .env in another encoding": Case(
        {".env": "KEY=ü".encode("latin-1")}, (".env cannot be read.*save it as UTF-8",), 1
    ),
    # Hooks
    "a hook for no event": stops(
        OWN, hooked("PreToolUs", "exit 0"), "'PreToolUs' is not known", "'PreToolUse' meant"
    ),
    "a hook without its list": stops(
        OWN, '{"hooks": {"Stop": [{"type": "command"}]}}', 'needs a list "hooks"'
    ),
    "a hook with a slip": stops(OWN, hooked("Stop", "exit 0", timeout_ms=5), "is 'timeout' meant"),
    "a hook without a script": Case(
        {OWN: hooked("PreToolUse", "./no-such.sh", args=[])}, ("no-such.sh is not there.*put it there",)
    ),
    "a hook that fails": hook("echo oh >&2; exit 1", "it ended with status 1: oh", "mend it"),
    "a hook that is not found": hook("no-such-program-here", "command was not found", "mend it"),
    "a hook that hangs": hook("sleep 60", "its time was up", "mend it", timeout=0.3),
    "a hook that is killed": hook("exit 9" if not POSIX else "kill -9 $$", "it ended", "mend it"),
    "a hook with a wrong answer": hook("echo '{\"decision\": 5}'", "the value of its decision", "mend it"),
    "a hook for another event": hook(
        "echo '{\"hookSpecificOutput\": {}}'", 'needs "hookEventName"', "mend it"
    ),
    "a hook with half an answer": hook("echo '{\"decision\":'", "JSON that is broken"),
    # Servers
    "servers that are no JSON": left_out(SERVERS, "{", "line 1", "mend the file"),
    "servers in another encoding": left_out(
        SERVERS, '{"ü": 1}'.encode("latin-1"), "not UTF-8", "mend the file"
    ),
    "servers in a list": left_out(SERVERS, "[]", "it must be like", "mend the file"),
    "servers that are a folder": left_out(SERVERS, FOLDER, "no ordinary file", "mend the file"),
    "a server twice": left_out(
        SERVERS, '{"mcpServers": {"a": {}, "a": {}}}', "'a' stands twice", "mend the file"
    ),
    "a server without a command": server({}, "its command must be a text", "mcp.json"),
    "a server with wrong arguments": server(
        {"command": "x", "args": "y"}, "its args must be a list", "mcp.json"
    ),
    "a server elsewhere": server({"url": "http://127.0.0.1:1"}, "only servers of the type stdio", "mcp.json"),
    "a server without its variable": server(
        {"command": "${NO_SUCH_VARIABLE}"}, "needs the variable", "mcp.json"
    ),
    "a server that is not there": server(
        {"command": "no-such-server-here"}, "cannot be run", "/mcp start clock"
    ),
    "a server that ends at once": server(
        {"command": sys.executable, "args": ["-c", ""]}, "ended as soon as it was started", "/mcp start clock"
    ),
    # Memories, kinds, skills
    "a memory without a head": left_out(MEMORY + "a.md", "Text.", "first line must be ---"),
    "a memory of no type": left_out(
        MEMORY + "a.md", fact("description: x"), "no type that is known: there are"
    ),
    "a memory under another name": left_out(
        MEMORY + "a.md", fact("name: b\ndescription: x\ntype: user"), "must be the same"
    ),
    "a memory that is no YAML": left_out(MEMORY + "a.md", fact("- a\n- b"), "no YAML", "such as name: value"),
    "a memory in another encoding": left_out(
        MEMORY + "a.md", fact("type: ü").encode("latin-1"), "not UTF-8", "save it"
    ),
    "a memory that is a folder": left_out(MEMORY + "a.md", FOLDER, "no ordinary file"),
    "a memory that is too long": left_out(
        MEMORY + "a.md", fact("type: user", "x" * 20_000), "larger than", "move a part"
    ),
    "a file for the folder of memories": Case(
        {MEMORY[:-1]: "x"}, ("memory cannot be read .* so nothing is remembered: it must be a folder",)
    ),
    "a kind of subagents without a word": stops(
        "work/agents/a.md", fact("tools: bash"), "no description", "say there"
    ),
    "a kind with a tool that is none": stops(
        "work/agents/a.md", fact("description: x\ntools: bsh"), "names the tool 'bsh'", "there are"
    ),
    "a skill that is no YAML": left_out(
        "work/skills/a/SKILL.md", fact("- a\n- b"), "no YAML", "such as name: value"
    ),
    # Logs
    "a log that was cut off": back(
        log(SAID, REPLIED, ENDED, '{"type": "mess', end=""), "1 lines? of its log"
    ),
    "a log with rubbish in it": back(
        log(SAID, "rubbish", REPLIED, "[]", ENDED), "2 lines of its log cannot be read"
    ),
    "a log in the middle of a call": back(log(SAID, CALLED), "the last one was cut off"),
    "a log of nothing": back("", "0 runs"),
    "a log of bytes": back(b"\x00\xff\n\xfe", "of its log cannot be read"),
    "a log of another version": Case(
        {LOG + "old.jsonl": log(version=9)}, ("Another version.* old: use that one",), 1, RESUME
    ),
    "a log that is a folder": Case(
        {LOG + "old.jsonl": FOLDER}, ("There is no session 'old'.*another folder is",), 1, RESUME
    ),
    "two logs for a name": Case(
        {LOG + "old-1.jsonl": log(), LOG + "old-2.jsonl": log()},
        ("'old' can be old-.* say which",),
        1,
        RESUME,
    ),
}


def test_there_are_forty():
    assert len(CASES) >= 40


@pytest.mark.parametrize("program", CHAPTERS[-1:], indirect=True)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_file_is_told_in_a_line_and_stays_as_it_is(program, place, monkeypatch, case):
    asked = program.talks(talk("go", Step("Done.")))
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(place / "home"))
    monkeypatch.setattr(program.main, "who_to_ask", lambda *_: lambda question: case.answer)
    for path, data in case.files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        if data is FOLDER:
            (place / path).mkdir()
        else:
            (place / path).write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    status, out, err = program("go", *case.options)

    assert "Traceback" not in out + err
    assert (status, out, len(asked.requests)) == ((0, "Done.\n", 1) if case.status == 0 else (1, "", 0)), err
    lines = [line for line in err.splitlines() if " · workspace " not in line]
    assert len(lines) == len(case.told), err
    for line, told in zip(lines, case.told):
        assert re.search(told, line), err
    assert asked.problems == []
    for path, data in case.files.items():
        if data is FOLDER:
            assert list((place / path).iterdir()) == []
            continue
        now, before = (place / path).read_bytes(), data if isinstance(data, bytes) else data.encode("utf-8")
        is_log = path.startswith(LOG) and case.status == 0  # the session goes on there, behind what was there
        assert now.startswith(before) if is_log else now == before, path
