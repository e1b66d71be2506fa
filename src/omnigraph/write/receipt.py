"""What a write tells its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.history import Commit


@dataclass(frozen=True)
class TypeCounts:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class Receipt:
    """The exact commit a write published (None: it changed nothing, so nothing was published) and what it changed.

    `types` maps table keys ("node:Person") to counts. `affected_nodes` and `affected_edges` count matched entities,
    cascaded edges included.
    """

    branch: str
    commit: Commit | None
    types: Mapping[str, TypeCounts]
    actor: str | None = None

    @property
    def affected_nodes(self) -> int:
        return sum(counts.total for key, counts in self.types.items() if key.startswith("node:"))

    @property
    def affected_edges(self) -> int:
        return sum(counts.total for key, counts in self.types.items() if key.startswith("edge:"))

    def to_json(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "types": {key: counts.__dict__ for key, counts in sorted(self.types.items()) if counts.total},
            "actor_id": self.actor,
        }
