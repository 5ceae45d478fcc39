"""Starts the course: makes its environment where needed, then hands over to a chapter or to the tests.

It needs nothing but Python, and shows each command before it runs it. It adds nothing that cannot be done without it:

    python3 -m venv .venv
    .venv/bin/python -m pip install -r requirements.txt
    .venv/bin/python -m s05_todo_write "a prompt"
    .venv/bin/python -m pytest
"""

import os
import sys

# An older Python gets as far as this sentence, since the whole file keeps to the grammar of Python 3.6.
if sys.version_info < (3, 10):
    sys.exit("learn.py: This is Python %d.%d and the course needs 3.10 or newer: install one from "
             "python.org/downloads, then name it in the command, as in: python3.13 learn.py" % sys.version_info[:2])

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from types import ModuleType
from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")
MADE = os.path.join(VENV, "learn-made.txt")  # for which Python and place .venv was made; written when it is whole
ME = "python learn.py" if os.name == "nt" else "python3 learn.py"
MILESTONES = ("s05", "s07", "s11", "s15", "s17")
WORDS_A_MINUTE = 200  # that one reads of a lesson, with the code in it
WORKERS = 8  # test processes at most: each imports the SDK, which takes a second and 80 MB
LAST_LINES = 4  # shown of a failed command: pip says at the end what went wrong
LAST_WIDTH = 200  # characters shown of each: those about a connection are long
# Settings of pip that would install elsewhere than in .venv, or nothing. Those that say where from stay.
LEADS_ASTRAY = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_NO_DEPS")
NO_VENV = ("this Python cannot make an environment with pip in it: install what is missing "
           "(Debian, Ubuntu: sudo apt install python3-venv), then try again.")
HELP = f"""\
{ME}                      the chapters, and what to do next; list --verbose: how long each takes to read
{ME} run s05              a chapter; without a key it plays offline
{ME} run s05 "a prompt"   answers one prompt; what follows is passed on: --workdir DIR
{ME} run s05 --practice   runs your copy of the chapter, always offline
{ME} diff s05             what the chapter adds to the one before it
{ME} diff s02 s05         what lies between two chapters
{ME} diff --milestones    what lies between milestones; --stat: only counts, --all: not only Python
{ME} practice s05         a copy of the chapter, to write its functions yourself; --reset: begin anew
{ME} check s05            what passes, what is next; --hint: a hint, --watch: at each save, --verbose: all
{ME} diff s05 --practice  your solution and the chapter's; --show-solution: before yours passes
{ME} test                 all tests; what follows is passed on to pytest: -k todo
{ME} doctor               is all here that the course needs?
{ME} carry s02 tools.py   for maintainers: carries a change of this file through the later chapters

A chapter is named by number or name: s05, 5, s05_todo_write, todo_write.
"""


class Fault(Exception):
    """What is wrong and what to do next, for the person. ``status`` is the exit status: 2 if it was mistyped."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def main(arguments: list[str]) -> int:
    """Run one command. Returns the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the start
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a sign that the terminal's encoding lacks must not end the program
    os.environ.pop("PYTHONSAFEPATH", None)  # what is started here has to find the course in its own folder
    name, rest = arguments[0] if arguments else "list", arguments[1:]
    own = rest[:1] if name in ("run", "test") else rest  # what these pass on is not for us
    commands = {"list": show_chapters, "run": run, "diff": diff, "practice": practice, "check": check, "test": test,
                "doctor": doctor, "carry": carry}
    try:
        if name in ("help", "-h", "--help") or {"-h", "--help"} & set(own):
            print(HELP, end="")
            return 0
        if name not in commands:
            near = alike(name, commands) or alike(name, [each[:3] for each in chapters()] + chapters(), "run ")
            raise Fault(f"There is no command {name!r}{near}: {ME} --help lists them.", 2)
        return commands[name](rest)
    except Fault as fault:
        sys.stdout.flush()
        print(f"learn.py: {fault}", file=sys.stderr)
        return fault.status
    except KeyboardInterrupt:
        print("learn.py: Interrupted. Give the same command again to go on.", file=sys.stderr)
        return 130


# The commands. A module that only one of them needs is imported there, so that no prompt waits for it.


