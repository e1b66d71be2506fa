"""Every object that kept commits need: the one definition that cleanup, verification and copies share."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import unquote

from omnigraph.errors import HistoryGap
from omnigraph.history.chain import key_of, position_of
from omnigraph.history.envelope import schema_key
from omnigraph.history.genesis import GRAPH_KEY
from omnigraph.history.history import History
from omnigraph.history.log import Log
from omnigraph.history.plan import PreparedPlan, PublishPlan
from omnigraph.history.retention import Lease
from omnigraph.history.values import Commit, CommitRef, Entry, LogSegment, Snapshot, TableState
from omnigraph.metering import Threads
from omnigraph.storage.store import ObjectInfo
from omnigraph.tables.verifying import TableFiles

# Which entries of the chains are kept: by policy, by branches and tags, and by running writes.

Chains = Mapping[str, Mapping[int, ObjectInfo]]
"""The listed entries of every branch, by position."""


@dataclass(frozen=True)
class RetentionPolicy:
    """How much of its own history a branch keeps: its `keep` newest commits, and those younger than `older_than` seconds.

    With neither, all of it. A branch that is not among `branches` (None: all are) keeps all of it too.
    """

    keep: int | None = None
    older_than: float | None = None
    branches: frozenset[str] | None = None

    def concerns(self, branch: str) -> bool:
        return self.branches is None or branch in self.branches

    def keeps_all_of(self, branch: str) -> bool:
        return not self.concerns(branch) or (self.keep is None and self.older_than is None)

    def keeps(self, place: int, age_s: float) -> bool:
        """Whether a branch that does not keep everything keeps the commit at this place, counted from 0 at the head."""
        return place < (1 if self.keep is None else self.keep) or (
            self.older_than is not None and age_s < self.older_than
        )


def listed_chains(infos: Iterable[ObjectInfo]) -> Chains:
    """The chains in a listing of `branches`. Damaged if there is something else in a branch's folder."""
    chains: dict[str, dict[int, ObjectInfo]] = defaultdict(dict)
    for info in infos:
        chains[unquote(info.key.split("/")[1])][position_of(info.key)] = info
    return chains


@dataclass(frozen=True)
class References:
    """Everything that keeps commits, as it was found at one time."""

    newest: Mapping[str, Entry]
    """The newest entry of every branch, deleted ones included."""
    tags: Mapping[str, CommitRef]
    plans: tuple[PreparedPlan, ...]
    leases: tuple[Lease, ...]

    @property
    def heads(self) -> list[Entry]:
        return [entry for entry in self.newest.values() if entry.alive]


@dataclass
class Retained:
    """The entries that are kept, and by what."""

    history: History
    policy: RetentionPolicy
    chains: Chains
    now: float
    cutoff: float
    """By the store's clock. What was superseded later is kept, whatever the policy says."""
    keepers: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    recent: set[tuple[str, int]] = field(default_factory=set)
    """Entries of commits at which a branch was after the cutoff."""
    floors: dict[str, int] = field(default_factory=dict)
    """Watermarks by branch, as found after the chains were listed."""
    tagged: dict[CommitRef, Entry] = field(default_factory=dict)
    """The entries of tagged commits. They never change."""

    def add(self, references: References) -> None:
        log = _CachingLog(self.history.log)
        for head in references.heads:
            self._add_branch(head, log)
        for name, ref in references.tags.items():
            self._keep(ref, f"tag {name}")
        for lease in references.leases:
            self._keep(lease.commit, "a running write")
        for prepared in references.plans:
            opening = prepared.plan.opening
            if opening is not None:
                self._keep(opening.before.commit.ref, "a prepared write")
        for ref in references.tags.values():
            if ref not in self.tagged and (entry := self.history.chain.find(ref.branch, ref.position)) is not None:
                self.tagged[ref] = entry
        tagged = {ref: self.tagged[ref] for ref in references.tags.values() if ref in self.tagged}
        for commit in merge_bases(self.history, references.heads, tagged):
            self._keep(commit.ref, "later merges")

    def _add_branch(self, head: Entry, log: Log) -> None:
        keeper = f"branch {head.branch}"
        self.keepers[head.branch, head.position].add(keeper)
        for place, commit in enumerate(log.walk(head)):
            info = self.chains.get(commit.ref.branch, {}).get(commit.ref.position)
            if place and info is None and self._was_removed(commit.ref):
                return  # So is everything older, unless something else keeps it.
            age = 0.0 if info is None else self.now - info.modified.timestamp()
            if not self.policy.keeps_all_of(head.branch) and not self.policy.keeps(place, age):
                return
            self._keep(commit.ref, keeper)

    def _was_removed(self, ref: CommitRef) -> bool:
        """Whether a cleanup removed an entry that was not listed. Damaged if it is lost: then it is not known what older commits
        need."""
        chain = self.history.chain
        if ref.branch not in self.floors:
            self.floors[ref.branch] = chain.floor(ref.branch)
        if ref.position >= self.floors[ref.branch]:
            with contextlib.suppress(HistoryGap):
                chain.read(ref.branch, ref.position)
                return False
        return True

    def _keep(self, ref: CommitRef, keeper: str) -> None:
        self.keepers[ref.branch, ref.position].add(keeper)

    def newest_since_cutoff(self) -> list[tuple[str, int]]:
        """The entries that were the newest of their branches at the cutoff or later."""
        places = []
        for branch, infos in self.chains.items():
            older = [position for position, info in infos.items() if info.modified.timestamp() < self.cutoff]
            first = max(older, default=min(infos))
            places += [(branch, position) for position in sorted(infos) if position >= first]
        return places

    def add_recent(self, entries: Iterable[Entry]) -> None:
        """Keep the commits at which these entries left their branches. Such a commit may be in an earlier entry: a fence does not
        supersede the commit it stands on. Or it may be another branch's, which moved on long ago: a branch begins there."""
        self.recent |= {
            (ref.branch, ref.position) for ref in (entry.head.commit.ref for entry in entries if entry.alive)
        }

    def doomed(self, branch: str) -> list[int]:
        """The positions that nothing keeps, except the newest and those that were superseded after the cutoff."""
        return [position for position, is_recent in self._unneeded(branch) if not is_recent]

    def young(self, branch: str) -> list[int]:
        """The positions that are kept only because they were superseded after the cutoff."""
        return [position for position, is_recent in self._unneeded(branch) if is_recent]

    def _unneeded(self, branch: str) -> Iterator[tuple[int, bool]]:
        """The positions that nothing keeps, except the newest, and whether each was superseded after the cutoff."""
        infos = self.chains.get(branch, {})
        for position, following in itertools.pairwise(sorted(infos)):
            if (branch, position) not in self.keepers and not self._is_young(branch, position):
                is_recent = (branch, position) in self.recent
                yield position, is_recent or infos[following].modified.timestamp() >= self.cutoff

    def _is_young(self, branch: str, position: int) -> bool:
        """Whether the policy keeps an entry for its age or its branch. Entries of former incarnations have no head to count from."""
        if not self.policy.concerns(branch):
            return True
        age = self.now - self.chains[branch][position].modified.timestamp()
        return self.policy.older_than is not None and age < self.policy.older_than


