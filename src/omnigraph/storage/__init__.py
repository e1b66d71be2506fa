"""Bytes: one contract for local disk, memory and object stores."""

from omnigraph.storage.local import LocalStore
from omnigraph.storage.opening import open_store
from omnigraph.storage.options import storage_options_for
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.storage.syncing import Durability, sync_files

__all__ = ["Durability", "LocalStore", "ObjectInfo", "Store", "open_store", "storage_options_for", "sync_files"]
