"""Applies resolutions to the merge of a type: the chosen states override the three-way rule.

The merged graph is checked against the rules afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import StaleResolution, UsageError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.merge.conflicts import Sides, digest_of
from omnigraph.merge.resolutions import Resolution
from omnigraph.merge.three_way import open_schema
from omnigraph.merge.type_merge import MergeCounts, TypeMerge
from omnigraph.records.rows import Row, edge_row, node_row
from omnigraph.tables.addresses import ROW_ADDRESS
from omnigraph.tables.table import Table
from omnigraph.values.types import Scalar


def type_of(resolution: Resolution, catalog: Catalog) -> EntityType:
    entity = catalog.tables.get(resolution.table_key)
    if entity is None:
        raise UsageError(f"the merged schema has no {resolution.entity_kind} type '{resolution.type_name}'")
    return entity


def state_after(
    resolution: Resolution, catalog: Catalog, sides: Sides, known: frozenset[str], *, has_base: bool
) -> Row | None:
    """The row of the entity after the merge; None if it is deleted. Raises StaleResolution if the resolution was made for other
    states than these; `known`: the digests of the entity's conflicts."""
    if resolution.seen not in known | {digest_of(sides)}:
        raise StaleResolution(resolution.type_name, resolution.entity_id)
    match resolution.take:
        case "ours":
            return _row(sides.ours)
        case "theirs":
            return _row(sides.theirs)
        case "base":
            if not has_base:
                raise UsageError(
                    f"{resolution} has no one state at the base: merges crossed, and disagree about its type",
                    hint="take ours, theirs, delete or a value",
                )
            return _row(sides.base)
        case "delete":
            return None
    entity = type_of(resolution, catalog)
    return _written(entity, catalog, resolution.entity_id, _blobs_kept(entity, sides) | dict(resolution.value or {}))


def _blobs_kept(entity: EntityType, sides: Sides) -> dict[str, Any]:
    """Who decides over HTTP sees the size of a Blob, not its bytes: a value that leaves it out keeps the target's, or the source's."""
    row = sides.ours or sides.theirs or sides.base or {}
    return {name: row.get(name) for name, property in entity.properties.items() if property.type.scalar is Scalar.BLOB}


def _row(row: Mapping[str, Any] | None) -> Row | None:
    return None if row is None else dict(row)


def _written(entity: EntityType, catalog: Catalog, id: str, value: Mapping[str, Any]) -> Row:
    """A row with the values of the resolution, under the entity's id."""
    data = {**value, "id": id}

    def no_id() -> str:
        raise AssertionError("the id is given")

    if isinstance(entity, NodeType):
        return node_row(entity, data, no_id)
    assert isinstance(entity, EdgeType), "an entity is a node or an edge"
    source, target = data.pop("from", None), data.pop("to", None)
    return edge_row(catalog, entity, source, target, data, no_id)


def put_over(merge: TypeMerge, states: Mapping[str, Row | None]) -> TypeMerge:
    """The merge with these entities in these states, overriding its own decisions."""
    ids = frozenset(states)
    current, incoming, reference = (_rows(side.table, ids) for side in (merge.current, merge.incoming, merge.reference))
    changed = {id: row for id, row in states.items() if row != current.get(id, (0, None))[1]}
    written = {id: row for id, row in changed.items() if row is not None}
    own = pc.is_in(merge.combined.column("id"), value_set=pa.array(sorted(ids), pa.utf8()))
    current_addresses, incoming_addresses = _places(current, ids), _places(incoming, ids)
    brought = incoming_addresses[merge.brought.contains(incoming_addresses)]
    return replace(
        merge,
        puts=merge.puts.without(incoming_addresses),
        combined=pa.concat_tables(
            [
                merge.combined.filter(pc.invert(own)),
                pa.Table.from_pylist(list(written.values()), open_schema(merge.entity)),
            ]
        ),
        combined_from=merge.combined_from.without(incoming_addresses).with_(
            np.intersect1d(brought, _places(incoming, written))
        ),
        removes=merge.removes.without(current_addresses).with_(_places(current, changed)),
        gone=merge.gone.without(current_addresses).with_(_places(current, changed.keys() - written.keys())),
        lost=merge.lost.without(_places(reference, written.keys() - current.keys())),
        counts=_counted(merge, ids, changed, current, incoming),
        conflicts=tuple(conflict for conflict in merge.conflicts if conflict.entity_id not in ids),
    )


Placed = Mapping[str, tuple[int, Row]]
"""By id: the address of a row, and the row."""


def _rows(table: Table | None, ids: frozenset[str]) -> Placed:
    if table is None:
        return {}
    rows = table.lookup("id", sorted(ids), with_address=True).to_pylist()
    return {row["id"]: (row.pop(ROW_ADDRESS), row) for row in rows}


def _places(rows: Placed, ids: Iterable[str]) -> np.ndarray[Any, Any]:
    """The addresses of the given entities that exist."""
    return np.array([rows[id][0] for id in ids if id in rows], np.uint64)


def _counted(
    merge: TypeMerge, ids: frozenset[str], changed: Mapping[str, Row | None], current: Placed, incoming: Placed
) -> MergeCounts:
    """The counts of changes on the target, with these entities counted by their decided states."""
    inserted, updated, deleted = merge.counts
    put = _places(incoming, ids - current.keys())
    addresses = _places(current, ids)
    vanished = int(merge.gone.contains(addresses).sum())
    inserted -= int(merge.puts.contains(put).sum())
    updated -= int(merge.removes.contains(addresses).sum()) - vanished
    deleted -= vanished
    for id, row in changed.items():
        inserted += id not in current
        updated += id in current and row is not None
        deleted += id in current and row is None
    return MergeCounts(inserted, updated, deleted)
