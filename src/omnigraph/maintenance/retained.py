"""Which entries of the chains are kept: by policy, by branches and tags, and by running writes."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from omnigraph.errors import HistoryGap
from omnigraph.history import Commit, CommitRef, Entry, History, PreparedPlan
from omnigraph.history.chain import position_of
from omnigraph.history.leases import Lease
from omnigraph.history.log import Log
from omnigraph.history.values import LogSegment
from omnigraph.storage import ObjectInfo

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
        for commit in merge_bases(self.history, references.heads):
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

    def newest_at_cutoff(self) -> list[tuple[str, int]]:
        """The last entry before the cutoff of every branch that has a later one."""
        places = []
        for branch, infos in self.chains.items():
            older = [position for position, info in infos.items() if info.modified.timestamp() < self.cutoff]
            if older and max(older) < max(infos):
                places.append((branch, max(older)))
        return places

    def add_recent(self, entries: Iterable[Entry]) -> None:
        """Keep the commits at which these entries left their branches. It may be in an earlier entry: a fence, or an entry that
        opens a branch, does not supersede the commit it stands on."""
        self.recent |= {(ref.branch, ref.position) for ref in (entry.head.commit.ref for entry in entries)}

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


def merge_bases(history: History, heads: Iterable[Entry]) -> Iterable[Commit]:
    """Every commit that is a best common ancestor of two of these heads, except those that are removed already.

    Branches that reach the same commits count once, and so do pairs that share the same commits: the number of reads grows with
    the number of points where branches parted, not with the number of pairs.
    """
    entries = list(heads)
    vectors = [history.lineage.reached(entry.ancestry) for entry in entries]
    reached_by: dict[str, int] = defaultdict(int)
    for vector in vectors:
        for incarnation in vector:
            reached_by[incarnation] += 1
    parts: dict[frozenset[tuple[str, int]], int] = defaultdict(int)
    for vector in vectors:
        parts[frozenset((name, seq) for name, seq in vector.items() if reached_by[name] > 1)] += 1
    shared = {part for part, count in parts.items() if count > 1}
    for left, right in itertools.combinations([dict(part) for part in parts], 2):
        shared.add(frozenset((name, min(left[name], right[name])) for name in left.keys() & right.keys()))
    bases: dict[str, Commit] = {}
    for part in shared:
        with contextlib.suppress(HistoryGap):
            vector = dict(part)
            bases |= {commit.id: commit for commit in history.lineage.common_ancestors(vector, vector, entries)}
    return bases.values()


class _CachingLog(Log):
    """A log that reads every segment once, however many branches have it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.store, log.new_id, max_tail=log.max_tail)
        self._segments: dict[str, Sequence[Commit]] = {}

    def _load(self, segment: LogSegment) -> Sequence[Commit]:
        if segment.id not in self._segments:
            self._segments[segment.id] = super()._load(segment)
        return self._segments[segment.id]
