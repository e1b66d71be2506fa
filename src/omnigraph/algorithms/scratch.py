"""Files of a run that tasks hand to later tasks. They lie beside the graph, where every worker reaches them, and are no part of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import pa
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.tasks.runner import to_ipc, unpacked
from omnigraph.tasks.target import Address

if TYPE_CHECKING:
    from omnigraph.algorithms.kernels import Array


@dataclass(frozen=True)
class Scratch:
    """A folder of the graph's store. A task that is tried again writes the same files again."""

    address: Address
    folder: str

    @property
    def store(self) -> Store:
        return _store(self.address.tables.root, self.address.options)

    def put(self, name: str, **arrays: Array) -> None:
        """Not as NumPy's own files: reading one parses Python, which fails now and then in a thread of CPython 3.11."""
        self.put_rows(name, pa.table({key: pa.array([array]) for key, array in arrays.items()}))

    def get(self, name: str) -> dict[str, Array]:
        rows = self.get_rows(name)
        return {key: rows.column(key)[0].values.to_numpy(zero_copy_only=False).copy() for key in rows.column_names}

    def put_rows(self, name: str, rows: pa.Table) -> None:
        self.store.put(f"{self.folder}/{name}", to_ipc(rows))

    def get_rows(self, name: str) -> pa.Table:
        return unpacked(self.store.get(f"{self.folder}/{name}"))

    def remove(self, name: str = "") -> None:
        """What lies below a name, or everything."""
        self.store.delete_prefix(f"{self.folder}/{name}".rstrip("/"))


@lru_cache(maxsize=4)
def _store(root: str, options: tuple[tuple[str, str], ...]) -> Store:
    # Nothing here outlives the run: it need not be synced.
    return open_store(root, storage_options=dict(options) or None, durability="process")
