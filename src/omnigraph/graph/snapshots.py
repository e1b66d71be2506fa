"""What one snapshot holds: its commit, its schema, and each type's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.history import Commit
from omnigraph.views import View

if TYPE_CHECKING:
    from omnigraph.language.catalog import Catalog


@dataclass(frozen=True)
class TypeState:
    """One type in a snapshot. `version` counts the writes to its table; 0 if nothing was ever written.

    >>> (people,) = [type for type in g.snapshot().types if type.name == "Person"]
    >>> assert (people.kind, people.entities) == ("node", 4)
    """

    kind: Literal["node", "edge"]
    name: str
    entities: int
    version: int
    path: str


@dataclass(frozen=True)
class GraphSnapshot:
    """One immutable state of the graph. Every type that the schema declares is listed, edges first.

    >>> old = g.snapshot("main~1")
    >>> assert old.commit == g.commit("main~1")
    >>> assert list(old.schema.nodes) == ["Person", "City"]
    """

    commit: Commit
    schema: Catalog
    types: tuple[TypeState, ...]

    def __repr__(self) -> str:
        return f"<GraphSnapshot at {self.commit.id}: {sum(type.entities for type in self.types)} entities>"


def snapshot_of(view: View) -> GraphSnapshot:
    from omnigraph.language.catalog import NodeType

    types = []
    for key, entity in view.catalog.tables.items():
        state = view.state(key)
        kind: Literal["node", "edge"] = "node" if isinstance(entity, NodeType) else "edge"
        version = 0 if state is None else state.generation
        types.append(TypeState(kind, entity.name, view.rows(key), version, view.path(key)))
    return GraphSnapshot(view.snapshot.commit, view.catalog, tuple(types))