def show_chapters(arguments: list[str]) -> int:
    """List the chapters with their ideas and how far the practice has come, and say what to do next."""
    wanted, options = sort_out("list", arguments, "--verbose")
    expect(not wanted, f"list takes no chapter, as in: {ME} list --verbose")
    names = chapters()
    expect(names, f"There is no chapter in {ROOT}: get the course anew.", 1)
    star = "\u2605" if "\u2605".encode(sys.stdout.encoding, "replace") != b"?" else "*"
    for before, name in zip(["", *names], names):
        print(f"{star if name[:3] in MILESTONES else ' '} {name:<24} {idea(name)}{standing(name)}".rstrip())
        if options:
            print(f"  {'':<24} {extent(before, name)}")
    coming = [number for number in MILESTONES if number not in [name[:3] for name in names]]
    print(f"\n{star} milestone: these five also stand by themselves"
          + (f" ({', '.join(coming)} still to come)." if coming else "."))
    print(f"\nBegin with    {ME} run {names[0][:3]}\nand then      {ME} diff {names[:2][-1][:3]}"
          f"\nPractise      {ME} practice {names[0][:3]}"
          f"\nAll commands  {ME} --help")
    return 0


def run(arguments: list[str]) -> int:
    """Hand over to a chapter, or to the learner's copy. What follows is passed on, less a ``--`` that sets it off."""
    expect(arguments and not arguments[0].startswith("-"),
           f"The chapter comes first, as in: {ME} run s05. They are listed by: {ME} list")
    chapter, rest = find(arguments[0]), arguments[1:]
    own = "--practice" in rest[:rest.index("--") if "--" in rest else None]
    if own:
        rest.remove("--practice")
        attempt(lambda desk: desk.find_copy(desk.Path(ROOT), chapter, ME))
    if "--" in rest:
        rest.remove("--")
    home = os.path.join(ROOT, "practice") if own else ROOT
    for at, argument in enumerate(rest):
        option, equals, value = argument.partition("=")
        if option == "--workdir" and equals:
            rest[at] = option + equals + seen_from_here(value, home)
        elif rest[at - 1:at] == ["--workdir"]:
            rest[at] = seen_from_here(argument, home)
    prepare("requirements.txt")
    if not own:
        return hand_over([PYTHON, "-m", chapter] + rest)
    # A gate that is still to be written stops nothing: no real model gets hold of a copy, neither by a key nor by .env.
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        del os.environ[name]
    os.environ["PYTHONPATH"] = ROOT
    announce(["cd", "practice"])
    os.chdir(home)
    return hand_over([PYTHON, "-B", "-m", chapter] + rest, "with PYTHONPATH=.., and without a key")


def test(arguments: list[str]) -> int:
    """Hand over to pytest; side by side in several processes where all tests are wanted."""
    rest = [seen_from_here(each) if os.path.exists(each.split("::")[0]) else each for each in arguments]
    prepare("requirements.txt", "tests/requirements.txt")
    alone = [each for each in rest if not each.startswith("-") or each[:2] in ("-n", "-s") or each == "--pdb"]
    if not alone and b"pytest-xdist" in read("tests/requirements.txt"):
        rest = ["-n", "auto", f"--maxprocesses={WORKERS}"] + rest
    return hand_over([PYTHON, "-m", "pytest"] + rest)


def diff(arguments: list[str]) -> int:
    """Show what chapters add: a summary, then the lines."""
    wanted, options = sort_out("diff", arguments, "--milestones", "--stat", "--all", "--practice", "--show-solution")
    if options & {"--practice", "--show-solution"}:
        return diff_practice(wanted, options)
    expect(len(wanted) in ((0,) if "--milestones" in options else (1, 2)),
           f"diff takes one chapter, or two, or --milestones, as in: {ME} diff s05")
    if not wanted:
        wanted = [""] + [name for name in chapters() if name[:3] in MILESTONES]
    elif len(wanted) == 1:
        wanted = ([""] + [name for name in chapters() if name < wanted[0]])[-1:] + wanted
    for old, new in zip(wanted, wanted[1:]):
        show_difference(old, new, everything="--all" in options, only_counts="--stat" in options)
    return 0


