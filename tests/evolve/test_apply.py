"""Schema changes on graphs with data: what is read through the new schema, what is written, what older commits say."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import PreconditionFailed, SchemaChangeRefused
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all

BEFORE = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  tier: enum(free, pro)
}
edge Knows: Person -> Person { weight: F32? }
"""
AFTER = """
node Human @rename_from("Person") {
  name: String @key
  years: I64? @rename_from("age")
  tier: enum(free, pro, vip)
  lang: String @default("en")
  tags: [String]?
}
node Team { name: String @key }
edge Knows: Human -> Human { weight: F64? }
"""
EVERYBODY = "query q() { match { $p: Human } return { $p.name, $p.years, $p.lang, $p.tags } order { $p.name } }"


@pytest.fixture
def g(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=BEFORE, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36, tier="free", nick="A")
        tx.insert("Person", name="Bo", tier="pro")
        tx.insert("Knows", from_="Ada", to="Bo", weight=0.5)
    return graph


def values(g: og.Graph, gq: str = EVERYBODY, **options: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in g.query(gq, **options).rows]


def test_rows_are_read_through_the_new_schema_and_written_under_it(g: og.Graph) -> None:
    receipt = g.schema.apply(AFTER, actor="ada", message="people are humans")
    assert receipt.commit is not None
    assert (receipt.commit.kind, receipt.commit.actor, receipt.commit.message) == ("schema", "ada", "people are humans")
    assert values(g) == [("Ada", 36, "en", None), ("Bo", None, "en", None)]
    with g.transaction() as tx:
        tx.insert("Human", name="Cy", years=2**40, tier="vip", lang="fr", tags=["x"])
        tx.update("Human", "Bo", years=7)
        tx.insert("Team", name="Red")
        tx.insert("Knows", from_="Cy", to="Bo", weight=0.1)
    assert values(g) == [("Ada", 36, "en", None), ("Bo", 7, "en", None), ("Cy", 2**40, "fr", ["x"])]
    assert g.entity("Knows", next(iter(_ids(g))))["weight"] in (0.5, 0.1)
    g.maintenance.optimize()
    assert values(g) == [("Ada", 36, "en", None), ("Bo", 7, "en", None), ("Cy", 2**40, "fr", ["x"])]


def _ids(g: og.Graph) -> list[str]:
    return [change.id for change in g.diff("main~2", "main", types=["Knows"])]


def test_filters_see_what_rows_say(g: og.Graph) -> None:
    g.schema.apply(AFTER)
    by_fill = 'query q() { match { $p: Human $p.lang = "en" } return { $p.name } order { $p.name } }'
    by_age = "query q() { match { $p: Human $p.years >= 36 } return { $p.name } }"
    unknown = "query q() { match { $p: Human $p.tags is null } return { count($p) } }"
    assert values(g, by_fill) == [("Ada",), ("Bo",)]
    assert values(g, by_age) == [("Ada",)]
    assert values(g, unknown) == [(2,)]
    with g.transaction() as tx:
        tx.upsert("Human", name="Bo", tier="pro", lang="de", years=50, tags=[])
    assert values(g, by_fill) == [("Ada",)]
    assert values(g, by_age) == [("Ada",), ("Bo",)]
    assert values(g, unknown) == [(1,)]


def test_older_commits_are_read_with_their_own_schema(g: og.Graph) -> None:
    g.schema.apply(AFTER)
    old = "query q() { match { $p: Person } return { $p.name, $p.age, $p.nick } order { $p.name } }"
    assert values(g, old, revision="main~1") == [("Ada", 36, "A"), ("Bo", None, None)]


def test_a_branch_changes_by_itself(g: og.Graph) -> None:
    g.branches.create("trial")
    g.schema.apply(AFTER, branch="trial")
    assert list(g.schema.catalog.nodes) == ["Person"]
    assert values(g, revision="trial") == [("Ada", 36, "en", None), ("Bo", None, "en", None)]
    with g.transaction() as tx:
        tx.insert("Person", name="Di", tier="pro", nick="D", age=1)
    with g.transaction("trial") as tx:
        tx.insert("Human", name="Ed", tier="vip", years=2)
    assert g.entity("Person", "Di") == {"id": "Di", "name": "Di", "age": 1, "nick": "D", "tier": "pro"}
    assert g.entity("Human", "Ed", revision="trial")["lang"] == "en"


def test_two_branches_give_one_name_to_two_properties(g: og.Graph) -> None:
    """Their columns and the numbers of their fields differ, and neither branch sees the other's."""
    for branch, type, value in (("a", "I32?", 1), ("b", "[String]?", ["x"])):
        g.branches.create(branch)
        g.schema.apply(BEFORE.replace("nick: String?", f"nick: String?  extra: {type}"), branch=branch)
        with g.transaction(branch) as tx:
            tx.insert("Person", name="Di", tier="pro", extra=value)
    for branch, value in (("a", 1), ("b", ["x"])):
        assert g.entity("Person", "Di", revision=branch)["extra"] == value
        assert g.entity("Person", "Ada", revision=branch)["extra"] is None


