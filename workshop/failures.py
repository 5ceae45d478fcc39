"""Makes texts out of a failed test: what it says, the statement that failed, the values in it, expected and came."""

from __future__ import annotations

import ast
import dataclasses
import functools
import os
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

STATEMENT_LINES = 6  # of a test's statement are shown
EXCERPT_LINES = 8  # of a test are shown, up to where it fails
SHOWN = 200  # characters of a value
AROUND = 40  # characters shown before the first difference of two long values
LOCALS = 3  # values of names in the failing statement
# How pytest says that an error has another text than the wanted one.
UNLIKE = re.compile(r"Regex pattern did not match\.\n.*egex: (.*)\n *(?:Actual message|Input): (.*)$", re.DOTALL)
PLAIN = r"\\+(?=[^\w\\])"  # what re.escape puts before a sign, as repr shows it
PRINTED = 4  # lines shown of what a test printed


def sentence(item: pytest.Item) -> str:
    """Return what a test says, from its docstring or its name."""
    document = (getattr(item.function, "__doc__", None) or "").strip().splitlines()
    text = document[0] if document else item.originalname.removeprefix("test_").replace("_", " ")
    text = re.sub(r"^[A-Z]\d+[a-z]? ", "", text)  # the number of a case in a list elsewhere
    return text[:1].upper() + text[1:].rstrip(".")


def statement(path: Path, line: int, alone: bool = False) -> list[str]:
    """Return the lines of the statement at ``line``; of one with a block the head, but a ``with`` whole.

    Before an assertion stands the statement that it takes its value from, if not ``alone``.
    """
    source, tree = parsed(path)
    whole = next((n for n in tree.body if n.lineno <= line <= n.end_lineno), None)
    if whole is None:
        return []
    nodes = list(ast.walk(whole))
    around = [n for n in nodes if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
    node = max(around, key=lambda each: each.lineno)
    lines = lines_of(source, node)
    if isinstance(node, ast.Assert) and not alone:
        used = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        blocks = [getattr(n, part, None) for n in nodes for part in ("body", "orelse", "finalbody")]
        block = next(each for each in blocks if isinstance(each, list) and node in each)
        made = [n for n in block[: block.index(node)] if isinstance(n, ast.Assign) and used & names_in(n.targets)]
        if made:
            near = block.index(node) - block.index(made[-1]) == 1
            lines = lines_of(source, made[-1]) + ([] if near else ["..."]) + lines
    return lines


def excerpt(path: Path, line: int, goal: bool) -> list[str]:
    """Return a test from its beginning to the statement at ``line``, or the last lines of that.

    With ``goal`` it goes on to the next assertion: what fails at ``line`` does not get so far as to say what is wanted.
    """
    source = parsed(path)[0]
    functions = [n for n in functions_in(path) if n.lineno <= line <= n.end_lineno]
    if not functions:
        return []
    function = max(functions, key=lambda each: each.lineno)
    nodes = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function]
    node = max((n for n in nodes if n.lineno <= line <= n.end_lineno), key=lambda each: each.lineno, default=function)
    first = function.body[ast.get_docstring(function) is not None :][0].lineno
    last = line + len(lines_of(source, node)) - 1 if hasattr(node, "body") else node.end_lineno
    later = [n for n in nodes if isinstance(n, ast.Assert) and n.lineno > last]
    if goal and later and not isinstance(node, ast.Assert):
        last = min(later, key=lambda each: each.lineno).end_lineno
    lines = [each for each in source.split("\n")[first - 1 : last] if each.strip()]
    kept = textwrap.dedent("\n".join(lines[-EXCERPT_LINES:])).split("\n")
    return ["..."] * (len(lines) > len(kept)) + kept


@functools.cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    """Return the text of a file with tests, and its syntax tree."""
    source = path.read_text(encoding="utf-8")
    return source, ast.parse(source)


@functools.cache
def functions_in(path: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(parsed(path)[1]) if isinstance(n, ast.FunctionDef)]


def lines_of(source: str, node: ast.stmt) -> list[str]:
    last = node.end_lineno
    if hasattr(node, "body") and not isinstance(node, ast.With):
        last = max(node.lineno, node.body[0].lineno - 1)
    lines = textwrap.dedent("\n".join(source.split("\n")[node.lineno - 1 : last])).split("\n")
    return lines if len(lines) <= STATEMENT_LINES else [*lines[: STATEMENT_LINES - 1], "..."]


def names_in(nodes: list[ast.expr]) -> set[str]:
    return {n.id for each in nodes for n in ast.walk(each) if isinstance(n, ast.Name)}