def merge_bases(history: History, heads: Iterable[Entry], tagged: Mapping[CommitRef, Entry]) -> Iterable[Commit]:
    """Every commit that is a best common ancestor of two of these heads, or of a tagged commit and another of all these, except
    those that are removed already, and what a merge on several of them needs. A branch that starts at a tag can so be merged with
    every other.

    Branches that reach the same commits count once, and so do pairs that share the same commits: the number of reads grows with
    the number of points where branches parted, not with the number of pairs.
    """
    entries = list(heads)
    vectors = [history.lineage.reached(entry.ancestry) for entry in entries]
    shared = _shared_by_heads(vectors)
    tips = [(entry.head.commit.ref, vector) for entry, vector in zip(entries, vectors, strict=True)]
    for ref, entry in tagged.items():
        vector = history.lineage.reached_at(entry, ref)
        # If one has the other among its ancestors, that is the base, and it is kept anyway.
        shared |= {
            _shared(vector, other)
            for tip, other in tips
            if other.get(ref.incarnation, -1) < ref.seq and vector.get(tip.incarnation, -1) < tip.seq
        }
        tips.append((ref, vector))
    kept: dict[str, Commit] = {}
    crossed: set[tuple[str, ...]] = set()
    for part in shared:
        with contextlib.suppress(HistoryGap):
            reached = dict(part)
            bases = history.lineage.common_ancestors(reached, reached, entries)
            kept |= {commit.id: commit for commit in (*bases, *_below(history, bases, crossed))}
    return kept.values()


def _below(history: History, bases: Sequence[Commit], crossed: set[tuple[str, ...]]) -> Iterator[Commit]:
    """The commits on which several bases are merged with each other, those on which these are merged if they are several, and so
    on. `crossed` are the ids of bases that were looked at."""
    todo = [tuple(bases)]
    while todo:
        commits = todo.pop()
        for count in range(2, len(commits) + 1):
            ids = tuple(commit.id for commit in commits[:count])
            if ids not in crossed:
                crossed.add(ids)
                with contextlib.suppress(HistoryGap):
                    older = history.lineage.base_of_bases(commits[:count])
                    yield from older
                    todo.append(tuple(older))


def _shared_by_heads(vectors: Sequence[Mapping[str, int]]) -> set[frozenset[tuple[str, int]]]:
    """What two of these vectors both reach, for any two of them."""
    reached_by: dict[str, int] = defaultdict(int)
    for vector in vectors:
        for incarnation in vector:
            reached_by[incarnation] += 1
    parts: dict[frozenset[tuple[str, int]], int] = defaultdict(int)
    for vector in vectors:
        parts[frozenset((name, seq) for name, seq in vector.items() if reached_by[name] > 1)] += 1
    shared = {part for part, count in parts.items() if count > 1}
    return shared | {_shared(left, right) for left, right in itertools.combinations([dict(part) for part in parts], 2)}


