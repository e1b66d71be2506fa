"""What a check is: the rows it needs, the violations it finds in them, and the error for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import OmnigraphError
from omnigraph.language.catalog import EntityType
from omnigraph.relational import duck
from omnigraph.relational.sql import column, exp, to_sql

MAX_VIOLATIONS = 20
"""How many violations one check names, unless all are wanted."""
MAX_ROWS_ON_ONE_CORE = 100_000

RowState = Literal["new", "inserted", "staying", "lost", "result"]
"""Rows of one table, as a write sees them:

    new       rows that the write puts, whether they replace others or not
    inserted  those of them whose id the branch must not have
    staying   rows of the branch that the write neither replaces nor removes
    lost      rows of the branch that it replaces or removes
    result    new and staying rows
"""

Risk = Literal["more", "fewer", "either"]


@dataclass(frozen=True)
class Need:
    """Rows that a check needs. `by`: the columns that relate them to the other rows of the check; they are looked up by the first,
    and partitioned by all of them."""

    state: RowState
    table: str
    columns: tuple[str, ...]
    by: tuple[str, ...]
    risk: Risk | None = None
    """How other writers can break the check: by more of these rows or by fewer. None: not at all."""
    are_values: bool = False
    """Whether the check only looks at which values of `by` there are: equal rows may be one."""


class RowSource(Protocol):
    """The rows of one write. Rows that cannot break the check may be left out."""

    def all(self, need: Need) -> pa.Table: ...

    def matching(self, need: Need, values: pa.Array | pa.ChunkedArray) -> pa.Table:
        """At least the rows whose first `by` column has one of these values."""


@dataclass(frozen=True)
class Violation:
    """`id`: the entity that breaks the rule. `text` or, for floats, `number`: its value. `other`: a second holder of a unique
    value."""

    rule: str
    property: str
    id: str
    text: str | None = None
    number: float | None = None
    other: str | None = None

    def shown(self) -> str:
        """The value as the error shows it."""
        return str(self.text) if self.number is None else repr(self.number)


class FewRows(Protocol):
    """The rows of a small write, as values: enough to see quickly that a rule holds."""

    def new(self, table: str) -> Sequence[Mapping[str, Any]] | None:
        """The rows that the write puts; None if there are too many to go through one by one."""

    def has_taken_ids(self, table: str) -> bool:
        """Whether the branch has an id that it must not have."""

    def has_all(self, table: str, ids: set[str]) -> bool:
        """Whether all of these are ids of rows after the write."""


Record = tuple[str, str, str]
"""A record of the input: its table, a column, and the value there."""


class Check(ABC):
    """One rule on one type, for one write."""

    rank: ClassVar[int]
    """Checks run in this order: values, keys, uniqueness, endpoints, cardinality."""

    @property
    @abstractmethod
    def table(self) -> str:
        """The table of the entities that are in violation."""

    @property
    @abstractmethod
    def own(self) -> tuple[Need, ...]:
        """Rows that depend on the write alone."""

    @property
    @abstractmethod
    def others(self) -> tuple[Need, ...]:
        """Rows with which other writers can break the check. If empty, a check that holds on one snapshot holds on all."""

    @property
    def details(self) -> tuple[Need, ...]:
        """Rows that are read only to describe a violation."""
        return ()

    @property
    def needs_more_rows(self) -> bool:
        """Whether rows written later can repair a violation."""
        return False

    def is_kept(self, rows: FewRows) -> bool:
        """Whether a few rows are enough to show that nothing is broken. False proves nothing: `find` decides."""
        return False

    @abstractmethod
    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        """The first violations in the order of their ids, or all of them."""

    @abstractmethod
    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> OmnigraphError: ...

    def records(self, violation: Violation) -> tuple[Record, ...]:
        """The records of the input that may be to blame, most likely first."""
        return ((self.table, "id", violation.id),)

    def excess(self, violation: Violation) -> int | None:
        """How many of the records with such a value are too many; None: all of them."""
        return None


@dataclass(frozen=True)
class EntityCheck(Check):
    """A rule on the rows of one type by themselves."""

    entity: EntityType

    @property
    def table(self) -> str:
        return self.entity.table_key


# ---------------------------------------------------------------- SQL


class Query:
    """The SQL of a rule over named relations. Each row of its result is a violation, with the fields of Violation."""

    def __init__(self, tree: exp.Query) -> None:
        ordered = exp.select("*").from_(tree.subquery("violations")).order_by('"id"', '"property"', '"text"')
        self._complete = to_sql(ordered, "duckdb")
        self._limited = to_sql(ordered.limit(MAX_VIOLATIONS), "duckdb")

    def run(self, relations: Mapping[str, pa.Table], *, complete: bool = False) -> list[Violation]:
        text = self._complete if complete else self._limited
        is_small = sum(table.num_rows for table in relations.values()) <= MAX_ROWS_ON_ONE_CORE
        rows = duck.run_text(text, relations, one_core=is_small)
        return [Violation(**row) for row in rows.to_pylist()]


def violation(
    rule: str,
    property: str,
    id: exp.Expr,
    text: exp.Expr | None = None,
    number: exp.Expr | None = None,
    other: exp.Expr | None = None,
) -> exp.Select:
    """The columns of a rule's result."""
    return exp.select(
        exp.alias_(exp.Literal.string(rule), "rule"),
        exp.alias_(exp.Literal.string(property), "property"),
        exp.alias_(exp.cast(id, "TEXT"), "id"),
        exp.alias_(exp.cast(text or exp.null(), "TEXT"), "text"),
        exp.alias_(exp.cast(number or exp.null(), "DOUBLE"), "number"),
        exp.alias_(exp.cast(other or exp.null(), "TEXT"), "other"),
    )


def same(name: str, table: str, other_name: str, other: str) -> exp.Expr:
    return exp.EQ(this=column(name, table), expression=column(other_name, other))


# ---------------------------------------------------------------- Arrow


def with_values(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """The rows that have a value in each of these columns."""
    for name in names:
        if rows.column(name).null_count:
            rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def absent(values: pa.Array | pa.ChunkedArray, among: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The values that are not among the others."""
    return values.filter(pc.invert(pc.is_in(values, value_set=among.combine_chunks())))
