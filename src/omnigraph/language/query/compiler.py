"""Text of `.gq` -> typed plans, cached by text and schema."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query import syntax
from omnigraph.language.query.expressions import ExpressionChecker
from omnigraph.language.query.mutations import check_mutation
from omnigraph.language.query.parser import parse_queries, refusal
from omnigraph.language.query.plan import DeclaredParameter, QueryPlan
from omnigraph.language.query.reads import check_read
from omnigraph.language.query.scope import Checking, Scope
from omnigraph.remembered import Remembered
from omnigraph.values.literals import Constant
from omnigraph.values.types import PropertyType, Scalar

_REMEMBERED = 256

_files: Remembered[syntax.QueryFile] = Remembered(_REMEMBERED)
_plans: Remembered[QueryPlan] = Remembered(_REMEMBERED)


def compile_queries(text: str, catalog: Catalog, file: str | None = None) -> dict[str, QueryPlan]:
    """Every query of a file, by name. Raises QueryError for the first mistake."""
    queries = _parsed(text, file).queries
    return {query.name: _compiled(query, text, catalog, file) for query in queries}


def compile_query(text: str, catalog: Catalog, name: str | None = None, file: str | None = None) -> QueryPlan:
    """One query of a file; the name may be left out if there is only one. Other queries are parsed, not checked."""
    return _compiled(_chosen(text, name, file), text, catalog, file)


def query_names(text: str, file: str | None = None) -> list[str]:
    """The names of the queries of a text, in order. Raises QueryError if the text does not parse."""
    return [query.name for query in _parsed(text, file).queries]


def parameter_types(text: str, name: str | None = None, file: str | None = None) -> dict[str, PropertyType]:
    """The types of the parameters that one query of a text declares; the query itself is not checked."""
    query = _chosen(text, name, file)
    return {parameter.name: _parameter(parameter, text, file).type for parameter in query.parameters}


def _chosen(text: str, name: str | None, file: str | None) -> syntax.QueryDecl:
    queries = {query.name: query for query in _parsed(text, file).queries}
    if name is None and len(queries) == 1:
        (name,) = queries
    known = ", ".join(queries) or None
    if name is None:
        if not queries:
            raise QueryError("query file contains no query", rule="Q002", line=1, column=1, file=file)
        message = "query file contains multiple queries; pass --name"
        raise QueryError(message, rule="Q001", line=1, column=1, file=file, hint=f"queries: {known}")
    if name not in queries:
        hint = f"queries: {known}" if known else None
        raise QueryError(f"query '{name}' not found", rule="Q002", line=1, column=1, file=file, hint=hint)
    return queries[name]


def _parsed(text: str, file: str | None) -> syntax.QueryFile:
    def parse() -> syntax.QueryFile:
        parsed = parse_queries(text, file)
        seen: set[str] = set()
        for query in parsed.queries:
            if query.name in seen:
                raise refusal("T27", f"two queries are called '{query.name}'", query.at, text, file)
            seen.add(query.name)
        return parsed

    return _files.get(text, parse)


def _compiled(query: syntax.QueryDecl, text: str, catalog: Catalog, file: str | None) -> QueryPlan:
    return _plans.get((text, catalog.hash, query.name), lambda: check_query(query, text, catalog, file))


def check_query(query: syntax.QueryDecl, text: str, catalog: Catalog, file: str | None = None) -> QueryPlan:
    """Check one parsed query; `text` is the text it was parsed from, shown in errors. Not cached."""
    declared = tuple(_parameter(parameter, text, file) for parameter in query.parameters)
    parameters: dict[str, PropertyType] = {}
    for parameter, syntax_ in zip(declared, query.parameters, strict=True):
        if parameter.name in parameters:
            raise refusal("T28", f"parameter ${parameter.name} is declared twice", syntax_.at, text, file)
        parameters[parameter.name] = parameter.type
    checking = Checking(catalog, text, file, parameters)
    declared = tuple(map(partial(_with_default, checking), declared, query.parameters))
    if isinstance(query.body, syntax.ReadBody):
        return check_read(query, query.body, checking, declared)
    return check_mutation(query, query.body, checking, declared)


def _with_default(checking: Checking, declared: DeclaredParameter, written: syntax.ParameterDecl) -> DeclaredParameter:
    if written.default is None:
        return declared
    where = f"the default of ${declared.name}"
    for node, _ in syntax.walk(written.default):
        if not isinstance(node, syntax.Literal | syntax.ListLiteral):
            raise checking.refuse(
                "T7", f"{where} is not a literal", written.at, "defaults are literals and lists of them"
            )
    default = ExpressionChecker(Scope(checking), "where").stored(written.default, declared.type, where=where)
    assert isinstance(default, Constant), "the grammar allows literals only"
    return replace(declared, default=default)


def _parameter(declaration: syntax.ParameterDecl, text: str, file: str | None) -> DeclaredParameter:
    written = declaration.type
    known = {scalar.value: scalar for scalar in Scalar}
    scalar = known.get(written.name)
    if scalar is None:
        hint = f"known: {', '.join(sorted(known))}"
        raise refusal("T26", f"unknown parameter type {written.name}", written.at, text, file, hint)
    if (scalar is Scalar.VECTOR) != (written.dimension is not None) or written.dimension == 0:
        raise refusal("T26", "a vector is written Vector(n), and nothing else has a dimension", written.at, text, file)
    if written.is_list and scalar is Scalar.BLOB:
        raise refusal("T26", "a list of Blob is not supported", written.at, text, file)
    if declaration.name == "_":
        raise refusal("T26", "a parameter needs a name", declaration.at, text, file)
    return DeclaredParameter(
        declaration.name, PropertyType(scalar, written.nullable, written.is_list, (), written.dimension)
    )
