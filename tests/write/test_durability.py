"""What a commit names is on the disk before the commit is: files first, then the entry that makes them visible."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.testing.failpoints import Failpoint, arm

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


class Disk:
    """Which paths were synced, and whether everything a commit names was among them when its entry appeared."""

    def __init__(self, graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graph = graph
        self.root = Path(graph.uri)
        self.synced: set[str] = set()
        self.named: set[str] = set()
        """What the folders held when they were synced."""
        self.checked = 0
        self._real_sync, self._real_link = os.fsync, os.link
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(os, "link", self._link)

    def _sync(self, handle: int) -> None:
        self._real_sync(handle)
        path = Path(f"/proc/self/fd/{handle}").readlink()
        self.synced.add(str(path))
        if path.is_dir():
            self.named.update(str(entry) for entry in path.iterdir())

    def _link(self, temporary: str, path: str, **options: Any) -> None:
        # A file that has no name yet is linked by its handle.
        synced_as = os.readlink(temporary) if temporary.startswith("/proc/") else temporary
        assert synced_as in self.synced, "the entry's own bytes"
        if "/branches/" in path:
            for needed in self._named_by(Path(temporary)):
                assert str(needed) in self.synced, f"{needed.relative_to(self.root)} is named but may be lost"
                for name in (needed, *needed.relative_to(self.root).parents):
                    assert name == Path() or str(self.root / name) in self.named, f"{name} has no durable name"
            self.checked += 1
        self._real_link(temporary, path, **options)

    def _named_by(self, entry: Path) -> Iterator[Path]:
        """Files of the versions that this entry is the first to name."""
        from omnigraph.history.chain import decode_entry

        for step in decode_entry(entry.read_bytes(), entry.name).steps:
            for state in step.tables.values():
                assert state is not None
                table = self.root / state.path
                yield table / "_versions" / f"d{state.version}.manifest"
                for fragment in self.graph._repository.tables.open(state.path, state.version).fragments:
                    yield from (table / "data" / file for file in fragment.files)
                    if fragment.deletions:
                        yield table / fragment.deletions


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(og.init(tmp_path / "graph", schema=SCHEMA), monkeypatch)


def test_every_kind_of_write(disk: Disk) -> None:
    graph = disk.graph
    for number in range(12):
        with graph.transaction() as tx:
            tx.insert("Person", name=f"p{number}")
            tx.insert("Knows", from_=f"p{number}", to="p0")
    with graph.transaction() as tx:
        tx.update("Person", "p3", age=3)
        tx.upsert("Person", name="p4", age=4)
        tx.delete("Person", "p5")
    assert disk.checked == 13


def test_what_lost_its_place_and_was_put_on_a_newer_version(disk: Disk) -> None:
    """Another writer, with a queue of its own, is first while this one stands before its create."""
    other = og.Graph(disk.graph._repository)

    def be_first() -> None:
        with other.transaction() as tx:
            tx.insert("Person", name="first")

    with disk.graph.transaction() as tx:
        tx.insert("Person", name="second")
        arm(Failpoint.PUBLISH_BEFORE_CREATE, be_first)
    assert disk.checked >= 2
    assert disk.graph._repository.resolve("main").rows("node:Person") == 2
