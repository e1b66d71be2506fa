"""The change feed: what each commit of a branch changed against its first parent, in order, in pages.

Only the reader keeps its position (a cursor). Delivery is at least once: a reader that stops before it has stored its new cursor gets
the same blocks again, and recognises them by their commit ids.

A reader begins with a baseline: a whole snapshot of the branch as JSON lines, and the cursor from which changes continue.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from omnigraph._internal.lazy_imports import pa
from omnigraph.changes.diff import ChangePosition, count_changes, diff, id_digest, type_order
from omnigraph.changes.entity_changes import EVERYTHING, KINDS, ChangeFilter, EntityChange
from omnigraph.changes.stored_rows import chunk_rows
from omnigraph.errors import CommitNotFound, CursorRejected, HistoryGap, ParentlessCommit, UsageError
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit, Entry, time_of, to_microseconds
from omnigraph.language.catalog import EntityType
from omnigraph.language.schema.migration import compare_catalogs
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.records.encoding import json_blocks
from omnigraph.snapshot import Repository, View
from omnigraph.storage.outputs import Target, outputs
from omnigraph.values.json_values import json_value

# Cursors and page tokens: all state of a reader of changes, which only the reader keeps.
#
# A token is base64url(JSON ‖ SHA-256 of the JSON). It is bound to the graph, to one incarnation of a branch and to the filter, and is
# refused elsewhere. The digest detects accidental damage; it is not a signature.

TokenKind = Literal["commit-page", "feed-cursor", "feed-page"]

MAX_TOKEN_BYTES = 4_096
ID_BYTES_EXACT = 256
ID_PREFIX_BYTES = 64
SCOPE_DIGITS = 32
SCOPE = ("graph", "branch", "incarnation of the branch", "filter")
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class ChangeToken:
    """`scope` is what the token is bound to; `seq` and `commit` name the last commit that was delivered completely.

    A page token also has the seq of the last commit of its poll (`cut`) and the `position` inside the commit after `seq`.
    """

    kind: TokenKind
    scope: tuple[str, ...]
    seq: int
    commit: str
    cut: int | None = None
    position: ChangePosition | None = None

    def encode(self) -> str:
        bound = [_bound(member) for member in self.scope]
        value: dict[str, Any] = {"k": self.kind, "s": bound, "n": self.seq, "c": self.commit}
        if self.cut is not None:
            value["e"] = self.cut
        if self.position is not None:
            value["p"] = dataclasses.astuple(self.position)
        data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        text = _text(data + hashlib.sha256(data).digest())
        assert len(text) <= MAX_TOKEN_BYTES, "every member of a token is bounded"
        return text


def decode_token(text: str, kind: TokenKind, scope: tuple[str, ...]) -> ChangeToken:
    """The token if it is intact, of this kind and bound to this scope. Raises CursorRejected otherwise."""
    value = _value(text)
    try:
        if value["k"] != kind:
            raise CursorRejected(f"it is a {value['k']}, not a {kind}")
        for name, digest, member in zip(SCOPE, value["s"], scope, strict=True):
            if digest != _bound(member):
                raise CursorRejected(f"it belongs to another {name}")
        position = None if value.get("p") is None else ChangePosition(*value["p"])
        if position is not None and position.kind not in KINDS:
            raise CursorRejected("it names no position")
        return ChangeToken(kind, scope, int(value["n"]), str(value["c"]), value.get("e"), position)
    except (KeyError, TypeError, ValueError):
        raise CursorRejected("it is not a cursor") from None


def _bound(member: str) -> str:
    """A short digest of a scope member, which may be long."""
    return id_digest(member)[:SCOPE_DIGITS]


def _text(raw: bytes) -> str:
    """The canonical spelling of a token. base64 ignores the last bits of a text, so a changed letter may decode to the same bytes."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _value(text: str) -> dict[str, Any]:
    if not isinstance(text, str):
        raise CursorRejected(f"expected text, got {type(text).__name__}")
    if len(text) > MAX_TOKEN_BYTES:
        raise CursorRejected("it is too long")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        data, digest = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest or _text(raw) != text:
            raise CursorRejected("it is damaged")
        value: dict[str, Any] = json.loads(data)
    except (binascii.Error, ValueError):
        raise CursorRejected("it is not a cursor") from None
    return value


