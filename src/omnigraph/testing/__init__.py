"""Test doubles for the store, and failpoints that tests arm. For tests, not for users."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.testing.stores import (
        CountingStore,
        Fault,
        FaultyStore,
        LatencyStore,
        RequestCounts,
        SimulatedCrash,
        sequential_hops,
    )

_EXPORTS = {
    "omnigraph.testing.stores": (
        "CountingStore",
        "RequestCounts",
        "sequential_hops",
        "Fault",
        "FaultyStore",
        "SimulatedCrash",
        "LatencyStore",
    ),
}

__all__ = [
    "CountingStore",
    "Fault",
    "FaultyStore",
    "LatencyStore",
    "RequestCounts",
    "SimulatedCrash",
    "sequential_hops",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
