"""Checks deltas against a view. The cost depends on the rows written: the branch is read by key only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from omnigraph._internal.caches import LruCache
from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import EndpointMissing, ExpectedVersionMismatch, InputError
from omnigraph.history.plan import TableChange
from omnigraph.history.values import TableState
from omnigraph.language.catalog import EdgeType
from omnigraph.metering import Threads
from omnigraph.rules.check import Need
from omnigraph.rules.endpoints import ends_of
from omnigraph.rules.planning import CheckPlan
from omnigraph.snapshot import View
from omnigraph.tables.addresses import ROW_ADDRESS
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table
from omnigraph.write.inlining import Delta, Row, bounds, fold_largest, inlined

PLANS_KEPT = 1_024
MAX_FEW_ROWS = 256

Deltas = Mapping[str, Delta]
Addresses = dict[str, dict[str, int]]
"""By table key and id: the address of the committed row that is superseded."""


def check_deltas(view: View, deltas: Deltas, *, again: bool = False) -> Addresses:
    """Raises the first violation; otherwise returns the committed rows that the deltas supersede. With `again`, they were checked
    before on another view, and checks of the new rows alone are skipped.
    """
    rows = DeltaRows(view, deltas)
    plan = check_plan(view, deltas)
    for check in plan.repeated if again else plan.checks:
        if not check.is_kept(rows):
            for violation in check.find(rows):
                raise check.error(violation)
    return {key: rows.addresses(key) for key in deltas}


def check_plan(view: View, deltas: Deltas) -> CheckPlan:
    """Which checks the deltas need. `reads` are the tables that they rely on: ends of new edges, edges of nodes."""
    changes = {key: delta.change for key, delta in deltas.items()}
    return _plans.get((view.snapshot.schema, *changes.items()), lambda: CheckPlan(view.catalog, changes))


_plans: LruCache[CheckPlan] = LruCache(PLANS_KEPT)
"""By the digest of a schema and the kinds of changes to its tables."""


# ---------------------------------------------------------------- rows


class DeltaRows:
    """The rows of deltas and, read by key, those of the view that they are applied to."""

    def __init__(self, view: View, deltas: Deltas) -> None:
        self._view = view
        self._deltas = deltas
        self._addresses: dict[str, dict[str, int]] = {}
        self._superseded: dict[str, pa.Table] = {}
        self._nodes_asked: dict[str, set[str]] = {}
        self._nodes_found: dict[str, set[str]] = {}

    # ------------------------------------------------------------ a few rows, as values

    def new(self, table: str) -> Sequence[Row] | None:
        delta = self._deltas.get(table)
        if delta is None:
            return ()
        return delta.new.values if len(delta.new) <= MAX_FEW_ROWS else None

    def has_taken_ids(self, table: str) -> bool:
        return not self._deltas[table].strict.isdisjoint(self.addresses(table))

    def has_all(self, table: str, ids: set[str]) -> bool:
        return self._nodes(table, ids) == ids

    def addresses(self, key: str) -> dict[str, int]:
        """The addresses of the committed rows that the delta of a table replaces or removes, by id."""
        known = self._addresses.get(key)
        if known is None:
            delta = self._deltas[key]
            wanted = delta.superseded - delta.fresh
            known = self._addresses[key] = self._view.addresses_of(key, wanted) if wanted else {}
        return known

    # ------------------------------------------------------------ rows as Arrow

    def all(self, need: Need) -> pa.Table:
        delta = self._deltas[need.table]
        if need.state == "lost":
            return self.superseded(need.table).select(list(need.columns))
        rows = delta.rows.select(list(need.columns))
        if need.state == "inserted":
            return rows.filter(pc.is_in(rows.column("id"), value_set=pa.array(list(delta.strict), pa.string())))
        return rows

    def matching(self, need: Need, values: pa.Array) -> pa.Table:
        if need.state in ("new", "lost"):
            return self.all(need)
        if need.state == "staying":
            return self._staying(need, values)
        if need.by == ("id",):
            return pa.table({"id": pa.array(sorted(self._nodes(need.table, set(values.to_pylist()))), pa.string())})
        staying = self._staying(need, values)
        if need.table not in self._deltas:
            return staying
        new = self._deltas[need.table].rows.select(list(need.columns))
        return pa.concat_tables([new, staying], promote_options="permissive")

    def superseded(self, key: str) -> pa.Table:
        """The committed rows (keys and addresses) that the delta of a table replaces or removes."""
        if key not in self._superseded:
            self._superseded[key] = self._lookup_superseded(self._deltas[key])
        return self._superseded[key]

    def _lookup_superseded(self, delta: Delta) -> pa.Table:
        table = self._view.table(delta.key)
        wanted = sorted(delta.superseded - delta.fresh)
        columns = ["id", "src"] if isinstance(delta.entity, EdgeType) else ["id"]
        if table is None or not wanted:
            fields = [*((name, pa.string()) for name in columns), (ROW_ADDRESS, pa.uint64())]
            return pa.schema(fields).empty_table()
        return table.lookup("id", wanted, columns, with_address=True)

    def _staying(self, need: Need, values: pa.Array) -> pa.Table:
        """The committed rows with one of these values that are neither replaced nor removed."""
        table = self._view.table(need.table)
        if table is None:
            return self._view.schema(need.table).empty_table().select(list(need.columns))
        holders = table.lookup(need.by[0], values.to_pylist(), list(dict.fromkeys(("id", *need.columns))))
        delta = self._deltas.get(need.table)
        return _without_ids(holders, delta.superseded if delta else ()).select(list(need.columns))

    def _nodes(self, key: str, ids: set[str]) -> set[str]:
        """Which of the nodes exist after the write. The ends of all new edges are looked up at once."""
        if key not in self._nodes_asked:
            self._nodes_asked[key], self._nodes_found[key] = set(), set()
            self._look_up_nodes(key, ids | self._ends(key))
        elif not ids <= self._nodes_asked[key]:
            self._look_up_nodes(key, ids - self._nodes_asked[key])
        return ids & self._nodes_found[key]

    def _ends(self, key: str) -> set[str]:
        return {
            id
            for delta in self._deltas.values()
            if isinstance(delta.entity, EdgeType)
            for end, node in ends_of(delta.entity)
            if f"node:{node}" == key
            for id in delta.new.column(end)
        }

    def _look_up_nodes(self, key: str, ids: set[str]) -> None:
        delta = self._deltas.get(key)
        present = ids.intersection(delta.ids) if delta else set[str]()
        rest = ids - present - (delta.removed.keys() if delta else set())
        if rest:
            present |= self._view.addresses_of(key, rest).keys()
        self._nodes_asked[key] |= ids
        self._nodes_found[key] |= present


def superseded_addresses(view: View, deltas: Deltas) -> Addresses:
    """The addresses of the committed rows that the deltas replace or remove."""
    rows = DeltaRows(view, deltas)
    return {key: rows.addresses(key) for key in deltas}


def _without_ids(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    if not rows.num_rows:
        return rows
    gone = pa.array(list(ids), pa.string())
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=gone)))


# Staging: writes the rows of deltas as fragments, and adds fragments to the tables of a snapshot as new versions.

Fragments = Mapping[str, tuple[str, ...]]
"""The written fragments, by table key."""

Result = TypeVar("Result")

STAGING_THREADS = 8
MAX_FRAGMENTS_AFTER_LOST_RACE = 48


def write_rows(view: View, deltas: Deltas) -> Fragments:
    """Write the rows of large changes as fragments of their tables, concurrently; they are not part of any version yet. Rows of
    small changes are not written: they will be inline."""
    return written_rows(view, bounds().too_large(deltas, view))


def written_rows(view: View, large: Sequence[Delta]) -> Fragments:
    """Write the rows of these changes as fragments."""
    reach(Failpoint.TXN_BEFORE_STAGE)
    written = side_by_side(lambda delta: write_now(view, delta), large)
    reach(Failpoint.TXN_AFTER_STAGE)
    return {delta.key: fragments for delta, fragments in zip(large, written, strict=True)}


def write_now(view: View, delta: Delta) -> tuple[str, ...]:
    """Write the rows of one delta as fragments of its table."""
    if not len(delta.new):
        return ()
    return view.repository.tables.write_fragments(view.table_or_new(delta.key), rows_to_write(view, delta))


def rows_to_write(view: View, delta: Delta) -> pa.Table:
    """The delta's rows with the schema of the table: they were checked, so no required value is missing."""
    return pa.Table.from_arrays(delta.rows.columns, schema=view.schema(delta.key))


