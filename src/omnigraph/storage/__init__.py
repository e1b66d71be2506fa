"""Bytes: one contract for local disk, memory and object stores."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.storage.local import LocalStore
    from omnigraph.storage.opening import open_store
    from omnigraph.storage.options import storage_options_for
    from omnigraph.storage.store import ObjectInfo, Store
    from omnigraph.storage.syncing import Durability, sync_files

_HOMES = {
    "omnigraph.storage.local": ("LocalStore",),
    "omnigraph.storage.opening": ("open_store",),
    "omnigraph.storage.options": ("storage_options_for",),
    "omnigraph.storage.store": ("ObjectInfo", "Store"),
    "omnigraph.storage.syncing": ("Durability", "sync_files"),
}

__all__ = ["Durability", "LocalStore", "ObjectInfo", "Store", "open_store", "storage_options_for", "sync_files"]

__getattr__ = names_of(__name__, _HOMES)
