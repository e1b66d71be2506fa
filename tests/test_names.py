"""Names that a reader can search for: one class per name across packages, and no private words."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import omnigraph as og

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


REPLACED = {
    "names_damage": "public_api",
    "Ask": "AccessRequest",
    "Asks": "permissions",
    "Gate": "Authorizer",
    "Remembered": "LruCache",
    "names_of": "lazy_attributes",
    "Desk": "ToolServer",
    "Compact": "GraphArrays",
    "nodes_at_hand": "nodes_if_cached",
    "Carrying": "SchemaRebase",
    "AS_FOUND_GOOD": "DEFAULT_SETTINGS",
    "Filling": "Embeddings",
    "Incoming": "StagedRows",
    "Assembly": "LoadStaging",
    "say_prepared": "add_recovery_hint",
    "arranged": "sort_for_storage",
    "workers_of": "make_runner",
    "runner_of": "make_runner",
    "session_of": "spark_session",
    "routes_ours": "routes_extensions",
    "components_ours": "components_extensions",
    "upkeep": "maintenance",
    "hold_catalog": "cache_catalog",
    "keeps_nothing": "commits_empty",
    "has_turn": "acquired",
    "trying": "simulate",
    "approving": "approval",
    "observing": "drift",
    "undoing": "revert",
    "locating": "locate",
    "picking": "select",
    "gathering": "collect",
    "starting": "startup",
    "show_progress": "progress",
    "apply_schema": "schema.apply",
}
"""Words that were replaced, and what by: of modules, classes, functions, parameters and variables, and of members of the library."""
INTERNAL = {"apply_schema", "show_progress"}
"""Words that only members of the library may not have."""


def test_one_word_for_one_concept() -> None:
    used = [
        f"{path}: {name} is {REPLACED[name]}"
        for path, tree in modules()
        for name in {Path(path).stem, *(name for name, _ in bound_names(tree))} & (REPLACED.keys() - INTERNAL)
    ]
    assert used == []
    members = {member for module in (og, og.types) for kind in module.__all__ for member in dir(getattr(module, kind))}
    assert sorted(members & REPLACED.keys()) == []
