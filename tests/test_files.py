"""read_file, write_file, edit_file, and the fence around the workspace.

``load`` (from conftest.py) returns a module of the chapter under test by its name.
"""

from __future__ import annotations

import os
import re
import stat
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

GIGABYTE = 1_000_000_000
MEMORY = 20_000_000  # bytes that a call may use at most, whatever the file
POSIX_MODES = os.name == "posix"  # elsewhere a file has no mode but "read-only"


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path) -> Path:
    """A folder beside the workspace with a file that nobody may see or change."""
    folder = tmp_path.resolve() / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(b"secret\n")
    return folder


@pytest.fixture
def agent(load, workspace):
    return make_agent(load, workspace)


def make_agent(load, workspace, **limits):
    made = SimpleNamespace(workspace=workspace, tools={}, show=lambda kind, **data: None)
    load("files").install(made, **limits)
    return made


def call(agent, tool, **arguments):
    """Return what a tool says when all is well."""
    return agent.tools[tool].function(agent, **arguments).text


def read(agent, path, **arguments):
    return call(agent, "read_file", path=path, **arguments)


def write(agent, path, content):
    return call(agent, "write_file", path=path, content=content)


def edit(agent, path, old, new):
    return call(agent, "edit_file", path=path, old_text=old, new_text=new)


@pytest.fixture
def refused(load, agent):
    """Return a function that makes a call, sees that it is refused, and returns the reason."""

    def refuse(tool, by=agent, **arguments):
        with pytest.raises(load("tools").ToolError) as caught:
            call(by, tool, **arguments)
        return str(caught.value)

    return refuse


def link(place: Path, target: Path | str) -> bool:
    """Make a symbolic link. False on a Windows that does not let us: there is nothing to test there."""
    try:
        place.symlink_to(target, target_is_directory=(place.parent / target).is_dir())
    except OSError:
        assert os.name == "nt"
        return False
    return True


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def every_call(path: str) -> list[tuple[str, dict]]:
    """The three tools on one path."""
    return [
        ("read_file", {"path": path}),
        ("write_file", {"path": path, "content": "changed"}),
        ("edit_file", {"path": path, "old_text": "secret", "new_text": "changed"}),
    ]


# The tools as the model sees them


def test_the_tools_and_what_they_say_of_themselves(agent):
    assert {name: tool.read_only for name, tool in agent.tools.items()} == {
        "read_file": True,
        "write_file": False,
        "edit_file": False,
    }
    required = {"read_file": ["path"], "write_file": ["path", "content"], "edit_file": ["path", "old_text", "new_text"]}
    for name, tool in agent.tools.items():
        assert tool.name == name and tool.description
        assert tool.schema["type"] == "object" and tool.schema["additionalProperties"] is False
        assert tool.schema["required"] == required[name]
        assert all(argument["type"] and argument["description"] for argument in tool.schema["properties"].values())
    optional = agent.tools["read_file"].schema["properties"]
    assert [optional[name]["minimum"] for name in ("offset", "limit")] == [1, 1]


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_results_name_the_file_as_a_fact(agent, workspace, tool):
    (workspace / "src").mkdir()
    (workspace / "src" / "a.py").write_bytes(b"secret\n")
    arguments = dict(every_call("./src/../src/a.py"))[tool]
    assert agent.tools[tool].function(agent, **arguments).facts == {"path": "src/a.py"}


def test_limits_belong_to_one_agent(load, workspace):
    small, usual = make_agent(load, workspace, read_chars=1, edit_bytes=3), make_agent(load, workspace)
    (workspace / "a.txt").write_bytes(b"one\ntwo\n")
    assert "two" not in read(small, "a.txt") and "two" in read(usual, "a.txt")
    with pytest.raises(load("tools").ToolError):
        edit(small, "a.txt", "one", "1")
    edit(usual, "a.txt", "one", "1")


# The fence


@pytest.mark.parametrize(
    "path, place",
    [
        ("a.txt", "a.txt"),
        ("./a.txt", "a.txt"),
        ("sub/../a.txt", "a.txt"),
        ("sub//b.txt", "sub/b.txt"),
        ("not/yet/there.txt", "not/yet/there.txt"),
        ("not/../a.txt", "a.txt"),
        (".", "."),
        ("sub/", "sub"),
        ("..a/...b", "..a/...b"),
        ("Ünïcödé/日本 語.txt", "Ünïcödé/日本 語.txt"),
        ("{workspace}/sub/b.txt", "sub/b.txt"),
        ("{workspace}", "."),
    ],
)
def test_paths_inside(load, workspace, path, place):
    (workspace / "sub").mkdir()
    files = load("files")
    target = files.resolve(workspace, path.format(workspace=workspace))
    assert target == workspace / place
    assert files.relative(workspace, target) == place


