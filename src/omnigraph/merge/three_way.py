"""The three-way rule for entities that both branches changed.

If merges crossed, the base is itself merged from several commits, which may disagree. A disagreement is a *doubt*: `unsure` means that
the entity may or may not have existed, `unknown_N` that its Nth value is not known. A doubtful value equals nothing, but if both
branches have the same value now, the doubt does not matter.

The rule is a pure function of Arrow tables, used by the in-process merge and by tasks on Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.changes.equality import aligned, equal_values
from omnigraph.language.arrow import arrow_schema
from omnigraph.language.catalog import EntityType
from omnigraph.language.schema.merging import Strategy
from omnigraph.merge.conflicts import Sides

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Flags = np.ndarray[Any, np.dtype[np.bool_]]

By = Literal["row", "property"]
BranchRole = Literal["ours", "theirs"]
"""As in Git: the target is ours, the source is theirs."""

OURS, THEIRS, COMBINED, CONFLICT = "ours", "theirs", "combined", "conflict"
"""Verdicts on an entity: the state on one branch (possibly absent), a row with values of both, or a conflict."""


def values_of(entity: EntityType) -> list[tuple[str, ...]]:
    """The columns of each value. The two ends of an edge count as one value."""
    ends = [("src", "dst")] if entity.table_key.startswith("edge:") else []
    return [*ends, *((name,) for name in entity.properties)]


@dataclass(frozen=True)
class BaseRows:
    """Rows at the base, also those that may not have existed; and what is in doubt about them: columns id, unsure and
    unknown_N."""

    values: pa.Table
    doubts: pa.Table

    @classmethod
    def certain(cls, values: pa.Table, entity: EntityType) -> BaseRows:
        """Rows without doubts."""
        return cls(values, doubts_schema(entity).empty_table())


def open_schema(entity: EntityType) -> pa.Schema:
    """Columns without nullability: missing values are checked later, as a rule."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, field.type) for field in arrow_schema(entity)])


def doubts_schema(entity: EntityType) -> pa.Schema:
    import pyarrow as pa

    flags = ["unsure", *(f"unknown_{place}" for place in range(len(values_of(entity))))]
    return pa.schema([("id", pa.utf8()), *((name, pa.bool_()) for name in flags)])


