"""Putting a checked load on a newer snapshot: once in full, and from then on by looking at what arrived or went only.

A load may take an hour to prepare while others commit every few milliseconds. Were it checked as a whole each time it
loses a race, it would lose every one. A load that stood on one snapshot stands on the next unless a row that came or
went meets one of its own keys; rows that came are few, and whether the load has a key is told by sorted hashes of its
keys, made once. What meets is checked in full, so the messages are those of every other load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.changes.changed import Stored, rows_at, unshared
from omnigraph.changes.workers import IN_PROCESS
from omnigraph.history import PublishPlan, Snapshot, TableChange
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.pipeline.load.assembly import Addresses, Assembly, Incoming, LoadMode
from omnigraph.pipeline.runner import Runner
from omnigraph.relational import duck, rules
from omnigraph.relational.sql import to_sql
from omnigraph.tables import Table, in_list
from omnigraph.tables.ascending import distinct
from omnigraph.tables.staging import Earlier
from omnigraph.tables.table import OFFSET_BITS, ROW_ADDRESS
from omnigraph.views import Repository, View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

FEW_ROWS = 50_000
"""More rows than this that came since the last check are checked in full."""
MAX_KEYS_HASHED = 250_000_000
"""Rows of a load whose hashed keys are held in memory (8 bytes each). A larger one is checked in full."""
INDEXED_REBASES = 1
"""Rebases that build their indexes anew. Whoever loses again has no time for them: they stay pending."""


@dataclass(frozen=True)
class Standing:
    """A load that was checked and staged on a view. `earlier`: versions whose deletions can be used again."""

    view: View
    addresses: Addresses
    earlier: Mapping[str, Earlier] = field(default_factory=dict)

    @classmethod
    def of(cls, assembly: Assembly) -> Standing:
        return cls(assembly.view, assembly.addresses)


class LoadRebase:
    """The rebase of one load, with its memory from one attempt to the next."""

    def __init__(
        self, repository: Repository, mode: LoadMode, runner: Runner, standing: Standing | None = None
    ) -> None:
        self._repository = repository
        self._mode = mode
        self._runner = runner
        self._standing = standing
        self._keys = _KeyHashes(repository)
        self.in_full = 0
        """How many attempts had to check everything."""
        self._attempts = 0

    def __call__(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        self._attempts += 1
        view = self._repository.view(snapshot)
        incoming = {change.key: Incoming.from_json(change.key, change.staged) for change in plan.changes}
        assembly = Assembly(view, incoming, self._mode, self._runner, index=self._attempts <= INDEXED_REBASES)
        still = {change.key: change for change in plan.changes if change.base == snapshot.table(change.key)}
        addresses = self._carried(view, incoming, assembly.reads())
        if addresses is None:
            self.in_full += 1
            changes = assembly.changes(still)
            self._standing = Standing.of(assembly)
        else:
            assert self._standing is not None, "what is carried stood somewhere"
            before = self._standing.earlier
            rest = {key: _elsewhere(found, before.get(key), view.table(key)) for key, found in addresses.items()}
            staged, changes = assembly.restaged(rest, still, before)
            fresh = {key: change for key, change in staged.items() if key not in still}
            self._standing = Standing(view, addresses, {**before, **self._earlier(view, fresh)})
        self._repository.tables.sync(assembly.staged)
        return replace(plan, changes=changes, reads=assembly.reads())

    def _earlier(self, view: View, staged: Mapping[str, TableChange]) -> dict[str, Earlier]:
        """Versions that were just staged, without folding, for the next attempt."""
        found = {}
        for key, change in staged.items():
            base = view.table(key)
            if base is not None and change.state is not None:
                found[key] = Earlier(base, self._repository.tables.open(change.state.path, change.state.version))
        return found

    def _carried(self, view: View, incoming: Mapping[str, Incoming], reads: Sequence[str]) -> Addresses | None:
        """What the load replaces on this view, when no rule can break on the way there; None: check in full."""
        import numpy as np

        standing = self._standing
        if standing is None or self._mode == "overwrite":
            return None
        if sum(one.rows for one in incoming.values()) > MAX_KEYS_HASHED:
            return None
        moves = {}
        for key in {*incoming, *reads}:
            moves[key] = move = _Move.between(standing.view, view, key)
            if move is None:
                return None
        for one in incoming.values():
            if self._may_break(view.entity(one.key), one, moves):
                return None
        return {
            key: self._replaced(view.entity(key), incoming[key], moves[key], standing.addresses.get(key, np.array([], np.uint64)))
            for key in incoming
        }  # fmt: skip

    def _may_break(self, entity: EntityType, one: Incoming, moves: Mapping[str, _Move | None]) -> bool:
        own = moves[one.key]
        assert own is not None
        meet = self._keys.meet
        if self._mode == "append" and one.may_clash(entity) and meet(one, ("id",), own.come):
            return True
        for constraint in rules.unique_constraints(entity):
            if meet(one, constraint.fields, own.rows_come(list(constraint.fields))):
                return True
        if not isinstance(entity, EdgeType):
            return False
        if entity.min_out and own.moved:
            return True
        if entity.max_out is not None and meet(one, ("src",), own.rows_come(["src"])):
            return True
        ends = (("src", entity.source), ("dst", entity.target))
        for end, node in ends:
            move = moves[f"node:{node}"]
            assert move is not None
            if meet(one, (end,), move.ids_gone().rename_columns([end])):
                return True
        return False

    def _replaced(self, entity: EntityType, one: Incoming, move: _Move | None, before: Any) -> Any:
        """The addresses of before that still hold a row, and those of rows that came under one of the load's ids."""
        import numpy as np

        assert move is not None
        if self._mode != "merge" or not one.may_clash(entity):
            return np.array([], dtype=np.uint64)
        kept = before[~np.isin(before, move.gone.column(ROW_ADDRESS).to_numpy())] if move.gone.num_rows else before
        met = self._keys.meeting(one, ("id",), move.come)
        if not met.num_rows:
            return kept
        table = self._repository.tables.open(one.place.path, one.place.version)
        held = set(table.read(["id"], in_list("id", met.column("id").to_pylist())).column("id").to_pylist())
        new = [row[ROW_ADDRESS] for row in met.to_pylist() if row["id"] in held]
        return np.concatenate([kept, np.array(new, dtype=np.uint64)])


