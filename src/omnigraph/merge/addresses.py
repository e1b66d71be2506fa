"""Where rows that a branch did not change are stored on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.changes.stored_rows import TypeRows
from omnigraph.changes.table_diff import SAME
from omnigraph.tables import Table
from omnigraph.tables.ascending import distinct
from omnigraph.tables.fragment import OFFSET_BITS
from omnigraph.tables.shared_fragments import fragments_by_files

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NOWHERE = 2**64 - 1


def current_addresses(
    reference: TypeRows, current: TypeRows, compared: pa.Table, addresses: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The addresses on a branch of rows of the reference that it did not change. `compared`: the differences between the two."""
    import numpy as np
    import pyarrow.compute as pc

    if not len(addresses):
        return addresses
    assert reference.table is not None, "a row is in a table"
    assert current.table is not None, "a row that did not change is on every side"
    result = shared_addresses(reference.table, current.table, addresses)
    same = compared.filter(pc.equal(compared.column("op"), SAME))
    if same.num_rows:
        moved = same.sort_by("before")
        sources, places = moved.column("before").to_numpy(), moved.column("after").to_numpy()
        spots = np.minimum(np.searchsorted(sources, addresses), len(sources) - 1)
        result = np.where(sources[spots] == addresses, places[spots], result)
    assert not (result == NOWHERE).any(), "a row that did not change is on every side"
    return result


def shared_addresses(old: Table, new: Table, addresses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The addresses of the same rows in another version that shares their fragments, possibly under other fragment ids."""
    import numpy as np

    twins = fragments_by_files(new)
    fragments = addresses >> np.uint64(OFFSET_BITS)
    offsets = addresses & np.uint64((1 << OFFSET_BITS) - 1)
    result = np.full(len(addresses), NOWHERE, np.uint64)
    files = {fragment.id: fragment.files for fragment in old.fragments}
    for fragment in distinct(fragments).tolist():
        twin = twins.get(files[fragment])
        if twin is not None:
            in_fragment = fragments == np.uint64(fragment)
            result[in_fragment] = offsets[in_fragment] | np.uint64(twin.id << OFFSET_BITS)
    return result
