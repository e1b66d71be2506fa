"""Write keys: a write that comes again is answered with its first commit, from anywhere, at a flat cost."""

from __future__ import annotations

from typing import Any

import pytest
from history.small_graph import SmallGraph, reapply

from omnigraph.errors import (
    Damaged,
    OutcomeUnknown,
    SequencePassed,
    StorageTransient,
    UnsupportedFormat,
    UsageError,
    WriteKeyReused,
)
from omnigraph.features import WRITE_KEYS
from omnigraph.history import write_keys
from omnigraph.history.chain import key_of
from omnigraph.history.envelope import seal, unseal
from omnigraph.history.plan import PreparedPlan
from omnigraph.history.rebuilding import Rebuilder
from omnigraph.history.values import Commit, WriteKey
from omnigraph.history.write_keys import KeyName, Once
from omnigraph.testing.stores import Fault, FaultyStore
from omnigraph.write.publishing import Outcome, Write, publish, publish_group

DAY_S = 24 * 3600.0


def key(once: Once, asked: object = "rows") -> WriteKey:
    return KeyName.of(once).asking(asked)


def write(graph: SmallGraph, once: Once, asked: object = "rows", branch: str = "main") -> Commit:
    """One write under a key, as a process does it that looks for the key only when it publishes."""
    return publish(graph.history, graph.plan(branch, once=key(once, asked)), reapply)


def together(graph: SmallGraph, *onces: Once | None, asked: str = "rows") -> list[Outcome]:
    plans = [graph.plan(once=None if once is None else key(once, asked)) for once in onces]
    return publish_group(graph.history, [Write(plan, reapply) for plan in plans])


def depth(graph: SmallGraph, branch: str = "main") -> int:
    return graph.head(branch).head.commit.ref.seq


# ---------------------------------------------------------------- one commit a key


@pytest.mark.parametrize("max_tail", [1, 3, 64])
def test_a_repeated_write_is_answered_with_its_first_commit_whatever_came_between(max_tail: int) -> None:
    graph = SmallGraph(max_tail=max_tail)
    made = {}
    for number in range(20):
        made[number] = write(graph, f"key-{number}")
        graph.commits(number % 3)
    before = depth(graph)
    for process in (graph, graph.again()):
        assert [write(process, f"key-{number}") for number in made] == list(made.values())
    assert depth(graph) == before


def test_the_same_key_with_other_content_is_refused_and_names_the_commit() -> None:
    graph = SmallGraph(max_tail=2)
    first = write(graph, "k", {"rows": [1, 2]})
    for _ in range(4):
        with pytest.raises(WriteKeyReused, match="asked for something else") as caught:
            write(graph.again(), "k", {"rows": [1, 3]})
        assert caught.value.commit_id == first.id
        assert write(graph, "k", {"rows": [1, 2]}) == first
        graph.commit()


def test_texts_and_sequences_of_one_name_are_different_keys() -> None:
    graph = SmallGraph()
    commits = [
        write(graph, "orders"),
        write(graph, ("orders", 0)),
        write(graph, "orders:0"),
        write(graph, ("other", 0)),
    ]
    assert len({commit.id for commit in commits}) == 4


@pytest.mark.parametrize("kind", ["answer_lost", "refused"])
def test_a_write_whose_answer_was_lost_is_found_by_whoever_asks_again(kind: Any) -> None:
    graph = SmallGraph()
    inner = graph.store.inner
    graph.store.inner = FaultyStore(inner, Fault(kind, "*", "branches/*", times=50, skip=1))
    with pytest.raises((OutcomeUnknown, StorageTransient)):
        write(graph, "k")
    graph.store.inner = inner
    again = [write(graph.again(), "k") for _ in range(2)]
    assert again[0] == again[1]
    assert depth(graph) == 1


def test_two_writers_that_meet_make_one_commit() -> None:
    graph = SmallGraph()
    plans = [graph.plan(once=key("k")), graph.plan(once=key("k"))]
    other = graph.again()
    first = publish(graph.history, plans[0], reapply)
    assert publish(other.history, plans[1], reapply) == first
    assert depth(graph) == 1


def test_members_of_a_group_with_one_key_share_one_commit() -> None:
    graph = SmallGraph()
    outcomes = together(graph, "a", None, "a", "b", "a")
    assert outcomes[0] == outcomes[2] == outcomes[4]
    assert depth(graph) == 3
    refused = together(graph, "b", "c", asked="something else")
    assert isinstance(refused[0], WriteKeyReused)
    assert isinstance(refused[1], Commit)


