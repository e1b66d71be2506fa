"""Conflicts decided one by one: what is taken, what is checked, what is refused, and what the commit says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import InputError, MergeConflicts, PreconditionFailed, RecordError, StaleResolution, UsageError

SCHEMA = """
node Person {
  name: String @key
  mail: String? @unique
  age: I32?
  born: DateTime?
  @range(age, 0..150)
}
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
edge Owns: Person -> Note @card(0..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="a", age=1, born="2000-01-01T00:00:00.000001Z")
        tx.insert("Person", name="b", age=1)
        tx.insert("Person", name="c")
        tx.insert("Note", id="n", text="old")
        tx.insert("Knows", id="ab", from_="a", to="b", since=1)
    graph.branches.create("work")
    return graph


def edit(graph: og.Graph, *, work: Callable[[Any], object], main: Callable[[Any], object]) -> None:
    for branch, act in (("work", work), ("main", main)):
        with graph.transaction(branch) as tx:
            act(tx)


def conflicts_of(graph: og.Graph, **how: Any) -> tuple[og.types.MergeConflict, ...]:
    return graph.branches.merge("work", dry_run=True, **how).conflicts


def only_conflict(graph: og.Graph, **how: Any) -> og.types.MergeConflict:
    (conflict,) = conflicts_of(graph, **how)
    return conflict


def update_on_both(graph: og.Graph) -> None:
    edit(graph, work=lambda tx: tx.update("Person", "a", age=2), main=lambda tx: tx.update("Person", "a", age=3))


def insert_on_both(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.insert("Person", name="new", age=2),
        main=lambda tx: tx.insert("Person", name="new", age=3),
    )


def delete_and_update(graph: og.Graph) -> None:
    edit(graph, work=lambda tx: tx.delete("Person", "c"), main=lambda tx: tx.update("Person", "c", age=3))


def update_and_delete(graph: og.Graph) -> None:
    edit(graph, work=lambda tx: tx.update("Person", "c", age=2), main=lambda tx: tx.delete("Person", "c"))


GONE = "gone"
CASES: list[tuple[Callable[[og.Graph], None], str, dict[str, Any]]] = [
    (update_on_both, "a", {"ours": 3, "theirs": 2, "base": 1, "value": 9}),
    (insert_on_both, "new", {"ours": 3, "theirs": 2, "base": GONE, "delete": GONE, "value": 9}),
    (delete_and_update, "c", {"ours": 3, "theirs": GONE, "base": None, "delete": GONE, "value": 9}),
    (update_and_delete, "c", {"ours": GONE, "theirs": 2, "base": None, "delete": GONE, "value": 9}),
]


@pytest.mark.parametrize(
    ("setting", "id", "take", "expected"),
    [(setting, id, take, expected) for setting, id, takes in CASES for take, expected in takes.items()],
    ids=[f"{setting.__name__}-{take}" for setting, _, takes in CASES for take in takes],
)
@pytest.mark.parametrize("how", [{}, {"by": "property"}, {"strategy": "theirs"}], ids=["row", "property", "theirs"])
def test_what_is_taken_is_what_the_merge_has(
    graph: og.Graph, setting: Callable[[og.Graph], None], id: str, take: Any, expected: Any, how: dict[str, Any]
) -> None:
    setting(graph)
    conflict = only_conflict(graph)
    value = {"name": id, "age": 9} if take == "value" else None
    before = {person["id"]: person for person in people(graph)}
    tried = graph.branches.merge("work", resolutions=[conflict.resolve(take, value)], dry_run=True, **how)
    merged = graph.branches.merge("work", resolutions=[conflict.resolve(take, value)], **how)
    assert (merged.outcome, tried.outcome, tried.types) == ("merged", "merged", merged.types)
    found = graph.entity("Person", id)
    assert (GONE if found is None else found["age"]) == expected
    after = {person["id"]: person for person in people(graph)}
    assert {**before, id: None} == {**after, id: None}
    assert graph.maintenance.verify(deep=True).is_whole
    counts = merged.types.get("node:Person")
    changed = [change.op for change in graph.diff("main~1", "main", types=["Person"])]
    counted = () if counts is None else (counts.inserted, counts.updated, counts.deleted)
    assert counted in ((), tuple(changed.count(op) for op in ("insert", "update", "delete")))


