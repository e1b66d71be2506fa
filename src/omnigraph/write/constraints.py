"""Checks deltas against a view. The cost depends on the rows written: the branch is read by key only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.language.catalog import EdgeType
from omnigraph.remembered import Remembered
from omnigraph.rules import CheckPlan, Need
from omnigraph.rules.endpoints import ends_of
from omnigraph.tables.fragment import ROW_ADDRESS
from omnigraph.views import View
from omnigraph.write.delta import Delta, Row

if TYPE_CHECKING:
    import pyarrow as pa

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


_plans: Remembered[CheckPlan] = Remembered(PLANS_KEPT)
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
        import pyarrow as pa
        import pyarrow.compute as pc

        delta = self._deltas[need.table]
        if need.state == "lost":
            return self.superseded(need.table).select(list(need.columns))
        rows = delta.rows.select(list(need.columns))
        if need.state == "inserted":
            return rows.filter(pc.is_in(rows.column("id"), value_set=pa.array(list(delta.strict), pa.string())))
        return rows

    def matching(self, need: Need, values: pa.Array) -> pa.Table:
        import pyarrow as pa

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
        import pyarrow as pa

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
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows.num_rows:
        return rows
    gone = pa.array(list(ids), pa.string())
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=gone)))
