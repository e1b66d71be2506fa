"""Branches: making, listing and deleting them. Each is one entry in the branch's own chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.errors import AlreadyExists, BranchNotFound, BranchReplaced, UsageError
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history.chain import Chain, check_branch_name
from omnigraph.history.genesis import MAIN
from omnigraph.history.lineage import Lineage, new_incarnation
from omnigraph.history.log import Log
from omnigraph.history.values import Commit, Entry, Snapshot


class Branches:
    def __init__(self, chain: Chain, log: Log, lineage: Lineage, new_id: Callable[[], str]) -> None:
        self.chain = chain
        self.log = log
        self.lineage = lineage
        self.new_id = new_id

    def create(self, name: str, source: Entry, snapshot: Snapshot | None = None) -> Entry:
        """A branch at a source branch's head, or at an older `snapshot` of it. Costs one look and one create."""
        check_branch_name(name)
        if name == MAIN:
            raise UsageError("main cannot be made: every graph has it")
        prepared_at = self.chain.clock()
        newest = self.chain.newest(name)
        if newest is not None and newest.alive:
            raise AlreadyExists(f"branch '{name}' exists already", hint="choose another name or delete it first")
        entry_id = self.new_id()
        position = 0 if newest is None else newest.position + 1
        opening = self._opening(source, snapshot)
        entry = replace(
            opening,
            id=entry_id,
            op="create",
            branch=name,
            incarnation=new_incarnation(name, position, entry_id),
            position=position,
            steps=(),
        )
        reach(Failpoint.BRANCH_BEFORE_CREATE)
        if self.chain.append(entry, prepared_at=prepared_at) is None:
            raise AlreadyExists(f"branch '{name}' was made by somebody else just now")
        reach(Failpoint.BRANCH_AFTER_CREATE)
        return entry

    def _opening(self, source: Entry, snapshot: Snapshot | None) -> Entry:
        """The source's entry as the state a new incarnation starts from."""
        if snapshot is None or snapshot.commit.id == source.head.commit.id:
            tail, segments = self.log.following(source)
            return replace(source, before=source.head, tail=tail, segments=segments)
        entry = self.lineage.entry_of(snapshot.commit.ref)
        kept = tuple(step for step in entry.steps if step.commit.ref.seq <= snapshot.commit.ref.seq)
        tail, segments = self.log.following(replace(entry, steps=kept))
        ancestry = replace(
            entry.ancestry, reached={**entry.ancestry.reached, snapshot.commit.ref.incarnation: snapshot.commit.ref.seq}
        )
        return replace(entry, before=snapshot, ancestry=ancestry, tail=tail, segments=segments)

    def delete(self, name: str, *, at: Commit | None = None) -> None:
        """Close the branch's incarnation. With `at`, only while its head is that commit (BranchReplaced otherwise)."""
        if name == MAIN:
            raise UsageError("main cannot be deleted")
        prepared_at = self.chain.clock()
        head = self.chain.head(name)
        while True:
            if at is not None and head.head.commit.id != at.id:
                raise BranchReplaced(f"branch '{name}' has moved since", hint="look at its new commits first")
            entry = replace(
                head,
                id=self.new_id(),
                op="delete",
                position=head.position + 1,
                before=head.head,
                steps=(),
                tail=(*head.tail, *(step.commit for step in head.steps)),
            )
            reach(Failpoint.BRANCH_BEFORE_DELETE)
            if self.chain.append(entry, prepared_at=prepared_at) is not None:
                reach(Failpoint.BRANCH_AFTER_DELETE)
                return
            prepared_at = self.chain.clock()
            incarnation, head = head.incarnation, self.chain.head(name)
            if head.incarnation != incarnation:
                raise BranchNotFound(f"branch '{name}' was deleted by somebody else, and made anew")

    def list(self) -> list[Entry]:
        """The heads of the living branches: main first, then by name."""
        heads = [self.chain.newest(name) for name in self.chain.branches()]
        alive = [head for head in heads if head is not None and head.alive]
        return sorted(alive, key=lambda head: (head.branch != MAIN, head.branch))
