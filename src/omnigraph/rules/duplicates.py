"""Edges of a type without a key that a write adds although the branch has equal ones. No rule forbids them; a load counts them."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import OmnigraphError
from omnigraph.language.catalog import EdgeType
from omnigraph.relational import duck
from omnigraph.relational.sql import column, table, to_sql
from omnigraph.relational.trees import exp
from omnigraph.rules.check import MAX_ROWS_ON_ONE_CORE, Check, Need, RowSource, Violation
from omnigraph.values.types import Scalar


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
        return (Need("new", self.table, self._compared, ("src",)),)

    @property
    def others(self) -> tuple[Need, ...]:
        return (Need("staying", self.table, self._compared, ("src",)),)

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
