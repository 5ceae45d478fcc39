"""What all tests share: the chapters, a model to talk to, and walls around the machine they run on."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from typing import Callable
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted(path.name for path in ROOT.glob("s[0-9][0-9]_*") if (path / "__main__.py").exists())
sys.path.insert(0, str(ROOT))
MILESTONES = ("s05", "s07", "s11", "s15", "s17")
HANDFUL = 8  # tests of a mechanism that run in all chapters that have it: more, and the suite takes too long to be run
PLACE = ROOT  # where the chapters under test are

OTHER_SETTINGS = ("MODEL_ID", "FALLBACK_MODEL")

COPY = os.environ.get("COURSE_UNDER_TEST")  # the folder of a practice copy: it alone is tested, and nothing written into it
if COPY:
    CHAPTERS, PLACE = [Path(COPY).name], Path(COPY).parent
    sys.path.insert(0, str(PLACE))
    sys.dont_write_bytecode = True

import offline_model  # noqa: E402
from offline_model.script import Exchange  # noqa: E402
from offline_model.script import Scenario  # noqa: E402
from offline_model.script import Step  # noqa: E402


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without a look for garbage: thousands of tests stay to the end, and no later look passes over them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def import_sdk() -> None:
    """Import what takes a second. A first request makes the types of replies, which the SDK would forget each time."""
    gc.disable()
    import anthropic

    hello = {"model": offline_model.MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    http_client = anthropic.DefaultHttpxClient(trust_env=False, verify=False)
    with offline_model.start() as server, http_client:
        client = anthropic.Anthropic(base_url=server.url, api_key="x", http_client=http_client)
        with client.messages.stream(**hello) as events:
            list(events)
    gc.freeze()  # thousands of classes that no collection needs to look at again
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def walls(tmp_path_factory):
    """Keep every test away from the person's keys, settings and home directory."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_") and name not in OTHER_SETTINGS}
    os.environ.clear()
    os.environ.update(kept, HOME=str(home), USERPROFILE=str(home))
    if not COPY:  # who waits for a check waits only for what it needs
        import_sdk()


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """Let Ctrl-C be what it is, also where the tests run in the background: there a shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@functools.cache
def chapters_with(module: str) -> list[str]:
    """Return the chapters that have the module, in order."""
    return [name for name in CHAPTERS if (PLACE / name / f"{module}.py").exists()]


def parsed(chapter: str, module: str) -> tuple[str, dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    """Return a module's text, what it defines by name, and what it imports: name -> (module of the chapter, name)."""
    text = text_in(chapter, module)
    return text, *names_in(text)


@functools.cache
def text_in(chapter: str, module: str) -> str:
    return (PLACE / chapter / f"{module}.py").read_text(encoding="utf-8")


