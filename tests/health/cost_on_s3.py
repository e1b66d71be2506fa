"""What verification asks of an S3 server, as the server saw it, at several depths of history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from s3_server import S3Server

import omnigraph as og
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.tables.digests import version_file
from omnigraph.write.publishing import publish

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
KEY = "node:Person"


class DeepGraph:
    """A graph whose commits each have a version of a table of their own, though all versions hold the same row."""

    def __init__(self, s3: S3Server) -> None:
        self.s3 = s3
        self.uri = f"s3://{s3.new_bucket()}/graph"
        self.graph = og.init(self.uri, SCHEMA, storage_options=s3.options)
        with self.graph.transaction() as tx:
            tx.insert("Person", name="Ada")
        self.history = self.graph._repository.history
        state = self.history.chain.head("main").head.tables[KEY]
        self.path = state.path
        self.version = state.version
        self.manifest = self.history.store.get(f"{state.path}/{version_file(state.version)}")

    def deepen(self, commits: int) -> None:
        while (head := self.history.chain.head("main").head).commit.ref.seq + 1 < commits:
            state = head.tables[KEY]
            version = 2**63 + head.commit.ref.seq
            manifest = self.manifest.replace(_varint(self.version), _varint(version))
            self.history.store.put(f"{self.path}/{version_file(version)}", manifest)
            after = replace(state, version=version, generation=state.generation + 1)
            cached = self.history.chain.cached_head("main")
            assert cached is not None
            plan = PublishPlan(
                self.history.new_id(),
                "main",
                cached[0].incarnation,
                head.commit.ref,
                head.schema,
                (TableChange(KEY, "strict", state, after),),
            )
            publish(self.history, plan)

    def measure(self) -> VerifyCost:
        opened = og.open(self.uri, storage_options=self.s3.options)
        self.s3.reset()
        report = opened.maintenance.verify(all=True)
        requests = self.s3.requests()
        assert report.is_whole, report.findings[:3]
        kinds = Counter(_kind(request.kind, request.key) for request in requests)
        return VerifyCost(report.commits, report.objects, report.files, len(requests), dict(kinds))


def _varint(version: int) -> bytes:
    """A version as its manifest holds it: ten bytes for every version that a commit names."""
    digits = [version >> shift & 0x7F for shift in range(0, 70, 7)]
    return bytes([digit | 0x80 for digit in digits[:-1]] + digits[-1:])


def _kind(method: str, key: str) -> str:
    for folder in ("branches", "history", "_versions", "schemas", "tags", "retention", "recovery"):
        if f"/{folder}/" in key:
            return f"{method} {folder}"
    return method


@dataclass(frozen=True)
class VerifyCost:
    commits: int
    objects: int
    files: int
    requests: int
    kinds: dict[str, int]

    HEADER = f"{'commits':>8} {'objects':>8} {'files':>8} {'requests':>9}  by kind"

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return f"{self.commits:8,} {self.objects:8,} {self.files:8,} {self.requests:9,}  {kinds}"
