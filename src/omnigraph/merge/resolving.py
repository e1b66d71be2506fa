"""Resolutions put over the merge of a type: the states that somebody chose, whatever the three-way rule says.

The merged whole is checked afterwards, like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import StaleResolution, UsageError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.merge.conflicts import Sides, digest_of
from omnigraph.merge.resolutions import Resolution
from omnigraph.merge.three_way import open_schema
from omnigraph.merge.type_merge import MergeCounts, TypeMerge
from omnigraph.records.rows import Row, edge_row, node_row
from omnigraph.tables import Table
from omnigraph.tables.fragment import ROW_ADDRESS

if TYPE_CHECKING:
    import numpy as np


def type_of(resolution: Resolution, catalog: Catalog) -> EntityType:
    entity = catalog.tables.get(resolution.table_key)
    if entity is None:
        raise UsageError(f"the merged schema has no {resolution.entity_kind} type '{resolution.type_name}'")
    return entity


def state_after(
    resolution: Resolution, catalog: Catalog, sides: Sides, known: frozenset[str], *, has_base: bool
) -> Row | None:
    """The row that the entity has after the merge; None: it is not there. StaleResolution when it was decided about other
    images than these; `known` are digests of its conflicts."""
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
    return _written(type_of(resolution, catalog), catalog, resolution.entity_id, resolution.value or {})


def _row(row: Mapping[str, Any] | None) -> Row | None:
    return None if row is None else dict(row)


def _written(entity: EntityType, catalog: Catalog, id: str, value: Mapping[str, Any]) -> Row:
    """A row of values that somebody gave, under the id of the entity."""
    data = {**value, "id": id}

    def no_id() -> str:
        raise AssertionError("the id is given")

    if isinstance(entity, NodeType):
        return node_row(entity, data, no_id)
    assert isinstance(entity, EdgeType), "an entity is a node or an edge"
    source, target = data.pop("from", None), data.pop("to", None)
    return edge_row(catalog, entity, source, target, data, no_id)


def put_over(merge: TypeMerge, states: Mapping[str, Row | None]) -> TypeMerge:
    """The merge with these entities in these states, whatever it did with them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = frozenset(states)
    current, incoming = (_rows(side.table, ids) for side in (merge.current, merge.incoming))
    changed = {id: row for id, row in states.items() if row != current.get(id, (0, None))[1]}
    written = [row for row in changed.values() if row is not None]
    own = pc.is_in(merge.combined.column("id"), value_set=pa.array(sorted(ids), pa.utf8()))
    superseded = [current[id][0] for id in changed if id in current]
    return replace(
        merge,
        puts=_without(merge.puts, incoming),
        combined=pa.concat_tables(
            [merge.combined.filter(pc.invert(own)), pa.Table.from_pylist(written, open_schema(merge.entity))]
        ),
        removes=np.concatenate([_without(merge.removes, current), np.asarray(superseded, np.uint64)]),
        gone=(merge.gone - ids) | {id for id, row in changed.items() if row is None},
        replaced=(merge.replaced - ids) | {id for id, row in changed.items() if row is not None and id in current},
        restored=(merge.restored - ids) | {id for id, row in changed.items() if row is not None and id not in current},
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


def _without(addresses: np.ndarray[Any, Any], rows: Placed) -> np.ndarray[Any, Any]:
    import numpy as np

    return addresses[~np.isin(addresses, np.asarray([address for address, _ in rows.values()], np.uint64))]


def _counted(
    merge: TypeMerge, ids: frozenset[str], changed: Mapping[str, Row | None], current: Placed, incoming: Placed
) -> MergeCounts:
    """What the target gets, with these entities counted by what becomes of them."""
    puts = frozenset(merge.puts.tolist())
    inserted, updated, deleted = merge.counts
    for id in ids:
        inserted -= id not in current and id in incoming and incoming[id][0] in puts
        updated -= id in merge.replaced
        deleted -= id in merge.gone
    for id, row in changed.items():
        inserted += id not in current
        updated += id in current and row is not None
        deleted += id in current and row is None
    return MergeCounts(inserted, updated, deleted)