def _elsewhere(addresses: Any, earlier: Earlier | None, table: Table | None) -> Any:
    """The addresses outside the fragments from which an earlier attempt removed them already."""
    import numpy as np

    if earlier is not None and table is not None:
        same = np.array(sorted(earlier.still_same(table)), dtype=np.uint64)
        addresses = addresses[~np.isin(addresses >> np.uint64(OFFSET_BITS), same)]
    return addresses


@dataclass(frozen=True)
class _Move:
    """The rows of a table that came and went between two views, as ids and addresses."""

    table: Table | None
    come: pa.Table
    gone: pa.Table

    @classmethod
    def between(cls, before: View, after: View, key: str) -> _Move | None:
        """None: more than a few rows, or rows that are stored in other places than before."""
        old, new = before.table(key), after.table(key)
        places = {} if old is None else {fragment.files: fragment for fragment in old.fragments}
        fresh = 0
        for fragment in () if new is None else new.fragments:
            was = places.get(fragment.files)
            if was is not None and was.id != fragment.id:
                return None
            fresh += fragment.rows if was is None else 0
        if fresh > FEW_ROWS:
            return None
        sides = Stored(before.entity(key), old), Stored(after.entity(key), new)
        same = before.state(key) == after.state(key)
        come, gone = (
            unshared(one, one if same else other, IN_PROCESS) for one, other in (sides[::-1], sides)
        )  # fmt: skip
        return cls(new, come, gone)

    @property
    def moved(self) -> bool:
        return bool(self.come.num_rows or self.gone.num_rows)

    def rows_come(self, columns: list[str]) -> pa.Table:
        if self.table is None or not self.come.num_rows:
            return _nothing(columns)
        return rows_at(self.table, self.come.column(ROW_ADDRESS).to_numpy(), columns).select(columns)

    def ids_gone(self) -> pa.Table:
        """Ids that are no longer there. A row that was only stored anew is still there."""
        import pyarrow.compute as pc

        ids = self.gone.select(["id"])
        back = pc.is_in(ids.column("id"), value_set=self.come.column("id").combine_chunks())
        return ids.filter(pc.invert(back))


def _nothing(columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array([], pa.string()) for name in columns})


class _KeyHashes:
    """Whether new rows may hold a key, by sorted hashes of all their keys: 8 bytes a row, read once per set of columns."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._sorted: dict[tuple[str, tuple[str, ...]], np.ndarray[Any, Any]] = {}

    def meet(self, one: Incoming, columns: Sequence[str], rows: pa.Table) -> bool:
        return bool(self.meeting(one, columns, rows).num_rows)

    def meeting(self, one: Incoming, columns: Sequence[str], rows: pa.Table) -> pa.Table:
        """The given rows whose key the new rows may hold too."""
        import numpy as np
        import pyarrow as pa

        if not rows.num_rows or not one.rows:
            return rows.slice(0, 0)
        known = self._of(one, tuple(columns))
        hashes = _hashes(rows.select(list(columns)), columns)
        found = known[np.minimum(np.searchsorted(known, hashes), len(known) - 1)] == hashes
        for name in columns:  # null is no key
            found &= np.asarray(rows.column(name).is_valid())
        return rows.filter(pa.array(found))

    def _of(self, one: Incoming, columns: tuple[str, ...]) -> np.ndarray[Any, Any]:
        if (one.key, columns) not in self._sorted:
            table = self._repository.tables.open(one.place.path, one.place.version)
            self._sorted[one.key, columns] = distinct(_hashes(table.scan(list(columns)), columns))
        return self._sorted[one.key, columns]


def _hashes(rows: Any, columns: Sequence[str]) -> np.ndarray[Any, Any]:
    """One hash per row. The rows may be a stream."""
    text = _hash_query(tuple(columns))
    hashes: np.ndarray[Any, Any] = duck.run_text(text, {"rows": rows}).column("hash").to_numpy()
    return hashes


@lru_cache(maxsize=256)
def _hash_query(columns: tuple[str, ...]) -> str:
    texts = ", ".join(f'CAST("{name}" AS TEXT)' for name in columns)
    return to_sql(exp.select(f'hash({texts}) AS "hash"').from_('"rows"'), "duckdb")
