"""Cleanup of a graph's chains alone: its tables are names, or are left as they are."""

from __future__ import annotations

import time
from dataclasses import dataclass

from omnigraph.history.history import History
from omnigraph.history.retention import GRACE_S
from omnigraph.history.values import TableState
from omnigraph.indexing.kinds import Kind
from omnigraph.maintenance.cleanup import Cleaner, Totals
from omnigraph.maintenance.reachable import RetentionPolicy
from omnigraph.storage.store import Store
from omnigraph.tables.verifying import TableFiles

LATER_S = 10 * GRACE_S


@dataclass(frozen=True)
class Here:
    store: Store


class NoTables:
    has_files = False

    def files_of(self, state: TableState) -> TableFiles:
        return TableFiles(f"{state.path}/{state.version}", {}, frozenset(), {})

    def table_paths(self, schema: str) -> set[str]:
        return set()


def cleaner_of(history: History) -> Cleaner:
    return Cleaner(history, Here(history.store), NoTables(), threads=1)


def sweep(history: History, branch: str, *, keep: int = 1, later_s: float = LATER_S) -> int:
    """Clean up one branch as it will be done some hours from now; how many of its entries went."""
    return sweep_all(history, keep=keep, branches=frozenset({branch}), later_s=later_s)["commits"].files


def sweep_all(
    history: History, *, keep: int = 1, branches: frozenset[str] | None = None, later_s: float = LATER_S
) -> dict[Kind, Totals]:
    history.retention.store_now = lambda: time.time() + later_s  # type: ignore[method-assign]  # the store's clock
    cleaner = cleaner_of(history)
    return cleaner.sweep(cleaner.survey(RetentionPolicy(keep=keep, branches=branches)))