def people(graph: og.Graph) -> list[Any]:
    rows = graph.query("query q() { match { $p: Person } return { $p } }").rows
    return [row["p"] for row in rows]


def test_a_conflict_has_the_three_images_and_what_differs(graph: og.Graph) -> None:
    update_on_both(graph)
    conflict = only_conflict(graph)
    entity = graph.entity("Person", "a")
    assert (conflict.ours, conflict.theirs) == (entity, graph.entity("Person", "a", revision="work"))
    assert conflict.base == graph.entity("Person", "a", revision="main~1")
    assert [each.name for each in conflict.properties] == ["age"]
    assert conflict.to_json()["digest"] == conflict.digest


def test_equal_images_have_equal_digests_and_others_do_not(graph: og.Graph) -> None:
    update_on_both(graph)
    first = only_conflict(graph)
    assert only_conflict(graph).digest == first.digest
    with graph.transaction() as tx:
        tx.update("Person", "a", mail="m")
    assert only_conflict(graph).digest != first.digest


@pytest.mark.parametrize("branch", ["main", "work"])
def test_a_choice_about_other_values_is_stale_and_nothing_is_published(graph: og.Graph, branch: str) -> None:
    update_on_both(graph)
    decided = only_conflict(graph).resolve("theirs")
    with graph.transaction(branch) as tx:
        tx.update("Person", "a", age=7)
    head = graph.head()
    with pytest.raises(StaleResolution) as caught:
        graph.branches.merge("work", resolutions=[decided])
    assert caught.value.details() == {"type": "Person", "id": "a"}
    assert graph.head() == head


def test_a_change_elsewhere_does_not_make_a_choice_stale(graph: og.Graph) -> None:
    update_on_both(graph)
    decided = only_conflict(graph).resolve("theirs")
    with graph.transaction() as tx:
        tx.update("Person", "b", age=7)
    assert graph.branches.merge("work", resolutions=[decided]).outcome == "merged"
    assert {person["id"]: person["age"] for person in people(graph)} == {"a": 2, "b": 7, "c": None}


def test_where_nothing_is_in_conflict_a_choice_is_stale(graph: og.Graph) -> None:
    update_on_both(graph)
    decided = only_conflict(graph).resolve("theirs")
    graph.branches.create("other", "work")
    for source in ("work", "work", "other"):
        if source == "work":
            graph.branches.merge("work", strategy="theirs")
        with pytest.raises(StaleResolution):
            graph.branches.merge(source, resolutions=[decided])


def test_what_is_left_over_is_a_conflict_again(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: (tx.update("Person", "a", age=2), tx.update("Person", "b", age=2)),
        main=lambda tx: (tx.update("Person", "a", age=3), tx.update("Person", "b", age=3)),
    )
    first, second = conflicts_of(graph)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work", resolutions=[first.resolve("ours")])
    assert caught.value.conflicts == (second,)
    graph.branches.merge("work", resolutions=[first.resolve("ours"), second.resolve("theirs")])
    assert [person["age"] for person in people(graph)] == [3, 2, None]


def test_the_commit_says_what_was_decided(graph: og.Graph) -> None:
    update_on_both(graph)
    conflict = only_conflict(graph)
    merged = graph.branches.merge("work", resolutions=[conflict.resolve("base")], message="reviewed", actor="ada")
    assert merged.commit is not None
    assert merged.commit.message == "reviewed\n\nresolved: Person 'a' (base)"
    assert graph.head().message == merged.commit.message


# ---------------------------------------------------------------- rules


def test_a_value_keeps_the_rules_of_the_schema(graph: og.Graph) -> None:
    update_on_both(graph)
    conflict = only_conflict(graph)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work", resolutions=[conflict.resolve("value", {"name": "a", "age": 999})])
    (broken,) = caught.value.conflicts
    assert (broken.kind, broken.entity_id) == ("value_constraint_violation", "a")


