"""Real processes: writers, loads, mergers, copies, a pinned reader and cleaners at the same time, some of them killed. Nothing
that was acknowledged is lost, the graph and its copies are whole, and the space converges.

`OMNIGRAPH_CROWD_COMMITS=100 OMNIGRAPH_CROWD_S=600 OMNIGRAPH_CROWD_ENGINE=spark pytest -m soak -s tests/processes/test_cleanup_crowd.py` prints more.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from children import Child
from processes import short_times
from processes.cleanup_crowd import NAMES, SCHEMA, lines
from s3_server import S3Server

import omnigraph as og
from omnigraph.history import branches as branches_module, chain, retention, retention as leases
from omnigraph.indexing.adjacency import needed_adjacency
from omnigraph.indexing.kinds import is_first_version
from omnigraph.load import explaining
from omnigraph.maintenance import cleanup
from omnigraph.maintenance.reachable import Reachable

COMMITS = int(os.environ.get("OMNIGRAPH_CROWD_COMMITS", "60"))
ENGINE = os.environ.get("OMNIGRAPH_CROWD_ENGINE", "local")
SOAK_S = float(os.environ.get("OMNIGRAPH_CROWD_S", "1800"))
"""How long the soak goes on at least, on disk and on S3 each."""
SHOW_EVERY_S = 5.0


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chain, leases, retention, branches_module, cleanup, explaining):
        for name, value in short_times.TIMES.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


@dataclass
class Crowd:
    uri: str
    options: dict[str, str]
    folder: Path
    running: dict[str, Child] = field(default_factory=dict)

    def start(self, role: str, name: str, count: int = 0, engine: str = "local") -> None:
        program = Path(__file__).parent / "cleanup_crowd.py"
        arguments = [role, self.uri, json.dumps(self.options), str(self.folder), name, str(count), engine]
        self.running[name] = Child(program, *arguments)

    def noted(self, name: str, what: str) -> int:
        return sum(what in line for line in lines(self.folder / f"{name}.book"))

    def wait_for(self, name: str, what: str, count: int) -> None:
        """Until a process has noted so much, or is over."""
        while self.noted(name, what) < count and self.running[name].poll() is None:
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def finish(self, *names: str) -> None:
        for name in names:
            assert self.running[name].wait(timeout=600) == 0, name

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Prints files and bytes again and again until the end of the block."""
        start, is_over = time.monotonic(), threading.Event()

        def watch() -> None:
            while not is_over.wait(SHOW_EVERY_S):
                self.show(f"after {time.monotonic() - start:.0f} s")

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def begin_again(self) -> None:
        """New processes with new books, around the same graph."""
        self.stop_all()
        self.running = {}
        self.folder = self.folder / "again"
        self.folder.mkdir()

    def stop_all(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
            process.close()

    def graph(self) -> og.Graph:
        return og.open(self.uri, storage_options=self.options or None)

    def size(self) -> tuple[int, int]:
        infos = self.graph()._repository.store.list("")
        return len(infos), sum(info.size for info in infos)

    def show(self, when: str) -> tuple[int, int]:
        files, size = self.size()
        print(f"  {when:32} {files:6,} files {size:12,} bytes")
        return files, size


@pytest.fixture
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crowd]:
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        made = Crowd(f"s3://{s3.new_bucket()}/graph", dict(s3.options), tmp_path)
    else:
        made = Crowd(str(tmp_path / "graph"), {}, tmp_path)
    og.init(made.uri, SCHEMA, storage_options=made.options or None, durability="process")
    yield made
    made.stop_all()


