"""Every kind of writer, as a program that can be killed: python killed_writers.py <writer> <graph>

Each starts from the graph that `prepare` makes: a table with as many small parts as a fold takes, an index, a second
branch, a tag, a prepared plan, and commits old enough to be swept.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from history.sweeping import cleaner_of
from processes.writing import Writer

from omnigraph.errors import GraphNotFound
from omnigraph.history.history import History
from omnigraph.history.plan import PreparedPlan
from omnigraph.maintenance.reachable import RetentionPolicy
from omnigraph.storage.options import open_store
from omnigraph.write.publishing import publish

TABLE = "node:P"
OTHER = "node:Q"
PARTS = 8
OLD_S = 24 * 3600


def prepare(root: Path) -> None:
    History.create(open_store(str(root)), b"{}")
    writer = Writer(str(root))
    writer.append(OTHER, range(10))
    for number in range(PARTS):
        writer.append(TABLE, [number])
    history = writer.history
    history.branches.create("old/branch", history.chain.head("main"))
    writer.append(TABLE, [50], "old/branch")
    history.tags.create("v1", history.chain.head("main").head.commit.ref)
    plan = writer.plan(OTHER, [777])
    history.recovery.keep(PreparedPlan(plan, 1, {}), lambda: None)
    history.store.put(f"history/{'0' * 26}.json", b"left behind by a writer that lost")
    long_ago = time.time() - OLD_S
    for file in (*(root / "branches").rglob("*.json"), *(root / "history").rglob("*.json")):
        os.utime(file, (long_ago, long_ago))


@dataclass(frozen=True)
class State:
    """What a reader can see: per branch the rows of each table and the length of the log; tags; prepared plans."""

    branches: dict[str, tuple[dict[str, list[int]], int]]
    tags: tuple[str, ...]
    prepared: int
    indexed_rows: int


def look(root: Path) -> State | None:
    """None: there is no graph."""
    try:
        writer = Writer(str(root))
    except GraphNotFound:
        return None
    history = writer.history
    branches = {}
    for head in history.branches.list():
        tables = {key: writer.numbers(key, head.head) for key in head.head.tables}
        branches[head.branch] = (tables, len(list(history.log.walk(head))))
    return State(branches, tuple(history.tags.list()), len(history.recovery.list()), _indexed_rows(writer))


def _indexed_rows(writer: Writer) -> int:
    from omnigraph.tables.indexes import IndexSpec, coverage

    state = writer.history.chain.head("main").head.table(OTHER)
    if state is None:
        return 0
    spec = IndexSpec("id", "BTREE")
    return coverage(writer.tables.open(state.path, state.version), [spec])[spec.name].covered_rows


# ---------------------------------------------------------------- the writers


def init(root: str) -> None:
    History.create(open_store(root), b"{}")


def append(root: str) -> None:
    Writer(root).append(OTHER, [100])


def append_on_branch(root: str) -> None:
    Writer(root).append(OTHER, [100], "old/branch")


def append_that_loses(root: str) -> None:
    """Two writers of one process: the second one meets the first one's commit and puts its rows on top."""
    first, second = Writer(root), Writer(root)
    plan = second.plan(OTHER, [101])
    publish(first.history, first.plan(OTHER, [100]), first.rebase)
    publish(second.history, plan, second.rebase)


def strict_update(root: str) -> None:
    Writer(root).increment(OTHER, "e3")


def strict_delete(root: str) -> None:
    Writer(root).remove(OTHER, [4, 5])


def fold(root: str) -> None:
    Writer(root).append(TABLE, [100])


def index(root: str) -> None:
    Writer(root).index(OTHER, "id")


def branch_create(root: str) -> None:
    history = Writer(root).history
    history.branches.create("new/branch", history.chain.head("main"))


def branch_delete(root: str) -> None:
    Writer(root).history.branches.delete("old/branch", force=True)


def tag(root: str) -> None:
    history = Writer(root).history
    history.tags.create("v2", history.chain.head("main").head.commit.ref)


def schema(root: str) -> None:
    Writer(root).history.schemas.put(b'{"other": 1}')


def sweep(root: str) -> None:
    history = Writer(root).history
    cleaner = cleaner_of(history)
    cleaner.sweep(cleaner.survey(RetentionPolicy(keep=2)))


def prepared(root: str) -> None:
    """A long write: its plan is kept from staging to publish."""
    writer = Writer(root)
    plan = writer.plan(TABLE, [100])
    writer.history.recovery.keep(PreparedPlan(plan, 2, {}), lambda: None)
    publish(writer.history, plan, writer.rebase)
    writer.history.recovery.remove(plan.commit_id)


def load_on_new_branch(root: str) -> None:
    """A long write that makes its branch: the branch is there with its commit, or not at all."""
    writer = Writer(root)
    plan = writer.opening_plan(TABLE, [100], "new/load")
    writer.history.recovery.keep(PreparedPlan(plan, 2, {}), lambda: None)
    publish(writer.history, plan, writer.rebase)
    writer.history.recovery.remove(plan.commit_id)


def recover(root: str) -> None:
    """Finish what somebody else prepared."""
    writer = Writer(root)
    for each in writer.history.recovery.list():
        publish(writer.history, each.plan, writer.rebase)
        writer.history.recovery.remove(each.commit_id)


def roll_up(root: str) -> None:
    """An append that also rolls the log up."""
    Writer(root, max_tail=2).append(OTHER, [100])


WRITERS: dict[str, Callable[[str], None]] = {
    writer.__name__: writer
    for writer in (
        init, append, append_on_branch, append_that_loses, strict_update, strict_delete, fold, index, branch_create,
        branch_delete, tag, schema, sweep, prepared, load_on_new_branch, recover, roll_up,
    )
}  # fmt: skip


if __name__ == "__main__":
    WRITERS[sys.argv[1]](sys.argv[2])
