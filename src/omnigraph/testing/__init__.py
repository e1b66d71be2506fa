"""Test doubles for the store, and failpoints that tests arm. For tests, not for users."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.testing.counting import CountingStore, RequestCounts, sequential_hops
    from omnigraph.testing.faults import Fault, FaultyStore, SimulatedCrash
    from omnigraph.testing.latency import LatencyStore

_HOMES = {
    "omnigraph.testing.counting": ("CountingStore", "RequestCounts", "sequential_hops"),
    "omnigraph.testing.faults": ("Fault", "FaultyStore", "SimulatedCrash"),
    "omnigraph.testing.latency": ("LatencyStore",),
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

__getattr__ = names_of(__name__, _HOMES)
