"""glob and grep.

``load`` (from conftest.py) returns a module of the chapter under test by its name.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

CATASTROPHE = "(a+)+$"  # on a line of many a and something else, each a doubles the time
VICTIM = b"a" * 60 + b"!\n"


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path) -> Path:
    """A folder beside the workspace that no search may find."""
    folder = tmp_path.resolve() / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(b"secret\n")
    return folder


@pytest.fixture
def agent(load, workspace):
    return make_agent(load, workspace)


def make_agent(load, workspace, **limits):
    made = SimpleNamespace(workspace=workspace, tools={}, show=lambda kind, **data: None)
    load("search").install(made, **limits)
    return made


def call(agent, tool, **arguments):
    """Return what a tool says when all is well. A tool may return plain text or a Result."""
    answer = agent.tools[tool].function(agent, **arguments)
    return getattr(answer, "text", answer)


def glob(agent, pattern, **arguments):
    return call(agent, "glob", pattern=pattern, **arguments).split("\n")


def grep(agent, pattern, **arguments):
    return call(agent, "grep", pattern=pattern, **arguments).split("\n")


@pytest.fixture
def refused(load, agent):
    """Return a function that makes a call, sees that it is refused, and returns the reason."""

    def refuse(tool, **arguments):
        with pytest.raises(load("tools").ToolError) as caught:
            call(agent, tool, **arguments)
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


def fill(folder: Path, *names: str, content: bytes = b"") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


# The tools as the model sees them


def test_the_tools_and_what_they_say_of_themselves(load, agent):
    assert {name: (tool.name, tool.read_only) for name, tool in agent.tools.items()} == {
        "glob": ("glob", True),
        "grep": ("grep", True),
    }
    for tool in agent.tools.values():
        assert all(name in tool.description for name in load("search").SKIPPED)
        assert tool.schema["required"] == ["pattern"] and tool.schema["additionalProperties"] is False
        assert all(argument["type"] and argument["description"] for argument in tool.schema["properties"].values())
    assert list(agent.tools["glob"].schema["properties"]) == ["pattern", "path"]
    assert list(agent.tools["grep"].schema["properties"]) == ["pattern", "path", "glob", "ignore_case"]


def test_limits_belong_to_one_agent(load, workspace):
    small, usual = make_agent(load, workspace, max_paths=1, max_hits=1), make_agent(load, workspace)
    fill(workspace, "a", "b", content=b"x\n")
    assert len(glob(small, "*")) == 2 and glob(usual, "*") == ["a", "b"]
    assert len(grep(small, "x")) == 2 and grep(usual, "x") == ["a:1: x", "b:1: x"]


# glob

TREE = ("a.py", "b.txt", "src/a.py", "src/deep/er/c.py", "src/deep/d.py", "src/[x].py", "tests/.hidden/e.py")


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("*", ["a.py", "b.txt", "src/", "tests/"]),
        ("*.py", ["a.py"]),
        ("./*.py", ["a.py"]),
        ("?.*", ["a.py", "b.txt"]),
        ("src/*.py", ["src/[x].py", "src/a.py"]),
        ("src\\*.py", ["src/[x].py", "src/a.py"]),
        ("src/", ["src/"]),
        ("src/deep", ["src/deep/"]),
        ("*/*/*.py", ["src/deep/d.py", "tests/.hidden/e.py"]),
        ("**/*.py", ["a.py", *("src/" + name for name in ("[x].py", "a.py", "deep/d.py", "deep/er/c.py"))]),
        ("**/**/c.py", ["src/deep/er/c.py"]),
        ("**/deep/**/*.py", ["src/deep/d.py", "src/deep/er/c.py"]),
        ("src/**/a.py", ["src/a.py"]),
        ("**/er", ["src/deep/er/"]),
        ("src/deep/**", ["src/deep/", "src/deep/d.py", "src/deep/er/", "src/deep/er/c.py"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("[!a].*", ["b.txt"]),
        ("src/[[]x].py", ["src/[x].py"]),
        ("tests/**/e.py", ["tests/.hidden/e.py"]),
    ],
)
def test_patterns(agent, workspace, pattern, found):
    fill(workspace, *TREE)
    found = found + ["tests/.hidden/e.py"] if pattern == "**/*.py" else found
    assert glob(agent, pattern) == found


@pytest.mark.parametrize("pattern", ["A.py", "py", "*.p", "sr", "deep", "a.py/*", "**/src/c.py", "[z-a]", "["])
def test_a_pattern_that_matches_nothing_says_so(agent, workspace, pattern):
    fill(workspace, *TREE)
    (answer,) = glob(agent, pattern)
    assert answer.startswith(f"[nothing matches {pattern!r}") and "**/" in answer and "{a,b}" not in answer


def test_braces_are_no_choice_and_it_says_so(agent, workspace):
    fill(workspace, "a.py", "a{1}.py")
    assert "{a,b}" in glob(agent, "*.{py,txt}")[0]
    assert glob(agent, "a{1}.py") == ["a{1}.py"]


def test_paths_are_given_as_the_other_tools_take_them(agent, workspace):
    fill(workspace, "neue Ordner/日本/a b.txt", content=b"x\n")
    assert glob(agent, "*", path="neue Ordner") == ["neue Ordner/日本/"]
    assert glob(agent, "**/*.txt", path="./neue Ordner/../neue Ordner/日本") == ["neue Ordner/日本/a b.txt"]
    assert glob(agent, "*", path=str(workspace / "neue Ordner" / "日本")) == ["neue Ordner/日本/a b.txt"]
    assert grep(agent, "x", path="neue Ordner") == ["neue Ordner/日本/a b.txt:1: x"]
    assert grep(agent, "x", path="neue Ordner/日本/a b.txt") == ["neue Ordner/日本/a b.txt:1: x"]


def test_a_cut_answer_says_how_much_there_is(load, agent, workspace):
    most = load("search").MAX_PATHS
    fill(workspace, *(f"{number:04}" for number in range(most)))
    assert len(glob(agent, "*")) == most
    fill(workspace, "zzzz")
    answer = glob(agent, "*")
    assert answer[:-1] == [f"{number:04}" for number in range(most)]
    assert f"{most} of {most + 1}" in answer[-1] and "narrow" in answer[-1]


# Both: where they look


@pytest.mark.parametrize("tool", ["glob", "grep"])
def test_folders_of_others_are_skipped_unless_asked_for(load, agent, workspace, tool):
    for folder in load("search").SKIPPED:
        fill(workspace, f"{folder}/x.txt", f"sub/{folder}/deep/x.txt", content=b"x\n")
    fill(workspace, "x.txt", ".gitignore/x.txt", content=b"x\n")

    def found(**arguments):
        if tool == "glob":
            return glob(agent, "**/x.txt", **arguments)
        return [line.removesuffix(":1: x") for line in grep(agent, "x", **arguments)]

    assert found() == [".gitignore/x.txt", "x.txt"]
    assert found(path="node_modules") == ["node_modules/x.txt"]
    assert found(path="sub/.git") == ["sub/.git/deep/x.txt"]
    assert "sub/.git/" not in glob(agent, "**")


@pytest.mark.parametrize("tool", ["glob", "grep"])
@pytest.mark.parametrize("path", ["..", "../outside", "{outside}", "out", "out/deeper", "a\0b", ""])
def test_folders_outside_are_refused(refused, workspace, outside, tool, path):
    fill(outside, "deeper/secret.txt", content=b"secret\n")
    if not link(workspace / "out", outside) and path.startswith("out"):
        return
    reason = refused(tool, pattern="secret", path=path.format(outside=outside))
    assert "out of the workspace" in reason or "no path" in reason


def test_links_are_listed_and_not_followed(agent, workspace, outside):
    fill(workspace, "real/a.txt", content=b"secret inside\n")
    links = [
        link(workspace / "out", outside),
        link(workspace / "file", outside / "secret.txt"),
        link(workspace / "again", "real"),
        link(workspace / "real" / "up", ".."),
        link(workspace / "circle", "circle"),
        link(workspace / "dangling", "nowhere"),
    ]
    if not all(links):
        return
    top = ["again/", "circle", "dangling", "file", "out/"]
    assert glob(agent, "**") == [*top, "real/", "real/a.txt", "real/up/"]
    assert glob(agent, "*/*.txt") == ["real/a.txt"]
    assert grep(agent, "secret") == ["real/a.txt:1: secret inside"]
    assert grep(agent, "secret", path="again") == ["real/a.txt:1: secret inside"]
    assert grep(agent, "secret", path="again/a.txt") == ["real/a.txt:1: secret inside"]


def test_a_folder_that_is_elsewhere_without_being_a_link_is_not_entered(agent, workspace, outside, monkeypatch):
    # What Windows calls a junction: Python before 3.12 takes it for a folder. Here realpath is made to see one.
    fill(workspace, "junction/secret.txt", "sub/secret.txt", content=b"secret\n")
    real = os.path.realpath

    def realpath(path, **options):
        return real(str(path).replace(str(workspace / "junction"), str(outside)), **options)

    monkeypatch.setattr(os.path, "realpath", realpath)
    assert glob(agent, "**") == ["junction/", "sub/", "sub/secret.txt"]
    assert grep(agent, "secret") == ["sub/secret.txt:1: secret"]


@pytest.mark.parametrize("tool", ["glob", "grep"])
@pytest.mark.parametrize("path", ["nowhere", "a.txt/b"])
def test_a_missing_folder_is_refused(refused, workspace, tool, path):
    fill(workspace, "a.txt")
    reason = refused(tool, pattern="x", path=path)
    assert path in reason and "no folder" in reason


def test_glob_wants_a_folder(refused, workspace):
    fill(workspace, "a.txt")
    assert "a.txt is no folder" in refused("glob", pattern="*", path="a.txt")


@pytest.mark.parametrize("pattern", ["../*", "src/../../*", "src\\..\\*", "/etc/*", "\\etc", "C:\\*", "c:x", "//host/share/*"])
def test_patterns_that_lead_out_are_refused(refused, workspace, pattern):
    assert "leads out" in refused("glob", pattern=pattern)
    assert "leads out" in refused("grep", pattern="x", glob=pattern)


@pytest.mark.parametrize("pattern", ["", ".", "./", "./."])
def test_an_empty_pattern_is_refused(refused, pattern):
    assert "pattern is empty" in refused("glob", pattern=pattern)


def test_odd_names_are_shown_on_one_line(agent, workspace):
    try:
        fill(workspace, "a\nb", os.fsdecode(b"c\xff"), content=b"x\n")
    except OSError:
        return  # Windows has no line breaks in names, and macOS no bytes that are no text
    assert glob(agent, "*") == ["a?b", "c?"]
    assert grep(agent, "x") == ["a?b:1: x", "c?:1: x"]


# grep


@pytest.mark.parametrize(
    "data, pattern, found",
    [
        (b"one\ntwo\none two\n", "one", ["1: one", "3: one two"]),
        (b"one\ntwo", "two$", ["2: two"]),
        (b"one\r\ntwo\r\n", "^one$", ["1: one"]),
        (b"def f(x):\n    return x\n", r"^\s+return", ["2:     return x"]),
        (b"a\n\nb\n", "^$", ["2: "]),
        (b"a\rb\n", "b", ["1: a b"]),
        (b"a\x0bb\xe2\x80\xa8c\nd\n", "d", ["2: d"]),
        ("Grüße, 日本\n".encode("utf-8"), "ü.*日", ["1: Grüße, 日本"]),
        (b"\xef\xbb\xbfone\n", "^one", ["1: one"]),
        (b"caf\xe9 one\n", "one", ["1: caf\ufffd one"]),
        (b"one one one\n", "one", ["1: one one one"]),
    ],
)
def test_lines_that_match_are_shown_with_path_and_number(agent, workspace, data, pattern, found):
    fill(workspace, "a.txt", content=data)
    assert grep(agent, pattern) == [f"a.txt:{line}" for line in found]


@pytest.mark.parametrize(
    "data, pattern",
    [(b"one\n", "two"), (b"one\n", "One"), (b"", "^"), (b"one\ntwo\n", r"one\ntwo"), (b"one\n", "^$")],
)
def test_no_line_matches(agent, workspace, data, pattern):
    fill(workspace, "a.txt", content=data)
    assert grep(agent, pattern) == ["[no line matches in 1 files]"]


def test_upper_and_lower_case(agent, workspace):
    fill(workspace, "a.txt", content="One\nÄrger\n".encode("utf-8"))
    assert grep(agent, "one|ärger", ignore_case=True) == ["a.txt:1: One", "a.txt:2: Ärger"]
    assert grep(agent, "one|ärger", ignore_case=False) == ["[no line matches in 1 files]"]
    assert grep(agent, "(?i)ONE") == ["a.txt:1: One"]


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("*.py", ["a.py", "src/a.py", "src/src/d.py"]),
        ("src/*.py", ["src/a.py"]),
        ("./src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/src/d.py"]),
        ("**/src/*.py", ["src/a.py", "src/src/d.py"]),
        ("a.*", ["a.py", "src/a.py"]),
        ("src", []),
        (None, ["a.py", "b.txt", "src/a.py", "src/src/d.py"]),
    ],
)
def test_only_files_that_match_the_glob_are_searched(agent, workspace, pattern, found):
    fill(workspace, "src/src/d.py", "src/a.py", "b.txt", "a.py", content=b"x\n")
    answer = [f"{name}:1: x" for name in found] or ["[no line matches in 0 files]"]
    assert grep(agent, "x", glob=pattern) == answer


def test_the_answer_stops_at_the_cap(load, agent, workspace):
    most = load("search").MAX_HITS
    fill(workspace, "b.txt", content=b"x\n" * (most - 1))
    fill(workspace, "a.txt", content=b"no\nx\n")
    answer = grep(agent, "x")
    assert answer[:2] == ["a.txt:2: x", "b.txt:1: x"] and len(answer) == most and answer[-1] == f"b.txt:{most - 1}: x"
    fill(workspace, "c.txt", content=b"x\n")
    assert grep(agent, "x")[:-1] == answer
    assert f"stopped at {most} lines" in grep(agent, "x")[-1]


@pytest.mark.parametrize(
    "line, shown",
    [
        ("needle" + "x" * 994, "needle" + "x" * 294 + " …"),
        ("x" * 994 + "needle", "… " + "x" * 294 + "needle"),
        ("y" * 500 + "needle" + "x" * 500, "… " + "y" * 150 + "needle" + "x" * 144 + " …"),
        ("needle" + "x" * 294, "needle" + "x" * 294),
        ("needle" + "x" * 295, "needle" + "x" * 294 + " …"),
    ],
)
def test_long_lines_are_cut_around_the_place(load, agent, workspace, line, shown):
    assert load("search").HIT_CHARS == 300
    fill(workspace, "a.txt", content=line.encode("utf-8") + b"\n")
    assert grep(agent, "needle") == [f"a.txt:1: {shown}"]


def test_files_that_are_no_text_or_huge_are_passed_over_and_said_to_be(load, agent, workspace):
    fill(workspace, "a.bin", "b.bin", content=b"needle\0")
    fill(workspace, "a.txt", content=b"needle\n")
    with open(workspace / "huge.txt", "wb") as file:
        file.write(b"needle\n")
        file.truncate(1_000_000_000)
    start = time.monotonic()
    assert grep(agent, "needle") == [
        "a.txt:1: needle",
        "[passed over 3 files: not text, not readable, or over 10,000,000 bytes]",
    ]
    assert time.monotonic() - start < 5
    assert grep(agent, "needle", path="huge.txt")[0] == "[no line matches in 1 files]"
    assert "passed over 1 files" in grep(agent, "needle", path="huge.txt")[1]
    small = make_agent(load, workspace, grep_bytes=7)
    fill(workspace, "b.txt", content=b"needle 2\n")
    assert grep(small, "needle", glob="*.txt")[0] == "a.txt:1: needle"
    assert "passed over 2 files" in grep(small, "needle", glob="*.txt")[1]


def test_a_pipe_is_never_opened(agent, workspace):
    if not hasattr(os, "mkfifo"):
        return  # no pipes with names on Windows
    os.mkfifo(workspace / "pipe")
    fill(workspace, "z.txt", content=b"x\n")
    start = time.monotonic()
    assert grep(agent, "x") == ["z.txt:1: x"]
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("pattern, position", [("(a", 0), ("a[", 1), ("*", 0), ("a{2,1}", 2), ("(?P<x>a)(?P<x>b)", 12)])
def test_a_bad_pattern_is_refused_with_the_position_and_the_cure(refused, pattern, position):
    reason = refused("grep", pattern=pattern)
    assert repr(pattern) in reason and f"at position {position}" in reason and "backslash" in reason


def test_a_search_without_pattern_is_refused(refused):
    assert "0 characters" in refused("grep", pattern="")


def test_a_pattern_without_end_is_stopped_and_what_was_found_is_kept(load, workspace):
    agent = make_agent(load, workspace, grep_seconds=1)
    fill(workspace, "a.txt", content=b"ok\n" + VICTIM + b"ok\n")
    start = time.monotonic()
    answer = grep(agent, f"ok|{CATASTROPHE}")
    assert time.monotonic() - start < 10
    assert answer[0] == "a.txt:1: ok" and len(answer) == 2
    assert "stopped after 1 seconds" in answer[1] and "narrow" in answer[1]
    assert grep(agent, CATASTROPHE)[0].startswith("[stopped after 1 seconds")


def test_a_pattern_without_end_does_not_hold_up_other_threads(load, workspace):
    agent = make_agent(load, workspace, grep_seconds=1)
    fill(workspace, "a.txt", content=VICTIM)
    answers = []
    threads = [threading.Thread(target=lambda: answers.extend(grep(agent, CATASTROPHE))) for _ in range(2)]
    for thread in threads:
        thread.start()
    longest, before = 0.0, time.monotonic()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
    assert longest < 0.9  # seconds; with the search in this process it would be the whole time
    assert len(answers) == 2 and all(answer.startswith("[stopped") for answer in answers)


def test_a_big_tree_is_searched_in_reasonable_time(agent, workspace):
    for number in range(100):
        fill(workspace, *(f"pack{number % 10}/deep/{number}/file{file}.py" for file in range(50)), content=b"x = 1\n")
    start = time.monotonic()
    assert "of 5000" in glob(agent, "**/*.py")[-1]
    assert glob(agent, "**/deep/7/**/file49.py") == ["pack7/deep/7/file49.py"]
    assert grep(agent, "y") == ["[no line matches in 5000 files]"]
    assert time.monotonic() - start < 20


def test_a_file_of_keys_is_passed_over(agent, workspace):
    (workspace / ".env").write_text("KEY=secret\n", encoding="utf-8")
    (workspace / "a.txt").write_text("KEY=none\n", encoding="utf-8")
    assert agent.tools["grep"].function(agent, pattern="KEY") == "a.txt:1: KEY=none"


def test_a_pattern_with_many_stars_takes_no_longer_than_one(load):
    parts = ["a"] * 400
    assert not load("search").matches(parts, ["**", "a"] * 50 + ["b"])
    assert load("search").matches(parts, ["**", "a"] * 50)
    assert load("search").matches([], ["**"]) and not load("search").matches([], ["a"])


def test_a_pattern_of_a_novel_is_refused(agent, refused):
    assert "1000" in refused("grep", pattern="a" * 10_000)
