"""What a write changes in one table, against whatever version it stands on: new rows and removed ids, no addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.history import ChangeMode
from omnigraph.language.catalog import EntityType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Delta:
    """New rows replace rows of the same id. `fresh`: ids made here, which cannot exist. `strict`: ids that must not.

    `removed` maps the ids of rows deleted outright to their source node (edges) or None (nodes). `replaced` are rows of the
    branch that were read and that `rows` replace.
    """

    entity: EntityType
    rows: pa.Table
    mode: ChangeMode
    fresh: frozenset[str] = frozenset()
    strict: frozenset[str] = frozenset()
    removed: Mapping[str, str | None] = field(default_factory=dict)
    replaced: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.entity.table_key

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.rows.column("id").to_pylist())

    @cached_property
    def superseded(self) -> frozenset[str]:
        """Ids whose committed row, if any, is gone after this write."""
        return frozenset(self.ids) | frozenset(self.removed)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Properties that this write gives values to: other ones than the rows it replaces had, as far as it has read them."""
        return frozenset(
            name
            for name in self.entity.properties
            if any(
                value is not None and self.replaced.get(id, {}).get(name) != value
                for id, value in zip(self.ids, self.rows.column(name).to_pylist(), strict=True)
            )
        )

    @property
    def is_empty(self) -> bool:
        return not (self.rows.num_rows or self.removed)
