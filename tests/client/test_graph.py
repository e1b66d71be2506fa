"""A served graph beside the same graph opened: the same values, and the same errors."""

from __future__ import annotations

import datetime as dt
import inspect
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from client.conftest import TOKEN, serving
from serving import ADD, ALL, Fixed

import omnigraph as og
from omnigraph import errors
from omnigraph.client.graph import RemoteBranches, RemoteGraph, RemoteTags
from omnigraph.client.state import REFUSED
from omnigraph.client.writing import SERVED_OPTIONS
from omnigraph.graph.branches import GraphBranches, GraphTags
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

TYPED = "query typed() { match { $p: Person } return { $p.name as name, $p.age as age, $p.born as born, $p } order { name } }"
BORN = "query born($name: String, $at: DateTime) { update Person set { born: $at } where name = $name }"


@pytest.fixture
def local(people: Path) -> og.Graph:
    return og.open(people)


def public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_every_method_of_a_graph_is_served_or_refused_with_a_reason() -> None:
    served = public(RemoteGraph).keys()
    assert public(og.Graph).keys() | {"stored_queries"} == served | REFUSED.keys()
    assert served.isdisjoint(REFUSED)
    assert all(REFUSED.values())
    assert public(GraphBranches).keys() == public(RemoteBranches).keys()
    assert public(GraphTags).keys() == public(RemoteTags).keys()


@pytest.mark.parametrize(
    ("kind", "remote"), [(og.Graph, RemoteGraph), (GraphBranches, RemoteBranches), (GraphTags, RemoteTags)]
)
def test_what_is_served_takes_the_same_arguments(kind: type, remote: type) -> None:
    for name, member in public(remote).items():
        if inspect.isfunction(member):
            here = inspect.signature(getattr(kind, name)).parameters
            there = inspect.signature(member).parameters
            assert [(each.name, each.kind, each.default) for each in there.values()] == [
                (each.name, each.kind, each.default) for each in here.values()
            ], name


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_takes_storage_is_refused(name: str, remote: RemoteGraph) -> None:
    with pytest.raises(errors.UsageError, match=f"a served graph has no '{name}'") as refused:
        getattr(remote, name)()
    assert refused.value.hint == REFUSED[name]


def test_a_query_has_the_same_rows_columns_and_commit(remote: RemoteGraph, local: og.Graph) -> None:
    moment = dt.datetime(1815, 12, 10, 6, 30, tzinfo=dt.UTC)
    remote.mutate(BORN, {"name": "Ada", "at": moment})
    here, there = local.query(TYPED), remote.query(TYPED)
    assert there.rows == here.rows
    assert there.rows[0]["born"] == moment
    assert (there.columns, there.query_name, len(there)) == (here.columns, "typed", 2)
    assert there.to_arrow().equals(here.to_arrow())
    assert there.to_json() == here.to_json()
    assert there.commit.id == here.commit.id
    assert isinstance(there, og.types.Result)
    friends = "query q() { match { $a: Person  $a knows $b } return { $a, $b } }"
    assert set(remote.query(friends).to_networkx().edges()) == set(local.query(friends).to_networkx().edges())


def test_a_query_reads_any_revision_and_time(remote: RemoteGraph, local: og.Graph) -> None:
    before = remote.head()
    remote.mutate(ADD, {"name": "Cy"})
    assert len(remote.query(ALL)) == 3
    for revision in (before.id, "main~1"):
        assert len(remote.query(ALL, revision=revision)) == 2
        assert remote.show(revision) == before
    assert len(remote.query(ALL, as_of=before.at)) == 2
    assert remote.snapshot(before.id).types == local.snapshot(before.id).types
    assert remote.snapshot().schema.hash == local.schema.catalog.hash
    assert remote.lint(ALL).status == local.lint(ALL).status == "ok"


def test_a_mutation_gives_the_receipt_of_the_library(remote: RemoteGraph, local: og.Graph) -> None:
    receipt = remote.mutate(ADD, {"name": "Cy", "age": 9}, message="né")
    head = local.head()
    assert (receipt.commit.id, receipt.actor, receipt.query_name) == (head.id, "ada", "add")  # type: ignore[union-attr]
    assert (head.actor, head.message) == ("ada", "né")
    assert receipt.types == {"node:Person": og.types.TypeCounts(inserted=1)}
    nothing = remote.mutate("query q() { delete Person where name = 'Nobody' }".replace("'", '"'))
    assert (nothing.commit, nothing.affected_nodes) == (None, 0)
    assert local.head() == head


