"""The constraint rules, each defined once as a SQL tree over named relations; a row of the result is a violation.

Every query has the columns of VIOLATION_COLUMNS. A relation of new rows has the table's own columns. The engines differ
only in what they bind the relation names to: DuckDB the few rows a small write touches, Spark whole tables.

Order of checking, everywhere: values, keys and uniqueness, endpoints, cardinality.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlglot import exp

from omnigraph.errors import CardinalityViolation, EndpointMissing, InputError, UniqueViolation, ValueViolation
from omnigraph.language.catalog import Constraint, EdgeType, EntityType, Property
from omnigraph.relational.sql import column
from omnigraph.values.types import Scalar

RuleKind = Literal["required", "enum", "range", "check", "key", "unique", "endpoint", "cardinality"]

VIOLATION_COLUMNS = ("rule", "property", "id", "text", "number", "other")
"""text/number: the offending value (numbers of floating type in `number`); other: the second holder of a unique value."""


@dataclass(frozen=True)
class ValueCheck:
    """A condition over one row that must not be true."""

    rule: RuleKind
    property: str
    violated: exp.Expr


# ---------------------------------------------------------------- values


def value_checks(entity: EntityType) -> list[ValueCheck]:
    """Every check that looks at one row alone, in the order they are reported."""
    checks = [
        check for property in entity.properties.values() for check in (_required(property), _enum(property)) if check
    ]
    for constraint in entity.constraints:
        if constraint.kind == "range":
            checks.append(_range(entity.properties[constraint.fields[0]], constraint))
        elif constraint.kind == "check":
            checks.append(_check(constraint))
    return checks


def _required(property: Property) -> ValueCheck | None:
    if property.type.nullable:
        return None
    return ValueCheck("required", property.name, column(property.name).is_(exp.null()))


def _enum(property: Property) -> ValueCheck | None:
    if not property.type.enum:
        return None
    allowed = [exp.Literal.string(word) for word in property.type.enum]
    return ValueCheck("enum", property.name, exp.not_(exp.In(this=column(property.name), expressions=allowed)))


def _range(property: Property, constraint: Constraint) -> ValueCheck:
    this = column(property.name)
    broken: list[exp.Expr] = []
    if property.type.scalar.is_float:
        broken.append(exp.IsNan(this=this.copy()))
    if constraint.minimum is not None:
        broken.append(exp.LT(this=this.copy(), expression=_bound(constraint.minimum)))
    if constraint.maximum is not None:
        broken.append(exp.GT(this=this.copy(), expression=_bound(constraint.maximum)))
    return ValueCheck("range", property.name, exp.or_(*broken) if broken else exp.false())


def _bound(number: int | float) -> exp.Expr:
    text = exp.Literal.number(repr(abs(number)))
    return exp.Neg(this=text) if number < 0 else text


def _check(constraint: Constraint) -> ValueCheck:
    name = constraint.fields[0]
    matches = exp.RegexpLike(this=column(name), expression=exp.Literal.string(constraint.pattern or ""))
    return ValueCheck("check", name, exp.not_(matches))


def value_violations(entity: EntityType, rows: str) -> exp.Query | None:
    """All value checks over a relation; None when the type has none."""
    queries = []
    for check in value_checks(entity):
        this = column(check.property)
        is_float = entity.properties[check.property].type.scalar.is_float
        text = exp.null() if is_float or _is_compound(entity, check.property) else this.copy()
        number = this.copy() if is_float and not _is_compound(entity, check.property) else exp.null()
        queries.append(
            _violation(check.rule, check.property, column("id"), text, number)
            .from_(_relation(rows))
            .where(check.violated)
        )
    return _union(queries)


def _is_compound(entity: EntityType, name: str) -> bool:
    type = entity.properties[name].type
    return type.is_list or type.dimension is not None or type.scalar is Scalar.BLOB


# ---------------------------------------------------------------- keys and uniqueness


def duplicate_ids(rows: str) -> exp.Query:
    """Ids given twice in one batch."""
    return (
        _violation("key", "id", column("id"), column("id"), exp.null())
        .from_(_relation(rows))
        .group_by(column("id"))
        .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
    )


def ids_taken(rows: str, existing: str) -> exp.Query:
    """New ids that the branch has already (for strict inserts)."""
    return (
        _violation("key", "id", column("id", "n"), column("id", "n"), exp.null())
        .from_(_relation(rows, "n"))
        .join(_relation(existing, "o"), on=exp.EQ(this=column("id", "n"), expression=column("id", "o")))
    )


def unique_constraints(entity: EntityType) -> list[Constraint]:
    """The uniqueness rules that do not follow from the id: a key's members are the id."""
    return list(entity.constraints_of("unique"))


