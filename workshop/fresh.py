"""Imports a practice copy as it is now, and lets its functions tell what is raised in them.

Bytecode is passed by: a file that is saved twice within a second would else run as it was before. And a harness catches
much of what goes wrong, so that a hook that raises is no more than a notice. So each function that a learner writes is
put into a ``try`` that tells of the exception and raises it again.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from types import ModuleType
from typing import Any

from . import copies

TELL = "_tell_"  # the name by which a module knows what is to be told
BROAD = {"Exception", "BaseException"}  # who catches these has nothing certain in mind


class CopyFinder(importlib.abc.MetaPathFinder):
    """Finds one package and its modules in a given folder, wherever else they may be."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell  # called while an exception is handled in a marked function
        self.folder = Path()
        self.names: dict[str, list[str]] = {}  # the marked functions of each file
        self.lines: dict[str, list[range]] = {}  # where they are, by path
        self.instead: dict[str, str] = {}
        self.compiled: dict[tuple[str, bytes], tuple[CodeType, list[range]]] = {}

    def enter(self, folder: Path, functions: list[list[str]], instead: dict[str, str]) -> None:
        """Import the package ``folder`` from there from now on, anew.

        ``functions`` are files and names of those marked; ``instead`` has texts that stand for those of files.
        """
        old = self.folder.name
        for name in [name for name in sys.modules if name == old or name.startswith(f"{old}.")]:
            del sys.modules[name]
        self.folder, self.names, self.instead = folder, {}, instead
        for file, name, *_ in functions:
            self.names.setdefault(file, []).append(name)
        importlib.invalidate_caches()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == self.folder.name:
            path = [str(self.folder.parent)]
        elif not fullname.startswith(self.folder.name + "."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = FreshLoader(fullname, spec.loader.path, self)
        return spec


class FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles the source as it is now. Within one run, the same source is compiled once."""

    def __init__(self, fullname: str, path: str, finder: CopyFinder) -> None:
        super().__init__(fullname, path)
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        file, compiled = Path(self.path).name, self.finder.compiled
        source = self.finder.instead[file].encode() if file in self.finder.instead else self.get_data(self.path)
        if (fullname, source) not in compiled:
            names = self.finder.names.get(file, [])
            tree = ast.parse(source, self.path) if names else source
            nodes = [node for node in (copies.locate(tree, name) for name in names) if node]
            lines = [range(node.lineno, node.end_lineno + 1) for node in nodes]
            for node in nodes:
                let_tell(node)
            compiled[fullname, source] = self.source_to_code(tree, self.path), lines
        code, self.finder.lines[code.co_filename] = compiled[fullname, source]
        return code

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, TELL, self.finder.tell)
        super().exec_module(module)


def let_tell(node: copies.Node) -> None:
    """Let a function tell of what is raised in it and goes out of it, or is caught by one who catches everything."""
    for each in ast.walk(node):
        if isinstance(each, ast.ExceptHandler):
            named = {n.id for n in ast.walk(each.type) if isinstance(n, ast.Name)} if each.type else BROAD
            if named & BROAD:
                each.body[:0] = ast.parse(f"{TELL}()").body
    first = 1 if ast.get_docstring(node) is not None else 0
    if node.body[first:]:
        around = ast.parse(f"try: pass\nexcept:\n    {TELL}()\n    raise")
        around.body[0].body, node.body[first:] = node.body[first:], around.body
