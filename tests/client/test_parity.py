"""`og.open` and `og.connect`, method by method: each answers the same on a sample graph, or stands in a list with the reason."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from client.conftest import TOKEN, serving
from serving import ADD, ALL, SCHEMA, Fixed, tokens

import omnigraph as og
from omnigraph import errors
from omnigraph.client.graph import RemoteGraph
from omnigraph.client.state import MAINTENANCE_REFUSED, REFUSED, SCHEMA_REFUSED
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

OWN = ("engine", "engine_reason", "seconds", "stages", "at")
"""Members of receipts that say where and when something was done."""
IDS = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")


def exported(write: Callable[[BytesIO], object]) -> tuple[object, list[bytes]]:
    """What is told, and the lines, which come in an order of their own."""
    out = BytesIO()
    told = write(out)
    return told, sorted(out.getvalue().splitlines())


READS: dict[str, Callable[[Any], Any]] = {
    "query": lambda g: (g.query(ALL).rows, g.query(ALL, revision="main~1").rows, g.query(ALL).columns),
    "explain": lambda g: g.explain(ALL).choices,
    "entity": lambda g: (g.entity("Person", "Ada"), g.entity("Knows", "ada-bo"), g.entity("Person", "Nobody")),
    "history": lambda g: [(each.commit.id, each.value) for each in g.history("Person", "Ada")],
    "snapshot": lambda g: (g.snapshot().types, g.snapshot().schema.hash),
    "indexes": lambda g: g.indexes(),
    "schema": lambda g: g.schema.catalog.hash,
    "lint": lambda g: g.lint(ALL),
    "commits": lambda g: [
        (each.id, each.kind, each.at, each.actor) for each in (*g.commits(), *g.commits(kind="load"))
    ],
    "head": lambda g: (g.head().id, g.head("main").at),
    "show": lambda g: (g.show().id, g.show("main~1").at),
    "diff": lambda g: list(g.diff("main~1", "main")),
    "diff_stat": lambda g: g.diff_stat("main~1", "main"),
    "commit_changes": lambda g: g.commit_changes("main").changes,
    "changes": lambda g: [block.changes for block in g.changes(start="beginning").blocks],
    "export": lambda g: exported(g.export),
    "export_stream": lambda g: [
        b"".join(g.export_stream(types=["City"], format=format)) for format in ("jsonl", "csv", "parquet", "arrow")
    ],
    "baseline": lambda g: exported(lambda out: g.baseline(out).entities)[0],
    "baseline_stream": lambda g: b"".join(g.baseline_stream()).count(b"\n"),
    "wait_for_change": lambda g: (
        g.wait_for_change(since=g.show("main~1").id).id,
        g.wait_for_change(since=g.head().id, timeout=0.05),
    ),
    "branches": lambda g: [each.name for each in g.branches.list()],
    "tags": lambda g: g.tags.list(),
    "recovery": lambda g: g.recovery.list(),
    "maintenance": lambda g: (
        g.maintenance.storage(),
        g.maintenance.cleanup(keep=1, older_than=dt.timedelta(days=1), branches=["main"], dry_run=True),
    ),
}
"""Asked of one graph both ways."""


def _files(folder: Path) -> list[Path]:
    (folder / "City.csv").write_text("name\nRome\nKiel\n")
    (folder / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Eve", "age": 5}}\n')
    return [folder / "City.csv", folder / "more.jsonl"]


def _frames() -> dict[str, Any]:
    import pyarrow as pa

    return {
        "Person": pa.table({"name": ["Fay"], "age": pa.array([9], pa.int32())}),
        "City": pa.table({"name": ["Bern"]}),
    }


WRITES: dict[str, Callable[[Any, Path], Any]] = {
    "mutate": lambda g, _: g.mutate(ADD, {"name": "Cy"}, message="m"),
    "load": lambda g, folder: [
        g.load(_files(folder), mode="merge", engine=engine_of(g)),
        g.load(_frames(), mode="merge", engine=engine_of(g)),
        g.load(folder / "City.csv", mode="merge", type="City", delimiter=",", engine=engine_of(g)),
    ],
    "schema": lambda g, _: g.schema.apply(SCHEMA.replace("born:", "height: F64?  born:")).commit,
    "maintenance": lambda g, _: (
        g.maintenance.optimize(dry_run=True),
        g.maintenance.optimize(),
        g.maintenance.cleanup(keep=1).is_dry_run,
        g.maintenance.cleanup(branches=["main"]).removed,
    ),
    "branches": lambda g, _: (
        g.branches.create("review").name,
        g.branches.exists("review"),
        g.branches.merge("review"),
        g.branches.delete("review", force=True),
    ),
    "tags": lambda g, _: (g.tags.create("v1").name, g.tags.delete("v1")),
}
"""Done to two copies of one graph."""
EXCEPTIONS = {
    **REFUSED,
    "blob": "tests/client/test_graph.py has Blobs, which this graph has not",
    "uri": "the address is another one",
    "close": "it answers nothing",
    "stored_queries": "only a server keeps queries",
}


def engine_of(graph: Any) -> str:
    return "local" if isinstance(graph, og.Graph) else "auto"


@pytest.fixture
def both(people: Path, tmp_path: Path) -> Iterator[tuple[og.Graph, og.Graph, RemoteGraph]]:
    """The served graph as it is opened, a copy of it, and the graph through its server."""
    copy = og.open(shutil.copytree(people, tmp_path / "copy" / "people")).as_("ada")
    source = Fixed({"people": people}, (tokens(ada=TOKEN),))
    with (
        serving(Application(source, source.load(), log=RequestLog("json", StringIO()))) as url,
        og.connect(url, graph="people", token=TOKEN) as remote,
    ):
        yield og.open(people), copy, remote


def shown(value: Any) -> str:
    """As text, without ids, times, actors, engines and places in storage."""

    def plain(value: Any) -> Any:
        if isinstance(value, og.types.Commit):
            return (value.kind, value.actor, value.message, value.ref.branch, value.ref.seq)
        if is_dataclass(value) and not isinstance(value, type):
            return {
                "": type(value).__name__,
                **{name: plain(getattr(value, name)) for name in vars(value) if name not in OWN},
            }
        if isinstance(value, dict):
            return {name: plain(item) for name, item in sorted(value.items())}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    names: dict[str, str] = {}
    return IDS.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), repr(plain(value)))


def test_every_method_is_compared_or_excepted_with_a_reason() -> None:
    def names(*kinds: type) -> set[str]:
        return {name for kind in kinds for name in dir(kind) if not name.startswith("_")}

    assert names(og.Graph, RemoteGraph) == READS.keys() | WRITES.keys() | EXCEPTIONS.keys()
    for local, served, refused in (
        (og.types.GraphSchema, og.types.RemoteSchema, SCHEMA_REFUSED),
        (og.types.GraphMaintenance, og.types.RemoteMaintenance, MAINTENANCE_REFUSED),
    ):
        assert names(local) == names(served) | refused.keys()
        assert not names(served) & refused.keys()
    assert not (READS.keys() | WRITES.keys()) & EXCEPTIONS.keys()
    assert all(len(reason) > 10 for reason in EXCEPTIONS.values())


def test_reads_answer_the_same_both_ways(both: tuple[og.Graph, og.Graph, RemoteGraph]) -> None:
    local, _, remote = both
    for name, ask in READS.items():
        assert ask(remote) == ask(local), name


def test_writes_answer_the_same_both_ways(both: tuple[og.Graph, og.Graph, RemoteGraph], tmp_path: Path) -> None:
    _, copy, remote = both
    for name, write in WRITES.items():
        assert shown(write(remote, tmp_path)) == shown(write(copy, tmp_path)), name
    assert remote.query(ALL).rows == copy.query(ALL).rows


def test_a_bad_file_is_named_as_it_is_called_here(both: tuple[og.Graph, og.Graph, RemoteGraph], tmp_path: Path) -> None:
    _, copy, remote = both
    bad = tmp_path / "Person.csv"
    bad.write_text("name,age\nGil,old\n")
    told = []
    for graph in (remote, copy):
        with pytest.raises(errors.InputError) as refused:
            graph.load(bad, mode="merge", engine=engine_of(graph))  # type: ignore[arg-type]
        told.append((type(refused.value), refused.value.to_json()["details"]))
    assert told[0] == told[1]
    assert str(bad) in str(told[0])
    for wrong in ([str(tmp_path / "nowhere.csv")], 7, {"Person": "no frame"}, {"Nobody": None}, ["s3://x/City.csv"]):
        with pytest.raises(errors.UsageError):
            remote.load(wrong, mode="merge")  # type: ignore[arg-type]


def test_a_wait_ends_when_somebody_writes(both: tuple[og.Graph, og.Graph, RemoteGraph]) -> None:
    import threading

    local, _, remote = both
    before = local.head()
    writer = threading.Thread(target=lambda: local.mutate(ADD, {"name": "Late"}, actor="ada"))
    writer.start()
    found = remote.wait_for_change(since=before.id, timeout=60)
    writer.join()
    assert found is not None
    assert found.id == local.head().id
