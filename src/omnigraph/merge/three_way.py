"""The three-way rule for entities that both branches changed.

If merges crossed, the base is itself merged from several commits, which may disagree. A disagreement is a *doubt*: `unsure` means that
the entity may or may not have existed, `unknown_N` that its Nth value is not known. A doubtful value equals nothing, but if both
branches have the same value now, the doubt does not matter.

The rule is a pure function of Arrow tables, used by the in-process merge and by tasks on Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.changes.table_diff import aligned, equal_values
from omnigraph.errors import MergeConflicts
from omnigraph.history.values import Commit
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import arrow_schema
from omnigraph.language.schema.merging import SchemaConflict, Strategy
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.merge.conflicts import ConflictKind, MergeConflict, Sides, changed_by_one

if TYPE_CHECKING:
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
    return pa.schema([pa.field(field.name, field.type) for field in arrow_schema(entity)])


def doubts_schema(entity: EntityType) -> pa.Schema:
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
        return np.select([~self.both, self.had_base], ["delete_vs_update", "divergent_update"], "divergent_insert")

    def sides_of(self, chosen: Flags) -> Iterator[Sides]:
        """The rows of the chosen entities on each side, without doubtful values."""
        unknown = {name: self.unknown[place][chosen] for place in self.places for name in self.names[place]}
        certain = (self.in_base & ~self.unsure)[chosen].tolist()
        base, ours, theirs = (rows.filter(pa.array(chosen)).to_pylist() for rows in (self.base, self.ours, self.theirs))
        for place, row in enumerate(base):
            known = {name: value for name, value in row.items() if name not in unknown or not unknown[name][place]}
            yield Sides(known if certain[place] else None, _present(ours[place]), _present(theirs[place]))

    def merged_rows(self, strategy: Strategy) -> pa.Table:
        """For each entity that exists on both branches, the row that combines their values."""
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
    places = np.arange(len(first))
    both = pa.chunked_array([*left.chunks, *right.chunks], type=left.type)
    return both.take(pa.array(np.where(first, places, places + len(first))))


def _flags(values: pa.ChunkedArray) -> Flags:
    """Null counts as false."""
    return np.array(values.fill_null(False).to_numpy(), dtype=bool)


def _all(conditions: Sequence[Flags]) -> Flags:
    return reduce(lambda left, right: left & right, conditions)


def _any(conditions: Sequence[Flags], *, shape: Flags) -> Flags:
    return reduce(lambda left, right: left | right, conditions, shape & ~shape)


# The result of a merge, and the errors and hints for its conflicts.

Outcome = Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]

MAX_CONFLICTS_NAMED = 3

REMEDIES: dict[ConflictKind, str] = {
    "orphan_edge": "delete the edge or put its node back",
    "unique_violation": "give one of the two another value",
    "cardinality_violation": "add or delete edges",
    "value_constraint_violation": "change the value",
}
"""How to fix a rule that the merged graph breaks."""


@dataclass(frozen=True)
class TypeSummary:
    """How one type got its new state: `pointer` (the source's table as it is; rows not counted) or by `rows`.

    >>> assert tried.types["node:Person"].way == "pointer"
    """

    way: Literal["pointer", "rows"]
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


@dataclass(frozen=True)
class MergeResult:
    """What came of a merge. `commit` is the merge commit; None when nothing was published. A dry run has the outcome that a merge would have;
    "conflicts" is an outcome of dry runs only, and `hint` says what can be done about them.

    >>> g.branches.create("spring")
    >>> g.mutate(Path("people.gq"), {"name": "Cy", "age": 1}, name="grow", branch="spring")
    >>> tried = g.branches.merge("spring", dry_run=True)
    >>> assert (tried.outcome, tried.commit) == ("fast_forward", None)
    """

    source: str
    target: str
    outcome: Outcome
    commit: Commit | None
    bases: tuple[str, ...]
    types: Mapping[str, TypeSummary] = field(default_factory=dict)
    conflicts: tuple[MergeConflict, ...] = ()
    dry_run: bool = False
    hint: str | None = None
    source_commit: str = ""
    target_commit: str = ""
    """The ids of the heads that were merged: `expect=(source_commit, target_commit)` merges these and no others."""
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None
    schema_conflicts: tuple[SchemaConflict, ...] = ()
    """Then no entity was looked at."""
    schema_steps: tuple[MigrationStep, ...] = ()
    """What the merge changes in the target's schema."""

    def __repr__(self) -> str:
        return f"<MergeResult of {self.source} into {self.target}: {self.outcome}{', dry run' * self.dry_run}>"


def conflict_error(source: str, target: str, conflicts: Sequence[MergeConflict], by: By) -> MergeConflicts:
    named = [
        f"{conflict.entity_kind} type '{conflict.type_name}', entity id '{conflict.entity_id}' ({conflict.kind})"
        for conflict in conflicts[:MAX_CONFLICTS_NAMED]
    ]
    more = f"; and {len(conflicts) - len(named)} more" if len(conflicts) > len(named) else ""
    return MergeConflicts(
        f"merge conflicts: {'; '.join(named)}{more}",
        conflicts=conflicts,
        hint=f"nothing was published: {conflict_hint(source, target, conflicts, by)}",
    )


def schema_conflict_error(source: str, target: str, conflicts: Sequence[SchemaConflict], remedy: str) -> MergeConflicts:
    named = [f"{conflict.entity} ({conflict.kind}): {conflict.message}" for conflict in conflicts[:MAX_CONFLICTS_NAMED]]
    more = f"; and {len(conflicts) - len(named)} more" if len(conflicts) > len(named) else ""
    return MergeConflicts(
        f"the schemas of '{source}' and '{target}' contradict each other: {'; '.join(named)}{more}",
        conflicts=(),
        schema_conflicts=conflicts,
        hint=f"nothing was published: {schema_conflict_hint(source, target, conflicts, remedy)}",
    )


def schema_conflict_hint(source: str, target: str, conflicts: Sequence[SchemaConflict], remedy: str) -> str:
    """How to resolve them: a strategy if it settles all of them; `remedy` always works."""
    ways = []
    if all(conflict.is_settled_by_strategy for conflict in conflicts):
        ways.append(f"--strategy ours keeps what '{target}' declares, --strategy theirs takes what '{source}' declares")
    return "; ".join([*ways, remedy])


def conflict_hint(source: str, target: str, conflicts: Sequence[MergeConflict], by: By) -> str:
    """How to resolve them: only options that settle conflicts of these kinds, and what they would lose."""
    divergent = [conflict for conflict in conflicts if conflict.is_divergence]
    broken = sorted({conflict.kind for conflict in conflicts if not conflict.is_divergence})
    ways = []
    if by == "row" and divergent and all(map(_is_settled_by_property, divergent)):
        ways.append("--by property takes the changes of both branches")
    elif any(conflict.discarded_by("ours") or conflict.discarded_by("theirs") for conflict in divergent):
        ways.append("--by property keeps what only one branch changed, also with a strategy")
    if divergent:
        ours, theirs = _discarded(divergent, "ours", source), _discarded(divergent, "theirs", target)
        ways.append(
            f"--interactive decides one by one; --strategy ours keeps what '{target}' has{ours}, "
            f"--strategy theirs takes what '{source}' has{theirs}"
        )
    ways += [f"{kind}: {REMEDIES[kind]} on one of the branches and merge again" for kind in broken]
    if broken:
        ways.append("no strategy settles a broken rule")
    else:
        ways.append("or change one of the branches and merge again")
    return "; ".join(ways)


def _discarded(conflicts: Sequence[MergeConflict], strategy: Literal["ours", "theirs"], loser: str) -> str:
    """What a strategy would lose of the changes that only the other branch made."""
    lost = [
        f"{conflict.type_name} '{conflict.entity_id}' {name}"
        for conflict in conflicts
        for name in conflict.discarded_by(strategy)
    ]
    named = ", ".join(lost[:MAX_CONFLICTS_NAMED])
    more = f" and {len(lost) - MAX_CONFLICTS_NAMED} more" if len(lost) > MAX_CONFLICTS_NAMED else ""
    return f" and discards what only '{loser}' changed ({named}{more})" if lost else ""


def _is_settled_by_property(conflict: MergeConflict) -> bool:
    """Whether the branches changed different properties."""
    return conflict.kind == "divergent_update" and len(changed_by_one(conflict.properties)) == len(conflict.properties)