def test_a_prepared_write_under_a_key_is_published_once() -> None:
    graph = SmallGraph()
    plan = graph.plan(once=key("load"))
    graph.history.recovery.keep(PreparedPlan(plan, 0, {}), lambda: None)
    first = write(graph, "load")
    kept = graph.again().history.recovery.get(plan.commit_id).plan
    assert kept.once == plan.once
    assert publish(graph.again().history, kept, reapply) == first


# ---------------------------------------------------------------- branches, merges, deletions


def test_a_branch_starts_with_the_keys_of_where_it_starts_and_goes_on_by_itself() -> None:
    graph = SmallGraph(max_tail=2)
    first = write(graph, "k")
    graph.branch("x")
    assert write(graph, "k", branch="x") == first
    own = write(graph, "on x", branch="x")
    assert own.ref.branch == "x"
    assert write(graph, "on x").ref.branch == "main"
    later = write(graph, "later")
    assert write(graph, "later", branch="x").id != later.id


def test_a_merge_does_not_bring_the_keys_of_the_other_branch() -> None:
    graph = SmallGraph()
    graph.branch("x")
    on_x = write(graph, "k", branch="x")
    graph.merge("x", "main")
    on_main = write(graph, "k")
    assert on_main.id != on_x.id
    assert write(graph, "k") == on_main


def test_a_branch_that_is_made_again_does_not_know_the_keys_of_the_deleted_one() -> None:
    graph = SmallGraph()
    graph.branch("x")
    first = write(graph, "k", branch="x")
    graph.history.branches.delete("x", force=True)
    graph.branch("x")
    assert write(graph, "k", branch="x").id != first.id


# ---------------------------------------------------------------- sequences


@pytest.mark.parametrize("max_tail", [1, 3, 64])
def test_every_number_of_a_sequence_is_written_once(max_tail: int) -> None:
    graph = SmallGraph(max_tail=max_tail)
    made = [write(graph, ("orders", number)) for number in range(10)]
    assert [write(graph.again(), ("orders", number)) for number in range(10)] == made
    with pytest.raises(WriteKeyReused):
        write(graph.again(), ("orders", 4), "other rows")
    assert depth(graph) == 10


@pytest.mark.parametrize("max_tail", [1, 3, 64])
def test_a_number_that_was_skipped_is_refused_when_the_sequence_has_passed_it(max_tail: int) -> None:
    graph = SmallGraph(max_tail=max_tail)
    write(graph, ("orders", 1))
    write(graph, ("orders", 5))
    graph.commits(4)
    for number in (0, 2, 3, 4):
        with pytest.raises(SequencePassed) as caught:
            write(graph.again(), ("orders", number))
        assert caught.value.number == number


def test_a_sequence_is_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_keys, "KEPT_COMMITS", 3)
    graph = SmallGraph(max_tail=2)
    made = [write(graph, ("orders", number)) for number in range(4)]
    graph.clock.now += 2 * DAY_S
    for number in range(8):
        write(graph, f"other-{number}")
    assert write(graph.again(), ("orders", 3)) == made[3]
    assert write(graph.again(), ("orders", 1)) == made[3], (
        "the newest stands for numbers that are older than the window"
    )
    with pytest.raises(WriteKeyReused):
        write(graph.again(), ("orders", 3), "other rows")
    assert write(graph.again(), ("orders", 4)).ref.seq == depth(graph)


def test_applications_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_keys, "MAX_APPLICATIONS", 3)
    graph = SmallGraph(max_tail=1)
    for number in range(3):
        write(graph, (f"application-{number}", 0))
    graph.commit()
    with pytest.raises(UsageError, match="3 applications write sequences to branch 'main'"):
        write(graph, ("application-3", 0))
    write(graph, ("application-1", 1))


# ---------------------------------------------------------------- the window and its cost


def test_a_key_is_forgotten_only_after_many_commits_and_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_keys, "KEPT_COMMITS", 10)
    graph = SmallGraph(max_tail=2)
    first = write(graph, "k")
    for number in range(12):
        write(graph, f"quick-{number}")
    assert write(graph, "k") == first, "less than a day has passed"
    graph.clock.now += 2 * DAY_S
    for number in range(4):
        write(graph, f"later-{number}")
    assert write(graph, "k").id != first.id
    assert write(graph, "quick-8").ref.seq < depth(graph), "less than so many commits have passed"


def test_many_keys_go_to_several_objects_which_go_when_all_of_theirs_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_keys, "MAX_KEYS", 6)
    monkeypatch.setattr(write_keys, "KEPT_COMMITS", 10)
    graph = SmallGraph(max_tail=2)
    made = [write(graph, f"k{number}") for number in range(40)]
    assert len(graph.head().key_objects) > 3
    assert [write(graph.again(), f"k{number}") for number in range(40)] == made
    graph.clock.now += 2 * DAY_S
    for number in range(20):
        write(graph, f"later-{number}")
    assert len(graph.head().key_objects) <= 5


