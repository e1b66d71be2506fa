"""Brings back the values of properties that a side of a merge dropped and the merged schema declares.

Dropping a property changes no row, so its values are those of the state that still declares it. Most rows still have them, in
columns that are read again under the merged schema; rows that were rewritten since the drop are given theirs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnigraph.history import TableState
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.tables import Staged, Table
from omnigraph.tables.lost_values import rows_with, without_addresses
from omnigraph.values.inline_rows import NO_INLINE
from omnigraph.views import View


@dataclass(frozen=True)
class SideView:
    """A state under the merged schema, and the schema that it had."""

    view: View
    catalog: Catalog


def with_dropped_values(side: SideView, others: Sequence[SideView]) -> View:
    """The state with the values that its rows had before their properties were dropped, taken from the first of the other states
    that declares them. What is rewritten for this is staged and durable."""
    view, tables, staged = side.view, dict(side.view.snapshot.tables), list[Staged]()
    for key, entity in view.catalog.tables.items():
        for donor, names in _donors(side, others, entity):
            table, values = view.table(key), donor.table(key)
            version = None if table is None or values is None else _restored(view, table, values, names)
            if version is not None:
                state = tables[key]
                tables[key] = TableState(
                    version.path, version.version, state.generation, version.rows, version.digest, NO_INLINE
                )
                staged.append(version)
                view = view.repository.view(replace(view.snapshot, tables=tables))
    view.repository.tables.sync(staged)
    return view


def _donors(side: SideView, others: Sequence[SideView], entity: EntityType) -> list[tuple[View, list[str]]]:
    """The states that still declare properties of a type that the side dropped, with the names of these properties."""
    own = side.catalog.by_id.get(entity.id)
    if own is None:
        return []
    ids = {property.id for property in own.properties.values()}
    missing = {name: property.id for name, property in entity.properties.items() if property.id not in ids}
    # Any other property is one that the side never had.
    dropped = {name: id for name, id in missing.items() if id in side.catalog.retired or id < side.catalog.next_id}
    donors = []
    for other in others:
        declared = other.catalog.by_id.get(entity.id)
        known = set() if declared is None else {property.id for property in declared.properties.values()}
        if names := [name for name, id in dropped.items() if id in known]:
            donors.append((other.view, names))
            dropped = {name: id for name, id in dropped.items() if name not in names}
    return donors


def _restored(view: View, table: Table, donor: Table, names: Sequence[str]) -> Staged | None:
    """A version in which the rows without columns for these properties have the values of the donor's rows; None if all rows
    have columns, or none of the others had a value."""
    assert table.layout is not None, "the table of a type has a layout"
    columns = [{stored for stored, _ in table.layout.by_name[name].stored} for name in names]
    rewritten = [
        fragment.id
        for fragment in table.fragments
        if any(stored.isdisjoint(table.held_columns[fragment.id]) for stored in columns)
    ]
    if not rewritten:
        return None
    rows = rows_with(table, donor.read(["id", *names]), rewritten)
    if not rows.num_rows:
        return None
    restored, addresses = without_addresses(rows)
    return view.repository.tables.stage(table, rows=restored, remove=addresses, fold=False)
