"""Where the columns of a variable come from. A variable's rows are numbers; -1 stands for null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.read.executor.bindings import NotCovered
from omnigraph.read.inputs.adjacency import GraphArrays, whole
from omnigraph.tables.adjacency.edges import NumberedEdges
from omnigraph.tables.adjacency.index import FEW_CELLS
from omnigraph.tables.adjacency.nodes import CodedColumn

MIN_CODED = 4_096
"""For fewer rows than this, a column's values are read and compared as they are."""


class ColumnSource(Protocol):
    """The columns of one variable."""

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        """The values at these numbers; null where a number is -1."""
        ...

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        """A column with few distinct values by number, if that pays for so many rows."""
        ...

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        """Integers that sort as the ids of these numbers do; None if there are none."""
        ...


@dataclass(frozen=True)
class NodeSource:
    """Nodes of one type, or of several: the numbers of each type follow those of the previous ones."""

    compact: GraphArrays
    types: tuple[str, ...]

    @cached_property
    def offsets(self) -> list[int]:
        offsets = [0]
        for type_name in self.types:
            offsets.append(offsets[-1] + self.compact.nodes(type_name).size)
        return offsets

    @property
    def size(self) -> int:
        return self.offsets[-1]

    @property
    def is_single(self) -> bool:
        return len(self.types) == 1

    @cached_property
    def living(self) -> np.ndarray:
        """All numbers, ascending."""
        parts = []
        for type_name, offset in zip(self.types, self.offsets, strict=False):
            nodes = self.compact.nodes(type_name)
            live = np.arange(nodes.size, dtype=np.int32) if nodes.live is None else np.flatnonzero(nodes.live)
            parts.append(live + offset)
        return parts[0] if self.is_single else np.concatenate(parts)

    def offset(self, type_name: str) -> int | None:
        return self.offsets[self.types.index(type_name)] if type_name in self.types else None

    def kinds(self, numbers: np.ndarray) -> np.ndarray:
        """The position of each number's type among the types."""
        return np.searchsorted(np.array(self.offsets[1:]), numbers, "right")

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        if self.is_single:
            return _with_nulls(numbers, lambda known: self._cells(self.types[0], name, known))
        return _with_nulls(numbers, lambda known: self._mixed(name, known))

    def is_key(self, name: str) -> bool:
        """Whether a column tells every two nodes apart."""
        return self.is_single and (name == "id" or self.compact.view.catalog.nodes[self.types[0]].key == (name,))

    def few_columns(self, names: Sequence[str], numbers: np.ndarray) -> dict[str, pa.Array]:
        """Several columns, if so few rows are wanted that they are read together."""
        is_few = self.is_single and 0 < len(numbers) <= FEW_CELLS and int(numbers.min()) >= 0
        return self.compact.columns(self.types[0], names, numbers) if is_few else {}

    def _cells(self, type_name: str, name: str, numbers: np.ndarray) -> pa.Array:
        if name == "id":
            return self.compact.nodes(type_name).ids(numbers)
        if numbers is self.living and self.compact.nodes(type_name).live is None:
            return self.compact.column(type_name, name).whole
        return self.compact.columns(type_name, [name], numbers)[name]

    def _mixed(self, name: str, numbers: np.ndarray) -> pa.Array:
        kinds, parts, places = self.kinds(numbers), [], []
        for place, (type_name, offset) in enumerate(zip(self.types, self.offsets, strict=False)):
            chosen = np.flatnonzero(kinds == place)
            if len(chosen):
                parts.append(self._cells(type_name, name, (numbers[chosen] - offset).astype(np.int32)))
                places.append(chosen)
        if not parts:
            return self._cells(self.types[0], name, numbers[:0].astype(np.int32))
        if len({part.type for part in parts}) > 1:
            raise NotCovered
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        if not self.is_single or rows < MIN_CODED or name == "id":
            return None
        if pa.types.is_nested(self.compact.view.schema(f"node:{self.types[0]}").field(name).type):
            return None
        return self.compact.codes(self.types[0], name)

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return self.compact.nodes(self.types[0]).order_keys(numbers) if self.is_single else None

    def type_names(self, numbers: np.ndarray) -> pa.Array | None:
        """The type of each number, if there are several."""
        if self.is_single:
            return None
        return _with_nulls(numbers, lambda known: pa.array(self.types).take(pa.array(self.kinds(known))))


@dataclass(frozen=True)
class EdgeSource:
    """The edges of one type, by edge number."""

    compact: GraphArrays
    edge: str
    edges: NumberedEdges | None

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        return _with_nulls(numbers, lambda known: self._cells(name, known))

    def _cells(self, name: str, numbers: np.ndarray) -> pa.Array:
        if self.edges is None:
            return self.compact.view.schema(f"edge:{self.edge}").empty_table().column(name).combine_chunks()
        if name in ("src", "dst"):
            ends, type_ = self.edges.ends(numbers), self.compact.view.catalog.edges[self.edge]
            if name == "src":
                return self.compact.nodes(type_.source).ids(ends.src)
            return self.compact.nodes(type_.target).ids(ends.dst)
        return self.compact.edge_column(self.edge, name).take(numbers)

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        return None

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return None


@dataclass(frozen=True)
class ValueSource:
    """Values that were computed for the rows: the items of lists."""

    values: pa.Array

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        return _with_nulls(numbers, lambda known: self.values.take(pa.array(known)))

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        return None

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return None


@dataclass(frozen=True)
class RelationSource:
    """Rows of a table by their position; `names` are its names of stored columns. `types`: those of nodes."""

    rows: pa.Table
    names: Mapping[str, str]
    types: tuple[str, ...] = ()

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        return whole(self.rows.column(self.names[name])).take(pa.array(numbers))

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        return None

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return None

    def type_names(self, numbers: np.ndarray) -> pa.Array | None:
        return None


@dataclass(frozen=True)
class StageSource:
    """The rows of the stage before, by their position."""

    columns: Mapping[str, pa.Array]

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        return self.columns[name].take(numbers)

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        return None

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return numbers


def _with_nulls(numbers: np.ndarray, read: Callable[[np.ndarray], pa.Array]) -> pa.Array:
    present = numbers >= 0
    if present.all():
        return read(numbers)
    places = np.flatnonzero(present)
    cells = read(numbers[places])
    at = np.full(len(numbers), -1, np.int64)
    at[places] = np.arange(len(places))
    return cells.take(pa.array(at, mask=~present))