def diff_practice(wanted: list[str], options: set[str]) -> int:
    """Show how the chapter differs from the learner's copy of it, once that passes or if it is asked for."""
    expect(len(wanted) == 1 and "--practice" in options, f"--practice takes one chapter, as in: {ME} diff s05 --practice")
    copy = attempt(lambda desk: desk.find_copy(desk.Path(ROOT), wanted[0], ME))
    if "--show-solution" not in options:
        attempt(lambda desk: desk.solved(desk.Path(ROOT), wanted[0], ME))
    name, note = os.path.relpath(copy, ROOT).replace(os.sep, "/"), "- is yours, + is the chapter's"
    show_difference(name, wanted[0], "--all" in options, "--stat" in options, note)
    return 0


def practice(arguments: list[str]) -> int:
    """Make a copy of a chapter in which the learner writes some functions."""
    wanted, options = sort_out("practice", arguments, "--reset", "--yes", "--from-chapter")
    expect(len(wanted) == 1, f"practice takes one chapter, as in: {ME} practice s05")
    told = {"reset": "--reset" in options, "yes": "--yes" in options, "from_chapter": "--from-chapter" in options}
    return attempt(lambda desk: desk.practice(desk.Path(ROOT), wanted[0], ME, **told))


def check(arguments: list[str]) -> int:
    """Run the tests of a chapter against the learner's copy, and say what passes and what is next."""
    wanted, options = sort_out("check", arguments, "--hint", "--watch", "--verbose")
    expect(len(wanted) <= 1, f"check takes one chapter, as in: {ME} check s05")
    expect(not {"--hint", "--watch"} <= options, "A hint is given once: use --hint without --watch, in another terminal.")
    chapter = wanted[0] if wanted else attempt(lambda desk: desk.latest_copy(desk.Path(ROOT), chapters(), ME))
    attempt(lambda desk: desk.find_copy(desk.Path(ROOT), chapter, ME))
    prepare("requirements.txt", "tests/requirements.txt")
    told = {"verbose": "--verbose" in options}
    if "--watch" in options:
        return attempt(lambda desk: desk.watch(desk.Path(ROOT), PYTHON, chapter, ME, **told))
    told["hint"] = "--hint" in options
    return attempt(lambda desk: desk.check(desk.Path(ROOT), PYTHON, chapter, ME, **told))


def doctor(arguments: list[str]) -> int:
    """Look at all that the course needs, one line each, with a cure for what is broken. Uses no network."""
    expect(not arguments, f"doctor takes nothing more, as in: {ME} doctor")
    broken = 0
    for well, what, cure in examine():
        print(f"ok     {what}" if well else f"FAULT  {what}: {cure}")
        broken += not well
    print(f"\nTo be mended: {broken}." if broken else "\nNothing is broken.")
    return 1 if broken else 0


def carry(arguments: list[str]) -> int:
    """Carry a change of one file, not yet committed, through the later chapters; stops where it conflicts."""
    expect(len(arguments) == 2, f"carry takes a chapter and one of its files, as in: {ME} carry s02 tools.py")
    first, file = find(arguments[0]), arguments[1]
    expect(have_git(), "carry needs git: install it from git-scm.com.", 1)
    having = [name for name in chapters() if name >= first and os.path.isfile(os.path.join(ROOT, name, file))]
    expect(first in having, f"{first} has no file {file}.")
    paths = [f"{name}/{file}" for name in having]
    for path in paths:
        expect(b"\n<<<<<<< " not in b"\n" + read(path), f"{path} has marks of a conflict: settle them first.", 1)
    expect(read(paths[0]) != committed(paths[0]),
           f"{paths[0]} is as it was committed: change it first, and carry the change before you commit it.", 1)
    for earlier, later in zip(paths, paths[1:]):
        before = read(later)
        if before == committed(earlier):
            write(later, read(earlier))
        else:
            merge(earlier, later)
        print(f"{later}: " + ("unchanged" if read(later) == before else "changed"))
    return 0


# Chapters.


def chapters() -> list[str]:
    """Return the names of the chapters' folders, in order."""
    names = sorted(name for name in os.listdir(ROOT) if name[:1] == "s" and name[1:3].isdigit() and name[3:4] == "_")
    return [name for name in names if os.path.isfile(os.path.join(ROOT, name, "__main__.py"))]


