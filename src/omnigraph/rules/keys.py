"""The rules about ids: each only once in a write, and an insert only of an id that is free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import KeyConflict, OmnigraphError, UniqueViolation
from omnigraph.language.projection import kind_of
from omnigraph.relational.sql import column, exp, table
from omnigraph.rules.check import (
    MAX_ROWS_ON_ONE_CORE,
    EntityCheck,
    FewRows,
    Need,
    Query,
    RowSource,
    Violation,
    absent,
    same,
    violation,
)

TWICE, TAKEN = "twice", "taken"


@dataclass(frozen=True)
class KeyCheck(EntityCheck):
    """`inserts`: some of the new rows must not replace any."""

    inserts: bool
    rank = 1

    @property
    def own(self) -> tuple[Need, ...]:
        state = ("new", "inserted") if self.inserts else ("new",)
        return tuple(Need(rows, self.table, ("id",), ("id",)) for rows in state)  # type: ignore[arg-type]

    @property
    def others(self) -> tuple[Need, ...]:
        return (Need("lost", self.table, ("id",), ("id",), "more"),) if self.inserts else ()

    def is_kept(self, rows: FewRows) -> bool:
        new = rows.new(self.table)
        if new is None or len({row["id"] for row in new}) < len(new):
            return False
        return not (self.inserts and rows.has_taken_ids(self.table))

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        new = rows.all(self.own[0])
        duplicates = _twice().run({"new": new}, complete=complete) if _may_have_duplicates(new) else []
        if duplicates or not self.inserts:
            return duplicates
        inserted = rows.all(self.own[1])
        if not inserted.num_rows:
            return []
        existing = rows.matching(self.others[0], inserted.column("id"))
        if not _may_be_taken(inserted, existing):
            return []
        return _taken().run({"new": inserted, "old": existing}, complete=complete)

    def excess(self, violation: Violation) -> int | None:
        """Of an id that comes several times (`other` says how often), the first record is not too many."""
        return None if violation.rule == TAKEN or violation.other is None else int(violation.other) - 1

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> OmnigraphError:
        if violation.rule == TAKEN:
            error = KeyConflict(self.entity.name, violation.id, entity_kind=kind_of(self.entity))
            error.hint = f"{file}:{line}; {error.hint}" if file else error.hint
            return error
        return UniqueViolation(
            f"duplicate id '{violation.id}' for {self.entity.name} in one batch",
            type_name=self.entity.name,
            property=violation.property,
            entity_id=violation.id,
            value=violation.shown(),
            file=file,
            line=line,
            hint="keep one of the records, or load them one after the other: the last one stays",
        )


def _may_have_duplicates(rows: pa.Table) -> bool:
    """Whether ids may repeat. Many rows are left to the query, which is faster."""
    return rows.num_rows > MAX_ROWS_ON_ONE_CORE or bool(len(rows.column("id").unique()) < rows.num_rows)


def _may_be_taken(inserted: pa.Table, existing: pa.Table) -> bool:
    if inserted.num_rows + existing.num_rows > MAX_ROWS_ON_ONE_CORE:
        return bool(existing.num_rows)
    return bool(len(absent(inserted.column("id"), existing.column("id"))) < inserted.num_rows)


@cache
def _twice() -> Query:
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    count = exp.Count(this=exp.Star())
    selection = violation(TWICE, "id", column("id"), column("id"), other=count)
    return Query(selection.from_(table("new")).group_by(column("id")).having(several))


@cache
def _taken() -> Query:
    selection = violation(TAKEN, "id", column("id", "n"), column("id", "n"))
    return Query(selection.from_(table("new", "n")).join(table("old", "o"), on=same("id", "n", "id", "o")))
