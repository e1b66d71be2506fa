"""The three-way merge of schemas as a table: what ours and theirs say, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.merging import SchemaMerge, Strategy, merge_schemas
from omnigraph.language.schema.stable_ids import ids_of

BASE = """interface Named {
  label: String
}
node Person {
  name: String @key
  age: I32?
  mood: enum(bad, good)?
  @range(age, 0..150)
}
node City {
  name: String @key
}
edge Lives: Person -> City @card(0..2)
"""


def edited(*edits: str) -> str:
    """The base with edits: `old => new`, or a line to add."""
    text = BASE
    for edit in edits:
        old, arrow, new = edit.partition(" => ")
        assert not arrow or old in text, old
        text = text.replace(old, new) if arrow else text + edit + "\n"
    return text


@dataclass(frozen=True)
class Case:
    name: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    merged: tuple[str, ...] | None = None
    """Edits of the base that give the merged schema; None: a conflict."""
    conflict: tuple[str, str] | None = None
    lines: tuple[str | None, str | None] | None = None
    settled: bool = True
    """Whether a strategy settles the conflict."""


AGE = "  age: I32?"
CITY = "node City {\n  name: String @key\n}\nedge Lives: Person -> City @card(0..2)\n => "

CASES = [
    Case("nobody changed anything", (), (), ()),
    Case("one side", ("node Pet { name: String @key }",), (), ("node Pet { name: String @key }",)),
    Case(
        "additions of both",
        (f"{AGE} => {AGE}\n  mail: String?",),
        (f"{AGE} => {AGE}\n  phone: String?", "node Pet { name: String @key }"),
        (f"{AGE} => {AGE}\n  mail: String?\n  phone: String?", "node Pet { name: String @key }"),
    ),
    Case(
        "the same addition",
        (f"{AGE} => {AGE}\n  mail: String? @index", "node Pet { name: String }"),
        ("node Pet { name: String }", f"{AGE} => {AGE}\n  mail: String? @index"),
        (f"{AGE} => {AGE}\n  mail: String? @index", "node Pet { name: String }"),
    ),
    Case(
        "one addition with different types",
        (f"{AGE} => {AGE}\n  mail: String?",),
        (f"{AGE} => {AGE}\n  mail: [String]?",),
        conflict=("divergent_change", "node:Person.mail"),
        lines=("line 7: mail: String?", "line 7: mail: [String]?"),
        settled=False,
    ),
    Case(
        "one addition with different defaults",
        (f"{AGE} => {AGE}\n  rank: I32 @default(1)",),
        (f"{AGE} => {AGE}\n  rank: I32 @default(2)",),
        conflict=("divergent_change", "node:Person.rank"),
        lines=("line 7: rank: I32 @default(1)", "line 7: rank: I32 @default(2)"),
    ),
    Case(
        "one new type with different properties",
        ("node Pet { name: String }",),
        ("node Pet { name: String\n kind: String? }",),
        ("node Pet { name: String\n kind: String? }",),
    ),
    Case(
        "a rename and another change",
        (f'{AGE} =>   years: I32? @rename_from("age")', "@range(age => @range(years"),
        ("age: I32? => age: I64?",),
        ("age: I32? => years: I64?", "@range(age => @range(years"),
    ),
    Case(
        "a type renamed, a property added to it, an edge added at it",
        ('node Person { => node Human @rename_from("Person") {', "Lives: Person => Lives: Human"),
        (f"{AGE} => {AGE}\n  mail: String?", "edge Knows: Person -> Person"),
        ("node Person { => node Human {", "Lives: Person => Lives: Human", f"{AGE} => {AGE}\n  mail: String?", "edge Knows: Human -> Human"),
    ),
    Case(
        "two different renames",
        (f'{AGE} =>   years: I32? @rename_from("age")', "@range(age => @range(years"),
        (f'{AGE} =>   winters: I32? @rename_from("age")', "@range(age => @range(winters"),
        conflict=("divergent_change", "node:Person.years"),
        lines=('line 6: years: I32? @rename_from("age")', 'line 6: winters: I32? @rename_from("age")'),
    ),
    Case(
        "a rename to a name that the other side added",
        (f'{AGE} =>   years: I32? @rename_from("age")', "@range(age => @range(years"),
        (f"{AGE} => {AGE}\n  years: I32?",),
        conflict=("name_clash", "node:Person.years"),
        settled=False,
    ),
    Case("a drop", (f"{AGE}\n => ", "  @range(age, 0..150)\n => "), (), (f"{AGE}\n => ", "  @range(age, 0..150)\n => ")),
    Case(
        "a drop against a change",
        (f"{AGE}\n => ", "  @range(age, 0..150)\n => "),
        ("age: I32? => age: I64?",),
        conflict=("drop_vs_change", "node:Person.age"),
        lines=(None, "line 6: age: I64?"),
    ),
    Case(
        "a drop against a constraint",
        (f"{AGE}\n => ", "  @range(age, 0..150)\n => "),
        ("0..150 => 0..99",),
        conflict=("drop_vs_change", "node:Person.age"),
    ),
    Case("a dropped type", (CITY,), ("age: I32? => age: I64?",), (CITY, "age: I32? => age: I64?")),
    Case(
        "a dropped type against a change of it",
        (CITY,),
        ("node City {\n => node City {\n  size: I64?\n",),
        conflict=("drop_vs_change", "node:City"),
        lines=(None, "line 10: node City {"),
    ),
    Case(
        "a dropped type against a new edge at it",
        (CITY,),
        ("edge Loves: Person -> City",),
        conflict=("drop_vs_change", "edge:Loves"),
        settled=False,
    ),
    Case("words of both", ("bad, => awful, bad,",), ("good) => good, great)",), ("bad, good => awful, bad, good, great",)),
    Case("a word less and one more", ("bad, => ",), ("good) => good, great)",), ("bad, good => good, great",)),
    Case(
        "all words gone",
        ("bad, => ",),
        ("bad, good => bad",),
        conflict=("divergent_change", "node:Person.mood"),
    ),
    Case(
        "any text against more words",
        ("enum(bad, good) => String",),
        ("good) => good, great)",),
        conflict=("divergent_change", "node:Person.mood"),
    ),
    Case("a removed range", ("  @range(age, 0..150)\n => ",), (), ("  @range(age, 0..150)\n => ",)),
    Case(
        "two ranges",
        ("0..150 => 0..99",),
        ("0..150 => 0..200",),
        conflict=("divergent_change", "node:Person"),
        lines=("line 8: @range(age, 0..99)", "line 8: @range(age, 0..200)"),
    ),
    Case(
        "constraints of both",
        (f"{AGE} => {AGE} @index",),
        ('  @range(age => @check(name, "^a")\n  @range(age',),
        (f"{AGE} => {AGE} @index", '  @range(age => @check(name, "^a")\n  @range(age'),
    ),
    Case("nullable on one side, wider on the other", ("age: I32? => age: I32",), ("age: I32? => age: I64?",), ("age: I32? => age: I64",)),
    Case(
        "two wider types",
        ("age: I32? => age: I64?",),
        ("age: I32? => age: F64?",),
        conflict=("divergent_change", "node:Person.age"),
        settled=False,
    ),
    Case("cardinality of one side", ("0..2 => 0..3",), (), ("0..2 => 0..3",)),
    Case("cardinality of both", ("0..2 => 0..3",), ("0..2 => 1..2",), conflict=("divergent_change", "edge:Lives")),
    Case(
        "ends of both",
        ("Person -> City => City -> City",),
        ("Person -> City => Person -> Person",),
        conflict=("divergent_change", "edge:Lives"),
        settled=False,
    ),
    Case(
        "an interface grows, and another type implements it",
        ("  label: String => label: String\n  rank: I32?",),
        ("node City { => node City implements Named {",),
        ("  label: String => label: String\n  rank: I32?", "node City { => node City implements Named {"),
    ),
    Case(
        "two interfaces of one type",
        ("interface A { a: I32? }", "node City { => node City implements A {"),
        ("interface B { b: I32? }", "node City { => node City implements B {"),
        ("interface A { a: I32? }", "interface B { b: I32? }", "node City { => node City implements A, B {"),
    ),
    Case(
        "descriptions",
        ('node City { => node City @description("a") {',),
        ('node City { => node City @description("b") {',),
        conflict=("divergent_change", "node:City"),
    ),
    Case(
        "annotations of both",
        ("node City { => node City @x(1) {",),
        ("node City { => node City @y {",),
        ("node City { => node City @x(1) @y {",),
    ),
]  # fmt: skip


def merged(case: Case, strategy: Strategy = "fail") -> tuple[SchemaMerge, Catalog, Catalog, Catalog]:
    base = compile_schema(BASE)
    ours, theirs = (compile_schema(edited(*edits), previous=base) for edits in (case.ours, case.theirs))
    return merge_schemas([base], ours, theirs, strategy=strategy), base, ours, theirs


def without_ids(catalog: Catalog) -> Catalog:
    """The meaning of a schema, compiled from its own text: without ids that its history gave it."""
    text = catalog.source
    for word in ("age", "Person"):
        text = text.replace(f' @rename_from("{word}")', "")
    return compile_schema(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_two_branches_declare_is_merged_or_a_conflict_with_both_statements(case: Case) -> None:
    merge, base, ours, theirs = merged(case)
    if case.merged is None:
        assert merge.catalog is None
        (conflict,) = merge.conflicts
        assert (conflict.kind, conflict.entity) == case.conflict
        if case.lines is not None:
            assert tuple(None if each is None else str(each) for each in (conflict.ours, conflict.theirs)) == case.lines
        return
    assert merge.conflicts == ()
    assert merge.catalog is not None
    assert without_ids(merge.catalog).hash == compile_schema(edited(*case.merged)).hash
    inherited_anew = 1 if case.name == "an interface grows, and another type implements it" else 0
    assert len(ids_of(merge.catalog) - ids_of(ours) - ids_of(theirs)) == inherited_anew
    again = merge_schemas([base], merge.catalog, theirs)
    assert again.catalog is not None
    assert again.catalog.hash == merge.catalog.hash


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_sides_are_alike(case: Case) -> None:
    base = compile_schema(BASE)
    ours, theirs = (compile_schema(edited(*edits), previous=base) for edits in (case.ours, case.theirs))
    one, other = merge_schemas([base], ours, theirs), merge_schemas([base], theirs, ours)
    assert (one.catalog is None) == (other.catalog is None)
    assert {each.kind for each in one.conflicts} == {each.kind for each in other.conflicts}
    if one.catalog is not None and other.catalog is not None and case.name != "one new type with different properties":
        assert one.catalog.hash == other.catalog.hash


@pytest.mark.parametrize("case", [case for case in CASES if case.conflict], ids=lambda case: case.name)
def test_a_strategy_settles_what_is_no_contradiction_of_stored_values(case: Case) -> None:
    for strategy in ("ours", "theirs"):
        merge, _, ours, theirs = merged(case, strategy)
        assert (merge.catalog is not None) == case.settled
        if merge.catalog is not None:
            if case.name == "a dropped type against a change of it" and strategy == "theirs":
                assert (set(merge.catalog.nodes), set(merge.catalog.edges)) == ({"Person", "City"}, set())
                continue
            assert merge.catalog.hash == (ours if strategy == "ours" else theirs).hash


def test_a_drop_against_new_values_is_a_conflict() -> None:
    base = compile_schema(BASE)
    without = compile_schema(edited(f"{AGE}\n => ", "  @range(age, 0..150)\n => "), previous=base)
    age = base.nodes["Person"].properties["age"].id
    asked: list[tuple[str, int, int | None]] = []

    def has_new_values(side: str, type_id: int, property_id: int | None) -> bool:
        asked.append((side, type_id, property_id))
        return True

    merge = merge_schemas([base], without, base, has_new_values=has_new_values)
    assert [(each.kind, each.entity) for each in merge.conflicts] == [("drop_vs_values", "node:Person.age")]
    assert asked == [("theirs", base.nodes["Person"].id, age)]
    kept = merge_schemas([base], without, base, strategy="theirs", has_new_values=has_new_values).catalog
    assert kept is not None
    assert kept.nodes["Person"].properties["age"].id == age


def test_a_name_dropped_and_added_again_is_not_what_the_other_branch_has() -> None:
    base = compile_schema(BASE)
    with_mail = edited(f"{AGE} => {AGE}\n  mail: String?")
    theirs = compile_schema(with_mail, previous=base)
    ours = compile_schema(with_mail, previous=compile_schema(BASE, previous=theirs))
    (conflict,) = merge_schemas([base], ours, theirs).conflicts
    assert (conflict.kind, conflict.entity) == ("name_clash", "node:Person.mail")


def test_ids_that_either_branch_gave_up_are_not_used_again() -> None:
    base = compile_schema(BASE)
    with_mail = compile_schema(edited(f"{AGE} => {AGE}\n  mail: String?"), previous=base)
    gone = compile_schema(BASE, previous=with_mail)
    merge = merge_schemas([base], compile_schema(edited("0..2 => 0..3"), previous=base), gone)
    assert merge.catalog is not None
    assert merge.catalog.retired == (with_mail.nodes["Person"].properties["mail"].id,)


def test_what_one_of_several_bases_has_was_not_changed() -> None:
    base = compile_schema(BASE)
    wider = compile_schema(edited("age: I32? => age: I64?"), previous=base)
    widest = compile_schema(edited("age: I32? => age: F64?"), previous=wider)
    merge = merge_schemas([base, wider], widest, wider)
    assert merge.catalog is widest
