"""The change feed: exact blocks, pages, cursors and their refusals, gaps, baselines, and a reader that dies."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import stat
import string
from pathlib import Path
from typing import Any

import pytest
from changes import feed_consumer
from changes.changed_graph import changed_graph
from children import exit_code
from history.sweeping import sweep
from merge import model

import omnigraph as og
from omnigraph.api.changes import ChangeJson, CommitChangesJson
from omnigraph.changes.feed import CommitChanges, FeedPage
from omnigraph.errors import (
    AlreadyExists,
    CommitNotFound,
    CursorRejected,
    HistoryGap,
    OmnigraphError,
    ParentlessCommit,
    UsageError,
)

LETTERS = string.ascii_letters + string.digits + "-_"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return changed_graph(tmp_path / "g")


MAX_PAGES = 100


def short(block: CommitChanges) -> list[str]:
    return [f"{change.op} {change.type_name} {change.id}" for change in block.changes]


def whole(graph: og.Graph, branch: str = "main", **arguments: Any) -> tuple[list[CommitChanges], FeedPage]:
    """Every block of a poll, pages joined."""
    first = {name: arguments.pop(name) for name in ("since", "start") if name in arguments}
    page = graph.changes(branch, **first, **arguments)
    blocks = list(page.blocks)
    for _ in range(MAX_PAGES):
        if page.next_page_token is None:
            return blocks, page
        page = graph.changes(branch, page_token=page.next_page_token, **arguments)
        for block in page.blocks:
            if blocks and blocks[-1].commit == block.commit:
                blocks[-1] = CommitChanges(block.commit, (*blocks[-1].changes, *block.changes))
            else:
                blocks.append(block)
    raise AssertionError("the pages of a poll do not end")


EVERYTHING = [
    ["insert Person a", "insert Person b", "insert Person c", "insert Knows e1"],
    ["update Person a", "insert Person d"],
    ["delete Person b", "delete Knows e1"],
]


def test_the_feed_gives_each_commit_against_its_first_parent(graph: og.Graph) -> None:
    blocks, page = whole(graph, start="beginning")
    assert [short(block) for block in blocks] == EVERYTHING
    assert page.caught_up
    first, _, merged = blocks
    assert (first.commit.actor, merged.commit.actor) == ("ada", "bob")
    assert merged.commit == graph.commits(limit=1)[0]
    assert graph.commit_changes().changes == merged.changes
    assert graph.commit_changes(as_of=first.commit.at).changes == first.changes
    assert ChangeJson.to_json(first.changes[0]) == {
        "kind": "node",
        "type": {"id": first.changes[0].type_id, "name": "Person"},
        "id": "a",
        "op": "insert",
        "after": {"properties": {"name": "a", "age": 1, "nick": None, "mail": None}},
    }
    assert merged.changes[1].before == {"id": "e1", "from": "a", "to": "b", "since": None}
    assert ChangeJson.to_json(merged.changes[1])["before"]["endpoints"] == {"from": "a", "to": "b"}


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("max_commits", [1, 2, 128])
def test_pages_of_any_size_join_to_the_same_feed(graph: og.Graph, limit: int, max_commits: int) -> None:
    found, page = whole(graph, start="beginning", limit=limit, max_commits=max_commits)
    while not page.caught_up:
        more, page = whole(graph, since=page.cursor, limit=limit, max_commits=max_commits)
        found += more
    assert [short(block) for block in found] == EVERYTHING


def test_a_poll_ends_at_the_head_it_saw_first(graph: og.Graph) -> None:
    page = graph.changes(start="beginning", limit=2)
    with graph.transaction() as tx:
        tx.insert("Person", name="late")
    while page.next_page_token is not None:
        page = graph.changes(page_token=page.next_page_token, limit=2)
        assert "insert Person late" not in [line for block in page.blocks for line in short(block)]
    assert not page.caught_up
    blocks, page = whole(graph, since=page.cursor)
    assert [short(block) for block in blocks] == [["insert Person late"]]
    assert page.caught_up


def test_starts(graph: og.Graph) -> None:
    now = graph.changes()
    assert (now.blocks, now.caught_up) == ((), True)
    second = graph.commits()[1]
    blocks, _ = whole(graph, start=f"after:{second.id}")
    assert [short(block) for block in blocks] == EVERYTHING[2:]
    with pytest.raises(CommitNotFound):
        graph.changes(start=f"after:{graph.commits('work', limit=1)[0].id}")
    for wrong in ({"start": "yesterday"}, {"since": now.cursor, "start": "now"}, {"limit": 0}, {"max_commits": 513}):
        with pytest.raises(UsageError):
            graph.changes(**wrong)


def test_an_optimisation_is_an_empty_block(graph: og.Graph) -> None:
    cursor = graph.changes().cursor
    assert graph.maintenance.optimize().commit is not None
    blocks, _ = whole(graph, since=cursor)
    assert [short(block) for block in blocks] == [[]]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"kinds": ["edge"]}, [["insert Knows e1"], [], ["delete Knows e1"]]),
        ({"ops": ["update"]}, [[], ["update Person a"], []]),
        (
            {"types": ["Person"], "ops": ["insert", "delete"]},
            [EVERYTHING[0][:3], ["insert Person d"], ["delete Person b"]],
        ),
    ],
)
def test_filters(graph: og.Graph, filters: dict[str, list[str]], expected: list[list[str]]) -> None:
    blocks, _ = whole(graph, start="beginning", limit=2, **filters)
    assert [short(block) for block in blocks] == expected


@pytest.mark.parametrize("filters", [{"kinds": ["vertex"]}, {"types": ["Nobody"]}, {"ops": ["upsert"]}])
def test_a_filter_that_names_nothing_is_refused(graph: og.Graph, filters: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError):
        graph.changes(**filters)


def test_a_cursor_is_bound_to_graph_branch_incarnation_and_filter(graph: og.Graph, tmp_path: Path) -> None:
    main, work = graph.changes().cursor, graph.changes("work").cursor
    assert main is not None
    assert work is not None
    graph.branches.delete("work", force=True)
    graph.branches.create("work")
    other = og.init(tmp_path / "other", schema=model.SCHEMA)
    page_token = graph.changes(start="beginning", limit=1).next_page_token
    for target, branch, cursor, filters in [
        (other, "main", main, {}),
        (graph, "work", main, {}),
        (graph, "work", work, {}),
        (graph, "main", main, {"ops": ["insert"]}),
        (graph, "main", page_token, {}),
        *((graph, "main", main[:-1] + letter, {}) for letter in LETTERS if letter != main[-1]),
        (graph, "main", f"{main}=", {}),
        (graph, "main", "nonsense", {}),
        (graph, "main", "é", {}),
        (graph, "main", "A" * 5_000, {}),
    ]:
        with pytest.raises(CursorRejected, match=r"^change cursor rejected: "):
            target.changes(branch, since=cursor, **filters)


def test_very_long_ids_fit_a_token(graph: og.Graph) -> None:
    names = [f"{'x' * 3_000}{number}" for number in range(4)]
    cursor = graph.changes().cursor
    with graph.transaction() as tx:
        for name in names:
            tx.insert("Person", name=name)
    blocks, _ = whole(graph, since=cursor, limit=1)
    assert [change.id for change in blocks[0].changes] == names


def test_a_poll_costs_the_same_whatever_the_backlog(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    start = f"after:{graph.commits()[-2].id}"
    uri = graph.uri.removeprefix("file://")
    costs = []
    for _ in range(2):
        reader = og.open(uri)
        asked: list[str] = []
        get = reader._repository.store.get
        monkeypatch.setattr(
            reader._repository.store, "get", lambda key, get=get, asked=asked: asked.append(key) or get(key)
        )
        reader.changes(start=start, max_commits=1)
        first = len(asked)
        cursor = reader.changes().cursor
        asked.clear()
        reader.changes(since=cursor)
        costs.append((first, len(asked)))
        for number in range(30):
            with graph.transaction() as tx:
                tx.upsert("Person", name="a", age=number)
    assert costs[0] == costs[1]


# ---------------------------------------------------------------- one commit


def test_changes_of_one_commit_in_pages(graph: og.Graph) -> None:
    commit = graph.commits()[2]
    page = graph.commit_changes(commit.id, limit=3)
    assert len(page.changes) == 3
    rest = graph.commit_changes(commit.id, limit=3, page_token=page.next_page_token)
    assert [change.id for change in (*page.changes, *rest.changes)] == ["a", "b", "c", "e1"]
    assert rest.next_page_token is None
    assert page.commit == commit
    assert CommitChangesJson.to_json(page)["cause"]["graph_commit_id"] == commit.id
    with pytest.raises(CursorRejected):
        graph.commit_changes(graph.commits()[0].id, page_token=page.next_page_token)


def test_the_first_commit_has_no_changes_to_show(graph: og.Graph) -> None:
    with pytest.raises(ParentlessCommit):
        graph.commit_changes(graph.commits()[-1].id)


def test_swept_history_is_a_gap(graph: og.Graph) -> None:
    cursor = graph.changes(start="beginning", max_commits=1).cursor
    commits = graph.commits()
    graph.branches.delete("work")
    sweep(graph._repository.history, "main", keep=2)
    for ask in (
        lambda: graph.changes(start="beginning"),
        lambda: graph.changes(since=cursor),
        lambda: graph.commit_changes(commits[1].id),
        lambda: graph.commit_changes(commits[2].id),
    ):
        with pytest.raises(HistoryGap):
            ask()
    assert [change.id for change in graph.commit_changes(commits[0].id).changes] == ["b", "e1"]


# ---------------------------------------------------------------- baselines and readers


def test_a_baseline_is_a_loadable_snapshot_with_a_cursor(graph: og.Graph, tmp_path: Path) -> None:
    target = tmp_path / "people.ndjson"
    done = graph.baseline(target)
    *lines, last = target.read_text().splitlines()
    assert json.loads(last) == {
        "baseline": {"snapshot_commit_id": graph.commits(limit=1)[0].id, "resume_cursor": done.resume_cursor}
    }
    assert (done.entities, len(lines)) == (3, 3)
    assert graph.changes(since=done.resume_cursor).caught_up
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    only = io.BytesIO()
    assert graph.baseline(only, kinds=["edge"]).entities == 0


def test_a_baseline_replaces_nothing_by_accident(graph: og.Graph, tmp_path: Path) -> None:
    """The rules of every file that is written for a user: what exists is kept, links are followed, devices stay devices."""
    there, link = tmp_path / "there.ndjson", tmp_path / "link.ndjson"
    there.write_text("precious")
    link.symlink_to(there)
    for target in (there, link):
        with pytest.raises(AlreadyExists):
            graph.baseline(target)
    assert there.read_text() == "precious"
    graph.baseline(link, overwrite=True)
    assert link.is_symlink()
    assert json.loads(there.read_text().splitlines()[-1]).keys() == {"baseline"}
    with pytest.raises(OmnigraphError):
        graph.baseline("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith("ndjson")) == [link.name, there.name]


def as_held(state: model.State) -> dict[str, Any]:
    rows = {}
    for (_, type_name, id), row in state.items():
        ends = {"from": row["src"], "to": row["dst"]} if "src" in row else None
        properties = {name: value for name, value in row.items() if name not in ("id", "src", "dst")}
        rows[f"{type_name} {id}"] = {"properties": properties, "endpoints": ends}
    return rows


def change_something(graph: og.Graph, dice: random.Random) -> None:
    """One random commit on main: rows written, removed, merged from a branch, or only stored anew."""
    match dice.randrange(6):
        case 0:
            graph.maintenance.optimize()
        case 1:
            name = f"b{dice.getrandbits(40)}"
            graph.branches.create(name)
            with graph.transaction(name) as tx:
                tx.upsert("Person", name=dice.choice("abcdef"), age=dice.randrange(9))
            graph.branches.merge(name, strategy="theirs", delete_branch=True)
        case _:
            with graph.transaction() as tx:
                for _ in range(dice.randrange(1, 5)):
                    name = dice.choice("abcdefgh")
                    if dice.random() < 0.3:
                        tx.delete("Person", name)
                    else:
                        tx.upsert("Person", name=name, age=dice.randrange(9), nick=dice.choice([None, "", "n"]))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reader_that_stops_anywhere_rebuilds_the_branch(graph: og.Graph, tmp_path: Path, seed: int) -> None:
    """Every restart is a new reader that knows only the file; it may stop before or after anything it does."""

    class Stopped(Exception): ...

    class Stopping(feed_consumer.Consumer):
        def step(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise Stopped

    dice = random.Random(seed)
    for _ in range(12):
        change_something(graph, dice)
        reader = Stopping(graph, tmp_path / "held.json", dice.getrandbits(20), dice.randrange(1, 12))
        with contextlib.suppress(Stopped):
            reader.run()
    feed_consumer.Consumer(graph, tmp_path / "held.json", seed, 0).run()
    held = json.loads((tmp_path / "held.json").read_text())
    assert held["rows"] == as_held(model.state_of(graph, "main"))


def test_a_killed_reader_rebuilds_the_branch(graph: og.Graph, tmp_path: Path) -> None:
    dice = random.Random(7)
    uri = graph.uri.removeprefix("file://")
    consumer, held_file = Path(feed_consumer.__file__), str(tmp_path / "held.json")
    codes = []
    for steps in (1, 5, 3, 0):
        for _ in range(3):
            change_something(graph, dice)
        codes.append(exit_code(consumer, uri, held_file, str(steps), str(steps)))
    assert codes == [-9, -9, -9, 0]
    held = json.loads((tmp_path / "held.json").read_text())
    assert held["rows"] == as_held(model.state_of(graph, "main"))
