"""In which order the rows of a fragment are written: the edges of a node side by side, and ids that the load made ascending.

Made ids say nothing about their rows, so they are handed out again after the rows were sorted: an ascending column takes less
than half the room, and an id is found in it without an index of every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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

    def id_range(self) -> tuple[str, str] | None:
        """The first and the last id; None if they do not ascend."""
        ids = self.rows.column("id")
        return (ids[0].as_py(), ids[-1].as_py()) if _ascend(ids) else None

    def origins(self, places: np.ndarray) -> list[tuple[int, int]]:
        """The split and the line that the rows at these places came from."""
        import numpy as np

        original = places if self._order is None else self._order[places]
        ends = np.cumsum([typed.rows.num_rows for _, typed in self._held])
        owners = np.searchsorted(ends, original, "right")
        firsts = ends - [typed.rows.num_rows for _, typed in self._held]
        return [
            (self._held[owner][0], self._held[owner][1].lines[int(place - firsts[owner])].as_py())
            for owner, place in zip(owners.tolist(), original.tolist(), strict=True)
        ]


def arranged(entity: EntityType, held: Sequence[tuple[int, TypedRows]]) -> ArrangedRows:
    """The same whenever the same rows are read again."""
    import pyarrow as pa

    explicit_ids = sum(typed.explicit_ids for _, typed in held)
    are_made = not explicit_ids and not entity.key
    if are_made:
        held = sorted(held, key=lambda item: str(item[1].rows.column("id")[0]))
    schema = arrow_schema(entity)
    joined = pa.concat_tables([typed.rows for _, typed in held])
    rows = pa.Table.from_arrays([joined.column(name) for name in schema.names], schema=schema)
    order = _by_ends(rows) if isinstance(entity, EdgeType) else None
    if order is None:
        return ArrangedRows(rows, explicit_ids, held, None)
    columns = {"src": order.src, "dst": order.dst} | ({"id": _ascending(rows.column("id"))} if are_made else {})
    others = rows.drop_columns(list(columns)).combine_chunks().take(pa.array(order.places))
    cells = [columns[name] if name in columns else others.column(name) for name in rows.column_names]
    return ArrangedRows(pa.Table.from_arrays(cells, schema=rows.schema), explicit_ids, held, order.places)


def _ascending(ids: pa.ChunkedArray) -> pa.Array:
    """They were made line after line, so those of one source ascend already."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.concat_arrays(ids.chunks)
    return whole if _ascend(whole) else whole.take(pc.sort_indices(whole))


def _ascend(ids: pa.Array | pa.ChunkedArray) -> bool:
    """Whether each is greater than the one before it."""
    import pyarrow.compute as pc

    return len(ids) < 2 or bool(pc.all(pc.less(ids[:-1], ids[1:])).as_py())


@dataclass(frozen=True)
class _Order:
    """The places of edges by source and target, and their ends in that order."""

    places: np.ndarray
    src: pa.Array
    dst: pa.Array


def _by_ends(edges: pa.Table) -> _Order | None:
    """The order by source and target; None where few sources have several edges. A hop reads one place instead of one for each
    edge, the columns take less room, their indexes are built in less time, and the stored adjacency needs no order of its own:
    that is worth more than the sorting."""
    with ThreadPoolExecutor(2) as pool:
        near, far = pool.map(_coded, (edges.column("src"), edges.column("dst")))
    if len(near.dictionary) * EDGES_PER_SOURCE > edges.num_rows:
        return None
    src, dst = _ranked(near), _ranked(far)
    order = stable_order(dst.ranks)
    places = order[stable_order(src.ranks[order])]
    return _Order(places, src.taken(places), dst.taken(places))


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    import pyarrow as pa

    return pa.concat_arrays(column.chunks).dictionary_encode()


@dataclass(frozen=True)
class _Ranked:
    """A column as places among its sorted values."""

    ranks: np.ndarray
    values: pa.Array

    def taken(self, places: np.ndarray) -> pa.Array:
        import pyarrow as pa

        return self.values.take(pa.array(self.ranks[places]))


def _ranked(coded: pa.DictionaryArray) -> _Ranked:
    import numpy as np
    import pyarrow.compute as pc

    order = pc.sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return _Ranked(ranks[coded.indices.to_numpy()], coded.dictionary.take(order))
