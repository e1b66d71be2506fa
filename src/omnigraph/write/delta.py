"""The change of one table, independent of the version it is applied to: new rows and removed ids, no addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.cached import cached_property
from omnigraph.history import ChangeMode
from omnigraph.language.catalog import EntityType
from omnigraph.rules import Change
from omnigraph.values.inline_rows import value_size

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]


class NewRows:
    """Rows of one type by column, as values and as Arrow: each is converted to the other on demand. Few rows are hardly ever
    needed as Arrow, nor many as values."""

    def __init__(self, schema: pa.Schema, values: Sequence[Row] | None = None, table: pa.Table | None = None) -> None:
        assert values is not None or table is not None, "rows are given in one way or the other"
        self.schema = schema
        self._values = values
        self._table = table

    @classmethod
    def of_table(cls, table: pa.Table) -> NewRows:
        return cls(table.schema, table=table)

    def __len__(self) -> int:
        return int(self.table.num_rows) if self._values is None else len(self._values)

    @property
    def values(self) -> Sequence[Row]:
        if self._values is None:
            self._values = self.table.to_pylist()
        return self._values

    @property
    def table(self) -> pa.Table:
        import pyarrow as pa

        if self._table is None:
            # Nullable here: the rules find missing required values, with a better message than Arrow's.
            schema = pa.schema([field.with_nullable(True) for field in self.schema])
            columns = [pa.array(self.column(field.name), field.type) for field in schema]
            self._table = pa.Table.from_arrays(columns, schema=schema)
        return self._table

    @cached_property
    def size(self) -> int:
        """Their approximate size in bytes."""
        if self._values is None:
            return int(self.table.nbytes)
        return sum([sum(map(value_size, row.values())) for row in self._values])

    def column(self, name: str) -> list[Any]:
        if self._values is None:
            values: list[Any] = self.table.column(name).to_pylist()
            return values
        return [row.get(name) for row in self._values]


@dataclass(frozen=True)
class Delta:
    """New rows replace rows of the same id. `fresh` are ids generated here, which cannot exist; `strict` are ids that must not
    exist.

    `removed` maps the ids of rows deleted outright to their source node (edges) or None (nodes). `replaced` are rows of the
    branch that were read and are replaced by new rows.
    """

    entity: EntityType
    new: NewRows
    mode: ChangeMode
    fresh: frozenset[str] = frozenset()
    strict: frozenset[str] = frozenset()
    removed: Mapping[str, str | None] = field(default_factory=dict)
    replaced: Mapping[str, Row] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        return self.entity.table_key

    @property
    def rows(self) -> pa.Table:
        """The new rows as Arrow."""
        return self.new.table

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.new.column("id"))

    @cached_property
    def superseded(self) -> frozenset[str]:
        """Ids whose committed row, if any, is replaced or removed by this write."""
        return frozenset(self.ids).union(self.removed)

    @cached_property
    def change(self) -> Change:
        """The kind of the change, which decides what has to be checked."""
        ids = self.fresh | self.strict
        return Change(bool(ids), not ids.issuperset(self.ids), bool(self.removed))

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Properties that this write sets: those whose values differ from the rows it replaces, as far as it has read them."""
        return frozenset(
            name
            for name in self.entity.properties
            if any(
                value is not None and self.replaced.get(id, {}).get(name) != value
                for id, value in zip(self.ids, self.new.column(name), strict=True)
            )
        )

    @property
    def is_empty(self) -> bool:
        return not (len(self.new) or self.removed)

    @classmethod
    def joined(cls, deltas: Iterable[Delta]) -> Delta:
        """Several changes of one table that only add rows, as one change."""
        members = list(deltas)
        return cls(
            members[0].entity,
            NewRows(members[0].new.schema, [row for delta in members for row in delta.new.values]),
            members[0].mode,
            frozenset().union(*(delta.fresh for delta in members)),
            frozenset().union(*(delta.strict for delta in members)),
        )
