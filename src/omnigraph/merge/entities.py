"""The three-way merge of one type: which of the guest's rows to put on the host's table, and which host rows go.

Only entities that both sides changed have their rows read here; the rest is decided by ids and addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.changes.changed import DELETE, INSERT, UPDATE, Stored, chunk_rows, typed_rows_at
from omnigraph.language.arrow import arrow_schema
from omnigraph.language.catalog import EntityType
from omnigraph.merge import rule
from omnigraph.merge.bases import NO_BASE, stored_type
from omnigraph.merge.conflicts import MergeConflict, divergence
from omnigraph.merge.sides import Side
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True)
class TypeMerge:
    """What the guest brings to one type of the host.

    `puts` are addresses of guest rows taken as they are, `combined` new rows made of both sides' values, `removes`
    addresses of host rows that go. `gone` are the ids that vanish, `replaced` those that get another row, `restored`
    those the host had deleted.
    """

    entity: EntityType
    guest: Stored
    host: Stored
    puts: np.ndarray[Any, Any]
    combined: pa.Table
    removes: np.ndarray[Any, Any]
    gone: frozenset[str]
    replaced: frozenset[str]
    restored: frozenset[str]
    inserted: int
    conflicts: tuple[MergeConflict, ...] = ()

    @property
    def superseded(self) -> frozenset[str]:
        return self.gone | self.replaced

    @property
    def is_empty(self) -> bool:
        return not (len(self.puts) or self.combined.num_rows or len(self.removes))


@dataclass
class _Tally:
    puts: list[int] = field(default_factory=list)
    removes: list[int] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    combined: list[Any] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)


def merge_type(guest: Side, host: Side, entity: EntityType, *, by: rule.By, winner: rule.Winner) -> TypeMerge:
    """`entity` is the type as the host's schema has it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    theirs, mine = guest.changes(entity.id), host.changes(entity.id)
    shared = pc.is_in(theirs.column("id"), mine.column("id").combine_chunks())
    alone, contested = theirs.filter(pc.invert(shared)), theirs.filter(shared)
    tally = _Tally()
    guest_rows, host_rows = _rows(guest.view, entity), _rows(host.view, entity)
    places = contested.join(mine.select(["id", "after"]).rename_columns(["id", "host"]), "id", join_type="left outer")
    case = Case(entity, guest_rows, host_rows, tuple(_rows(view, entity) for view in guest.bases.views), by, winner)
    step = chunk_rows(guest_rows.table, host_rows.table)
    chunks = [places.slice(start, step) for start in range(0, places.num_rows, step)]
    verdicts = guest.differences.workers.map("decide", decide_chunk, [(case, chunk) for chunk in chunks])
    for chunk, rows in zip(chunks, verdicts, strict=True):
        _count(case, chunk, rows, tally)
    op = alone.column("op")
    puts = alone.filter(pc.not_equal(op, DELETE)).column("after").to_numpy()
    return TypeMerge(
        entity=entity,
        guest=guest_rows,
        host=host_rows,
        puts=np.concatenate([puts, np.asarray(tally.puts, np.uint64)]),
        combined=pa.concat_tables([_open_schema(entity).empty_table(), *tally.combined]),
        removes=np.concatenate([_removed(host, entity, alone), np.asarray(tally.removes, np.uint64)]),
        gone=frozenset([*alone.filter(pc.equal(op, DELETE)).column("id").to_pylist(), *tally.gone]),
        replaced=frozenset([*alone.filter(pc.equal(op, UPDATE)).column("id").to_pylist(), *tally.replaced]),
        restored=frozenset(tally.restored),
        inserted=alone.filter(pc.equal(op, INSERT)).num_rows + len(tally.restored),
        conflicts=tuple(tally.conflicts),
    )


def _rows(view: View, entity: EntityType) -> Stored:
    return stored_type(view, entity.id) or Stored(entity, None)


def _removed(host: Side, entity: EntityType, alone: pa.Table) -> np.ndarray[Any, Any]:
    """Host addresses of the rows that only the guest changed or deleted."""
    import numpy as np
    import pyarrow.compute as pc

    pieces = [np.zeros(0, np.uint64)]
    changed = alone.filter(pc.not_equal(alone.column("op"), INSERT))
    for base in range(len(host.bases.views)):
        rows = changed.filter(pc.equal(changed.column("base"), base))
        if rows.num_rows:
            pieces.append(host.address_of(entity.id, base, rows.column("before").to_numpy()))
    return np.concatenate(pieces)


@dataclass(frozen=True)
class Case:
    """One type's merge as a worker needs it."""

    entity: EntityType
    guest: Stored
    host: Stored
    bases: tuple[Stored, ...]
    by: rule.By
    winner: rule.Winner


def decide_chunk(task: tuple[Case, pa.Table]) -> pa.Table:
    """Run the rule on entities that both sides changed: columns id, before, after, base and host of the chunk."""
    import pyarrow as pa
    import pyarrow.compute as pc

    case, chunk = task
    bases = [
        typed_rows_at(stored, chunk.filter(pc.equal(chunk.column("base"), index)).column("before"), case.entity)
        for index, stored in enumerate(case.bases)
    ]
    relations = {
        "ids": pa.table({"id": chunk.column("id"), "unknown": pc.equal(chunk.column("base"), NO_BASE)}),
        "base": pa.concat_tables(bases),
        "guest": typed_rows_at(case.guest, chunk.column("after"), case.entity),
        "host": typed_rows_at(case.host, chunk.column("host"), case.entity),
    }
    return rule.decide(case.entity, relations, by=case.by, winner=case.winner)


def _count(case: Case, chunk: pa.Table, verdicts: pa.Table, tally: _Tally) -> None:
    """Put a chunk's verdicts together with the rest."""
    import pyarrow.compute as pc

    ids = chunk.column("id").to_pylist()
    guest_at = dict(zip(ids, chunk.column("after").to_pylist(), strict=True))
    host_at = dict(zip(ids, chunk.column("host").to_pylist(), strict=True))
    for row in verdicts.select(["id", "verdict", "kind", "fields"]).to_pylist():
        _apply(row, case.entity, guest_at[row["id"]], host_at[row["id"]], tally)
    if case.by == "property":
        rows = verdicts.filter(pc.equal(verdicts.column("verdict"), rule.COMBINE))
        schema = _open_schema(case.entity)
        tally.combined.append(rows.select(schema.names).cast(schema))


def _apply(row: dict[str, Any], entity: EntityType, guest_at: int | None, host_at: int | None, tally: _Tally) -> None:
    id, verdict = row["id"], row["verdict"]
    if verdict == rule.CONFLICT:
        tally.conflicts.append(divergence(entity, id, row["kind"], row["fields"]))
    if verdict in (rule.KEEP, rule.CONFLICT):
        return
    if host_at is not None:
        tally.removes.append(host_at)
        (tally.gone if verdict == rule.DELETE else tally.replaced).append(id)
    elif verdict != rule.DELETE:
        tally.restored.append(id)
    if verdict == rule.TAKE:
        assert guest_at is not None, "only a row that exists is taken"
        tally.puts.append(guest_at)


def _open_schema(entity: EntityType) -> pa.Schema:
    """Whether a value may be missing is a rule of the data, checked later."""
    import pyarrow as pa

    return pa.schema([pa.field(each.name, each.type) for each in arrow_schema(entity)])