def _shared(left: Mapping[str, int], right: Mapping[str, int]) -> frozenset[tuple[str, int]]:
    return frozenset((name, min(left[name], right[name])) for name in left.keys() & right.keys())


class _CachingLog(Log):
    """A log that reads every segment once, however many branches have it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.store, log.new_id, max_tail=log.max_tail)
        self._segments: dict[str, Sequence[Commit]] = {}

    def _load(self, segment: LogSegment) -> Sequence[Commit]:
        if segment.id not in self._segments:
            self._segments[segment.id] = super()._load(segment)
        return self._segments[segment.id]


READ_THREADS = 16
"""How many small objects are read at the same time."""

FilesOf = Callable[[TableState], TableFiles]
T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], values: Sequence[T], threads: int) -> list[R]:
    """The result of the function for each value, in order, with this many threads."""
    if threads == 1 or len(values) < 2:
        return [function(value) for value in values]
    with Threads(min(threads, len(values))) as pool:
        return list(pool.map(function, values))


def history_objects(entry: Entry) -> set[str]:
    """The objects other than tables that an entry needs, itself included: schemas, log, write keys, ancestry."""
    keys = {GRAPH_KEY, key_of(entry.branch, entry.position), *_named_objects(entry)}
    return keys | {schema_key(step.schema) for step in entry.steps}


def _named_objects(entry: Entry) -> Iterator[str]:
    yield schema_key(entry.before.schema)
    yield from (segment.key for segment in entry.segments)
    yield from (place.key for place in entry.key_objects)
    if entry.ancestry.stored is not None:
        yield entry.ancestry.stored


def entry_snapshots(entry: Entry) -> tuple[Snapshot, ...]:
    """The states that are kept with an entry: those of its commits or, if it has none, the state that it is based on.

    The state before its first commit belongs to the previous entry, and so does the last state of a deleted branch.
    """
    return entry.snapshots() or ((entry.before,) if entry.alive else ())


def plan_states(plan: PublishPlan) -> Iterator[tuple[str, TableState]]:
    """The states that publishing a prepared plan needs, with the keys of their types."""
    stated = [(change.key, change.state) for change in plan.changes] + list(plan.bases().items())
    stated += [(change.key, change.noted) for change in plan.changes]
    if plan.opening is not None:
        stated += plan.opening.before.tables.items()
    yield from ((key, state) for key, state in stated if state is not None)


@dataclass
class Reachable:
    """The objects that the added entries, states and plans need: they read no others.

    Keys are those of the graph's store. An object is needed if its key is in `objects`, or is in one of `folders` (index
    segments, whose files are not named in manifests). Each version of a table is opened once, however many commits have it, with
    one or two requests. Damaged if the manifest of a kept version cannot be read: then it is not known what is needed.
    """

    files_of: FilesOf
    threads: int = READ_THREADS
    objects: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    states: dict[TableState, TableFiles] = field(default_factory=dict)
    _versions: dict[tuple[str, int], TableFiles] = field(default_factory=dict)

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add entries with the states of their commits; nothing, if a manifest of one of them cannot be read."""
        added = list(entries)
        snapshots = [snapshot for entry in added for snapshot in entry_snapshots(entry)]
        self.add_states(state for snapshot in snapshots for state in snapshot.tables.values())
        for entry in added:
            self.objects |= history_objects(entry)

    def add_plan(self, plan: PublishPlan) -> None:
        """Add what publishing a prepared plan needs: the versions it staged, the state and history of a branch that it creates,
        and the versions it is compared with in a rebase."""
        self.objects |= {schema_key(digest) for digest in (plan.schema, plan.new_schema) if digest is not None}
        if plan.opening is not None:
            self.objects.update(_named_objects(plan.opening))
        self.add_states(state for _, state in plan_states(plan))

    def add_states(self, states: Iterable[TableState]) -> None:
        new = [state for state in set(states) if state not in self.states]
        unread = {(state.path, state.version): state for state in new}
        unread = {version: state for version, state in unread.items() if version not in self._versions}
        for version, files in zip(
            unread, side_by_side(self.files_of, list(unread.values()), self.threads), strict=True
        ):
            self._versions[version] = files
            self.objects.update(files.keys)
            self.folders.update(files.indexes)
        for state in new:
            self.states[state] = self._versions[state.path, state.version]

    def needs(self, key: str) -> bool:
        return key in self.objects or (index_folder(key) or "") in self.folders


def index_folder(key: str) -> str | None:
    """The folder of the index segment that an object belongs to: `nodes/<table>/_indices/<uuid>`; None for any other."""
    parts = key.split("/", 4)
    return "/".join(parts[:4]) if len(parts) == 5 and parts[2] == "_indices" else None
