"""What a write key asks of an S3 server: with and without one, warm and cold, new and repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from s3_server import S3Server

import omnigraph as og
from omnigraph.history.plan import PublishPlan
from omnigraph.history.values import KEYS_SUFFIX
from omnigraph.history.write_keys import KeyName
from omnigraph.write.publishing import publish

SCHEMA = "node Person { name: String @key }"
ADD = "query add($n: String) { insert Person { name: $n } }"
WRITES = 9
Requests = tuple[int, int]
"""Requests and hops."""


@dataclass(frozen=True)
class KeyCost:
    """One line of the table. The depth is also the number of keys that the branch has."""

    depth: int
    plain: Requests
    keyed: Requests
    repeated: Requests
    cold_for_the_key: int
    """Of all that the first write of a process asks for, what it asks because of its key."""
    cold_repeated: Requests
    largest_entry: int

    HEADER = (
        f"{'commits':>8} {'warm req/hops':>14} {'keyed':>7} {'repeated':>9} {'cold: for the key':>18} {'repeated':>9} "
        f"{'entry bytes':>12}"
    )

    def __str__(self) -> str:
        pairs = (self.plain, self.keyed, self.repeated, self.cold_repeated)
        plain, keyed, repeated, cold_repeated = ("/".join(map(str, pair)) for pair in pairs)
        return (
            f"{self.depth:8,} {plain:>14} {keyed:>7} {repeated:>9} {self.cold_for_the_key:18} {cold_repeated:>9} "
            f"{self.largest_entry:12,}"
        )


class KeyedGraph:
    def __init__(self, s3: S3Server) -> None:
        self.s3 = s3
        self.uri = f"s3://{s3.new_bucket()}/graph"
        self.graph = og.init(self.uri, SCHEMA, storage_options=s3.options)
        self.names = 0

    def deepen(self, depth: int) -> None:
        """Commits under keys of their own that change nothing."""
        history = self.graph._repository.history
        while (head := history.chain.head("main")).head.commit.ref.seq < depth:
            for number in range(head.head.commit.ref.seq, depth):
                cached = history.chain.cached_head("main")
                assert cached is not None
                newest = cached[0]
                key = KeyName.of(f"key {number}").asking("nothing")
                snapshot = newest.head
                publish(
                    history,
                    PublishPlan(
                        history.new_id(),
                        "main",
                        newest.incarnation,
                        snapshot.commit.ref,
                        snapshot.schema,
                        (),
                        once=key,
                    ),
                )

    def of(self, write: Callable[[], object]) -> Requests:
        self.s3.reset()
        write()
        return len(self.s3.requests()), self.s3.hops()

    def usual(self, write: Callable[[], object]) -> Requests:
        """What most of several writes cost: one in some folds fragments or rolls up the log."""
        costs = Counter(self.of(write) for _ in range(WRITES))
        return costs.most_common(1)[0][0]

    def insert(self, graph: og.Graph, once: bool) -> None:
        self.names += 1
        graph.mutate(ADD, {"n": f"p{self.names}"}, once=f"p{self.names}" if once else None)

    def opened(self) -> og.Graph:
        """A process that has only opened the graph."""
        return og.open(self.uri, storage_options=self.s3.options)

    def cold_for_the_key(self) -> int:
        """Reads of keys; whether the write also rolls some up does not count."""
        graph = self.opened()
        self.of(lambda: self.insert(graph, once=True))
        return sum(request.method == "GET" and request.key.endswith(KEYS_SUFFIX) for request in self.s3.requests())

    def measure(self, depth: int) -> KeyCost:
        graph = self.graph
        self.insert(graph, once=True)
        plain = self.usual(lambda: self.insert(graph, once=False))
        keyed = self.usual(lambda: self.insert(graph, once=True))
        repeated = self.usual(lambda: graph.mutate(ADD, {"n": f"p{self.names}"}, once=f"p{self.names}"))
        for_the_key = self.cold_for_the_key()
        first, cold = "p1", self.opened()
        entries = graph._repository.store.list("branches/main", limit=70)
        return KeyCost(
            depth,
            plain,
            keyed,
            repeated,
            for_the_key,
            self.of(lambda: cold.mutate(ADD, {"n": first}, once=first)),
            max(info.size for info in entries),
        )


def key_costs(s3: S3Server, depths: tuple[int, ...]) -> Iterator[KeyCost]:
    for depth in depths:
        graph = KeyedGraph(s3)
        graph.insert(graph.graph, once=True)
        graph.deepen(depth)
        yield graph.measure(depth)
