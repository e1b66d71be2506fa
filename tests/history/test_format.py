"""The stored form of history: what a reader takes, what it refuses by name, what it keeps though it does not know it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from history.small_graph import SmallGraph
from history.sweeping import sweep

from omnigraph.errors import Damaged, UnsupportedFormat
from omnigraph.features import BASE
from omnigraph.history.chain import key_of
from omnigraph.history.encoding import decode_entry, encode_entry
from omnigraph.history.envelope import seal, unseal
from omnigraph.history.history import History
from omnigraph.history.log import SEGMENTS_PER_LEVEL

NEWER = "rows-in-steps"
HEAD = key_of("main", 3)


def changed(graph: SmallGraph, key: str, change: Callable[[dict[str, Any]], object]) -> None:
    """An intact object with other members, as a newer version would write it."""
    value = unseal(key, graph.store.get(key))
    del value["checksum"]
    change(value)
    graph.store.put(key, seal(value))


def three_commits(**options: Any) -> SmallGraph:
    graph = SmallGraph(**options)
    graph.commits(3)
    return graph


# ---------------------------------------------------------------- features


@pytest.mark.parametrize("key", ["graph.json", HEAD], ids=["graph", "entry"])
def test_a_reader_without_a_feature_refuses_and_names_it(key: str) -> None:
    graph = three_commits()
    changed(graph, key, lambda value: value["features"].append(NEWER))
    with pytest.raises(UnsupportedFormat) as caught:
        History.open(graph.store).chain.head("main")
    assert caught.value.features == (NEWER,)
    assert caught.value.details() == {"features": [NEWER]}
    assert NEWER in caught.value.message
    assert caught.value.hint == "upgrade omnigraph"


def test_a_writer_without_a_feature_refuses_and_names_it_but_reads() -> None:
    graph = three_commits()
    changed(graph, HEAD, lambda value: value.update(write_features=[NEWER]))
    graph = graph.again()
    assert graph.head().head.commit.ref.seq == 3
    commit = graph.head().head.commit
    for write in (
        lambda: graph.commit(),
        lambda: graph.history.branches.create("x", graph.head()),
        lambda: sweep(graph.history, "main"),
    ):
        with pytest.raises(UnsupportedFormat) as caught:
            write()
        assert caught.value.features == (NEWER,)
        assert caught.value.message.startswith("writing to branch ")
    assert graph.again().head().head.commit == commit


def test_a_writer_without_a_feature_of_the_graph_refuses_from_the_first_entry_on() -> None:
    graph = SmallGraph()
    changed(graph, "graph.json", lambda value: value.update(write_features=[NEWER]))
    graph.store.delete(key_of("main", 0))
    opened = History.open(graph.store)
    head = opened.chain.head("main")
    assert head.write_features == (NEWER,)
    for write in (
        lambda: opened.tags.create("v1", head.head.commit.ref),
        lambda: opened.tags.delete("v1"),
        lambda: graph.again().commit(),
    ):
        with pytest.raises(UnsupportedFormat) as caught:
            write()
        assert caught.value.features == (NEWER,)


def test_every_object_lists_the_features_it_needs() -> None:
    graph = three_commits(max_tail=2)
    graph.history.tags.create("v1", graph.head().head.commit.ref)
    keys = [info.key for info in graph.store.list("") if not info.key.startswith("schemas/")]
    assert {key.split("/")[0] for key in keys} >= {"graph.json", "branches", "history", "tags"}
    for key in keys:
        assert unseal(key, graph.store.get(key))["features"] == [BASE], key


# ---------------------------------------------------------------- members that are not known


def test_members_that_are_not_known_are_ignored_and_kept() -> None:
    """Write keys on a commit, digests of a table, anything a newer version adds that an older one may ignore."""
    graph = three_commits(max_tail=4)

    def newer(value: dict[str, Any]) -> None:
        value["later"] = {"of": "the entry"}
        value["tables"]["node:P"]["origin"] = "elsewhere"
        value["tail"][-1]["key"] = "order-17"
        value["steps"][0]["rows"] = [[1, 2]]
        value["steps"][0]["commit"]["key"] = "order-18"
        value["steps"][0]["tables"]["node:P"]["origin"] = "here"

    changed(graph, HEAD, newer)
    graph = graph.again()
    for _ in range(5):
        graph.commit(table="node:Q")
    log = list(graph.history.log.walk(graph.head()))
    assert [commit._extra for commit in log if commit._extra] == [{"key": "order-18"}, {"key": "order-17"}]
    assert graph.head().segments, "they went through a roll-up"
    assert graph.head().head.tables["node:P"].extra == {"origin": "here"}


def test_a_segment_keeps_members_that_are_not_known() -> None:
    graph = three_commits(max_tail=2)
    changed(graph, HEAD, lambda value: value["segments"][0].update(bloom="0101"))
    graph = graph.again()
    graph.commits(2)
    assert graph.head().segments[0].extra == {"bloom": "0101"}


def test_records_beside_members_that_are_not_known_are_rolled_up() -> None:
    graph = SmallGraph(max_tail=1)
    graph.commits(2)
    assert len(graph.head().segments) < SEGMENTS_PER_LEVEL
    for segment in graph.head().segments:
        changed(graph, segment.key, lambda value: value.update(zones=[["a", 1]]))
    graph = graph.again()
    graph.commits(SEGMENTS_PER_LEVEL * SEGMENTS_PER_LEVEL)
    log = [commit.ref.seq for commit in graph.again().history.log.walk(graph.head())]
    assert log == [*reversed(range(3 + SEGMENTS_PER_LEVEL * SEGMENTS_PER_LEVEL))]


# ---------------------------------------------------------------- records


def test_records_in_a_tail_leave_out_what_follows_from_the_one_before() -> None:
    graph = three_commits()
    value = json.loads(graph.store.get(HEAD))
    assert [set(record) for record in value["tail"]] == [
        {"id", "incarnation", "seq", "position", "parent", "kind", "at"},
        {"id", "at"},
        {"id", "at"},
    ]
    assert set(value["steps"][0]["commit"]) == {"id", "at"}
    assert "base" not in value, "it is the last record of the tail"


@pytest.mark.parametrize("max_tail", [1, 2, 64])
def test_entries_read_back_as_they_were_written(max_tail: int) -> None:
    graph = SmallGraph(max_tail=max_tail)
    graph.commits(3)
    graph.group(3)
    graph.commit(kind="load", actor="ann", message="line one\nline two ☃")
    graph.branch("x", at=graph.history.revisions.resolve("main~2"))
    graph.commits(2, "x")
    graph.merge("main", "x")
    graph.history.branches.delete("x", force=True)
    graph.branch("x")
    for branch in ("main", "x"):
        for position in range(graph.history.chain.newest(branch).position + 1):  # type: ignore[union-attr]
            key = key_of(branch, position)
            entry = graph.history.chain.read(branch, position)
            assert graph.store.get(key) == encode_entry(entry)
            assert decode_entry(encode_entry(entry), key) == entry


def test_an_entry_may_create_a_branch_and_hold_its_first_commits() -> None:
    graph = three_commits()
    graph.branch("x")
    graph.commits(2, "x")
    created, first, second = (graph.history.chain.read("x", position) for position in range(3))

    def moved(commit: Any) -> Any:
        return replace(commit, ref=replace(commit.ref, position=0))

    steps = tuple(replace(step, commit=moved(step.commit)) for step in (*first.steps, *second.steps))
    steps = (steps[0], replace(steps[1], commit=replace(steps[1].commit, parents=(steps[0].commit.ref,))))
    ancestry = replace(created.ancestry, reached={**created.ancestry.reached, created.incarnation: 5})
    entry = replace(created, steps=steps, ancestry=ancestry)
    assert decode_entry(encode_entry(entry), "x") == entry
    graph.store.delete(key_of("x", 2))
    graph.store.delete(key_of("x", 1))
    graph.store.put(key_of("x", 0), encode_entry(entry))
    graph = graph.again()
    head = graph.head("x")
    assert head.alive
    assert [commit.ref.seq for commit in graph.history.log.walk(head)] == [5, 4, 3, 2, 1, 0]
    assert graph.history.lineage.commit_at(entry.incarnation, 4, 0) == steps[0].commit.ref
    assert graph.history.lineage.commit_at(entry.incarnation, 5, 0) == steps[1].commit.ref
    after = graph.commit("x")
    assert after.parent == steps[1].commit.ref
    assert graph.history.lineage.commit_at(entry.incarnation, 6, 1) == after.ref
    assert graph.history.lineage.merge_bases(graph.head("x"), graph.head()) == [
        (graph.head().head.commit, graph.head())
    ]


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"not json", b"\x93NEWER", b'{"features":["format-1"],"checksum":"0000000000000000"}']
)
def test_what_is_not_an_object_of_ours_is_damaged(data: bytes) -> None:
    graph = three_commits()
    graph.store.put(HEAD, data)
    with pytest.raises(Damaged) as caught:
        graph.again().head()
    assert caught.value.file == HEAD
    assert "entry 3 of branch 'main'" in caught.value.message


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("graph.json", lambda value: value.pop("schema")),
        (HEAD, lambda value: value.pop("steps")),
        (HEAD, lambda value: value.update(tables=[1])),
        (HEAD, lambda value: value.update(position=4)),
        (HEAD, lambda value: value["steps"][0]["tables"]["node:P"].update(version="x")),
        (HEAD, lambda value: value["features"].clear() or value.update(features=7)),
    ],
)
def test_an_intact_object_without_what_it_should_hold_is_damaged(key: str, change: Callable[[Any], Any]) -> None:
    graph = three_commits()
    changed(graph, key, change)
    with pytest.raises(Damaged) as caught:
        History.open(graph.store).chain.head("main")
    assert caught.value.file == key


def test_an_entry_that_is_lost_is_damage_and_one_that_was_swept_is_not() -> None:
    graph = three_commits()
    graph.store.delete(key_of("main", 1))
    with pytest.raises(Damaged) as caught:
        graph.again().history.revisions.resolve("main~2")
    assert caught.value.file == key_of("main", 1)
    assert caught.value.what == "it is missing"


def test_text_without_utf8_is_stored_as_it_is() -> None:
    value = unseal("k", seal({"message": "half \ud800 of a pair"}))
    assert value["message"] == "half \ud800 of a pair"


def test_any_flipped_bit_and_any_cut_is_noticed() -> None:
    graph = three_commits()
    data = graph.store.get(HEAD)
    for place in range(len(data)):
        harmed = bytearray(data)
        harmed[place] ^= 1 << place % 8
        for bytes_ in (bytes(harmed), data[:place]):
            with pytest.raises(Damaged):
                decode_entry(bytes_, HEAD)
