"""Properties: printing loses nothing, and no text, however odd, raises anything but the typed error."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from hypothesis.strategies import SearchStrategy

from omnigraph.api.reads import LintJson
from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import syntax
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import compile_queries
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.query.printer import format_queries
from omnigraph.language.schema.compiler import compile_schema

# ---------------------------------------------------------------- trees of any shape the grammar can express

AT = Position(1, 1)
names = st.sampled_from(
    ["a", "name", "order", "count", "contains", "x_1", "camelCase", "_", "exists", "is_null", "not_"]
)
any_names = st.one_of(names, st.sampled_from(["and", "not", "null", "true", "in", "is"]))
variables = st.sampled_from(["p", "q", "longName", "_", "_2"])
type_names = st.sampled_from(["Person", "City", "T_1", "Vector"])
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def literals() -> SearchStrategy[syntax.Literal]:
    numbers = st.one_of(
        st.builds(syntax.Literal, st.just("integer"), st.integers(-(10**24) + 1, 10**24), st.just(AT)),
        st.builds(syntax.Literal, st.just("float"), st.floats(allow_nan=False, allow_infinity=False), st.just(AT)),
    )
    return st.one_of(
        numbers,
        st.builds(syntax.Literal, st.just("string"), texts, st.just(AT)),
        st.builds(syntax.Literal, st.just("bool"), st.booleans(), st.just(AT)),
        st.builds(syntax.Literal, st.sampled_from(["date", "datetime"]), texts, st.just(AT)),
        st.just(syntax.Literal("null", None, AT)),
    )


variable_expressions = st.builds(syntax.Variable, variables, st.just(AT))
leaves: SearchStrategy[syntax.Expr] = st.one_of(
    literals(),
    variable_expressions,
    st.builds(syntax.PropertyAccess, variables, any_names, st.just(AT), st.just(AT)),
    st.just(syntax.NowCall(AT)),
    st.builds(syntax.Word, names, st.just(AT)),
)


def _is_positive_number(expression: syntax.Expr) -> bool:
    """A sign before such a literal becomes part of it, so no tree has a minus there."""
    return (
        isinstance(expression, syntax.Literal)
        and expression.kind in ("integer", "float")
        and not str(expression.value).startswith("-")
    )


def _entries(inner: SearchStrategy[syntax.Expr]) -> SearchStrategy[syntax.Expr]:
    """What a column, an aggregate and `case` hold: an expression or a record."""
    fields = st.lists(st.builds(syntax.Assignment, any_names, inner, st.just(AT)), min_size=1, max_size=2)
    return st.one_of(inner, st.builds(syntax.RecordLiteral, fields.map(tuple), st.just(AT)))


def _grown(inner: SearchStrategy[syntax.Expr]) -> SearchStrategy[syntax.Expr]:
    at = st.just(AT)
    comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "ends_with", "in"])
    calls = st.sampled_from(["search", "fuzzy", "match_text", "nearest", "bm25", "rrf"])
    return st.one_of(
        st.builds(syntax.ListLiteral, st.lists(inner, max_size=3).map(tuple), at),
        st.builds(syntax.Minus, inner.filter(lambda one: not _is_positive_number(one)), at),
        st.builds(syntax.Not, inner, at),
        st.builds(
            syntax.Logical, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple), at
        ),
        st.builds(syntax.Arithmetic, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner, at),
        st.builds(syntax.Comparison, comparisons, inner, inner, at),
        st.builds(syntax.NullTest, inner, st.booleans(), at),
        st.builds(
            syntax.FunctionCall,
            st.sampled_from(["lower", "coalesce", "x_1"]),
            st.lists(inner, max_size=3).map(tuple),
            at,
        ),
        st.builds(syntax.Duration, st.integers(0, 10**6), st.sampled_from(["day", "month"]), at),
        st.builds(
            syntax.CaseExpression,
            st.lists(st.builds(syntax.WhenBranch, inner, _entries(inner), at), min_size=1, max_size=2).map(tuple),
            st.one_of(st.none(), _entries(inner)),
            at,
        ),
        st.builds(syntax.Quantifier, st.sampled_from(["any", "all"]), variables, inner, inner, at, at),
        st.builds(syntax.Call, calls, st.lists(inner, min_size=1, max_size=3).map(tuple), at),
        st.builds(
            syntax.AggregateCall,
            st.sampled_from(["count", "sum", "avg", "min", "max", "collect", "median"]),
            _entries(inner),
            st.just(False),
            st.none(),
            at,
        ),
        st.builds(
            syntax.AggregateCall, st.sampled_from(["count", "collect"]), _entries(inner), st.just(True), st.none(), at
        ),
        st.builds(
            syntax.AggregateCall,
            st.sampled_from(["percentile", "first", "last"]),
            _entries(inner),
            st.just(False),
            inner,
            at,
        ),
        st.builds(
            syntax.Block,
            st.sampled_from(["not", "exists", "count"]),
            st.lists(_clauses(inner), min_size=1, max_size=2).map(tuple),
            at,
        ),
    )


def values() -> SearchStrategy[syntax.Expr]:
    lists = st.builds(syntax.ListLiteral, st.lists(literals(), max_size=3).map(tuple), st.just(AT))
    return st.one_of(literals(), variable_expressions, st.just(syntax.NowCall(AT)), lists)


assignments = st.builds(syntax.Assignment, any_names, values(), st.just(AT))


def _clauses(inner: SearchStrategy[syntax.Expr]) -> SearchStrategy[syntax.Clause]:
    at = st.just(AT)
    hops = st.builds(syntax.Hops, st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9)), at)
    per_hop = st.builds(syntax.EachHop, st.none() | variables, st.none() | variables, inner, at)
    others = st.lists(st.builds(syntax.Word, names, at), max_size=2).map(tuple)
    return st.one_of(
        st.builds(syntax.BindingClause, variables, type_names, st.lists(assignments, max_size=2).map(tuple), at, at),
        st.builds(
            syntax.TraversalClause,
            variables,
            names,
            variables,
            st.booleans(),
            st.one_of(st.none(), variables),
            st.one_of(st.none(), hops),
            *(at, at, at, at, st.none(), others),
        ),
        st.builds(
            syntax.TraversalClause,
            *(variables, names, variables, st.booleans(), variables, hops, at, at, at, at, per_hop, others),
        ),
        st.builds(syntax.FilterClause, inner, at),
        st.builds(
            syntax.OptionalClause,
            st.lists(st.builds(syntax.FilterClause, inner, at), min_size=1, max_size=2).map(tuple),
            at,
        ),
        st.builds(syntax.UnnestClause, inner, variables, at, at),
        st.builds(
            syntax.PathClause,
            st.one_of(st.none(), variables),
            st.builds(
                syntax.TraversalClause,
                variables,
                names,
                variables,
                st.booleans(),
                st.none(),
                st.one_of(st.none(), hops),
                at,
                at,
                at,
                at,
            )
            | st.builds(
                syntax.TraversalClause,
                variables,
                names,
                variables,
                st.booleans(),
                variables,
                hops,
                *(at, at, at, at, per_hop, others),
            ),
            st.one_of(st.none(), st.sampled_from(["weight", "x_1"])),
            st.booleans(),
            at,
            at,
            at,
        ),
    )


expressions: SearchStrategy[syntax.Expr] = st.recursive(leaves, _grown, max_leaves=8)
amounts = st.one_of(
    st.none(), variable_expressions, st.builds(syntax.Literal, st.just("integer"), st.integers(0, 10**9), st.just(AT))
)

parts = st.builds(
    syntax.ReadBody,
    st.lists(_clauses(expressions), min_size=1, max_size=4).map(tuple),
    st.lists(
        st.builds(syntax.ReturnItem, _entries(expressions), st.one_of(st.none(), any_names), st.just(AT)),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.booleans(),
    st.lists(expressions, max_size=2).map(tuple),
    st.lists(
        st.builds(syntax.OrderItem, expressions, st.sampled_from([None, "asc", "desc"]), st.just(AT)), max_size=2
    ).map(tuple),
    amounts,
    amounts,
)
others = st.lists(parts.map(lambda part: replace(part, order=(), limit=None, offset=None)), max_size=1).map(tuple)
_unions = st.builds(
    lambda part, others, keeps_all: replace(part, others=others, keeps_all=bool(others) and keeps_all),
    parts,
    others,
    st.booleans(),
)
reads = (
    st.builds(
        lambda read, before, goes_on: replace(read, before=before, clauses=read.clauses if goes_on else ()),
        _unions,
        _unions,
        st.booleans(),
    )
    | _unions
)

_assigned = st.lists(assignments, max_size=3).map(tuple)
statements = st.one_of(
    st.builds(
        syntax.InsertStatement,
        st.sampled_from(get_args(syntax.InsertVerb)),
        type_names,
        _assigned,
        st.lists(_clauses(expressions), max_size=2).map(tuple),
        st.just(AT),
        st.just(AT),
    ),
    st.builds(syntax.UpdateStatement, type_names, _assigned, expressions, st.just(AT), st.just(AT)),
    st.builds(syntax.DeleteStatement, type_names, expressions, st.just(AT), st.just(AT)),
)
mutations = st.builds(syntax.MutationBody, st.lists(statements, min_size=1, max_size=3).map(tuple))

_types = st.one_of(
    st.builds(syntax.TypeExpr, type_names, st.booleans(), st.none(), st.booleans(), st.just(AT)),
    st.builds(syntax.TypeExpr, st.just("Vector"), st.just(False), st.integers(0, 999), st.booleans(), st.just(AT)),
)
_defaults = st.one_of(
    st.none(),
    literals(),
    st.builds(syntax.ListLiteral, st.lists(literals(), max_size=3).map(tuple), st.just(AT)),
)
queries = st.builds(
    syntax.QueryDecl,
    names,
    st.lists(st.builds(syntax.ParameterDecl, variables, _types, _defaults, st.just(AT)), max_size=3).map(tuple),
    st.one_of(st.none(), texts),
    st.one_of(st.none(), texts),
    st.one_of(reads, mutations),
    st.just(AT),
)
query_files = st.builds(syntax.QueryFile, st.lists(queries, max_size=2).map(tuple))


# ---------------------------------------------------------------- properties

LIBRARY = compile_schema((Path(__file__).parent / "fixtures" / "library.pg").read_text())
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TOKENS = [
    "query",
    "match",
    "return",
    "distinct",
    "order",
    "limit",
    "offset",
    "insert",
    "update",
    "set",
    "where",
    "delete",
    "and",
    "or",
    "not",
    "is",
    "in",
    "null",
    "true",
    "false",
    "contains",
    "starts_with",
    "exists",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "search",
    "fuzzy",
    "nearest",
    "bm25",
    "rrf",
    "now",
    "date",
    "datetime",
    "as",
    "asc",
    "desc",
    "case",
    "when",
    "then",
    "else",
    "end",
    "lower",
    "coalesce",
    "30 days",
    "any",
    "having",
    "with",
    "optional",
    "union",
    "shortest",
    "path",
    "from",
    "to",
    "along",
    "via",
    "after",
    "where",
    "unnest",
    "collect",
    "median",
    "percentile",
    "first",
    "by",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ":",
    ",",
    ".",
    "?",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "$p",
    "$q",
    "$e",
    "$_",
    "Person",
    "City",
    "Note",
    "Knows",
    "knows",
    "livesIn",
    "wrote",
    "<knows>",
    "email",
    "age",
    "tags",
    "bio",
    "bio_vec",
    "1",
    "2.5",
    "1e3",
    "-1",
    '"x"',
    '"2024-01-01"',
    "$p.age",
    "$p.email",
    "$p.bio",
    "$p.tags",
    "$e.from",
    "String",
    "I32",
    "Vector(3)",
    "@description",
    "//",
    "/*",
    "*/",
    "{1,2}",
    "q()",
]


@given(query_files)
@settings(RELAXED, max_examples=200)
def test_printed_trees_parse_to_themselves(tree: syntax.QueryFile) -> None:
    assert parse_queries(format_queries(tree)) == tree


def assert_only_typed_errors(text: str, catalog: Catalog) -> None:
    with suppress(QueryError):
        compile_queries(text, catalog)
    report = lint_queries(text, catalog)
    assert LintJson.to_json(report, schema_source={})
    assert str(report)


shells = st.sampled_from(
    [
        "{}",
        "query q($x: String) {{ match {{ $p: Person {} }} return {{ $p.email }} }}",
        "query q($x: String) {{ match {{ $p: Person $p $e:knows $q }} return {{ {} }} }}",
        "query q($x: I32) {{ match {{ $p: Person }} return {{ $p.age as age }} order {{ {} }} limit 3 }}",
        "query q($x: String) {{ delete Person where {} }}",
        "query q($x: String) {{ insert Person {{ {} }} }}",
    ]
)
soups = st.builds(
    lambda shell, tokens: shell.format(" ".join(tokens)), shells, st.lists(st.sampled_from(TOKENS), max_size=14)
)
odd_texts = st.builds(lambda shell, text: shell.format(text), shells, st.text(max_size=30))
anything = st.one_of(soups, odd_texts, query_files.map(format_queries))


@given(anything)
@example("(" * 5000)
@example("query q() { match { $p: Person " + "not " * 5000 + "true } return { 1 } }")
@example("query q() { match { $p: Person $p.age = " + "-" * 5000 + "$p.age } return { 1 } }")
@example("query q() { match { $p: Person $p.age = " + "1 + " * 5000 + "1 } return { 1 } }")
@example("query q() { match { $p: Person " + "exists { $p knows $p " * 500 + "}" * 500 + " } return { 1 } }")
@example("query q() { match { $p: Person " + "[" * 5000 + "]" * 5000 + " = 1 } return { 1 } }")
@example("query q() { delete Person where age = 1" + " or age = 1" * 5000 + " }")
@example("\x00")
@example('query q() @description("\ud800") { delete Person where age = 1 }')
@settings(RELAXED, max_examples=300)
def test_no_text_raises_anything_but_the_typed_error(text: str) -> None:
    assert_only_typed_errors(text, LIBRARY)


def test_the_kept_corpus() -> None:
    """Texts found by mutating good and bad queries: the shortest for each way to fail, and some that are fine."""
    lines = (Path(__file__).parent / "fixtures" / "corpus.jsonl").read_text().splitlines()
    found = []
    for line in lines:
        case = json.loads(line)
        rule = None
        try:
            compile_queries(case["text"], LIBRARY)
        except QueryError as error:
            rule = error.rule
        found.append({"text": case["text"], "rule": rule})
    assert found == [json.loads(line) for line in lines]


@pytest.mark.soak
@given(anything)
@settings(RELAXED, max_examples=30_000)
def test_no_text_raises_anything_but_the_typed_error_for_long(text: str) -> None:
    assert_only_typed_errors(text, LIBRARY)
