"""What programs that prepare a cluster for a client's tests rely on: the smallest file, the verbs in their order, the lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.cluster.applying import utc_now
from omnigraph.cluster.policies import books_of

CLUSTER = """version: 1
graphs:
  alpha:
    schema: ./schema.pg
    queries: [./queries.gq]
"""


def test_a_driver_plans_applies_looks_for_a_lock_and_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "schema.pg").write_text("node Person { name: String @key  age: I32? }")
    (tmp_path / "queries.gq").write_text("query all_people() { match { $p: Person } return { $p.name } }")
    (tmp_path / "data.jsonl").write_text('{"type": "Person", "data": {"name": "Ada", "age": 36}}\n')

    def printed(*words: str) -> str:
        assert run([*words]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    cluster = ("--config", str(tmp_path))
    assert json.loads(printed("cluster", "plan", *cluster, "--as", "default", "--json"))["name"] == tmp_path.name
    assert json.loads(printed("cluster", "apply", *cluster, "--as", "default", "--json"))["converged"]

    def lock() -> object:
        return json.loads(printed("cluster", "status", *cluster, "--json"))["state_observations"]

    assert lock() == {"locked": False, "lock_id": None}
    books_of(str(tmp_path)).lock("held", "apply", None, utc_now())
    assert lock() == {"locked": True, "lock_id": "held"}
    printed("cluster", "force-unlock", *cluster, "held", "--json")
    assert lock() == {"locked": False, "lock_id": None}

    place = tmp_path / "graphs" / "alpha.omni"
    printed("--as", "default", "load", "--data", str(tmp_path / "data.jsonl"), "--mode", "overwrite", str(place))
    assert og.open(place).show("main").actor == "default"
