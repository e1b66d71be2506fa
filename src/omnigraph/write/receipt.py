"""What a write returns to its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.history.values import Commit


@dataclass(frozen=True)
class TypeCounts:
    """How many entities of one type a write changed.

    >>> assert receipt.types["node:City"] == og.types.TypeCounts(inserted=1)
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    replaced: int = 0
    """By an upsert, or by an `insert` of a type with a key in a mutation: the entity existed, and has only the new values now."""

    @property
    def total(self) -> int:
        """Inserted, replaced, updated and deleted together."""
        return self.inserted + self.replaced + self.updated + self.deleted


@dataclass(frozen=True)
class Receipt:
    """The exact commit that a write published (None if it changed nothing) and what it changed.

    `types` maps table keys ("node:Person") to counts. `affected_nodes` and `affected_edges` count matched entities,
    cascaded edges included.

    >>> receipt = g.mutate('query q() { insert City { name: "Rome" } }', actor="ada")
    >>> assert (receipt.commit, receipt.actor, receipt.query_name) == (g.head(), "ada", "q")
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
        """Nodes inserted, replaced, updated or deleted."""
        return sum(counts.total for key, counts in self.types.items() if key.startswith("node:"))

    @property
    def affected_edges(self) -> int:
        """Edges inserted, replaced, updated or deleted, including those deleted with their nodes."""
        return sum(counts.total for key, counts in self.types.items() if key.startswith("edge:"))

    @property
    def total(self) -> TypeCounts:
        """The counts of all types together."""
        counts = self.types.values()
        return TypeCounts(
            sum(count.inserted for count in counts),
            sum(count.updated for count in counts),
            sum(count.deleted for count in counts),
            sum(count.replaced for count in counts),
        )

    def __repr__(self) -> str:
        what = f"{self.affected_nodes} nodes and {self.affected_edges} edges on {self.branch}"
        if self.repeated and self.commit is not None:
            return f"<Receipt: written before on {self.branch}, {self.commit.id}>"
        return f"<Receipt: {what}, {'no commit' if self.commit is None else self.commit.id}>"
