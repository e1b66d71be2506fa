"""The three-way rule, defined once: what becomes of entities that both branches changed.

Where merges crossed, the base is itself merged from commits that may have contradicted each other. What they did not
agree on is a *doubt*: `unsure` says that the entity may or may not have existed, `unknown_N` that its Nth value has no
agreed value. A doubt equals nothing; but what both branches answer alike is settled.

A pure function of Arrow tables: the in-process merge calls it, and tasks on Spark's workers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.changes.equality import aligned, equal_values
from omnigraph.language.arrow import arrow_schema
from omnigraph.language.catalog import EntityType

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Flags = np.ndarray[Any, np.dtype[np.bool_]]

By = Literal["row", "property"]
Strategy = Literal["fail", "ours", "theirs"]
"""Who wins where both branches changed the same thing differently: nobody (a conflict), the target, or the source."""

BranchRole = Literal["ours", "theirs"]
"""As Git says it: the target is ours, the source is theirs."""

OURS, THEIRS, COMBINED, CONFLICT = "ours", "theirs", "combined", "conflict"
"""What becomes of an entity: what one branch has (which may be nothing), a row with values of both, or a question."""


def values_of(entity: EntityType) -> list[tuple[str, ...]]:
    """The columns of each value: one; but the two ends of an edge are one value."""
    ends = [("src", "dst")] if entity.table_key.startswith("edge:") else []
    return [*ends, *((name,) for name in entity.properties)]


@dataclass(frozen=True)
class Rows:
    """Rows of one type, also those that may not have existed; and what is in doubt about them: columns id, unsure and
    unknown_N."""

    values: pa.Table
    doubts: pa.Table

    @classmethod
    def of(cls, values: pa.Table, entity: EntityType) -> Rows:
        """Rows without doubts."""
        return cls(values, doubts_schema(entity).empty_table())

    def only(self, ids: pa.Array) -> Rows:
        return Rows(_having(self.values, ids), _having(self.doubts, ids))

    def replaced(self, ids: pa.Array, by: Rows) -> Rows:
        """The same with other rows of these entities."""
        import pyarrow as pa

        values, doubts = (_having(each, ids, invert=True) for each in (self.values, self.doubts))
        return Rows(pa.concat_tables([values, by.values]), pa.concat_tables([doubts, by.doubts]))


def open_schema(entity: EntityType) -> pa.Schema:
    """Whether a value may be missing is a rule of the data, checked later."""
    import pyarrow as pa

    return pa.schema([pa.field(each.name, each.type) for each in arrow_schema(entity)])


def doubts_schema(entity: EntityType) -> pa.Schema:
    import pyarrow as pa

    flags = ["unsure", *(f"unknown_{place}" for place in range(len(values_of(entity))))]
    return pa.schema([("id", pa.utf8()), *((name, pa.bool_()) for name in flags)])


class _Side:
    """The rows of the entities in question on one side, in the order of `ids`."""

    def __init__(self, entity: EntityType, ids: pa.Array, rows: Rows) -> None:
        self.values = aligned(rows.values, ids)
        self.exists = _flags(self.values.column("id").is_valid())
        doubts = aligned(rows.doubts, ids)
        self.unsure = _flags(doubts.column("unsure"))
        self.unknown = [_flags(doubts.column(f"unknown_{place}")) for place in range(len(values_of(entity)))]


class ThreeWay:
    """Some entities of one type, at the base and on the two branches; or a base and two commits merged with each other."""

    def __init__(self, entity: EntityType, ids: pa.Array, *, base: Rows, theirs: Rows, ours: Rows) -> None:
        self.entity = entity
        self.ids = ids
        self.names = values_of(entity)
        self.places = range(len(self.names))
        self.base, self.theirs, self.ours = (_Side(entity, ids, rows) for rows in (base, theirs, ours))
        self.both = self.theirs.exists & self.ours.exists
        self.had_base = self.base.exists | self.base.unsure

    # ------------------------------------------------------------ single values, where both branches have the entity

    def _equal(self, place: int, one: _Side, other: _Side) -> Flags:
        equal = [equal_values(one.values.column(name), other.values.column(name)) for name in self.names[place]]
        return ~one.unknown[place] & ~other.unknown[place] & _all(equal)

    @cached_property
    def same(self) -> list[Flags]:
        """Of each value: whether the branches have the same."""
        return [self._equal(place, self.ours, self.theirs) for place in self.places]

    @cached_property
    def kept(self) -> dict[BranchRole, list[Flags]]:
        """Whether a branch has the base's."""
        return {
            "ours": [self.had_base & self._equal(place, self.ours, self.base) for place in self.places],
            "theirs": [self.had_base & self._equal(place, self.theirs, self.base) for place in self.places],
        }

    def clash(self, place: int) -> Flags:
        """Changed on both branches, differently."""
        return ~self.same[place] & ~self.kept["ours"][place] & ~self.kept["theirs"][place]

    def from_theirs(self, place: int, strategy: Strategy) -> Flags:
        """Whether a merged row has their value: only theirs was changed, or theirs wins."""
        changed = ~self.same[place] & ~self.kept["theirs"][place]
        return changed if strategy == "theirs" else changed & self.kept["ours"][place]

    # ------------------------------------------------------------ whole entities

    @cached_property
    def is_same(self) -> Flags:
        """Both absent, or both present with equal values."""
        equal = _all([self.theirs.exists == self.ours.exists, *(same | ~self.both for same in self.same)])
        return equal & ~self.theirs.unsure & ~self.ours.unsure

    def is_unchanged(self, role: BranchRole) -> Flags:
        """As it was at the base. If both branches have the entity, it did exist; and what both have was its value."""
        side, kept = (self.ours, self.kept["ours"]) if role == "ours" else (self.theirs, self.kept["theirs"])
        settled = [kept[n] | (self.had_base & self.base.unknown[n] & self.same[n]) for n in self.places]
        present = _all([self.had_base, *settled])
        alone = _all([side.exists == self.base.exists, *(flags | ~self.base.exists for flags in kept)])
        return ~side.unsure & ((self.both & present) | (~self.both & ~self.base.unsure & alone))

    def verdicts(self, by: By, strategy: Strategy) -> np.ndarray[Any, Any]:
        import numpy as np

        decided = [(self.is_same, OURS), (self.is_unchanged("theirs"), OURS), (self.is_unchanged("ours"), THEIRS)]
        if by == "property":
            theirs = [self.from_theirs(place, strategy) for place in self.places]
            ours = [~self.same[place] & ~flags for place, flags in zip(self.places, theirs, strict=True)]
            clashes = _any([self.clash(place) for place in self.places], like=self.both)
            fits = self.both & ~clashes if strategy == "fail" else self.both
            decided += [
                (fits & ~_any(theirs, like=fits), OURS),
                (fits & ~_any(ours, like=fits), THEIRS),
                (fits, COMBINED),
            ]
        conditions, words = zip(*decided, strict=True)
        return np.select(conditions, words, default=CONFLICT if strategy == "fail" else strategy)

    def conflict_kinds(self) -> np.ndarray[Any, Any]:
        """What kind of conflict each would be."""
        import numpy as np

        return np.select([~self.both, self.had_base], ["delete_vs_update", "divergent_update"], "divergent_insert")

    def certain_rows(self, side: Literal["base", "ours", "theirs"], chosen: Flags) -> list[dict[str, Any] | None]:
        """The rows of the chosen entities on one side, without what is in doubt; None where there is none."""
        import pyarrow as pa

        rows: _Side = getattr(self, side)
        exists = (rows.exists & ~rows.unsure)[chosen].tolist()
        unknown = {name: rows.unknown[place][chosen] for place in self.places for name in self.names[place]}
        return [
            {name: value for name, value in row.items() if name not in unknown or not unknown[name][place]}
            if exists[place]
            else None
            for place, row in enumerate(rows.values.filter(pa.array(chosen)).to_pylist())
        ]

    def merged_rows(self, strategy: Strategy) -> pa.Table:
        """For each entity the row with values of both branches, or that of the one branch that has it."""
        import pyarrow as pa

        columns = {"id": pa.chunked_array([self.ids])}
        for place, names in enumerate(self.names):
            theirs = self._takes_theirs(place, strategy)
            for name in names:
                columns[name] = _chosen(theirs, self.theirs.values.column(name), self.ours.values.column(name))
        schema = open_schema(self.entity)
        return pa.table(columns).select(schema.names).cast(schema)

    def _takes_theirs(self, place: int, strategy: Strategy) -> Flags:
        return ~self.ours.exists | (self.theirs.exists & self.from_theirs(place, strategy))

    def merged(self) -> Rows:
        """Two commits merged value by value; what they contradict each other in is in doubt."""
        import numpy as np
        import pyarrow as pa

        is_ours = self.is_same | self.is_unchanged("theirs")
        is_theirs = self.is_unchanged("ours")
        exists = np.select([is_ours, is_theirs], [self.ours.exists, self.theirs.exists], default=True)
        contradiction = self.ours.unsure | self.theirs.unsure | ~self.both
        unsure = np.select([is_ours, is_theirs], [self.ours.unsure, self.theirs.unsure], default=contradiction)
        doubts = [self.ids, pa.array(unsure)]
        for place in self.places:
            theirs = self._takes_theirs(place, "fail")
            unknown = np.where(theirs, self.theirs.unknown[place], self.ours.unknown[place])
            doubts.append(pa.array(unknown | (self.both & self.clash(place))))
        return Rows(
            self.merged_rows("fail").filter(pa.array(exists)), pa.table(doubts, schema=doubts_schema(self.entity))
        )


def _chosen(first: Flags, one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Place by place, of `one` where `first` says so, else of `other`."""
    import numpy as np
    import pyarrow as pa

    places = np.arange(len(first))
    both = pa.chunked_array([*one.chunks, *other.chunks], type=one.type)
    return both.take(pa.array(np.where(first, places, places + len(first))))


def _having(rows: pa.Table, ids: pa.Array, *, invert: bool = False) -> pa.Table:
    import pyarrow.compute as pc

    chosen = pc.is_in(rows.column("id"), value_set=ids)
    return rows.filter(pc.invert(chosen) if invert else chosen)


def _flags(values: pa.ChunkedArray) -> Flags:
    """Null is no."""
    import numpy as np

    return np.array(values.fill_null(False).to_numpy(), dtype=bool)


def _all(conditions: Sequence[Flags]) -> Flags:
    return reduce(lambda one, other: one & other, conditions)


def _any(conditions: Sequence[Flags], *, like: Flags) -> Flags:
    return reduce(lambda one, other: one | other, conditions, like & ~like)