def find(text: str) -> str:
    """Return the chapter that ``text`` means (s05, 5, 05, s05_todo_write, todo_write). Raises Fault, with near ones."""
    wanted = os.path.basename(text.rstrip("/\\")).lower()
    names = chapters()
    for name in names:
        if wanted in (name, name[4:]) or wanted.lstrip("s").zfill(2) == name[1:3]:
            return name
    near = alike(wanted, [part for name in names for part in (name, name[4:], name[:3])])
    raise Fault(f"There is no chapter {text!r}{near}: {ME} list shows them.", 2)


def idea(chapter: str) -> str:
    """Return the first line of a chapter's README that is neither heading nor blank, as plain text."""
    lines = [line.strip() for line in read(f"{chapter}/README.md").decode("utf-8", "replace").splitlines()]
    lines = [line.lstrip("> ") for line in lines if line and not line.startswith("#")] or [""]
    return lines[0].replace("**", "").replace("`", "")


def extent(before: str, chapter: str) -> str:
    """Return how much there is to read: of the lesson, of the modules that it adds, and of the whole chapter."""
    words = len(read(f"{chapter}/README.md").split())
    was, now = files(before, False), files(chapter, False)
    new = [len(now[name]) for name in now if name not in was and now[name]]
    return (f"{words:,} words, {max(1, round(words / WORDS_A_MINUTE))} min; new: {len(new)} module{'s' * (len(new) != 1)}, "
            f"{sum(new):,} lines; all its code: {sum(map(len, now.values())):,} lines")


def standing(chapter: str) -> str:
    """Return how far the learner's copy of a chapter has come, in brackets; nothing if there is none."""
    if not os.path.isdir(os.path.join(ROOT, "practice", chapter)):
        return ""
    how = attempt(lambda desk: desk.standing(desk.Path(ROOT), chapter))
    return f" [{how}]" if how else ""


def attempt(action: Callable[[ModuleType], Any]) -> Any:
    """Return what ``action`` returns, given the module of the practice. Raises Fault where that raises its own."""
    from workshop import Problem
    from workshop import commands

    try:
        return action(commands)
    except Problem as problem:
        raise Fault(str(problem)) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Fault(in_words(error)) from None


def in_words(error: OSError) -> str:
    """Return what the system refused, and what to do next."""
    import errno

    cure = "Mend that, then try again."
    if error.errno == errno.ENOSPC:
        cure = "Make room, then try again."
    elif isinstance(error, PermissionError):
        cure = "Close it if it is open elsewhere, or give yourself the right to it, then try again."
    return f"{error.filename or 'The output'}: {error.strerror or error}. {cure}"


def files(chapter: str, everything: bool) -> dict[str, list[str]]:
    """Return the lines of a chapter's Python files (or of all its files but bytecode), by their names in it."""
    found = {}
    for folder, _, names in os.walk(os.path.join(ROOT, chapter)) if chapter else ():
        for name in names:
            if name.endswith(".py") or everything and not name.endswith(".pyc"):
                path = os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, chapter)).replace(os.sep, "/")
                found[path] = read(f"{chapter}/{path}").decode("utf-8", "replace").splitlines()
    return found


