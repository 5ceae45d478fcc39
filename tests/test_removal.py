"""Each mechanism of the last chapter can be left out by its line in harness.py, unless another one needs it."""

from __future__ import annotations

import ast
import importlib
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

from conftest import CHAPTERS
from conftest import PLACE
from conftest import import_sdk
from lessons import normalised

import offline_model

TOGETHER = 8  # harnesses at work at the same time: they wait for commands most of the time
# What others take for granted, and the first that would miss it.
NEEDED = {
    "shell.install(agent)": "plan mode limits bash",
    "permissions.install(agent)": "questions go by a desk",
    "plan_mode.install(agent)": "the autopilot",
    "autopilot.install(agent)": "told of jobs",
    "prompt.install(agent)": "memory adds a fact",
    "compaction.install(agent)": "recovery makes room",
    "usage.install(agent)": "/cost",
    "subagents.install(agent)": "/agents",
    "session.install(agent)": "catch-up",
    "plan_files.install(agent)": "the gate",
    "background.install(agent)": "the goal waits for it",
}
# What a lesson itself shows: without it the lesson is another one, but no request is invalid and nothing raises.
SHOWN = {"files.install(agent)", "goal.install(agent)"}


def install_lines(tree: ast.Module) -> dict[str, tuple[str, ast.stmt]]:
    """Return the statements that install something: by a short name of each, the function it stands in, and itself."""
    found = {}
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        for statement in function.body:
            call = getattr(statement, "value", None)
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(".install"):
                found[f"{ast.unparse(call.func)}({ast.unparse(call.args[0])})"] = function.name, statement
    return found


def without(text: str, tree: ast.Module, function: str, statement: ast.stmt) -> str:
    """Return the text of harness.py without a statement, and without the lines that end at exit what it would have begun."""
    cut = [statement]
    names = [target.id for target in getattr(statement, "targets", []) if isinstance(target, ast.Name)]
    [body] = [node.body for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    for other in body:
        cut += [other for name in names if ast.unparse(other).startswith(f"agent.exits.callback({name}.")]
    numbers = {number for each in cut for number in range(each.lineno, each.end_lineno + 1)}
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True), 1) if number not in numbers)


def played(package: str, lesson: str) -> str:
    """Play a lesson with a changed chapter. Returns what it prints; "raises …" if it cannot even be built."""
    load = lambda part: importlib.import_module(f"{package}.{part}")  # noqa: E731
    main, workspace, printed = load("__main__"), offline_model.make_workspace(), []
    console = load("console").Console()

    def write(stream, text, dim=False):
        printed.append(text)
        console.at_line_start = text.endswith("\n")

    console.write = write
    with offline_model.start(scenario=lesson) as server:
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        model.fallback = offline_model.FALLBACK
        try:
            agent = load("harness").build(model, workspace, console.show, main.who_to_ask(console, model, False))
        except (NameError, AttributeError, ValueError, KeyError) as error:
            return f"raises {type(error).__name__}"
        try:
            main.play(agent, console, model)
        finally:
            agent.exits.close()
        assert [record.status for record in server.requests if record.status != 200] == []
        assert agent.history.open_calls() == []
    shutil.rmtree(workspace)
    return normalised("".join(printed))


def test_each_mechanism_that_no_other_needs_can_be_left_out(tmp_path, monkeypatch):
    """The last two lessons are played without it, and print the same: nothing else has relied on it in silence."""
    import_sdk()
    newest, lessons = CHAPTERS[-1], CHAPTERS[-2:]
    text = (PLACE / newest / "harness.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = install_lines(tree)
    monkeypatch.syspath_prepend(str(tmp_path))
    harnesses = {"": text, **{name: without(text, tree, *line) for name, line in lines.items()}}
    packages = {name: f"without_{number}" for number, name in enumerate(harnesses)}
    for name, package in packages.items():
        shutil.copytree(PLACE / newest, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / package / "harness.py").write_text(harnesses[name], encoding="utf-8")
    with ThreadPoolExecutor(TOGETHER) as pool:
        found = {name: pool.map(played, [package] * 2, lessons) for name, package in packages.items()}
        found = {name: list(results) for name, results in found.items()}
    for module in [each for each in sys.modules if each.startswith("without_")]:
        del sys.modules[module]

    whole = found.pop("")
    assert [name for name, results in found.items() if results[0].startswith("raises")] == [*NEEDED]
    others = {name: results for name, results in found.items() if name not in NEEDED}
    assert len(others) > 15
    assert {name for name, results in others.items() if results != whole} == SHOWN
