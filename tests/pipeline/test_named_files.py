"""Files that a load writes tell what they hold, whoever wrote them: tasks on workers name their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import Write

import omnigraph as og
from omnigraph.load import assembly
from omnigraph.tables import digests


@pytest.mark.usefixtures("staged_loads")
def test_every_file_of_a_load_carries_its_digest(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "IN_PROCESS_ROWS", 0)
    monkeypatch.setattr(assembly, "MIN_INDEX_ROWS", 1)
    people = [{"type": "Person", "data": {"email": f"p{number}", "age": number}} for number in range(30)]
    graph.load(write("first.jsonl", *people), mode="append", **engine)
    older = [{"type": "Person", "data": {"email": f"p{number}", "age": 50}} for number in range(9)]
    graph.load(write("second.jsonl", *older), mode="merge", **engine)
    view = graph._repository.resolve("main")
    table = view.table("node:Person")
    assert table is not None
    deletions = {fragment.deletions for fragment in table.fragments} - {""}
    segments = [segment for index in table.dataset.describe_indices() for segment in index.segments]
    assert deletions
    assert segments
    assert all(digests.data_digest(name) for fragment in table.fragments for name in fragment.files)
    assert all(digests.deletions_digest(name) for name in deletions)
    assert all(digests.index_digest(str(segment.uuid)) for segment in segments)
    assert all(state.digest for state in view.snapshot.tables.values())
    og.open(tmp_path / "graph", verify="full")
