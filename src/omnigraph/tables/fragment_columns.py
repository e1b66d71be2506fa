"""Columns of fragments that are looked up often, held in memory.

One rule: a fragment is held once the lookups that went to storage have cost as much as reading it, at one lookup per
`ROWS_PER_LOOKUP` rows. So a first query never pays for it, and a table that changes all the time pays at most twice.

A fragment's rows never change, so what is held for its content is right for every version that shares it. A column that is too
wide is not held, and one that was evicted has to be earned again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.runtime import ByteCache
from omnigraph.tables.sorted_keys import SortedKeys

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.tables.fragment import Fragment
    from omnigraph.tables.table import Table

ROWS_PER_LOOKUP = 4_096
"""Reading and sorting this many rows takes about as long as one lookup through an index."""
MIN_LOOKUPS = 8
COLUMN_SHARE = 16
"""A column may take up to one part in this many of the memory."""
PARTS_COUNTED = 4_096
BATCH_ROWS = 2_048
OFFSET = "_offset"
"""Pseudo-column: the offset of each row in its fragment."""


@dataclass
class _Use:
    """How often one fragment was looked up, and which of its columns were read because of that."""

    lookups: int = 0
    read: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _TooWide:
    """Marks a column that is not held."""

    nbytes: int = 64


class FragmentColumns:
    """Thread-safe. Several graphs may share the memory."""

    def __init__(self, memory: ByteCache) -> None:
        self._memory = memory
        self._uses: OrderedDict[object, _Use] = OrderedDict()
        self._lock = threading.Lock()

    def hold(
        self,
        table: Table,
        fragment: Fragment,
        names: Sequence[str],
        rows_per_lookup: int = ROWS_PER_LOOKUP,
        *,
        at_once: bool = False,
    ) -> dict[str, pa.Array] | None:
        """These columns of a fragment's live rows, in row order; None until there was one lookup per `rows_per_lookup` rows.

        Each call counts as one lookup, except with `at_once`, which reads the columns right away.
        """
        keys = {name: _key(table, fragment, name) for name in names}
        use = self._counted(keys, (table.dataset.uri, fragment.content), 0 if at_once else 1)
        if not at_once and use.lookups < max(MIN_LOOKUPS, fragment.rows // rows_per_lookup):
            return None
        columns: dict[str, pa.Array] = {}
        if at_once and len(names) > 1:
            self._read_together(table, fragment, keys)
        for name, key in keys.items():
            column = self._memory.get(key, lambda name=name: self._read(table, fragment, name))  # type: ignore[misc]  # bound now
            if isinstance(column, _TooWide):
                return None
            columns[name] = column
        with self._lock:
            use.read.update(names)
        return columns

    def find(self, table: Table, fragment: Fragment, names: Sequence[str]) -> dict[str, pa.Array] | None:
        """These columns, if they are held."""
        columns: dict[str, pa.Array] = {}
        for name in names:
            column = self._memory.find(_key(table, fragment, name))
            if column is None or isinstance(column, _TooWide):
                return None
            columns[name] = column
        return columns

    def put(self, table: Table, fragment: Fragment, rows: pa.Table) -> None:
        """Cache columns of a fragment's live rows."""
        import pyarrow as pa

        for name, column in zip(rows.column_names, rows.columns, strict=True):
            cells = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            is_wide = cells.nbytes > self._memory.capacity // COLUMN_SHARE
            self._memory.put(_key(table, fragment, name), _TooWide() if is_wide else cells)

    def _counted(self, keys: Mapping[str, object], fragment: object, lookups: int) -> _Use:
        with self._lock:
            use = self._uses.setdefault(fragment, _Use())
            self._uses.move_to_end(fragment)
            if len(self._uses) > PARTS_COUNTED:
                self._uses.popitem(last=False)
            if any(name in use.read and key not in self._memory for name, key in keys.items()):
                use.lookups, use.read = 0, set()
            use.lookups += lookups
            return use

    def is_held(self, table: Table, fragment: Fragment, names: Sequence[str]) -> bool:
        return all(_key(table, fragment, name) in self._memory for name in names)

    def in_order(self, table: Table, fragment: Fragment, name: str, column: pa.Array) -> SortedKeys:
        """A held key column, ready to be searched."""
        return self._memory.get(("order", table.dataset.uri, fragment.content, name), lambda: SortedKeys.of(column))

    def _read_together(self, table: Table, fragment: Fragment, keys: Mapping[str, object]) -> None:
        """Read the columns that are not held yet in one scan."""
        missing = [name for name, key in keys.items() if name != OFFSET and key not in self._memory]
        if len(missing) < 2:
            return
        self.put(table, fragment, table.scan(missing, fragments=[fragment.id]).read_all())

    def _read(self, table: Table, fragment: Fragment, name: str) -> Any:
        """A column; reading stops as soon as it turns out to be too wide."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name == OFFSET:
            addresses = table.scan([], fragments=[fragment.id], with_address=True).read_all().column(0).combine_chunks()
            return pc.bit_wise_and(addresses, pa.scalar(0xFFFFFFFF, pa.uint64()))
        type_ = table.schema.field(name).type
        if pa.types.is_fixed_size_list(type_):
            return _TooWide()
        batches, size = [], 0
        for batch in table.scan([name], fragments=[fragment.id], batch_rows=BATCH_ROWS):
            size += batch.nbytes
            if size > self._memory.capacity // COLUMN_SHARE:
                return _TooWide()
            batches.append(batch.column(0))
        return pa.concat_arrays(batches) if batches else pa.array([], type_)


def _key(table: Table, fragment: Fragment, name: str) -> tuple[object, ...]:
    return ("column", table.dataset.uri, fragment.content, table.column_identity(name))