class ThreeWay:
    """Entities of one type at the base and on the two branches."""

    def __init__(self, entity: EntityType, ids: pa.Array, *, base: BaseRows, theirs: pa.Table, ours: pa.Table) -> None:
        self.entity = entity
        self.ids = ids
        self.names = values_of(entity)
        self.places = range(len(self.names))
        self.base, self.theirs, self.ours = (aligned(rows, ids) for rows in (base.values, theirs, ours))
        self.in_base, self.in_theirs, self.in_ours = (
            _flags(rows.column("id").is_valid()) for rows in (self.base, self.theirs, self.ours)
        )
        doubts = aligned(base.doubts, ids)
        self.unsure = _flags(doubts.column("unsure"))
        self.unknown = [_flags(doubts.column(f"unknown_{place}")) for place in self.places]
        self.both = self.in_theirs & self.in_ours
        self.had_base = self.in_base | self.unsure

    # ------------------------------------------------------------ single values, where both branches have the entity

    def _equal(self, place: int, left: pa.Table, right: pa.Table) -> Flags:
        return _all([equal_values(left.column(name), right.column(name)) for name in self.names[place]])

    @cached_property
    def same(self) -> list[Flags]:
        """For each value, whether the branches agree."""
        return [self._equal(place, self.ours, self.theirs) for place in self.places]

    @cached_property
    def kept(self) -> dict[BranchRole, list[Flags]]:
        """For each value, whether a branch still has the base's."""
        known = [self.had_base & ~unknown for unknown in self.unknown]
        return {
            "ours": [known[place] & self._equal(place, self.ours, self.base) for place in self.places],
            "theirs": [known[place] & self._equal(place, self.theirs, self.base) for place in self.places],
        }

    def clash(self, place: int) -> Flags:
        """Whether both branches changed a value, differently."""
        return ~self.same[place] & ~self.kept["ours"][place] & ~self.kept["theirs"][place]

    def from_theirs(self, place: int, strategy: Strategy) -> Flags:
        """Whether a merged row has their value: only theirs was changed, or theirs wins."""
        changed = ~self.same[place] & ~self.kept["theirs"][place]
        return changed if strategy == "theirs" else changed & self.kept["ours"][place]

    # ------------------------------------------------------------ whole entities

    @cached_property
    def is_same(self) -> Flags:
        """Both absent, or both present with equal values."""
        return _all([self.in_theirs == self.in_ours, *(same | ~self.both for same in self.same)])

    def is_unchanged(self, role: BranchRole) -> Flags:
        """As it was at the base. If both branches have the entity, it did exist; and what both have was its value."""
        exists, kept = (self.in_ours if role == "ours" else self.in_theirs), self.kept[role]
        settled = [kept[place] | (self.unknown[place] & self.same[place]) for place in self.places]
        on_both = _all([self.both, self.had_base, *settled])
        alone = _all([~self.both, ~self.unsure, exists == self.in_base, *(flags | ~self.in_base for flags in kept)])
        return on_both | alone

    def verdicts(self, by: By, strategy: Strategy) -> np.ndarray[Any, Any]:
        import numpy as np

        decided = [(self.is_same, OURS), (self.is_unchanged("theirs"), OURS), (self.is_unchanged("ours"), THEIRS)]
        if by == "property":
            theirs = [self.from_theirs(place, strategy) for place in self.places]
            ours = [~self.same[place] & ~flags for place, flags in zip(self.places, theirs, strict=True)]
            clashes = _any([self.clash(place) for place in self.places], shape=self.both)
            fits = self.both & ~clashes if strategy == "fail" else self.both
            decided += [
                (fits & ~_any(theirs, shape=fits), OURS),
                (fits & ~_any(ours, shape=fits), THEIRS),
                (fits, COMBINED),
            ]
        conditions, words = zip(*decided, strict=True)
        return np.select(conditions, words, default=CONFLICT if strategy == "fail" else strategy)

    def conflict_kinds(self) -> np.ndarray[Any, Any]:
        """The kind of conflict for each entity."""
        import numpy as np

        return np.select([~self.both, self.had_base], ["delete_vs_update", "divergent_update"], "divergent_insert")

    def sides_of(self, chosen: Flags) -> Iterator[Sides]:
        """The rows of the chosen entities on each side, without doubtful values."""
        import pyarrow as pa

        unknown = {name: self.unknown[place][chosen] for place in self.places for name in self.names[place]}
        certain = (self.in_base & ~self.unsure)[chosen].tolist()
        base, ours, theirs = (rows.filter(pa.array(chosen)).to_pylist() for rows in (self.base, self.ours, self.theirs))
        for place, row in enumerate(base):
            known = {name: value for name, value in row.items() if name not in unknown or not unknown[name][place]}
            yield Sides(known if certain[place] else None, _present(ours[place]), _present(theirs[place]))

    def merged_rows(self, strategy: Strategy) -> pa.Table:
        """For each entity that exists on both branches, the row that combines their values."""
        import pyarrow as pa

        columns = {"id": pa.chunked_array([self.ids])}
        for place, names in enumerate(self.names):
            theirs = self.from_theirs(place, strategy)
            for name in names:
                columns[name] = _chosen(theirs, self.theirs.column(name), self.ours.column(name))
        schema = open_schema(self.entity)
        return pa.table(columns).select(schema.names).cast(schema)


def _present(row: dict[str, Any]) -> dict[str, Any] | None:
    return None if row["id"] is None else row


def _chosen(first: Flags, left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Element by element, `left` where `first` is true, otherwise `right`."""
    import numpy as np
    import pyarrow as pa

    places = np.arange(len(first))
    both = pa.chunked_array([*left.chunks, *right.chunks], type=left.type)
    return both.take(pa.array(np.where(first, places, places + len(first))))


def _flags(values: pa.ChunkedArray) -> Flags:
    """Null counts as false."""
    import numpy as np

    return np.array(values.fill_null(False).to_numpy(), dtype=bool)


def _all(conditions: Sequence[Flags]) -> Flags:
    return reduce(lambda left, right: left & right, conditions)


def _any(conditions: Sequence[Flags], *, shape: Flags) -> Flags:
    return reduce(lambda left, right: left | right, conditions, shape & ~shape)
