"""Reads one SKILL.md and judges it: what of it can be used, and what its author should mend.

A skill is a folder with a SKILL.md: YAML between two lines ``---``, and then the manual as free text
(https://agentskills.io/specification). People write these files by hand, and for other programs. So as much as can be
understood is taken, with a warning; for the rest there is Fault, and nothing else is ever raised. No field of a
manifest grants anything: all are kept, and only name and description are used.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from .todo import one_line

MANIFEST = "SKILL.md"  # exactly so; some disks take other spellings for the same
MAX_BYTES = 200_000  # of a manifest: the largest of 18 published by Anthropic has 74 kB
MAX_FRONT = 20_000  # characters of YAML: ten times any real one, and read in a moment
MAX_NAME = 64  # characters, by the format
MAX_DESCRIPTION = 1_024  # characters, by the format
NEAR = 100  # names looked at in a folder that has no manifest, to see what was meant
NULLS = ("~", "null", "Null", "NULL")  # YAML for nothing, where they stand without quotes
FENCE = "---"
NAME = re.compile(r"[^\W_]+(-[^\W_]+)*")
TOP_VALUE = re.compile(r"([\w-]+)[ ]*:[ ]+(\S.*)")  # a line of YAML with a key that is not indented, and a value
BLOCK = re.compile(r"[|>][-+0-9]*([ ]+#.*)?")  # the value follows in the next lines
WHOLE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|\[.*\]|\{.*\}""")  # in quotes, a list, or a map


class Fault(Exception):
    """Why a file is no skill, in words that follow its name."""


@dataclass(frozen=True)
class Skill:
    """A skill that can be used. Name and description are one line each."""

    name: str
    description: str
    manifest: Path
    body: str
    line: int  # of the manifest, at which the body begins; 1 is the first
    declared: str = ""  # the name in the manifest
    fields: dict[str, Any] = field(default_factory=dict)  # all of the front matter, as it came
    warnings: tuple[str, ...] = ()


def read_skill(manifest: Path, root: Path, max_bytes: int = MAX_BYTES) -> Skill:
    """Return the skill that ``manifest``, a SKILL.md somewhere below ``root``, holds. Raises Fault, and nothing else."""
    text = read_text(manifest, root, max_bytes)
    front, body, line = split(text)
    fields, warnings = read_front(front)
    if not text.startswith(FENCE):
        warnings.append("begins with blank lines: the first line should be ---")
    description = fields.get("description", "")
    if not isinstance(description, str):
        raise Fault("has a description that is no text: write one sentence or two")
    if not one_line(description):
        raise Fault("has no description: say there what it does and when to use it")
    name, declared = one_line(manifest.parent.name), fields.get("name", "")
    declared = one_line(declared) if isinstance(declared, str) else ""
    if not name:
        raise Fault("lies in a folder whose name has no letters: give it another name")
    if unicodedata.normalize("NFKC", declared) != unicodedata.normalize("NFKC", name):
        said = f"has the name {declared[:MAX_NAME]!r}" if declared else "has no name"
        warnings.append(f"{said}, and is known by its folder's, {name!r}")
    if len(name) > MAX_NAME or name != name.lower() or not NAME.fullmatch(name):
        warnings.append(f"should be named by up to {MAX_NAME} lower-case letters, digits and single hyphens")
    if len(one_line(description)) > MAX_DESCRIPTION:
        warnings.append(f"has a description of over {MAX_DESCRIPTION:,} characters, which may be cut")
    if re.search(r"^description:[ \t]+[^\s\"'|>].*[ \t]#", front, re.MULTILINE) and " #" not in description:
        warnings.append("has a # in its description: what follows is a comment, unless you put all of it in quotes")
    if not body:
        warnings.append("has nothing below its front matter")
    return Skill(name, one_line(description), manifest, body, line, declared, fields, tuple(warnings))


