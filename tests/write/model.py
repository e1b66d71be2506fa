"""A graph in plain Python: what transactions on branches mean, without tables, files or SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from omnigraph.errors import (
    CardinalityViolation,
    EndpointMissing,
    ExpectedVersionMismatch,
    KeyConflict,
    OmnigraphError,
    UniqueViolation,
    ValueViolation,
)

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  nick: String? @unique
  @range(age, 0..9)
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { weight: F64? }
edge WrittenBy: Note -> Person @card(1..2)
"""
ENDS = {"edge:Knows": ("node:Person", "node:Person"), "edge:WrittenBy": ("node:Note", "node:Person")}
CARDINALITY = {"edge:Knows": (0, 2), "edge:WrittenBy": (1, 2)}
TABLES = ("node:Person", "node:Note", *ENDS)

Row = dict[str, Any]
Rows = dict[str, dict[str, Row]]
Refusal = type[OmnigraphError]
Result = TypeVar("Result")


def no_rows() -> Rows:
    return {table: {} for table in TABLES}


def copied(rows: Rows) -> Rows:
    return {table: dict(members) for table, members in rows.items()}


@dataclass
class Branch:
    """Rows by table, and how often each table was changed."""

    rows: Rows = field(default_factory=no_rows)
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    commits: int = 1

    def fork(self) -> Branch:
        return Branch(copied(self.rows), dict(self.versions), self.commits)


class Refused(Exception):
    """A statement that is refused on the spot."""

    def __init__(self, error: Refusal) -> None:
        super().__init__(error.__name__)
        self.error = error


