"""Merge bases, against a model that walks the whole graph of commits."""

from __future__ import annotations

import itertools
import random

import pytest
from history.small_graph import SmallGraph
from history.sweeping import sweep_all

from omnigraph.errors import BranchNotMerged, HistoryGap
from omnigraph.history import lineage as lineage_module
from omnigraph.history.values import Commit, Entry


def bases(graph: SmallGraph, a: str, b: str) -> list[str]:
    return [commit.id for commit, _ in graph.history.lineage.merge_bases(graph.head(a), graph.head(b))]


def test_linear_and_forked() -> None:
    graph = SmallGraph()
    fork = graph.commits(3)[-1]
    graph.branch("x")
    assert bases(graph, "main", "x") == [fork.id]
    ahead = graph.commits(2, "x")
    assert bases(graph, "main", "x") == bases(graph, "x", "main") == [fork.id]
    graph.commits(2)
    assert bases(graph, "main", "x") == [fork.id]
    assert bases(graph, "x", "x") == [ahead[-1].id]


def test_after_a_merge_the_merged_head_is_the_base() -> None:
    graph = SmallGraph()
    graph.commit()
    graph.branch("x")
    merged = graph.commits(2, "x")[-1]
    graph.commit()
    merge = graph.merge("x", "main")
    assert bases(graph, "main", "x") == [merged.id]
    graph.commits(2, "x")
    graph.commits(2)
    assert bases(graph, "main", "x") == [merged.id]
    graph.merge("main", "x")
    assert bases(graph, "main", "x") == [graph.head().head.commit.id]
    assert merge.parents[1] == merged.ref


def test_criss_cross_has_two_bases() -> None:
    graph = SmallGraph()
    graph.commit()
    graph.branch("x")
    on_main, on_x = graph.commit(), graph.commit("x")
    main_ref, x_ref = on_main.ref, on_x.ref
    graph.commit("x", kind="merge", merged=main_ref)
    graph.commit(kind="merge", merged=x_ref)
    graph.commit()
    graph.commit("x")
    assert set(bases(graph, "main", "x")) == {on_main.id, on_x.id}


def test_a_third_branch_merged_into_both_is_the_base() -> None:
    graph = SmallGraph()
    graph.commit()
    for name in ("x", "y", "z"):
        graph.branch(name)
        graph.commit(name)
    third = graph.head("z").head.commit
    graph.merge("z", "x")
    graph.merge("z", "y")
    graph.commits(2, "x")
    assert bases(graph, "x", "y") == [third.id]


def test_a_branch_at_an_older_commit() -> None:
    graph = SmallGraph()
    older = graph.commits(5)[2]
    graph.branch("x", at=graph.history.revisions.snapshot(older.ref))
    assert bases(graph, "main", "x") == [older.id]
    graph.commit("x")
    assert bases(graph, "main", "x") == [older.id]


def test_a_branch_in_the_middle_of_a_group() -> None:
    graph = SmallGraph()
    group = graph.group(3)
    graph.branch("x", at=graph.history.revisions.snapshot(group[0].ref))
    graph.commit("x")
    graph.commit()
    assert bases(graph, "main", "x") == [group[0].id]


def test_a_base_on_a_deleted_branch_whose_records_are_rolled_up() -> None:
    graph = SmallGraph(max_tail=2)
    graph.commits(20)
    graph.branch("gone")
    merged = graph.commits(3, "gone")[-1]
    graph.branch("x")
    graph.merge("gone", "main")
    graph.merge("gone", "x")
    graph.history.branches.delete("gone", force=True)
    graph.branch("gone")
    graph.commits(4, "gone")
    graph.commits(10)
    graph.commits(10, "x")
    assert bases(graph, "main", "x") == [merged.id]


def test_search_of_a_line_reads_a_logarithm_of_it() -> None:
    graph = SmallGraph(max_tail=1)
    graph.commits(3)
    for _ in range(40):
        graph.group(3)
    at = list(graph.history.log.walk(graph.head()))[80]
    newest = graph.head().position
    graph.store.reset()
    assert graph.history.lineage.commit_at(at.ref.incarnation, at.ref.seq, newest) == at.ref
    assert graph.store.snapshot().requests <= 8
    with pytest.raises(HistoryGap):
        graph.history.lineage.commit_at(at.ref.incarnation, 10_000, newest)


def test_bases_are_found_in_few_requests_in_a_long_history() -> None:
    graph = SmallGraph(max_tail=16)
    fork = graph.commits(10)[-1]
    graph.branch("x")
    graph.commits(300)
    graph.commits(100, "x")
    a, b = graph.head(), graph.head("x")
    graph.store.reset()
    assert [commit.id for commit, _ in graph.history.lineage.merge_bases(a, b)] == [fork.id]
    assert graph.store.snapshot().requests <= 12


def test_more_lines_than_an_entry_holds_are_stored_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_module, "ANCESTRY_INLINE", 8)
    graph = SmallGraph()
    graph.commit()
    tips = []
    for number in range(20):
        graph.branch(f"b{number}")
        tips.append(graph.commit(f"b{number}"))
        graph.merge(f"b{number}", "main")
    head = graph.head()
    assert head.ancestry.stored is not None
    assert len(head.ancestry.reached) <= 8
    assert len(graph.history.lineage.reached(head.ancestry)) == 21
    for number, tip in enumerate(tips):
        graph.commit(f"b{number}")
        assert bases(graph, "main", f"b{number}") == [tip.id]