def values(item: pytest.Item, frame: Any, shown: list[str], known: tuple[str, str]) -> list[str]:
    """Return the small values of the names in the failing statement: they tell which case it was."""
    found = []
    try:
        used = [n for n in ast.walk(ast.parse("\n".join(shown))) if isinstance(n, ast.Name)]
        made = {n.id for n in used if not isinstance(n.ctx, ast.Load)}  # one sees there how
        names = [n.id for n in used if n.id not in made]
    except SyntaxError:  # the head of a block
        names = []
    names += [name for name in getattr(getattr(item, "callspec", None), "params", {}) if name not in ("load", "chapter")]
    for name in dict.fromkeys(names):
        value = frame.f_locals.get(name)
        plain = isinstance(value, (str, bytes, int, float, list, tuple, dict, set, type(None), BaseException))
        if name in frame.f_locals and (plain or dataclasses.is_dataclass(value) and not isinstance(value, type)):
            text = render(value)
            if cut(text) not in known and (plain or len(text) <= SHOWN):
                found.append(f"{name} = {cut(text, 100)}")
    return found[:LOCALS]


def expected_and_came(error: BaseException, compared: tuple[str, Any, Any] | None) -> tuple[str, str]:
    """Return both as texts; ``compared`` is the failed comparison of an assertion, if it has one."""
    if compared:
        op, left, right = compared
        left, right = render(left), render(right)
        if op == "==":
            return cut_together(right, left)
        if op in ("in", "not in"):
            return f"{'' if op == 'in' else 'no '}{cut(left)} in it", near(left[1:-1], right)
        return f"something {op} {cut(right)}", cut(left)
    text = said(error)
    if isinstance(error, pytest.fail.Exception) and "DID NOT RAISE" in text:
        name = text.partition("<class '")[2].partition("'")[0].rpartition(".")[2] or text.partition("RAISE ")[2]
        return f"a refusal: {name}", "no error"
    if isinstance(error, pytest.PytestUnraisableExceptionWarning) and isinstance(error.__cause__, ResourceWarning):
        return "", cut(f"something is left open, close it ({error.__cause__})")
    if isinstance(error, AssertionError) and (unlike := UNLIKE.search(text)) and error.__context__:
        kind = type(error.__context__).__name__
        return f"a {kind} whose text holds {cut(re.sub(PLAIN, '', unlike[1]))}", f"{kind}: {cut(unlike[2])}"
    if isinstance(error, AssertionError):
        return what_is_not_so(text.removeprefix("AssertionError: "))
    return "", cut(text)


def what_is_not_so(text: str) -> tuple[str, str]:
    """Return what was expected and what came, from pytest's words about an assertion that compares nothing."""
    first, *where = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    called = re.search(r"= <built-in method (\w+) of .*?>\((.*)\)$", where[0]) if where else None
    held = re.search(r"= (['\"].*)\.\w+$", where[1]) if len(where) > 1 else None
    if called and held:
        denied = " not" if first.startswith("assert not") else ""
        end = called[1] == "endswith" and len(held[1]) > SHOWN
        came = f"…{held[1][1 - SHOWN :]}" if end else cut(held[1])
        return f"a text for which this holds{denied}: {called[1]}({called[2]})", came
    return "", "this is not so" if first.startswith("assert ") else cut(first)


def said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return type(error).__name__


def render(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"


def cut(text: str, width: int = SHOWN) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def cut_together(first: str, second: str) -> tuple[str, str]:
    """Cut two texts to the part around their first difference."""
    same = len(os.path.commonprefix([first, second]))
    start = max(0, same - AROUND) if max(len(first), len(second)) > SHOWN else 0
    return tuple(("…" if start else "") + cut(text[start:]) for text in (first, second))


def near(part: str, text: str) -> str:
    """Cut a text to what is around the place where most of ``part``, from its beginning, is found."""
    at = next((text.find(part[:n]) for n in range(min(len(part), SHOWN), 0, -1) if part[:n] in text), 0)
    start = max(0, at - AROUND) if len(text) > SHOWN else 0
    return ("…" if start else "") + cut(text[start:])


def holds(op: str, left: Any, right: Any) -> bool:
    """Say whether a comparison is true: of ``a and b`` pytest shows each part, not only the one that is not."""
    try:
        return bool(eval(f"left {op} right", {}, {"left": left, "right": right}))
    except Exception:
        return False


def tail(text: str) -> str:
    return cut(text.strip().splitlines()[-1] if text.strip() else "")
