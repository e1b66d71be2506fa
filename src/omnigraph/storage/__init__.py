"""Bytes: one contract for local disk, memory and object stores, and wrappers that count, slow down and break it."""

from omnigraph.storage.local import Durability, LocalStore, sync_files
from omnigraph.storage.opening import open_store
from omnigraph.storage.options import storage_options_for
from omnigraph.storage.store import ObjectInfo, Store

__all__ = ["Durability", "LocalStore", "ObjectInfo", "Store", "open_store", "storage_options_for", "sync_files"]