def unique_in_batch(constraint: Constraint, rows: str) -> exp.Query:
    members = [column(name) for name in constraint.fields]
    return (
        _violation(
            "unique",
            ", ".join(constraint.fields),
            exp.Min(this=column("id")),
            _joined(constraint, None),
            exp.null(),
            exp.Max(this=column("id")),
        )
        .from_(_relation(rows))
        .where(*[exp.not_(member.copy().is_(exp.null())) for member in members])
        .group_by(*members)
        .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
    )


def unique_against(constraint: Constraint, rows: str, existing: str) -> exp.Query:
    """New values held by another entity of the branch. `existing` has no row that this write removes or replaces."""
    same = [exp.EQ(this=column(name, "n"), expression=column(name, "o")) for name in constraint.fields]
    other = exp.NEQ(this=column("id", "n"), expression=column("id", "o"))
    return (
        _violation(
            "unique",
            ", ".join(constraint.fields),
            column("id", "o"),
            _joined(constraint, "n"),
            exp.null(),
            column("id", "n"),
        )
        .from_(_relation(rows, "n"))
        .join(_relation(existing, "o"), on=exp.and_(*same, other))
    )


def _joined(constraint: Constraint, table: str | None) -> exp.Expr:
    """The unique value as text: members joined by a comma."""
    texts = [exp.cast(column(name, table), "TEXT") for name in constraint.fields]
    if len(texts) == 1:
        return texts[0]
    return exp.ConcatWs(expressions=[exp.Literal.string(", "), *texts])


# ---------------------------------------------------------------- endpoints


def missing_endpoints(end: Literal["src", "dst"], edges: str, nodes: str) -> exp.Query:
    """Edges whose end is not among the nodes (a relation with `id`)."""
    found = (
        exp.select(exp.Literal.number(1))
        .from_(_relation(nodes, "v"))
        .where(exp.EQ(this=column("id", "v"), expression=column(end, "e")))
    )
    return (
        _violation("endpoint", end, column("id", "e"), column(end, "e"), exp.null())
        .from_(_relation(edges, "e"))
        .where(exp.not_(exp.Exists(this=found)))
    )


# ---------------------------------------------------------------- cardinality


def cardinality(edge: EdgeType, sources: str, edges: str) -> exp.Query | None:
    """Sources (a relation with `src`) whose number of edges is out of bounds; None when the edge has no bounds."""
    if edge.min_out == 0 and edge.max_out is None:
        return None
    count = exp.Count(this=column("id", "e"))
    broken: list[exp.Expr] = []
    if edge.min_out:
        broken.append(exp.LT(this=count.copy(), expression=exp.Literal.number(edge.min_out)))
    if edge.max_out is not None:
        broken.append(exp.GT(this=count.copy(), expression=exp.Literal.number(edge.max_out)))
    return (
        _violation("cardinality", "src", column("src", "s"), exp.cast(count, "TEXT"), exp.null())
        .from_(_relation(sources, "s"))
        .join(
            _relation(edges, "e"), on=exp.EQ(this=column("src", "s"), expression=column("src", "e")), join_type="left"
        )
        .group_by(column("src", "s"))
        .having(exp.or_(*broken))
    )


