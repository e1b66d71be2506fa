"""Print what cleanup asks of an S3 server, at 10, 1,000 and 10,000 commits (or the depths that are given)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from health.cost_on_s3 import DeepGraph
from maintenance.cost_on_s3 import CleanupCost, measure
from s3_server import S3Server


def main(depths: list[int]) -> None:
    with S3Server() as s3:
        print(CleanupCost.HEADER)
        for depth in depths:
            graph = DeepGraph(s3)
            graph.deepen(depth)
            started = time.monotonic()
            cost = measure(graph)
            print(f"{cost}; {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main([int(depth) for depth in sys.argv[1:]] or [10, 1_000, 10_000])
