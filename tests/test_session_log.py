"""The log: one record a line, one writer, nothing acknowledged is lost, and no damage stops who reads it.

Its processes are of one chapter, the latest: see session_child.py.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import session_child
from conftest import chapters_with

from offline_model import models
from offline_model import referee

KILLS, SESSIONS = 50, 5
CHILD = Path(session_child.__file__)


@pytest.fixture
def log(load):
    return load("session_log")


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def child(mode, *arguments, **options):
    """Start session_child.py on the latest chapter that has the log."""
    command = [sys.executable, "-B", str(CHILD), mode, chapters_with("session_log")[-1], *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, **pipes, **options)


def finish(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    return out.decode()


def refused_by_the_api(messages):
    """Raise what the API would say about a request with these messages."""
    request = {"model": "offline-model", "max_tokens": 100, "messages": messages}
    referee.check_shape(request, referee.NEW_VERSION, [], False)
    referee.check_meaning(request, models.MODELS["offline-model"], False, False, "user", "refuse")


# One record, one line, one write.


def test_a_record_is_one_line_that_says_what_and_when(log, tmp_path):
    before = time.time()
    one = log.Log(tmp_path / "a.jsonl")
    one.append("state", name="todos", value={"text": "two\nlines, ü, \u2028"})
    one.close()
    [record] = lines(tmp_path / "a.jsonl")
    assert before <= record.pop("time") <= time.time()
    assert record == {"type": "state", "name": "todos", "value": {"text": "two\nlines, ü, \u2028"}}
    assert (tmp_path / "a.jsonl").read_bytes().endswith(b"\n")


def test_a_record_is_there_for_everybody_when_append_returns(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl")
    for number in range(3):
        one.append("begun", call=str(number))
        assert [record["call"] for record in log.read(one.path)] == [str(n) for n in range(number + 1)]
    one.close()


def test_a_record_goes_out_in_one_write_at_the_end_of_the_file(log, tmp_path, monkeypatch):
    one, wrote = log.Log(tmp_path / "a.jsonl"), []
    write = os.write
    monkeypatch.setattr(log.os, "write", lambda file, data: wrote.append(data) or write(file, data))
    one.append("state", name="long", value="x" * 3_000_000)
    one.append("begun", call="a")
    assert len(wrote) == 2 and all(data.count(b"\n") == 1 and data.endswith(b"\n") for data in wrote)
    one.close()


def test_what_is_written_later_stands_behind_what_somebody_else_appended(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl")
    one.append("begun", call="a")
    with open(one.path, "ab") as file:
        file.write(b'{"type": "begun", "call": "b"}\n')
    one.append("begun", call="c")
    one.close()
    assert [record["call"] for record in log.read(one.path)] == ["a", "b", "c"]


def test_only_its_owner_may_read_it(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl")
    one.close()
    log.write_new(tmp_path / "b.jsonl", [{"type": "session"}])
    if os.name == "posix":
        assert [(tmp_path / name).stat().st_mode & 0o077 for name in ("a.jsonl", "b.jsonl")] == [0, 0]


def test_text_that_is_no_unicode_is_replaced(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl")
    one.append("state", name="x", value="a\ud800b")
    one.close()
    assert [record["value"] for record in log.read(one.path)] == ["a?b"]


def test_the_mask_sees_each_line(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl", lambda line: line.replace("secret", "[key]"))
    one.append("state", name="secret", value={"secret": ["a secret"]})
    one.close()
    assert "secret" not in one.path.read_text("utf-8") and "a [key]" in one.path.read_text("utf-8")


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_what_json_cannot_hold_is_refused_and_leaves_nothing(log, tmp_path, value):
    one = log.Log(tmp_path / "a.jsonl")
    with pytest.raises(OSError, match="JSON"):
        one.append("state", name="x", value=value)
    one.append("begun", call="a")
    one.close()
    assert [record["type"] for record in log.read(one.path)] == ["begun"]


def test_a_record_that_nobody_could_read_again_is_refused(log, tmp_path, monkeypatch):
    monkeypatch.setattr(log, "MAX_LINE", 1000)
    one = log.Log(tmp_path / "a.jsonl")
    with pytest.raises(OSError, match="more than 1,000 bytes"):
        one.append("state", name="x", value="x" * 1000)
    one.close()
    assert one.path.read_bytes() == b""


def test_a_write_that_was_cut_short_is_an_error_and_the_next_record_begins_a_line(log, tmp_path, monkeypatch):
    one = log.Log(tmp_path / "a.jsonl")
    one.append("begun", call="a")
    write = os.write
    monkeypatch.setattr(log.os, "write", lambda file, data: write(file, data[:10]))
    with pytest.raises(OSError, match="only a part"):
        one.append("begun", call="b")
    monkeypatch.undo()
    one.append("begun", call="c")
    one.append("begun", call="d")
    one.close()
    assert [record.get("call", "-") for record in log.read(one.path)] == ["a", "-", "c", "d"]


def test_an_interrupt_in_the_middle_of_a_write_spoils_no_other_record(log, tmp_path, monkeypatch):
    one, write = log.Log(tmp_path / "a.jsonl"), os.write

    def interrupted(file, data):
        write(file, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(log.os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.append("begun", call="a")
    monkeypatch.undo()
    one.append("begun", call="b")
    one.close()
    assert [record["call"] for record in log.read(one.path)] == ["a", "b"]


def test_after_close_nothing_is_written(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl")
    one.close()
    one.close()
    with pytest.raises(OSError):
        one.append("begun", call="a")
    assert one.path.read_bytes() == b""


# One writer.


def test_a_log_has_one_writer(log, tmp_path):
    one = log.Log(tmp_path / "a.jsonl")
    with pytest.raises(log.SessionError, match="--fork") as raised:
        log.Log(tmp_path / "a.jsonl")
    assert raised.value.kind == "busy" and "/fork a" in str(raised.value)
    one.append("begun", call="a")
    one.close()
    two = log.Log(tmp_path / "a.jsonl")
    two.append("begun", call="b")
    two.close()
    assert [record["call"] for record in log.read(one.path)] == ["a", "b"]


def test_the_lock_dies_with_the_process(log, tmp_path):
    holder = child("hold", tmp_path / "a.jsonl")
    assert holder.stdout.readline().split() == [b"open"]
    with pytest.raises(log.SessionError) as raised:
        log.Log(tmp_path / "a.jsonl")
    assert raised.value.kind == "busy"
    holder.kill()
    holder.communicate()
    one = log.Log(tmp_path / "a.jsonl")
    one.append("begun", call="ours")
    one.close()
    assert [record["call"] for record in log.read(one.path)] == ["held", "ours"]


def test_even_two_who_ask_for_no_lock_tear_no_line_of_each_other(log, tmp_path):
    shouting = [child("shout", tmp_path / "a.jsonl", name, 200) for name in ("a", "b")]
    for each in shouting:
        finish(each)
    names = [record["name"] for record in log.read(tmp_path / "a.jsonl")]
    assert sorted(names) == sorted(f"{name}-{number}" for name in ("a", "b") for number in range(200))
    for name in ("a", "b"):
        own = [int(each.split("-")[1]) for each in names if each.startswith(name)]
        assert own == sorted(own)


def test_where_no_lock_can_be_had_nothing_is_written(log, tmp_path, monkeypatch):
    def no_locks(file, at):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(log, "try_lock", no_locks)
    with pytest.raises(OSError, match="No locks"):
        log.Log(tmp_path / "a.jsonl")


def test_windows_locks_a_byte_that_is_no_part_of_a_record(log, tmp_path, monkeypatch):
    class Locking:
        LK_NBLCK = 2
        taken: set = set()

        def locking(self, file, mode, count):
            assert os.lseek(file, 0, os.SEEK_CUR) >= 1 << 40 and (mode, count) == (self.LK_NBLCK, 1)
            if "byte" in self.taken:
                raise PermissionError
            self.taken.add("byte")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Locking())
    one = log.Log(tmp_path / "a.jsonl")
    one.append("begun", call="a")
    with pytest.raises(log.SessionError):
        log.Log(tmp_path / "a.jsonl")
    one.close()
    assert [record["call"] for record in log.read(one.path)] == ["a"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_plain_file_is_not_opened(log, tmp_path, kind):
    path = tmp_path / "a.jsonl"
    if kind == "link":
        (tmp_path / "else.txt").write_text("")
        try:
            path.symlink_to(tmp_path / "else.txt")
        except OSError:
            return  # Windows lets not everybody make one
        if not hasattr(os, "O_NOFOLLOW"):
            return
    elif kind == "folder":
        path.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        return
    with pytest.raises(OSError):
        log.Log(path)
    assert log.found(tmp_path) == []


# Reading what may be damaged.

GOOD = b'{"type": "begun", "call": "a"}\n'


@pytest.mark.parametrize("torn", [b'{"type": "begun", "ca', b"{", b'{"type": "begun", "call": "b"}', b"\xff\xfe", b"\0" * 100])
def test_a_torn_last_line_is_no_record_and_the_next_one_begins_a_line(log, tmp_path, torn):
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD + torn)
    assert [record["type"] for record in log.read(path)] == ["begun", "damaged"]
    one = log.Log(path)
    one.append("begun", call="c")
    one.append("begun", call="d")
    one.close()
    assert path.read_bytes().startswith(GOOD + torn + b"\n"), "what was written is never rewritten"
    kept = [record["call"] for record in log.read(path) if record["type"] == "begun"]
    assert kept in (["a", "c", "d"], ["a", "b", "c", "d"])  # a whole line may lack nothing but its end


@pytest.mark.parametrize("before", [b"", GOOD])
def test_where_nothing_was_torn_the_next_record_follows_without_an_empty_line(log, tmp_path, before):
    path = tmp_path / "a.jsonl"
    path.write_bytes(before)
    one = log.Log(path)
    one.append("begun", call="b")
    one.close()
    assert path.read_bytes().startswith(before + b"{") and len(lines(path)) == len(before.splitlines()) + 1


DAMAGED = [
    b"no json",
    b"{",
    b"[]",
    b"12",
    b"null",
    b"{}",
    b'{"type": 1}',
    b'{"type": "begun"}',
    b'{"type": "begun", "call": 1}',
    b'{"type": "message", "role": "system", "blocks": []}',
    b'{"type": "message", "role": ["user"], "blocks": []}',
    b'{"type": "message", "role": "user", "blocks": {}}',
    b'{"type": "message", "role": "user", "blocks": ["text"]}',
    b'{"type": "message", "role": "user", "blocks": [{"text": "no type"}]}',
    b'{"type": "message", "role": "user", "blocks": [{"type": "text"}]}',
    b'{"type": "message", "role": "assistant", "blocks": [{"type": "tool_use", "id": "a", "name": "bash"}]}',
    b'{"type": "message", "role": "user", "blocks": [{"type": "tool_result"}]}',
    b'{"type": "message", "role": "user", "blocks": [{"type": "tool_result", "tool_use_id": "a", "content": 1}]}',
    b'{"type": "replaced", "messages": {}}',
    b'{"type": "replaced", "messages": [1]}',
    b'{"type": "replaced", "messages": [{"role": "user"}]}',
    b'{"type": "state", "name": "x"}',
    b'{"type": "usage", "model": "x", "usage": 1}',
    b'{"type": "run_ended"}',
    b'{"type": "session", "id": "x"}',
    b"[" * 100_000,
    b'{"type": "begun", "call": "\xff"}',
    b"\0\0\0\0",
]


@pytest.mark.parametrize("line", DAMAGED, ids=lambda line: repr(line[:60]))
def test_a_damaged_line_in_the_middle_stands_for_itself_alone(log, tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(GOOD + line + b"\n" + GOOD)
    assert [record["type"] for record in log.read(tmp_path / "a.jsonl")] == ["begun", "damaged", "begun"]


def test_a_type_that_is_not_known_comes_through_as_it_is(log, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(GOOD + b'{"type": "dream", "of": [1]}\n')
    assert list(log.read(tmp_path / "a.jsonl"))[1] == {"type": "dream", "of": [1]}


def test_empty_lines_are_nothing(log, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n" + GOOD + b" \r\n" + GOOD)
    assert [record["type"] for record in log.read(tmp_path / "a.jsonl")] == ["begun", "begun"]


def test_a_line_that_is_too_long_is_passed_over_in_pieces(log, tmp_path, monkeypatch):
    monkeypatch.setattr(log, "MAX_LINE", 100)
    for length in (99, 100, 101, 200, 250):
        (tmp_path / "a.jsonl").write_bytes(GOOD + b"x" * length + b"\n" + GOOD)
        assert [record["type"] for record in log.read(tmp_path / "a.jsonl")] == ["begun", "damaged", "begun"]


def test_reading_is_done_line_by_line(log, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(GOOD * 3)
    records = log.read(tmp_path / "a.jsonl")
    assert next(records)["call"] == "a"
    records.close()


# Names and places.


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a\\b", ".hidden", "a.b", "a b", "x" * 65, "-x", "a\n", "C:x"])
def test_no_name_leads_out_of_the_folder(log, tmp_path, name):
    with pytest.raises(log.SessionError) as raised:
        log.place(tmp_path, name)
    assert raised.value.kind == "unknown"


def test_a_new_name_is_a_good_one_and_sorts_by_time(log, tmp_path):
    name = log.new_id()
    assert log.place(tmp_path, name) == tmp_path / f"{name}.jsonl"
    assert name.startswith(time.strftime("%Y%m")) and log.new_id() != name


def test_logs_are_found_the_last_written_first(log, tmp_path):
    for number, name in enumerate(("b", "a", "c")):
        (tmp_path / f"{name}.jsonl").write_bytes(GOOD)
        os.utime(tmp_path / f"{name}.jsonl", (number, number))
    (tmp_path / ".x.tmp").write_bytes(GOOD)
    (tmp_path / "notes.txt").write_bytes(GOOD)
    (tmp_path / ".d.jsonl").write_bytes(GOOD)
    assert [path.stem for path in log.found(tmp_path)] == ["c", "a", "b"]
    assert log.found(tmp_path / "nowhere") == [] and log.found(tmp_path / "notes.txt") == []


def test_a_new_log_is_made_whole_or_not_at_all(log, tmp_path):
    def records():
        yield {"type": "begun", "call": "a"}
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        log.write_new(tmp_path / "a.jsonl", records())
    assert list(tmp_path.iterdir()) == []
    log.write_new(tmp_path / "a.jsonl", [{"type": "begun", "call": "ü\n"}, {"type": "x"}])
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    assert list(log.read(tmp_path / "a.jsonl")) == [{"type": "begun", "call": "ü\n"}, {"type": "x"}]
    with pytest.raises(log.SessionError) as raised:
        log.write_new(tmp_path / "a.jsonl", [])
    assert raised.value.kind == "exists" and len(list(log.read(tmp_path / "a.jsonl"))) == 2


# Kill -9.


class Nursery:
    """Where sessions are born and killed: in forks of one process, which is quick, else in processes of their own."""

    def __init__(self):
        self.mother = child("nursery") if hasattr(os, "fork") else None

    def run_and_kill(self, workspace, name, records, delay):
        """Let a session run until it has said so many times that a record is kept; kill it. Returns all that it said."""
        if self.mother:
            self.mother.stdin.write(f"{workspace} {name}\n".encode())
            self.mother.stdin.flush()
            process, said = int(self.mother.stdout.readline()), []
            while len(said) < records and (not said or said[-1] != ["ended"]):
                said.append(self.mother.stdout.readline().decode().split())
            if said[-1] != ["ended"]:
                time.sleep(delay)
                with contextlib.suppress(ProcessLookupError):  # it came to its end in the meantime
                    os.kill(process, signal.SIGKILL)
            while said[-1] != ["ended"]:
                said.append(self.mother.stdout.readline().decode().split())
            return said[:-1]
        process = child("work", workspace, *name.split())
        said = [process.stdout.readline() for _ in range(records)]
        time.sleep(delay)
        process.kill()
        return [line.decode().split() for line in [*said, *process.communicate()[0].splitlines()] if line]


def test_no_kill_loses_what_was_acknowledged_or_leaves_a_crooked_history(tmp_path, monkeypatch):
    """Killed fifty times, and resumed each time, by the next process and by us in turn, over five sessions."""
    monkeypatch.setattr(sys, "argv", ["", "", chapters_with("session_log")[-1]])
    nursery, chance, seen = Nursery(), random.Random(12), set()
    for session in range(SESSIONS):
        workspace = tmp_path / f"work-{session}"
        workspace.mkdir()
        name, acknowledged = "", []
        for kill in range(KILLS // SESSIONS):
            acknowledged += nursery.run_and_kill(workspace, name, chance.randrange(1, 40), chance.choice([0, 0, 0.001, 0.004]))
            name = acknowledged[-1][0]
            path = workspace / ".harness" / "sessions" / f"{name}.jsonl"
            written = [(name, record["type"], session_child.digest(record)) for record in session_child.load("session_log").read(path)]
            assert written[: len(acknowledged)] == [tuple(each) for each in acknowledged], "an acknowledged record is lost"
            assert len(written) - len(acknowledged) <= 1, "the next step began before the record was written"
            seen |= resumed_as_folded(workspace, path, kill % 2)
            acknowledged = [(name, record["type"], session_child.digest(record)) for record in session_child.load("session_log").read(path)]
    if nursery.mother:
        finish(nursery.mother)
    assert seen == {True, False}, "no kill fell where it matters"


def resumed_as_folded(workspace, path, in_a_copy):
    """Resume what was killed; assert that the history is valid and the state is that of the log. Returns the fates of calls.

    In a copy nothing is written into the log itself, so that the next process has to mend it.
    """
    load = session_child.load
    if in_a_copy:
        copy = workspace / "copy" / ".harness" / "sessions" / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        workspace, path = workspace / "copy", copy
    records = list(load("session_log").read(path))
    told = load("folds").past(records)
    agent = session_child.new_agent(workspace)
    agent.session.resume(path.stem)
    agent.session.close()
    messages = agent.history.messages
    ask = [{"role": "user", "content": [{"type": "text", "text": "go on"}]}] if messages[-1]["role"] == "assistant" else []
    refused_by_the_api(messages + ask)
    assert messages[: len(told.messages) - 1] == told.messages[:-1]
    assert agent.history.messages == load("folds").messages(load("session_log").read(path))
    store = agent.restores["todos"].__self__.store
    kept = told.states.get("todos", {"items": []})["items"]
    assert [(item.content, item.status) for item in store.items()] == [(item["content"], item["status"]) for item in kept]
    words = {True: load("history").UNKNOWN, False: load("loop").NOT_STARTED}
    for call, was_begun in told.open_calls().items():
        assert [b["content"] for b in messages[-1]["content"] if b.get("tool_use_id") == call] == [words[was_begun]]
    return set(told.open_calls().values())


def test_a_log_of_200_megabytes_is_resumed_in_seconds_and_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["", "", chapters_with("session_log")[-1]])
    folder = tmp_path / ".harness" / "sessions"
    folder.mkdir(parents=True)
    text = "x" * 100_000
    with open(folder / "big.jsonl", "w", encoding="utf-8") as file:
        write = lambda kind, **data: file.write(json.dumps({"type": kind, "time": 1.0, **data}) + "\n")  # noqa: E731
        write("session", version=1, id="big", parent="", workspace=str(tmp_path.resolve()), model="m")
        for number in range(1000):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "nap", "input": {"text": text}}
            write("message", role="user", blocks=[{"type": "text", "text": f"prompt {number}"}])
            write("message", role="assistant", blocks=[call])
            write("begun", call=call["id"])
            write("message", role="user", blocks=[{"type": "tool_result", "tool_use_id": call["id"], "content": text}])
            write("message", role="assistant", blocks=[{"type": "text", "text": "done"}])
            write("run_ended", reason="end_turn")
            if number % 20 == 19:
                summary = [{"role": "user", "content": [{"type": "text", "text": "a summary"}]}]
                write("replaced", messages=[*summary, {"role": "assistant", "content": [{"type": "text", "text": "good"}]}])
    assert (folder / "big.jsonl").stat().st_size > 200_000_000
    agent = session_child.new_agent(tmp_path)
    tracemalloc.start()
    try:
        start = time.perf_counter()
        agent.session.resume()
        assert time.perf_counter() - start < 15  # some two seconds; a busy machine takes longer
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
        agent.session.close()
        (folder / "big.jsonl").unlink()  # pytest would keep it for three runs
    assert len(agent.history.messages) == 2 and agent.session.id == "big"
