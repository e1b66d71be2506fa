"""What a query means: the plan it compiles to, trap by trap."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from omnigraph._internal.caches import LruCache
from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query import plan
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import Binding, Expansion
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.values.types import PropertyType, Scalar


def read(match: str, catalog: Catalog, returned: str = "1", tail: str = "", parameters: str = "") -> plan.ReadPlan:
    text = f"query q({parameters}) {{ match {{ {match} }} return {{ {returned} }} {tail} }}"
    compiled = compile_query(text, catalog)
    assert isinstance(compiled, plan.ReadPlan)
    return compiled


def mutate(text: str, catalog: Catalog, parameters: str = "") -> plan.MutationPlan:
    compiled = compile_query(f"query q({parameters}) {{ {text} }}", catalog)
    assert isinstance(compiled, plan.MutationPlan)
    return compiled


def only_filter(match: str, catalog: Catalog, parameters: str = "") -> Any:
    (condition,) = read(match, catalog, parameters=parameters).pattern.filters
    return condition


# ---------------------------------------------------------------- traversals


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("$p: Person $p livesIn $c", ("p", "c", "out")),
        ("$c: City $c livesIn $p", ("c", "p", "in")),
        ("$c: City $p livesIn $c", ("p", "c", "out")),
        ("$p: Person $c livesIn $p", ("c", "p", "in")),
        ("$p livesIn $c", ("p", "c", "out")),
        ("$c livesIn $p $p: Person $c: City", ("c", "p", "in")),
        ("$a: Person $b: Person $a knows $b", ("a", "b", "out")),
        ("$a: Person $b: Person $b knows $a", ("b", "a", "out")),
        ("$b: Person $a knows $b", ("a", "b", "out")),
        ("$a <knows> $b", ("a", "b", "both")),
        ("$n: Named $n livesIn $c", ("n", "c", "out")),
        ("$n: Named $p: Person $n livesIn $p", ("n", "p", "in")),
    ],
)
def test_direction_follows_from_types(match: str, expected: tuple[str, str, str], library: Catalog) -> None:
    (expansion,) = read(match, library).pattern.expansions
    assert (expansion.source, expansion.target, expansion.direction) == expected


@pytest.mark.parametrize("word", ["livesIn", "livesin", "lIVESIN"])
def test_edge_words_ignore_case(word: str, library: Catalog) -> None:
    (expansion,) = read(f"$p {word} $c", library).pattern.expansions
    assert expansion.edge == "LivesIn"


def test_an_unbound_end_gets_the_endpoint_type(library: Catalog) -> None:
    assert read("$p livesIn $c", library).pattern.bindings == (Binding("p", ("Person",)), Binding("c", ("City",)))


def test_hops_and_edge_variables(library: Catalog) -> None:
    first, second, third = read("$a knows{2,4} $b $a $e:knows $c $a livesIn{1,1} $d", library).pattern.expansions
    assert first == Expansion("a", "b", "Knows", "out", 2, 4)
    assert second == Expansion("a", "c", "Knows", "out", 1, 1, "e")
    assert (third.min_hops, third.max_hops) == (1, 1)


def test_a_step_follows_edges_of_several_types(library: Catalog) -> None:
    one, far, both = (
        read(
            "$p $e:livesIn|note $c $a <knows>{1,2} $b $a knows $b $c note | livesin $q", library, "$e.from"
        ).pattern.expansions[::2]
        + read("$a: Person $b: Person $a < knows > $b", library).pattern.expansions
    )
    assert one == Expansion("p", "c", "LivesIn", "out", edge_variable="e", others=("Note",))
    assert (far.edge, far.others) == ("Knows", ())
    assert both.direction == "both"
    back = read("$c: City $c note | livesin $q", library)
    assert back.pattern.expansions == (Expansion("c", "q", "Note", "in", others=("LivesIn",)),)
    assert {"edge:Note", "edge:LivesIn"} <= {*back.reads}


def test_an_edge_of_several_types_has_what_they_declare_alike() -> None:
    schema = compile_schema(
        "node A { k: String @key }\nedge R: A -> A { x: I32  kind: enum(a, b)  y: I32  same: enum(p) }\n"
        "edge S: A -> A { x: I32?  kind: enum(a, c)  y: I64  same: enum(p) }"
    )
    types = {
        column: compile_query(f"query q() {{ match {{ $a $e:r|s $b }} return {{ $e.{column} as c }} }}", schema)
        .projections[0].expression.type
        for column in ("x", "kind", "same", "id", "to")
    }  # fmt: skip
    assert {name: str(type_) for name, type_ in types.items()} == {
        "x": "I32?", "kind": "String", "same": "enum(p)", "id": "String", "to": "String"
    }  # fmt: skip
    with pytest.raises(QueryError, match=r"R\|S has no property 'y'"):
        compile_query("query q() { match { $a $e:r|s $b } return { $e.y } }", schema)
    with pytest.raises(QueryError, match=r"R\|S has no number 'y'"):
        compile_query(
            "query q() { match { shortest path $w from $a to $b along r|s{1,3} by y } return { $w.cost } }", schema
        )


def test_an_edge_may_be_called_like_an_operator(library: Catalog) -> None:
    (expansion,) = read("$n: Note $n contains $m", library).pattern.expansions
    assert expansion.edge == "Contains"


def test_a_node_type_and_an_edge_may_share_a_name(library: Catalog) -> None:
    assert read("$n: Note $p note $c", library).pattern.expansions[0].edge == "Note"
    assert isinstance(mutate('insert Note { from: "a", to: "b" }', library).statements[0], plan.InsertEdge)
    assert isinstance(mutate('insert Note { label: "a" }', library).statements[0], plan.InsertNode)
    assert isinstance(mutate('delete Note where from = "a"', library).statements[0], plan.DeleteEdges)
    assert isinstance(mutate('delete Note where label = "a"', library).statements[0], plan.DeleteNodes)


# ---------------------------------------------------------------- variables


def test_a_variable_bound_twice_is_one_variable(library: Catalog) -> None:
    compiled = read('$p: Person { age: 1 } $p: Person { tier: "vip" }', library)
    assert compiled.pattern.bindings == (Binding("p", ("Person",)),)
    assert [condition.left.column for condition in compiled.pattern.filters] == ["age", "tier"]  # type: ignore[union-attr]


def test_a_variable_reached_twice_closes_a_cycle(library: Catalog) -> None:
    compiled = read("$a: Person $a knows $b $b knows $a $p knows $p $p knows $p", library)
    assert [binding.variable for binding in compiled.pattern.bindings] == ["a", "b", "p"]
    assert compiled.pattern.expansions[2] == compiled.pattern.expansions[3] == Expansion("p", "p", "Knows", "out")


def test_each_anonymous_variable_is_another_one(library: Catalog) -> None:
    compiled = read("$p: Person $p knows $_ $_ knows $p $_1 knows $p", library, "$p")
    assert [binding.variable for binding in compiled.pattern.bindings] == ["p", "_2", "_3", "_1"]
    assert compiled.tie_break == ("_1", "p")


def test_an_interface_matches_every_implementer(library: Catalog) -> None:
    compiled = read("$n: Named", library, "$n.label, $n.id, $n")
    assert compiled.pattern.bindings == (Binding("n", ("City", "Note", "Person"), "Named"),)
    assert compiled.reads == ("node:City", "node:Note", "node:Person")
    both = read("$n: Named $n: Dated", library, "$n.label, $n.due")
    assert both.pattern.bindings == (Binding("n", ("Note",), "Named"),)


def test_a_traversal_narrows_an_interface(library: Catalog) -> None:
    compiled = read("$n: Named $n livesIn $c", library, "$n.label, $n.age")
    assert compiled.pattern.bindings[0] == Binding("n", ("Person",), "Named")


def test_a_block_does_not_narrow_what_is_outside(library: Catalog) -> None:
    compiled = read("$n: Named not { $n livesIn $c }", library, "$n.label")
    assert compiled.pattern.bindings == (Binding("n", ("City", "Note", "Person"), "Named"),)


def test_ties_are_broken_by_every_named_entity(library: Catalog) -> None:
    assert read("$q: Person $q $z:knows $a $a knows $_", library).tie_break == ("a", "q", "z")
    assert read("$p: Person", library, "count($p) as n").tie_break == ()


# ---------------------------------------------------------------- conditions


def test_conjuncts_become_filters_of_their_own(library: Catalog) -> None:
    compiled = read("$p: Person $p.age > 1 and ($p.age < 9 and $p.bio is null) and ($p.age = 3 or $p.age = 4)", library)
    assert [condition.op for condition in compiled.pattern.filters] == [">", "<", "is_null", "or"]  # type: ignore[union-attr]


def test_search_can_be_denied(library: Catalog) -> None:
    condition = only_filter('$p: Person search($p.bio, "x") = false', library)
    assert isinstance(condition.left, plan.TextMatch)
    assert (condition.op, condition.right.value) == ("=", False)
    denied = only_filter('$p: Person not search($p.bio, "x")', library)
    assert isinstance(denied.operand, plan.TextMatch)


def test_several_text_conditions_all_stay(library: Catalog) -> None:
    compiled = read('$p: Person search($p.bio, "x") fuzzy($p.bio, "y", 1) match_text($p.bio, "z")', library)
    kinds = [(one.kind, one.max_edits) for one in compiled.pattern.filters if isinstance(one, plan.TextMatch)]
    assert kinds == [("search", None), ("fuzzy", plan.Constant(1, PropertyType(Scalar.I64))), ("match_text", None)]


@pytest.mark.parametrize(
    ("condition", "value", "type_"),
    [
        ("$n.stars = 3", 3, "I32"),
        ("$n.stars > 2.5", 2.5, "F64"),
        ("$n.price > 2", 2.0, "F64?"),
        ("$n.ratio = 0.5", 0.5, "F32?"),
        ("$n.words = 18446744073709551615", 18446744073709551615, "U64?"),
        ("$n.total = -9223372036854775808", -9223372036854775808, "I64?"),
        ('$n.due = "2024-02-29"', "2024-02-29", "Date?"),
        ('$n.due = date("2024-02-29")', "2024-02-29", "Date?"),
        ('$n.when = "2024-02-29T01:00:00+02:00"', "2024-02-28T23:00:00.000Z", "DateTime?"),
        ('$n.when = "2024-02-29 01:02"', "2024-02-29T01:02:00.000Z", "DateTime?"),
        ('$n.when = datetime("2024-02-29T01:02:03.4567Z")', "2024-02-29T01:02:03.456700Z", "DateTime?"),
        ('$n.when > date("2024-02-29")', "2024-02-29T00:00:00.000Z", "DateTime?"),
        ("$n.due = null", None, "Date?"),
        ("$n.done = true", True, "Bool?"),
        ('$n.label = "x"', "x", "String"),
        ("$n.flags contains 3", 3, "I64"),
    ],
)
def test_a_literal_takes_the_type_of_the_other_side(
    condition: str, value: object, type_: str, library: Catalog
) -> None:
    right = only_filter(f"$n: Note {condition}", library).right
    expected = type_ if value is None else type_.removesuffix("?")
    assert (right.value, str(right.type)) == (value, expected)
    assert type(right.value) is type(value)


def test_a_literal_on_the_left_is_typed_too(library: Catalog) -> None:
    condition = only_filter("$n: Note 3 < $n.price", library)
    assert condition.left == plan.Constant(3.0, PropertyType(Scalar.F64))


def test_membership(library: Catalog) -> None:
    listed = only_filter('$p: Person $p.tier in ["vip", "pro"]', library)
    assert listed.right.value == ("vip", "pro")
    assert listed.op == "in"
    by_parameter = only_filter("$p: Person $p.age in $ages", library, "$ages: [I64]")
    assert isinstance(by_parameter.right, plan.Parameter)
    assert only_filter("$p: Person $p.age in []", library).right.value == ()
    assert only_filter('$p: Person "x" in $p.tags', library).right.column == "tags"


def test_shorthand_on_a_list_is_membership(library: Catalog) -> None:
    condition = only_filter('$p: Person { tags: "x" }', library)
    assert (condition.op, condition.right.value) == ("contains", "x")


def test_comparison_with_null_stays_unknown(library: Catalog) -> None:
    condition = only_filter("$p: Person $p.age != null", library)
    assert (condition.op, condition.right.value, condition.type) == ("!=", None, plan.NULLABLE_BOOL)


def test_many_alternatives_do_not_nest_deeply(library: Catalog) -> None:
    condition = only_filter("$p: Person " + " or ".join(f"$p.age = {n}" for n in range(1000)), library)
    depth = 0
    while isinstance(condition, plan.Binary) and condition.op == "or":
        condition, depth = condition.left, depth + 1
    assert depth <= 10


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("$n.stars + 1", "I64"),
        ("$n.stars - 1.5", "F64"),
        ("$n.pages * $n.stars", "I64?"),
        ("$n.stars / 2", "F64?"),
        ("$n.stars % 2", "I64?"),
        ("-$n.ratio", "F64?"),
        ("$n.stars + null", "I64?"),
        ("now()", "DateTime"),
        ("$n.stars > 1", "Bool"),
        ("$n.pages > 1", "Bool?"),
        ("$n.pages is null", "Bool"),
        ("$n.id", "String"),
    ],
)
def test_types_of_expressions(expression: str, type_: str, library: Catalog) -> None:
    (projection,) = read("$n: Note", library, f"{expression} as x").projections
    assert str(projection.expression.type) == type_  # type: ignore[union-attr]


# ---------------------------------------------------------------- blocks


def test_blocks_name_what_they_take_from_outside(library: Catalog) -> None:
    compiled = read("$a: Person $b: Person not { $a knows $x not { $x knows $b } } exists { $a knows $b }", library)
    outer, connected = compiled.pattern.filters
    assert isinstance(outer, plan.Unary)
    assert isinstance(outer.operand, plan.Exists)
    block = outer.operand.block
    assert (block.outer, [binding.variable for binding in block.bindings]) == (("a", "b"), ["x"])
    (inner,) = block.filters
    assert inner.operand.block.outer == ("b", "x")  # type: ignore[union-attr]
    assert isinstance(connected, plan.Exists)
    assert connected.block.bindings == ()


def test_counting_a_block(library: Catalog) -> None:
    condition = only_filter("$p: Person count { $p knows $q $q.age > $p.age } > 3", library)
    assert isinstance(condition.left, plan.CountOf)
    assert condition.right == plan.Constant(3, PropertyType(Scalar.I64))


def test_a_block_can_test_the_outer_variable_itself(library: Catalog) -> None:
    condition = only_filter('$p: Person not { $p: Person { tier: "vip" } }', library)
    block = condition.operand.block
    assert (block.outer, block.bindings, len(block.filters)) == (("p",), (), 1)


def test_variables_of_a_block_do_not_escape(library: Catalog) -> None:
    compiled = read("$p: Person not { $p knows $x } exists { $x: City $x livesIn $p }", library)
    assert compiled.tie_break == ("p",)
    assert compiled.reads == ("edge:Knows", "edge:LivesIn", "node:City", "node:Person")


# ---------------------------------------------------------------- results


def test_column_names_and_kinds(library: Catalog) -> None:
    compiled = read(
        "$p: Person $p $e:knows $q $p wrote $n",
        library,
        "$p.email, $p, $q.age as years, 1, $e.from, $p.bio_vec, $n.flags, $n.due, $n.when, $n.done, $n.price, $n.words,"
        ' $n.stars + 1, nearest($p.bio_vec, "x"), bm25($p.bio, "x") as score, now()',
    )
    described = [(c.name, c.kind, c.nullable, c.item_kind, c.vector_dim) for c in compiled.columns]
    assert described == [
        ("p.email", "string", False, None, None),
        ("p", "object", False, None, None),
        ("years", "int", True, None, None),
        ("literal", "bigint", False, None, None),
        ("e.from", "string", False, None, None),
        ("p.bio_vec", "vector", True, None, 3),
        ("n.flags", "list", True, "bigint", None),
        ("n.due", "date", True, None, None),
        ("n.when", "datetime", True, None, None),
        ("n.done", "bool", True, None, None),
        ("n.price", "float", True, None, None),
        ("n.words", "bigint", True, None, None),
        ("n.stars + 1", "bigint", False, None, None),
        ("nearest", "float", True, None, None),
        ("score", "float", True, None, None),
        ("now()", "datetime", False, None, None),
    ]


def test_aggregates(library: Catalog) -> None:
    compiled = read(
        "$p: Person $p wrote $n",
        library,
        "$p, $p.tier, count($n), count(distinct $n.label) as labels, sum($n.stars) as s, avg($n.price) as a,"
        " min($n.due) as first, max($n.label) as last",
        "order { s desc, $p.tier } limit 3 offset 1",
    )
    assert compiled.grouped
    assert [column.name for column in compiled.columns][2] == "count(n)"
    assert [str(one.expression.type) for one in compiled.projections[2:]] == [  # type: ignore[union-attr]
        "I64", "I64", "I64?", "F64?", "Date?", "String?",
    ]  # fmt: skip
    assert compiled.projections[3].expression.distinct  # type: ignore[union-attr]
    assert [key.descending for key in compiled.order] == [True, False]
    assert compiled.order[0].expression == compiled.projections[4].expression
    assert (compiled.limit, compiled.offset) == (
        plan.Constant(3, PropertyType(Scalar.I64)),
        plan.Constant(1, PropertyType(Scalar.I64)),
    )


def test_limit_and_offset_from_parameters(library: Catalog) -> None:
    compiled = read("$p: Person", library, tail="limit $n offset $m", parameters="$n: I32, $m: U64")
    assert compiled.limit == plan.Parameter("n", PropertyType(Scalar.I32))
    assert compiled.offset == plan.Parameter("m", PropertyType(Scalar.U64))


def test_rankings_order_by_function_or_alias(library: Catalog) -> None:
    direct = read("$p: Person", library, tail='order { bm25($p.bio, "x") desc, $p.age desc }')
    assert isinstance(direct.order[0].expression, plan.Bm25)
    by_alias = read("$p: Person", library, "nearest($p.bio_vec, [1, 2, 3]) as d", "order { d asc } limit 2")
    assert by_alias.order[0].expression == by_alias.projections[0].expression
    assert by_alias.projections[0].expression.query == plan.Constant(  # type: ignore[union-attr]
        (1.0, 2.0, 3.0), PropertyType(Scalar.VECTOR, dimension=3)
    )
    fused = read("$p: Person", library, tail='order { rrf(bm25($p.bio, "x"), nearest($p.bio_vec, "y")) } limit 2')
    assert fused.order[0].expression.k == plan.Constant(60, PropertyType(Scalar.I64))  # type: ignore[union-attr]


# ---------------------------------------------------------------- mutations


def test_statements_keep_their_order_and_may_mix(library: Catalog) -> None:
    compiled = mutate(
        'delete Knows where from = $e insert Note { label: "x" } update Note set { done: true } where label = "x" '
        'delete Person where email = $e insert Knows { from: "a", to: "b", weight: -1 }',
        library,
        "$e: String",
    )
    assert [type(statement).__name__ for statement in compiled.statements] == [
        "DeleteEdges", "InsertNode", "UpdateNodes", "DeleteNodes", "InsertEdge",
    ]  # fmt: skip
    assert compiled.writes == (
        "edge:Knows", "edge:LivesIn", "edge:Note", "edge:Wrote", "node:Note", "node:Person",
    )  # fmt: skip
    assert compiled.statements[4].values == (("weight", plan.Constant(-1.0, PropertyType(Scalar.F64))),)  # type: ignore[union-attr]


def test_defaults_fill_what_is_left_out(library: Catalog) -> None:
    (left_out,) = mutate('insert Note { label: "x" }', library).statements
    (given,) = mutate('insert Note { label: "x", stars: 5 }', library).statements
    assert dict(left_out.values)["stars"].value == 3  # type: ignore[union-attr]
    assert dict(given.values)["stars"].value == 5  # type: ignore[union-attr]


def test_a_vector_made_from_a_given_text_is_not_required(library: Catalog) -> None:
    (statement,) = mutate('insert Doc { slug: "x", text: "words" }', library).statements
    assert [name for name, _ in statement.values] == ["slug", "text"]  # type: ignore[union-attr]


def test_where_reads_ids_and_endpoints(library: Catalog) -> None:
    (statement,) = mutate('delete Knows where from = "a" and to = "b" or id in ["c"]', library).statements
    assert isinstance(statement, plan.DeleteEdges)
    text = repr(statement.where)
    assert all(f"variable='', column='{column}'" in text for column in ("src", "dst", "id"))


def test_numbers_widen_when_stored(library: Catalog) -> None:
    (statement,) = mutate(
        "update Note set { price: $n, total: $n, stars: $n } where stars = 1", library, "$n: I32"
    ).statements
    assert all(isinstance(value, plan.Parameter) for _, value in statement.values)  # type: ignore[union-attr]


# ---------------------------------------------------------------- remembering


def test_threads_compile_side_by_side(library: Catalog) -> None:
    texts = [f"query q() {{ match {{ $p: Person $p.age > {n % 5} }} return {{ $p.email }} }}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(lambda text: compile_query(text, library), texts))
    assert [plan_.pattern.filters[0].right.value for plan_ in plans] == [n % 5 for n in range(40)]  # type: ignore[union-attr]


def test_memory_is_bounded(library: Catalog) -> None:
    memory: LruCache[int] = LruCache(2)
    made = [memory.get(key, lambda key=key: key) for key in (1, 2, 1, 3, 1)]  # type: ignore[misc]
    assert (made, len(memory)) == ([1, 2, 1, 3, 1], 2)
    assert memory.get(1, lambda: 99) == 1
    assert memory.get(2, lambda: 99) == 99


def test_plans_are_remembered_by_text_and_schema(library: Catalog, people: Catalog) -> None:
    text = "query remembered() { match { $p: Person } return { $p.age } }"
    assert compile_query(text, library) is compile_query(text, library)
    assert compile_query(text, library) is not compile_query(text, people)
