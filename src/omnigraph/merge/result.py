"""The result of a merge, and the errors and hints for its conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.errors import MergeConflicts
from omnigraph.history import Commit
from omnigraph.language.schema.merging import SchemaConflict
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.merge.conflicts import ConflictKind, MergeConflict, changed_by_one
from omnigraph.merge.three_way import By

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
    >>> g.mutate("people.gq", {"name": "Cy", "age": 1}, name="grow", branch="spring")
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
