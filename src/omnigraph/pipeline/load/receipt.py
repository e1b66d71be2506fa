"""What a load tells its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.history import Commit


@dataclass(frozen=True)
class LoadReceipt:
    """`loaded` maps table keys to rows. `commit` is the one this load published (None: there was nothing to load)."""

    branch: str
    mode: str
    loaded: Mapping[str, int]
    commit: Commit | None
    actor: str | None = None
    rejected: int = 0
    base_branch: str | None = None
    branch_created: bool = False

    @property
    def total_entities(self) -> int:
        return sum(self.loaded.values())

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "branch": self.branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "nodes": self._of_kind("node:"),
            "edges": self._of_kind("edge:"),
            "total_entities": self.total_entities,
        }
        if self.base_branch is not None:
            value["base_branch"] = self.base_branch
        if self.actor is not None:
            value["actor_id"] = self.actor
        if self.commit is not None:
            value["commit"] = self.commit.id
        if self.rejected:
            value["rejected"] = self.rejected
        return value

    def _of_kind(self, prefix: str) -> list[dict[str, Any]]:
        return [
            {"name": key.removeprefix(prefix), "entities_loaded": rows}
            for key, rows in sorted(self.loaded.items())
            if key.startswith(prefix)
        ]
