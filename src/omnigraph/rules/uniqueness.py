"""@unique: no two entities of the result have the same values. A null exempts a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from omnigraph.errors import InputError, UniqueViolation
from omnigraph.relational.sql import column, table
from omnigraph.relational.trees import exp
from omnigraph.rules.check import EntityCheck, Need, Query, Record, RowSource, Violation, same, violation, with_values

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