@pytest.mark.parametrize(
    "path, reason",
    [
        ("../outside/secret.txt", "leads out"),
        ("..", "leads out"),
        ("sub/../../outside/secret.txt", "leads out"),
        ("not/yet/../../../outside/secret.txt", "leads out"),
        ("../workspace-beside/x", "leads out"),
        ("{workspace}/../outside/secret.txt", "leads out"),
        ("{outside}/secret.txt", "leads out"),
        ("{outside}/new.txt", "leads out"),
        ("{other}:\\outside\\secret.txt", "another drive"),
        ("{other}:secret.txt", "another drive"),
        ("\\\\computer\\share\\secret.txt", "another drive"),
        ("//computer/share/secret.txt", "another drive"),
        ("\\\\?\\{other}:\\secret.txt", "another drive"),
        ("", "no path"),
        ("  ", "no path"),
        ("a\0b", "no path"),
    ],
)
def test_paths_that_lead_out_are_refused_by_every_tool(refused, workspace, outside, path, reason):
    (workspace / "sub").mkdir()
    other = "R" if workspace.drive.upper() == "Q:" else "Q"
    path = path.format(workspace=workspace, outside=outside, other=other)
    for tool, arguments in every_call(path):
        said = refused(tool, **arguments)
        assert reason in said and "symbolic" not in said
    assert names(outside) == ["secret.txt"] and names(workspace) == ["sub"]
    assert (outside / "secret.txt").read_bytes() == b"secret\n"


