"""What each branch changed since they parted, and where a row that a branch did not change is stored on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.changes.table_diff import SAME
from omnigraph.merge.bases import Bases, Differences, type_rows
from omnigraph.tables import Table
from omnigraph.tables.fragment import OFFSET_BITS
from omnigraph.tables.shared_fragments import fragments_by_files
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NOWHERE = 2**64 - 1


class BranchChanges:
    """The head of one branch, compared with where it parted from the other; where that is several commits that differ in
    a type, that type is compared with the other head: what both branches have alike needs no base."""

    def __init__(self, view: View, other: View, bases: Bases, differences: Differences) -> None:
        self.view = view
        self.other = other
        self.bases = bases
        self.differences = differences

    def reference(self, type_id: int) -> View:
        """What a type is compared with."""
        return self.bases.views[0] if self.bases.agree_on(type_id) else self.other

    def changes(self, type_id: int) -> pa.Table:
        """Columns id, op, before (an address in the reference's table) and after (one in this branch's table)."""
        import pyarrow.compute as pc

        rows = self._compared(type_id)
        return rows.filter(pc.not_equal(rows.column("op"), SAME))

    def address_of(self, type_id: int, addresses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Where rows of the reference, which this branch did not change, are stored here."""
        import numpy as np
        import pyarrow.compute as pc

        rows = self._compared(type_id)
        same = rows.filter(pc.equal(rows.column("op"), SAME))
        old, new = _table(self.reference(type_id), type_id), _table(self.view, type_id)
        result = shared_addresses(old, new, addresses)
        if same.num_rows:
            moved = same.sort_by("before")
            sources, places = moved.column("before").to_numpy(), moved.column("after").to_numpy()
            spots = np.minimum(np.searchsorted(sources, addresses), len(sources) - 1)
            result = np.where(sources[spots] == addresses, places[spots], result)
        assert not (result == NOWHERE).any(), "a row that did not change is on every side"
        return result

    def _compared(self, type_id: int) -> pa.Table:
        return self.differences.between(self.reference(type_id), self.view, type_id)


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


def _table(view: View, type_id: int) -> Table:
    """The table of a type that is known to have rows."""
    stored = type_rows(view, type_id)
    table = None if stored is None else stored.table
    assert table is not None, "a row stands in a table"
    return table
