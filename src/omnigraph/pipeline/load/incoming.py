"""The new rows of one load, written as fragments and not yet part of any table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.history import ChangeMode, PublishPlan
from omnigraph.language.catalog import EntityType, NodeType
from omnigraph.pipeline.choices import LoadMode
from omnigraph.pipeline.target import TableVersion
from omnigraph.rules import Change
from omnigraph.tables import Layout, Staged
from omnigraph.views import View

CHANGE_MODES: dict[LoadMode, ChangeMode] = {"append": "insert", "merge": "upsert", "overwrite": "strict"}


@dataclass(frozen=True)
class Incoming:
    """The new rows of one table. `place` is a version that holds exactly these rows."""

    key: str
    rows: int
    has_explicit_ids: bool
    fragments: tuple[str, ...]
    place: TableVersion

    def may_clash(self, entity: EntityType) -> bool:
        """Whether an id can be one that was there before: it was given, or made from a key. Fresh ids cannot."""
        return self.has_explicit_ids or (isinstance(entity, NodeType) and bool(entity.key))

    def change(self, mode: LoadMode) -> Change:
        """What the load does to the type, for the rules."""
        has_rows = self.rows > 0
        return Change(
            inserts=has_rows and mode == "append",
            replaces=has_rows and mode != "append",
            deletes=mode == "overwrite",
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "has_explicit_ids": self.has_explicit_ids,
            "fragments": list(self.fragments),
            "path": self.place.path,
            "version": self.place.version,
        }

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any], layout: Layout) -> Incoming:
        place = TableVersion(value["path"], value["version"], layout)
        return cls(key, value["rows"], value["has_explicit_ids"], tuple(value["fragments"]), place)


def stage_incoming(
    view: View, key: str, rows: int, has_explicit_ids: bool, fragments: tuple[str, ...]
) -> tuple[Incoming, Staged]:
    staged = view.repository.tables.stage(view.table_or_new(key), fragments=fragments, clear=True, fold=False)
    place = TableVersion(staged.path, staged.version, view.layout(key))
    return Incoming(key, rows, has_explicit_ids, fragments, place), staged


def mode_of(plan: PublishPlan) -> LoadMode:
    """The mode a stored plan was made with."""
    change_mode: ChangeMode = plan.changes[0].mode
    return next(mode for mode, change in CHANGE_MODES.items() if change == change_mode)
