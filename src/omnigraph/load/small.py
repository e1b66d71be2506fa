"""A load of few rows: a statement of a transaction, so that its rows are inline in its commit. Nothing is staged, and there is no plan
to resume.

What is unusual about it (rows that are too large, broken rules, another schema meanwhile) is left to the load of many rows, which
says what is wrong with which record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from omnigraph._internal.lazy_imports import pa
from omnigraph.changes.table_diff import aligned, differs
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.history.publish import SCHEMA
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.load.fragments import HeldRows, TypeReport
from omnigraph.load.receipt import LoadCounts
from omnigraph.rules.values import DuplicateEdges
from omnigraph.snapshot import View
from omnigraph.tasks.engines import LoadMode
from omnigraph.tasks.target import Target, table_versions_of
from omnigraph.write.constraints import DeltaRows
from omnigraph.write.transaction import WriteTransaction


@dataclass
class SmallLoad:
    """The statement: `run` puts and removes its rows in a transaction. It may run several times; the counts are of the last run."""

    view: View
    """The state that the rows were read for."""
    mode: LoadMode
    held: Sequence[HeldRows]
    types: dict[str, TypeReport]
    emptied: frozenset[str]
    """Types of an overwrite without rows."""
    permit: Callable[[frozenset[str]], None] | None
    counts: dict[str, LoadCounts] = field(default_factory=dict)

    @property
    def has_equal_ids(self) -> bool:
        """Whether an id comes twice, to be put or to go."""
        ids: dict[str, list[str]] = {}
        for held in self.held:
            for key, rows in held.rows:
                ids.setdefault(key, []).extend(rows.column("id").to_pylist())
            for key, named in held.named.items():
                ids.setdefault(key, []).extend(named)
        return any(len(set(values)) < len(values) for values in ids.values())

    def run(self, transaction: WriteTransaction) -> None:
        keys = {*self.types, *self.emptied, *(key for held in self.held for key in held.named)}
        for key in keys:
            if transaction.catalog.tables.get(key) != self.view.entity(key):
                raise self._overtaken(SCHEMA, transaction)
        self.counts = {key: LoadCounts() for key in sorted(keys)}
        if self.mode == "overwrite":
            self._overwrite(transaction)
        else:
            self._delete(transaction)
            for key, rows in self._rows(transaction):
                self._put(transaction, transaction.catalog.tables[key], rows)
            for key, removed in transaction.removed_counts().items():
                self.counts[key] = replace(self.counts.get(key, LoadCounts()), deleted=removed)
        if self.permit is not None:
            self.permit(frozenset(key.partition(":")[2] for key in self.counts))

    def _overwrite(self, transaction: WriteTransaction) -> None:
        """Every row of the types goes or is replaced. This is about the state that it was read for, and no other."""
        rows: dict[str, list[pa.Table]] = {key: [] for key in self.counts}
        for key, part in chain.from_iterable(held.rows for held in self.held):
            rows[key].append(part)
        for key, parts in rows.items():
            if transaction.view.state(key) != self.view.state(key):
                raise self._overtaken(key, transaction)
            transaction.reads(key)
            entity, table = transaction.catalog.tables[key], transaction.view.table(key)
            new = [row for part in parts for row in part.to_pylist()]
            ids = {row["id"] for row in new}
            for row in [] if table is None else [row for batch in table.scan() for row in batch.to_pylist()]:
                if row["id"] not in ids:
                    transaction.pending(entity).delete(row["id"], row)
            for row in new:
                transaction.add(entity, row, fresh=False, strict=False)
            self.counts[key] = LoadCounts(inserted=len(new), deleted=transaction.view.rows(key))

    def _delete(self, transaction: WriteTransaction) -> None:
        """Remove the named rows. A node is removed with its edges."""
        for key, ids in chain.from_iterable(held.named.items() for held in self.held):
            transaction.reads(key)
            table = transaction.view.table(key)
            rows = [] if table is None else table.lookup("id", ids).to_pylist()
            self._count(key, unchanged=len(ids) - len(rows))
            transaction.apply_delete(transaction.catalog.tables[key], rows, [])

    def _rows(self, transaction: WriteTransaction) -> Iterator[tuple[str, pa.Table]]:
        """The rows to put. Parts of rows are completed with those of the state that they are put on."""
        for held in self.held:
            if transaction.view is self.view or not held.partial_rows:
                yield from held.rows
                continue
            target = Target.of(transaction.repository, transaction.view)
            again = HeldRows(target, table_versions_of(transaction.view), max_rows=held.max_rows)
            for split, rows in held.partial_rows:
                again.add(split, rows)
            again.finish()
            if again.rejects != held.rejects:
                raise self._overtaken(held.partial_rows[0][1].key, transaction)
            yield from again.rows

    def _put(self, transaction: WriteTransaction, entity: EntityType, rows: pa.Table) -> None:
        key, is_strict = entity.table_key, self.mode == "append"
        is_fresh = not self.types[key].ids_may_clash and not entity.key
        present: Collection[str] = ()
        same: set[str] = set()
        if not is_strict and not is_fresh:
            transaction.reads(key)
            present = transaction.view.addresses_of(key, rows.column("id").to_pylist())
            if present:
                same = _unchanged(transaction.view, entity, rows, present) - transaction.pending(entity).removed
        for row in rows.to_pylist():
            if row["id"] not in same:
                transaction.add(entity, row, fresh=is_fresh, strict=is_strict)
        met = len(present)
        self._count(key, inserted=rows.num_rows - met, updated=met - len(same), unchanged=len(same))

    def _count(self, key: str, *, inserted: int = 0, updated: int = 0, unchanged: int = 0) -> None:
        before = self.counts[key]
        self.counts[key] = LoadCounts(
            before.inserted + inserted, before.updated + updated, before.unchanged + unchanged
        )

    def _overtaken(self, key: str, transaction: WriteTransaction) -> ExpectedVersionMismatch:
        return ExpectedVersionMismatch(key, *(view.snapshot.commit.ref.seq for view in (self.view, transaction.view)))

    def duplicates(self, transaction: WriteTransaction) -> dict[str, int]:
        """By edge type without a key: how many edges a merge adds that equal some of the branch."""
        duplicates = {}
        deltas = transaction.deltas(self.view.schema) if self.mode == "merge" else {}
        for key, delta in deltas.items():
            if isinstance(delta.entity, EdgeType) and not delta.entity.key and self.counts[key].inserted:
                for violation in DuplicateEdges(delta.entity).find(DeltaRows(self.view, deltas)):
                    duplicates[key] = int(violation.number or 0)
        return duplicates


def _unchanged(view: View, entity: EntityType, rows: pa.Table, ids: Collection[str]) -> set[str]:
    """Those of these ids whose row has the same values on the branch."""
    table = view.table(entity.table_key)
    assert table is not None, "it has rows of these ids"
    wanted = pa.array(sorted(ids), pa.string())
    before, after = (aligned(side, wanted) for side in (table.lookup("id", wanted.to_pylist()), rows))
    return {
        id for id, other in zip(wanted.to_pylist(), differs(before, after, entity).tolist(), strict=True) if not other
    }
