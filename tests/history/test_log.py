"""The log: rolled up, paged, searched; and what a user writes to name a commit."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from history.small_graph import SmallGraph

from omnigraph.errors import BranchNotFound, CommitNotFound, UsageError
from omnigraph.history.chain import key_of
from omnigraph.history.envelope import seal, unseal
from omnigraph.history.log import SEGMENTS_PER_LEVEL
from omnigraph.history.values import parse_time, to_microseconds


def rolled_up(commits: int, max_tail: int = 2) -> SmallGraph:
    graph = SmallGraph(max_tail=max_tail)
    for _ in range(commits):
        graph.clock.now += 1
        graph.commit()
    return graph


def test_the_log_is_whole_at_every_length_and_level() -> None:
    graph = SmallGraph(max_tail=2)
    expected = [graph.head().head.commit.id]
    for _ in range(2 * SEGMENTS_PER_LEVEL * 3 + 5):
        expected.append(graph.commit().id)
        head = graph.head()
        assert [commit.id for commit in graph.history.log.walk(head)] == expected[::-1]
    assert {segment.level for segment in head.segments} == {0, 1}
    assert len(head.segments) < 2 * SEGMENTS_PER_LEVEL
    assert len(head.tail) < 2


def test_segments_of_three_levels() -> None:
    graph = SmallGraph(max_tail=1)
    graph.commits(SEGMENTS_PER_LEVEL**2 + 3)
    head = graph.head()
    assert [segment.level for segment in head.segments][:1] == [2]
    assert [commit.ref.seq for commit in graph.history.log.walk(head)] == list(range(SEGMENTS_PER_LEVEL**2 + 3, -1, -1))


def test_commit_records_survive_the_roll_up_unchanged() -> None:
    graph = SmallGraph(max_tail=1)
    made = [graph.commit(actor="ann", message="first"), graph.commit(kind="load"), *graph.commits(3)]
    graph.branch("x")
    merge = graph.merge("main", "x")
    graph.commits(3, "x")
    found = {commit.id: commit for commit in graph.history.log.walk(graph.head("x"))}
    assert [found[commit.id] for commit in (*made, merge)] == [*made, merge]
    assert merge.merged == made[-1].ref


def test_pages_join_without_gap_or_overlap() -> None:
    graph = rolled_up(23)
    head = graph.head()
    whole = [commit.id for commit in graph.history.log.walk(head)]
    pages: list[str] = []
    before = None
    while page := graph.history.log.page(head, limit=5, before=before):
        assert len(page) <= 5
        pages += [commit.id for commit in page]
        before = page[-1].id
    assert pages == whole


def test_a_page_reads_only_what_it_shows() -> None:
    graph = rolled_up(200, max_tail=10)
    head = graph.head()
    graph.store.reset()
    graph.history.log.page(head, limit=5)
    assert graph.store.snapshot().requests <= 1


def test_commits_are_found_by_id_place_and_time() -> None:
    graph = rolled_up(70)
    head = graph.head()
    log = graph.history.log
    for commit in log.walk(head):
        graph.store.reset()
        assert log.find(head, commit.id) == commit
        assert log.by_seq(head, commit.ref.seq) == commit
        assert log.at_time(head, commit._at_us) == commit
        assert log.at_time(head, commit._at_us + 500_000) == commit
        assert graph.store.snapshot().requests <= 4
    first = log.by_seq(head, 0)
    assert first is not None
    assert log.at_time(head, first._at_us - 1) is None
    assert log.by_seq(head, -1) is None
    assert log.find(head, "7" * 26) is None


def test_steps_back_cross_the_start_of_a_branch() -> None:
    graph = SmallGraph(max_tail=3)
    on_main = graph.commits(7)
    graph.branch("x")
    on_x = graph.commits(5, "x")
    graph.branch("y", "x")
    on_y = graph.commits(2, "y")
    graph.commits(9)
    first = graph.history.chain.read("main", 0).head.commit
    expected = [first, *on_main, *on_x, *on_y][::-1]
    for steps, commit in enumerate(expected):
        snapshot = graph.history.revisions.resolve(f"y~{steps}")
        assert snapshot.commit == commit
        state = snapshot.table("node:P")
        assert (state.rows if state else 0) == len(expected) - 1 - steps
    with pytest.raises(CommitNotFound):
        graph.history.revisions.resolve(f"y~{len(expected)}")


def test_every_way_to_name_a_commit() -> None:
    graph = SmallGraph()
    graph.clock.now = dt.datetime(2040, 7, 1, tzinfo=dt.UTC).timestamp()
    old = graph.commit()
    graph.clock.now = dt.datetime(2040, 7, 3, tzinfo=dt.UTC).timestamp()
    graph.branch("a/b")
    new = graph.commit("a/b")
    graph.history.tags.create("v1", old.ref)
    for text, commit in {
        "main": old, "a/b": new, "a/b~0": new, "a/b~1": old, "v1": old, old.id: old, new.id: new,
    }.items():  # fmt: skip
        revisions = graph.history.revisions
        assert revisions.resolve(text).commit == commit, text
        assert revisions.commit(text) == commit, text
        assert next(graph.history.log.walk(revisions.entry(text))) == commit, text
    for text in ("nothing", "2026-06-01", "8" * 26, "a/b~9", "..", "O1", f"main~{'9' * 5_000}", "ZZZZ"):
        with pytest.raises(CommitNotFound):
            graph.history.revisions.resolve(text)
    for text in ("", None, 7, b"main"):
        with pytest.raises(UsageError, match="is not a revision"):
            graph.history.revisions.resolve(text)  # type: ignore[arg-type]


def test_a_time_reads_a_branch_as_it_was() -> None:
    graph = SmallGraph()
    made = []
    for day in (1, 3):
        graph.clock.now = dt.datetime(2040, 7, day, tzinfo=dt.UTC).timestamp()
        made.append(graph.commit())
    resolve = graph.history.revisions.resolve
    east = dt.timezone(dt.timedelta(hours=2))
    times: list[str | dt.datetime] = ["2040-07-02", "2040-07-02T10:00:00+02:00", dt.datetime(2040, 7, 2)]
    for time in [*times, dt.datetime(2040, 7, 3, 1, 59, tzinfo=east)]:
        assert resolve("main", time).commit == made[0], time
    for time in (made[1].at, "2040-07-03T00:01", dt.datetime(2040, 7, 3, 2, 1, tzinfo=east)):
        assert resolve("main", time).commit == made[1], time
    assert made[1].at.replace(second=0, microsecond=0) == dt.datetime(2040, 7, 3, tzinfo=dt.UTC)
    with pytest.raises(CommitNotFound, match="at or before"):
        resolve("main", "2020-01-01")
    with pytest.raises(CommitNotFound, match="is not a branch"):
        resolve("2040-07-02")
    graph.history.tags.create("v1", made[0].ref)
    with pytest.raises(BranchNotFound):
        resolve("v1", "2040-07-02")
    for wrong in ("yesterday", "", 7, dt.date(2040, 7, 2)):
        with pytest.raises(UsageError, match="is not a time"):
            resolve("main", wrong)  # type: ignore[arg-type]


def test_the_beginning_of_a_commit_id_must_be_unique() -> None:
    graph = rolled_up(70)
    while not graph.head().head.commit.id.endswith("0"):
        graph.commit()
    ids = [commit.id for commit in graph.history.log.walk(graph.head())]
    unique = 0
    for prefix in {id[:length] for id in ids for length in (4, 24, 25)}:
        matching = [id for id in ids if id.startswith(prefix)]
        graph.store.reset()
        if len(matching) == 1:
            unique += 1
            assert graph.history.revisions.commit(prefix).id == matching[0]
        else:
            with pytest.raises(UsageError, match=f"{len(matching)} commit ids begin with '{prefix}'"):
                graph.history.revisions.commit(prefix)
    assert unique > 0


def test_a_commit_of_a_former_incarnation_is_found_by_id() -> None:
    graph = SmallGraph(max_tail=2)
    incarnations = []
    for _ in range(3):
        graph.branch("x")
        incarnations.append(graph.commits(3, "x"))
        graph.history.branches.delete("x", force=True)
    graph.branch("x")
    graph.commits(2, "x")
    for commits in incarnations:
        for commit in commits:
            assert graph.again().history.revisions.find(commit.id) == commit
            assert graph.history.revisions.resolve(commit.id).commit == commit


@pytest.mark.parametrize(("text", "expected"), [("2026-07-01", 1782864000), ("2026-07-01T02:00:00+02:00", 1782864000)])
def test_times_without_a_zone_are_utc(text: str, expected: int) -> None:
    moment = parse_time(text)
    assert moment is not None
    assert moment.timestamp() == expected
    assert parse_time("yesterday") is None
    assert to_microseconds(moment) == expected * 1_000_000


@pytest.mark.parametrize(
    "record",
    [
        {"actor": 5, "message": 7},
        {"actor": ["a", {"b": None}], "message": {"x": 1.5}},
        {"message": "half \ud800 of a pair", "actor": "\udfff"},
        {"message": "x" * 1_000_000},
        {"kind": "from the future", "key": "order-17", "at": 1},
    ],
)
def test_a_roll_up_takes_any_record_that_a_chain_can_hold(record: dict[str, Any]) -> None:
    graph = SmallGraph(max_tail=2)
    graph.commits(2)
    key = key_of("main", 2)
    value = unseal(key, graph.store.get(key))
    value["steps"][0]["commit"] |= record
    del value["checksum"]
    graph.store.put(key, seal(value))
    graph = graph.again()
    written = graph.head().head.commit
    for _ in range(2 * SEGMENTS_PER_LEVEL * 2):
        graph.commit()
    assert graph.head().segments[0].level == 1
    assert graph.history.log.find(graph.head(), written.id) == written


def test_long_messages_are_rolled_up_before_entries_grow_large() -> None:
    graph = SmallGraph()
    written = [graph.commit(message="x" * 20_000) for _ in range(12)]
    sizes = [info.size for info in graph.store.list("branches/main")]
    assert max(sizes) < 110_000
    assert graph.head().segments
    assert [commit for commit in graph.history.log.walk(graph.head()) if commit.message] == written[::-1]
