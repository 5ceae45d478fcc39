"""What a shell command says, as far as it can be read without running it.

A command is more than its first word: `ls; touch canary` runs two programs, and so does `ls $(touch canary)`.
The splitter understands simple commands, joined by `;` `&&` `||` `|` `|&` `&` and line breaks, and it knows when it
does not understand. It is no shell parser: where a parser must get a hundred rules right, "I do not understand this"
is right at once, and a person looks.
"""

from __future__ import annotations

import re
import shlex
from unicodedata import category
from typing import NamedTuple

# Words that stand before a command and run it.
LEADS = frozenset(
    "env xargs nohup time nice ionice setsid stdbuf sudo doas exec eval command builtin coproc "
    "if then elif else while until do ! {".split()
)
# Programs and shell words that run what their arguments, their input or a file tell them, or that change what later
# words mean. Known ones only; and a test runner runs the project's own code without standing here.
RUNNERS = LEADS | frozenset(
    "timeout watch script parallel flock su chroot unshare strace gdb busybox npx bunx uvx pipx make ssh scp rsync "
    "docker tar sed awk gawk mawk man vi vim nvim ex ed emacs tmux screen expect at crontab "
    "sh bash dash zsh ksh fish cmd powershell pwsh "
    ". source trap function let declare typeset local export readonly read mapfile readarray getopts unset set shopt "
    "alias enable hash bind compgen complete fc jobs for select case [[ ((".split()
)
# A rule can name the file or the `-m module` that these run; with anything else (`-c code`, code piped in) they count.
INTERPRETERS = frozenset("python pypy node perl ruby php".split())
# Options and words by which an everyday program runs another one or writes a file.
RUNNING_OPTIONS = {
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls".split(),
    "fd": "-x -X --exec --exec-batch".split(),
    "git": "-c -x -O --config-env --exec --extcmd --upload-pack --receive-pack --git-dir --open-files-in-pager "
    "--output --template clone config foreach bisect filter-branch difftool".split(),
    "npm": "-c --call --script-shell exec x explore config set".split(),
    "rg": "--pre --hostname-bin".split(),
    "sort": "-o --output --compress-program".split(),
    "split": ["--filter"],
    "go": "-exec -toolexec run generate".split(),
    "tree": ["-o"],
    "zip": "-T -TT --unzip-command".split(),
    "wait": ["-p"],  # as in wait -p 'a[$(command)]', which runs the command
    "printf": ["-v"],  # as in printf -v 'a[$(command)]', which runs the command
    "test": ["-v"],
}

FILLERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters by name, and nothing to see
BLANKS = " \t\n"  # what a shell skips; other white space is a part of a word
IN_SHORT = 200  # characters of a command where a reason only names it

