"""The log of a branch: commit records newest first, read from few objects.

The newest records stand in the entry itself (`tail`); when MAX_TAIL have gathered, the next writer rolls them into one
stored segment, and SEGMENTS_PER_LEVEL segments of a level into one of the next. A branch inherits its source's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from omnigraph.errors import CommitNotFound
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history.encoding import Tail, decode_records, encode_records
from omnigraph.history.envelope import required
from omnigraph.history.values import Commit, Entry, LogSegment
from omnigraph.remembered import Remembered
from omnigraph.storage import Store

MAX_TAIL = 64
MAX_TAIL_TEXT = 64 * 1024
"""Characters of actors and messages in a tail: every entry repeats them until they are rolled up."""
SEGMENTS_PER_LEVEL = 4
SEGMENTS_HELD = 16
MAX_COMMITS_HELD = 1_024
"""A longer segment is read again when it is asked for."""


class Log:
    def __init__(self, store: Store, new_id: Callable[[], str], *, max_tail: int = MAX_TAIL) -> None:
        self.store = store
        self.new_id = new_id
        self.max_tail = max_tail
        self._held: Remembered[Sequence[Commit]] = Remembered(SEGMENTS_HELD)
        """Segments that were stored here, by id: they are soon rolled up with the next ones."""

    # ------------------------------------------------------------ writing

    def following(self, entry: Entry) -> tuple[tuple[Commit, ...], tuple[LogSegment, ...]]:
        """Tail and segments for the entry after this one; rolls up when the tail is full (garbage if that entry loses)."""
        tail = Tail.of(entry.tail).followed_by([step.commit for step in entry.steps])
        if len(tail) < self.max_tail and tail.attribution_size <= MAX_TAIL_TEXT:
            return tail, entry.segments
        segments = list(entry.segments)
        reach(Failpoint.HISTORY_BEFORE_ROLLUP)
        segments.append(self._store(0, tail))
        level = 0
        while len(run := _last_of_level(segments, level)) >= SEGMENTS_PER_LEVEL:
            merged = [commit for segment in run for commit in self._load(segment)]
            segments[-len(run) :] = [self._store(level + 1, merged)]
            level += 1
        reach(Failpoint.HISTORY_AFTER_ROLLUP)
        return (), tuple(segments)

    def _store(self, level: int, commits: Sequence[Commit]) -> LogSegment:
        ids = [commit.id for commit in commits]
        first, last = commits[0], commits[-1]
        segment = LogSegment(
            id=self.new_id(),
            level=level,
            first_seq=first.ref.seq,
            last_seq=last.ref.seq,
            min_id=min(ids),
            max_id=max(ids),
            first_at=first._at_us,
            last_at=last._at_us,
        )
        self.store.put(segment.key, encode_records(commits))
        if len(commits) <= MAX_COMMITS_HELD:
            self._held.put(segment.id, commits)
        return segment

    # ------------------------------------------------------------ reading

    def walk(self, entry: Entry) -> Iterator[Commit]:
        """Every commit of the branch, newest first, along first parents."""
        return self._below(entry, entry.head.commit.ref.seq + 1)

    def page(self, entry: Entry, *, limit: int, before: str | None = None, actor: str | None = None) -> list[Commit]:
        """Up to `limit` commits (of one actor), newest first, starting after the commit `before` or at the head.

        CommitNotFound when `before` is not a commit of the branch.
        """
        commits = self.walk(entry) if before is None else self._below(entry, self._found(entry, before).ref.seq)
        return list(islice((commit for commit in commits if actor is None or commit.actor == actor), limit))

    def _found(self, entry: Entry, commit_id: str) -> Commit:
        commit = self.find(entry, commit_id)
        if commit is None:
            raise CommitNotFound(
                f"commit '{commit_id}' is not in branch '{entry.branch}'",
                hint=f"omnigraph commit list --branch {entry.branch} shows its commits",
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
        """The commit with this id, or None when it is not in this branch's log."""
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
        """The commits of this branch's log whose ids begin like this."""
        commits = [commit for commit in self._recent(entry) if commit.id.startswith(prefix)]
        for segment in reversed(entry.segments):
            if segment.min_id[: len(prefix)] <= prefix <= segment.max_id[: len(prefix)]:
                commits += [commit for commit in self._load(segment) if commit.id.startswith(prefix)]
        return commits

    def by_seq(self, entry: Entry, seq: int) -> Commit | None:
        """The commit at a place counted along first parents."""
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
        held = self._held.find(segment.id)
        if held is not None:
            return held
        affected = f"the log lacks the records of commits {segment.first_seq} to {segment.last_seq}"
        return decode_records(required(self.store, segment.key, affected), segment.key, affected)


def _last_of_level(segments: Sequence[LogSegment], level: int) -> list[LogSegment]:
    run: list[LogSegment] = []
    for segment in reversed(segments):
        if segment.level != level:
            break
        run.append(segment)
    return run[::-1]
