"""What `run` computed and wrote."""

from __future__ import annotations

from omnigraph.algorithms.result import AlgorithmResult
from omnigraph.load.receipt import LoadReceipt
from omnigraph.wire.members import JsonObject
from omnigraph.wire.writes import load_json


def run_json(uri: str, into: str, result: AlgorithmResult, receipt: LoadReceipt) -> JsonObject:
    """{algorithm, into, nodes, steps, engine, seconds, snapshot, load}."""
    return {
        "algorithm": result.algorithm,
        "into": into,
        "nodes": result.num_rows,
        "steps": result.steps,
        "engine": result.engine,
        "seconds": result.seconds,
        "snapshot": result.commit.id,
        "load": load_json(uri, receipt),
    }
