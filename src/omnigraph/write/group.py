"""Group commit: transactions of one process that publish to one branch at the same time share one entry.

The first to arrive publishes for itself and all that arrived meanwhile; then the next in the queue does, with those that wait by
then. Each member gets its own commit or its own error. Members that only add rows are checked and staged together.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

from omnigraph.errors import OmnigraphError, OutcomeUnknown
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import Commit, Snapshot, TableState
from omnigraph.language.catalog import EdgeType
from omnigraph.metering import current_meter
from omnigraph.rules.endpoints import ends_of
from omnigraph.snapshot import Repository, View
from omnigraph.tables.staging import Staged
from omnigraph.write.constraints import Addresses, check_deltas, folds, rows_to_write, side_by_side, table_change
from omnigraph.write.inlining import Delta, bounds, fold_largest, inlined, with_rows
from omnigraph.write.publishing import Outcome, publish_group
from omnigraph.write.row_write import RowWrite

# Stages members of a group together: they are checked together, and each table gets a run of versions, one for each member.
#
# Each commit stays readable by itself, so each has its own version of every table it changed; but all are made together on the same
# base. This is done for members that only add rows. If all their rows together obey every rule, so does each member on top of those
# before it: no rule that more rows could satisfy is involved, no two members write the same entity, and none relies on a node that
# another one writes. If the check fails, nothing is staged here, and each member is checked by itself to find the one at fault.

MAX_ROWS = 1_000
"""A member with more rows is staged by itself, because the rows of a run are written a second time, as one fragment."""

EntityId = tuple[str, str]
"""A table key and an entity id."""
Members = Mapping[int, RowWrite]
Changes = tuple[list[TableChange], list[Staged]]
"""The changes and staged versions of one member."""


class JointStage:
    """Stages one group for one publish; called with each head that is tried."""

    def __init__(self, repository: Repository, writes: Sequence[RowWrite]) -> None:
        self._repository = repository
        self._writes = writes
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
        inline = [index for index in indexes if not self._writes[index].fragments]
        if len(inline) > 1:
            indexes = inline
        else:
            indexes = [index for index in indexes if self._writes[index].is_written]
        chosen: dict[int, RowWrite] = {}
        named, written, needed = set[EntityId](), set[EntityId](), set[EntityId]()
        for index in indexes:
            write = self._writes[index]
            if not write.only_adds or write.rows > MAX_ROWS:
                continue
            names, writes, needs = footprint(write.deltas)
            if named.isdisjoint(names) and written.isdisjoint(needs) and needed.isdisjoint(writes):
                chosen[index] = write
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


def _joined(members: Collection[RowWrite]) -> dict[str, Delta]:
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


def _replaces(member: RowWrite, replaced: Addresses) -> bool:
    return any(not delta.superseded.isdisjoint(replaced[key]) for key, delta in member.deltas.items())


MAX_GROUP = 64
GATHER_S = 0.00005


class _Waiting:
    """A member of a queue. A member that is woken without an outcome becomes the leader."""

    def __init__(self, write: RowWrite) -> None:
        self.write = write
        self.outcome: Outcome | None = None
        self._turn = threading.Lock()
        self._turn.acquire()

    def wait(self) -> None:
        self._turn.acquire()

    def wake(self) -> None:
        """Called at most once: to make it the leader, or when it has an outcome."""
        self._turn.release()


def _unknown(waiting: _Waiting, error: OutcomeUnknown) -> OutcomeUnknown:
    outcome = OutcomeUnknown(error.message, commit_id=waiting.write.plan.commit_id)
    outcome.__cause__ = error
    return outcome


class GroupCommitter:
    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._queues: dict[str, list[_Waiting]] = {}
        """By branch; the first of a queue leads. There is no queue if nothing is being published."""
        self._last_sizes: dict[str, int] = {}
        """By branch: the size of the last group."""
        self._lock = threading.Lock()

    def publish(self, write: RowWrite) -> Commit | None:
        """Publish a write, together with those that other threads submit for the same branch meanwhile. None if it has nothing
        left to change on the newest head."""
        waiting = _Waiting(write)
        branch = write.plan.branch
        with self._lock:
            queue = self._queues.setdefault(branch, [])
            queue.append(waiting)
            leads = queue[0] is waiting
        if not leads:
            self._wait(branch, waiting)
        if waiting.outcome is None:
            self._lead(branch, waiting)
        assert waiting.outcome is not None, "a group that was published gave each member an outcome"
        if isinstance(waiting.outcome, OmnigraphError):
            raise waiting.outcome
        return waiting.outcome if isinstance(waiting.outcome, Commit) else None

    def _wait(self, branch: str, waiting: _Waiting) -> None:
        meter = current_meter()
        try:
            with contextlib.nullcontext() if meter is None else meter.waiting():
                waiting.wait()
        except BaseException:
            with self._lock:
                self._leave(branch, [waiting])
            raise

    def _lead(self, branch: str, leader: _Waiting) -> None:
        """Publish the current queue. Members stay in it until they have an outcome: a leader that is interrupted leaves alone,
        and the next one publishes the rest (perhaps again, which is harmless)."""
        served = [leader]
        try:
            group = self._gathered(branch)
            outcomes = self._publish(group)
            served = group[: len(outcomes)]
            for waiting, outcome in zip(served, outcomes, strict=True):
                waiting.outcome = outcome
        finally:
            with self._lock:
                self._leave(branch, served)
            for waiting in served[1:]:
                waiting.wake()

    def _gathered(self, branch: str) -> list[_Waiting]:
        """The current queue. The members of the previous group were all woken at once, so it waits for them as long as more
        arrive: otherwise the first of them would publish alone, and the others would wait for its syncs."""
        with self._lock:
            queue, wanted = self._queues[branch], self._last_sizes.get(branch, 0)
        seen = 0
        while seen < len(queue) < wanted:
            seen = len(queue)
            self.repository.history.sleep(GATHER_S)
        with self._lock:
            group = queue[:MAX_GROUP]
            self._last_sizes[branch] = len(group)
        return group

    def _leave(self, branch: str, leaving: list[_Waiting]) -> None:
        """Remove members from the queue, and wake the new first one to lead."""
        queue = self._queues.get(branch, [])
        first, gone = queue[0] if queue else None, set(leaving)
        queue[:] = [waiting for waiting in queue if waiting not in gone]
        if not queue:
            self._queues.pop(branch, None)
        elif queue[0] is not first:
            queue[0].wake()

    def _publish(self, group: list[_Waiting]) -> list[Outcome]:
        """The outcomes of the group, or of its first member alone."""
        writes = [waiting.write for waiting in group]
        joint = JointStage(self.repository, writes) if len(writes) > 1 else None
        try:
            return publish_group(self.repository.history, writes, stage_together=joint)
        except OutcomeUnknown as error:
            return [_unknown(waiting, error) for waiting in group]
        except OmnigraphError as error:
            return [error for _ in group]
        except (OSError, RuntimeError, ValueError):
            # An error while one member was staged must not fail the others.
            if len(group) == 1:
                raise
            return self._publish(group[:1])
