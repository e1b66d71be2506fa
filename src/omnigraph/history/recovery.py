"""Prepared plans of long writes: kept from the end of staging to the publish, so that a crash in between costs seconds.

Opening a graph does not look for them. Publishing a plan twice is harmless: its commit id is looked up in the chain first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import NotFound, ObjectMissing, OmnigraphError, StorageError
from omnigraph.failpoints import Failpoint, reach
from omnigraph.features import INLINE_ROWS, PROVISIONAL_PLANS, WRITE_KEYS
from omnigraph.history.envelope import read_as, seal, unseal
from omnigraph.history.plan import PublishPlan
from omnigraph.storage import Store


@dataclass(frozen=True)
class PreparedPlan:
    """A stored plan, and the receipt that its writer would have returned."""

    plan: PublishPlan
    prepared_at: int
    receipt: Mapping[str, Any]
    provisional: bool = False
    """Whether its writer has not checked yet that the files it names exist."""

    @property
    def commit_id(self) -> str:
        return self.plan.commit_id


class Recovery:
    def __init__(self, store: Store) -> None:
        self.store = store

    def keep(self, prepared: PreparedPlan, check: Callable[[], None]) -> None:
        """Store a plan, which from then on protects what it names from cleanup. Then `check` is called, which raises if a cleanup
        may have removed something before. Until it is checked, the plan is provisional and is not published by others."""
        key = recovery_key(prepared.commit_id)
        value = {
            "plan": prepared.plan.to_json(),
            "prepared_at": prepared.prepared_at,
            "receipt": dict(prepared.receipt),
        }
        features = [
            *([] if prepared.plan.once is None else [WRITE_KEYS]),
            *([INLINE_ROWS] if prepared.plan.has_inline_rows else []),
        ]
        self.store.put(key, seal({**value, "provisional": True}, (*features, PROVISIONAL_PLANS)))
        reach(Failpoint.RECOVERY_PLAN_PROVISIONAL)
        try:
            check()
        except OmnigraphError:
            with contextlib.suppress(StorageError):
                self.store.delete(key)
            raise
        self.store.put(key, seal(value, features))
        reach(Failpoint.RECOVERY_PLAN_WRITTEN)

    def remove(self, commit_id: str) -> None:
        reach(Failpoint.RECOVERY_BEFORE_REMOVE)
        self.store.delete(recovery_key(commit_id))

    def get(self, commit_id: str) -> PreparedPlan:
        try:
            return self.read(recovery_key(commit_id))
        except ObjectMissing:
            raise NotFound(
                f"there is no prepared write {commit_id}", hint="`omnigraph recovery list` shows all of them"
            ) from None

    def read(self, key: str) -> PreparedPlan:
        """The prepared write stored under a key; ObjectMissing if there is none."""
        data = self.store.get(key)
        commit_id = key.rsplit("/", 1)[1].removesuffix(".json")
        affected = f"the prepared write cannot be resumed: 'omnigraph recovery discard {commit_id}', and write again"
        value = unseal(key, data, affected)
        return read_as(
            key,
            lambda: PreparedPlan(
                PublishPlan.from_json(value["plan"]),
                value["prepared_at"],
                value["receipt"],
                value.get("provisional", False),
            ),
            affected,
        )

    def list(self) -> list[PreparedPlan]:
        """The prepared writes, oldest first."""
        plans = []
        for info in self.store.list("recovery"):
            # Another process may publish and remove one of them meanwhile.
            with contextlib.suppress(NotFound):
                plans.append(self.get(info.key.rsplit("/", 1)[1].removesuffix(".json")))
        return sorted(plans, key=lambda prepared: (prepared.prepared_at, prepared.commit_id))


def recovery_key(commit_id: str) -> str:
    return f"recovery/{commit_id}.json"