# ---------------------------------------------------------------- from violation to error


def violation_error(entity: EntityType, violation: Mapping[str, Any], **place: Any) -> InputError:
    """The error for one violation row; `place` may give file and line. Every engine says the same words."""
    rule, name = violation["rule"], violation["property"]
    shown = _shown(violation)
    target = f"{entity.name}.{name}"
    given: dict[str, Any] = {
        "type_name": entity.name,
        "property": name,
        "entity_id": violation["id"],
        "value": shown,
        **place,
    }
    match rule:
        case "required":
            return ValueViolation(f"required property {target} is missing", **{**given, "value": None})
        case "enum":
            allowed = ", ".join(entity.properties[name].type.enum)
            return ValueViolation(f"invalid enum value '{shown}' for {target} (expected: {allowed})", **given)
        case "range":
            return ValueViolation(f"@range violation on {target}: {_range_reason(entity, name, violation)}", **given)
        case "check":
            pattern = next(c.pattern for c in entity.constraints_of("check") if c.fields == (name,))
            return ValueViolation(
                f"@check violation on {target}: value '{shown}' does not match pattern '{pattern}'", **given
            )
        case "key":
            return UniqueViolation(f"duplicate id '{violation['id']}' for {entity.name} in one batch", **given)
        case "unique":
            holders = f"'{violation['id']}' and '{violation['other']}'"
            return UniqueViolation(f"@unique violation on {target}: value '{shown}' held by {holders}", **given)
        case "endpoint":
            assert isinstance(entity, EdgeType)
            node = entity.source if name == "src" else entity.target
            return EndpointMissing(f"{name} '{shown}' not found in {node}", **given)
        case "cardinality":
            assert isinstance(entity, EdgeType)
            count = int(violation["text"])
            bound = f"min {entity.min_out}" if count < entity.min_out else f"max {entity.max_out}"
            return CardinalityViolation(
                f"@card violation on edge {entity.name}: source '{violation['id']}' has {count} edges ({bound})",
                **given,
            )
    raise ValueError(f"unknown rule {rule}")


def _range_reason(entity: EntityType, name: str, violation: Mapping[str, Any]) -> str:
    constraint = next(c for c in entity.constraints_of("range") if c.fields == (name,))
    if violation["number"] is not None and math.isnan(violation["number"]):
        return "value is NaN"
    shown = _shown(violation)
    number = violation["number"] if violation["number"] is not None else int(violation["text"])
    if constraint.minimum is not None and number < constraint.minimum:
        return f"value {shown} < min {constraint.minimum}"
    return f"value {shown} > max {constraint.maximum}"


def _shown(violation: Mapping[str, Any]) -> str:
    number = violation["number"]
    return str(violation["text"]) if number is None else repr(number)


# ---------------------------------------------------------------- pieces


def _violation(
    rule: RuleKind,
    name: str,
    id: exp.Expr,
    text: exp.Expr,
    number: exp.Expr,
    other: exp.Expr | None = None,
) -> exp.Select:
    return exp.select(
        exp.alias_(exp.Literal.string(rule), "rule"),
        exp.alias_(exp.Literal.string(name), "property"),
        exp.alias_(id, "id"),
        exp.alias_(exp.cast(text, "TEXT"), "text"),
        exp.alias_(exp.cast(number, "DOUBLE"), "number"),
        exp.alias_(exp.cast(other or exp.null(), "TEXT"), "other"),
    )


def _relation(name: str, alias: str | None = None) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)) if alias else None,
    )


def _union(queries: list[exp.Select]) -> exp.Query | None:
    if not queries:
        return None
    result: exp.Query = queries[0]
    for query in queries[1:]:
        result = exp.union(result, query, distinct=False)
    return result
