"""Bytes: one contract for local disk, memory and object stores."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.storage.local import LocalStore
    from omnigraph.storage.options import open_store, storage_options_for
    from omnigraph.storage.store import Lock, ObjectInfo, Store
    from omnigraph.storage.syncing import Durability, sync_files

_EXPORTS = {
    "omnigraph.storage.local": ("LocalStore",),
    "omnigraph.storage.options": (
        "open_store",
        "storage_options_for",
    ),
    "omnigraph.storage.store": (
        "Lock",
        "ObjectInfo",
        "Store",
    ),
    "omnigraph.storage.syncing": (
        "Durability",
        "sync_files",
    ),
}

__all__ = [
    "Durability",
    "LocalStore",
    "Lock",
    "ObjectInfo",
    "Store",
    "open_store",
    "storage_options_for",
    "sync_files",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