TOKEN = re.compile(
    r"""
    (?P<blank>    [ \t]+ )
  | (?P<harmless> (?: (?:&>>?|>>?|<)[ \t]*/dev/null | >&[0-9] ) (?=[ \t\n;&|]) )
  | (?P<joint>    && | \|\|? | \|& | [;&\n] )
  | (?P<redirect> &?[<>][<>&|]* )
  | (?P<comment>  (?<![^ \t\n;&|()])\#[^\n]* )
  | (?P<single>   '[^']*' )
  | (?P<double>   "[^"\\]*(?:\\.[^"\\]*)*" )
  | (?P<escaped>  \\[^\n] )
  | (?P<expands>  \$(?![(\[{'"]) | [*?\[] )
  | (?P<plain>    [^ \t\n;&|<>()'"\\$`\#{}*?\[]+ )
  | (?P<unclear>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
DOUBTS = {
    "(": "a subshell or a function",
    ")": "a subshell or a function",
    "`": "a substitution",
    "$": "a substitution",
    "{": "braces",
    "}": "braces",
    "#": "a comment",
    "'": "an open quote",
    '"': "an open quote",
    "\\": "a backslash before a line break",
}
HIDDEN = re.compile(r"`|\$[(\[{]|\\\n")  # what makes a text in double quotes more than a text
CONTROL = re.compile("[^\t\n -~\u00a0-\ud7ff\ue000-\U0010ffff]")  # control characters and lone surrogates
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.DOTALL)
NO_OPTION = re.compile(r"[\w./][^$]*", re.DOTALL)  # whatever the shell makes of this, it is one word and no option


class Word(NamedTuple):
    text: str  # without its quotes; as it is written if the shell still changes it
    expands: bool = False  # it holds `*`, `?`, `[` or `$` that is not quoted away, or begins with `~`


Part = tuple[Word, ...]  # a simple command


def split(command: str) -> tuple[list[Part], str]:
    """Return the simple commands in ``command``, without harmless redirections, and what was not understood, or "".

    In doubt the parts are those that could be seen. Never raises; takes time in proportion to the length.
    """
    parts: list[list[Word]] = [[]]
    doubts = ["a control character"] if CONTROL.search(command) else []
    pieces: list[str] = []  # of the word that is being read and began at `start`; no pieces, no word
    start, expands, is_target, is_body = 0, False, False, False
    for token in TOKEN.finditer(command + "\n"):
        kind, text = token.lastgroup, token.group()
        if kind in ("single", "double", "escaped", "expands", "plain") or text in ("{", "}", "$"):
            if not pieces:
                start, expands = token.start(), text.startswith("~")
            expands = expands or kind == "expands" or (kind == "double" and "$" in text)
            pieces.append(unquoted(kind, text))
            if kind == "unclear" or (kind == "double" and HIDDEN.search(text)):
                doubts.append(DOUBTS.get(text, "a substitution"))
            continue
        if pieces:
            raw = command[start : token.start()]
            is_number = raw.isascii() and raw.isdigit() and text[0] in "<>"  # the 2 of 2>&1
            doubts += ["a redirection"] if is_number and len(raw) > 1 else []  # a shell may take a long one for a word
            if not is_number and not is_target:
                parts[-1].append(Word(raw if expands else "".join(pieces), expands))
            pieces, is_target = [], is_target and is_number
        if is_body and text == "\n":
            break  # a here-document: from here on it is text, not commands
        if kind == "joint" or text in ("(", ")", "`"):
            parts.append([])
        if kind == "redirect":
            is_target, is_body = True, is_body or text in ("<<", "<<-")
        if kind in ("redirect", "comment", "unclear"):
            doubts.append(DOUBTS.get(text[0], "a redirection"))
    found = [tuple(part) for part in parts if part]
    doubts += ["a variable set before a command" for part in found if ASSIGNMENT.match(part[0].text)]
    doubts += ["a name that the shell works out" for part in found if part[0].expands]
    return found, (doubts or [""] if found else ["there is no command in it"])[0]


def read(command: str) -> tuple[list[Part], list[Part], str]:
    """Return the simple commands seen in ``command``, those that must be allowed, and what is in doubt, or "".

    In doubt it is the whole text that must be allowed, as a single word.
    """
    command = command.strip(BLANKS)
    parts, doubt = split(command)
    running = next(filter(None, map(runner, parts)), "")
    doubt = doubt or running and f"`{running[:IN_SHORT]}` may make it run or write something else"
    return parts, [(Word(command, True),)] if doubt else parts, doubt


def words_of_rule(command: str, only: bool, is_allow: bool) -> Part:
    """Return the words that a rule about ``command`` is for. Raises ValueError that says how to write such a rule.

    A rule is about one simple command. One that allows ``only`` this may also be about a text that is in doubt.
    """
    parts, doubt = split(command)
    _, needed, unclear = read(command)
    many = len(needed) > 1 if only and is_allow else doubt or len(parts) > 1
    if not parts or many or parts[-1][-1] == Word("*", True):
        raise ValueError("write the first words of one simple command, such as bash(git status:*), or bash for all")
    if is_allow and not only and unclear:
        raise ValueError(f"{unclear}, so write the whole command, without :*")
    return needed[0] if is_allow else parts[0]


def runner(part: Part) -> str:
    """Return the word by which a simple command runs something else or writes a file, "" if none is known."""
    name, options = program(part[0]), RUNNING_OPTIONS.get(program(part[0]), ())
    if name in RUNNERS:
        return part[0].text
    if name.rstrip("0123456789.") in INTERPRETERS:
        first = part[1] if len(part) > 1 else Word("-")
        return part[0].text if first.text.startswith("-") and first.text != "-m" else ""
    for word in part[1:] if options else ():
        becomes = word.expands and not NO_OPTION.fullmatch(word.text)
        if becomes or any(is_option(word.text, option) for option in options):
            return word.text
    return ""


def calls(part: Part, words: Part, only: bool = False, maybe: bool = False) -> bool:
    """Whether a simple command calls ``words`` (``only``: and no others), also behind `X=1`, `env`, `then` and so on.

    With ``maybe``, whether it could, once the shell has put something in the place of `*` or `$X`.
    """
    for start in range(len(part)):
        seen = part[start : start + len(words)]
        if len(seen) == len(words) and (not only or start + len(words) == len(part)):
            named = seen[0] == words[0] or program(seen[0]) == words[0].text.lower()
            if named and all(a == b or maybe and b.expands for a, b in zip(words[1:], seen[1:])):
                return True
        if not ASSIGNMENT.match(part[start].text) and program(part[start]) not in LEADS:
            return False
    return False


def written(part: Part) -> str:
    """Return a simple command as one could type it."""
    return " ".join(word.text if word.expands else shlex.quote(word.text) for word in part)


def visible(text: str) -> str:
    """Return ``text`` on one line. If something in it does not show, that is escaped, and so is each backslash."""
    if shows(text):
        return text
    return "".join(c if shows(c) and c != "\\" else c.encode("unicode_escape").decode("ascii") for c in text)


def shows(text: str) -> bool:
    """Whether every sign of ``text`` leaves something on the screen."""
    # Marks and fillers count as printable, but take no place or look like a blank.
    return text.isprintable() and not any(c in FILLERS or category(c)[0] == "M" for c in text)


def program(word: Word) -> str:
    """Return the bare name of a program: `/bin/LS` and `ls.exe` are `ls`, since some systems think so."""
    return word.text.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".exe")


def unquoted(kind: str | None, text: str) -> str:
    if kind == "single":
        return text[1:-1]
    if kind == "double":
        return re.sub(r'\\([$`"\\])', r"\1", text[1:-1])
    return text[1:] if kind == "escaped" else text


def is_option(word: str, option: str) -> bool:
    """Whether ``word`` is ``option``: `--exe=x` is `--exec`, and `-ax` holds `-x`."""
    if option.startswith("--"):
        name = word.split("=")[0]
        return len(name) > 2 and (option.startswith(name) or name.startswith(option))
    if len(option) == 2:
        return word.startswith("-") and not word.startswith("--") and option[1] in word
    return word == option