def test_a_dropped_name_can_be_used_for_something_else(g: og.Graph) -> None:
    g.schema.apply(BEFORE.replace("  age: I32?\n", ""))
    g.schema.apply(BEFORE.replace("age: I32?", "age: String?"))
    assert g.entity("Person", "Ada")["age"] is None
    with g.transaction() as tx:
        tx.update("Person", "Ada", age="old")
    assert g.entity("Person", "Ada")["age"] == "old"
    assert g.entity("Person", "Ada", revision="main~3")["age"] == 36


def test_a_name_that_was_given_up_is_free(g: og.Graph) -> None:
    g.schema.apply(BEFORE.replace("nick: String?", 'alias: String? @rename_from("nick")'))
    g.schema.apply(BEFORE.replace("nick: String?", "alias: String?  nick: String?"))
    with g.transaction() as tx:
        tx.update("Person", "Ada", nick="new")
        tx.update("Person", "Bo", alias="B")
    ada, bo = g.entity("Person", "Ada"), g.entity("Person", "Bo")
    assert (ada["alias"], ada["nick"], bo["alias"], bo["nick"]) == ("A", "new", "B", None)


def test_a_required_property_that_was_dropped_needs_no_value(g: og.Graph) -> None:
    g.schema.apply(BEFORE.replace("  tier: enum(free, pro)\n", ""))
    with g.transaction() as tx:
        tx.insert("Person", name="Di")
    assert g.entity("Person", "Di") == {"id": "Di", "name": "Di", "age": None, "nick": None}


def test_a_property_that_is_nullable_now_takes_null(g: og.Graph) -> None:
    g.schema.apply(BEFORE.replace("tier: enum(free, pro)", "tier: enum(free, pro)?"))
    with g.transaction() as tx:
        tx.insert("Person", name="Di")
    assert g.entity("Person", "Di")["tier"] is None


def test_nothing_happens_when_there_is_nothing_to_change(g: og.Graph) -> None:
    head = g.head()
    receipt = g.schema.apply("// only a comment\n" + BEFORE)
    assert (receipt.commit, receipt.plan.is_empty, g.head()) == (None, True, head)


def test_a_dry_run_checks_the_data_and_changes_nothing(g: og.Graph) -> None:
    head = g.head()
    assert g.schema.apply(AFTER, dry_run=True).commit is None
    with pytest.raises(SchemaChangeRefused):
        g.schema.apply(BEFORE.replace("age: I32?", "age: I32"), dry_run=True)
    assert g.head() == head


def test_entities_in_the_way_are_named_and_counted(g: og.Graph) -> None:
    with g.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{n:02}", "tier": "pro"} for n in range(30)])
    with pytest.raises(SchemaChangeRefused) as refused:
        g.schema.apply(BEFORE.replace("age: I32?", "age: I32"))
    ((step, count, first),) = refused.value.violations
    assert (step, count, len(first)) == ("make property 'Person.age' required on node 'Person'", 31, 20)
    assert first[0] == ("Bo", "required property Person.age is missing")
    assert [id for id, _ in first[1:]] == [f"p{n:02}" for n in range(19)]


def test_a_change_that_is_never_possible_says_what_to_do(g: og.Graph) -> None:
    with pytest.raises(SchemaChangeRefused, match="add a property of type Date"):
        g.schema.apply(BEFORE.replace("age: I32?", "age: Date?"))


def test_a_commit_that_is_not_the_head_any_more_refuses(g: og.Graph) -> None:
    head = g.head().id
    with g.transaction() as tx:
        tx.insert("Person", name="Di", tier="pro")
    with pytest.raises(PreconditionFailed):
        g.schema.apply(AFTER, if_commit=head)


def test_a_filled_property_becomes_nullable_and_older_rows_keep_their_value(g: og.Graph) -> None:
    filled = BEFORE.replace("nick: String?", "nick: String?  rank: I32 @default(3)")
    g.schema.apply(filled)
    g.schema.apply(filled.replace("rank: I32 ", "rank: I32? "))
    with g.transaction() as tx:
        tx.update("Person", "Bo", rank=None)
    assert (g.entity("Person", "Ada")["rank"], g.entity("Person", "Bo")["rank"]) == (3, None)


def test_rows_that_come_to_an_empty_table_meanwhile_are_checked(g: og.Graph) -> None:
    with g.transaction() as tx:
        tx.delete("Person", "Ada")
        tx.delete("Person", "Bo")

    def overtake() -> None:
        disarm_all()
        with g.transaction() as tx:
            tx.insert("Person", name="Cy", tier="pro")

    arm(Failpoint.PUBLISH_BEFORE_CREATE, overtake)
    with pytest.raises(SchemaChangeRefused):
        g.schema.apply(BEFORE.replace("age: I32?", "age: I32"))