@pytest.mark.parametrize(
    "path",
    ["file", "folder/secret.txt", "folder/new.txt", "folder/new/new.txt", "dangling", "chain", "sub/up/outside/new.txt"],
)
def test_links_that_lead_out_are_refused_by_every_tool(refused, workspace, outside, path):
    (workspace / "sub").mkdir()
    links = [
        link(workspace / "file", outside / "secret.txt"),
        link(workspace / "folder", outside),
        link(workspace / "dangling", outside / "new.txt"),
        link(workspace / "chain", "file"),
        link(workspace / "sub" / "up", Path("..") / ".."),
    ]
    if not all(links):
        return
    for tool, arguments in every_call(path):
        reason = refused(tool, **arguments)
        assert "symbolic link" in reason and "out of the workspace" in reason
        assert str(outside) not in reason
    assert names(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_bytes() == b"secret\n"


@pytest.mark.parametrize("path", ["circle", "circle/x", "one", "circle/../out/secret.txt", "detour/secret.txt"])
def test_links_in_a_circle_are_refused_and_hide_no_way_out(refused, workspace, outside, path):
    # Python's realpath gives up at a circle, and takes the rest of the path at its word.
    links = [
        link(workspace / "circle", "circle"),
        link(workspace / "one", "two"),
        link(workspace / "two", "one"),
        link(workspace / "out", outside),
        link(workspace / "detour", Path("circle") / ".." / "out"),
    ]
    if not all(links):
        return
    for tool, arguments in every_call(path):
        refused(tool, **arguments)
    assert (outside / "secret.txt").read_bytes() == b"secret\n"
    assert names(workspace) == ["circle", "detour", "one", "out", "two"]


def test_links_inside_are_followed_and_kept(agent, workspace):
    (workspace / "real").mkdir()
    (workspace / "real" / "a.txt").write_bytes(b"one\n")
    links = [
        link(workspace / "file", Path("real") / "a.txt"),
        link(workspace / "folder", "real"),
        link(workspace / "new", Path("real") / "new.txt"),
    ]
    if not all(links):
        return
    assert read(agent, "file") == read(agent, "folder/a.txt") == "     1\tone"
    assert write(agent, "file", "two\n").startswith("real/a.txt replaced")
    assert (workspace / "real" / "a.txt").read_bytes() == b"two\n"
    edit(agent, "folder/a.txt", "two", "three")
    edit(agent, "file", "three", "four")
    assert (workspace / "real" / "a.txt").read_bytes() == b"four\n"
    write(agent, "new", "five\n")
    assert (workspace / "real" / "new.txt").read_bytes() == b"five\n"
    assert all((workspace / name).is_symlink() for name in ("file", "folder", "new"))
    assert names(workspace / "real") == ["a.txt", "new.txt"]


def test_names_come_back_as_one_line_of_valid_text(load, workspace):
    shown = load("files").relative(workspace, workspace / "a\nb\x1b[1m" / "c\udcff.txt")
    assert shown == "a?b?[1m/c?.txt"


# read_file


@pytest.mark.parametrize(
    "data, shown",
    [
        (b"one\ntwo\n", "     1\tone\n     2\ttwo"),
        (b"one\ntwo", "     1\tone\n     2\ttwo"),
        (b"one\r\ntwo\r\n", "     1\tone\n     2\ttwo"),
        (b"\n", "     1\t"),
        (b"one\n\n\n", "     1\tone\n     2\t\n     3\t"),
        (b"  one\t \n", "     1\t  one\t "),
        (b"a\rb\x0bc\xe2\x80\xa8d\n", "     1\ta\rb\x0bc\u2028d"),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbf\n", "     1\tone\n     2\t\ufeff"),
        ("grüße 日本\n".encode("utf-8"), "     1\tgrüße 日本"),
    ],
)
def test_lines_are_shown_with_their_numbers(agent, workspace, data, shown):
    (workspace / "a.txt").write_bytes(data)
    assert read(agent, "a.txt") == shown


@pytest.mark.parametrize(
    "offset, limit, lines, read_on",
    [
        (1, 2, [1, 2], 3),
        (3, 2, [3, 4], 5),
        (4, 2, [4, 5], None),
        (5, 9, [5], None),
        (1, 5, [1, 2, 3, 4, 5], None),
        (2, 1, [2], 3),
    ],
)
def test_offset_and_limit(agent, workspace, offset, limit, lines, read_on):
    (workspace / "a.txt").write_bytes(b"1\n2\n3\n4\n5\n")
    expected = [f"{number:>6}\t{number}" for number in lines]
    expected += [f"[there is more: read on with offset={read_on}]"] if read_on else []
    assert read(agent, "a.txt", offset=offset, limit=limit).split("\n") == expected


def test_following_the_offsets_shows_every_line_once(load, workspace):
    agent = make_agent(load, workspace, read_chars=200)
    (workspace / "a.txt").write_bytes(b"".join(b"%d\n" % (number**5) for number in range(1, 101)))
    shown, offset = [], 1
    while offset:
        text = read(agent, "a.txt", offset=offset)
        assert len(text) < 200 + 60
        shown += re.findall(r"^ *\d+\t(\d+)$", text, re.MULTILINE)
        more = re.search(r"\[there is more: read on with offset=(\d+)\]$", text)
        offset = int(more[1]) if more else 0
    assert shown == [str(number**5) for number in range(1, 101)]


def test_an_answer_is_bounded(load, agent, workspace):
    files = load("files")
    (workspace / "many.txt").write_bytes(b"x\n" * 9_000)
    assert files.READ_CHARS - 100 < len(read(agent, "many.txt")) < files.READ_CHARS + 100
    (workspace / "wide.txt").write_bytes((b"x" * 1_000 + b"\n") * 3_000)
    assert files.READ_CHARS - 2_000 < len(read(agent, "wide.txt")) < files.READ_CHARS + 100
    (workspace / "one.txt").write_bytes(b"x" * 3_000_000)
    assert files.LINE_BYTES < len(read(agent, "one.txt")) < files.LINE_BYTES + 100


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize(
    "line, shown",
    [
        ("x" * 9, "x" * 9),
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 10 + " [line cut: 1 more bytes]"),
        ("x" * 13, "x" * 10 + " [line cut: 3 more bytes]"),
        ("日" * 5, "日" * 3 + " [line cut: 5 more bytes]"),
    ],
)
def test_long_lines_are_cut(load, agent, workspace, monkeypatch, line, shown, end):
    monkeypatch.setattr(load("files"), "LINE_BYTES", 10)
    (workspace / "a.txt").write_bytes(line.encode("utf-8") + end + (b"next" if end else b""))
    rows = [re.sub("(cut: )([0-9,]+)", lambda found: found[1] + found[2], row) for row in read(agent, "a.txt").split("\n")]
    # A carriage return at the end of a long line may be counted with it.
    allowed = {shown, shown.replace("3 more", "4 more").replace("5 more", "6 more").replace("1 more", "2 more")}
    assert rows[0].removeprefix("     1\t") in (allowed if end == b"\r\n" else {shown})
    assert rows[1:] == (["     2\tnext"] if end else [])


