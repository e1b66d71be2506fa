"""Names that a reader can search for: one class per name across packages, and no private words."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "omnigraph"
_PRIVATE_WORDS = frozenset(
    [
        "told",
        "given",
        "made",
        "said",
        "asked",
        "better",
        "one",
        "found",
        "each",
        "beside",
        "in_a_hurry",
        "thing",
        "stuff",
        "here",
        "there",
        "came",
        "come",
    ]
)
"""They say how a value came about, not what it is."""


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    paths = sorted(SOURCE.rglob("*.py"))
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def test_a_class_name_belongs_to_one_package() -> None:
    packages: defaultdict[str, set[str]] = defaultdict(set)
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                packages[node.name].add(path.partition("/")[0])
    assert {name: sorted(found) for name, found in packages.items() if len(found) > 1} == {}


def test_limits_are_called_max_and_min() -> None:
    limits = [
        f"{path}:{line} {name}"
        for path, tree in modules()
        for name, line in bound_names(tree)
        if re.search(r"_(MOST|LEAST)$", name)
    ]
    assert limits == []


def test_a_variable_is_called_what_it_holds() -> None:
    odd = [
        f"{path}:{line} {name}"
        for path, tree in modules()
        for name, line in bound_names(tree)
        if name in _PRIVATE_WORDS
    ]
    assert odd == []
