"""The changes of a transaction to one table, before they are staged: rows by id, and what they replace or remove."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.embedding.filling import Embeddings, is_text, text_vectors
from omnigraph.expressions.functions import Arguments, is_known
from omnigraph.expressions.interpreter import Interpreter, satisfying
from omnigraph.expressions.predicates import Predicate
from omnigraph.history.plan import ChangeMode
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.language.query.plan import Expression, PropertyRef
from omnigraph.snapshot import View
from omnigraph.tables.layout import KEY_COLUMNS
from omnigraph.tables.table import Table
from omnigraph.values.literals import canonical_text
from omnigraph.write.inlining import Delta, NewRows
from omnigraph.write.receipt import TypeCounts

Row = dict[str, Any]


@dataclass
class Pending:
    """Mutable, and used by its transaction only.

    What is known about the branch's row of an id: it is in `committed` if it was read and is replaced or removed here; an id in
    `fresh` was generated here and has no such row; an id in `strict` must not have one; for any other id in `rows` (upserts) it
    does not matter. `removed` are ids in `committed` whose row is removed.
    """

    entity: EntityType
    rows: dict[str, Row] = field(default_factory=dict)
    committed: dict[str, Row] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)
    strict: set[str] = field(default_factory=set)
    unembedded: dict[str, set[str]] = field(default_factory=dict)
    """By vector property: ids of rows whose text was written without a vector."""
    changed_strictly: bool = False
    affected: dict[str, int] = field(default_factory=lambda: {"inserted": 0, "updated": 0, "deleted": 0, "replaced": 0})

    def insert(self, row: Row, *, fresh: bool, strict: bool) -> None:
        """Add a row. If `strict`, the caller has checked that the transaction has no row with this id."""
        id = row["id"]
        if fresh:
            self.fresh.add(id)
        elif strict and id not in self.committed:
            self.strict.add(id)
        self.affected["replaced" if id in self.rows else "inserted"] += 1
        self.rows[id] = row
        self.removed.discard(id)
        for vector in self.entity.embedded:
            self._note_unembedded(vector.name, id, row[vector.name] is None)

    def update(self, old: Row, new: Row, *, assigned: Collection[str], is_pending: bool) -> None:
        """A pending row is replaced in place; a committed one becomes a change that depends on its exact state. If a text changes
        without its vector, the vector is computed again."""
        self.affected["updated"] += 1
        for vector in self.entity.embedded:
            if vector.name in assigned:
                self._note_unembedded(vector.name, new["id"], False)
            elif vector.embed is not None and new[vector.embed.source] != old[vector.embed.source]:
                new[vector.name] = None
                self._note_unembedded(vector.name, new["id"], True)
        if not is_pending:
            if _same(old, new):
                return
            self.committed[old["id"]] = old
            self.changed_strictly = True
        self.rows[new["id"]] = new

    def _note_unembedded(self, vector: str, id: str, is_missing: bool) -> None:
        ids = self.unembedded.setdefault(vector, set())
        ids.add(id) if is_missing else ids.discard(id)

    def fill(self, filling: Callable[[], Embeddings]) -> None:
        """Compute the missing vectors, for all rows together."""
        for vector in text_vectors(self.entity) if any(self.unembedded.values()) else ():
            ids = self.unembedded.pop(vector.property, set())
            rows = [row for id, row in self.rows.items() if id in ids and is_text(row[vector.source])]
            if rows and filling().fills(vector):
                vectors = filling().embedded(vector, [row[vector.source] for row in rows])
                for row, numbers in zip(rows, vectors.tolist(), strict=True):
                    row[vector.property] = numbers

    def uncertain(self, ids: Iterable[str]) -> list[str]:
        """Those of these ids whose pending row may have a row on the branch that was not read."""
        return [id for id in ids if id in self.rows and id not in self.fresh and id not in self.committed]

    def delete(self, id: str, committed: Row | None) -> None:
        """Delete a row. `committed` is the branch's row, if there is one that was not known here before."""
        self.affected["deleted"] += 1
        self.rows.pop(id, None)
        self.fresh.discard(id)
        self.strict.discard(id)
        if committed is not None:
            self.committed.setdefault(id, committed)
        if id in self.committed:
            self.removed.add(id)
            self.changed_strictly = True

    def hides(self) -> set[str]:
        """The ids whose committed row is not visible in this transaction."""
        return self.removed | self.rows.keys()

    def counts(self, superseded: Collection[str]) -> TypeCounts:
        """`superseded`: the ids whose row on the branch is replaced or removed. An upsert does not know that before."""
        replaced = sum(id in superseded for id in self.uncertain(self.rows))
        affected = self.affected
        return TypeCounts(
            affected["inserted"] - replaced, affected["updated"], affected["deleted"], affected["replaced"] + replaced
        )

    def delta(self, schema: pa.Schema) -> Delta:
        is_edge = isinstance(self.entity, EdgeType)
        removed: Mapping[str, str | None] = {
            id: self.committed[id]["src"] if is_edge else None for id in sorted(self.removed)
        }
        return Delta(
            entity=self.entity,
            new=NewRows(schema, list(self.rows.values())),
            mode=self._mode(),
            fresh=frozenset(self.fresh),
            strict=frozenset(self.strict),
            removed=removed,
            replaced={id: row for id, row in self.committed.items() if id in self.rows},
        )

    def _mode(self) -> ChangeMode:
        if self.changed_strictly:
            return "strict"
        return "insert" if self.strict | self.fresh == self.rows.keys() else "upsert"


