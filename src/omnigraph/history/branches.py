"""Branches: creating, listing and deleting them. Creating or deleting one adds an entry to its chain."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import (
    AlreadyExists,
    BranchNotFound,
    BranchNotMerged,
    BranchReplaced,
    HistoryGap,
    StagedTooLongAgo,
    UsageError,
)
from omnigraph.history.chain import MAIN, PROBE_WINDOW_S, Chain, check_branch_name
from omnigraph.history.lineage import Lineage
from omnigraph.history.log import Log
from omnigraph.history.retention import Retention
from omnigraph.history.tags import Tags
from omnigraph.history.values import Commit, Entry, new_incarnation
from omnigraph.history.write_keys import WriteKeys


class Branches:
    def __init__(
        self,
        chain: Chain,
        log: Log,
        lineage: Lineage,
        tags: Tags,
        keys: WriteKeys,
        retention: Retention,
        new_id: Callable[[], str],
    ) -> None:
        self.chain = chain
        self.log = log
        self.lineage = lineage
        self.tags = tags
        self.keys = keys
        self.retention = retention
        self.new_id = new_id

    def create(self, name: str, source: Entry) -> Entry:
        """Create a branch at the last commit of `source`. Takes two reads and one create, and two more reads if that is not a
        head.

        HistoryGap if cleanup removes the commit at the same time, StagedTooLongAgo if it may have removed what was stored for the
        branch before: then there is no branch.
        """
        prepared_at = self.chain.clock()
        protected = self.protection(source)
        entry = self.open(self.opening(name, source, self.new_id()), prepared_at=prepared_at)
        if protected is not None or self.chain.clock() - prepared_at >= PROBE_WINDOW_S:
            with self._taken_back(name):
                self.check_protected(source, protected or frozenset())
        return entry

    def protection(self, source: Entry) -> frozenset[str] | None:
        """What keeps the state of an entry: None if it is a head, which cleanup does not touch for a while; otherwise, if it is
        below the watermark of its branch, the ids of the tags that keep it."""
        cached = self.chain.cached_head(source.branch)
        if cached is not None and cached[0].head.commit == source.head.commit:
            return None
        if self.chain.floor(source.branch) <= source.position:
            return frozenset()
        return frozenset(self.tags.ids_naming(source.head.commit.ref))

    def check_protected(self, source: Entry, before: frozenset[str]) -> None:
        """Called after something was created that protects the state of an entry: HistoryGap if a cleanup that has not seen it
        may remove the state. A tag that existed before, and still does, has kept it all the time."""
        commit = source.head.commit.ref
        if before and before & set(self.tags.ids_naming(commit)):
            return
        at = replace(commit, branch=source.branch, position=source.position)
        self.retention.check_kept(at, "no branch can start from it")

    def open(self, opening: Entry, *, prepared_at: float) -> Entry:
        """Create a branch with an entry that was made for it at `prepared_at` or later. AlreadyExists if another process was
        first, StagedTooLongAgo if a cleanup may have removed what was stored for it: then there is no branch."""
        self.tags.check_no_tag(opening.branch)
        self.retention.check_cutoff(opening.branch, prepared_at)
        reach(Failpoint.BRANCH_BEFORE_CREATE)
        if self.chain.append(opening, prepared_at=prepared_at) is None:
            raise AlreadyExists(f"branch '{opening.branch}' was created by another process meanwhile")
        reach(Failpoint.BRANCH_AFTER_CREATE)
        # A cleanup that began before the create has not seen the branch.
        with self._taken_back(opening.branch):
            self.retention.check_cutoff(opening.branch, prepared_at)
        return opening

    @contextlib.contextmanager
    def _taken_back(self, name: str) -> Iterator[None]:
        """Within the block, a new branch is deleted again if a cleanup has removed what it needs."""
        try:
            yield
        except (HistoryGap, StagedTooLongAgo):
            self.delete(name, force=True)
            raise

    def opening(self, name: str, source: Entry, entry_id: str) -> Entry:
        """The entry that would create a branch now, at the last commit of `source`. AlreadyExists if there is one."""
        check_branch_name(name)
        if name == MAIN:
            raise UsageError("main cannot be created: every graph has it")
        newest = self.chain.newest(name)
        if newest is not None and newest.alive:
            raise AlreadyExists(f"branch '{name}' exists already", hint="choose another name or delete it first")
        return self.opening_at(name, source, entry_id, 0 if newest is None else newest.position + 1)

    def opening_at(self, name: str, source: Entry, entry_id: str, position: int) -> Entry:
        """The entry that opens an incarnation of a branch at a position, at the last commit of `source`."""
        tail, segments = self.log.following(source)
        return Entry(
            id=entry_id,
            op="create",
            branch=name,
            incarnation=new_incarnation(name, position, entry_id),
            position=position,
            before=source.head,
            steps=(),
            ancestry=source.ancestry,
            write_features=source.write_features,
            tail=tail,
            segments=segments,
            key_objects=self.keys.following(source, rolled=not tail),
        )

    def delete(self, name: str, *, at: Commit | None = None, force: bool = False) -> None:
        """Close the branch's incarnation. With `at`, only while its head is that commit (BranchReplaced otherwise).

        BranchNotMerged, unless `force`, if commits would be left that no other living branch or tag reaches. If two branches are
        deleted at the same time, each may be counted as reaching the commits of the other. Nothing is lost then: until cleanup
        removes them, the commits of a deleted branch are found by their ids.
        """
        if name == MAIN:
            raise UsageError("main cannot be deleted")
        prepared_at = self.chain.clock()
        head = self.chain.head(name)
        while True:
            if at is not None and head.head.commit.id != at.id:
                raise BranchReplaced(f"branch '{name}' has moved since", hint="look at its new commits first")
            if not force and (commits := self.lineage.missed(head, self._reached_by_others(name))):
                raise BranchNotMerged(name, commits, head.head.commit.id)
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
                raise BranchNotFound(f"branch '{name}' was deleted by another process, and created again")

    def _reached_by_others(self, name: str) -> Iterator[dict[str, int]]:
        """What each other living branch reaches, main first, and then what each tag reaches."""
        yield self.lineage.reached(self.chain.head(MAIN).ancestry)
        for head in self.chain.newest_of([other for other in self.chain.branches() if other not in (name, MAIN)]):
            if head is not None and head.alive:
                yield self.lineage.reached(head.ancestry)
        for ref in self.tags.list().values():
            with contextlib.suppress(HistoryGap):
                yield self.lineage.reached_at(self.lineage.entry_of(ref), ref)

    def list(self) -> list[Entry]:
        """The heads of the living branches: main first, then by name."""
        heads = self.chain.newest_of(self.chain.branches())
        alive = [head for head in heads if head is not None and head.alive]
        return sorted(alive, key=lambda head: (head.branch != MAIN, head.branch))
