"""Makes a practice copy of a chapter: the bodies of some functions are taken out, all else stays to the byte.

Which functions those are stands in the chapter's practice.json, in the order in which one writes them. The places are
found in the syntax tree and cut in the text, so that comments, line ends and docstrings stay as they are.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from . import Problem

LIST = "practice.json"
FOLDER = "practice"  # where the copies are, beside the chapters
LEFT_BEHIND = ("__pycache__", LIST)  # old bytecode would run the old code, and a hint is for who asks for it

Node = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """One function that a learner writes: where it is, what it has to do, two hints, and the tests that judge it."""

    file: str
    name: str
    wanted: str
    hints: tuple[str, ...]
    tests: tuple[str, ...]


def functions(chapter: Path) -> list[Function]:
    """Return what a learner writes in this chapter, in order. Raises Problem if there is nothing, or no sense in it."""
    path = chapter / LIST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["functions"]
        listed = [
            Function(each["file"], each["name"], each["wanted"], tuple(each["hints"]), tuple(each["tests"]))
            for each in found
        ]
    except FileNotFoundError:
        raise Problem(f"{chapter.name} has no practice yet.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(f"{chapter.name}/{LIST} cannot be read ({error!r}): get the course anew.") from None
    if not listed:
        raise Problem(f"{chapter.name}/{LIST} names no function: get the course anew.")
    for file in [each.file for each in listed if not (chapter / each.file).is_file()]:
        raise Problem(f"{chapter.name} has no {file}: get the course anew.")
    return listed


def make(chapter: Path, copy: Path, command: str, names: set[str] | None = None, anew: bool = False) -> Path | None:
    """Copy ``chapter`` to ``copy`` and take out the functions, or only those in ``names``.

    ``command`` is how one asks for a hint; each taken-out function says it. The copy appears whole or not at all.
    With ``anew``, what was at ``copy`` is put aside once that is sure. Returns where it is then; without, ``copy`` must
    not be there.
    """
    listed = functions(chapter)
    half = copy.with_name(copy.name + f".half-{os.getpid()}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        for source in [path for path in sorted(chapter.rglob("*")) if path.is_file()]:
            target = half / source.relative_to(chapter)
            # A name with a dot is an editor's or the system's.
            if not any(part[0] == "." or part in LEFT_BEHIND for part in source.relative_to(chapter).parts):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        for file in sorted({each.file for each in listed}):
            try:
                text = read(half / file)
                for each in listed:
                    if each.file == file and (names is None or each.name in names):
                        text = take_out(text, each, command)
            except (SyntaxError, ValueError) as error:
                raise Problem(f"{chapter.name}/{file} is no Python ({error}): get the course anew.") from None
            write(half / file, text)
        kept = put_aside(copy) if anew and os.path.lexists(copy) else None
        try:
            half.rename(copy)
        except BaseException:
            if kept:
                kept.rename(copy)
            raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return kept


def put_aside(copy: Path) -> Path:
    """Move ``copy`` to a new name beside it, with the time in it. Returns the new place."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    number, kept = 1, copy.with_name(f"{copy.name}-{stamp}")
    while kept.exists():
        number += 1
        kept = copy.with_name(f"{copy.name}-{stamp}-{number}")
    copy.rename(kept)
    return kept


def take_out(text: str, function: Function, command: str) -> str:
    """Return ``text`` with the body of ``function`` replaced by its docstring, what is wanted, and an error."""
    node = locate(text, function.name)
    if node is None or node.body[0].lineno == node.lineno:
        raise Problem(f"{function.file} has no {function.name} that can be taken out: get the course anew.")
    lines = text.split("\n")
    indent = " " * node.body[0].col_offset
    first = node.body[0].end_lineno if ast.get_docstring(node) is not None else head_ends(lines, node)
    last = node.end_lineno  # and comments after it
    while last < len(lines) and lines[last].startswith(indent + "#"):
        last += 1
    end = "\r" if lines[node.lineno - 1].endswith("\r") else ""
    said = json.dumps(f"{promise(function)}  ({command})", ensure_ascii=False)
    stub = [f"{indent}# Wanted: {function.wanted}{end}", f"{indent}raise NotImplementedError({said}){end}"]
    return "\n".join(lines[:first] + stub + lines[last:])


def head_ends(lines: list[str], node: Node) -> int:
    """Return the number of the line on which the head of a function ends: before comments, which tell the answer too."""
    number = node.body[0].lineno - 1
    while number > node.lineno and lines[number - 1].strip()[:1] in ("#", ""):
        number -= 1
    return number


def replace(text: str, name: str, source: str) -> str:
    """Return ``text`` with the function ``name`` replaced by ``source``, which is indented to fit."""
    import textwrap

    node = locate(text, name)
    if node is None:
        raise Problem(f"There is no function {name} to replace.")
    lines = text.split("\n")
    end = "\r" if lines[node.lineno - 1].endswith("\r") else ""
    source = textwrap.indent(textwrap.dedent(source.replace("\r\n", "\n")).strip("\n"), " " * node.col_offset)
    return "\n".join(lines[: starts(node) - 1] + [line + end for line in source.split("\n")] + lines[node.end_lineno :])


def solved(chapter: Path, copy: Path, file: str, name: str) -> str:
    """Return the text of a file of ``copy`` in which one function is as the chapter has it."""
    own = read(chapter / file)
    node = locate(own, name)
    return replace(read(copy / file), name, "\n".join(own.split("\n")[starts(node) - 1 : node.end_lineno]))


def starts(node: Node) -> int:
    """Return the number of its first line, decorators included."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def locate(text: str | ast.Module, name: str) -> Node | None:
    """Return the function ``name`` (``function`` or ``Class.method``) in a text or its syntax tree, or None."""
    found: ast.AST | None = text
    if isinstance(text, str):
        found = ast.parse(text.removeprefix("\ufeff"))  # some editors begin a file with this mark
    for part in name.split("."):
        inside = [each for each in getattr(found, "body", []) if getattr(each, "name", None) == part]
        found = inside[-1] if inside else None  # the last one counts, as in Python
    return found if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def promise(function: Function) -> str:
    """Return how the error of a function that is still to be written begins."""
    return f"{function.name}: {function.wanted}"


def reminder(node: Node, function: Function) -> int:
    """Return the line of the error that ``take_out`` left in the function, or 0."""
    for each in ast.walk(node):
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call) and each.exc.args:
            name, said = each.exc.func, each.exc.args[0]
            if isinstance(name, ast.Name) and name.id == "NotImplementedError" and isinstance(said, ast.Constant):
                if str(said.value).startswith(f"{function.name}: "):
                    return each.lineno
    return 0


def untouched(node: Node, function: Function) -> bool:
    """Say whether a function holds nothing but its docstring and the error that ``take_out`` left."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return len(body) == 1 and body[0].lineno == reminder(node, function)


def read(path: Path) -> str:
    """Return a text with its line ends as they are."""
    return path.read_bytes().decode("utf-8")


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))