def test_a_value_may_not_be_that_of_an_entity_nobody_touched(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.update("Person", "c", mail="c@x")
    graph.branches.delete("work", force=True)
    graph.branches.create("work")
    update_on_both(graph)
    conflict = only_conflict(graph)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work", resolutions=[conflict.resolve("value", {"name": "a", "mail": "c@x"})])
    assert {broken.kind for broken in caught.value.conflicts} == {"unique_violation"}


def test_deleting_a_node_that_has_edges_leaves_them_in_conflict_until_they_are_decided(graph: og.Graph) -> None:
    update_on_both(graph)
    conflict = only_conflict(graph)
    delete = conflict.resolve("delete")
    (orphan,) = conflicts_of(graph, resolutions=[delete])
    assert (orphan.kind, orphan.entity_id, orphan.type_name) == ("orphan_edge", "ab", "Knows")
    graph.branches.merge("work", resolutions=[delete, orphan.resolve("delete")])
    assert (graph.entity("Person", "a"), graph.entity("Knows", "ab")) == (None, None)
    assert graph.maintenance.verify(deep=True).is_whole


@pytest.mark.parametrize("take", ["delete", "ours", "theirs"])
def test_an_edge_that_lost_its_node_is_decided(graph: og.Graph, take: Any) -> None:
    edit(
        graph,
        work=lambda tx: tx.insert("Knows", id="bc", from_="b", to="c"),
        main=lambda tx: tx.delete("Person", "c"),
    )
    conflict = only_conflict(graph)
    assert (conflict.kind, conflict.ours, conflict.base) == ("orphan_edge", None, None)
    assert conflict.theirs is not None
    if take == "theirs":
        with pytest.raises(MergeConflicts):
            graph.branches.merge("work", resolutions=[conflict.resolve(take)])
        moved = conflict.resolve("value", {"from": "b", "to": "a", "since": 5})
        graph.branches.merge("work", resolutions=[moved])
        assert graph.entity("Knows", "bc") == {"id": "bc", "from": "b", "to": "a", "since": 5}
    else:
        graph.branches.merge("work", resolutions=[conflict.resolve(take)])
        assert graph.entity("Knows", "bc") is None
    assert graph.maintenance.verify(deep=True).is_whole


def test_two_entities_with_one_value_are_decided_by_changing_one(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.update("Person", "b", mail="m"),
        main=lambda tx: tx.update("Person", "c", mail="m"),
    )
    found = {conflict.entity_id: conflict for conflict in conflicts_of(graph)}
    (id, conflict) = next(iter(found.items()))
    assert conflict.kind == "unique_violation"
    graph.branches.merge("work", resolutions=[conflict.resolve("value", {"name": id, "mail": "other"})])
    assert sorted(person["mail"] or "" for person in people(graph)) == ["", "m", "other"]


# ---------------------------------------------------------------- what is refused


def test_a_merge_of_reviewed_heads_merges_no_others(graph: og.Graph) -> None:
    update_on_both(graph)
    tried = graph.branches.merge("work", dry_run=True, strategy="ours")
    expect = (tried.source_commit, tried.target_commit)
    assert expect == (graph.show("work").id, graph.show("main").id)
    for branch in ("work", "main"):
        with graph.transaction(branch) as tx:
            tx.insert("Note", text="new")
        with pytest.raises(PreconditionFailed) as caught:
            graph.branches.merge("work", strategy="ours", expect=expect)
        assert caught.value.actual == graph.show(branch if branch == "work" else "work").id
    now = (graph.show("work").id, graph.show("main").id)
    assert graph.branches.merge("work", strategy="ours", expect=now).outcome == "merged"


def test_a_target_that_moves_during_the_merge_is_not_merged_with_unseen(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.merge import merge as merging

    update_on_both(graph)
    expect = (graph.show("work").id, graph.show("main").id)
    publish = merging.publish

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(merging, "publish", publish)
        with graph.transaction() as tx:
            tx.insert("Note", text="meanwhile")
        return publish(*arguments, **options)

    monkeypatch.setattr(merging, "publish", overtaken)
    with pytest.raises(PreconditionFailed):
        graph.branches.merge("work", strategy="ours", expect=expect)


@pytest.mark.parametrize(
    "members",
    [
        {"take": "all"},
        {"take": "value"},
        {"take": "ours", "value": {"properties": {}}},
        {"entity_kind": "table"},
        {"entity_id": 7},
        {"seen": None},
        {"more": 1},
        {"take": "value", "value": {"age": 1}},
        {"take": "value", "value": {"properties": {}, "endpoints": {"src": "a"}}},
        {"take": "value", "value": []},
    ],
    ids=str,
)
def test_what_is_no_resolution_is_refused(members: dict[str, Any]) -> None:
    good = {"entity_kind": "node", "type_name": "Person", "entity_id": "a", "take": "ours", "seen": "0"}
    assert og.Resolution.from_json(good).take == "ours"
    with pytest.raises(UsageError):
        og.Resolution.from_json({**good, **members})
    for name in good:
        with pytest.raises(UsageError, match=f"needs '{name}'"):
            og.Resolution.from_json({key: value for key, value in good.items() if key != name})
    with pytest.raises(UsageError, match="is an object"):
        og.Resolution.from_json([])


def test_resolutions_are_of_entities_of_the_schema_and_one_for_each(graph: og.Graph) -> None:
    update_on_both(graph)
    decided = only_conflict(graph).resolve("ours")
    unknown = og.Resolution("node", "Nobody", "a", "ours", decided.seen)
    wrong: list[Sequence[Any]] = [[decided, decided], [unknown], [{"take": "ours"}], "ours"]
    for resolutions in wrong:
        with pytest.raises(UsageError):
            graph.branches.merge("work", resolutions=resolutions)
    not_ids: Any = ["a", "b"]
    with pytest.raises(UsageError, match="two commit ids"):
        graph.branches.merge("work", expect=not_ids)


@pytest.mark.parametrize("value", [{"name": "z"}, {"name": "a", "shoe": 1}, {"name": "a", "age": "old"}], ids=str)
def test_a_value_is_one_of_the_entity_and_its_type(graph: og.Graph, value: dict[str, Any]) -> None:
    update_on_both(graph)
    with pytest.raises(InputError) as caught:
        graph.branches.merge("work", resolutions=[only_conflict(graph).resolve("value", value)])
    assert isinstance(caught.value, RecordError)


# ---------------------------------------------------------------- ways in


def test_an_instant_that_was_taken_keeps_its_microseconds(graph: og.Graph) -> None:
    update_on_both(graph)
    born = graph.entity("Person", "a")["born"]  # type: ignore[index]
    graph.branches.merge("work", resolutions=[only_conflict(graph).resolve("base")])
    assert graph.entity("Person", "a") == {"id": "a", "name": "a", "mail": None, "age": 1, "born": born}


def test_the_command_line_takes_a_file(graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from omnigraph.cli.main import run

    update_on_both(graph)
    where = ["--store", graph.uri]
    assert run(["branch", "merge", "work", "--dry-run", "--json", *where]) == 1
    (conflict,) = json.loads(capsys.readouterr().out)["conflicts"]
    members = {name: conflict[name] for name in ("entity_kind", "type_name", "entity_id")}
    image = {"properties": {"name": "a", "age": 8}}
    decided = [{**members, "take": "value", "value": image, "seen": conflict["digest"]}]
    (tmp_path / "decided.json").write_text(json.dumps(decided))
    (tmp_path / "wrong.json").write_text("{}")
    assert run(["branch", "merge", "work", "--resolutions", str(tmp_path / "wrong.json"), *where]) == 2
    assert run(["branch", "merge", "work", "--resolutions", str(tmp_path / "none.json"), *where]) == 2
    assert run(["branch", "merge", "work", "--resolutions", str(tmp_path / "decided.json"), *where]) == 0
    assert graph.entity("Person", "a")["age"] == 8  # type: ignore[index]
    assert run(["branch", "merge", "work", "--resolutions", str(tmp_path / "decided.json"), *where]) == 1


@pytest.mark.parametrize("required", [False, True], ids=["nullable", "required"])
def test_a_value_that_leaves_out_a_blob_keeps_it(tmp_path: Path, required: bool) -> None:
    """Over HTTP the bytes are not seen, so they are not sent back either."""
    blob = "Blob" if required else "Blob?"
    graph = og.init(
        tmp_path / "g", schema=f"node File {{ name: String @key  size: I64?  data: {blob} }}", durability="process"
    )
    with graph.transaction() as tx:
        tx.insert("File", name="a", size=1, data=b"first")
    graph.branches.create("work")
    edit(
        graph,
        work=lambda tx: tx.update("File", "a", size=2),
        main=lambda tx: tx.update("File", "a", size=3, data=b"second"),
    )
    decided = only_conflict(graph).resolve("value", {"name": "a", "size": str(2**53 + 1)})
    graph.branches.merge("work", resolutions=[decided])
    assert graph.entity("File", "a") == {"id": "a", "name": "a", "size": 2**53 + 1, "data": b"second"}