@pytest.mark.parametrize("commits", [10, 2_000])
def test_a_key_adds_no_request_to_a_warm_commit_and_one_to_a_cold_one(commits: int) -> None:
    graph = SmallGraph()
    for number in range(commits):
        write(graph, f"k{number}")

    def requests(process: SmallGraph, once: str | None) -> int:
        plan = process.plan(once=None if once is None else key(once))
        process.store.reset()
        publish(process.history, plan, reapply)
        return process.store.snapshot().requests

    for number in range(5):
        assert requests(graph, f"more-{number}") == 1, "the create"
    cold = graph.again()
    cold.head()
    assert requests(cold, "cold") == (1 if commits < 64 else 2), "the object of keys"
    assert requests(cold, "warm") == 1
    assert requests(graph.again(), "k5") <= (0 if commits < 64 else 2), (
        "the object of keys, and the record of the commit"
    )


def test_an_entry_holds_few_bytes_of_keys() -> None:
    sizes = {}
    for keyed in (False, True):
        graph = SmallGraph()
        for number in range(200):
            write(graph, f"a rather long key of a task, with its date {number}") if keyed else graph.commit()
        sizes[keyed] = max(info.size for info in graph.store.list("branches/main"))
    assert sizes[True] - sizes[False] < 64 * 80 + 200, sizes


def test_a_lost_object_of_keys_is_damage_and_no_write_under_a_key_goes_by_it() -> None:
    graph = SmallGraph(max_tail=1)
    write(graph, "k")
    graph.commits(2)
    (place,) = graph.head().key_objects
    graph.store.delete(place.key)
    with pytest.raises(Damaged, match="cannot be told from repeated ones"):
        write(graph.again(), "k")
    assert graph.again().commit().ref.seq == depth(graph)


def test_an_object_of_keys_is_rebuilt_from_the_log() -> None:
    graph = SmallGraph(max_tail=2)
    made = {once: write(graph, once) for once in ("a", ("app", 3), "b", ("app", 4), "c")}
    graph.commits(4)
    (place,) = graph.head().key_objects
    before = graph.store.get(place.key)
    graph.store.delete(place.key)
    rebuilt = Rebuilder(graph.again().history).object(place.key)
    assert rebuilt == before
    graph.store.put(place.key, rebuilt)
    assert {once: write(graph.again(), once) for once in made} == made


# ---------------------------------------------------------------- format


def test_the_first_key_makes_the_branch_require_writers_that_know_keys() -> None:
    graph = SmallGraph()
    graph.branch("before")
    assert graph.commit()._write_key is None
    assert graph.head().write_features == ()
    write(graph, "k")
    graph.commit()
    graph.branch("after")
    assert graph.head().write_features == graph.head("after").write_features == (WRITE_KEYS,)
    assert graph.head("before").write_features == ()


def test_a_writer_without_keys_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SmallGraph()
    write(graph, "k")
    prepared = graph.plan(once=key("other"))
    graph.history.recovery.keep(PreparedPlan(prepared, 0, {}), lambda: None)
    monkeypatch.setattr("omnigraph.features.KNOWN", frozenset({"format-1"}))
    with pytest.raises(UnsupportedFormat, match="the feature 'write-keys'"):
        graph.again().commit()
    with pytest.raises(UnsupportedFormat, match="the feature 'write-keys'"):
        graph.again().history.recovery.get(prepared.commit_id)
    assert graph.again().head().head.commit.id


def test_members_of_key_objects_that_are_not_known_are_kept() -> None:
    graph = SmallGraph(max_tail=1)
    write(graph, "k")
    graph.commits(2)
    name = key_of("main", graph.head().position)
    value = unseal(name, graph.store.get(name))
    del value["checksum"]
    value["keys"][0]["filter"] = "AAAA"
    graph.store.put(name, seal(value))
    other = graph.again()
    other.commit()
    assert other.head().key_objects[0].extra == {"filter": "AAAA"}


# ---------------------------------------------------------------- what a key may be


@pytest.mark.parametrize(
    "once", ["", "x" * 513, "\ud800", ("orders",), ("orders", -1), ("orders", True), ("orders", "1"), ("", 1), ["a", 1], 7, ("o", 2**63)]
)  # fmt: skip
def test_what_cannot_be_a_key_is_refused(once: Any) -> None:
    with pytest.raises(UsageError):
        KeyName.of(once)


def test_what_is_asked_for_is_compared_by_value() -> None:
    assert key("k", {"a": 1, "b": [2, None]}) == key("k", {"b": [2, None], "a": 1})
    assert key("k", {"a": 1}) != key("k", {"a": "1"})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(UsageError, match="cannot be compared"):
        key("k", endless)