def show_difference(old: str, new: str, everything: bool, only_counts: bool, note: str = "") -> None:
    """Print how chapter ``new`` differs from ``old`` (from nothing, if that is ""): first counts, then the lines.

    ``note`` says which side is which, where the names do not; it stands for the command that shows the lines.
    """
    import difflib
    import tempfile

    was, now = files(old, everything), files(new, everything)
    changed = [name for name in sorted({**was, **now}) if was.get(name) != now.get(name)]
    kinds, rows, added, removed = [], [], 0, 0
    for name in changed:
        kinds.append("new" if name not in was else "gone" if name not in now else "changed")
        steps = difflib.SequenceMatcher(None, was.get(name, []), now.get(name, []), autojunk=False).get_opcodes()
        less = sum(end - start for kind, start, end, _, _ in steps if kind != "equal")
        more = sum(end - start for kind, _, _, start, end in steps if kind != "equal")
        rows.append(f"  {kinds[-1]:<8} {name:<24} +{more} -{less}")
        added, removed = added + more, removed + less
    counts = [f"{kinds.count(kind)} {kind}, " for kind in ("new", "changed", "gone") if kind in kinds]
    print(f"{old or 'nothing'} -> {new}: {''.join(counts)}+{added} -{removed} lines", *rows, sep="\n")
    if not old:
        print("  It is the first, so all that it has is new.")
    if only_counts or not changed:
        return
    if note:
        print(f"\n{note}")
    if not have_git():
        for name in changed:
            sides = was.get(name, []), now.get(name, []), f"{old or 'nothing'}/{name}", f"{new}/{name}"
            print(*difflib.unified_diff(*sides, lineterm=""), sep="\n")
        return
    # git would compare whole folders, bytecode too: it gets copies with nothing but these files.
    with tempfile.TemporaryDirectory() as folder:
        for chapter, texts in ((old or "nothing", was), (new, now)):
            os.makedirs(os.path.join(folder, chapter))
            for name in set(changed) & set(texts):
                write(os.path.join(folder, chapter, name), read(f"{chapter}/{name}"))
        command = ["git", "diff", "--no-index", "--no-prefix", "--no-renames", "--ignore-cr-at-eol", old or "nothing", new]
        if not note:
            announce(command, "with only these files")
        expect(attend(command, folder)[0] < 2, "git could not compare them: it says above why.", 1)


# The environment.


def prepare(*lists: str) -> None:
    """Go to ROOT, make .venv unless it is fit, and install what the ``lists`` name unless they were. Raises Fault."""
    if not os.path.samefile(os.curdir, ROOT):
        announce(["cd", ROOT])
        os.chdir(ROOT)
    if not is_made():
        make_venv()
    missing = [each for each in lists if not is_installed(each)]
    if not missing:
        return
    say(f"Installing {' and '.join(missing)} into .venv takes up to a minute, only once.")
    for each in missing:
        write(installed(each), b"begun\n")
    # Without its cache, pip writes nothing into the home directory.
    command = [PYTHON, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"]
    execute(command + [word for each in missing for word in ("-r", each)],
            "pip could not install them: check the network, then give the same command again. It says:")
    for each in missing:
        write(installed(each), read(each))


def make_venv() -> None:
    """Make .venv, or complete one that somebody else made. Raises Fault."""
    expect(can_make_venv(), f"There is no .venv that fits, and {NO_VENV}", 1)
    command = [sys.executable, "-m", "venv", ".venv"]
    if not os.path.exists(VENV):
        say("There is no .venv yet: making it takes a few seconds.")
    elif os.path.exists(PYTHON) and not read(MADE) and b" = %d.%d." % sys.version_info[:2] in read(".venv/pyvenv.cfg"):
        say("The .venv here is not finished, or not made by learn.py: completing it.")
    else:
        say("The .venv here is not for this Python in this place: making it anew.")
        command.insert(3, "--clear")
    execute(command, "Python could not make .venv: remove that folder if it is there, then try again. It says:")
    write(MADE, fitting())


def can_make_venv() -> bool:
    import importlib.util

    return all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))


def is_made() -> bool:
    return os.path.exists(PYTHON) and read(MADE) == fitting()


def fitting() -> bytes:
    """Return what .venv is made for: one that was copied or moved, or made by another Python, is unfit."""
    version = "{} {}.{}".format(sys.implementation.name, *sys.version_info[:2])
    return f"{version} on {sys.platform} in {os.path.realpath(VENV)}\n".encode("utf-8", "surrogateescape")


def is_installed(requirements: str) -> bool:
    return read(installed(requirements)) == read(requirements)


def installed(requirements: str) -> str:
    """Return the file that a list is copied to once all of it is installed: half a job leaves something else there."""
    return os.path.join(VENV, "learn-" + requirements.replace("/", "-"))


# What the doctor looks at.


