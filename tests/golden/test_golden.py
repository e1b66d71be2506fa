"""Graphs that were written before: they open, are read in full, and can be written to, for ever."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from golden import fixed_values
from golden.make import ADD_CITY, contents, keyed_writes, state

import omnigraph as og
from omnigraph.errors import StagedTooLongAgo, UnsupportedFormat
from omnigraph.features import BASE, KNOWN, PROVISIONAL_PLANS, WRITE_KEYS
from omnigraph.history.envelope import seal, unseal

HERE = Path(__file__).parent
GOLDEN = sorted(folder for folder in HERE.iterdir() if (folder / "graph").is_dir())


@pytest.fixture(params=GOLDEN, ids=lambda folder: folder.name)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: nobody writes to the stored one."""
    shutil.copytree(request.param, tmp_path / "golden")
    return tmp_path / "golden"


def test_every_feature_has_a_golden_graph() -> None:
    assert {folder.name for folder in GOLDEN} == KNOWN


def test_a_golden_graph_is_read_in_full(golden: Path) -> None:
    graph = og.open(golden / "graph", verify="full")
    expected = json.loads((golden / "expected.json").read_text())
    assert contents(graph) == expected
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_a_second_reader_written_from_the_documentation_reads_the_same(golden: Path) -> None:
    """It knows JSON and Lance, and nothing of OmniGraph."""
    program = f"import sys, runpy; sys.modules['omnigraph'] = None; runpy.run_path({str(HERE / 'reader.py')!r}, run_name='__main__')"
    ran = subprocess.run(
        [sys.executable, "-c", program, str(golden / "graph")],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == json.loads((golden / "expected.json").read_text())


@pytest.mark.parametrize(
    "golden",
    [folder for folder in GOLDEN if folder.name != PROVISIONAL_PLANS],
    indirect=True,
    ids=lambda folder: folder.name,
)
def test_a_golden_graph_can_be_written_to(golden: Path) -> None:
    graph = og.open(golden / "graph")
    before = state(graph, "main")
    (prepared,) = graph.recovery.list()
    assert graph.recovery.resume(prepared.commit_id).id == prepared.commit_id
    with graph.transaction() as tx:
        tx.insert("Person", name="later")
    graph.branches.merge("review/a", strategy="theirs")
    graph.maintenance.optimize()
    names = {row["name"] for row in state(graph, "main")["node:Person"]}
    assert names == {row["name"] for row in before.get("node:Person", [])} - {"Cy"} | {"loaded", "later"}
    og.open(golden / "graph", verify="full")


def test_a_provisional_plan_of_a_golden_graph_is_not_published(tmp_path: Path) -> None:
    shutil.copytree(HERE / PROVISIONAL_PLANS, tmp_path / "golden")
    graph = og.open(tmp_path / "golden" / "graph")
    (prepared,) = graph.recovery.list()
    with pytest.raises(StagedTooLongAgo):
        graph.recovery.resume(prepared.commit_id)
    graph.recovery.discard(prepared.commit_id)
    assert [commit.kind for commit in graph.commits()] == ["mutation", "init"]


def test_the_write_keys_of_a_golden_graph_are_known(tmp_path: Path) -> None:
    shutil.copytree(HERE / WRITE_KEYS, tmp_path / "golden")
    graph = og.open(tmp_path / "golden" / "graph")
    made = json.loads((tmp_path / "golden" / "keys.json").read_text())
    assert len(graph._repository.history.chain.head("main").key_objects) == 1
    for (name, once), commit_id in zip(keyed_writes(), made, strict=True):
        receipt = graph.mutate(ADD_CITY, {"name": name}, once=once)
        assert (receipt.repeated, receipt.commit and receipt.commit.id) == (True, commit_id)


@pytest.mark.parametrize("member", ["features", "write_features"])
def test_a_graph_that_needs_more_is_refused_by_the_name_of_the_feature(member: str, golden: Path) -> None:
    newest = sorted((golden / "graph" / "branches" / "main").iterdir())[0]
    value = unseal(newest.name, newest.read_bytes())
    del value["checksum"]
    newest.write_bytes(seal({**value, member: [*value.get(member, []), "rows-in-steps"]}))

    def write() -> None:
        with graph.transaction() as tx:
            tx.insert("Person", name="later")

    graph = og.open(golden / "graph")
    if member == "write_features":
        assert state(graph, "main")
    with pytest.raises(UnsupportedFormat, match="the feature 'rows-in-steps'") as caught:
        state(graph, "main") if member == "features" else write()
    assert caught.value.features == ("rows-in-steps",)


@pytest.mark.parametrize("name", fixed_values.stored())
def test_the_bytes_of_a_value_are_those_of_the_golden_file(name: str) -> None:
    """When this fails, the format has changed: what an old reader cannot read needs a feature, and that a golden graph."""
    assert fixed_values.stored()[name].decode() == (HERE / BASE / "objects" / name).read_text()


@pytest.mark.parametrize("name", fixed_values.READ_BACK)
def test_the_bytes_of_a_value_read_back_as_the_value(name: str) -> None:
    assert fixed_values.READ_BACK[name]((HERE / BASE / "objects" / name).read_bytes())
