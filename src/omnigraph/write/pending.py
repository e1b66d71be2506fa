"""The changes of a transaction to one table, before they are staged: rows by id, and what they replace or remove."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.embedding.filling import Filling, is_text, text_vectors
from omnigraph.history import ChangeMode
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.write.delta import Delta, NewRows
from omnigraph.write.receipt import TypeCounts

if TYPE_CHECKING:
    import pyarrow as pa

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

    def fill(self, filling: Callable[[], Filling]) -> None:
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
