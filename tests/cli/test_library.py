"""The library's surface: what is public, and nothing else. A change here is a change for every user."""

from __future__ import annotations

import inspect

import omnigraph as og
from omnigraph.graph import GraphBranches, GraphRecovery, GraphTags
from omnigraph.read import Result


def public(kind: type) -> list[str]:
    own = {name for cls in kind.__mro__[:-1] for name in (*vars(cls), *vars(cls).get("__annotations__", {}))}
    return sorted(name for name in own if not name.startswith("_"))


def test_exported_names() -> None:
    assert og.__all__ == ["Graph", "Receipt", "Transaction", "errors", "init", "open"]
    assert all(getattr(og, name) is not None for name in og.__all__)
    assert set(og.__all__) <= set(dir(og))


def test_graph() -> None:
    assert public(og.Graph) == [
        "baseline",
        "begin",
        "branches",
        "changes",
        "commit",
        "commit_changes",
        "commits",
        "diff",
        "ensure_indexes",
        "entity",
        "explain",
        "export",
        "history",
        "id",
        "load",
        "mutate",
        "optimize",
        "query",
        "recovery",
        "schema",
        "snapshot",
        "spark",
        "tags",
        "transaction",
        "uri",
    ]


def test_parts_of_a_graph() -> None:
    assert public(GraphBranches) == ["create", "delete", "exists", "list", "merge"]
    assert public(GraphTags) == ["create", "delete", "list"]
    assert public(GraphRecovery) == ["discard", "list", "resume"]


def test_transaction() -> None:
    statements = ["delete", "get", "insert", "insert_many", "mutate", "query", "update", "upsert"]
    assert public(og.Transaction) == sorted([*statements, "branch", "commit", "receipt", "rollback"])


def test_receipt_and_result() -> None:
    assert public(og.Receipt) == ["actor", "affected_edges", "affected_nodes", "branch", "commit", "to_json", "types"]
    assert public(Result) == [
        "columns",
        "commit",
        "num_rows",
        "query_name",
        "rows",
        "table",
        "timing",
        "to_arrow",
        "to_json",
        "to_pandas",
        "to_polars",
    ]


def test_signatures_of_the_front_door() -> None:
    def names(function: object) -> list[str]:
        return [name for name in inspect.signature(function).parameters if name != "self"]  # type: ignore[arg-type]

    assert names(og.init) == ["uri", "schema", "actor", "storage_options", "durability"]
    assert names(og.open) == ["uri", "storage_options", "durability"]
    assert names(og.Graph.query) == ["gq", "params", "name", "revision", "as_of", "engine"]
    assert names(og.Graph.mutate) == ["gq", "params", "name", "branch", "actor", "message", "if_commit"]
    assert names(og.Graph.transaction) == ["branch", "actor", "message", "if_commit"]
    assert names(og.Graph.load)[:4] == ["sources", "mode", "branch", "from_"]


def test_every_public_name_of_the_graph_is_documented() -> None:
    undocumented = [
        f"{kind.__name__}.{name}"
        for kind in (og.Graph, GraphBranches, GraphTags, GraphRecovery)
        for name in public(kind)
        if not inspect.getdoc(getattr(kind, name))
    ]
    assert undocumented == []
