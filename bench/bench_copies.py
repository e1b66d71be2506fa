"""A clone of a large graph to S3 and back, each killed three times: the bytes that travelled, and whether the copy is identical.

The S3 server is the one of the tests, on this machine. Then one small commit is pushed, and its requests are counted.

    python bench/bench_copies.py [rows]
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from many_fragments import make

import omnigraph as og
from omnigraph.maintenance.reachable import Reachable
from omnigraph.maintenance.replication import files_of
from omnigraph.storage.options import open_store
from omnigraph.testing.failpoints import ENVIRONMENT, Failpoint

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from s3_server import S3Server

KILLS = (5, 30, 70)
PROGRAM = """
import sys, omnigraph as og
options = dict(pair.split("=", 1) for pair in sys.argv[3:])
far = [options if "://" in address else None for address in sys.argv[1:3]]
og.clone(sys.argv[1], sys.argv[2], storage_options=far[0], target_options=far[1])
"""


def killed(source: str, target: str, options: dict[str, str], nth: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, source, target, *(f"{name}={value}" for name, value in options.items())],
        env=os.environ | {ENVIRONMENT: f"{Failpoint.COPY_AFTER_OBJECT.value}=kill@{nth}"},
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"


def stored(uri: str, options: dict[str, str] | None) -> tuple[int, int]:
    found = open_store(uri, storage_options=options).list("")
    return len(found), sum(info.size for info in found)


def fingerprint(graph: og.Graph) -> dict[str, str]:
    """Every object that the commits of main need, with its digest."""
    repository = graph._repository
    history = repository.history
    reachable = Reachable(files_of(repository))
    reachable.add_entries(history.lineage.entry_of(commit.ref) for commit in graph.commits(limit=10_000))
    keys = {*reachable.objects, *(info.key for folder in reachable.folders for info in repository.store.list(folder))}
    return {key: hashlib.sha256(repository.store.get(key)).hexdigest() for key in sorted(keys)}


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder, S3Server() as s3:
        origin = make(Path(folder) / "origin", rows)
        for number in range(40):
            with origin.transaction() as tx:
                tx.insert("P", name=f"p{number}")
        origin.maintenance.optimize()
        origin.tags.create("v1", "main~3")
        remote, back = f"s3://{s3.new_bucket()}/graph", str(Path(folder) / "back")
        print(
            f"{rows:,} edges, {len(origin.commits(limit=10_000))} commits, {stored(origin.uri, None)[1]:,} bytes on disk"
        )
        for source, target in ((origin.uri, remote), (remote, back)):
            far = [s3.options if "://" in address else None for address in (source, target)]
            before = (0, 0)
            for nth in KILLS:
                killed(source, target, s3.options, nth)
                there = stored(target, far[1])
                print(
                    f"  to {target[:5]}  killed at object {nth}: {there[0] - before[0]} objects, {there[1] - before[1]:,} bytes"
                )
                before = there
            started = time.perf_counter()
            report = og.clone(source, target, storage_options=far[0], target_options=far[1])
            taken = time.perf_counter() - started
            print(f"  to {target[:5]}  the rest: {report.objects} objects, {report.bytes:,} bytes in {taken:.1f} s")
            total = stored(target, far[1])
            print(f"  to {target[:5]}  there now: {total[0]} objects, {total[1]:,} bytes; {report.present} came before")
        copy = og.open(back)
        assert [commit.id for commit in copy.commits(limit=10_000)] == [c.id for c in origin.commits(limit=10_000)]
        assert fingerprint(copy) == fingerprint(origin)
        assert copy.show("v1") == origin.show("v1")
        print("  identical: every object that a commit needs has the same digest")
        with origin.transaction() as tx:
            tx.insert("P", name="one more")
        s3.reset()
        report = origin.push(remote, storage_options=s3.options)
        requests = s3.requests()
        print(f"  push of one small commit: {len(requests)} requests, {report.bytes:,} bytes")
        for request in requests:
            print(f"    {request.method} {request.key[:70]}")


if __name__ == "__main__":
    main()
