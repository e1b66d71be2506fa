"""What two versions of a table have in common: fragments with the same files, and which of their rows each version has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.tables.fragment import OFFSET_BITS, ROW_ADDRESS, Fragment
from omnigraph.tables.table import Table

if TYPE_CHECKING:
    import numpy as np


def fragments_by_files(table: Table | None) -> dict[tuple[str, ...], Fragment]:
    """Fragments that are identified by their files: those whose files are in no other fragment."""
    by_files: dict[tuple[str, ...], Fragment] = {}
    repeated: set[tuple[str, ...]] = set()
    for fragment in table.fragments if table is not None else ():
        if fragment.files in by_files:
            repeated.add(fragment.files)
        by_files[fragment.files] = fragment
    return {files: fragment for files, fragment in by_files.items() if files not in repeated}


def live_offsets(table: Table, fragment: Fragment) -> np.ndarray[Any, Any]:
    import numpy as np

    rows = table.read([], fragments=[fragment.id], with_address=True)
    addresses: np.ndarray[Any, Any] = rows.column(ROW_ADDRESS).to_numpy()
    return addresses & np.uint64((1 << OFFSET_BITS) - 1)
