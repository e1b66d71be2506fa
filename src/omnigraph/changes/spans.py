"""The change feed of a branch in batches of whole commits between two cursors, for readers that divide the work among tasks.

One process makes a page of the feed; a batch of a stream is planned by one process and read by many. Both use the same cursors, so a
reader can switch between them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.changes.diff import count_changes, diff
from omnigraph.changes.entity_changes import EVERYTHING, ChangeFilter, EntityChange
from omnigraph.changes.feed import check_commit, cursor_at, feed_scope, schema_steps, started, states_of
from omnigraph.changes.tokens import ChangeToken, decode_token
from omnigraph.errors import UsageError
from omnigraph.history import MAIN, Commit, Entry
from omnigraph.history.times import time_of, to_microseconds
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.views import Repository


@dataclass(frozen=True)
class BatchLimits:
    """Limits of a batch. It consists of whole commits, at least one: a commit with more changes is a batch by itself."""

    max_commits: int
    max_changes: int | None = None


@dataclass(frozen=True)
class BranchFeed:
    """The changes of a branch under one filter. Its cursors are those of the change feed."""

    repository: Repository
    branch: str = MAIN
    only: ChangeFilter = EVERYTHING

    def start(self, start: str | None) -> str:
        """The cursor of a start: `now`, `beginning` or `after:<commit id>`."""
        head = self._head()
        return started(self.repository, head, self._scope(head), start).encode()

    def after_time(self, time: str | dt.datetime) -> str:
        """The cursor after the last commit at or before a time; the beginning if there is none."""
        commit = self.repository.history.log.at_time(self._head(), to_microseconds(time_of(time)))
        return self.start("beginning" if commit is None else f"after:{commit.id}")

    def end(self) -> str:
        """The cursor of the branch's head."""
        head = self._head()
        return cursor_at(self.repository, head, head.head.commit, self.only)

    def commit(self, cursor: str) -> Commit:
        """The commit after which a cursor continues."""
        head = self._head()
        at = self._position(head, cursor)
        commit = self.repository.history.log.by_seq(head, at.seq)
        assert commit is not None, "a position was looked up"
        return commit

    def next_end(self, cursor: str, limits: BatchLimits | None = None, until: str | None = None) -> str:
        """The end of a batch that starts at a cursor: the head, the cursor `until`, or where the batch is full."""
        head = self._head()
        at = self._position(head, cursor)
        last_seq = head.head.commit.ref.seq if until is None else self._position(head, until).seq
        if limits is not None:
            last_seq = min(last_seq, at.seq + limits.max_commits)
        commits = self._between(head, at.seq, last_seq)
        if limits is not None and limits.max_changes is not None:
            commits = self._within(commits, limits.max_changes)
        return cursor_at(self.repository, head, commits[-1], self.only) if commits else cursor

    def commits(self, start: str, end: str) -> list[Commit]:
        """The commits after one cursor up to another, oldest first. Raises HistoryGap if cleanup removed what they changed."""
        head = self._head()
        first, last = self._position(head, start), self._position(head, end)
        if last.seq < first.seq:
            raise UsageError(
                f"the changes end at commit {last.commit}, which is before their start at commit {first.commit}",
                hint="from names the earlier commit, to the later one",
            )
        return self._between(head, first.seq, last.seq)

    def block(self, commit: Commit) -> tuple[tuple[MigrationStep, ...], Iterator[EntityChange]]:
        """What one of the commits changed: schema steps and entities."""
        before, after = states_of(self.repository, commit, check_parent=False)
        return schema_steps(before, after), diff(before, after, only=self.only)

    def _head(self) -> Entry:
        return self.repository.history.chain.head(self.branch)

    def _scope(self, head: Entry) -> tuple[str, ...]:
        return feed_scope(self.repository, head, self.only)

    def _position(self, head: Entry, cursor: str) -> ChangeToken:
        at = decode_token(cursor, "feed-cursor", self._scope(head))
        check_commit(self.repository, head, at)
        return at

    def _between(self, head: Entry, first_seq: int, last_seq: int) -> list[Commit]:
        if last_seq <= first_seq:
            return []
        commits = self.repository.history.log.after(head, first_seq, limit=last_seq - first_seq)
        states_of(self.repository, commits[0], check_parent=True)
        return commits

    def _within(self, commits: list[Commit], max_changes: int) -> list[Commit]:
        total = 0
        for number, commit in enumerate(commits):
            total += count_changes(*states_of(self.repository, commit, check_parent=False), self.only)
            if total > max_changes:
                return commits[: max(number, 1)]
        return commits
