"""The memory of a read: what its engines, its arrays and its rows take together is bounded by the memory of its graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph._internal.runtime import MIN_WORKING_BYTES, Runtime, WorkingMemory
from omnigraph.errors import ResourceExhausted
from omnigraph.relational import duck

ROWS, HUBS = 400, 20
SCHEMA = "node Page { name: String @key  text: String }\nedge Links: Page -> Page"
PAIRS = "query q() { match { $a: Page $b: Page } return { $a.text as a, $b.text as b } }"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    graph = og.init(folder / "g", SCHEMA)
    records: list[object] = [{"type": "Page", "data": {"name": f"p{n}", "text": "x" * 600}} for n in range(ROWS)]
    records += [{"edge": "Links", "from": f"p{n}", "to": f"p{hub}"} for n in range(ROWS) for hub in range(HUBS)]
    records += [{"edge": "Links", "from": f"p{hub}", "to": f"p{n}"} for n in range(ROWS) for hub in range(HUBS)]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(folder / "x.jsonl", mode="append", engine="local")
    return folder / "g"


def test_a_result_beyond_the_memory_of_its_graph_is_refused_and_leaves_nothing_taken(place: Path) -> None:
    runtime = og.Runtime(memory=MIN_WORKING_BYTES)
    with og.open(place, runtime=runtime) as graph:
        for _ in range(2):
            with pytest.raises(ResourceExhausted) as caught:
                graph.query(PAIRS)
            assert "--memory" in (caught.value.hint or "")
        assert len(graph.query(f"{PAIRS[:-2]} limit 1000 }}")) == 1_000
        with pytest.raises(ResourceExhausted):
            graph.sql("SELECT a.text AS a, b.text AS b FROM Page a, Page b")
    assert runtime.work._taken == 0
    with og.open(place, runtime=og.Runtime(memory="2GiB")) as graph:
        assert len(graph.query(PAIRS)) == ROWS * ROWS


def test_a_walk_beyond_the_memory_of_its_graph_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = og.Runtime(memory=MIN_WORKING_BYTES)
    text = "query q() { match { $a: Page $a links{1,3} $b } return { $a.name as a, $b.name as b } limit 5 }"
    with og.open(place, runtime=runtime) as graph:
        assert len(graph.query(text)) == 5
        monkeypatch.setattr(runtime.work, "array_bytes", 2**20)
        with pytest.raises(ResourceExhausted, match="more than 1 MiB"):
            graph.query(text)
    assert runtime.work._taken == 0


def test_the_engines_of_reads_have_what_the_memory_of_the_graph_leaves_them() -> None:
    work = Runtime("1GiB").work
    assert work.array_bytes + work.query_bytes + work.sql_bytes == work.capacity == 2**30
    assert WorkingMemory(0).capacity == MIN_WORKING_BYTES
    for database, size in ((duck.queries, work.query_bytes), (duck.users_sql, work.sql_bytes)):
        with database(size).connections.borrow() as connection:
            limit = connection.sql("SELECT current_setting('memory_limit')").fetchall()[0][0]
        assert limit == f"{size / 2**20:.1f} MiB"