def examine() -> Iterator[tuple[bool, str, str]]:
    """Yield for each thing that the course needs: is it well, what is it, and the cure if it is not."""
    import shutil
    import socket
    import tempfile

    yield True, f"Python {sys.version.split()[0]}, {sys.executable}", ""
    ready, able = is_made() and is_installed("requirements.txt"), can_make_venv()
    state = " is ready" if ready else " is filled from the network by the next run" if able else ""
    yield ready or able, f".venv{state}", NO_VENV
    encoding = sys.stdout.encoding.lower()
    lacks = "" if encoding.replace("-", "") == "utf8" else " and shows some signs as ?: PYTHONUTF8=1 cures that"
    yield True, f"the output is in {encoding}{lacks}", ""
    for folder, name in ((ROOT, ROOT), (None, "the folder for temporary files")):
        well = works(lambda: tempfile.TemporaryFile(dir=folder).close())
        yield well, f"writing in {name}", "make room, or give yourself the right to."
    yield True, "git" if have_git() else "no git: diff is plainer without it, and carry needs it", ""
    bash = shutil.which("bash")
    if os.name == "nt":  # the first on the PATH may be that of another system, WSL
        bash = os.path.join(os.path.dirname(os.path.dirname(shutil.which("git") or "")), "bin", "bash.exe")
    found = bash or "not found"
    yield os.path.isfile(found), f"bash for commands, {found}", "install it (on Windows: Git for Windows)."
    with socket.socket() as server:
        well = works(lambda: (server.bind(("127.0.0.1", 0)), server.listen(),
                              socket.create_connection(server.getsockname(), timeout=5).close()))
    yield well, "a server on 127.0.0.1, as the offline model is one", "let Python do that in the firewall."
    yield from examine_wall()
    yield from examine_model()


def examine_wall() -> Iterator[tuple[bool, str, str]]:
    """Yield whether --sandbox can be used here, as the chapters find it out. Nothing is broken without it."""
    import importlib

    for name in [name for name in chapters() if os.path.isfile(os.path.join(ROOT, name, "sandbox.py"))][-1:]:
        trouble = importlib.import_module(f"{name}.sandbox").available()
        yield True, f"--sandbox: {trouble or 'commands can be run behind a wall here'}", ""


