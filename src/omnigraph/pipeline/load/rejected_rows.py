"""Which new rows of a dry run break a rule, each of them once, however many rules it breaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.pipeline.load.incoming import Incoming
from omnigraph.pipeline.load.keyed_rows import Source, StoredReader
from omnigraph.pipeline.target import Target
from omnigraph.rules.check import Record
from omnigraph.tables.fragment import ROW_ADDRESS

if TYPE_CHECKING:
    import numpy as np

Blamed = tuple[Record, int | None]
"""A record that a check found to blame, and how many with such a value are too many (None: all)."""


def rejected_rows(target: Target, incoming: Incoming, blamed: Iterable[Blamed]) -> np.ndarray[Any, Any]:
    """The addresses of the rows of one table that break a rule."""
    import numpy as np

    whole: dict[str, dict[str, int | None]] = {}
    some: dict[str, dict[str, int | None]] = {}
    for (table, column, value), excess in blamed:
        if table == incoming.key:
            (whole if excess is None else some).setdefault(column, {})[value] = excess
    rejected: set[int] = set()
    # Where only some are too many, those that are wrong anyway are among them.
    for column, values in (*whole.items(), *some.items()):
        for value, addresses in _addresses(target, incoming, column, values).items():
            excess = values[value]
            known = [address for address in addresses if address in rejected]
            others = [address for address in addresses if address not in rejected]
            wanted = len(others) if excess is None else max(0, excess - len(known))
            rejected.update(others[len(others) - wanted :] if wanted <= len(others) else others)
    return np.array(sorted(rejected), np.uint64)


def _addresses(target: Target, incoming: Incoming, column: str, values: Mapping[str, object]) -> dict[str, list[int]]:
    """The rows with each of these values, in order."""
    import pyarrow as pa

    source = Source(incoming.place, (column,), column, incoming.rows, with_address=True)
    rows = StoredReader(target).holding(source, pa.array(list(values), pa.string())).sort_by(ROW_ADDRESS)
    addresses: dict[str, list[int]] = {}
    for value, address in zip(rows.column(column).to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True):
        addresses.setdefault(value, []).append(address)
    return addresses
