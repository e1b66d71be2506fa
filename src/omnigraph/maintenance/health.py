"""The shape of a table: how its rows are stored, and what its indexes cover."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.language.catalog import EntityType
from omnigraph.maintenance.indexes import index_specs, why_pending
from omnigraph.tables import Table
from omnigraph.tables.indexes import coverage
from omnigraph.tables.staging import deleted_rows


@dataclass(frozen=True)
class PendingIndex:
    """An index that does not cover every row yet, and why; reads scan the other rows.

    >>> for table in g.optimize(dry_run=True).tables:
    ...     for index in table.before.pending:
    ...         print(table.table_key, index.column, index.rows, index.reason)
    """

    column: str
    kind: str
    rows: int
    reason: str


@dataclass(frozen=True)
class TableShape:
    """How the rows of a type are stored.

    >>> shapes = {table.table_key: table.before for table in g.optimize(dry_run=True).tables}
    >>> assert shapes["node:Person"].fragments >= 1
    """

    rows: int
    fragments: int
    deleted_rows: int
    """Rows that are still in files but deleted."""
    bytes: int
    indexes: int
    pending: tuple[PendingIndex, ...]


def shape_of(entity: EntityType, table: Table) -> TableShape:
    states = coverage(table, index_specs(entity)).values()
    pending = [
        PendingIndex(
            state.spec.column,
            state.spec.kind,
            state.pending_rows,
            why_pending(table, state),
        )
        for state in states
        if state.pending_rows
    ]
    return TableShape(
        rows=table.rows,
        fragments=len(table.fragments),
        deleted_rows=deleted_rows(table),
        bytes=sum(fragment.bytes for fragment in table.fragments),
        indexes=len(states),
        pending=tuple(pending),
    )
