"""Nothing in the package is there for tests alone, or for nobody: every name that is defined is used in the package, or is called by a
library that it plugs into, or is public."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import omnigraph as og

SOURCE = Path(__file__).parents[1] / "src"
_WRAPPERS = {"property", "cached_property", "classmethod", "staticmethod", "cache", "lru_cache", "contextmanager"}
"""Decorators that do not hand a function over to somebody who calls it."""


def definitions(
    tree: ast.Module,
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, ast.ClassDef | None]]:
    """Functions, classes and methods, each with the class that it is in."""
    for owner in ast.walk(tree):
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node, owner if isinstance(owner, ast.ClassDef) else None


def last_name(expression: ast.expr) -> str:
    while isinstance(expression, ast.Call | ast.Subscript):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")


def test_everything_that_is_defined_is_used() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if "testing" not in path.parts}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    trees = {path: ast.parse(text) for path, text in texts.items()}
    own = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    public = {
        name for module in (og, og.types) for exported in module.__all__ for name in dir(getattr(module, exported))
    }
    unused = []
    for path, tree in trees.items():
        for node, owner in definitions(tree):
            is_handed_over = any(last_name(decorator) not in _WRAPPERS for decorator in node.decorator_list)
            overrides = owner is not None and any(last_name(base) not in own | {"Protocol"} for base in owner.bases)
            is_protocol = re.fullmatch(r"__\w+__|_repr_\w+_", node.name) is not None
            if words[node.name] == 1 and not (is_handed_over or overrides or is_protocol or node.name in public):
                unused.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}")
    assert unused == []
