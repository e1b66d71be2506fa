"""The change feed: what each commit of a branch changed against its first parent, in order, in pages.

Only the reader keeps its position (a cursor). Delivery is at least once: a reader that stops before it has stored its new cursor gets
the same blocks again, and recognises them by their commit ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from omnigraph.changes.diff import ChangePosition, diff
from omnigraph.changes.entity_changes import EVERYTHING, ChangeFilter, EntityChange
from omnigraph.changes.tokens import ChangeToken, decode_token, position_of
from omnigraph.errors import CommitNotFound, CursorRejected, HistoryGap, ParentlessCommit, UsageError
from omnigraph.history import MAIN, Commit, Entry
from omnigraph.language.schema.migration import compare_catalogs
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.values.json_values import json_value
from omnigraph.views import Repository, View

PAGE_CHANGES = 1_000
MAX_PAGE_CHANGES = 8_192
PAGE_BYTES = 4 * 1024 * 1024
POLL_COMMITS = 128
MAX_POLL_COMMITS = 512

_AFTER = "after:"


@dataclass(frozen=True)
class CommitChanges:
    """What one commit changed; a part of it when the rest is on the next page. `schema_steps` is what it changed in the schema, with
    the first part.

    >>> block = g.changes(start=f"after:{g.commit('main~1').id}").blocks[0]
    >>> assert (block.commit, len(block.changes)) == (g.commit(), 1)
    """

    commit: Commit
    changes: tuple[EntityChange, ...]
    schema_steps: tuple[MigrationStep, ...] = field(default=(), kw_only=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.commit.id}: {len(self.changes)} changes>"


@dataclass(frozen=True, repr=False)
class CommitPage(CommitChanges):
    """Changes of one commit; `next_page_token` when there are more.

    >>> page = g.commit_changes("main", limit=100)
    >>> assert (page.commit, page.next_page_token) == (g.commit(), None)
    """

    next_page_token: str | None = None


@dataclass(frozen=True)
class FeedPage:
    """Either there is a next page of this poll, or a cursor for the next poll.

    >>> page = g.changes("main", start="now")
    >>> assert (page.blocks, page.caught_up) == ((), True)
    """

    blocks: tuple[CommitChanges, ...]
    next_page_token: str | None = None
    cursor: str | None = None
    caught_up: bool | None = None

    def __repr__(self) -> str:
        end = "more pages" if self.next_page_token else "caught up" if self.caught_up else "more commits"
        return f"<FeedPage of {len(self.blocks)} commits, {end}>"


@dataclass
class _Budget:
    """The space left on a page. One change always fits, however large it is."""

    changes: int
    size: int = PAGE_BYTES
    used: int = 0

    def fits(self, change: EntityChange) -> bool:
        shown = [json_value(change.before), json_value(change.after)]
        size = len(json.dumps(shown, ensure_ascii=False).encode())
        if self.used and (self.used >= self.changes or size > self.size):
            return False
        self.used += 1
        self.size -= size
        return True


@dataclass(frozen=True)
class _CommitChanges:
    """The changes of one commit that fit on a page; the position of the last one if there are more."""

    changes: tuple[EntityChange, ...]
    rest_after: ChangePosition | None = None


def _take(changes: Iterator[EntityChange], budget: _Budget) -> _CommitChanges:
    taken: list[EntityChange] = []
    for change in changes:
        last = taken[-1] if taken else None
        # The next page begins with another id: a graph may have several rows with one, from older loads.
        is_of_last = last is not None and (last.type_id, last.id) == (change.type_id, change.id)
        if not is_of_last and not budget.fits(change):
            return _CommitChanges(
                tuple(taken), START if last is None else position_of(last.kind, last.type_id, last.id)
            )
        taken.append(change)
    return _CommitChanges(tuple(taken))


START = ChangePosition("node", "", "")
"""The position before all changes of a commit."""


# ---------------------------------------------------------------- one commit


def commit_changes(
    repository: Repository,
    commit: Commit,
    *,
    only: ChangeFilter = EVERYTHING,
    limit: int = PAGE_CHANGES,
    page_token: str | None = None,
) -> CommitPage:
    """What a commit changed. Raises ParentlessCommit for the first commit, HistoryGap if cleanup removed it."""
    scope = (repository.history.identity.graph_id, commit.ref.branch, commit.ref.incarnation, only.digest())
    resume = None
    if page_token is not None:
        token = decode_token(page_token, "commit-page", scope)
        if token.commit != commit.id:
            raise CursorRejected("it belongs to another commit")
        resume = token.position
    before, after = states_of(repository, commit, check_parent=True)
    part = _take(diff(before, after, only=only, resume=resume), _Budget(_limited(limit)))
    next_page = None
    if part.rest_after is not None:
        next_page = ChangeToken("commit-page", scope, commit.ref.seq, commit.id, position=part.rest_after).encode()
    steps = schema_steps(before, after) if resume is None else ()
    return CommitPage(commit, part.changes, next_page, schema_steps=steps)


def schema_steps(before: View, after: View) -> tuple[MigrationStep, ...]:
    """The steps from one schema to the other."""
    if before.snapshot.schema == after.snapshot.schema:
        return ()
    return compare_catalogs(before.catalog, after.catalog)


def states_of(repository: Repository, commit: Commit, *, check_parent: bool) -> tuple[View, View]:
    """The snapshots before and after a commit, both from its entry. Cleanup may have removed the rows before it with its parent."""
    if commit.parent is None:
        raise ParentlessCommit(commit.id)
    history = repository.history
    entry = history.lineage.entry_of(commit.ref)
    states = (entry.before, *entry.snapshots())
    index = next(index for index, snapshot in enumerate(states) if snapshot.commit.id == commit.id)
    parent = commit.parent
    if check_parent and index == 1 and history.chain.find(parent.branch, parent.position) is None:
        raise HistoryGap(
            f"the state before commit {commit.id} was removed by cleanup",
            commit_id=commit.id,
            hint="take a new baseline and go on from its cursor",
        )
    return repository.view(states[index - 1]), repository.view(states[index])


def _limited(limit: int) -> int:
    if not 1 <= limit <= MAX_PAGE_CHANGES:
        raise UsageError(f"a page has 1 to {MAX_PAGE_CHANGES} changes, not {limit}")
    return limit


# ---------------------------------------------------------------- a branch


def poll(
    repository: Repository,
    branch: str = MAIN,
    *,
    cursor: str | None = None,
    start: str | None = None,
    page_token: str | None = None,
    only: ChangeFilter = EVERYTHING,
    limit: int = PAGE_CHANGES,
    max_commits: int = POLL_COMMITS,
) -> FeedPage:
    """The next changes of a branch: after a cursor, from a start (`now`, `beginning`, `after:<commit>`), or the next page.

    The head seen by the first page is the end of the poll; later commits wait for the next one.
    """
    if sum(argument is not None for argument in (cursor, start, page_token)) > 1:
        raise UsageError("give one of cursor, start and page token")
    if not 1 <= max_commits <= MAX_POLL_COMMITS:
        raise UsageError(f"a poll covers 1 to {MAX_POLL_COMMITS} commits, not {max_commits}")
    head = repository.history.chain.head(branch)
    scope = feed_scope(repository, head, only)
    if page_token is not None:
        at = decode_token(page_token, "feed-page", scope)
    else:
        at = (
            decode_token(cursor, "feed-cursor", scope)
            if cursor is not None
            else started(repository, head, scope, start)
        )
        at = ChangeToken("feed-page", scope, at.seq, at.commit, min(head.head.commit.ref.seq, at.seq + max_commits))
    check_commit(repository, head, at)
    return _page(repository, head, at, only, _Budget(_limited(limit)))


def feed_scope(repository: Repository, head: Entry, only: ChangeFilter) -> tuple[str, ...]:
    return (repository.history.identity.graph_id, head.branch, head.incarnation, only.digest())


def cursor_at(repository: Repository, head: Entry, commit: Commit, only: ChangeFilter) -> str:
    """A cursor that continues after a commit of the branch."""
    return ChangeToken("feed-cursor", feed_scope(repository, head, only), commit.ref.seq, commit.id).encode()


def started(repository: Repository, head: Entry, scope: tuple[str, ...], start: str | None) -> ChangeToken:
    log = repository.history.log
    commit: Commit | None
    if start in (None, "now"):
        commit = head.head.commit
    elif start == "beginning":
        commit = log.after(head, -1, limit=1)[0]
    elif start is not None and start.startswith(_AFTER):
        wanted = start.removeprefix(_AFTER)
        commit = log.find(head, wanted)
        if commit is None:
            raise CommitNotFound(f"commit '{wanted}' not found in branch '{head.branch}'")
    else:
        raise UsageError(f"'{start}' is not a start of the feed", hint="now, beginning or after:<commit id>")
    return ChangeToken("feed-cursor", scope, commit.ref.seq, commit.id)


def check_commit(repository: Repository, head: Entry, at: ChangeToken) -> None:
    if at.seq == head.head.commit.ref.seq and at.commit == head.head.commit.id:
        return
    known = repository.history.log.by_seq(head, at.seq)
    if known is None or known.id != at.commit:
        raise CursorRejected(f"commit {at.commit} is not in branch '{head.branch}'")


def _page(repository: Repository, head: Entry, at: ChangeToken, only: ChangeFilter, budget: _Budget) -> FeedPage:
    assert at.cut is not None, "a page belongs to a poll with an end"
    blocks: list[CommitChanges] = []
    seq, last, resume = at.seq, at.commit, at.position
    for commit in repository.history.log.after(head, at.seq, limit=at.cut - at.seq):
        before, after = states_of(repository, commit, check_parent=seq == at.seq)
        part = _take(diff(before, after, only=only, resume=resume), budget)
        if part.rest_after is None or part.changes:
            steps = schema_steps(before, after) if resume is None else ()
            blocks.append(CommitChanges(commit, part.changes, schema_steps=steps))
        if part.rest_after is not None:
            position = part.rest_after if part.changes else resume
            return FeedPage(tuple(blocks), ChangeToken("feed-page", at.scope, seq, last, at.cut, position).encode())
        seq, last, resume = commit.ref.seq, commit.id, None
    cursor = ChangeToken("feed-cursor", at.scope, seq, last).encode()
    return FeedPage(tuple(blocks), None, cursor, seq == head.head.commit.ref.seq)
