"""Which shell commands only read, as far as their words tell.

Where nothing may change, a shell is the widest door: `sort -o`, `find -delete` and `git branch x` write as well as `rm`
does. A list of what is forbidden is never complete. So this is a list of what is known to only read: programs, and for
those that can do more, each option. A word that is not in it refuses the command: in doubt, no.

It judges words, not programs: that `ls` is the `ls` one knows is the system's business, and what the person's own
settings make git run is the person's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .shell_words import IN_SHORT
from .shell_words import NO_OPTION
from .shell_words import Part
from .shell_words import Word
from .shell_words import split
from .shell_words import visible

MANY = 1_000_000  # operands: more than any command line holds


@dataclass(frozen=True)
class Use:
    """What a program may be given, where some of its options write or run something."""

    flags: str = ""  # letters of options without a value, which may stand together
    valued: str = ""  # letters of options whose value is the rest of the word, or the next one
    long: str = ""  # options that are a word, with or without =value
    operands: int = MANY  # how many words may be no options
    shape: str = r".*"  # what such a word must look like
    needed: str = ""  # one of these options must be there before there may be any operand


NOTHING_WRITES = frozenset(
    "ls cat head tail wc nl tac rev cut paste tr fold fmt expand unexpand column comm join cmp diff echo pwd true false "
    "basename dirname realpath readlink stat du df od hexdump strings cksum sum md5sum sha1sum sha256sum sha512sum shasum "
    "seq grep egrep fgrep jq which type whoami id groups uname uptime nproc printenv ps".split()
)
USES = {
    "cd": Use("LP", operands=1),
    "command": Use("vV", operands=1, needed="-v -V"),
    "date": Use("uR", long="--utc --iso-8601 --rfc-3339 -I -Iseconds -Iminutes", shape=r"\+.*"),  # another sets the clock
    "hostname": Use("sf", operands=0),
    "file": Use("bhiLkNr", long="--brief --mime --mime-type"),
    "tree": Use("adfilpsuhDgtrFLIP", long="--dirsfirst --noreport --gitignore --prune --du"),
    "sort": Use("bdfghiMnRrsuVzcC", "kt", "--reverse --unique --numeric-sort --human-numeric-sort --key --field-separator "
                "--version-sort --ignore-case --check"),
    "uniq": Use("cdDuiz", "fsw", "--count --repeated --unique --ignore-case", operands=1),  # the second one is written
    "base64": Use("d", "w", "--decode --wrap", operands=1),
    "printf": Use(shape=r"(?:[^%]|%%|%[-+ #0-9.]*[bcdefgiosuxEGX])*"),  # %n sets a variable
    "test": Use(long="-e -f -d -s -r -w -x -L -h -n -z -a -nt -ot -ef -eq -ne -lt -le -gt -ge"),
    "find": Use("0123456789kMGc", long="-name -iname -path -ipath -wholename -regex -iregex -regextype -type -maxdepth "
                "-mindepth -size -empty -perm -user -group -newer -mtime -mmin -atime -amin -ctime -cmin -samefile -links "
                "-readable -writable -executable -follow -xdev -mount -depth -prune -quit -not -o -or -a -and -true -false "
                "-print -print0 -printf -ls -L -H -P"),
    "rg": Use("nilLcwvoFSsuUHINxPpa0", "ABCegtTm", "--files --hidden --no-ignore --glob --type --type-list --count --sort "
              "--files-with-matches --ignore-case --line-number --word-regexp --fixed-strings --smart-case --context "
              "--max-count --max-depth --json --stats --heading --no-heading --color --only-matching --invert-match "
              "--multiline --no-line-number"),
    **dict.fromkeys(("python", "python3", "node", "gcc"), Use(long="--version", operands=0)),
}
LOG = Use(
    "pusnbwziEFPawrtmRgce0123456789", "USGLMC", "--oneline --stat --shortstat --numstat --dirstat --name-only --name-status "
    "--graph --all --branches --tags --remotes --follow --patch --no-patch --max-count --skip --since --after --until "
    "--before --author --committer --grep --all-match --invert-grep --regexp-ignore-case --merges --no-merges --first-parent "
    "--reverse --decorate --no-decorate --abbrev-commit --abbrev --date --pretty --format --cached --staged --word-diff "
    "--color --no-color --ignore-all-space --ignore-space-change --ignore-blank-lines --unified --raw --summary --check "
    "--minimal --patience --histogram --diff-filter --find-renames --find-copies --no-renames --relative --merge-base "
    "--topo-order --date-order --simplify-by-decoration --pickaxe-regex --pickaxe-all --no-ext-diff --no-textconv --count "
    "--quiet --exit-code --left-right --cherry-pick --not --source --compact-summary --function-context --text",
)
LISTING = "--contains --no-contains --merged --no-merged --points-at --sort --format"
GIT = {
    **dict.fromkeys(("log", "diff", "show", "shortlog", "whatchanged", "rev-list", "diff-tree", "reflog show",
                     "stash list", "stash show"), LOG),
    "": Use(long="--version", operands=0),
    "version": Use(operands=0),
    "status": Use("sbvz", "u", "--short --branch --porcelain --long --ignored --untracked-files --show-stash --verbose"),
    "blame": Use("swelftpcbM", "LC", "--porcelain --line-porcelain --show-email --date --since --abbrev"),
    "grep": Use("nilLcwvEFGPhHqoaWprz", "eABCm", "--count --ignore-case --line-number --name-only --files-with-matches --and "
                "--or --not --cached --untracked --word-regexp --fixed-strings --extended-regexp --max-depth --heading"),
    "ls-files": Use("cdmosuztvik", "x", "--cached --others --modified --deleted --stage --ignored --exclude-standard "
                    "--exclude --full-name --error-unmatch"),
    "ls-tree": Use("drtlz", long="--name-only --name-status --full-name --full-tree --long"),
    "cat-file": Use("ptse", long="--batch --batch-check"),
    "rev-parse": Use("q", long="--abbrev-ref --short --verify --show-toplevel --git-dir --is-inside-work-tree --show-prefix "
                     "--symbolic-full-name --show-cdup --quiet"),
    "merge-base": Use("a", long="--all --is-ancestor --octopus"),
    "name-rev": Use(long="--name-only --tags --all --always"),
    "describe": Use(long="--tags --all --always --long --abbrev --dirty --match --exact-match --contains --first-parent"),
    "show-ref": Use("dsq", long="--head --heads --branches --tags --hash --abbrev --verify --quiet"),
    "for-each-ref": Use(long=f"{LISTING} --count"),
    "check-ignore": Use("vnq", long="--verbose --no-index"),
    "count-objects": Use("vH", operands=0),
    "branch": Use("arv", long=f"--all --remotes --verbose --list --show-current {LISTING}", needed="--list --contains --merged"),
    "tag": Use("ln0123456789", long=f"--list {LISTING}", needed="-l --list"),
    "remote": Use("v", long="--verbose", operands=0),
    "remote get-url": Use(long="--all --push", operands=1),
    "reflog": Use(operands=0),
    "worktree list": Use("v", long="--porcelain --verbose", operands=0),
    "config": Use("lz", long="--get --get-all --get-regexp --list --show-origin --show-scope --global --local --system "
                  "--name-only", needed="--get --get-all --get-regexp --list -l"),
}  # fmt: skip
# Of sed, between slashes. In brackets a first `]` and a `[` do not end what they seem to end, so neither may stand there.
PATTERN = r"(?:[^/\\\n\[]|\\.|\[(?!\^?\])[^\]\[/\\\n]+\])*"
ADDRESS = rf"(?:\d+|\$|/{PATTERN}/)"
SED_COMMAND = rf"(?:{ADDRESS}(?:,(?:{ADDRESS}|\+\d+))?)?\ *!?(?:[pdq=]|s/{PATTERN}/{PATTERN}/[gpI0-9]*)"
SED_SCRIPT = re.compile(rf"\s*{SED_COMMAND}(?:\s*[;\n]\s*{SED_COMMAND})*[\s;]*")
SED = Use("nEr", long="--quiet --silent --regexp-extended")
RUNS_GPG = "%G"  # in a format of git's: it asks another program about signatures


def only_reads(command: str) -> str:
    """Return "" if ``command`` is known to only read, else why not: half a sentence that names the word in question."""
    parts, doubt = split(command)
    if doubt:
        return f"the words of this command do not tell what it does ({doubt})"
    if {"cd", "git"} <= {part[0].text for part in parts}:
        return "git may run what the settings of another folder say: leave the cd out"
    for part in parts:
        if word := unknown(part):
            return f"`{visible(word)[:IN_SHORT]}` is not known to only read"
    return ""


def unknown(part: Part) -> str:
    """Return what of a simple command is not known to only read: a program, or a program and a word. "" if all is."""
    name, words = part[0].text, part[1:]
    if name in NOTHING_WRITES:
        return ""
    if name == "sed":
        return unknown_of_sed(words)
    if name == "git":
        return unknown_of_git(words)
    return unknown_word(name, USES[name], words) if name in USES else name or "''"


def unknown_of_git(words: Part) -> str:
    words = words[1:] if words[:1] == (Word("--no-pager"),) else words
    count = next((n for n in (2, 1, 0) if " ".join(word.text for word in words[:n]) in GIT and len(words) >= n), 0)
    name = " ".join(word.text for word in words[:count])
    if not count and words[:1] != (Word("--version"),) or any(RUNS_GPG in word.text for word in words):
        return " ".join(["git", *(word.text for word in words[:1])])
    return unknown_word(f"git {name}".strip(), GIT[name], words[count:])


def unknown_of_sed(words: Part) -> str:
    """A script of sed can write files and run commands: only the few shapes that people read with are known."""
    options = [word for word in words if word.text.startswith("-")]
    script = next((word for word in words if not word.text.startswith("-")), Word(""))
    if script.expands or not SED_SCRIPT.fullmatch(script.text):
        return f"sed {script.text}"
    return unknown_word("sed", SED, (*options, *(word for word in words if word not in options and word != script)))


def unknown_word(name: str, use: Use, words: Part) -> str:
    """Return the program with the first of its words that is not in ``use``, or ""."""
    operands: list[str] = []
    options: list[str] = []
    takes_next = False  # the option before has its value here, so this is no operand
    for word in words:
        text = word.text
        if word.expands and not (NO_OPTION.fullmatch(text) and use.operands == MANY and not use.needed):
            return f"{name} {text}"  # the shell may put an option there, or more words than one
        if text.startswith("-") and text not in ("-", "--"):  # also where it may be a value: in doubt, no
            option = text.split("=")[0]
            end = text.lstrip("-").lstrip(use.flags) if text[1] != "-" else "--"
            if option not in use.long.split() and end and end[0] not in use.valued:
                return f"{name} {text}"
            takes_next = len(end) == 1 and option not in use.long.split()
            options.append(option)
            continue
        if text != "--" and not takes_next:
            operands.append(text)
        takes_next = False
    wrong = [text for text in operands if not re.fullmatch(use.shape, text, re.DOTALL)] + operands[use.operands :]
    if use.needed and not set(use.needed.split()) & set(options):
        wrong += operands
    return f"{name} {wrong[0]}" if wrong else ""