def test_a_line_is_shown_even_if_it_alone_is_over_the_cap(load, workspace):
    agent = make_agent(load, workspace, read_chars=5)
    (workspace / "a.txt").write_bytes(b"a long line\nanother\n")
    assert read(agent, "a.txt") == "     1\ta long line\n[there is more: read on with offset=2]"


def test_a_huge_file_takes_little_memory(refused, agent, workspace):
    with open(workspace / "huge.txt", "wb") as file:
        file.write(b"a short line\n" * 1_000)
        file.seek(GIGABYTE)  # the hole takes no room on the disk, and reads as one line of NUL bytes
        file.write(b"\nlast\n")
    tracemalloc.start()
    first = read(agent, "huge.txt", offset=999, limit=1)
    rest = read(agent, "huge.txt", offset=1_001)
    reason = refused("edit_file", path="huge.txt", old_text="last", new_text="first")
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (workspace / "huge.txt").unlink()
    assert used < MEMORY
    assert first == "   999\ta short line\n[there is more: read on with offset=1000]"
    assert "\0" not in rest and "[line cut: 999," in rest and "\n  1002\tlast\n" in rest
    assert "too big" in reason


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"x" * 99,
        b"text at first, then\0",
        "text in UTF-16".encode("utf-16"),
        bytes(range(128, 256)) * 3,
        "你好，世界".encode("gbk") * 20,
    ],
)
def test_what_is_no_text_is_refused_with_its_size(refused, workspace, data):
    (workspace / "a.bin").write_bytes(data)
    for tool, arguments in every_call("a.bin"):
        if tool != "write_file":
            reason = refused(tool, **arguments)
            assert "a.bin" in reason and f"({len(data)} bytes)" in reason and "binary" in reason and "bash" in reason
    assert (workspace / "a.bin").read_bytes() == data


def test_other_bytes_are_shown_as_replacements_and_said_to_be(agent, workspace):
    (workspace / "latin.txt").write_bytes("Grüße aus Köln\n".encode("latin-1"))
    first, note = read(agent, "latin.txt").split("\n")
    assert first == "     1\tGr\ufffd\ufffde aus K\ufffdln"
    assert note.startswith("[\ufffd") and "UTF-8" in note


def test_replacement_characters_and_text_cut_at_the_head_are_still_text(load, agent, workspace):
    (workspace / "a.txt").write_bytes("\ufffd\n".encode("utf-8"))
    assert read(agent, "a.txt").startswith("     1\t\ufffd\n")
    head = load("paths").HEAD
    (workspace / "b.txt").write_bytes(b"x" * (head - 1) + "é".encode("utf-8"))
    assert "UTF-8" not in read(agent, "b.txt")


def test_a_late_nul_is_shown_as_a_replacement(load, agent, workspace):
    (workspace / "a.txt").write_bytes(b"x\n" * load("paths").HEAD + b"a\0b\n")
    text = read(agent, "a.txt", offset=load("paths").HEAD + 1)
    assert "\ta\ufffdb\n" in text and "\0" not in text


def test_an_empty_file_is_said_to_be_empty(agent, workspace):
    (workspace / "empty.txt").touch()
    assert read(agent, "empty.txt") == read(agent, "empty.txt", offset=7) == "[empty.txt is empty]"


def test_an_offset_behind_the_end_is_refused_with_the_number_of_lines(refused, workspace):
    (workspace / "a.txt").write_bytes(b"1\n2\n3")
    reason = refused("read_file", path="a.txt", offset=4)
    assert "3 lines" in reason and "up to 3" in reason


