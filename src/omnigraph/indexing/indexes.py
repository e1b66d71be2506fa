"""Which property gets which index, and what the indexes cover. Reads are correct without any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.indexing.adjacency import adjacency_rows
from omnigraph.language.catalog import EdgeType, EntityType, Property
from omnigraph.snapshot import View
from omnigraph.tables.indexes import IndexCoverage, IndexSpec, coverage
from omnigraph.tables.table import Table
from omnigraph.values.types import Scalar


def index_specs(entity: EntityType) -> list[IndexSpec]:
    """The indexes of a type: its ids (and ends) always, then one for each node property with @key or @index.

    Declarations over several properties, and those on edges, are kept in the schema and build nothing.
    """
    if isinstance(entity, EdgeType):
        return [IndexSpec(name, "BTREE") for name in ("id", "src", "dst")]
    specs = [IndexSpec("id", "BTREE")]
    for constraint in entity.constraints:
        if constraint.kind in ("key", "index") and len(constraint.fields) == 1:
            name = constraint.fields[0]
            specs += [spec for spec in _for_property(entity.properties[name]) if spec not in specs]
    return specs


def _for_property(property: Property) -> Iterator[IndexSpec]:
    name, type = property.name, property.type
    if type.is_list or type.scalar is Scalar.BLOB:
        return
    if type.scalar is Scalar.VECTOR:
        yield IndexSpec(name, "IVF_FLAT", property.metric)
        return
    yield IndexSpec(name, "BTREE")
    if type.scalar is Scalar.STRING and not type.enum:
        yield IndexSpec(name, "INVERTED", property.language)


@dataclass(frozen=True)
class IndexState:
    """One declared index of one table: how many rows it covers, and how many a read still has to scan.

    >>> person = next(each for each in g.maintenance.storage().types if each.type == "node:Person")
    >>> assert {index.column for index in person.indexes} == {"id", "name"}
    """

    table_key: str
    column: str
    kind: str
    covered_rows: int
    pending_rows: int
    reason: str | None = None
    """Why rows are pending; None if there are none."""

    @property
    def is_complete(self) -> bool:
        """Whether it covers every row."""
        return self.pending_rows == 0

    def to_json(self) -> dict[str, str | int]:
        """As the command line prints it.

        >>> assert person.indexes[0].to_json()["table"] == "node:Person"
        """
        members: dict[str, str | int] = {
            "table": self.table_key,
            "column": self.column,
            "kind": self.kind,
            "covered_rows": self.covered_rows,
            "pending_rows": self.pending_rows,
        }
        return members if self.reason is None else {**members, "reason": self.reason}


def index_state(view: View, keys: Iterable[str] | None = None) -> list[IndexState]:
    """Every index of the given tables (by default, of all), by table and column."""
    states = []
    for key in view.catalog.tables if keys is None else keys:
        specs, table = index_specs(view.entity(key)), view.table(key)
        covered: dict[str, IndexCoverage] = {} if table is None else coverage(table, specs)
        for spec in specs:
            state = covered.get(spec.name)
            counts = (state.covered_rows, state.pending_rows) if state else (0, 0)
            reason = why_pending(table, state) if table is not None and state and state.pending_rows else None
            states.append(IndexState(key, spec.column, spec.kind, *counts, reason))
        if table is not None and (rows := adjacency_rows(view, key)) is not None:
            reason = None if rows >= table.rows else _ADJACENCY_PENDING if rows == 0 else "written since it was stored"
            states.append(IndexState(key, "src, dst", "ADJACENCY", rows, max(table.rows - rows, 0), reason))
    return states


_ADJACENCY_PENDING = "not stored, so reads build it in memory: omnigraph optimize stores it, and says why it cannot"


def why_pending(table: Table, state: IndexCoverage) -> str:
    """Why an index does not cover every row."""
    if state.spec.kind == "IVF_FLAT" and not table.count(f"`{state.spec.column}` IS NOT NULL"):
        return "no row has a vector"
    return "written since the index was built" if state.segments else "never built"
