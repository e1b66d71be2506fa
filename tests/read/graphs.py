"""Small graphs for tests: a schema and records in the batch format, committed without the write room."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from omnigraph.history.chain import MAIN
from omnigraph.history.history import new_ulid
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import Entry, TableState
from omnigraph.indexing import adjacency
from omnigraph.indexing.adjacency import refresh_adjacency
from omnigraph.language.catalog import EntityType, derived_id
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.maintenance.optimize import maintain
from omnigraph.read.execution import run_read
from omnigraph.read.executor import matching
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.read.result import Result
from omnigraph.read.strategies.strategy import Mode
from omnigraph.snapshot import Repository, View
from omnigraph.tables.addresses import fragment_of_address
from omnigraph.tables.adjacency import index
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.inline import inline_change
from omnigraph.values.json_values import parse_date, parse_datetime
from omnigraph.values.types import PropertyType, Scalar
from omnigraph.write.publishing import publish

Record = Mapping[str, Any]
MAX_IN_COMMITS = 120


def parse_records(lines: Iterable[str]) -> list[Record]:
    return [json.loads(line) for line in lines if line.strip()]


def new_graph(uri: str, schema: str, storage_options: Mapping[str, str] | None = None) -> Repository:
    return Repository.create(uri, compile_schema(schema), storage_options=storage_options, durability="process")


def commit(
    repository: Repository,
    records: Iterable[Record],
    branch: str = MAIN,
    remove: Mapping[str, list[str]] | None = None,
    first_number: int = 0,
) -> View:
    """One commit that appends these records and removes entities by id ({table key: ids}). Of a table that is there already, rows
    stand in the commit, up to MAX_IN_COMMITS of them."""
    entry, view = repository.head(branch)
    rows = rows_of(view, records, first_number)
    gone = remove or {}
    changes, staged_all = [], []
    for key in sorted({*rows, *gone}):
        base = view.table_or_new(key)
        addresses = base.lookup("id", gone.get(key, []), ["id"], with_address=True)["_rowaddr"].to_pylist()
        old = view.state(key)
        if old is not None and old.inline.row_count + count(rows.get(key)) + len(addresses) <= MAX_IN_COMMITS:
            changes.append(
                TableChange(key, "strict", old, changed(view, key, rows.get(key), gone.get(key, []), addresses))
            )
            continue
        staged = repository.tables.stage(base, rows=rows.get(key), remove=addresses)
        staged_all.append(staged)
        state = TableState(staged.path, staged.version, (old.generation if old else 0) + 1, staged.rows)
        changes.append(TableChange(key, "strict", old, state))
    repository.tables.sync(staged_all)
    return published(repository, entry, changes)


def published(repository: Repository, entry: Entry, changes: Sequence[TableChange]) -> View:
    publish(
        repository.history,
        PublishPlan(
            commit_id=new_ulid(), branch=entry.branch, incarnation=entry.incarnation, base=entry.head.commit.ref,
            schema=entry.head.schema, changes=tuple(changes),
        )
    )  # fmt: skip
    return repository.head(entry.branch)[1]


def replace_some(repository: Repository) -> View:
    """One commit that replaces the first stored row of each table by an equal one, which stands in the commit."""
    entry, view = repository.head(MAIN)
    changes = []
    for key, state in view.snapshot.tables.items():
        table = view.table(key)
        assert table is not None
        rows = table.stored.read(with_address=True).slice(0, 1)
        own, address = rows.drop_columns(["_rowaddr"]), rows.column("_rowaddr").to_pylist()
        if rows.num_rows and not table.inline:
            changes.append(TableChange(key, "strict", state, changed(view, key, own, [], address)))
    return published(repository, entry, changes)


def count(rows: pa.Table | None) -> int:
    return 0 if rows is None else rows.num_rows


def changed(
    view: View, key: str, rows: pa.Table | None, removed: Sequence[str], addresses: Sequence[int]
) -> TableState:
    """The state of a table with one more change that stands in a commit."""
    old = view.snapshot.tables[key]
    masked = [address for address in addresses if fragment_of_address(address) != INLINE_FRAGMENT]
    own = view.schema(key).empty_table() if rows is None else rows
    change = inline_change(view.layout(key), own.to_pylist(), removed, masked)
    return replace(
        old,
        generation=old.generation + 1,
        rows=old.rows + own.num_rows - len(addresses),
        inline=old.inline.with_change(change),
    )


def store_adjacency(repository: Repository, part_edges: int = adjacency.PART_EDGES) -> Repository:
    """The same graph with its ids and edges stored beside the tables, opened anew, and with all of them held in memory: commits
    from here on adjust what is held. Tables have to count as large (`every_table_is_large`). `part_edges`: edges per file."""
    with patch.object(adjacency, "PART_EDGES", part_edges):
        refresh_adjacency(repository, repository.head()[1], min_rows=1)
    opened = Repository.open(repository.store.uri, durability="process")
    view = opened.head()[1]
    compact = GraphArrays(view)
    for name in view.catalog.nodes:
        compact.nodes(name)
    for name in view.catalog.edges:
        for direction in ("out", "in"):
            compact.neighbours(name, direction)  # type: ignore[arg-type]  # the names are directions
    return opened


def every_table_is_large() -> AbstractContextManager[object]:
    """Stored adjacency is used for tables of any size."""
    return patch.object(index, "MIN_ROWS", 0)


def every_expansion_is_long() -> AbstractContextManager[object]:
    """The executor plans each expansion ahead and follows it in pieces."""
    return patch.multiple(matching, PIECE_EDGES=12, PLANNED_EDGES=0)


def build_indexes(view: View, branch: str = MAIN) -> View:
    """Build and publish every index the schema asks for."""
    maintain(view.repository, branch, rewrite=False)
    return view.repository.head(branch)[1]


def rows_of(view: View, records: Iterable[Record], first_number: int = 0) -> dict[str, pa.Table]:
    found: dict[str, list[dict[str, Any]]] = {}
    for number, record in enumerate(records, start=first_number):
        if "type" in record:
            entity: EntityType = view.catalog.nodes[record["type"]]
            values = _values(entity, record.get("data", {}))
            row = {"id": derived_id(entity, values) if entity.key else record.get("id", f"~{number}"), **values}
        else:
            entity = view.catalog.edges[record["edge"]]
            row = {"id": record.get("id", f"e{number:04}"), "src": record["from"], "dst": record["to"]}
            row |= _values(entity, record.get("data", {}))
        found.setdefault(entity.table_key, []).append(row)
    return {key: pa.Table.from_pylist(rows, view.schema(key)) for key, rows in found.items()}


def _values(entity: EntityType, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(data.get(name), one.type) for name, one in entity.properties.items()}


def _value(value: Any, type: PropertyType) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_value(item, PropertyType(type.scalar)) for item in value]
    if type.scalar is Scalar.DATE:
        return parse_date(value)
    if type.scalar is Scalar.DATETIME:
        return parse_datetime(value).replace(tzinfo=None)
    if type.scalar is Scalar.BLOB:
        return str(value).encode()
    return int(value) if type.scalar.is_integer else value


def query(
    view: View,
    text: str,
    params: Mapping[str, Any] | None = None,
    *,
    mode: Mode = "auto",
    name: str | None = None,
    now: dt.datetime | None = None,
) -> Result:
    plan = compile_query(text, view.catalog, name)
    assert isinstance(plan, ReadPlan)
    return run_read(view, plan, bind_parameters(plan.parameters, params or {}), mode=mode, now=now)
