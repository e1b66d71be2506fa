"""Test doubles for the store, and failpoints that tests arm. For tests, not for users."""

from omnigraph.testing.counting import CountingStore, RequestCounts, sequential_hops
from omnigraph.testing.faults import Fault, FaultyStore, SimulatedCrash
from omnigraph.testing.latency import LatencyStore

__all__ = [
    "CountingStore",
    "Fault",
    "FaultyStore",
    "LatencyStore",
    "RequestCounts",
    "SimulatedCrash",
    "sequential_hops",
]
