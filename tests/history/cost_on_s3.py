"""What a write, a branch and a cold start ask of an S3 server, as the server saw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from s3_server import S3Server

from omnigraph.history.history import History, new_ulid
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import TableState
from omnigraph.storage.options import open_store
from omnigraph.tables.store import Tables
from omnigraph.write.publishing import Write, publish, publish_group

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int64())])
KEY, PATH = "node:Measured", "nodes/Measured-1"
PLAIN_COMMITS = 3


@dataclass(frozen=True)
class Cost:
    """One line of the table. `folding` lists what commits cost that also folded parts or rolled up the log."""

    depth: int
    tables: int
    append: tuple[int, int]
    append_on_branch: tuple[int, int]
    branch_create: int
    branch_delete: int
    cold_open: int
    folding: tuple[int, ...]

    HEADER = (
        f"{'commits':>8} {'tables':>7} {'append req/hops':>16} {'on a branch':>12} {'create':>7} {'delete':>7} "
        f"{'cold row':>9}  folding or rolling up"
    )

    def __str__(self) -> str:
        append, on_branch = ("/".join(map(str, pair)) for pair in (self.append, self.append_on_branch))
        return (
            f"{self.depth:8,} {self.tables:7} {append:>16} {on_branch:>12} {self.branch_create:7} "
            f"{self.branch_delete:7} {self.cold_open:9}  {', '.join(map(str, self.folding))}"
        )


class MeasuredGraph:
    """A graph on the server with one real table and any number of others that only history knows."""

    def __init__(self, s3: S3Server, tables: int) -> None:
        self.s3 = s3
        self.uri = f"s3://{s3.new_bucket()}/graph"
        self.store = open_store(self.uri, storage_options=s3.options)
        self.history = History.create(self.store, b"{}")
        self.tables = Tables(self.uri, storage_options=s3.options)
        self.count = tables
        self.rows = 0
        self.version = 0
        others = tuple(
            TableChange(f"node:T{n}", "insert", None, TableState(f"nodes/T{n}-1", 10**18 + n, 1, 1))
            for n in range(tables - 1)
        )
        self.append("main", others)

    @property
    def depth(self) -> int:
        return self.history.chain.head("main").head.commit.ref.seq

    def deepen(self, depth: int) -> None:
        """Commits until the branch is this deep: every fifth one real, the others known to history only."""
        while (missing := depth - self.depth) > 0:
            if missing % 5 == 0 and depth <= 100:
                self.append("main")
                continue
            head = self.history.chain.head("main").head
            state = head.table("node:T0")
            assert state is not None
            self.version += 1
            following = TableState(state.path, 2 * 10**18 + self.version, state.generation + 1, state.rows + 1)
            publish(self.history, self._plan("main", (TableChange("node:T0", "insert", state, following),)))

    def append(self, branch: str, others: tuple[TableChange, ...] = ()) -> bool:
        """One row, as a warm process writes it; whether the write also folded."""
        self.rows += 1
        state = self.history.chain.head(branch).head.table(KEY)
        base = self.tables.open(state.path, state.version) if state else self.tables.create(PATH, SCHEMA)
        row = pa.table({"id": [f"e{self.rows}"], "n": [self.rows]}, schema=SCHEMA)
        staged = self.tables.stage(base, rows=row)
        self.tables.sync([staged])
        generation = state.generation if state else 0
        after = TableState(PATH, staged.version, generation + 1, staged.rows)
        publish(self.history, self._plan(branch, (TableChange(KEY, "insert", state, after), *others)))
        return sum(file.startswith("data/") for file in staged.files) > 1

    def _plan(self, branch: str, changes: tuple[TableChange, ...]) -> PublishPlan:
        """On the cached head: the head was looked at already."""
        cached = self.history.chain.cached_head(branch)
        assert cached is not None
        head = cached[0]
        return PublishPlan(new_ulid(), branch, head.incarnation, head.head.commit.ref, head.head.schema, changes)

    # ------------------------------------------------------------ measuring

    def measure(self) -> Cost:
        folding: list[int] = []
        depth = self.depth
        append = self._plain_append("main", folding)
        self.s3.reset()
        self.history.branches.create("review/x", self.history.chain.head("main"))
        branch_create = len(self.s3.requests())
        on_branch = self._plain_append("review/x", folding)
        self.s3.reset()
        self.history.branches.delete("review/x", force=True)
        branch_delete = len(self.s3.requests())
        return Cost(
            depth, self.count, append, on_branch, branch_create, branch_delete, self._cold_open(), tuple(folding)
        )

    def _plain_append(self, branch: str, folding: list[int]) -> tuple[int, int]:
        """The most that one of several commits in a row needed, those that fold or roll up apart."""
        worst = (0, 0)
        plain = 0
        while plain < PLAIN_COMMITS:
            self.s3.reset()
            folded = self.append(branch)
            seen, hops = self.s3.requests(), self.s3.hops()
            if folded or any("/history/" in request.key for request in seen):
                folding.append(len(seen))
            else:
                plain += 1
                worst = (max(worst[0], len(seen)), max(worst[1], hops))
        return worst

    def _cold_open(self) -> int:
        """A new process, from nothing to the first row of a table."""
        self.s3.reset()
        history = History.open(open_store(self.uri, storage_options=self.s3.options))
        state = history.chain.head("main").head.table(KEY)
        assert state is not None
        table = Tables(self.uri, storage_options=self.s3.options).open(state.path, state.version)
        assert next(iter(table.scan(limit=1))).num_rows == 1
        return len(self.s3.requests())


def group_of_writers(s3: S3Server, writers: int) -> int:
    """Requests to publish this many plans as one entry."""
    graph = MeasuredGraph(s3, 2)
    cached = graph.history.chain.cached_head("main")
    assert cached is not None
    changes = [TableChange(f"node:G{n}", "insert", None, TableState("x", n, 1, 1)) for n in range(writers)]
    s3.reset()
    publish_group(graph.history, [Write(graph._plan("main", (change,))) for change in changes])
    return len(s3.requests())


def cost_table(s3: S3Server, depths: tuple[int, ...], tables: tuple[int, ...]) -> Iterator[Cost]:
    for count in tables:
        graph = MeasuredGraph(s3, count)
        for depth in depths:
            graph.deepen(depth)
            yield graph.measure()