@pytest.mark.parametrize(
    "path, near",
    [
        ("src/mian.py", ["src/main.py"]),
        ("src/readme.MD", ["src/README.md"]),
        ("src/zzzzzz", []),
        ("nowhere/main.py", []),
    ],
)
def test_a_missing_file_is_explained_with_names_like_it(refused, workspace, path, near):
    (workspace / "src").mkdir()
    for name in ("main.py", "README.md", "setup.cfg"):
        (workspace / "src" / name).touch()
    for tool, arguments in every_call(path):
        if tool != "write_file":
            reason = refused(tool, **arguments)
            assert reason.startswith(f"{path} does not exist") and "glob" in reason
            assert [name for name in ("src/main.py", "src/README.md", "src/setup.cfg") if name in reason] == near


@pytest.mark.parametrize("path", ["sub", ".", "sub/"])
def test_a_folder_is_refused_by_every_tool(refused, workspace, path):
    (workspace / "sub").mkdir()
    for tool, arguments in every_call(path):
        reason = refused(tool, **arguments)
        assert "is a folder" in reason and "glob" in reason
    assert names(workspace) == ["sub"]


def test_a_pipe_is_refused_and_never_opened(refused, workspace):
    if not hasattr(os, "mkfifo"):
        return  # no pipes with names on Windows
    os.mkfifo(workspace / "fifo")
    for tool, arguments in every_call("fifo"):
        assert "is a pipe" in refused(tool, **arguments)
    assert stat.S_ISFIFO((workspace / "fifo").stat().st_mode)


# write_file


@pytest.mark.parametrize(
    "content, counted",
    [
        ("", "0 lines, 0 bytes"),
        ("a", "1 lines, 1 bytes"),
        ("a\n", "1 lines, 2 bytes"),
        ("a\nb", "2 lines, 3 bytes"),
        ("a\r\nb\r\n", "2 lines, 6 bytes"),
        ("\ufeffgrüße 日本\n", "1 lines, 18 bytes"),
    ],
)
def test_exactly_the_content_is_written(agent, workspace, content, counted):
    assert write(agent, "a.txt", content) == f"a.txt created: {counted}."
    assert (workspace / "a.txt").read_bytes() == content.encode("utf-8")
    (workspace / "a.txt").write_bytes(b"something else, and longer than the content")
    assert write(agent, "a.txt", content) == f"a.txt replaced: {counted}."
    assert (workspace / "a.txt").read_bytes() == content.encode("utf-8")
    assert names(workspace) == ["a.txt"]


def test_missing_folders_are_created(agent, workspace):
    assert write(agent, "neue Ordner/日本/a b.txt", "x").startswith("neue Ordner/日本/a b.txt created")
    assert (workspace / "neue Ordner" / "日本" / "a b.txt").read_bytes() == b"x"
    assert write(agent, "neue Ordner/日本/a b.txt", "y").startswith("neue Ordner/日本/a b.txt replaced")


def test_a_file_in_the_place_of_a_folder_stays(load, agent, workspace):
    (workspace / "a.txt").write_bytes(b"one\n")
    for path in ("a.txt/b.txt", "a.txt/b/c.txt"):
        with pytest.raises((load("tools").ToolError, OSError)):
            write(agent, path, "two")
    assert (workspace / "a.txt").read_bytes() == b"one\n"


def test_half_a_character_is_not_written(load, agent, workspace):
    (workspace / "a.txt").write_bytes(b"one\n")
    with pytest.raises((load("tools").ToolError, UnicodeEncodeError)):
        write(agent, "a.txt", "\ud83d")
    assert (workspace / "a.txt").read_bytes() == b"one\n" and names(workspace) == ["a.txt"]


def test_a_new_file_has_the_usual_mode(agent, workspace):
    write(agent, "new.txt", "x")
    (workspace / "usual.txt").touch()
    assert mode(workspace / "new.txt") == mode(workspace / "usual.txt")


def change(agent, how):
    return write(agent, "a.txt", "two\n") if how == "write" else edit(agent, "a.txt", "one", "two")


@pytest.mark.parametrize("how", ["write", "edit"])
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o755, 0o444])
def test_the_mode_of_a_file_is_kept(load, agent, workspace, how, bits):
    place = workspace / "a.txt"
    place.write_bytes(b"one\n")
    place.chmod(bits)
    before = mode(place)
    try:
        change(agent, how)
    except PermissionError:
        assert not POSIX_MODES and bits == 0o444  # Windows does not replace a read-only file
        assert place.read_bytes() == b"one\n"
    else:
        assert place.read_bytes() == b"two\n"
    assert mode(place) == before and names(workspace) == ["a.txt"]
    place.chmod(0o600)  # so that Windows can remove it