class ModelTransaction:
    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.base = copied(branch.rows)
        self.versions = dict(branch.versions)
        self.rows = copied(branch.rows)
        self.written: dict[str, set[str]] = {table: set() for table in TABLES}
        self.new: dict[str, set[str]] = {table: set() for table in TABLES}
        """Ids that the branch must not have."""
        self.committed: set[str] = set()
        """Tables that its commit has changed."""
        self.read: set[str] = set()
        """Tables that a statement has read."""
        self.statements: list[tuple[Callable[[ModelTransaction], object], object]] = []
        """What was called, and what it returned if the caller has learned it."""

    # ------------------------------------------------------------ statements

    def run(self, statement: Callable[[ModelTransaction], Result], *, learns: bool = True) -> Result:
        """Run a statement that is run again if the branch has moved."""
        result = statement(self)
        self.statements.append((statement, result if learns else None))
        return result

    def insert(self, table: str, id: str, row: Row, *, upsert: bool) -> None:
        if not upsert:
            if id in self.written[table]:
                raise Refused(KeyConflict)
            if id not in self.base[table] or id in self.rows[table]:
                self.new[table].add(id)
        self.written[table].add(id)
        self.rows[table][id] = row

    def get(self, table: str, id: str) -> Row | None:
        self.read.add(table)
        return self.rows[table].get(id)

    def update(self, table: str, id: str, values: Row) -> bool:
        self.read.add(table)
        old = self.rows[table].get(id)
        if old is None:
            return False
        row = {**old, **values}
        if id in self.written[table] or row != old:
            self.written[table].add(id)
            self.rows[table][id] = row
        return True

    def delete(self, table: str, id: str) -> bool:
        self.read.add(table)
        if id not in self.rows[table]:
            return False
        if id in self.new[table] and id in self.base[table]:
            raise Refused(KeyConflict)
        del self.rows[table][id]
        self.written[table].discard(id)
        self.new[table].discard(id)
        if table in ENDS:
            return True
        for edges, ends in ENDS.items():
            if table in ends:
                self.read.add(edges)
            at = [column for column, end in zip(("src", "dst"), ends, strict=True) if end == table]
            for edge in [edge for edge, row in self.rows[edges].items() if any(row[column] == id for column in at)]:
                self.delete(edges, edge)
        return True

    def update_where(self, table: str, condition: Callable[[Row], bool], values: Row) -> int:
        self.read.add(table)
        matched = [id for id, row in self.rows[table].items() if condition(row)]
        return sum(self.update(table, id, values) for id in matched)

    def delete_where(self, table: str, condition: Callable[[Row], bool]) -> int:
        self.read.add(table)
        matched = [id for id, row in self.rows[table].items() if condition(row)]
        return sum(self.delete(table, id) for id in matched)

    # ------------------------------------------------------------ commit

    def removed(self, table: str) -> set[str]:
        return self.base[table].keys() - self.rows[table].keys()

    @property
    def changed(self) -> set[str]:
        return {table for table in TABLES if self.written[table] or self.removed(table)}

    @property
    def reads(self) -> set[str]:
        edges = {end for table, ends in ENDS.items() if self.written[table] for end in ends}
        nodes = {table for table, ends in ENDS.items() if any(self.removed(end) for end in ends)}
        least = {table for table, ends in ENDS.items() if CARDINALITY[table][0] and self.written[ends[0]]}
        return edges | nodes | least

    def commit(self) -> Refusal | None:
        """Apply to the branch as it is now, or say how it is refused. If a table that was read has moved, all statements are run
        again: as if the transaction had begun now, unless its caller would have learned something else."""
        if not self.changed:
            return None
        if any(self.branch.versions[table] != self.versions[table] for table in self.read):
            again = self._rerun()
            if again is None:
                return self._broken_values() or self._broken(self.base) or ExpectedVersionMismatch
            if isinstance(again, type):
                return again
            refusal = again.commit()
            self.committed = again.committed
            return refusal
        error = self._broken_values() or self._broken(self.base)
        if error:
            return error
        moved = {table for table in self.changed | self.reads if self.branch.versions[table] != self.versions[table]}
        error = self._broken(self.branch.rows) if moved else None
        if error:
            return error
        self.branch.rows = self._onto(self.branch.rows)
        self.committed = self.changed
        for table in self.changed:
            self.branch.versions[table] += 1
        self.branch.commits += 1
        return None

    def _rerun(self) -> ModelTransaction | Refusal | None:
        """None if a statement returns something else."""
        again = ModelTransaction(self.branch)
        for statement, learned in self.statements:
            try:
                result = again.run(statement, learns=learned is not None)
            except Refused as refused:
                return refused.error
            if learned is not None and result != learned:
                return None
        return again

    def _onto(self, rows: Rows) -> Rows:
        result = copied(rows)
        for table in TABLES:
            for id in self.removed(table):
                result[table].pop(id, None)
            for id in self.written[table]:
                result[table][id] = self.rows[table][id]
        return result

    def _written(self, *tables: str) -> Iterable[tuple[str, str, Row]]:
        for table in tables:
            for id in self.written[table]:
                yield table, id, self.rows[table][id]

    def _broken_values(self) -> Refusal | None:
        ages = [row["age"] for _, _, row in self._written("node:Person")]
        return ValueViolation if any(age is not None and not 0 <= age <= 9 for age in ages) else None

    def _broken(self, before: Rows) -> Refusal | None:
        after = self._onto(before)
        if any(self.new[table] & self.written[table] & before[table].keys() for table in TABLES):
            return KeyConflict
        for _, id, row in self._written("node:Person"):
            nick = row["nick"]
            if nick is not None and any(o["nick"] == nick for other, o in after["node:Person"].items() if other != id):
                return UniqueViolation
        for table, _, row in self._written(*ENDS):
            source, target = ENDS[table]
            if row["src"] not in after[source] or row["dst"] not in after[target]:
                return EndpointMissing
        for table, (source, target) in ENDS.items():
            for row in after[table].values():
                if row["src"] in self.removed(source) or row["dst"] in self.removed(target):
                    return EndpointMissing
        return CardinalityViolation if any(self._broken_cardinality(table, before, after) for table in ENDS) else None

    def _broken_cardinality(self, table: str, before: Rows, after: Rows) -> bool:
        least, most = CARDINALITY[table]
        gone = (self.written[table] | self.removed(table)) & before[table].keys()
        touched = {row["src"] for _, _, row in self._written(table)}
        if least:
            sources = ENDS[table][0]
            touched |= {before[table][id]["src"] for id in gone} & after[sources].keys()
            touched |= self.written[sources]
        counts = {source: sum(row["src"] == source for row in after[table].values()) for source in touched}
        return any(not least <= count <= most for count in counts.values())
