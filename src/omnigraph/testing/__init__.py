"""Test doubles for the store, and failpoints that tests arm. For tests, not for users."""

from omnigraph.testing.counting import CountingStore, Counts, sequential_hops
from omnigraph.testing.faults import Fault, FaultyStore, SimulatedCrash
from omnigraph.testing.latency import LatencyStore

__all__ = ["CountingStore", "Counts", "Fault", "FaultyStore", "LatencyStore", "SimulatedCrash", "sequential_hops"]