def examine_model() -> Iterator[tuple[bool, str, str]]:
    """Yield who will answer, found as the chapters find it: the environment goes before .env. Shows no key."""
    if b"\0" in read(".env"):
        yield False, ".env cannot be read", "save it anew as plain text in UTF-8."
    settings = {}
    for line in read(".env").decode("utf-8-sig", "replace").splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        value = value[1:].split(value[0])[0] if value[:1] in ("'", '"') else value.split(" #")[0].strip()
        settings[name.replace("export ", "")] = (value, ".env")
    settings.update((name, (value.strip(), "the environment")) for name, value in os.environ.items() if value.strip())
    settings = {name: found for name, found in settings.items() if found[0]}

    key = [name for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN") if name in settings][:1]
    model = [settings[name][0] for name in ("ANTHROPIC_MODEL", "MODEL_ID") if name in settings][:1]
    server = settings.get("ANTHROPIC_BASE_URL", ("",))[0].rstrip("/")
    if not key and not server:
        yield True, "no key is set, so the offline model answers; .env.example says how to connect a real one", ""
    for name in key:
        value, origin = settings[name]
        well = value.isascii() and value.isprintable() and " " not in value
        yield well, f"{name} is set in {origin}", "it has signs that no key has, copy it again."
    if server and not server.startswith(("http://", "https://")) or server.endswith("/v1"):
        yield False, "ANTHROPIC_BASE_URL", "it has to begin with https:// or http://, and to end before /v1."
    elif key or server:
        scheme, _, rest = (server or "https://api.anthropic.com").partition("://")
        other = " (set ANTHROPIC_MODEL to a model that this server has)" if server and not model else ""
        yield True, f"{''.join(model) or 'the default model'} will be asked at {scheme}://{rest.split('@')[-1]}{other}", ""


def works(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


# git, for the maintainer.


def have_git() -> bool:
    """Say whether git works: a Mac without developer tools has one that does not."""
    import subprocess

    try:
        return subprocess.run(["git", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def committed(path: str) -> bytes:
    """Return a file as it was committed last, with the line ends that files have here. Raises Fault."""
    import subprocess

    done = subprocess.run(["git", "cat-file", "--filters", f"HEAD:./{path}"], cwd=ROOT, capture_output=True)
    expect(done.returncode == 0, f"{path} is not in the last commit: commit it, then change and carry it.", 1)
    return done.stdout


def merge(earlier: str, later: str) -> None:
    """Merge into ``later`` what changed in ``earlier`` since the last commit. Raises Fault at a conflict."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "committed")
        write(base, committed(earlier))
        command = ["git", "merge-file", "--diff3", later, base, earlier]
        announce(command, f"where {base} is HEAD:{earlier}")
        conflicts = attend(command, ROOT)[0]
    expect(0 <= conflicts < 128, f"git could not merge {later}, which is as it was: git says above why.", 1)
    chapter, _, file = later.partition("/")
    expect(not conflicts, f"{later} has a conflict: settle the marked places in it, then go on with: "
                          f"{ME} carry {chapter[:3]} {file}", 1)


# Saying and doing.


def say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)


def announce(command: list[str], remark: str = "") -> None:
    """Show a command as one would type it here. On stderr, for stdout belongs to what a chapter answers."""
    if os.name == "nt":
        from subprocess import list2cmdline as join
    else:
        from shlex import join

    words = [os.path.relpath(word) if word == PYTHON else word for word in command]
    print(f"$ {join(words)}{remark and '   # ' + remark}", file=sys.stderr, flush=True)


def execute(command: list[str], complaint: str) -> None:
    """Run a command in ROOT quietly. Raises Fault with the complaint and its last lines if it fails."""
    import subprocess

    announce(command)
    kept = {name: value for name, value in os.environ.items() if name not in LEADS_ASTRAY}
    kept["PIP_USER"] = "0"  # a person's pip.conf may say otherwise
    quietly = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    status, said, interrupted = attend(command, ROOT, env=kept, **quietly)
    if interrupted:
        raise KeyboardInterrupt
    if status:
        last = said.decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
        raise Fault("\n    ".join([complaint] + [line[:LAST_WIDTH] for line in last]))


def hand_over(command: list[str], remark: str = "") -> int:
    """Become the command, so that nothing of ours is left between; on Windows, which cannot do that, wait for it."""
    announce(command, remark)
    sys.stdout.flush()
    try:
        return attend(command, os.curdir)[0] if os.name == "nt" else os.execv(command[0], command)
    except OSError as error:
        raise Fault(f"{PYTHON} does not start ({error.strerror}): remove the folder .venv and try again.") from None


def attend(command: list[str], folder: str, **options: object) -> tuple[int, bytes, bool]:
    """Run a command to its end, leaving Ctrl-C to it. ``options`` are those of subprocess.run.

    Returns its exit status, what it printed if that was captured, and whether Ctrl-C was pressed.
    """
    import signal
    import subprocess

    sys.stdout.flush()
    pressed: list[bool] = []
    usual = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))  # the command would inherit SIG_IGN
    try:
        done = subprocess.run(command, cwd=folder, **options)
    finally:
        signal.signal(signal.SIGINT, usual)
    return done.returncode, done.stdout or b"", bool(pressed)


def seen_from_here(path: str, there: str = ROOT) -> str:
    """Return a path that means the same after going ``there``."""
    return path if os.path.samefile(os.curdir, there) else os.path.abspath(path)


def read(path: str) -> bytes:
    """Return what a file holds; nothing if it is not there. The path is seen from ROOT."""
    path = os.path.join(ROOT, path)
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def write(path: str, content: bytes) -> None:
    path = os.path.join(ROOT, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def sort_out(command: str, arguments: list[str], *known: str) -> tuple[list[str], set[str]]:
    """Return the chapters and the options that a command was given. Raises Fault for one that it does not know."""
    options = {each for each in arguments if each.startswith("-")}
    for option in sorted(options - set(known)):
        raise Fault(f"{command} has no option {option}{alike(option, known)}.", 2)
    return [find(each) for each in arguments if each not in options], options


def expect(condition: object, complaint: str, status: int = 2) -> None:
    if not condition:
        raise Fault(complaint, status)


def alike(text: str, known: Iterable[str], before: str = "") -> str:
    """Return a question whether one of the ``known`` was meant, or nothing."""
    import difflib

    near = difflib.get_close_matches(text, list(known), cutoff=0.5)
    near = near[:1] if near[:1] == [text] else near
    return f" (did you mean {' or '.join(before + each for each in near)}?)" if near else ""


if __name__ == "__main__":
    if ROOT not in sys.path:  # python -P
        sys.path.insert(0, ROOT)
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else whoever read the output has seen enough
            print(f"learn.py: {in_words(error)}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