@functools.cache
def names_in(text: str) -> tuple[dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    """Return what a text defines, and what it imports for more than annotations. A text of many chapters is parsed once."""
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            imported |= {a.asname or a.name: (node.module or a.name, a.name if node.module else "") for a in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {n.id: node for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    counts = frozenset(names_that_count(tree))
    return defined, {name: source for name, source in imported.items() if name in counts}


@functools.cache
def segment(text: str, node: ast.stmt) -> tuple[str, frozenset[str]]:
    """Return the lines of a definition, and the names in it that count when it runs."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno]), frozenset(names_that_count(node))


def names_that_count(node: ast.AST) -> Iterator[str]:
    """Yield the names in a piece of code without its annotations, which all modules leave as text that nobody reads."""
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from names_that_count(each)


@functools.cache
def text_of(chapter: str, module: str) -> str:
    """Return the text of ``module`` and of all that it imports, name by name, as one string to compare."""
    text, _, imported = parsed(chapter, module)
    seen, waiting = {(module, ""): text}, list(imported.values())
    while waiting:
        source, name = waiting.pop()
        if (source, name) in seen:
            continue
        text, defined, imported = parsed(chapter, source)
        if name not in defined:  # a whole module, or a name that it has from elsewhere
            seen[source, name] = "" if name in imported else text
            waiting += [imported[name]] if name in imported else imported.values()
            continue
        seen[source, name], used = segment(text, defined[name])
        waiting += [imported[each] for each in used if each in imported]
        waiting += [(source, each) for each in used if each in defined]
    return "\0".join(seen[key] for key in sorted(seen))


@functools.cache
def first_tests(module: ModuleType) -> list[str]:
    """Return the names of the first tests of a file that run an agent."""
    tests = [name for name, test in vars(module).items() if name.startswith("test_") and uses_an_agent(module, test)]
    return tests[:HANDFUL]


def uses_an_agent(module: ModuleType, test: Callable) -> bool:
    """Whether a test wants the fixture ``chapter``, itself or through another one of its file."""
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    through = [getattr(getattr(module, name, None), "__wrapped__", None) or getattr(module, name, None) for name in wanted]
    return "chapter" in wanted or any("chapter" in inner.__code__.co_varnames for inner in through if hasattr(inner, "__code__"))


def pytest_generate_tests(metafunc):
    """``chapter``: the chapters that have the mechanism. ``load``: each distinct text of its module once.

    The mechanism is named by the file (test_todo.py: todo) or by MECHANISM in it. The first HANDFUL tests of a file run in
    every chapter, so they are the ones that stand for it; the others in the first one, the milestones and the newest.
    """
    mechanism = getattr(metafunc.module, "MECHANISM", metafunc.module.__name__.removeprefix("test_"))
    if "chapter" in metafunc.fixturenames:
        names = chapters_with(mechanism)
        if metafunc.definition.originalname not in first_tests(metafunc.module):
            names = [name for name in names if name in (names[0], names[-1]) or name[:3] in MILESTONES]
        metafunc.parametrize("chapter", names, indirect=True)
    if "load" in metafunc.fixturenames:
        distinct = {name if COPY else text_of(name, mechanism): name for name in reversed(chapters_with(mechanism))}
        metafunc.parametrize("load", sorted(distinct.values()), indirect=True)


@pytest.fixture
def load(request) -> Callable[[str], ModuleType]:
    """Return ``load(module)``, which imports a module of the chapter under test."""
    return lambda module: importlib.import_module(f"{request.param}.{module}")


class Chapter:
    """One chapter, and short ways to run its agent against the offline model."""

    def __init__(self, name: str, workspace: Path) -> None:
        self.name = name
        self.workspace = workspace
        self.shown: list[tuple[str, dict[str, Any]]] = []
        self.servers: list[Any] = []

    def load(self, module: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{module}")

    def has(self, module: str) -> bool:
        return (PLACE / self.name / f"{module}.py").exists()

    def agent(self, *exchanges: Exchange, ask: Callable[[str], str] | None = lambda question: "y", **options: Any) -> Any:
        """Return the chapter's agent, connected to an offline model that plays ``exchanges``."""
        server = offline_model.start(scenario=Scenario(about="test", exchanges=list(exchanges)), **options)
        self.servers.append(server)
        model = self.load("model").Model(offline_model.MODEL, server.url, "test", server)
        arguments = [model, self.workspace, self.show]
        if self.has("permissions"):
            arguments.append(ask)
        return self.load("harness").build(*arguments)

    def run(self, agent: Any, prompt: str) -> Any:
        return self.load("loop").run(agent, prompt)

    def bare(self, agent: Any) -> Any:
        """Take the recovery off the agent, if it has any: what is tested lies below it, and must hold without."""
        vars(agent).pop("call_model", None)
        return agent

    def show(self, kind: str, **data: Any) -> None:
        self.shown.append((kind, data))


@pytest.fixture
def chapter(request, tmp_path):
    """Return the Chapter under test. At the end its history must be one that the API takes, and no script ran short."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    import_sdk()
    chapter = Chapter(request.param, workspace)
    yield chapter
    for server in chapter.servers:
        server.close()


def talk(prompt: str, *steps: Step, **options: Any) -> Exchange:
    """Return an exchange in which the model answers ``prompt`` by ``steps``."""
    return Exchange(says=prompt, steps=list(steps), **options)
