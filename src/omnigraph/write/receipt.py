"""What a write returns to its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.history import Commit


@dataclass(frozen=True)
class TypeCounts:
    """How many entities of one type a write changed.

    >>> assert receipt.types["node:City"] == og.TypeCounts(inserted=1)
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        """Inserted, updated and deleted together."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class Receipt:
    """The exact commit that a write published (None if it changed nothing) and what it changed.

    `types` maps table keys ("node:Person") to counts. `affected_nodes` and `affected_edges` count matched entities,
    cascaded edges included.

    >>> receipt = g.mutate('query q() { insert City { name: "Rome" } }', actor="ada")
    >>> assert (receipt.commit, receipt.actor, receipt.query_name) == (g.commit(), "ada", "q")
    """

    branch: str
    commit: Commit | None
    types: Mapping[str, TypeCounts]
    actor: str | None = None
    query_name: str | None = None
    """The name of the mutation; None for a transaction."""
    repeated: bool = False
    """Whether the branch had a commit under the write key already: then `commit` is that one, and nothing was changed."""

    @property
    def affected_nodes(self) -> int:
        """Nodes inserted, updated or deleted."""
        return sum(counts.total for key, counts in self.types.items() if key.startswith("node:"))

    @property
    def affected_edges(self) -> int:
        """Edges inserted, updated or deleted, including those deleted with their nodes."""
        return sum(counts.total for key, counts in self.types.items() if key.startswith("edge:"))

    def __repr__(self) -> str:
        what = f"{self.affected_nodes} nodes and {self.affected_edges} edges on {self.branch}"
        if self.repeated and self.commit is not None:
            return f"<Receipt: written before on {self.branch}, {self.commit.id}>"
        return f"<Receipt: {what}, {'no commit' if self.commit is None else self.commit.id}>"