def run_beside_cleaners(crowd: Crowd, writers: int, commits: int, loads: int, engine: str) -> None:
    names = [f"writer{number}" for number in range(writers)]
    loaders = ["loader0", "loader1"]
    print()
    with crowd.watched():
        for name in names:
            crowd.start("write", name, commits)
        for name in loaders:
            crowd.start("load", name, loads, engine)
        crowd.start("merge", "merger0")
        crowd.start("copy", "copier0")
        crowd.start("read", "reader")
        crowd.start("clean", "cleaner1")
        crowd.wait_for(names[0], "inserted", commits // 4)
        crowd.kill(names[0])
        crowd.kill("cleaner1")
        crowd.show("after the first kills")
        crowd.start("clean", "cleaner2")
        crowd.start("clean", "cleaner3")
        crowd.wait_for(names[1], "inserted", commits // 2)
        crowd.kill(names[1])
        crowd.wait_for(loaders[1], "loading", 2)
        crowd.kill(loaders[1])
        crowd.wait_for("merger0", "inserted", 2)
        crowd.kill("merger0")
        # No copy can follow while branches are merged and deleted faster than it is made.
        crowd.wait_for("copier0", "pushed", 1)
        crowd.kill("copier0")
        crowd.start("merge", "merger1")
        crowd.start("copy", "copier1")
        crowd.show("half way")
        crowd.finish(*names[2:], loaders[0])
        crowd.wait_for("merger1", "inserted", 2)
        crowd.kill("merger1")
        crowd.wait_for("copier1", "pushed", 1)
        crowd.show("writers are done")
        (crowd.folder / "stop").touch()
        crowd.finish("reader", "cleaner2", "cleaner3", "copier1")
    check_nothing_is_lost(crowd, [*names, *loaders, "merger0", "merger1"])
    for line in [line for name in ("copier0", "copier1") for line in lines(crowd.folder / f"{name}.book")]:
        if "cloned" in line:
            assert og.open(line["cloned"]).maintenance.verify(all=True, deep=True).findings == (), line
    check_space_converges(crowd)
    print(f"  cleanups {sum(crowd.noted(f'cleaner{number}', 'files') for number in (1, 2, 3))}", end="")
    print(f", reads {crowd.noted('reader', 'read')}, gaps {crowd.noted('reader', 'gap')}", end="")
    print(f", refused {sum(crowd.noted(name, 'refused') for name in names + loaders)}")


def check_nothing_is_lost(crowd: Crowd, names: list[str]) -> None:
    graph = crowd.graph()
    found = {row["name"] for row in graph.query(NAMES).rows}
    for name in names:
        noted = list(lines(crowd.folder / f"{name}.book"))
        deleted = {line["deleted"] for line in noted if "deleted" in line}
        inserted = {line["inserted"] for line in noted if "inserted" in line}
        # A process that was killed may have deleted what it only noted that it would.
        missing = inserted - {line["deleting"] for line in noted if "deleting" in line} - found
        assert not missing, (name, missing)
        assert not (deleted & found), name
    report = graph.maintenance.verify(all=True, deep=True)
    assert report.findings == (), report.findings


def check_space_converges(crowd: Crowd) -> None:
    """Cleanups until nothing waits any more: what is left is needed by the heads of branches, by what else the report names, and
    by the newest entry of each chain."""
    graph = crowd.graph()
    crowd.show("before the last cleanups")
    deadline = time.monotonic() + 120
    while (report := graph.maintenance.cleanup(older_than=0)).waiting.files or report.files:
        assert time.monotonic() < deadline, "the space does not converge"
        time.sleep(0.5)
    crowd.show("at the end")
    repository = graph._repository
    chain = repository.history.chain
    places = [(branch, position) for branch in chain.branches() for position in chain.positions(branch)]
    entries = [entry for place in places if (entry := chain.find(*place)) is not None]
    assert {f"branch {branch.name}": 1 for branch in graph.branches.list()}.items() <= {
        kept.name: kept.commits for kept in report.kept
    }.items()
    assert len(entries) <= len(chain.branches()) + sum(kept.commits for kept in report.kept), (places, report.kept)
    reach = Reachable(repository.files_of)
    reach.add_entries(entries)
    for prepared in repository.history.recovery.list():
        reach.add_plan(prepared.plan)
    keys = [info.key for folder in ("nodes", "edges") for info in repository.store.list(folder)]
    needed = reach.objects | needed_adjacency(repository.store, keys, reach.needs)
    assert [key for key in keys if not (key in needed or reach.needs(key) or is_first_version(key))] == []
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.parametrize("crowd", ["disk", pytest.param("s3", marks=pytest.mark.s3)], indirect=True)
def test_cleaners_beside_writers_loads_and_readers_lose_nothing(crowd: Crowd) -> None:
    run_beside_cleaners(crowd, writers=3, commits=12, loads=2, engine="local")


@pytest.mark.soak
@pytest.mark.parametrize("crowd", ["disk", "s3"], indirect=True)
def test_cleaners_beside_a_crowd_lose_nothing(crowd: Crowd) -> None:
    end = time.monotonic() + SOAK_S
    while True:
        run_beside_cleaners(crowd, writers=4, commits=COMMITS, loads=4, engine=ENGINE)
        if time.monotonic() > end:
            return
        crowd.begin_again()