def stage_versions(
    view: View, deltas: Deltas, addresses: Addresses, fragments: Fragments, *, after_lost_race: bool = False
) -> list[tuple[TableChange, list[Staged]]]:
    """A new state for each table, on top of the view's: small changes are inline, others a version with the fragments that were
    written before. Nothing is durable yet."""
    within = bounds()
    crowded = within.is_full(view, [delta for delta in deltas.values() if delta.key not in fragments])

    def stage(delta: Delta) -> tuple[TableChange, list[Staged]]:
        superseded, before = addresses.get(delta.key, {}), view.state(delta.key)
        if delta.key not in fragments and before is not None:
            return inlined(view, delta, before, superseded, within, crowded=crowded)
        base = view.table_or_new(delta.key)
        staged = view.repository.tables.stage(
            base,
            fragments=fragments.get(delta.key) or write_now(view, delta),
            remove=[address for id, address in superseded.items() if id in delta.superseded],
            fold=folds(base, after_lost_race),
        )
        return table_change(delta, view.state(delta.key), staged), [staged]

    changes = [delta for delta in deltas.values() if not delta.is_empty]
    staged = side_by_side(stage, changes) if fragments else [stage(delta) for delta in changes]
    states = {change.key: change.state for change, _ in staged}
    return [*staged, *((change, [version]) for change, version in fold_largest(view, states, within))]


