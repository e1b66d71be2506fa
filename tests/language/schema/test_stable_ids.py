"""Ids and table names across renames, drops and returns; the hash; the stored form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.language.catalog import Catalog
from omnigraph.language.catalog_json import catalog_from_json, catalog_hash, catalog_to_json
from omnigraph.language.schema.compiler import compile_schema

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "schemas").glob("*.pg"))

BASE = """
node Zoo { b: String a: I32 }
node Ape { x: String }
interface Named { label: String }
edge Eats: Ape -> Ape
node Man implements Named { }
"""


def ids(catalog: Catalog) -> dict[str, int]:
    found = {}
    for types in (catalog.interfaces, catalog.nodes, catalog.edges):
        for name, entity in types.items():
            found[name] = entity.id
            found |= {f"{name}.{p.name}": p.id for p in entity.properties.values()}
    return found


def test_new_ids_go_to_interfaces_nodes_edges_by_name_then_to_properties_by_owner_and_name() -> None:
    catalog = compile_schema(BASE)
    assert ids(catalog) == {
        "Named": 1, "Ape": 2, "Man": 3, "Zoo": 4, "Eats": 5,
        "Named.label": 6, "Ape.x": 7, "Man.label": 8, "Zoo.a": 9, "Zoo.b": 10,
    }  # fmt: skip
    assert catalog.next_id == 11


def test_the_same_text_again_changes_nothing() -> None:
    catalog = compile_schema(BASE)
    assert compile_schema(BASE, previous=catalog) == catalog


WITH_W = BASE.replace("x: String", "x: String w: I32")


def test_what_a_later_schema_adds_has_an_id_that_follows_from_its_owner_and_name() -> None:
    before = compile_schema(BASE)
    after = compile_schema(WITH_W + "node Bee { q: I32 }", previous=before)
    old, new = ids(before), ids(after)
    assert {name: new[name] for name in old} == old
    assert all(2**51 <= new[name] < 2**52 for name in new.keys() - old.keys())
    assert (len(set(new.values())), after.next_id) == (len(new), before.next_id)


def test_two_branches_that_add_the_same_name_add_the_same_thing() -> None:
    before = compile_schema(BASE)
    one = compile_schema(WITH_W + "node Bee { q: I32 }", previous=before)
    other = compile_schema(WITH_W + "node Cat {} node Bee { q: I32 }", previous=compile_schema(WITH_W, previous=before))
    assert ids(one).items() <= ids(other).items()
    assert one.nodes["Bee"].table_id == other.nodes["Bee"].table_id


def test_branches_that_declare_a_type_with_other_columns_do_not_share_its_table() -> None:
    before = compile_schema(BASE)
    one = compile_schema(BASE + "node Bee { q: I32 }", previous=before).nodes["Bee"]
    other = compile_schema(BASE + "node Bee { q: I64 }", previous=before).nodes["Bee"]
    assert (one.id == other.id, one.table_id == other.table_id) == (True, False)


def test_a_property_that_was_dropped_and_comes_back_is_another_property_every_time() -> None:
    before = compile_schema(BASE)
    seen = set()
    for _ in range(3):
        with_w = compile_schema(WITH_W, previous=before)
        seen.add(with_w.nodes["Ape"].properties["w"].id)
        before = compile_schema(BASE, previous=with_w)
    assert len(seen) == 3
    assert set(before.retired) == seen
    assert catalog_from_json(catalog_to_json(before)) == before


def test_a_name_whose_first_holder_was_renamed_stands_for_another_property() -> None:
    first = compile_schema(WITH_W, previous=compile_schema(BASE))
    renamed = compile_schema(WITH_W.replace("w: I32", 'v: I32 @rename_from("w")'), previous=first)
    properties = compile_schema(WITH_W.replace("w: I32", "v: I32 w: I32"), previous=renamed).nodes["Ape"].properties
    assert properties["v"].id == first.nodes["Ape"].properties["w"].id != properties["w"].id


def test_a_renamed_type_keeps_its_id_its_properties_and_its_table() -> None:
    before = compile_schema(BASE)
    text = BASE.replace("node Ape {", 'node Gorilla @rename_from("Ape") {').replace("Ape -> Ape", "Gorilla -> Gorilla")
    after = compile_schema(text, previous=before)
    old, new = before.nodes["Ape"], after.nodes["Gorilla"]
    assert (new.id, new.table_id, new.properties["x"].id) == (old.id, old.table_id, old.properties["x"].id)
    assert after.next_id == before.next_id
    assert compile_schema(text, previous=after) == after


def test_a_renamed_edge_keeps_its_table() -> None:
    before = compile_schema(BASE)
    after = compile_schema(BASE.replace("Eats: Ape -> Ape", 'Bites: Ape -> Ape @rename_from("Eats")'), previous=before)
    assert after.edges["Bites"].table_id == before.edges["Eats"].table_id


def test_a_renamed_property_keeps_its_id() -> None:
    before = compile_schema(BASE)
    after = compile_schema(BASE.replace("x: String", 'y: String @rename_from("x")'), previous=before)
    assert after.nodes["Ape"].properties["y"].id == before.nodes["Ape"].properties["x"].id


def test_two_properties_may_swap_names_only_by_exact_name() -> None:
    before = compile_schema("node A { a: I32 b: I32 }")
    after = compile_schema('node A { a: I32 @rename_from("b") b: I32 @rename_from("a") }', previous=before)
    assert ids(after) == ids(before)


def test_a_property_renamed_in_an_interface_is_renamed_in_every_type_that_took_it() -> None:
    before = compile_schema(BASE)
    text = BASE.replace("label: String", 'title: String @rename_from("label")') + "node New implements Named {}"
    after = compile_schema(text, previous=before)
    assert after.nodes["Man"].properties["title"].id == before.nodes["Man"].properties["label"].id
    assert after.interfaces["Named"].properties["title"].id == before.interfaces["Named"].properties["label"].id
    assert after.nodes["New"].properties["title"].id >= before.next_id


def test_a_type_that_was_dropped_and_comes_back_is_another_type() -> None:
    first = compile_schema(BASE)
    without = compile_schema(BASE.replace("node Zoo { b: String a: I32 }", ""), previous=first)
    again = compile_schema(BASE, previous=without)
    assert again.nodes["Zoo"].id != first.nodes["Zoo"].id
    assert again.nodes["Zoo"].table_id != first.nodes["Zoo"].table_id
    assert not {p.id for p in again.nodes["Zoo"].properties.values()} & set(ids(first).values())


def test_a_rename_without_a_previous_schema_is_ignored() -> None:
    catalog = compile_schema('node A @rename_from("B") { p: String @rename_from("q") }')
    assert ids(catalog) == {"A": 1, "A.p": 2}


def test_an_exact_name_wins_over_a_rename() -> None:
    before = compile_schema("node A {} node B {}")
    after = compile_schema('node A @rename_from("B") {}', previous=before)
    assert after.nodes["A"].id == before.nodes["A"].id


def test_table_ids_come_from_the_caller_for_a_first_schema_only_in_the_order_of_type_ids() -> None:
    asked: list[str] = []

    def new_table_id(table_key: str) -> str:
        asked.append(table_key)
        return f"t{len(asked)}"

    before = compile_schema(BASE, new_table_id=new_table_id)
    assert asked == ["node:Ape", "node:Man", "node:Zoo", "edge:Eats"]
    after = compile_schema(BASE + "edge Sees: Ape -> Man", previous=before, new_table_id=new_table_id)
    assert asked[4:] == []
    assert len(after.edges["Sees"].table_id) == 10
    assert after.nodes["Ape"].table_id == "t1"


def test_derived_table_ids_are_ten_hexadecimal_digits_and_differ() -> None:
    catalog = compile_schema(BASE)
    table_ids = [entity.table_id for entity in catalog.tables.values()]
    assert all(len(id) == 10 and set(id) <= set("0123456789abcdef") for id in table_ids)
    assert len(set(table_ids)) == len(table_ids)


# ---------------------------------------------------------------- hash


@pytest.mark.parametrize(
    "edit",
    [
        ("node Zoo", "// a comment\nnode Zoo"),
        ("b: String a: I32", "a: I32\n  b: String"),
        ("node Ape { x: String }", "node  Ape{x:String}"),
        ("Ape -> Ape", "Ape -> Ape {}"),
        ("Ape -> Ape", "Ape -> Ape @card(0..)"),
        ("node Zoo { b: String a: I32 }\nnode Ape { x: String }", "node Ape { x: String }\nnode Zoo { b: String a: I32 }"),
    ],
    ids=str,
)  # fmt: skip
def test_layout_order_and_comments_do_not_change_the_hash(edit: tuple[str, str]) -> None:
    before = compile_schema(BASE)
    text = BASE.replace(*edit)
    assert text != BASE
    assert compile_schema(text, previous=before).hash == before.hash == compile_schema(text).hash


@pytest.mark.parametrize(
    "edit",
    [
        ("x: String", "x: String?"),
        ("x: String", "x: I64"),
        ("x: String", "x: String @index"),
        ("x: String", 'x: String @description("d")'),
        ("x: String", 'x: String @default("")'),
        ("x: String", "x: String @odd"),
        ("Ape -> Ape", "Ape -> Ape @card(0..1)"),
        ("Ape -> Ape", "Ape -> Zoo"),
        ("node Zoo", 'node Zoo @instruction("i")'),
        ("implements Named", ""),
        ("label: String", "label: String @unique"),
    ],
    ids=str,
)
def test_every_change_of_meaning_changes_the_hash(edit: tuple[str, str]) -> None:
    before = compile_schema(BASE)
    assert compile_schema(BASE.replace(*edit), previous=before).hash != before.hash


def test_the_order_of_members_changes_the_hash_in_a_key_only() -> None:
    text = "node A { p: String q: String @key(p, q) }"
    assert compile_schema(text).hash != compile_schema(text.replace("(p, q)", "(q, p)")).hash
    unique = text.replace("@key", "@unique")
    assert compile_schema(unique).hash == compile_schema(unique.replace("(p, q)", "(q, p)")).hash


# ---------------------------------------------------------------- stored form


FULL = """
interface Named { label: String @index }
node Person @description("A human") @instruction("be kind") @team("x", level=2) implements Named {
  email: String @key
  age: I32? @default(-1)
  share: F64 @default(0.5)
  tier: enum(free, pro) @default(free) @description("how much")
  tags: [String]?
  v: Vector(4)? @embed("email", model="m") @index
  photo: Blob? @odd @pii(true)
  @range(age, -1..)
  @range(share, 0.0..1.0)
  @check(email, "@")
}
edge Knows: Person -> Person @card(1..5) { since: Date? @unique(src, since) }
"""


@pytest.mark.parametrize(
    "text", ["", BASE, FULL, *(path.read_text("utf-8") for path in EXAMPLES)], ids=lambda t: t[:20]
)
def test_a_catalog_comes_back_from_json(text: str) -> None:
    catalog = compile_schema(text)
    stored = json.dumps(catalog_to_json(catalog))
    again = catalog_from_json(json.loads(stored))
    assert again == catalog
    assert catalog_hash(again) == catalog.hash
    assert [list(n.properties) for n in again.nodes.values()] == [list(n.properties) for n in catalog.nodes.values()]


def test_the_hash_is_over_the_shape_alone() -> None:
    catalog = compile_schema(FULL)
    assert catalog.hash.startswith("sha256:")
    assert len(catalog.hash) == len("sha256:") + 64
    assert catalog_hash(replace(catalog, source="", hash="")) == catalog.hash
    assert catalog_hash(replace(catalog, next_id=99)) != catalog.hash