@pytest.mark.parametrize("how", ["write", "edit"])
@pytest.mark.parametrize("broken", ["replace", "chmod"])
def test_a_change_that_fails_leaves_the_old_file_and_nothing_else(agent, workspace, monkeypatch, how, broken):
    (workspace / "a.txt").write_bytes(b"one\n")

    def fail(*arguments):
        raise OSError("the disk is on strike")

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        with pytest.raises(Exception, match="strike"):
            change(agent, how)
    assert (workspace / "a.txt").read_bytes() == b"one\n"
    # With chmod broken the clean-up is, too: what matters then is the old file.
    assert names(workspace) == ["a.txt"] or broken == "chmod"


@pytest.mark.parametrize("how", ["write", "edit"])
def test_a_change_is_one_rename_of_a_complete_file_in_the_same_folder(agent, workspace, monkeypatch, how):
    (workspace / "a.txt").write_bytes(b"one\n")
    seen = []
    rename, chmod = os.replace, os.chmod

    def watched_rename(source, target):
        seen.append((Path(source).read_bytes(), Path(target).read_bytes(), Path(source).parent == Path(target).parent))
        rename(source, target)

    def watched_chmod(path, bits):
        seen.append(Path(path).stat().st_size)
        chmod(path, bits)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", watched_rename)
        patch.setattr(os, "chmod", watched_chmod)
        change(agent, how)
    # The mode is set while the new file is still empty: what is private is never open to others.
    assert seen == [0, (b"two\n", b"one\n", True)]


# edit_file


def test_an_edit_shows_the_lines_around_it(agent, workspace):
    (workspace / "a.txt").write_bytes(b"".join(b"line %d\n" % number for number in range(1, 21)))
    assert edit(agent, "a.txt", "line 10\n", "ten\nand a half\n").split("\n") == [
        "a.txt edited at line 10. There is now:",
        *(f"     {number}\tline {number}" for number in (7, 8, 9)),
        "    10\tten",
        "    11\tand a half",
        *(f"    {number}\tline {number - 1}" for number in (12, 13, 14, 15)),
    ]
    assert edit(agent, "a.txt", "line 1\n", "").split("\n") == [
        "a.txt edited at line 1. There is now:",
        *(f"     {number}\tline {number + 1}" for number in (1, 2, 3, 4)),
    ]