def test_a_write_key_is_used_once(remote: RemoteGraph, local: og.Graph) -> None:
    first = remote.mutate(ADD, {"name": "Cy"}, once="key-1")
    again = remote.mutate(ADD, {"name": "Cy"}, once="key-1")
    assert (again.commit, again.repeated, first.repeated) == (first.commit, True, False)
    with pytest.raises(errors.WriteKeyReused):
        remote.mutate(ADD, {"name": "Dee"}, once="key-1")
    for wrong in (("app", 1), "a b", "ü"):
        with pytest.raises(errors.UsageError):
            remote.mutate(ADD, {"name": "Dee"}, once=wrong)
    assert len(local.commits()) == 3


def test_errors_are_those_of_the_library(remote: RemoteGraph, local: og.Graph) -> None:
    calls: list[Any] = [
        lambda g: g.query("query q( {"),
        lambda g: g.query(ADD, {"name": "x"}),
        lambda g: g.query(ALL, {"extra": 1}),
        lambda g: g.query(ALL, revision="nowhere"),
        lambda g: g.mutate(ADD, {"name": 3}),
        lambda g: g.mutate(ADD, {"name": "x"}, branch="nowhere"),
        lambda g: g.mutate(ADD, {"name": "x"}, if_commit=g.show("main~1").id),
        lambda g: g.mutate('query q() { insert Knows { from: "Ada", to: "Nobody" } }'),
        lambda g: g.branches.create("main"),
        lambda g: g.changes("main", since="nonsense"),
        lambda g: g.commit_changes(g.show("main~1").id),
        lambda g: g.schema.apply("node Person {"),
        lambda g: g.query(ALL, revision=7),
        lambda g: g.changes(types=["Ghost"]),
    ]
    for call in calls:
        raised = []
        for graph in (local, remote):
            with pytest.raises(errors.OmnigraphError) as caught:
                call(graph)
            raised.append(caught.value)
        here, there = raised
        assert (type(there), there.message, there.hint, there.code) == (type(here), here.message, here.hint, here.code)
        details = [error.details() for error in raised]
        if isinstance(here, errors.EndpointMissing):
            assert all(each.pop("id") for each in details)  # each edge has an id of its own
        assert details[0] == details[1]


def test_merge_conflicts_come_with_their_values(remote: RemoteGraph, local: og.Graph) -> None:
    set_age = 'query q($age: I32) { update Person set { age: $age } where name = "Ada" }'
    remote.branches.create("review")
    remote.mutate(set_age, {"age": 1}, branch="review")
    remote.mutate(set_age, {"age": 2})
    raised = []
    for graph in (local, remote):
        with pytest.raises(errors.MergeConflicts) as caught:
            graph.branches.merge("review")
        raised.append(caught.value)
    assert raised[1].conflicts[0].properties == raised[0].conflicts[0].properties
    assert (raised[1].message, raised[1].hint) == (raised[0].message, raised[0].hint)
    here, there = (graph.branches.merge("review", dry_run=True) for graph in (local, remote))
    assert (there.outcome, there.bases, there.hint) == (here.outcome, here.bases, here.hint)
    assert there.outcome == "conflicts"
    merged = remote.branches.merge("review", strategy="theirs", message="theirs")
    assert (merged.commit.id, merged.outcome) == (local.head().id, "merged")  # type: ignore[union-attr]
    assert local.entity("Person", "Ada")["age"] == 1  # type: ignore[index]


def test_conflicts_are_decided_over_the_network(remote: RemoteGraph, local: og.Graph) -> None:
    set_age = 'query q($age: I32) { update Person set { age: $age } where name = "Ada" }'
    remote.branches.create("decided")
    remote.mutate(set_age, {"age": 11}, branch="decided")
    remote.mutate(set_age, {"age": 12})
    here, there = (graph.branches.merge("decided", dry_run=True) for graph in (local, remote))
    (conflict,) = there.conflicts
    assert (conflict.base, conflict.ours, conflict.theirs, conflict.digest) == (
        here.conflicts[0].base,
        here.conflicts[0].ours,
        here.conflicts[0].theirs,
        here.conflicts[0].digest,
    )
    decided = conflict.resolve("value", {"name": "Ada", "age": 13})
    expect = (there.source_commit, there.target_commit)
    assert remote.branches.merge("decided", resolutions=[decided], expect=expect).outcome == "merged"
    assert local.entity("Person", "Ada")["age"] == 13  # type: ignore[index]
    with pytest.raises(errors.StaleResolution):
        remote.branches.merge("decided", resolutions=[decided])