def position_of(kind: str, type_id: str, id: str) -> ChangePosition:
    """A position that fits in a token: a very long id as its prefix and a digest."""
    assert kind in KINDS
    data = id.encode()
    if len(data) <= ID_BYTES_EXACT:
        return ChangePosition(kind, type_id, id)
    return ChangePosition(kind, type_id, data[:ID_PREFIX_BYTES].decode(errors="ignore"), id_digest(id))


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

    >>> block = g.changes(start=f"after:{g.show('main~1').id}").blocks[0]
    >>> assert (block.commit, len(block.changes)) == (g.head(), 1)
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
    >>> assert (page.commit, page.next_page_token) == (g.head(), None)
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


# The change feed of a branch in batches of whole commits between two cursors, for readers that divide the work among tasks.
#
# One process makes a page of the feed; a batch of a stream is planned by one process and read by many. Both use the same cursors, so a
# reader can switch between them.


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


BATCH_ROWS = 8_192


@dataclass(frozen=True)
class Baseline:
    """A snapshot that was written out: how many entities, of which commit, and the cursor from which changes continue.

    >>> base = g.baseline("again.ndjson", types=["City"])
    >>> assert (base.entities, base.snapshot_commit_id) == (3, g.head().id)
    """

    entities: int
    snapshot_commit_id: str
    resume_cursor: str

    def __repr__(self) -> str:
        return f"<Baseline of {self.entities} entities at {self.snapshot_commit_id}>"


def write_baseline(
    repository: Repository,
    target: Target,
    branch: str = MAIN,
    *,
    only: ChangeFilter = EVERYTHING,
    replace: bool = False,
) -> Baseline:
    """Write every entity of the branch's head, one graph-batch record per line, then `{"baseline": {…}}`.

    The file appears completely or not at all, and is on disk before the cursor is returned. An `op` filter applies to the cursor only: a
    snapshot has no operations.
    """
    view, last = _captured(repository, branch, only)
    with outputs([target], repository.tables.options, replace=replace) as (file,), file.open() as out:
        entities = 0
        for entity, rows in _selected_rows(view, only):
            out.writelines(json_blocks(entity, rows))
            entities += rows.num_rows
        out.write(last.line)
    return Baseline(entities, last.snapshot_commit_id, last.resume_cursor)


def baseline_blocks(repository: Repository, branch: str = MAIN, *, only: ChangeFilter = EVERYTHING) -> Iterator[bytes]:
    """The same lines as a stream of blocks. A stream without the last line is incomplete."""
    view, last = _captured(repository, branch, only)
    blocks = (block for entity, rows in _selected_rows(view, only) for block in json_blocks(entity, rows))
    return itertools.chain(blocks, [last.line])


@dataclass(frozen=True)
class _LastLine:
    snapshot_commit_id: str
    resume_cursor: str

    @property
    def line(self) -> bytes:
        return json.dumps({"baseline": asdict(self)}).encode() + b"\n"


def _captured(repository: Repository, branch: str, only: ChangeFilter) -> tuple[View, _LastLine]:
    head, view = repository.head(branch)
    commit = head.head.commit
    return view, _LastLine(commit.id, cursor_at(repository, head, commit, only))


def _selected_rows(view: View, only: ChangeFilter) -> Iterator[tuple[EntityType, pa.RecordBatch]]:
    """Nodes, then edges, in batches."""
    for entity in sorted(view.catalog.tables.values(), key=type_order):
        if only.wants_type(entity):
            yield from ((entity, batch) for batch in scanned_batches(view, entity))


def scanned_batches(view: View, entity: EntityType) -> Iterator[pa.RecordBatch]:
    """The rows of a type in batches that fit in memory, however wide the rows are."""
    table = view.table(entity.table_key)
    return iter(()) if table is None else iter(table.scan(batch_rows=min(BATCH_ROWS, chunk_rows(table))))
