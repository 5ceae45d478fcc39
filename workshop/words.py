"""Says in words for a learner what a check found: what passes, what is next, and one failing test in a few lines."""

from __future__ import annotations

import textwrap
from typing import Any

from .checks import Outcome

WIDTH = 100  # columns of the text


def report(outcome: Outcome, me: str) -> list[str]:
    """Return what the learner is told, line by line. ``me`` is how the launcher is called."""
    short = outcome.chapter[:3]
    total = len(outcome.functions)
    lines = []
    if outcome.lines:
        lines += table(outcome) + [""]
    lines += outcome.trouble
    if outcome.trouble:
        return lines
    each = outcome.next
    if each is None and outcome.failure:
        lines += [f"All {total} functions pass their own tests, but another test of the mechanism does not.", ""]
        lines += tell_failure(outcome.failure, "This test fails")
        lines += ["", f"The fault may lie in any of them. All of it: {me} check {short} --verbose"]
        return lines + [f"All hints: {me} check {short} --hint"]
    if each is None:
        others = f", and so do the mechanism's other tests ({outcome.rest})" if outcome.rest else ""
        lines.append(f"All {total} functions pass{others}.")
        lines.append(f"Run it: {me} run {short} --practice")
        return lines + [f"Compare with the chapter's own: {me} diff {short} --practice"]
    where = f"{each.file}, line {outcome.lines[each.name]}" if outcome.lines[each.name] else each.file
    lines += fill(f"Next: {each.name} ({where})")
    lines += fill(f"Wanted: {each.wanted}")
    if outcome.found:
        lines += fill(f"The test below fails with yours, and passes with the chapter's own {each.name}.")
    failure = outcome.failure or {}
    others = [name for name in failure.get("hinted", []) if name != each.name]
    if outcome.state[each.name] == "missing":
        lines += fill(f"{each.file} has no function {each.name} any more: the tests call it by that name.")
    elif outcome.state[each.name] == "forgotten" and each.name in failure.get("hinted", []):
        line = f"({each.file}, line {outcome.remind[each.name]})"
        lines += fill(f"The error is still in it: take out the line that raises NotImplementedError {line}.")
    elif others:
        lines += fill(f"This test also needs {others[0]}, which is still to be written.")
    lines.append("")
    if failure:
        if outcome.state[each.name] == "untouched":
            lines += tell_failure(failure, "It is still to be written. A test that waits for it", to_be_written=True)
        else:
            lines += tell_failure(failure, "This test fails")
        lines.append("")
    lines.append(f"A hint: {me} check {short} --hint")
    return lines


def table(outcome: Outcome) -> list[str]:
    """Return one line for each function: does it pass, and where is it."""
    rows = []
    width = max(len(each.name) for each in outcome.functions)
    for each in outcome.functions:
        mark = "passes" if each.name in outcome.passed else "next" if each is outcome.next else "later"
        rows.append(f"  {mark:<7} {each.name:<{width}}  {each.file}".rstrip())
    but = "" if outcome.next or outcome.all_pass else " their own tests, not solved yet"
    return [f"{outcome.chapter}: {len(outcome.passed)} of {len(outcome.functions)} functions pass{but}"] + rows


def tell_failure(failure: dict[str, Any], head: str, to_be_written: bool = False) -> list[str]:
    """Return a failing test as a few lines."""
    lines = [f"{head} ({failure['where']}):", *fill(f"  {failure['sentence']}.")]
    lines += [f"    {line}" for line in failure["call"]]
    lines += [f"    with {value}" for value in failure["values"]]
    if to_be_written:
        return lines
    if failure["checked"]:
        lines += hang("  checked by ", failure["checked"])
    if failure["expected"]:
        lines += hang("  expected: ", failure["expected"])
    lines += hang("  came:     ", failure["came"])
    lines += tell_places(failure["places"])
    for caught in failure["caught"]:
        lines += [*hang("  raised and caught on the way: ", caught["text"]), *tell_places(caught["places"])]
    return lines + [part for line in failure["printed"] for part in hang("  printed:  ", line)]


def tell_places(places: list[dict[str, Any]]) -> list[str]:
    told = [(f"  {word} {p['file']}, line {p['line']}: ", p["source"]) for word, p in zip(("in", "then in"), places)]
    return [line for head, source in told for line in hang(head, source)]


def hang(head: str, text: str) -> list[str]:
    """Return ``text`` behind ``head``, broken into lines with no sign of it lost; they stand below each other."""
    options = {"drop_whitespace": False, "replace_whitespace": False, "expand_tabs": False, "break_on_hyphens": False}
    parts = textwrap.wrap(text, WIDTH - len(head), **options) or [""]
    return [f"{' ' * len(head) if at else head}{part}" for at, part in enumerate(parts)]


def fill(text: str) -> list[str]:
    """Return ``text`` broken into lines, all but the first set in by two."""
    before = " " * (len(text) - len(text.lstrip()))
    indents = {"initial_indent": before, "subsequent_indent": before + "  "}
    return textwrap.wrap(text.strip(), WIDTH, break_long_words=False, **indents)