def test_branches_are_made_listed_and_deleted(remote: RemoteGraph, local: og.Graph) -> None:
    made = remote.branches.create("a/b", "main~1")
    assert (made.name, made.head.id) == ("a/b", local.show("main~1").id)
    assert [branch.name for branch in remote.branches.list()] == [branch.name for branch in local.branches.list()]
    assert remote.branches.exists("a/b")
    remote.mutate(ADD, {"name": "Cy"}, branch="a/b")
    with pytest.raises(errors.BranchNotMerged) as refused:
        remote.branches.delete("a/b")
    assert refused.value.commits == 1
    remote.branches.delete("a/b", force=True)
    assert not local.branches.exists("a/b")


def test_commits_are_listed_from_any_revision(remote: RemoteGraph, local: og.Graph) -> None:
    for number in range(4):
        remote.mutate(ADD, {"name": f"n{number}"})
    local.branches.create("side", "main~1")

    def ids(graph: Any, *arguments: Any, **options: Any) -> list[str]:
        return [commit.id for commit in graph.commits(*arguments, **options)]

    middle = local.show("main~2")
    for arguments, options in [
        ((), {}),
        ((), {"limit": 2}),
        ((), {"actor": "ada", "limit": 3}),
        (("side",), {"limit": 2}),
        (("main~2",), {}),
        ((middle.id,), {"limit": 1}),
        ((), {"before": middle.id}),
        ((), {"as_of": middle.at}),
    ]:
        assert ids(remote, *arguments, **options) == ids(local, *arguments, **options), (arguments, options)


def test_files_are_loaded_and_exported_whole(remote: RemoteGraph, local: og.Graph, tmp_path: Path) -> None:
    out = tmp_path / "people.jsonl"
    assert remote.export(out) == local.export(tmp_path / "here.jsonl") == 4
    assert sorted(out.read_bytes().splitlines()) == sorted((tmp_path / "here.jsonl").read_bytes().splitlines())
    with pytest.raises(errors.AlreadyExists):
        remote.export(out)
    assert remote.export(out, types=["City"], overwrite=True) == 1
    assert b"".join(remote.export_stream(types=["City"])) == out.read_bytes()
    more = tmp_path / "more.ndjson"
    more.write_text('{"type": "Person", "data": {"name": "Cy", "age": 37}}\n{"type": "City", "data": {"name": "Oslo"}}')
    loaded = remote.load([tmp_path / "here.jsonl", more], mode="merge", branch="inbox", from_="main", message="both")
    assert (loaded.branch_created, loaded.commit.message) == (True, "both")  # type: ignore[union-attr]
    assert loaded.types["node:City"] == og.types.LoadCounts(inserted=1, unchanged=1)
    assert loaded.commit.id == local.show("inbox").id  # type: ignore[union-attr]
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"type": "Person", "data": {"nme": "x"}}\n')
    with pytest.raises(errors.RejectedRecords) as rejected:
        remote.load(bad, mode="append")
    assert (rejected.value.total, len(rejected.value.rejects)) == (1, 1)


def test_what_is_done_about_missing_nodes_is_told_to_the_server(remote: RemoteGraph, tmp_path: Path) -> None:
    (tmp_path / "Knows.csv").write_text("from,to\nAda,Nobody\nAda,Bo\n")
    (tmp_path / "knows.jsonl").write_text('{"edge": "LivesIn", "from": "Ada", "to": "Oslo"}\n')
    skipped = remote.load(tmp_path / "Knows.csv", mode="append", missing="skip")
    assert (skipped.skipped, skipped.rejected, skipped.loaded) == ({"edge:Knows": 1}, 1, {"edge:Knows": 1})
    assert skipped.missing == (og.types.MissingNodes("Knows", "to", "Person", 1, 1, ("Nobody",)),)
    assert remote.load(tmp_path / "knows.jsonl", mode="append", missing="stub").stubs == {"node:City": 1}
    assert remote.entity("City", "Oslo") is not None


