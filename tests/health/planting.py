"""Faults that no write makes: rows staged and published without any check, and indexes that claim more than they have."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import Commit, TableState
from omnigraph.tables.digests import version_digest
from omnigraph.tables.indexes import IndexSpec, SegmentPlan, build_segment
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table
from omnigraph.write.publishing import publish


def put_rows(graph: og.Graph, key: str, rows: Sequence[dict[str, Any]], branch: str = "main") -> Commit:
    """Rows, whatever they are."""
    view = graph._repository.head(branch)[1]
    table = view.table_or_new(key)
    schema = view.schema(key)
    whole = [{name: row.get(name) for name in schema.names} for row in rows]
    loose = pa.schema([field.with_nullable(True) for field in schema])
    return put_version(
        graph, key, graph._repository.tables.stage(table, rows=pa.Table.from_pylist(whole, loose)), branch
    )


def remove_rows(graph: og.Graph, key: str, ids: Sequence[str], branch: str = "main") -> Commit:
    table = graph._repository.head(branch)[1].table(key)
    assert table is not None
    addresses = table.lookup("id", list(ids), ["id"], with_address=True).column("_rowaddr").to_pylist()
    return put_version(graph, key, graph._repository.tables.stage(table, remove=addresses), branch)


def put_version(graph: og.Graph, key: str, staged: Staged, branch: str = "main") -> Commit:
    entry, view = graph._repository.head(branch)
    before = view.state(key)
    generation = before.generation + 1 if before else 1
    after = TableState(staged.path, staged.version, generation, staged.rows, staged.digest)
    plan = PublishPlan(
        graph._repository.history.new_id(),
        branch,
        entry.incarnation,
        view.snapshot.commit.ref,
        view.snapshot.schema,
        (TableChange(key, "strict", before, after),),
    )
    return publish(graph._repository.history, plan)


def put_stale_index(graph: og.Graph, key: str, spec: IndexSpec, branch: str = "main") -> Commit:
    """An index over the first fragment that says it covers all of them."""
    from lance import LanceDataset, LanceOperation

    table = graph._repository.head(branch)[1].table(key)
    assert table is not None
    assert len(table.fragments) > 1
    fragments = tuple(fragment.id for fragment in table.fragments)
    own = graph._repository.tables._opened(table.path, table.version)
    built = build_segment(own, SegmentPlan(spec, fragments[:1]))
    claimed = dataclasses.replace(built, name=spec.name, fragment_ids=set(fragments))
    old = [
        dataclasses.replace(claimed, uuid=str(segment.uuid), fragment_ids=set(segment.fragment_ids))
        for entry in table.dataset.describe_indices()
        if entry.name == spec.name
        for segment in entry.segments
    ]
    committed = LanceDataset.commit(
        table.dataset, LanceOperation.CreateIndex([claimed], old), read_version=table.version, detached=True
    )
    staged = Table(table.path, committed)
    digest = version_digest(committed)
    return put_version(graph, key, Staged(table.path, staged.version, table.rows, 0, 0, (), (), digest), branch)