def _same(old: Row, new: Row) -> bool:
    return all(old.get(name) == value for name, value in new.items())


# The rows that the `where` of a statement selects: committed ones that the transaction has not hidden, and pending ones.


class Matcher:
    def __init__(self, view: View, parameters: Mapping[str, object], now: dt.datetime) -> None:
        self.view = view
        self.arguments = Arguments(parameters, now)

    def value(self, expression: Expression, row: Row | None = None) -> object:
        """The value of an assignment that depends on no row but the one matched by an insert."""
        if row is not None and isinstance(expression, PropertyRef):
            return row[expression.column]
        if is_known(expression):
            return self.arguments.value(expression)
        return Interpreter(self.arguments, 1, _no_columns).evaluate(expression)[0].as_py()

    def assigned(self, key: str, values: Sequence[tuple[str, Expression]], rows: Sequence[Row]) -> list[Row]:
        """The new values of each row of an update; an assignment may use the old values."""
        known: Row = {name: self.value(expression) for name, expression in values if is_known(expression)}
        others = [(name, expression) for name, expression in values if name not in known]
        if not others:
            return [known for _ in rows]
        table = NewRows(self.view.schema(key), rows).table
        interpreter = Interpreter(self.arguments, len(rows), lambda _, name: table.column(name))
        columns = {name: interpreter.evaluate(expression).to_pylist() for name, expression in others}
        return [known | {name: columns[name][place] for name in columns} for place in range(len(rows))]

    def matches(self, key: str, where: Expression, pending: Pending) -> tuple[list[Row], list[Row]]:
        """(committed rows, pending rows) that satisfy the condition, each in the order of ids."""
        predicate = Predicate((where,), self.arguments)
        committed: list[Row] = []
        table = self.view.table(key)
        if table is not None:
            hidden = pending.hides()
            committed = [row for row in self._committed(key, table, predicate) if row["id"] not in hidden]
        if not pending.rows:
            return committed, []
        own = NewRows(self.view.schema(key), list(pending.rows.values()))
        return committed, self._satisfying(own.table, predicate.conjuncts)

    def _committed(self, key: str, table: Table, predicate: Predicate) -> list[Row]:
        """The committed rows: looked up by a key if the condition fixes one, otherwise found by a filter."""
        named = [name for name in (*KEY_COLUMNS, *self._key(key)) if name in predicate.fixed]
        if not named:
            return self._satisfying(table.read(None, predicate.filter), predicate.remaining)
        name = min(named, key=lambda column: len(predicate.fixed[column]))
        rows = table.lookup(*self._lookup(key, name, predicate.fixed[name]))
        return self._satisfying(rows, predicate.apart_from(name).conditions)

    def _key(self, key: str) -> tuple[str, ...]:
        """The property that alone is the key, if there is one."""
        entity = self.view.entity(key)
        return entity.key if len(entity.key) == 1 and entity.key[0] in entity.properties else ()

    def _lookup(self, key: str, name: str, values: Sequence[object]) -> tuple[str, list[str]]:
        if name in KEY_COLUMNS:
            return name, [str(value) for value in values]
        type_ = self.view.entity(key).properties[name].type
        return "id", [canonical_text(value, type_) for value in values]

    def _satisfying(self, rows: pa.Table, conditions: Iterable[Expression]) -> list[Row]:
        matching: list[Row] = satisfying(rows, conditions, self.arguments).sort_by("id").to_pylist()
        return matching


def _no_columns(_variable: str, name: str) -> pa.Array:
    raise AssertionError(f"{name} is a column, and no row is at hand")