def test_options_of_a_load_that_take_storage_or_do_not_fit_are_refused(remote: RemoteGraph, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("")
    refused: list[dict[str, Any]] = [
        {"format": "csv"},
        {"type": "Person"},
        {"delimiter": ";"},
        {"map": {"a": "name"}},
        {"rejects": "r"},
        {"new_branch": True},
        {"actor": "x"},
    ]
    for options in refused:
        with pytest.raises(errors.UsageError):
            remote.load(tmp_path / "x.jsonl", mode="append", **options)


def test_changes_are_the_same_value_by_value(remote: RemoteGraph, local: og.Graph, tmp_path: Path) -> None:
    remote.mutate(BORN, {"name": "Bo", "at": "2000-02-03T04:05:06Z"})
    head = remote.head().id
    assert remote.commit_changes(head).changes == local.commit_changes(head).changes
    here, there = local.changes(start="beginning"), remote.changes(start="beginning")
    assert [block.changes for block in there.blocks] == [block.changes for block in here.blocks]
    assert [block.commit.id for block in there.blocks] == [block.commit.id for block in here.blocks]
    assert (there.cursor, there.caught_up) == (here.cursor, True)
    assert remote.changes(since=there.cursor).blocks == ()
    only = remote.commit_changes(local.commits()[1].id, limit=1, kinds=["edge"], ops=["insert"])
    assert [change.type_name for change in only.changes] == ["Knows"]
    assert remote.baseline(tmp_path / "a") == local.baseline(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_entities_their_histories_and_differences_are_the_same(remote: RemoteGraph, local: og.Graph) -> None:
    remote.mutate(BORN, {"name": "Bo", "at": "2000-02-03T04:05:06Z"})
    remote.mutate('query q() { delete Person where name = "Ada" }')
    for type, id, revision in (("Person", "Bo", "main"), ("Knows", "ada-bo", "main~2"), ("Person", "Ada", "main")):
        assert remote.entity(type, id, revision=revision) == local.entity(type, id, revision=revision)
        here, there = local.history(type, id), remote.history(type, id)
        assert [(each.commit.id, each.value) for each in there] == [(each.commit.id, each.value) for each in here]
    assert remote.entity("Person", "Nobody") is None
    assert list(remote.diff("main~2", "main")) == list(local.diff("main~2", "main"))
    assert list(remote.diff("main", "main~2", kinds=["edge"])) == list(local.diff("main", "main~2", kinds=["edge"]))
    assert str(remote.explain(ALL)) == str(local.explain(ALL))


def test_changes_of_types_that_are_gone_are_read_with_the_schema_before(remote: RemoteGraph, local: og.Graph) -> None:
    dropped = local.schema.catalog.source.replace("node City { name: String @key }", "").replace(
        "edge LivesIn: Person -> City", ""
    )
    remote.schema.apply(dropped)
    assert list(remote.diff("main~1", "main")) == list(local.diff("main~1", "main"))
    here, there = local.changes(start="beginning"), remote.changes(start="beginning")
    assert [block.changes for block in there.blocks] == [block.changes for block in here.blocks]


def test_tags_name_commits(remote: RemoteGraph, local: og.Graph) -> None:
    made = remote.tags.create("v1", "main~1")
    assert (made.name, made.head.id) == ("v1", local.show("main~1").id)
    assert [(tag.name, tag.head.id) for tag in remote.tags.list()] == [("v1", made.head.id)]
    assert remote.show("v1") == made.head
    with pytest.raises(errors.AlreadyExists):
        remote.tags.create("v1")
    remote.tags.delete("v1")
    assert local.tags.list() == []


def test_blobs_are_read(tmp_path: Path) -> None:
    photos = og.init(tmp_path / "photos", "node Photo { name: String @key  image: Blob?  small: Blob? }")
    with photos.transaction() as tx:
        tx.insert("Photo", name="sea", image=b"blue and grey")
    source = Fixed({"photos": tmp_path / "photos"}, queries="")
    with (
        serving(Application(source, source.load(), log=RequestLog("json", StringIO()))) as url,
        og.connect(url, graph="photos") as remote,
    ):
        assert remote.entity("Photo", "sea") == photos.entity("Photo", "sea")
        blob = remote.blob("Photo", "sea", "image")
        assert blob.etag == photos.blob("Photo", "sea", "image").etag
        assert (blob.size, blob.read(5, 3)) == (13, b"and")
        with pytest.raises(errors.NotFound):
            remote.blob("Photo", "sea", "small")


def test_a_schema_is_changed(remote: RemoteGraph, local: og.Graph) -> None:
    wider = local.schema.catalog.source + "\nnode Team { name: String @key  size: I64? }"
    receipt = remote.schema.apply(wider, message="teams")
    assert receipt.commit.id == local.head().id  # type: ignore[union-attr]
    assert receipt.plan.lines() == ["add node type 'Team'"]
    assert remote.schema.apply(wider).commit is None
    assert "Team" in remote.schema.catalog.nodes
    narrower = wider.replace("size: I64?", "size: String?")
    with pytest.raises(errors.SchemaChangeRefused) as refused:
        remote.schema.apply(narrower)
    assert refused.value.steps
    (block,) = remote.changes(start=f"after:{local.show('main~1').id}").blocks
    assert [step.line() for step in block.schema_steps] == ["add node type 'Team'"]


def test_a_token_is_shown_nowhere(url: str) -> None:
    with og.connect(url, graph="nothing", token=TOKEN) as graph:
        assert TOKEN not in repr(graph) + repr(vars(graph)) + repr(graph._state.connection)
        with pytest.raises(errors.GraphNotFound) as missing:
            _ = graph.schema.catalog
    assert TOKEN not in str(missing.value) + repr(missing.value.to_json())
    with og.connect(url, graph="people", token="wrong-token") as graph, pytest.raises(errors.Unauthorized) as refused:
        _ = graph.schema.catalog
    assert "wrong-token" not in str(refused.value)
    with pytest.raises(errors.UsageError) as bad:
        og.connect(url, graph="people", token="with space")
    assert "with space" not in str(bad.value)


def test_stored_queries_are_listed_and_run(remote: RemoteGraph) -> None:
    stored = {each.name: each for each in remote.stored_queries.list()}
    assert list(stored) == ["add", "by_name", "everyone"]
    assert (stored["everyone"].description, stored["everyone"].is_mutation) == ("All people", False)
    assert (stored["add"].instruction, stored["add"].is_mutation) == ("Adds one", True)
    assert [(each.name, each.kind, each.nullable) for each in stored["add"].parameters] == [
        ("name", "string", False),
        ("age", "int", True),
    ]
    result = remote.stored_queries.query("everyone")
    assert result.rows == [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 27}]
    assert [(each.name, each.kind) for each in result.columns] == [("name", "string"), ("age", "int")]
    assert (result.query_name, result.commit_id) == ("everyone", remote.head().id)
    with pytest.raises(errors.UsageError, match="stays on the server"):
        result.to_networkx()
    before = remote.head()
    made = remote.stored_queries.mutate("add", {"name": "Cy"}, if_commit=before.id)
    assert made.commit == remote.head()
    with pytest.raises(errors.PreconditionFailed):
        remote.stored_queries.mutate("add", {"name": "Dee"}, if_commit=before.id)
    assert remote.stored_queries.query("by_name", {"name": "Cy"}, revision=before.id).rows == []


def test_indexes_are_those_of_the_library(remote: RemoteGraph, local: og.Graph) -> None:
    assert remote.indexes() == local.indexes()
    assert remote.indexes("main~1") == local.indexes("main~1")


ELSEWHERE: dict[str, object] = {
    "new_branch": True,
    "reader_options": {"dbtable": "people"},
    "quote": "'",
    "null": "-",
    "columns": ["name"],
    "date_format": "%d.%m.%Y",
    "time_format": "%H:%M",
    "map": {"a": "name"},
    "rejects": "aside.jsonl",
    "conf": {"spark.sql.shuffle.partitions": "1"},
    "dry_run": True,
}


def test_a_load_takes_an_option_or_refuses_it(remote: RemoteGraph, tmp_path: Path) -> None:
    """One that is added to the library is refused until a server takes it."""
    file = tmp_path / "people.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Eve"}}\n')
    assert inspect.signature(remote.load) == inspect.signature(og.Graph.load.__get__(remote))
    options = inspect.signature(remote.load).parameters.keys() - {"sources", "progress"}
    assert options - SERVED_OPTIONS == ELSEWHERE.keys()
    for name, value in ELSEWHERE.items():
        with pytest.raises(errors.UsageError, match=f"a served graph takes no '{name}'"):
            remote.load(file, mode="merge", **{name: value})  # type: ignore[arg-type]
