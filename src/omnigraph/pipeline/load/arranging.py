"""In which order the rows of a fragment are written: the edges of a node side by side, and ids that the load made ascending.

Made ids say nothing about their rows, so they are handed out again after the rows were sorted: an ascending column takes less
than half the room, and an id is found in it without an index of every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.language.arrow import arrow_schema
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.records.typed import TypedRows
from omnigraph.tables.ascending import stable_order

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

EDGES_PER_SOURCE = 3
"""Fewer on average, and it is not worth while to lay the edges of a node side by side."""


@dataclass(frozen=True)
class ArrangedRows:
    """Rows as they are written, and where each of them came from."""

    rows: pa.Table
    explicit_ids: int
    _held: Sequence[tuple[int, TypedRows]]
    _order: np.ndarray | None

    def origins(self, places: np.ndarray) -> list[tuple[int, int]]:
        """The split and the line that the rows at these places came from."""
        import numpy as np

        came = places if self._order is None else self._order[places]
        ends = np.cumsum([typed.rows.num_rows for _, typed in self._held])
        owners = np.searchsorted(ends, came, "right")
        firsts = ends - [typed.rows.num_rows for _, typed in self._held]
        return [
            (self._held[owner][0], self._held[owner][1].lines[int(place - firsts[owner])].as_py())
            for owner, place in zip(owners.tolist(), came.tolist(), strict=True)
        ]


def arranged(entity: EntityType, held: Sequence[tuple[int, TypedRows]]) -> ArrangedRows:
    """The same whenever the same rows are read again."""
    import pyarrow as pa

    explicit_ids = sum(typed.explicit_ids for _, typed in held)
    if not explicit_ids:
        held = sorted(held, key=lambda each: str(each[1].rows.column("id")[0]))
    schema = arrow_schema(entity)
    joined = pa.concat_tables([typed.rows for _, typed in held])
    rows = pa.Table.from_arrays([joined.column(name) for name in schema.names], schema=schema)
    order = _by_ends(rows) if isinstance(entity, EdgeType) else None
    if order is not None:
        ids = None if explicit_ids else _ascending(rows.column("id"))
        rows = rows.take(pa.array(order)) if ids is None else _taken(rows, order, ids)
    return ArrangedRows(rows, explicit_ids, held, order)


def _taken(rows: pa.Table, order: np.ndarray, ids: pa.ChunkedArray) -> pa.Table:
    """Rows in an order, with other ids."""
    import pyarrow as pa

    others = rows.drop_columns(["id"]).take(pa.array(order))
    return pa.Table.from_arrays([ids, *others.columns], schema=rows.schema)


def _ascending(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """They were made line after line, so those of one source ascend already."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.concat_arrays(ids.chunks)
    if len(whole) > 1 and not pc.all(pc.less(whole[:-1], whole[1:])).as_py():
        whole = whole.take(pc.sort_indices(whole))
    return pa.chunked_array([whole])


def _by_ends(edges: pa.Table) -> np.ndarray | None:
    """The order by source and target; None where few sources have several edges. A hop reads one place instead of one for each
    edge, the columns take less room, their indexes are built in less time, and the stored adjacency needs no order of its own:
    that is worth more than the sorting."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = [*edges.column("src").chunks, *edges.column("dst").chunks]
    ends = pa.concat_arrays(chunks).dictionary_encode()
    src, dst = np.split(ends.indices.to_numpy(), 2)
    if np.count_nonzero(np.bincount(src)) * EDGES_PER_SOURCE > len(src):
        return None
    ranks = np.empty(len(ends.dictionary), np.int32)
    ranks[pc.sort_indices(ends.dictionary).to_numpy()] = np.arange(len(ranks), dtype=np.int32)
    src, dst = ranks[src], ranks[dst]
    order = stable_order(dst)
    return np.asarray(order[stable_order(src[order])])