def test_a_real_number_of_incarnations() -> None:
    graph = SmallGraph()
    graph.commit()
    for number in range(140):
        graph.branch(f"b{number}")
        graph.commit(f"b{number}")
        graph.merge(f"b{number}", "main")
    assert graph.head().ancestry.stored is not None
    assert bases(graph, "main", "b3") == [graph.head("b3").head.commit.id]


def test_an_older_commit_of_a_group_reaches_less_even_when_lines_are_stored_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lineage_module, "ANCESTRY_INLINE", 0)
    graph = SmallGraph()
    group = graph.group(3)
    graph.branch("x", at=graph.history.revisions.snapshot(group[0].ref))
    graph.commit("x")
    assert bases(graph, "main", "x") == [group[0].id]


# ---------------------------------------------------------------- against a model


def ancestors(known: dict[str, Commit], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += [parent.id for parent in known[each].parents]
    return found


def expected_bases(known: dict[str, Commit], a: Entry, b: Entry) -> set[str]:
    common = ancestors(known, a.head.commit.id) & ancestors(known, b.head.commit.id)
    below = {up for each in common for up in ancestors(known, each) - {each}}
    return common - below


def delete_counting(graph: SmallGraph, known: dict[str, Commit], branch: str) -> None:
    """Delete a branch, which is refused first if commits would be left; their number is that of a full walk."""
    heads = [entry.head.commit.id for entry in graph.history.branches.list() if entry.branch != branch]
    kept = {up for id in heads for up in ancestors(known, id)}
    kept |= {up for ref in graph.history.tags.list().values() for up in ancestors(known, ref.id)}
    lost = ancestors(known, graph.head(branch).head.commit.id) - kept
    if lost:
        with pytest.raises(BranchNotMerged) as caught:
            graph.history.branches.delete(branch)
        assert caught.value.commits == len(lost)
    graph.history.branches.delete(branch, force=bool(lost))


@pytest.mark.parametrize("seed", range(25))
def test_random_histories_have_the_bases_a_full_walk_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(lineage_module, "ANCESTRY_INLINE", chance.choice([2, 128]))
    graph = SmallGraph(max_tail=chance.choice([1, 3, 64]))
    first = graph.head().head.commit
    known = {first.id: first}
    names = ["main"]
    for _ in range(60):
        kind = chance.random()
        branch = chance.choice(names)
        made: list[Commit] = []
        if kind < 0.15 and len(names) < 6:
            names.append(name := f"b{chance.randrange(8)}")
            if name in names[:-1]:
                names.pop()
            else:
                back = chance.randrange(3)
                seq = graph.head(branch).head.commit.ref.seq
                at = graph.history.revisions.resolve(f"{branch}~{min(back, seq)}")
                graph.branch(name, branch, at)
        elif kind < 0.22 and branch != "main":
            delete_counting(graph, known, branch)
            names.remove(branch)
        elif kind < 0.25:
            graph.history.tags.create(f"t{graph.ids()}", known[chance.choice(list(known))].ref)
        elif kind < 0.5:
            made = [graph.merge(chance.choice(names), branch)]
        elif kind < 0.6:
            made = graph.group(3, branch)
        else:
            made = [graph.commit(branch)]
        known |= {commit.id: commit for commit in made}
        a, b = graph.head(chance.choice(names)), graph.head(chance.choice(names))
        found = [commit for commit, _ in graph.history.lineage.merge_bases(a, b)]
        assert {commit.id for commit in found} == expected_bases(known, a, b)


@pytest.mark.parametrize("seed", [*range(12), 180, 206, 276, 340, 404])
def test_cleanups_in_between_leave_every_base_that_a_full_walk_finds(seed: int) -> None:
    chance = random.Random(seed)
    graph = SmallGraph(max_tail=chance.choice([1, 3, 64]))
    first = graph.head().head.commit
    known = {first.id: first}
    names = ["main"]
    for _ in range(60):
        kind = chance.random()
        branch = chance.choice(names)
        made: list[Commit] = []
        name = f"b{chance.randrange(4)}"
        if kind < 0.15 and name not in names:
            graph.branch(name, branch)
            names.append(name)
        elif kind < 0.2 and branch != "main":
            graph.history.branches.delete(branch, force=True)
            names.remove(branch)
        elif kind < 0.35:
            history = graph.again().history
            history.store.put(f"history/{'0' * 26}.json", b"garbage, so that there are fences")
            sweep_all(history, keep=chance.choice([1, 1, 2]))
        elif kind < 0.6:
            made = [graph.merge(chance.choice(names), branch)]
        else:
            made = [graph.commit(branch)]
        known |= {commit.id: commit for commit in made}
        for a, b in itertools.combinations([graph.head(name) for name in names], 2):
            found = [commit for commit, _ in graph.history.lineage.merge_bases(a, b)]
            assert {commit.id for commit in found} == expected_bases(known, a, b)
            assert [graph.history.revisions.snapshot(commit.ref).commit for commit in found] == found
