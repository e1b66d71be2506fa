"""Makes the golden files of this format: `PYTHONPATH=tests python tests/golden/make.py`, when there are none yet.

Golden files that were released stay as they are, and are read for ever: a new feature gets new ones.

The graph has everything the format has, and little of each: a merge, a tag, a branch that was deleted and made again, a branch
that appeared with its first commit, several commits in one entry, a log that was rolled up, swept entries, an ancestry that
is stored apart, deletions, indexes, and a load that was prepared and not published. `expected.json` tells what it holds.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from golden.fixed_values import stored
from history.sweeping import sweep as sweep_chain

import omnigraph as og
from omnigraph.features import (
    BASE,
    EDGE_FAMILIES,
    EDGE_KEYS,
    EVOLVED,
    FENCES,
    HARD_DROPS,
    INLINE_ROWS,
    NULLABLE_FILLS,
    PROVISIONAL_PLANS,
    WRITE_KEYS,
)
from omnigraph.history import lineage
from omnigraph.history.chain import MAIN
from omnigraph.history.history import History
from omnigraph.snapshot import Repository
from omnigraph.storage.options import open_store
from omnigraph.tables.store import Tables
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  seen: DateTime?
  score: F64?
  big: U64?
  is_kind: Bool?
  tags: [String]?
  note: String? @index
  near: Vector(3)? @index
}
node City { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge LivesIn: Person -> City
"""
MAX_TAIL = 3
ADD_CITY = "query add($name: String) { insert City { name: $name } }"
ADA: dict[str, Any] = {
    "name": "Ada", "age": 36, "born": dt.date(1815, 12, 10), "seen": dt.datetime(2026, 7, 1, 12, 30, 0, 250_000, dt.UTC),
    "score": 0.1, "big": 2**64 - 1, "is_kind": True, "tags": ["first", "größe ☃"], "note": "wrote the first program",
    "near": [1.0, 0.5, -2.0],
}  # fmt: skip


