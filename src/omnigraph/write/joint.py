"""Stages members of a group together: they are checked together, and each table gets a run of versions, one for each member.

Each commit stays readable by itself, so each has its own version of every table it changed; but all are made together on the same
base. This is done for members that only add rows. If all their rows together obey every rule, so does each member on top of those
before it: no rule that more rows could satisfy is involved, no two members write the same entity, and none relies on a node that
another one writes. If the check fails, nothing is staged here, and each member is checked by itself to find the one at fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from omnigraph.errors import OmnigraphError
from omnigraph.history import PublishPlan, Snapshot, TableChange, TableState
from omnigraph.language.catalog import EdgeType
from omnigraph.rules.endpoints import ends_of
from omnigraph.tables import Staged
from omnigraph.views import Repository, View
from omnigraph.write.constraints import Addresses, check_deltas
from omnigraph.write.delta import Delta
from omnigraph.write.inlining import bounds, fold_largest, inlined, with_rows
from omnigraph.write.proposal import Proposal
from omnigraph.write.staging import folds, rows_to_write, side_by_side, table_change

MAX_ROWS = 1_000
"""A member with more rows is staged by itself, because the rows of a run are written a second time, as one fragment."""

EntityId = tuple[str, str]
"""A table key and an entity id."""
Members = Mapping[int, Proposal]
Changes = tuple[list[TableChange], list[Staged]]
"""The changes and staged versions of one member."""


class JointStage:
    """Stages one group for one publish; called with each head that is tried."""

    def __init__(self, repository: Repository, proposals: Sequence[Proposal]) -> None:
        self._repository = repository
        self._proposals = proposals
        self._has_staged = False

    def __call__(self, snapshot: Snapshot, plans: Mapping[int, PublishPlan]) -> Mapping[int, PublishPlan]:
        members, view = self._apart(plans), self._repository.view(snapshot)
        while len(members) > 1:
            deltas = _joined(members.values())
            try:
                is_again = None not in [member.addresses for member in members.values()]
                replaced = check_deltas(view, deltas, again=is_again)
                if not any(replaced.values()):
                    staged = self._stage(view, deltas, members)
                    self._has_staged = True
                    for member in members.values():
                        member.superseded.clear()
                    return {index: self._planned(plans[index], *staged[index]) for index in members}
            except OmnigraphError:
                return {}
            # A member that replaces rows is staged by itself; the others are checked again without it.
            members = {index: member for index, member in members.items() if not _replaces(member, replaced)}
        return {}

    def _planned(self, plan: PublishPlan, changes: Sequence[TableChange], versions: Sequence[Staged]) -> PublishPlan:
        return plan.staged(tuple(changes), self._repository.tables.unsynced(versions) if versions else ())

    def _inline(self, view: View, deltas: Mapping[str, Delta], members: Members) -> dict[int, Changes]:
        """Like `_stage`, for inline rows: the first change of a table makes room for all of them."""
        within = bounds()
        crowded = within.is_full(view, deltas.values())
        result: dict[int, Changes] = {}
        states: dict[str, TableState] = {}
        versions: list[Staged] = []
        for index, member in members.items():
            changes = []
            for key, delta in member.deltas.items():
                before = states.get(key)
                if before is None:
                    stored, all_rows, commits = view.snapshot.tables[key], deltas[key], len(members)
                    change, folded = inlined(
                        view, delta, stored, {}, within, room_for=all_rows, commits=commits, crowded=crowded
                    )
                    versions += folded
                else:
                    change = TableChange(key, delta.mode, before, with_rows(view, delta, before))
                assert change.state is not None, "a change leaves a table"
                states[key] = change.state
                changes.append(change)
            result[index] = (changes, [])
        first = result[next(iter(members))]
        for change, fold in fold_largest(view, states, within):
            first[0].append(change)
            versions.append(fold)
        first[1].extend(versions)
        return result

    def _apart(self, indexes: Iterable[int]) -> Members:
        """Members that only add rows, in order, none of which writes an entity that another one writes, or needs a node that
        another one writes: either all with inline rows, or all with written fragments."""
        inline = [index for index in indexes if not self._proposals[index].fragments]
        if len(inline) > 1:
            indexes = inline
        else:
            indexes = [index for index in indexes if self._proposals[index].is_written]
        chosen: dict[int, Proposal] = {}
        named, written, needed = set[EntityId](), set[EntityId](), set[EntityId]()
        for index in indexes:
            proposal = self._proposals[index]
            if not proposal.only_adds or proposal.rows > MAX_ROWS:
                continue
            names, writes, needs = footprint(proposal.deltas)
            if named.isdisjoint(names) and written.isdisjoint(needs) and needed.isdisjoint(writes):
                chosen[index] = proposal
                named |= names
                written |= writes
                needed |= needs
        return chosen

    def _stage(self, view: View, deltas: Mapping[str, Delta], members: Members) -> dict[int, Changes]:
        """The changes of each member; the versions of a table are in the order of the members."""
        tables = self._repository.tables
        if not [member for member in members.values() if member.fragments]:
            return self._inline(view, deltas, members)

        def stage(delta: Delta) -> list[tuple[int, TableChange, Staged]]:
            base = view.table_or_new(delta.key)
            own = {index: member for index, member in members.items() if delta.key in member.deltas}
            additions = [member.fragments[delta.key] for member in own.values()]
            run = tables.stage_run(base, additions, rows_to_write(view, delta), fold=folds(base, self._has_staged))
            before = view.state(delta.key)
            changes = []
            for (index, member), staged in zip(own.items(), run, strict=True):
                change = table_change(member.deltas[delta.key], before, staged)
                before = change.state
                changes.append((index, change, staged))
            return changes

        result: dict[int, Changes] = {index: ([], []) for index in members}
        for changes in side_by_side(stage, list(deltas.values())):
            for index, change, staged in changes:
                result[index][0].append(change)
                result[index][1].append(staged)
        return result


def _joined(members: Collection[Proposal]) -> dict[str, Delta]:
    """What the members add, as one change per table."""
    by_key: dict[str, list[Delta]] = {}
    for member in members:
        for key, delta in member.deltas.items():
            by_key.setdefault(key, []).append(delta)
    return {key: Delta.joined(deltas) for key, deltas in by_key.items()}


def footprint(deltas: Mapping[str, Delta]) -> tuple[set[EntityId], set[EntityId], set[EntityId]]:
    """Three sets: the entities that a write names by ids that others may use too, the nodes that it writes, and the nodes that it
    relies on but does not write: the ends of its edges."""
    named, writes, ends = set[EntityId](), set[EntityId](), set[EntityId]()
    for key, delta in deltas.items():
        named.update([(key, id) for id in delta.superseded if id not in delta.fresh])
        if isinstance(delta.entity, EdgeType):
            for column, node in ends_of(delta.entity):
                ends.update([(f"node:{node}", id) for id in delta.new.column(column)])
        else:
            writes.update([(key, id) for id in delta.ids])
    return named, writes, ends - writes


def _replaces(member: Proposal, replaced: Addresses) -> bool:
    return any(not delta.superseded.isdisjoint(replaced[key]) for key, delta in member.deltas.items())