@pytest.mark.parametrize(
    "before, old, new, after",
    [
        # plain
        (b"one two\n", "two", "three", b"one three\n"),
        (b"one", "one", "two", b"two"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
        (b"one", "one", "", b""),
        (b"a\nb", "b", "b\n", b"a\nb\n"),
        # nothing in the texts is special
        (b"x = a.b*(c)[0] + $1\n", "a.b*(c)[0] + $1", r"\1 \g<0> \n", rb"x = \1 \g<0> \n" + b"\n"),
        (b"abc\n", "b", "\\", b"a\\c\n"),
        # Windows line ends
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "A\nB\n", b"A\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb\r\n", "A\r\nB\r\n", b"A\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "b1\nb2", b"a\r\nb1\r\nb2\r\nc\r\n"),
        (b"a\r\nb\r\nc", "c", "c1\nc2", b"a\r\nb\r\nc1\r\nc2"),
        (b"a\r\nb\r\n", "\nb", "\nB", b"a\r\nB\r\n"),
        (b"a\nb\n", "a\r\nb\r\n", "A\r\nB\r\n", b"A\nB\n"),
        (b"a\n", "a", "A\r\nB", b"A\nB\n"),
        (b"a", "a", "A\nB", b"A\nB"),
        # mixed line ends
        (b"a\r\nb\nc\r\nd\n", "b", "B", b"a\r\nB\nc\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\n", "a\nB\nc\n", b"a\r\nB\nc\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "b\n", "b\nnew\n", b"a\r\nb\nnew\nc\r\nd\n"),
        (b"a\nb\r\nc\n", "b\n", "b\nnew\n", b"a\nb\r\nnew\r\nc\n"),
        (b"a\r\nb\nc\r\n", "b", "b1\nb2", b"a\r\nb1\nb2\nc\r\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\n", "", b"d\n"),
        # bytes that are no line ends and no UTF-8
        (b"a\rb\nc\n", "c", "C", b"a\rb\nC\n"),
        (b"caf\xe9 one, text enough \xff\xfe\n", "one", "zwölf", "caf\udce9 zwölf, text enough \udcff\udcfe\n"),
        (b"\xef\xbb\xbfone\r\n", "one\n", "two\n", b"\xef\xbb\xbftwo\r\n"),
        ("grüße 日本\n".encode("utf-8"), "日本", "世界", "grüße 世界\n"),
    ],
)
def test_only_the_place_changes(agent, workspace, before, old, new, after):
    (workspace / "a b ü.txt").write_bytes(before)
    edit(agent, "a b ü.txt", old, new)
    after = after.encode("utf-8", "surrogateescape") if isinstance(after, str) else after
    assert (workspace / "a b ü.txt").read_bytes() == after


@pytest.mark.parametrize(
    "data, old, reason",
    [
        (b"x\nx\nno\nx\n", "x", "3 times, first in lines 1, 2, 4:"),
        (b"x\n" * 9, "x", "9 times, first in lines 1, 2, 3, 4, 5:"),
        (b"aaa\n", "aa", "2 times, first in lines 1, 1:"),
        (b"a\n\n\nb\n", "\n\n", "2 times, first in lines 1, 2:"),
        (b"a\r\n\r\n\r\nb\r\n", "\n\n", "2 times, first in lines 1, 2:"),
        (b"a\r\nb\r\na\r\nb\r\n", "a\nb\n", "2 times, first in lines 1, 3:"),
    ],
)
def test_a_text_found_more_than_once_is_refused_with_the_places(refused, workspace, data, old, reason):
    (workspace / "a.txt").write_bytes(data)
    assert reason in refused("edit_file", path="a.txt", old_text=old, new_text="y")
    assert (workspace / "a.txt").read_bytes() == data


@pytest.mark.parametrize(
    "old, hint",
    [
        ("gone", ""),
        ("def  f():\n\treturn 1", "line 2"),
        ("return 1 ", "line 3"),
        ("     2\tdef f():", ""),
        ("   \t \t", ""),
        ("DEF F():", ""),
    ],
)
def test_a_text_that_is_not_there_is_refused_with_the_cure(refused, workspace, old, hint):
    data = b"import os\ndef f():\n    return 1\n"
    (workspace / "a.txt").write_bytes(data)
    reason = refused("edit_file", path="a.txt", old_text=old, new_text="y")
    assert "not in a.txt" in reason and "read the file again" in reason and "without line numbers" in reason
    assert ("white space" in reason) == bool(hint) and hint in reason
    assert (workspace / "a.txt").read_bytes() == data


@pytest.mark.parametrize(
    "old, new, reason",
    [("", "x", "empty"), ("one", "one", "the same"), ("one\r\n", "one\n", "the same")],
)
def test_edits_that_make_no_sense_are_refused(refused, workspace, old, new, reason):
    (workspace / "a.txt").write_bytes(b"one\n")
    assert reason in refused("edit_file", path="a.txt", old_text=old, new_text=new)
    assert (workspace / "a.txt").read_bytes() == b"one\n"


def test_an_edit_that_leaves_nothing_says_so(agent, workspace):
    (workspace / "a.txt").write_bytes(b"one\n")
    assert edit(agent, "a.txt", "one\n", "").endswith("now:\n[an empty file]")
    assert (workspace / "a.txt").read_bytes() == b""


def test_what_an_edit_shows_is_bounded(load, agent, workspace):
    files = load("files")
    (workspace / "a.txt").write_bytes(b"one\n" + b"y" * 1_000_000 + b"\n")
    text = edit(agent, "a.txt", "one", "x\n" * 500)
    assert text.count("\n") == files.SNIPPET
    assert len(edit(agent, "a.txt", "x\n" * 500, "two")) < files.LINE_BYTES + 200


def test_an_edit_of_a_file_over_the_limit_is_refused(load, refused, workspace):
    agent = make_agent(load, workspace, edit_bytes=4)
    (workspace / "a.txt").write_bytes(b"one\n")
    edit(agent, "a.txt", "one", "four")
    assert "takes 4 bytes" in refused("edit_file", by=agent, path="a.txt", old_text="four", new_text="five")
    assert (workspace / "a.txt").read_bytes() == b"four\n"