def make_write_keys(folder: Path) -> None:
    """A small graph with commits under write keys: rolled up, recent, and of a sequence. `keys.json` tells whose they are."""
    made = og.init(folder / "graph", SCHEMA, actor="maker")
    store = open_store(str(folder / "graph"))
    history = History(store, made._repository.history.identity, max_tail=MAX_TAIL)
    graph = og.Graph(Repository(store, history, lambda: Tables(store.uri)))
    graph.branches.create("review/a")
    graph.tags.create("v1")
    commits = [graph.mutate(ADD_CITY, {"name": name}, once=once).commit for name, once in keyed_writes()]
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    prepare(graph, data, once="a prepared load")
    data.unlink()
    (folder / "keys.json").write_text(json.dumps([commit and commit.id for commit in commits]) + "\n")
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_evolved(folder: Path) -> None:
    """A small graph whose schema was changed twice, on main and on a branch, with rows from before, between and after."""
    graph = og.init(folder / "graph", SCHEMA, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", ADA)
        tx.insert("Person", name="Bo", age=40)
        tx.insert("Knows", from_="Ada", to="Bo", since=1833)
    graph.tags.create("v1")
    graph.branches.create("other")
    text = SCHEMA.replace("  big: U64?\n", "").replace("note: String? @index", "note: [String]?")
    text = text.replace("since: I64?", "since: F64?").replace("age: I32?", 'years: I64? @rename_from("age")')
    text = text.replace("score: F64?", 'score: F64?  rank: I32 @default(7)  met: Date @default("2026-07-01")')
    graph.schema.apply(text)
    with graph.transaction() as tx:
        tx.insert("Person", name="Cleo", years=2**40, rank=1, note=["a", "b"])
        tx.insert("Knows", from_="Cleo", to="Bo", since=0.5)
    graph.schema.apply(text.replace("since: F64?", 'year: F64? @rename_from("since")'))
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  rank: String?"), branch="other")
    with graph.transaction("other") as tx:
        tx.insert("Person", name="Di", age=1, rank="high")
    graph.branches.create("review/a")
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "years": 1, "rank": 2}}\n')
    prepare(graph, data)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_nullable_fills(folder: Path) -> None:
    """A small graph with a property that was added with a default and became nullable: rows from before, between and after."""
    graph = og.init(folder / "graph", SCHEMA, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", ADA)
        tx.insert("Person", name="Bo", age=40)
    graph.tags.create("v1")
    added = SCHEMA.replace("age: I32?", "age: I32?  rank: I32 @default(7)")
    graph.schema.apply(added)
    with graph.transaction() as tx:
        tx.insert("Person", name="Cleo", rank=1)
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  rank: [I64]?"))
    with graph.transaction() as tx:
        tx.insert("Person", name="Di", rank=None)
        tx.insert("Person", name="Ed", rank=[2, 3])
    graph.branches.create("review/a")
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    prepare(graph, data)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_hard_drops(folder: Path) -> None:
    """A small graph with a property and a type that were dropped for good, after rows were written, and rows after that."""
    graph = og.init(folder / "graph", SCHEMA, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", ADA)
        tx.insert("City", name="London")
        tx.insert("LivesIn", from_="Ada", to="London")
    graph.tags.create("v1")
    text = SCHEMA.replace("  note: String? @index\n", "").replace("edge LivesIn: Person -> City\n", "")
    graph.schema.apply(text, allow_data_loss=True)
    with graph.transaction() as tx:
        tx.insert("Person", name="Bo", age=40)
    graph.schema.apply(text.replace("age: I32?", "age: I32?  note: [String]?"))
    graph.branches.create("review/a")
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    prepare(graph, data)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_edge_families(folder: Path) -> None:
    """A small graph with an edge between interfaces, whose interface got another node type later."""
    text = (
        "interface Message { length: I32 }\nnode Person { name: String @key }\nnode Post implements Message { number: String @key }\n"
        "edge By: Message -> Person @card(0..1) { day: I32? }\n"
    )
    graph = og.init(folder / "graph", text, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada")
        tx.insert("Post", number="1", length=1)
        tx.insert("By", {"id": "p"}, from_="1", to="Ada", day=1)
    graph.tags.create("v1")
    graph.schema.apply(text + "node Comment implements Message { number: String @key }\n")
    with graph.transaction() as tx:
        tx.insert("Comment", number="1", length=2)
        tx.insert("Comment", number="2", length=3)
        tx.insert("By", {"id": "p"}, from_="1", from_type="Comment", to="Ada")
    graph.branches.create("review/a")
    data = folder / "more.jsonl"
    data.write_text(
        '{"type": "Person", "data": {"name": "loaded"}}\n'
        '{"edge": "By", "from": "2", "from_type": "Comment", "to": "loaded", "data": {"id": "q"}}\n'
    )
    os.environ[INLINE_BOUND] = "0"  # a load of so few rows would not be prepared
    prepare(graph, data)
    del os.environ[INLINE_BOUND]
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_edge_keys(folder: Path) -> None:
    """A small graph with edges that have a key from the start, and edges that got one later, with rows from before and after."""
    text = SCHEMA.replace("edge LivesIn: Person -> City", "edge LivesIn: Person -> City @key(src)")
    graph = og.init(folder / "graph", text, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", ADA)
        tx.insert("Person", name="Bo", age=40)
        tx.insert("City", name="London")
        tx.insert("LivesIn", from_="Ada", to="London")
        tx.insert("Knows", from_="Ada", to="Bo", since=1833)
    graph.tags.create("v1")
    text = text.replace("Person -> Person { since: I64? }", "Person -> Person @key(dst, since, src) { since: I64 }")
    graph.schema.apply(text)
    with graph.transaction() as tx:
        tx.insert("Person", name='"C"')
        tx.insert("Knows", from_='"C"', to="Bo", since=-1)
        tx.insert("LivesIn", from_="Bo", to="London")
    graph.branches.create("review/a")
    data = folder / "more.jsonl"
    data.write_text(
        '{"type": "Person", "data": {"name": "loaded", "age": 1}}\n'
        '{"edge": "Knows", "from": "loaded", "to": "Bo", "data": {"since": 2}}\n'
    )
    prepare(graph, data)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_fenced(folder: Path) -> None:
    """A small graph after a cleanup that removed files: fences on its branches, watermarks, a cutoff, and commits after that."""
    graph = og.init(folder / "graph", SCHEMA, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", ADA)
        tx.insert("Person", name="Bo", age=40)
    graph.branches.create("review/a")
    for number in range(5):
        with graph.transaction() as tx:
            tx.update("Person", "Bo", age=41 + number)
    with graph.transaction("review/a") as tx:
        tx.insert("City", name="London")
    graph.tags.create("v1", "main~2")
    retention = graph._repository.history.retention
    retention.store_now = lambda: time.time() + 1e6  # type: ignore[method-assign]  # hours later
    graph.maintenance.cleanup(keep=1)
    del retention.store_now
    with graph.transaction() as tx:
        tx.insert("Person", name="Di")
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    prepare(graph, data)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_inline(folder: Path) -> None:
    """A small graph whose newest rows stand in commits: inserted, replaced and removed there, and of stored versions; several
    commits in an entry; a fold between them; rows from before and after a schema change."""
    graph = og.init(folder / "graph", SCHEMA, actor="maker")
    with graph.transaction() as tx:
        tx.insert("Person", ADA)
        tx.insert("Person", name="Bo", age=40)
        tx.insert("City", name="London")
        tx.insert("Knows", from_="Ada", to="Bo", since=1833)
    graph.tags.create("v1")
    with graph.transaction() as tx:
        tx.insert("Person", ADA | {"name": "Cleo", "big": 2**53 - 1, "tags": [], "born": None})
        tx.insert("Knows", id="k", from_="Cleo", to="Ada", since=-(2**63))
        tx.insert("LivesIn", from_="Ada", to="London")
    with graph.transaction() as tx:
        tx.update("Person", "Bo", age=41)
        tx.update("Person", "Cleo", age=42)
    with graph.transaction() as tx:
        tx.delete("Person", "Cleo")
        tx.insert("LivesIn", from_="Bo", to="London")
    several_commits_in_one_entry(graph)
    os.environ[INLINE_BOUND] = "3"
    for number in range(6):
        with graph.transaction() as tx:
            tx.upsert("City", name=f"city {number}")
    del os.environ[INLINE_BOUND]
    text = SCHEMA.replace("age: I32?", "age: I64?  rank: I32 @default(7)").replace("  note: String? @index\n", "")
    graph.schema.apply(text, allow_data_loss=True)
    with graph.transaction() as tx:
        tx.insert("Person", name="Di", age=2**60, rank=1)
    graph.branches.create("review/a")
    with graph.transaction("review/a") as tx:
        tx.insert("City", name="Bonn")
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    prepare(graph, data)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def make_provisional(folder: Path) -> None:
    """A small graph with a load that died before it had made sure that cleanup left what its plan names."""
    graph = og.init(folder / "graph", SCHEMA, actor="maker")
    with graph.transaction() as tx:
        tx.insert("City", name="London")
    graph.tags.create("v1")
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    prepare(graph, data, until=Failpoint.RECOVERY_PLAN_PROVISIONAL)
    data.unlink()
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def keyed_writes() -> list[tuple[str, Any]]:
    """The names of cities and the write keys under which they were inserted."""
    return [(f"city {n}", f"key {n}" if n % 2 else ("sequence", n)) for n in range(9)]


def make(folder: Path) -> None:
    (folder / "objects").mkdir(parents=True)
    for name, data in stored().items():
        (folder / "objects" / name).write_bytes(data)
    made = og.init(folder / "graph", SCHEMA, actor="maker")
    store = open_store(str(folder / "graph"))
    history = History(store, made._repository.history.identity, max_tail=MAX_TAIL)
    graph = og.Graph(Repository(store, history, lambda: Tables(store.uri)))
    write(graph, folder)
    (folder / "expected.json").write_text(json.dumps(contents(graph), indent=1, ensure_ascii=False) + "\n")


def write(graph: og.Graph, folder: Path) -> None:
    with graph.transaction(actor="ann", message="the first two\nand a city ☃") as tx:
        tx.insert("Person", ADA)
        tx.insert("Person", name="Bo")
        tx.insert("City", name="London")
        tx.insert("Knows", from_="Ada", to="Bo", since=1833)
        tx.insert("LivesIn", from_="Ada", to="London")
    graph.maintenance.optimize(actor="ann")
    graph.tags.create("v1")
    graph.branches.create("review/a")
    for number in range(4):
        with graph.transaction("review/a") as tx:
            tx.insert("Person", name=f"p{number}", age=number, near=[float(number), 1.0, 2.0])
    with graph.transaction() as tx:
        tx.update("Person", "Bo", age=40)
        tx.insert("Person", name="Cy")
    saved, lineage.ANCESTRY_INLINE = lineage.ANCESTRY_INLINE, 1
    graph.branches.merge("review/a", actor="bob")
    lineage.ANCESTRY_INLINE = saved
    graph.branches.delete("review/a")
    graph.branches.create("review/a", "main~1")
    with graph.transaction("review/a") as tx:
        tx.delete("Person", "Cy")
    several_commits_in_one_entry(graph)
    data = folder / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded", "age": 1}}\n')
    graph.load(data, mode="append", branch="fresh", from_="main", engine="local", message="a branch and a load at once")
    sweep(graph, "swept")
    with graph.transaction() as tx:
        tx.delete("Person", "Ada")
    prepare(graph, data)
    data.unlink()


def several_commits_in_one_entry(graph: og.Graph) -> None:
    """Writers who meet publish together; sooner or later some do."""
    chain = graph._repository.history.chain
    round_ = 0
    while all(len(chain.read(MAIN, position).steps) < 2 for position in range(chain.head(MAIN).position + 1)):
        round_ += 1

        def insert(name: str) -> None:
            with graph.transaction() as tx:
                tx.insert("City", name=name)

        threads = [threading.Thread(target=insert, args=(f"city {round_}.{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def sweep(graph: og.Graph, branch: str) -> None:
    """A branch of which only the newest entry is left, and the one that a tag protects."""
    graph.branches.create(branch)
    for number in range(3):
        with graph.transaction(branch) as tx:
            tx.insert("City", name=f"swept {number}")
    graph.tags.create("kept", f"{branch}~1")
    sweep_chain(graph._repository.history, branch)


def prepare(
    graph: og.Graph, data: Path, once: str | None = None, until: Failpoint = Failpoint.RECOVERY_PLAN_WRITTEN
) -> None:
    """A load that died between staging and publishing."""
    arm(until, raising(FailpointReached()))
    try:
        graph.load(data, mode="append", engine="local", actor="loader", once=once)
    except FailpointReached:
        pass
    finally:
        disarm_all()


def contents(graph: og.Graph) -> dict[str, Any]:
    """What every commit that can be read holds, and what names it."""
    history = graph._repository.history
    states = {}
    for branch in history.chain.branches():
        for info in history.store.list(f"branches/{branch.replace('/', '%2F')}"):
            entry = history.chain.read(branch, 10**12 - 1 - int(info.key[-17:-5]))
            for snapshot in entry.snapshots():
                states[snapshot.commit.id] = state(graph, snapshot.commit.id)
    return {
        "branches": {
            branch.name: [commit.id for commit in graph.commits(branch.name)] for branch in graph.branches.list()
        },
        "tags": {tag.name: tag.head.id for tag in graph.tags.list()},
        "prepared": [prepared.commit_id for prepared in graph.recovery.list()],
        "states": dict(sorted(states.items())),
    }


def state(graph: og.Graph, revision: str) -> dict[str, list[Any]]:
    """The stored rows of each type, by id; what JSON lacks is text."""
    view = graph._repository.resolve(revision)
    rows = {key: table.read().to_pylist() for key in view.catalog.tables if (table := view.table(key)) is not None}
    found = {key: sorted(members, key=lambda row: str(row["id"])) for key, members in rows.items() if members}
    return dict(sorted(json.loads(json.dumps(found, default=str)).items()))


if __name__ == "__main__":
    here = Path(__file__).parent
    makers = {
        BASE: make,
        WRITE_KEYS: make_write_keys,
        EVOLVED: make_evolved,
        HARD_DROPS: make_hard_drops,
        EDGE_KEYS: make_edge_keys,
        EDGE_FAMILIES: make_edge_families,
        FENCES: make_fenced,
        INLINE_ROWS: make_inline,
        NULLABLE_FILLS: make_nullable_fills,
        PROVISIONAL_PLANS: make_provisional,
    }
    for name, maker in makers.items():
        if not (here / name).exists():
            maker(here / name)
