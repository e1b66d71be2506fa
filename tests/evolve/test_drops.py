"""What was dropped: after a soft drop it can be had back with some effort, after a hard one no read of the branch sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts, QueryError, UsageError

SCHEMA = """
node Person { name: String @key  secret: String?  age: I32? }
node City { name: String @key  secret: String? }
edge Knows: Person -> Person { secret: String? }
"""
DROPS = {
    "a property": SCHEMA.replace("name: String @key  secret: String?  age", "name: String @key  age"),
    "a property of edges": SCHEMA.replace("{ secret: String? }", ""),
    "a node type": SCHEMA.replace("node City { name: String @key  secret: String? }", ""),
    "an edge type": SCHEMA.replace("edge Knows: Person -> Person { secret: String? }", ""),
}
SECRET = "hidden"
ASKED = {
    "a property": "query q() { match { $p: Person } return { $p.secret as s } }",
    "a property of edges": "query q() { match { $a $k:knows $b } return { $k.secret as s } }",
    "a node type": "query q() { match { $c: City } return { $c.secret as s } }",
    "an edge type": "query q() { match { $a $k:knows $b } return { $k.secret as s } }",
}
TYPES = {"a property": "Person", "a property of edges": "Knows", "a node type": "City", "an edge type": "Knows"}


@pytest.fixture
def g() -> Iterator[og.Graph]:
    graph = og.init("memory://", schema=SCHEMA)
    with graph.transaction() as tx:
        write(tx, "Ada")
    graph.tags.create("before")
    graph.branches.create("work")
    with graph.transaction() as tx:  # On main alone.
        write(tx, "Bo")
    yield graph
    graph.close()


def write(tx: og.Transaction, name: str, **more: Any) -> None:
    tx.insert("Person", name=name, secret=SECRET, **more)
    tx.insert("City", name=name, secret=SECRET)
    tx.insert("Knows", from_=name, to=name, secret=SECRET)


def secrets(g: og.Graph, drop: str, **where: Any) -> list[Any]:
    return [row["s"] for row in g.query(ASKED[drop], **where).rows]


@pytest.mark.parametrize("drop", DROPS)
def test_a_soft_drop_hides_and_an_older_schema_still_shows(g: og.Graph, drop: str) -> None:
    g.schema.apply(DROPS[drop])
    with pytest.raises(QueryError):
        secrets(g, drop)
    found = secrets(g, drop, revision="main", schema_of="before")
    assert found == ([SECRET, SECRET] if "property" in drop else [])
    assert secrets(g, drop, revision="before") == [SECRET]


@pytest.mark.parametrize("drop", DROPS)
def test_no_schema_shows_what_was_dropped_for_good(g: og.Graph, drop: str) -> None:
    plan = g.schema.plan(DROPS[drop], allow_data_loss=True)
    assert [line.endswith("(hard mode)") for line in plan.lines()] == [True]
    g.schema.apply(DROPS[drop], allow_data_loss=True)
    assert [step.line() for step in g.commit_changes("main").schema_steps] == plan.lines()
    g.schema.apply(DROPS[drop] + "node Later { name: String @key }")
    g.branches.create("from-here")
    for revision in ("main", "main~1", "from-here"):
        with pytest.raises(UsageError, match="dropped for good"):
            secrets(g, drop, revision=revision, schema_of="before")
    assert secrets(g, drop, revision="before") == [SECRET]  # Older commits are as they were, until cleanup.
    assert secrets(g, drop, revision="work") == [SECRET]  # And so are other branches.


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("drop", DROPS)
def test_a_name_that_comes_back_is_another_thing(g: og.Graph, drop: str, hard: bool) -> None:
    g.schema.apply(DROPS[drop], allow_data_loss=hard)
    g.schema.apply(SCHEMA)
    assert [value for value in secrets(g, drop) if value is not None] == []
    g.maintenance.optimize()
    assert [value for value in secrets(g, drop) if value is not None] == []


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("drop", DROPS)
def test_a_merge_brings_back_what_was_dropped_softly_and_never_what_was_dropped_for_good(
    g: og.Graph, drop: str, hard: bool
) -> None:
    with g.transaction("work") as tx:
        write(tx, "Cy")
    g.schema.apply(DROPS[drop], allow_data_loss=hard)
    with pytest.raises(MergeConflicts) as refused:
        g.branches.merge("work")
    (conflict,) = refused.value.schema_conflicts
    assert (conflict.kind, conflict.is_settled_by_strategy) == ("drop_vs_values", not hard)
    if not hard:
        g.branches.merge("work", strategy="theirs")
        assert secrets(g, drop).count(SECRET) >= 2
        return
    for source, target in (("work", "main"), ("main", "work")):
        for strategy in ("ours", "theirs"):
            with pytest.raises(MergeConflicts, match="for good"):
                g.branches.merge(source, target, strategy=strategy)  # type: ignore[arg-type]  # each is a strategy
    with g.transaction("work") as tx:
        tx.delete("Person", "Cy")
        tx.delete("City", "Cy")
    g.branches.merge("work")
    with pytest.raises(QueryError):
        secrets(g, drop)
    with pytest.raises(UsageError, match="dropped for good"):
        secrets(g, drop, revision="main", schema_of="before")
    # What main knows the other branch learns, and so does whoever merges with that.
    g.branches.merge("main", "work")
    with pytest.raises(UsageError, match="dropped for good"):
        secrets(g, drop, revision="work", schema_of="before")


def test_a_property_that_another_branch_adds_under_a_name_that_was_dropped_for_good_is_a_conflict(g: og.Graph) -> None:
    with_mail = SCHEMA.replace("age: I32?", "age: I32?  mail: String?")
    g.schema.apply(with_mail)
    with g.transaction() as tx:
        tx.insert("Person", name="Di", mail=SECRET)
    g.schema.apply(SCHEMA, allow_data_loss=True)
    g.schema.apply(with_mail, branch="work")
    with pytest.raises(MergeConflicts, match="for good"):
        g.branches.merge("work", strategy="theirs")


def test_the_feed_after_the_drop_does_not_have_it(g: og.Graph) -> None:
    g.schema.apply(DROPS["a property"], allow_data_loss=True)
    head = g.head().id
    with g.transaction() as tx:
        tx.update("Person", "Ada", age=1)
        tx.delete("Person", "Bo")
    page = g.changes("main", start="beginning")
    blocks = {block.commit.id: block for block in page.blocks}
    images = [
        image
        for change in blocks[g.head().id].changes
        if change.type_name == "Person"
        for image in (change.before, change.after)
        if image is not None
    ]
    assert len(images) == 3
    assert not any("secret" in image for image in images)
    assert [change for change in g.diff(head, "main") if SECRET in str(change) and change.type_name == "Person"] == []


def test_the_mutations_that_go_with_a_hard_drop_read_it_once(g: og.Graph) -> None:
    fill = "query fill() { update Person set { age: 7 } where secret is not null }"
    g.schema.apply(DROPS["a property"], allow_data_loss=True, with_=fill)
    assert g.entity("Person", "Ada")["age"] == 7
    with pytest.raises(QueryError):
        g.schema.apply(SCHEMA.replace("secret: String?  age", "note: String?  age"), with_=fill)


@pytest.mark.parametrize("drop", DROPS)
def test_nothing_that_is_taken_back_brings_back_what_was_dropped_for_good(g: og.Graph, drop: str) -> None:
    g.schema.apply(DROPS[drop], allow_data_loss=True)
    dropped = g.head().id
    for strategy in ("fail", "theirs"):
        with pytest.raises(MergeConflicts, match="for good"):
            g.revert(dropped, strategy=strategy)  # type: ignore[arg-type]  # each is a strategy
    for revision in ("before", "main~1"):
        with pytest.raises(UsageError, match="dropped for good on this branch"):
            g.reset("main", revision)
    g.schema.apply(DROPS[drop] + "node Later { name: String @key }")
    with pytest.raises(MergeConflicts, match="for good"):
        g.revert(dropped)
    g.reset("main", dropped)
    with pytest.raises(UsageError, match="dropped for good"):
        secrets(g, drop, revision="main", schema_of="before")
    # Who wants it has a branch of its own for it.
    g.branches.create("old", "before")
    assert secrets(g, drop, revision="old") == [SECRET]


@pytest.mark.parametrize("drop", DROPS)
def test_what_was_dropped_softly_comes_back_when_the_drop_is_taken_back(g: og.Graph, drop: str) -> None:
    g.schema.apply(DROPS[drop])
    g.revert("main")
    assert secrets(g, drop) == [SECRET, SECRET]


def test_a_branch_that_goes_back_to_before_a_property_was_there_knows_that_it_was_dropped_for_good(g: og.Graph) -> None:
    with_mail = SCHEMA.replace("age: I32?", "age: I32?  mail: String?")
    g.schema.apply(with_mail, branch="work")
    g.branches.create("other", "work")
    with g.transaction("other") as tx:
        tx.insert("Person", name="Di", mail=SECRET)
    g.schema.apply(SCHEMA, branch="work", allow_data_loss=True)
    g.reset("work", "before")
    assert g.maintenance.verify("work", deep=True).is_whole
    with pytest.raises(MergeConflicts, match="for good"):
        g.branches.merge("other", "work", strategy="theirs")
