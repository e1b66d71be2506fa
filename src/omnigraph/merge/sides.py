"""What each side changed since the (virtual) base, and where a base row stands on a side that did not change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.changes.changed import DELETE, SAME, UPDATE, fragments_by_files
from omnigraph.merge.bases import NO_BASE, Bases, Differences, stored_type
from omnigraph.tables import Table
from omnigraph.tables.table import OFFSET_BITS
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NOWHERE = 2**64 - 1


class Side:
    """One snapshot seen from the bases. Changes have the columns id, op, before, after, base: `before` is an address in
    the base numbered `base`, `after` one in this side's table; NO_BASE marks an entity without a base value."""

    def __init__(self, view: View, bases: Bases, differences: Differences) -> None:
        self.view = view
        self.bases = bases
        self.differences = differences
        self._changes: dict[int, pa.Table] = {}

    def changes(self, type_id: int) -> pa.Table:
        """Real changes only."""
        import pyarrow.compute as pc

        rows = self._all(type_id)
        return rows.filter(pc.not_equal(rows.column("op"), SAME))

    def address_of(self, type_id: int, base: int, addresses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Where rows of a base, which this side did not change, are stored on this side."""
        import numpy as np
        import pyarrow.compute as pc

        rows = self._all(type_id)
        same = rows.filter(pc.and_(pc.equal(rows.column("op"), SAME), pc.equal(rows.column("base"), base)))
        old, new = _table(self.bases.views[base], type_id), _table(self.view, type_id)
        result = shared_addresses(old, new, addresses)
        if same.num_rows:
            moved = same.sort_by("before")
            sources, places = moved.column("before").to_numpy(), moved.column("after").to_numpy()
            spots = np.minimum(np.searchsorted(sources, addresses), len(sources) - 1)
            result = np.where(sources[spots] == addresses, places[spots], result)
        assert not (result == NOWHERE).any(), "a row that did not change is on every side"
        return result

    def _all(self, type_id: int) -> pa.Table:
        if type_id not in self._changes:
            self._changes[type_id] = self._since_bases(type_id)
        return self._changes[type_id]

    def _since_bases(self, type_id: int) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        tables = [self.differences.between(view, self.view, type_id) for view in self.bases.views]
        picks = self.differences.picks(self.bases, type_id)
        if not picks:
            return with_base(tables[0], 0)
        pieces = []
        disputed = pa.array(sorted(picks), pa.utf8())
        for index, rows in enumerate(tables):
            own = pa.array([id for id, pick in picks.items() if pick == index], pa.utf8())
            wanted = pc.is_in(rows.column("id"), own)
            if index == 0:
                wanted = pc.or_(wanted, pc.invert(pc.is_in(rows.column("id"), disputed)))
            pieces.append(with_base(rows.filter(wanted), index))
        pieces.append(self._without_base(type_id, picks, tables[0]))
        return pa.concat_tables(pieces).sort_by("id")

    def _without_base(self, type_id: int, picks: Mapping[str, int], since_first: pa.Table) -> pa.Table:
        """Entities without a base value, each as a change: both sides have it in their changes, so it is compared."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = {id for id, pick in picks.items() if pick == NO_BASE}
        found: dict[str, int | None] = dict.fromkeys(wanted)
        for view in self.bases.views[1:]:
            rows = self.differences.between(self.bases.views[0], view, type_id)
            rows = rows.filter(
                pc.and_(pc.is_in(rows.column("id"), pa.array(wanted, pa.utf8())), _valid(rows, "before"))
            )
            if rows.num_rows:
                places = self.address_in_first(type_id, np.asarray(rows.column("before").to_numpy()))
                found.update(zip(rows.column("id").to_pylist(), places.tolist(), strict=True))
        for row in since_first.filter(pc.is_in(since_first.column("id"), pa.array(wanted, pa.utf8()))).to_pylist():
            found[row["id"]] = row["after"]
        return pa.table(
            {
                "id": pa.array(found.keys(), pa.utf8()),
                "op": pa.array([DELETE if place is None else UPDATE for place in found.values()], pa.int8()),
                "before": pa.nulls(len(found), pa.uint64()),
                "after": pa.array(found.values(), pa.uint64()),
                "base": pa.array([NO_BASE] * len(found), pa.int8()),
            }
        )

    def address_in_first(self, type_id: int, addresses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Addresses of the first base as addresses of this side, as far as the two share fragments."""
        old, new = _table(self.bases.views[0], type_id), _table(self.view, type_id)
        return shared_addresses(old, new, addresses)


def shared_addresses(old: Table, new: Table, addresses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same rows in another version that has the same fragments, whatever their numbers there."""
    import numpy as np

    twins = fragments_by_files(new)
    fragments = addresses >> np.uint64(OFFSET_BITS)
    offsets = addresses & np.uint64((1 << OFFSET_BITS) - 1)
    result = np.full(len(addresses), NOWHERE, np.uint64)
    for fragment in old.fragments:
        twin = twins.get(fragment.files)
        here = fragments == np.uint64(fragment.id)
        if twin is not None and here.any():
            result[here] = offsets[here] | np.uint64(twin.id << OFFSET_BITS)
    return result


def with_base(rows: pa.Table, base: int) -> pa.Table:
    import pyarrow as pa

    return rows.append_column("base", pa.repeat(pa.scalar(base, pa.int8()), rows.num_rows))


def _valid(rows: pa.Table, name: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.is_valid(rows.column(name))


def _table(view: View, type_id: int) -> Table:
    """The table of a type that is known to have rows."""
    stored = stored_type(view, type_id)
    table = None if stored is None else stored.table
    assert table is not None, "a row stands in a table"
    return table
