"""The new rows of one load, written as fragments and not yet part of any table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.history import ChangeMode, PublishPlan, TableChange
from omnigraph.language.catalog import EntityType
from omnigraph.pipeline.choices import LoadMode
from omnigraph.pipeline.target import TableVersion
from omnigraph.records.typed import WHOLE, RecordForm
from omnigraph.rules import Change
from omnigraph.tables import Layout, Staged
from omnigraph.views import View

CHANGE_MODES: dict[LoadMode, ChangeMode] = {
    "append": "insert",
    "merge": "upsert",
    "patch": "upsert",
    "delete": "upsert",
    "overwrite": "strict",
}
FORMS: dict[LoadMode, RecordForm] = {
    "append": WHOLE,
    "merge": RecordForm("whole", has_flag=True),
    "patch": RecordForm("partial", has_flag=True),
    "delete": RecordForm("name"),
    "overwrite": WHOLE,
}
REPLACING: tuple[LoadMode, ...] = ("merge", "patch")
"""Modes in which a row takes the place of the one with its id."""


@dataclass(frozen=True)
class Incoming:
    """The new rows of one table. `place` is a version that holds exactly these rows. `ids_may_clash`: as in TypeReport. `removed`:
    how many rows of the branch may go without one in their place; `absent`: how many more were to go, and the branch has none of
    their ids."""

    key: str
    rows: int
    ids_may_clash: bool
    fragments: tuple[str, ...]
    place: TableVersion
    removed: int = 0
    absent: int = 0

    def may_clash(self, entity: EntityType) -> bool:
        """Whether an id can be that of another row: it was given, or made from a key. Fresh ids are checked only if they are in no
        order."""
        return self.ids_may_clash or bool(entity.key)

    def change(self, mode: LoadMode) -> Change:
        """What the load does to the type, for the rules."""
        has_rows = self.rows > 0
        return Change(
            inserts=has_rows and mode == "append",
            replaces=has_rows and mode != "append",
            deletes=mode == "overwrite" or self.removed > 0,
        )

    def to_json(self, mode: LoadMode) -> dict[str, Any]:
        """`mode` and `removed` are only there where the change depends on rows of the branch as they were."""
        value = {
            "rows": self.rows,
            "has_explicit_ids": self.ids_may_clash,
            "fragments": list(self.fragments),
            "path": self.place.path,
            "version": self.place.version,
        }
        return {**value, "mode": mode, "removed": self.removed} if mode == "patch" or self.removed else value

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any], layout: Layout) -> Incoming:
        place = TableVersion(value["path"], value["version"], layout)
        fragments = tuple(value["fragments"])
        return cls(key, value["rows"], value["has_explicit_ids"], fragments, place, value.get("removed", 0))


def stage_incoming(
    view: View, key: str, rows: int, ids_may_clash: bool, fragments: tuple[str, ...]
) -> tuple[Incoming, Staged]:
    staged = view.repository.tables.stage(view.table_or_new(key), fragments=fragments, clear=True, fold=False)
    place = TableVersion(staged.path, staged.version, view.layout(key))
    return Incoming(key, rows, ids_may_clash, fragments, place), staged


def mode_of(plan: PublishPlan) -> LoadMode:
    """The mode a stored plan was made with."""
    for change in plan.changes:
        if "mode" in change.staged:
            mode: LoadMode = change.staged["mode"]
            return mode
    change_mode: ChangeMode = plan.changes[0].mode
    return next(mode for mode, change in CHANGE_MODES.items() if change == change_mode)


def depends_on_rows(change: TableChange) -> bool:
    """Whether a change was made from rows of the branch as they were: parts of rows were completed with them, or it removes
    them."""
    return "mode" in change.staged


def as_stored(plan: PublishPlan) -> PublishPlan:
    """The plan for another process, which does not know what a change that depends on rows was made from: there it holds for
    the exact state of its table."""
    changes = [replace(change, mode="strict") if depends_on_rows(change) else change for change in plan.changes]
    return replace(plan, changes=tuple(changes))
