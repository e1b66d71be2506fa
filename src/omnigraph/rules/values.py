"""Rules about a single row: required, enum, @range, @check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import InputError, OmnigraphError, UniqueViolation, ValueViolation
from omnigraph.language.catalog import Constraint, EdgeType, EntityType
from omnigraph.relational import duck
from omnigraph.relational.sql import column, exp, table, to_sql
from omnigraph.rules.check import (
    MAX_ROWS_ON_ONE_CORE,
    Check,
    EntityCheck,
    FewRows,
    Need,
    Query,
    Record,
    RowSource,
    Violation,
    same,
    violation,
    with_values,
)
from omnigraph.values.types import PropertyType, Scalar

# Edges of a type without a key that a write adds although the branch has equal ones. No rule forbids them; a load counts them.


@dataclass(frozen=True)
class DuplicateEdges(Check):
    """New edges with the ends and the values of an edge that stays. Vectors and Blobs are not compared."""

    edge: EdgeType
    rank = 5

    @property
    def table(self) -> str:
        return self.edge.table_key

    @property
    def _compared(self) -> tuple[str, ...]:
        properties = self.edge.properties.values()
        plain = [prop.name for prop in properties if prop.type.scalar not in (Scalar.VECTOR, Scalar.BLOB)]
        return ("src", "dst", *plain)

    @property
    def own(self) -> tuple[Need, ...]:
        return (Need("new", self.table, self._compared, ("src", "dst")),)

    @property
    def others(self) -> tuple[Need, ...]:
        return (Need("staying", self.table, self._compared, ("src", "dst")),)

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        """One for all of them: its number says how many. There may be millions."""
        new = rows.all(self.own[0])
        old = rows.matching(self.others[0], new.column("src")) if new.num_rows else new
        if not old.num_rows:
            return []
        # `=` does not find two nulls equal.
        equal = [exp.NullSafeEQ(this=column(name, "n"), expression=column(name, "o")) for name in self._compared]
        held = exp.Exists(this=exp.select("1").from_(table("old", "o")).where(exp.and_(*equal)))
        count = exp.select(exp.alias_(exp.Count(this=exp.Star()), "count")).from_(table("new", "n")).where(held)
        is_small = new.num_rows + old.num_rows <= MAX_ROWS_ON_ONE_CORE
        text = to_sql(count, "duckdb")
        (row,) = duck.run_text(text, {"new": new, "old": old}, one_core=is_small).to_pylist()
        return [Violation("duplicate", "", "", number=row["count"])] if row["count"] else []

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> OmnigraphError:
        raise AssertionError("no rule is broken")


# @unique: no two entities of the result have the same values. A null exempts a row.

QUERIES_KEPT = 1_024


@dataclass(frozen=True)
class UniqueCheck(EntityCheck):
    """One constraint. A key needs no such check, because its members are the id, except when it is declared (`declares_key`)."""

    fields: tuple[str, ...]
    declares_key: bool = False
    rank = 2

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("id", *self.fields)))

    @property
    def own(self) -> tuple[Need, ...]:
        return (Need("new", self.table, self._columns, self.fields),)

    @property
    def others(self) -> tuple[Need, ...]:
        return (Need("staying", self.table, self._columns, self.fields, "more"),)

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        new = with_values(rows.all(self.own[0]), self.fields)
        violations = _in_write(self.fields).run({"new": new}, complete=complete) if new.num_rows > 1 else []
        if not new.num_rows or (violations and not complete):
            return violations
        holders = rows.matching(self.others[0], new.column(self.fields[0]))
        if holders.num_rows:
            violations += _against(self.fields).run({"new": new, "old": holders}, complete=complete)
        return violations

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> InputError:
        target = f"{self.entity.name}.{violation.property}"
        holders = f"'{violation.id}' and '{violation.other}'"
        return UniqueViolation(
            f"@{'key' if self.declares_key else 'unique'} violation on {target}: value '{violation.shown()}' held by {holders}",
            type_name=self.entity.name,
            property=violation.property,
            entity_id=violation.id,
            value=violation.shown(),
            file=file,
            line=line,
        )

    def records(self, violation: Violation) -> tuple[Record, ...]:
        return ((self.table, "id", str(violation.other)),)


@lru_cache(maxsize=QUERIES_KEPT)
def _in_write(fields: tuple[str, ...]) -> Query:
    members = [column(name) for name in fields]
    holders = exp.Min(this=column("id")), exp.Max(this=column("id"))
    selection = violation("unique", ", ".join(fields), holders[0], _value(fields, None), None, holders[1])
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    return Query(selection.from_(table("new")).group_by(*members).having(several))


@lru_cache(maxsize=QUERIES_KEPT)
def _against(fields: tuple[str, ...]) -> Query:
    """New values that another entity of the branch holds."""
    equal = [same(name, "n", name, "o") for name in fields]
    other = exp.NEQ(this=column("id", "n"), expression=column("id", "o"))
    selection = violation("unique", ", ".join(fields), column("id", "o"), _value(fields, "n"), None, column("id", "n"))
    return Query(selection.from_(table("new", "n")).join(table("old", "o"), on=exp.and_(*equal, other)))


def _value(fields: tuple[str, ...], table: str | None) -> exp.Expr:
    """The unique value as text: members joined by a comma."""
    texts = [exp.cast(column(name, table), "TEXT") for name in fields]
    return texts[0] if len(texts) == 1 else exp.ConcatWs(expressions=[exp.Literal.string(", "), *texts])


TYPES_KEPT = 1_024
MAX_EXACT = 2**53

Properties = tuple[tuple[str, PropertyType], ...]


@dataclass(frozen=True)
class Condition:
    """A condition that must not be true of a property."""

    rule: str
    property: str
    type: PropertyType
    violated: exp.Expr


@dataclass(frozen=True)
class ValueCheck(EntityCheck):
    rank = 0

    @property
    def own(self) -> tuple[Need, ...]:
        names = dict.fromkeys(condition.property for condition in conditions(self.entity))
        return (Need("new", self.table, ("id", *names), ("id",)),)

    @property
    def others(self) -> tuple[Need, ...]:
        return ()

    def is_kept(self, rows: FewRows) -> bool:
        new = rows.new(self.table)
        return new is not None and not any(
            (row.get(name) is None) is is_required for name, is_required in self._checked_properties for row in new
        )

    @cached_property
    def _checked_properties(self) -> tuple[tuple[str, bool], ...]:
        """Every property that a condition involves, and whether the condition is that it is required; all other conditions are
        about values that are not null."""
        return tuple((condition.property, condition.rule == "required") for condition in conditions(self.entity))

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        new = rows.all(self.own[0])
        if not may_break(self.entity, new):
            return []
        return _query(*_meaning(self.entity)).run({"new": new}, complete=complete)

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> InputError:
        return ValueViolation(
            _message(self.entity, violation),
            type_name=self.entity.name,
            property=violation.property,
            entity_id=violation.id,
            value=None if violation.rule == "required" else violation.shown(),
            file=file,
            line=line,
            hint=_hint(self.entity, violation),
        )


def check_of(entity: EntityType, constraint: Constraint) -> ValueCheck:
    """The check of one constraint of one property alone."""
    properties = {
        name: replace(property, type=replace(property.type, nullable=True, enum=()))
        for name, property in entity.properties.items()
        if name in constraint.fields
    }
    return ValueCheck(replace(entity, properties=properties, constraints=(constraint,)))


def exactness(entity: EntityType, name: str) -> ValueCheck:
    """Checks that the integers of a property are exact as F64, which not all beyond 2^53 are."""
    low = -MAX_EXACT if entity.properties[name].type.scalar is Scalar.I64 else None
    return check_of(entity, Constraint("range", (name,), low, MAX_EXACT))


def has_value_rules(entity: EntityType) -> bool:
    return bool(conditions(entity))


def may_break(entity: EntityType, rows: pa.Table) -> bool:
    """Whether there is a required null, or a value where another condition applies (a null satisfies those)."""
    return any(
        rows.column(condition.property).null_count > 0
        if condition.rule == "required"
        else rows.column(condition.property).null_count < rows.num_rows
        for condition in conditions(entity)
    )


def first_errors(entity: EntityType, rows: pa.Table) -> dict[int, InputError]:
    """Row number -> the first rule that the row breaks. Ids need not be unique yet."""
    if not may_break(entity, rows):
        return {}
    check = ValueCheck(entity)
    numbers = pa.array(range(rows.num_rows), pa.int64()).cast(pa.string())
    columns: dict[str, Any] = {name: rows.column(name) for name in check.own[0].columns}
    broken = _query(*_meaning(entity)).run({"new": pa.table({**columns, "id": numbers})}, complete=True)
    order = {(condition.rule, condition.property): rank for rank, condition in enumerate(conditions(entity))}
    first: dict[int, Violation] = {}
    for broken_rule in sorted(broken, key=lambda violation: order[violation.rule, violation.property]):
        first.setdefault(int(broken_rule.id), broken_rule)
    ids = rows.column("id").take(pa.array(list(first), pa.int64())).to_pylist()
    return {
        row: check.error(replace(violation, id=id)) for (row, violation), id in zip(first.items(), ids, strict=True)
    }


# ---------------------------------------------------------------- conditions


def conditions(entity: EntityType) -> tuple[Condition, ...]:
    """Every condition of a type, in the order in which they are reported."""
    return _conditions(*_meaning(entity))


def _meaning(entity: EntityType) -> tuple[Properties, tuple[Constraint, ...]]:
    """Everything about a type that these rules depend on."""
    return tuple((name, property.type) for name, property in entity.properties.items()), entity.constraints


@lru_cache(maxsize=TYPES_KEPT)
def _conditions(properties: Properties, constraints: tuple[Constraint, ...]) -> tuple[Condition, ...]:
    return tuple(_each_condition(properties, constraints))


def _each_condition(properties: Properties, constraints: tuple[Constraint, ...]) -> Iterator[Condition]:
    types = dict(properties)
    for name, type in properties:
        if not type.nullable:
            yield Condition("required", name, type, column(name).is_(exp.null()))
        if type.enum:
            allowed = [exp.Literal.string(word) for word in type.enum]
            yield Condition("enum", name, type, exp.not_(exp.In(this=column(name), expressions=allowed)))
    for constraint in constraints:
        name = constraint.fields[0]
        if constraint.kind == "range":
            yield Condition("range", name, types[name], _outside(name, types[name], constraint))
        elif constraint.kind == "check":
            pattern = exp.Literal.string(constraint.pattern or "")
            matches = exp.RegexpLike(this=column(name), expression=pattern)
            yield Condition("check", name, types[name], exp.not_(matches))


def _outside(name: str, type: PropertyType, constraint: Constraint) -> exp.Expr:
    lowest, highest = _extremes(name, type)
    broken: list[exp.Expr] = []
    if constraint.minimum is not None:
        broken.append(exp.LT(this=lowest, expression=_bound(constraint.minimum)))
    if constraint.maximum is not None:
        broken.append(exp.GT(this=highest, expression=_bound(constraint.maximum)))
    return exp.or_(*broken) if broken else exp.false()


def _extremes(name: str, type: PropertyType) -> tuple[exp.Expr, exp.Expr]:
    """The lowest and the highest number of a property: of all in its list, or the only one."""
    if not type.is_list:
        return column(name), column(name)
    lowest, highest = (
        exp.Anonymous(this=function, expressions=[column(name)]) for function in ("list_min", "list_max")
    )
    return lowest, highest


def _bound(number: int | float) -> exp.Expr:
    text = exp.Literal.number(repr(abs(number)))
    return exp.Neg(this=text) if number < 0 else text


@lru_cache(maxsize=TYPES_KEPT)
def _query(properties: Properties, constraints: tuple[Constraint, ...]) -> Query:
    queries = [_violations(condition) for condition in _conditions(properties, constraints)]
    tree: exp.Query = queries[0]
    for query in queries[1:]:
        tree = exp.union(tree, query, distinct=False)
    return Query(tree)


def _violations(condition: Condition) -> exp.Select:
    type, value = condition.type, column(condition.property)
    is_compound = type.is_list or type.dimension is not None or type.scalar is Scalar.BLOB
    text: exp.Expr | None = None if is_compound or type.scalar.is_float else value
    if type.is_list and condition.rule == "range":
        lowest, highest = _extremes(condition.property, type)
        text = exp.func("if", exp.GT(this=highest, expression=_bound(MAX_EXACT)), highest.copy(), lowest)
    number = value if type.scalar.is_float and not is_compound else None
    selection = violation(condition.rule, condition.property, column("id"), text, number)
    return selection.from_(table("new")).where(condition.violated.copy())


# ---------------------------------------------------------------- messages


def _message(entity: EntityType, broken: Violation) -> str:
    name = broken.property
    target = f"{entity.name}.{name}"
    match broken.rule:
        case "required":
            return f"required property {target} is missing"
        case "enum":
            allowed = ", ".join(entity.properties[name].type.enum)
            return f"invalid enum value '{broken.shown()}' for {target} (expected: {allowed})"
        case "range":
            return f"@range violation on {target}: {_range_reason(entity, broken)}"
    pattern = next(constraint.pattern for constraint in entity.constraints_of("check") if constraint.fields == (name,))
    return f"@check violation on {target}: value '{broken.shown()}' does not match pattern '{pattern}'"


def _hint(entity: EntityType, broken: Violation) -> str | None:
    embed = entity.properties[broken.property].embed
    if broken.rule != "required" or embed is None:
        return None
    return f"it is made of {entity.name}.{embed.source}: give that a text, or give the vector itself"


def _range_reason(entity: EntityType, broken: Violation) -> str:
    constraint = next(
        candidate for candidate in entity.constraints_of("range") if candidate.fields == (broken.property,)
    )
    number = broken.number if broken.number is not None else int(str(broken.text))
    if constraint.minimum is not None and number < constraint.minimum:
        return f"value {broken.shown()} < min {constraint.minimum}"
    return f"value {broken.shown()} > max {constraint.maximum}"
