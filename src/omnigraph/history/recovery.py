"""Prepared plans of long writes: kept from the end of staging to the publish, so that a crash in between costs seconds.

Opening a graph never looks at them. Publishing a plan twice is harmless: its commit id is looked up in the chain first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import NotFound, ObjectMissing
from omnigraph.failpoints import Failpoint, reach
from omnigraph.features import BASE, WRITE_KEYS
from omnigraph.history.envelope import read_as, seal, unseal
from omnigraph.history.plan import PublishPlan
from omnigraph.storage import Store


@dataclass(frozen=True)
class Prepared:
    """A stored plan and the receipt its writer would have given."""

    plan: PublishPlan
    prepared_at: int
    receipt: Mapping[str, Any]

    @property
    def commit_id(self) -> str:
        return self.plan.commit_id


class Recovery:
    def __init__(self, store: Store) -> None:
        self.store = store

    def keep(self, prepared: Prepared) -> None:
        value = {
            **({} if prepared.plan.once is None else {"features": [BASE, WRITE_KEYS]}),
            "plan": prepared.plan.to_json(),
            "prepared_at": prepared.prepared_at,
            "receipt": dict(prepared.receipt),
        }
        self.store.put(_key(prepared.commit_id), seal(value))
        reach(Failpoint.RECOVERY_PLAN_WRITTEN)

    def remove(self, commit_id: str) -> None:
        reach(Failpoint.RECOVERY_BEFORE_REMOVE)
        self.store.delete(_key(commit_id))

    def get(self, commit_id: str) -> Prepared:
        key = _key(commit_id)
        try:
            data = self.store.get(key)
        except ObjectMissing:
            raise NotFound(
                f"there is no prepared write {commit_id}", hint="`omnigraph recovery list` shows those there are"
            ) from None
        affected = f"the prepared write cannot be resumed: 'omnigraph recovery discard {commit_id}', and write again"
        value = unseal(key, data, affected)
        return read_as(
            key,
            lambda: Prepared(PublishPlan.from_json(value["plan"]), value["prepared_at"], value["receipt"]),
            affected,
        )

    def list(self) -> list[Prepared]:
        """Oldest first."""
        found = []
        for info in self.store.list("recovery"):
            # Somebody else may publish and remove one of them meanwhile.
            with contextlib.suppress(NotFound):
                found.append(self.get(info.key.rsplit("/", 1)[1].removesuffix(".json")))
        return sorted(found, key=lambda prepared: (prepared.prepared_at, prepared.commit_id))


def _key(commit_id: str) -> str:
    return f"recovery/{commit_id}.json"
