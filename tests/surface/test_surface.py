"""The public surface: which names there are, and that every type a caller can reach is one of them."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.graph import access

OWN = [value for name in og.__all__ if inspect.isclass(value := getattr(og, name))]
RETURNED = [value for name in og.types.__all__ if inspect.isclass(value := getattr(og.types, name))]
CLASSES = [*OWN, *RETURNED]
FOREIGN = {
    "DuckDBPyConnection",
    "pa.Table",
    "pandas.DataFrame",
    "polars.DataFrame",
    "DataFrame",
    "dt.datetime",
    "dt.date",
    "networkx.MultiDiGraph",
    "igraph.Graph",
    "plan.ResultColumn",
}
"""Types of the standard library and of other packages that results are given in."""
GENERIC = {"Any", "Callable", "Iterator", "Mapping", "Literal", "Sequence", "Iterable"}


def members(kind: type) -> Iterator[tuple[str, object]]:
    """The public members that the package itself defines, inherited ones included."""
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("omnigraph"):
            yield from ((name, value) for name, value in vars(base).items() if not name.startswith("_"))


def given_types(kind: type) -> Iterator[tuple[str, str, str]]:
    """What a caller gets from a class: the module that says it, the member, and the annotation as it is written."""
    for base in kind.__mro__:
        if base.__module__.startswith("omnigraph"):
            for name, annotation in vars(base).get("__annotations__", {}).items():
                if not name.startswith("_"):
                    yield base.__module__, f"{kind.__name__}.{name}", annotation
    for name, value in members(kind):
        function = value.fget if isinstance(value, property) else getattr(value, "func", value)
        function = getattr(function, "__func__", function)
        if inspect.isfunction(function):
            yield function.__module__, f"{kind.__name__}.{name}", function.__annotations__.get("return", "Any")


def names_in(annotation: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Name) and f"{node.id}." not in annotation:
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "Literal" not in annotation:
            yield from names_in(node.value)


def is_choice_of_words(module: str, name: str) -> bool:
    return typing.get_origin(getattr(importlib.import_module(module), name, None)) is typing.Literal


def test_the_names_are_these() -> None:
    functions = {
        "NO_VALUE",
        "__version__",
        "clone",
        "connect",
        "errors",
        "import_data",
        "infer_schema",
        "init",
        "lint",
        "lint_schema",
        "load_policy",
        "open",
        "spark",
        "types",
    }
    made = {"AccessRequest", "Authorizer", "Cancellation", "Decision", "Policy", "Resolution", "Runtime"}
    assert {kind.__name__ for kind in OWN} == made | {"Graph", "GraphSnapshot", "RemoteGraph", "Transaction"}
    assert {kind.__name__ for kind in OWN} | functions == set(og.__all__)
    assert len(og.__all__) <= 70
    aliases = {"Engine", "Entity", "EntityType", "JsonValue", "LiteralValue", "MigrationStep", "Value"}
    assert {kind.__name__ for kind in RETURNED} | aliases == set(og.types.__all__)
    assert not set(og.__all__) & set(og.types.__all__)
    for module in (og, og.types):
        assert dir(module) == sorted(module.__all__)
        assert len(module.__all__) == len(set(module.__all__))
    with pytest.raises(AttributeError, match="has no attribute 'Grahp'"):
        og.Grahp  # noqa: B018


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_type_that_a_caller_gets_is_exported(kind: type) -> None:
    for module, member, annotation in given_types(kind):
        for name in names_in(annotation):
            known = (
                name in {*og.__all__, *og.types.__all__, *vars(og.errors), *vars(builtins)} or name in FOREIGN | GENERIC
            )
            assert known or is_choice_of_words(module, name), f"{member} -> {annotation}: {name} is not exported"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_name_is_documented(kind: type) -> None:
    assert inspect.getdoc(kind)
    enumerations = set(getattr(kind, "__members__", {}))
    fields = set(getattr(kind, "__dataclass_fields__", {}))
    for name, value in members(kind):
        if name not in enumerations | fields:
            assert inspect.getdoc(value), f"{kind.__name__}.{name}"


def test_the_parts_of_a_graph() -> None:
    def names(kind: type) -> list[str]:
        return sorted(name for name, _ in members(kind))

    reading = [
        "algorithms",
        "blob",
        "entity",
        "explain",
        "export",
        "export_stream",
        "indexes",
        "query",
        "snapshot",
        "spark",
    ]
    reading += ["sql", "duckdb", "picture"]
    writing = ["embed", "explain_load", "load", "mutate", "stream_into"]
    writing += ["transaction"]
    history = ["baseline", "changes", "head", "show", "commit_changes", "commits", "diff", "history", "pull", "push"]
    history += ["baseline_stream", "wait_for_change", "blame", "diff_stat", "distance", "revert", "reset"]
    parts = ["branches", "maintenance", "recovery", "schema", "tags"]
    assert names(og.Graph) == sorted([*reading, *writing, *history, *parts, "lint", "as_", "close", "id", "uri"])
    assert names(og.types.GraphSchema) == ["apply", "broken_queries", "catalog", "diff", "plan"]
    health = ["cleanup", "ensure_indexes", "optimize", "repair", "storage", "verify"]
    assert names(og.types.GraphMaintenance) == health
    assert names(og.types.GraphBranches) == ["create", "delete", "distances", "exists", "list", "merge"]
    assert names(og.types.GraphTags) == ["create", "delete", "list"]
    assert names(og.types.GraphRecovery) == ["discard", "list", "resume"]
    statements = ["delete", "get", "insert", "insert_many", "mutate", "query", "update", "upsert"]
    assert names(og.Transaction) == sorted([*statements, "branch", "commit", "receipt", "rollback"])


def test_every_method_checks_its_arguments_and_names_damage() -> None:
    parts = (og.types.GraphSchema, og.types.GraphMaintenance, og.types.GraphBranches, og.types.GraphTags)
    for kind in (og.Graph, *parts, og.types.GraphRecovery, og.Transaction):
        for name, value in members(kind):
            if inspect.isfunction(value):
                assert value.__code__.co_filename == access.__file__, f"{kind.__name__}.{name}"


def test_a_state_is_named_in_one_way() -> None:
    """Reads take `revision` and `as_of`, writes take `branch`; nothing else names a state."""
    for kind in (
        og.Graph,
        og.types.GraphBranches,
        og.types.GraphTags,
        og.types.GraphSchema,
        og.types.GraphMaintenance,
        og.RemoteGraph,
        og.types.RemoteSchema,
        og.types.RemoteMaintenance,
        og.types.RemoteBranches,
        og.types.RemoteTags,
    ):
        for name, value in members(kind):
            if inspect.isfunction(value):
                parameters = set(inspect.signature(value).parameters)
                assert not parameters & {"snapshot", "at", "rev", "ref", "spark", "master"}, name
                assert ("as_of" in parameters) == ("revision" in parameters), name
                assert not {"branch", "revision"} <= parameters, name


def test_the_version_is_that_of_the_package() -> None:
    assert og.__version__ == importlib.metadata.version("omnigraph")


def test_importing_the_package_loads_no_engine() -> None:
    heavy = ("duckdb", "pyarrow", "lance", "pyspark", "pandas", "numpy", "sqlglot", "obstore", "rich")
    program = f"import sys, omnigraph; print([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["omnigraph", "omnigraph.types"])
def test_names_that_are_loaded_later_are_not_those_of_modules(package: str) -> None:
    """A module of the same name would stand in the place of the name as soon as it is loaded."""
    module = importlib.import_module(package)
    for name in module.__all__:
        getattr(module, name)
        assert not inspect.ismodule(getattr(module, name)) or name in ("errors", "spark", "types"), name


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if not getattr(kind, "_is_protocol", False)])
def test_every_public_value_says_what_it_is(kind: type) -> None:
    assert kind.__repr__ is not object.__repr__


@pytest.mark.parametrize("kind", CLASSES)
def test_no_public_method_returns_any(kind: type) -> None:
    for name, value in members(kind):
        function = value.fget if isinstance(value, property) else value
        if inspect.isfunction(function):
            assert "Any" not in str(inspect.signature(function).return_annotation), name
