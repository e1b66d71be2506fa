"""Applies in processes of their own: killed in the middle, racing each other, and over an object store."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from children import run_killed
from s3_server import S3Server

import omnigraph as og
from omnigraph.cluster.applying import apply, approve, plan
from omnigraph.cluster.config import read_config
from omnigraph.cluster.ledger import LedgerStore
from omnigraph.cluster.policies import read_applied, root_of
from omnigraph.errors import ClusterConflict
from omnigraph.storage.options import open_store

APPLY = """
import sys
from omnigraph.cli.main import run

sys.exit(run(["cluster", "apply", "--config", sys.argv[1]]))
"""
SCHEMA = "node Person { name: String @key }\n"


def write(folder: Path, graphs: str, *, storage: str = "store", lock: str = "true", schema: str = SCHEMA) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "people.pg").write_text(schema)
    listed = ", ".join(f"{name}: {{schema: people.pg}}" for name in graphs.split())
    (folder / "cluster.yaml").write_text(
        f"version: 1\nmetadata: {{name: demo}}\nstorage: {storage}\nstate: {{lock: {lock}}}\ngraphs: {{{listed}}}\n"
    )
    return folder


@pytest.mark.parametrize(("point", "nth"), [("init.before_first_commit", 2), ("publish.before_create", 1)])
def test_a_killed_apply_leaves_its_lock_and_is_finished_by_the_next(tmp_path: Path, point: str, nth: int) -> None:
    folder = write(tmp_path / "c", "people")
    apply(read_config(folder))
    write(folder, "people cities more", schema="node Person { name: String @key age: I32? }\n")
    run_killed(APPLY, str(folder), point=point, nth=nth)
    config = read_config(folder)
    with pytest.raises(ClusterConflict, match="locked by 'apply'"):
        apply(config)
    books = LedgerStore(open_store(config.root))
    held = books.holder()
    assert held is not None
    books.unlock(held["id"])
    assert apply(config).converged
    for graph in config.graphs.values():
        assert "age" in og.open(graph.uri).schema.catalog.nodes["Person"].properties


@pytest.mark.parametrize("lock", ["true", "false"])
def test_of_many_that_apply_at_once_each_wins_or_is_told(tmp_path: Path, lock: str) -> None:
    folder = write(tmp_path / "c", "people cities", lock=lock)
    config = read_config(folder)
    start, told = threading.Barrier(4), []

    def run() -> None:
        start.wait()
        try:
            told.append("converged" if apply(config).converged else "not")
        except ClusterConflict as error:
            told.append(error.reason)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "converged" in told
    assert set(told) <= {"converged", "state_lock_held" if lock == "true" else "state_cas_mismatch"}
    applied = read_applied(config.root)
    assert (applied.revision, set(applied.graphs)) == (1, {"people", "cities"})


@pytest.mark.s3
def test_a_cluster_over_an_object_store(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)
    folder = write(tmp_path / "c", "people", storage=f"s3://{s3.new_bucket()}/company")
    config = read_config(folder)
    assert apply(config).converged
    assert plan(config).converged
    assert set(read_applied(root_of(config.root)).graphs) == {"people"}
    none = read_config(write(folder, "", storage=config.root))
    approve(none, "graph.people", "ada")
    assert apply(none).converged
    with pytest.raises(og.errors.GraphNotFound):
        og.open(config.graphs["people"].uri)


@pytest.mark.s3
def test_a_repeated_request_that_is_refused_is_read_back(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request was applied and its answer lost; the refusal of the next one says nothing about the first."""
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)
    config = read_config(write(tmp_path / "c", "people", storage=f"s3://{s3.new_bucket()}/company"))
    for key in ("*/lock.json", "*/ledger/*"):
        s3.fault("answer_lost", method="PUT", key=key)
        s3.fault("refused", method="PUT", key=key, status=403, code="AccessDenied")
    assert apply(config).converged
    assert plan(config).converged
