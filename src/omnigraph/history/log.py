"""The log of a branch: commit records newest first, read from few objects.

The newest records are in the entry itself (`tail`); once there are MAX_TAIL of them, the next writer rolls them up into one
stored segment, and SEGMENTS_PER_LEVEL segments of a level into one of the next. A branch inherits the log of its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from omnigraph._internal.caches import LruCache
from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import CommitNotFound
from omnigraph.history.encoding import Tail, decode_records, encode_records, records_text
from omnigraph.history.envelope import required
from omnigraph.history.values import Commit, Entry, LogSegment
from omnigraph.storage.store import Store

MAX_TAIL = 64
MAX_SHARES = 4
"""The tail of an entry of many commits may have up to this many times as many records, so that roll-ups, which others wait for,
are rarer."""
MAX_TAIL_TEXT = 64 * 1024
"""The maximum length of all actors and messages in a tail: every entry repeats them until they are rolled up."""
SEGMENTS_PER_LEVEL = 4
SEGMENTS_HELD = 16
MAX_BYTES_HELD = 64 * 1024
"""Larger segments are not cached."""


class Log:
    def __init__(self, store: Store, new_id: Callable[[], str], *, max_tail: int = MAX_TAIL) -> None:
        self.store = store
        self.new_id = new_id
        self.max_tail = max_tail
        self._held: LruCache[bytes] = LruCache(SEGMENTS_HELD)
        """Segments that were stored here, by id: they will soon be rolled up with the next ones."""

    # ------------------------------------------------------------ writing

    def following(self, entry: Entry) -> tuple[tuple[Commit, ...], tuple[LogSegment, ...]]:
        """Tail and segments for the entry after this one. If the tail is full, it is rolled up (garbage if that entry loses the
        race)."""
        tail = Tail.of(entry.tail).followed_by([step.commit for step in entry.steps])
        # An entry of several commits may have more records, up to MAX_SHARES times as many.
        if (
            len(tail) < self.max_tail * min(len(entry.steps) or 1, MAX_SHARES)
            and tail.attribution_size <= MAX_TAIL_TEXT
        ):
            return tail, entry.segments
        reach(Failpoint.HISTORY_BEFORE_ROLLUP)
        segments, older, level = list(entry.segments), list[LogSegment](), 0
        while len(run := _last_of_level(segments, level)) >= SEGMENTS_PER_LEVEL - 1:
            del segments[-len(run) :]
            older[:0] = run
            level += 1
        segments.append(self._store(level, older, tail))
        reach(Failpoint.HISTORY_AFTER_ROLLUP)
        return (), tuple(segments)

    def _store(self, level: int, older: Sequence[LogSegment], tail: Sequence[Commit]) -> LogSegment:
        """A segment with the records of older ones and a tail."""
        ids = [commit.id for commit in tail]
        segment = LogSegment(
            id=self.new_id(),
            level=level,
            first_seq=older[0].first_seq if older else tail[0].ref.seq,
            last_seq=tail[-1].ref.seq,
            min_id=min([segment.min_id for segment in older] + ids),
            max_id=max([segment.max_id for segment in older] + ids),
            first_at=older[0].first_at if older else tail[0]._at_us,
            last_at=tail[-1]._at_us,
        )
        data = encode_records(tail, [records_text(self._data(known), known.key, _affected(known)) for known in older])
        self.store.put(segment.key, data)
        if len(data) <= MAX_BYTES_HELD:
            self._held.put(segment.id, data)
        return segment

    # ------------------------------------------------------------ reading

    def walk(self, entry: Entry) -> Iterator[Commit]:
        """Every commit of the branch, newest first, along first parents."""
        return self._below(entry, entry.head.commit.ref.seq + 1)

    def page(
        self,
        entry: Entry,
        *,
        limit: int,
        before: str | None = None,
        actor: str | None = None,
        kind: str | None = None,
    ) -> list[Commit]:
        """Up to `limit` commits (of one actor, of one kind), newest first, starting after the commit `before` or at the head.

        CommitNotFound if `before` is not a commit of the branch.
        """
        commits = self.walk(entry) if before is None else self._below(entry, self._found(entry, before).ref.seq)
        wanted = (commit for commit in commits if actor in (None, commit.actor) and kind in (None, commit.kind))
        return list(islice(wanted, limit))

    def _found(self, entry: Entry, commit_id: str) -> Commit:
        commit = self.find(entry, commit_id)
        if commit is None:
            raise CommitNotFound(
                f"commit '{commit_id}' is not in branch '{entry.branch}'",
                hint=f"omnigraph log --revision {entry.branch} shows its commits",
            )
        return commit

    def _below(self, entry: Entry, seq: int) -> Iterator[Commit]:
        """The commits before the one at `seq`, newest first; newer segments are not read."""
        recent = (*entry.tail, *(step.commit for step in entry.steps))
        yield from (commit for commit in reversed(recent) if commit.ref.seq < seq)
        for segment in reversed(entry.segments):
            if segment.first_seq < seq:
                yield from (commit for commit in reversed(self._load(segment)) if commit.ref.seq < seq)

    def after(self, entry: Entry, seq: int, *, limit: int) -> list[Commit]:
        """Up to `limit` commits that follow the one at `seq` along first parents, oldest first."""
        result: list[Commit] = []
        for segment in entry.segments:
            if segment.last_seq > seq:
                result += [commit for commit in self._load(segment) if commit.ref.seq > seq]
            if len(result) >= limit:
                return result[:limit]
        recent = (*entry.tail, *(step.commit for step in entry.steps))
        return [*result, *(commit for commit in recent if commit.ref.seq > seq)][:limit]

    def find(self, entry: Entry, commit_id: str) -> Commit | None:
        """The commit with this id, or None if it is not in the log of this branch."""
        for commit in self._recent(entry):
            if commit.id == commit_id:
                return commit
        for segment in reversed(entry.segments):
            if segment.min_id <= commit_id <= segment.max_id:
                for commit in self._load(segment):
                    if commit.id == commit_id:
                        return commit
        return None

    def starting_with(self, entry: Entry, prefix: str) -> list[Commit]:
        """The commits of this branch's log whose ids begin with this text."""
        commits = [commit for commit in self._recent(entry) if commit.id.startswith(prefix)]
        for segment in reversed(entry.segments):
            if segment.min_id[: len(prefix)] <= prefix <= segment.max_id[: len(prefix)]:
                commits += [commit for commit in self._load(segment) if commit.id.startswith(prefix)]
        return commits

    def by_seq(self, entry: Entry, seq: int) -> Commit | None:
        """The commit with this seq, which counts along first parents."""
        return self._first(entry, lambda commit: commit.ref.seq <= seq, lambda segment: segment.first_seq <= seq)

    def at_time(self, entry: Entry, at: int) -> Commit | None:
        """The newest commit made at or before a time (microseconds)."""
        return self._first(entry, lambda commit: commit._at_us <= at, lambda segment: segment.first_at <= at)

    def _first(
        self, entry: Entry, good: Callable[[Commit], bool], may_hold: Callable[[LogSegment], bool]
    ) -> Commit | None:
        for commit in (*(step.commit for step in reversed(entry.steps)), *reversed(entry.tail)):
            if good(commit):
                return commit
        for segment in reversed(entry.segments):
            if may_hold(segment):
                return next((commit for commit in reversed(self._load(segment)) if good(commit)), None)
        return None

    def _recent(self, entry: Entry) -> tuple[Commit, ...]:
        return (*(step.commit for step in entry.steps), *entry.tail)

    def _load(self, segment: LogSegment) -> Sequence[Commit]:
        return decode_records(self._data(segment), segment.key, _affected(segment))

    def _data(self, segment: LogSegment) -> bytes:
        return self._held.find(segment.id) or required(self.store, segment.key, _affected(segment))


def _affected(segment: LogSegment) -> str:
    return f"the log lacks the records of commits {segment.first_seq} to {segment.last_seq}"


def _last_of_level(segments: Sequence[LogSegment], level: int) -> list[LogSegment]:
    run: list[LogSegment] = []
    for segment in reversed(segments):
        if segment.level != level:
            break
        run.append(segment)
    return run[::-1]