def side_by_side(work: Callable[[Delta], Result], items: Sequence[Delta]) -> list[Result]:
    """The result of the work for each table, concurrently if there are several."""
    if len(items) < 2:
        return [work(item) for item in items]
    with Threads(max_workers=STAGING_THREADS) as pool:
        return list(pool.map(work, items))


def folds(base: Table, after_lost_race: bool) -> bool:
    """Whether to fold small fragments. After a lost race, folding waits for another write; but not if there are too many
    fragments."""
    return not after_lost_race or len(base.fragments) > MAX_FRAGMENTS_AFTER_LOST_RACE


def table_change(delta: Delta, before: TableState | None, staged: Staged) -> TableChange:
    state = TableState(
        staged.path, staged.version, (before.generation if before else 0) + 1, staged.rows, staged.digest
    )
    return TableChange(delta.key, delta.mode, before, state)


def check_again(view: View, pinned: View, deltas: Deltas, *, own_rows: bool = False) -> Addresses:
    """Check the rules against a newer view; returns the current addresses of the rows that the deltas supersede. With `own_rows`,
    also check the new rows alone, because the rules have changed or they were not checked yet."""
    try:
        return check_deltas(view, deltas, again=not own_rows)
    except InputError as error:
        raise _lost_to(pinned, deltas, view, error) from None


def _lost_to(pinned: View, deltas: Deltas, view: View, error: InputError) -> Exception:
    """A conflict, if the write removes nodes that a new edge needs: it lost a race. Otherwise the error itself."""
    removing = [delta for delta in deltas.values() if delta.removed]
    if not removing or not isinstance(error, EndpointMissing):
        return error
    key = f"edge:{error.type_name}"
    before, now = pinned.state(key), view.state(key)
    return ExpectedVersionMismatch(key, before.generation if before else 0, now.generation if now else 0)
