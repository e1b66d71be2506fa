"""Random histories with deaths: verification stays clean and acknowledged commits keep their content. See `adversary`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from health.adversary import TWO_HOURS, play

import omnigraph as og

HISTORIES = 3
STEPS = 20
SOAKED_HISTORIES = 60
SOAKED_STEPS = 45


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_whatever_happens_the_graph_stays_whole_and_commits_stay_as_they_were(seed: int, tmp_path: Path) -> None:
    play(tmp_path, seed, STEPS, check_every=10)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(SOAKED_HISTORIES))
def test_long_histories(number: int, tmp_path: Path) -> None:
    play(tmp_path, random.randrange(2**32), SOAKED_STEPS, check_every=4)


def aged(folder: Path) -> None:
    """As if everything had been written two hours ago."""
    for file in folder.rglob("*"):
        then = file.stat().st_mtime - TWO_HOURS
        os.utime(file, (then, then))


def test_a_commit_is_pushed_though_the_one_before_it_was_cleaned_away(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }", durability="process")
    for name in ("Ada", "Bo"):
        with graph.transaction() as tx:
            tx.upsert("Person", name=name)
        if name == "Ada":
            og.clone(tmp_path / "graph", tmp_path / "copy")
    aged(tmp_path / "graph")
    graph.maintenance.cleanup(keep=1)
    assert graph.push(tmp_path / "copy").commits == {"main": 1}
    copy = og.open(tmp_path / "copy")
    assert copy.snapshot().types[0].entities == 2
    assert copy.maintenance.verify(all=True, deep=True).is_whole


def test_a_tagged_commit_of_a_branch_that_was_cleaned_away_is_found_by_its_id(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }", durability="process")
    graph.branches.create("work")
    for name in ("Ada", "Bo"):
        with graph.transaction("work") as tx:
            tx.insert("Person", name=name)
    tagged = graph.show("work~1").id
    graph.tags.create("kept", tagged)
    graph.branches.delete("work", force=True)
    graph.branches.create("work")
    aged(tmp_path / "graph")
    graph.maintenance.cleanup(keep=1)
    fresh = og.open(tmp_path / "graph")
    assert fresh.show(tagged).id == fresh.show(tagged[:20]).id == tagged
    assert [
        row["name"]
        for row in fresh.query("query q() { match { $p: Person } return { $p.name as name } }", revision=tagged)
    ] == ["Ada"]
