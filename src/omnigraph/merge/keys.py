"""Edges of snapshots from before their type got its key: for a merge they have the ids that follow from it.

So the same edge has the same id in the base and on both branches, and is merged like any other row. A snapshot that lacks the
key is written again under the merged schema; that happens once, in the first merge across the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnigraph.history import TableState
from omnigraph.language.catalog import EdgeType
from omnigraph.language.schema.merging import SchemaConflict
from omnigraph.merge.bases import Bases
from omnigraph.merge.checks import rounded_properties
from omnigraph.merge.schemas import MergedSchema
from omnigraph.tables import Staged
from omnigraph.views import View
from omnigraph.write.rekeying import RekeyedTable, rekey, rekeyed_edges

MAX_SHOWN = 5
"""Edges that a conflict names."""


class MergedKeys:
    """The snapshots of one merge, with the ids of the merged schema."""

    def __init__(self, schema: MergedSchema, bases: Bases) -> None:
        self._schema = schema
        self._bases = bases
        self._tables: dict[tuple[int, object], RekeyedTable | None] = {}
        """By type and stored rows: branches that have not changed a type share it."""

    @property
    def staged(self) -> list[Staged]:
        """The versions that were written."""
        return [table.staged for table in self._tables.values() if table is not None]

    def view(self, before: View, after: View) -> View:
        """A snapshot under the merged schema (`after`), with the ids of keys that its own schema (`before`) does not have."""
        tables: dict[str, TableState] = {}
        for edge in rekeyed_edges(before.catalog, after.catalog):
            table = self._rekeyed(after, edge)
            if table is not None:
                tables[edge.table_key] = table.state
        if not tables:
            return after
        return after.repository.view(replace(after.snapshot, tables={**after.snapshot.tables, **tables}))

    def _rekeyed(self, view: View, edge: EdgeType) -> RekeyedTable | None:
        state = view.state(edge.table_key)
        place = edge.id, state and state.content
        if place not in self._tables:
            self._tables[place] = rekey(view, edge)
        return self._tables[place]

    def conflicts(self, heads: Mapping[str, View]) -> tuple[SchemaConflict, ...]:
        """Why the edges of a branch, by its name, cannot get the ids of the merged schema."""
        conflicts = [conflict for name, view in heads.items() for conflict in self._conflicts(name, view)]
        for edge in self._schema.catalog.edges.values():
            is_new = any(edge in rekeyed_edges(view.catalog, self._schema.catalog) for view in self._bases.views)
            if is_new and not self._bases.agree_on(edge.id):
                message = (
                    f"merges of the branches crossed before {edge.name} got its key: remove the key, merge, "
                    "and declare it again"
                )
                conflicts.append(SchemaConflict("divergent_change", edge.table_key, message))
        return tuple(conflicts)

    def _conflicts(self, name: str, view: View) -> Iterator[SchemaConflict]:
        for edge in rekeyed_edges(view.catalog, self._schema.catalog):
            before = view.catalog.by_id[edge.id]
            state = view.state(before.table_key)
            table = self._tables.get((edge.id, state and state.content))
            if table is not None and table.duplicates:
                shown = ", ".join(f"'{id}'" for id in table.duplicates[:MAX_SHOWN])
                message = (
                    f"'{name}' has edges of {edge.name} with the same key, which the other branch declared: {shown}"
                )
                yield SchemaConflict("divergent_change", edge.table_key, message)
            if any(rounded_properties(before, edge)):
                message = f"the other branch gave {edge.name} a key and a wider number; '{name}' has neither"
                yield SchemaConflict("divergent_change", edge.table_key, message)