def read_text(manifest: Path, root: Path, max_bytes: int) -> str:
    """Return the text of the file, with ``\\n`` as line end and no byte-order mark. Raises Fault."""
    try:
        if not os.path.realpath(manifest).startswith(os.path.join(os.path.realpath(root), "")):
            raise Fault("leads out of its folder through a link")
        if not stat.S_ISREG(os.stat(manifest).st_mode):
            raise Fault("is no ordinary file")  # to open a pipe would wait for somebody to write
        with open(manifest, "rb") as file:
            data = file.read(max_bytes + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise Fault(f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        if len(data) <= max_bytes:
            raise Fault("is not UTF-8: save it with that encoding") from None
    if len(data) > max_bytes:
        raise Fault(f"is larger than {max_bytes:,} bytes: move a part of it into a file beside it")
    if "\0" in text:
        raise Fault("holds NUL bytes: it is no text")
    return text.replace("\r\n", "\n")


def split(text: str) -> tuple[str, str, int]:
    """Return front matter, body, and the number of the line at which the body begins. Raises Fault.

    The front matter ends at the first line ``---`` below it, and comes with the blank lines that keep its line numbers.
    """
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != FENCE:
        raise Fault("has no front matter: the first line must be --- and nothing else")
    end = next((number for number in range(start + 1, len(lines)) if lines[number].rstrip() == FENCE), 0)
    if not end:
        raise Fault("has a front matter without an end: a second line --- is missing")
    begin = next((number for number in range(end + 1, len(lines)) if lines[number].strip()), len(lines))
    front = [""] * (start + 1) + lines[start + 1 : end]
    return "\n".join(front), "\n".join(lines[begin:]).rstrip(), begin + 1


def read_front(front: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the front matter, and warnings. Raises Fault.

    What is no YAML gets one repair: a colon in a sentence is by far the commonest fault, and quotes heal it.
    """
    if len(front) > MAX_FRONT:
        raise Fault(f"has a front matter of over {MAX_FRONT:,} characters: move a part of it below")
    try:
        return read_yaml(front)
    except ValueError as error:
        first = error
    try:
        fields, warnings = read_yaml(quoted(front))
    except ValueError:
        raise Fault(f"has a front matter that is no YAML ({first})") from None
    return fields, [f"has a front matter that is no YAML ({first}): it was read as if its values stood in quotes", *warnings]


def read_yaml(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a YAML map, and a warning for each that is there twice; the last counts.

    Scalars stay text, so ``name: yes`` is a name. Tags, anchors and aliases are refused: a tag can ask for any object,
    an alias for a thousand copies. Raises ValueError that says what is wrong, and Fault if PyYAML is not there.
    """
    try:
        import yaml  # here: it takes a moment, and without a manifest nobody needs it
    except ImportError:
        raise Fault("cannot be read without PyYAML: python -m pip install PyYAML") from None

    class Loader(yaml.BaseLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag:
                raise yaml.MarkedYAMLError(problem="a tag, an anchor or an alias", problem_mark=event.start_mark)
            return super().compose_node(parent, index)

    fields: dict[str, Any] = {}
    warnings = []
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is not None and not isinstance(node, yaml.MappingNode):
            raise ValueError("it has no lines such as name: value")
        for key_node, value_node in node.value if node else ():
            key = one_line(str(loader.construct_object(key_node, deep=True)))
            if key in fields:
                warnings.append(f"has {key[:MAX_NAME]!r} twice: the last one counts")
            fields[key] = loader.construct_object(value_node, deep=True)
            if fields[key] in NULLS and value_node.style is None:
                fields[key] = ""
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{one_line(error.problem)}{line}") from None
    except RecursionError:
        raise ValueError("too many brackets") from None
    except (yaml.YAMLError, OverflowError):
        raise ValueError("it holds characters that YAML does not have") from None
    return fields, warnings


def quoted(front: str) -> str:
    """Return YAML with tabs as blanks and each value behind a top-level key in quotes, unless it needs none.

    None are needed by what has some, and by lists, maps and blocks. A value that goes on in indented lines is joined.
    """
    entries: list[list[str]] = []
    for line in front.expandtabs(2).split("\n"):
        if entries and not line[:1].strip():  # blank or indented: it belongs to what stands above
            entries[-1].append(line)
        else:
            entries.append([line])
    for entry in entries:
        if found := TOP_VALUE.fullmatch(entry[0]):
            value = " ".join(" ".join([found[2], *entry[1:]]).split())
            if not BLOCK.fullmatch(found[2]) and not WHOLE.fullmatch(value):
                entry[:] = [f"{found[1]}: '" + value.replace("'", "''") + "'"]
    return "\n".join(line for entry in entries for line in entry)


def what_was_meant(entry: Path) -> str:
    """Return why ``entry``, which has no SKILL.md, is no skill though somebody may think so; "" for anything else."""
    try:
        names = os.listdir(entry)[:NEAR]
    except NotADirectoryError:
        is_flat = entry.suffix.lower() == ".md" and entry.stem.lower() != "readme"
        return f"is a file: a skill is a folder with a {MANIFEST} in it" if is_flat else ""
    except OSError as error:
        return f"cannot be listed ({error.strerror})"
    for name in sorted(names):
        if name.lower() == MANIFEST.lower():
            return f"has a {name}: it must be spelt {MANIFEST}"
        if os.path.isfile(entry / name / MANIFEST):
            return "has skills of its own: they lie one folder too deep, and are not looked at"
    return ""
