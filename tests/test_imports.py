"""Threads may import modules in any order, at once. Python locks each module while it is imported, a submodule before its package;
where modules import each other in a circle, two threads that begin at different ones get each other's half-initialized modules."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import omnigraph as og

SOURCE = Path(__file__).parents[1] / "src"
ROOT = "omnigraph"
"""Every import of a module of ours begins with it, so it is loaded before threads can race."""

ENGINES = ("duckdb", "lance", "numpy", "pyarrow", "sqlglot")
"""Packages of others that many functions import when they are first called, in any thread."""


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    return {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def scopes(module: str) -> list[list[str]]:
    """The names of the modules that a module imports when it is loaded, and that each of its functions imports, in order."""
    found: list[list[str]] = []

    def visit(nodes: Iterable[ast.AST], names: list[str]) -> None:
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names += imported_modules(node)
            elif isinstance(node, FUNCTION):
                found.append([])
                visit(node.body, found[-1])
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                visit(node.orelse if is_for_type_checkers(node) else ast.iter_child_nodes(node), names)

    found.append([])
    visit(trees()[module].body, found[0])
    return found


@cache
def lazy_names(package: str) -> dict[str, str]:
    """The names of a package that are imported when they are first used, with their modules."""
    homes: dict[str, str] = getattr(import_module(package), "_EXPORTS", {}) if is_lazy(package) else {}
    return {name: home for home, names in homes.items() if home != package for name in names.split()}


def is_lazy(package: str) -> bool:
    return any(
        isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "_EXPORTS"
        for node in trees()[package].body
    )


def imported_modules(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    assert statement.module is not None
    assert statement.level == 0
    yield statement.module
    if statement.module in trees():
        for alias in statement.names:
            inner = f"{statement.module}.{alias.name}"
            home = inner if inner in trees() else lazy_names(statement.module).get(alias.name)
            if home is not None:
                yield home


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        module: {*scopes(module)[0], module.rpartition(".")[0]} & {*trees()} - {module, ROOT} for module in trees()
    }
    TopologicalSorter(graph).prepare()


def test_type_checkers_and_programs_find_a_lazy_name_in_the_same_module() -> None:
    for package in filter(is_lazy, trees()):
        blocks = [node for node in trees()[package].body if is_for_type_checkers(node)]
        seen = {
            alias.name: statement.module
            for block in blocks
            for statement in ast.walk(block)
            if isinstance(statement, ast.ImportFrom) and statement.module != package
            for alias in statement.names
        }
        assert seen == lazy_names(package), package


def test_engines_are_entered_by_the_front() -> None:
    """Whoever needs a module that its package loads imports the package first: `from lance import fragment`, not
    `import lance.fragment`."""
    for front in ENGINES:
        inner = {
            first: module
            for module in trees()
            for names in scopes(module)
            if (first := next((name for name in names if name.partition(".")[0] == front), front)) != front
        }
        loaded = modules_of(front) if inner else set()
        for first, module in inner.items():
            doors = {first.rsplit(".", depth)[0] for depth in range(first.count("."))}
            assert not doors & loaded, f"{module} imports {first} before {front}"


def modules_of(front: str) -> set[str]:
    """What a package has loaded when it is imported."""
    program = f"import sys, {front}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


TWO_THREADS = """
import sys, threading
from importlib.machinery import PathFinder
from omnigraph.tables.staging import load_fragment
import omnigraph as og

errors = []
threading.excepthook = lambda failed: errors.append(repr(failed.exc_value))

def waits(thread):
    frame = sys._current_frames().get(thread.ident)
    return frame is not None and frame.f_code.co_name == "acquire" and "importlib" in frame.f_code.co_filename

class Pause:
    def find_spec(self, name, path=None, target=None):
        if name != "lance.blob":
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def paused(module):
            other.start()
            while other.is_alive() and not waits(other):
                pass
            execute(module)

        spec.loader.exec_module = paused
        return spec

sys.meta_path.insert(0, Pause())
first = threading.Thread(target=lambda: og.open(sys.argv[1]).query("query q() { match { $a: A } return { $a.name } }"))
other = threading.Thread(target=lambda: load_fragment('{"id": 0, "files": [], "physical_rows": 0}'))
first.start()
first.join()
other.join()
sys.exit(", ".join(errors) or 0)
"""


def test_a_thread_that_begins_elsewhere_waits_until_lance_is_loaded(tmp_path: Path, stores_every_commit: None) -> None:
    graph = og.init(tmp_path / "graph", "node A { name: String @key }", durability="process")
    with graph.transaction() as tx:
        tx.insert("A", name="a")
    ran = subprocess.run(
        [sys.executable, "-c", TWO_THREADS, str(tmp_path / "graph")], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


LAZY_NUMPY = """
import pickle, sys
from omnigraph._internal.lazy_imports import np

assert "numpy" not in sys.modules
assert np.zeros(2).tolist() == [0, 0]
numpy = sys.modules["numpy"]
assert vars(np) is vars(numpy) and pickle.loads(pickle.dumps(np)) is numpy
try:
    np.no_such_name
except AttributeError as error:
    assert "numpy" in str(error)
else:
    raise AssertionError
"""


def test_a_lazy_module_has_the_names_of_its_module_once_it_is_used() -> None:
    ran = subprocess.run([sys.executable, "-c", LAZY_NUMPY], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


FEW_LINES = 80
SMALL_FOR_A_REASON = {
    "language.grammar_reference": "only the generated pages load it",
    "load.locate": "only a refused load reads its sources again",
    "mcp.relay": "it loads the client of the protocol",
    "read.sql_views": "it loads DuckDB",
    "read.strategies.metadata": "a strategy has a module",
    "read.strategies.scan": "a strategy has a module",
    "server.in_process": "it loads the whole server",
}


def code_lines(module: str) -> int:
    """Lines without blank ones, comments and docstrings."""
    docs = {
        line
        for node in ast.walk(trees()[module])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    beside = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    base = SOURCE / module.replace(".", "/")
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
    used = {line for token in tokens if token.type not in beside for line in range(token.start[0], token.end[0] + 1)}
    return len(used - docs)


def test_a_module_has_two_importers_or_is_long_or_has_a_reason() -> None:
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module in trees():
        for name in (name for names in scopes(module) for name in names if name in trees()):
            importers[name].add(module)
    # Whatever no import statement names is loaded by its name: commands, handlers.
    packages = {name.rpartition(".")[0] for name in trees()}
    small = {
        module.removeprefix("omnigraph.")
        for module, users in importers.items()
        if len(users - {module}) == 1 and module not in packages and code_lines(module) < FEW_LINES
    }
    assert small == SMALL_FOR_A_REASON.keys()
