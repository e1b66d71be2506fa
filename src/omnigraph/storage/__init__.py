"""Bytes: one contract for local disk, memory and object stores, and wrappers that count, slow down and break it."""

from omnigraph.storage.counting import CountingStore, Counts, sequential_hops
from omnigraph.storage.faults import Fault, FaultyStore, SimulatedCrash
from omnigraph.storage.latency import LatencyStore
from omnigraph.storage.local import LocalStore
from omnigraph.storage.opening import open_store
from omnigraph.storage.options import storage_options_for
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.storage.syncing import Durability, sync_files

__all__ = [
    "CountingStore",
    "Counts",
    "Durability",
    "Fault",
    "FaultyStore",
    "LatencyStore",
    "LocalStore",
    "ObjectInfo",
    "SimulatedCrash",
    "Store",
    "open_store",
    "sequential_hops",
    "storage_options_for",
    "sync_files",
]
