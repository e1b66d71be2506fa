"""Damage in an object store: what is missing or has another size is found without reading it."""

from __future__ import annotations

import pytest
from s3_server import S3Server

import omnigraph as og
from omnigraph.write.inlining import ENVIRONMENT

pytestmark = pytest.mark.s3

SCHEMA = "node Person { name: String @key  bio: String? @index }"
PEOPLE = 40


@pytest.fixture(scope="module")
def graph(s3: S3Server) -> og.Graph:
    graph = og.init(f"s3://{s3.new_bucket()}/graph", SCHEMA, storage_options=s3.options)
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}", "bio": f"word{number}"} for number in range(PEOPLE)])
    graph.maintenance.optimize()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(ENVIRONMENT, "0")
        with graph.transaction() as tx:
            tx.delete("Person", "p7")
    return graph


def needed(graph: og.Graph, kind: str) -> str:
    """A file of this kind that the head of main needs."""
    repository = graph._repository
    files = repository.files_of(repository.head()[1].snapshot.tables["node:Person"])
    match kind:
        case "manifest":
            return files.manifest
        case "data":
            return next(iter(files.data))
        case "deletions":
            return next(iter(files.deletions))
    return repository.store.list(next(iter(files.indexes)))[0].key


@pytest.mark.parametrize(
    ("kind", "harm", "found"),
    [
        ("manifest", "deleted", "missing"),
        ("manifest", "cut short", "content"),
        ("data", "deleted", "missing"),
        ("data", "cut short", "size"),
        ("deletions", "deleted", "missing"),
        ("index", "deleted", "size"),
        ("index", "cut short", "size"),
    ],
)
def test_damage_in_an_object_store_is_found(graph: og.Graph, s3: S3Server, kind: str, harm: str, found: str) -> None:
    store, key = graph._repository.store, needed(graph, kind)
    whole = store.get(key)
    if harm == "deleted":
        store.delete(key)
    else:
        store.put(key, whole[:-9])
    try:
        opened = og.open(graph.uri, storage_options=s3.options)
        (finding,) = opened.maintenance.verify(all=True).findings
        assert (finding.kind, finding.object_kind) == (found, kind)
        assert key.startswith(finding.object)
        assert finding.commits[0] == graph.head().id
    finally:
        store.put(key, whole)
    assert og.open(graph.uri, storage_options=s3.options).maintenance.verify(all=True, deep=True).findings == ()


def test_a_branch_in_an_object_store_goes_on_without_what_is_lost(graph: og.Graph, s3: S3Server) -> None:
    store, key = graph._repository.store, needed(graph, "data")
    whole = store.get(key)
    store.delete(key)
    opened = og.open(graph.uri, storage_options=s3.options)
    report = opened.maintenance.repair(lost="drop", dry_run=False)
    assert [step.kind for step in report.steps] == ["drop_rows"]
    assert opened.snapshot().types[0].entities == 0
    assert opened.maintenance.verify("main~0", deep=True).is_whole
    store.put(key, whole)
    assert opened.snapshot("main~1").types[0].entities == PEOPLE - 1
