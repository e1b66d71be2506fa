"""What an algorithm sees of a graph: the edges of one type, the nodes of the types that they connect, and perhaps a weight.

Nodes are numbered by type and id, types in the order of their names: an *ordinal* is a node's place in that order, so it does
not depend on where or in how many parts the work is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound, UsageError
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True)
class EdgeProjection:
    view: View
    edge: str
    types: tuple[str, ...]
    """Of the nodes, sorted."""
    source: int
    target: int
    """Places in `types`."""
    weight: str | None

    @classmethod
    def of(cls, view: View, edge: str, weight: str | None) -> EdgeProjection:
        declared = view.catalog.edges.get(edge)
        if declared is None:
            raise NotFound(
                f"there is no edge type '{edge}'", hint=f"edge types: {', '.join(sorted(view.catalog.edges))}"
            )
        if weight is not None:
            _check_weight(view, edge, weight)
        types = tuple(sorted({declared.source, declared.target}))
        return cls(view, edge, types, types.index(declared.source), types.index(declared.target), weight)

    @property
    def edge_key(self) -> str:
        return f"edge:{self.edge}"

    @property
    def edges(self) -> int:
        return self.view.rows(self.edge_key)

    @property
    def nodes(self) -> int:
        return sum(self.view.rows(f"node:{name}") for name in self.types)

    @property
    def columns(self) -> list[str]:
        """Those of the edges that are read; the id is for the error that names an edge."""
        return ["src", "dst"] if self.weight is None else ["src", "dst", "id", self.weight]


def _check_weight(view: View, edge: str, weight: str) -> None:
    from pyarrow import types as pt

    schema = view.schema(f"edge:{edge}")
    names = [
        field.name
        for field in schema
        if field.name not in ("id", "src", "dst") and (pt.is_integer(field.type) or pt.is_floating(field.type))
    ]
    if weight not in names:
        raise UsageError(
            f"'{weight}' is not a property of {edge} that can be a weight",
            hint=f"numbers of {edge}: {', '.join(names)}" if names else f"{edge} has no property that is a number",
        )


def weights(rows: pa.Table, edge: str, name: str) -> np.ndarray:
    """The weights of some edges. UsageError for one that has none, or a negative one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column(name)
    wrong = pc.fill_null(pc.less(column, pa.scalar(0, column.type)), True)
    if pc.any(wrong).as_py():
        place = pc.index(wrong, True).as_py()
        value = column[place].as_py()
        weight = "no weight" if value is None else f"the weight {value}"
        raise UsageError(
            f"the edge '{rows.column('id')[place].as_py()}' of {edge} has {weight}",
            hint=f"every edge needs a '{name}' of at least 0",
        )
    return np.asarray(column.cast(pa.float64()).combine_chunks(), np.float64)


def component_names(types: Sequence[str], type: int, ids: pa.Array) -> pa.Array:
    """How nodes are named as labels: by id, and where nodes of two types may have the same one, as `Type:id`."""
    import pyarrow.compute as pc

    return ids if len(types) == 1 else pc.binary_join_element_wise(types[type], ids, ":")
