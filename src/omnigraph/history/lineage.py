"""Ancestry as a vector of incarnations, and the merge bases of two heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraph.errors import HistoryGap
from omnigraph.history.chain import Chain, swept
from omnigraph.history.envelope import read_as, required, seal, unseal
from omnigraph.history.values import Ancestry, Commit, CommitRef, Entry, incarnation_start

ANCESTRY_INLINE = 128


class Lineage:
    def __init__(self, chain: Chain, new_id: Callable[[], str]) -> None:
        self.chain = chain
        self.new_id = new_id

    # ------------------------------------------------------------ ancestry

    def after(self, ancestry: Ancestry, commit: CommitRef, merged: Mapping[str, int] | None = None) -> Ancestry:
        """The ancestry of a commit on top of `ancestry`, with a merged parent's incarnations joined in."""
        reached = dict(ancestry.reached)
        for incarnation, seq in (merged or {}).items():
            reached[incarnation] = max(seq, reached.get(incarnation, -1))
        reached[commit.incarnation] = commit.seq
        grown = replace(ancestry, reached=reached)
        if len(reached) <= ANCESTRY_INLINE:
            return grown
        key = f"history/{self.new_id()}.ancestry.json"
        # The commit's own incarnation is never stored: an older commit of the entry reaches less of it.
        whole = {name: seq for name, seq in self.reached(grown).items() if name != commit.incarnation}
        self.chain.store.put(key, seal({"reached": dict(sorted(whole.items()))}))
        return Ancestry({commit.incarnation: commit.seq}, key)

    def reached(self, ancestry: Ancestry) -> dict[str, int]:
        """The whole vector, including the stored part."""
        if ancestry.stored is None:
            return dict(ancestry.reached)
        affected = "branches whose history it holds cannot be merged"
        value = unseal(ancestry.stored, required(self.chain.store, ancestry.stored, affected), affected)
        whole: dict[str, int] = read_as(ancestry.stored, lambda: dict(value["reached"]), affected)
        for incarnation, seq in ancestry.reached.items():
            whole[incarnation] = max(seq, whole.get(incarnation, -1))
        return whole

    def reached_at(self, entry: Entry, commit: CommitRef) -> dict[str, int]:
        """The vector of one commit of an entry (a merge has an entry to itself, so only the own incarnation differs)."""
        reached = self.reached(entry.ancestry)
        reached[commit.incarnation] = commit.seq
        return reached

    def missed(self, entry: Entry, others: Iterable[Mapping[str, int]]) -> int:
        """How many commits the head of an entry reaches that none of the other vectors does. Vectors are consumed only until
        nothing is missed; commits that cleanup removed do not count."""
        wanted = self.reached(entry.ancestry)
        covered: dict[str, int] = {}
        for other in others:
            for incarnation in wanted.keys() & other.keys():
                covered[incarnation] = max(other[incarnation], covered.get(incarnation, -1))
            if all(covered.get(incarnation, -1) >= seq for incarnation, seq in wanted.items()):
                return 0
        return sum(
            max(0, seq - (covered[incarnation] if incarnation in covered else self._seq_before(incarnation, seq)))
            for incarnation, seq in wanted.items()
        )

    def _seq_before(self, incarnation: str, newest: int) -> int:
        """The seq of the commit that an incarnation starts from, or of the newest one that cleanup removed; `newest` if it
        removed all."""
        branch, start = incarnation_start(incarnation)
        entry = self.chain.find(branch, start) or self.chain.find(branch, self.chain.floor(branch))
        return newest if entry is None or entry.incarnation != incarnation else entry.before.commit.ref.seq

    # ------------------------------------------------------------ positions

    def entry_of(self, ref: CommitRef) -> Entry:
        """The entry that has a commit; HistoryGap if cleanup removed it."""
        cached = self.chain.cached_head(ref.branch)  # Cleanup does not remove what was the head a short while ago.
        is_head = cached is not None and cached[0].position == ref.position
        entry = cached[0] if cached is not None and is_head else self.chain.read(ref.branch, ref.position)
        if all(step.commit.id != ref.id for step in entry.steps):
            raise swept(ref.branch, f"commit {ref.id}", self.chain.floor(ref.branch))
        return entry

    def commit_at(self, incarnation: str, seq: int, newest: int) -> CommitRef:
        """The commit with this seq of an incarnation, found by bisection. It is at most `seq` entries after the start of the
        incarnation, and exactly there if no commits were published in groups, unless there are fences in between."""
        branch, start = incarnation_start(incarnation)
        positions: Sequence[int] = range(start, newest + 1)
        low, high = 0, len(positions) - 1
        probe = min(high, seq)
        while low <= high:
            entry = self.chain.find(branch, positions[probe])
            seqs = [] if entry is None else [step.commit.ref.seq for step in entry.steps]
            if entry is not None and entry.incarnation == incarnation and seqs and seqs[0] <= seq <= seqs[-1]:
                return entry.steps[seq - seqs[0]].commit.ref
            if entry is None and isinstance(positions, range):
                # Cleanup has left single entries below its watermark.
                span = positions[low : high + 1]
                positions = [position for position in self.chain.positions(branch) if position in span]
                low, high = 0, len(positions) - 1
            elif _lies_before(entry, incarnation, seq):
                low = probe + 1
            else:
                high = probe - 1
            probe = (low + high) // 2
        raise swept(branch, f"commit {seq} of branch '{branch}'", self.chain.floor(branch))

    # ------------------------------------------------------------ merge bases

    def merge_bases(self, a: Entry, b: Entry) -> list[tuple[Commit, Entry]]:
        """The best common ancestors of two heads, each with an entry that has its snapshot: one, unless merges crossed. Newest
        first."""
        reached_a, reached_b = self.reached(a.ancestry), self.reached(b.ancestry)
        for mine, theirs, entry in ((reached_a, reached_b, b), (reached_b, reached_a, a)):
            tip = entry.head.commit.ref
            if mine.get(tip.incarnation, -1) >= tip.seq and theirs:
                return [(entry.head.commit, entry)]
        return self._common_ancestors(reached_a, reached_b, (a, b))

    def common_ancestors(
        self, reached_a: Mapping[str, int], reached_b: Mapping[str, int], near: Sequence[Entry]
    ) -> list[Commit]:
        """The best common ancestors of everything that two vectors reach, newest first; entries `near` them may have their
        positions."""
        return [commit for commit, _ in self._common_ancestors(reached_a, reached_b, near)]

    def base_of_bases(self, bases: Sequence[Commit]) -> list[Commit]:
        """The best common ancestors of the last of several merge bases and the others combined, on which these are merged with each
        other."""
        entries = [self.entry_of(commit.ref) for commit in bases]
        reached = [self.reached_at(entry, commit.ref) for entry, commit in zip(entries, bases, strict=True)]
        others: dict[str, int] = {}
        for ancestor in reached[:-1]:
            others |= {name: max(seq, others.get(name, -1)) for name, seq in ancestor.items()}
        return self.common_ancestors(others, reached[-1], entries)

    def _common_ancestors(
        self, reached_a: Mapping[str, int], reached_b: Mapping[str, int], near: Sequence[Entry]
    ) -> list[tuple[Commit, Entry]]:
        shared = {name: min(reached_a[name], reached_b[name]) for name in reached_a.keys() & reached_b.keys()}
        # The sides parted on incarnations on which one side is ahead; the rest is almost always older.
        candidates = sorted(shared, key=lambda name: (reached_a[name] == reached_b[name], -shared[name], name))
        bases: list[tuple[Commit, dict[str, int], Entry]] = []
        gaps: dict[str, HistoryGap] = {}
        for incarnation in candidates:
            seq = shared[incarnation]
            if any(reached.get(incarnation, -1) >= seq for _, reached, _ in bases):
                continue
            try:
                ref = self._locate(incarnation, seq, near)
                entry = self.entry_of(ref)
            except HistoryGap as error:
                gaps[incarnation] = error
                continue
            commit = next(step.commit for step in entry.steps if step.commit.id == ref.id)
            reached = self.reached_at(entry, ref)
            bases = [known for known in bases if reached.get(known[0].ref.incarnation, -1) < known[0].ref.seq]
            bases.append((commit, reached, entry))
        for incarnation, gap in gaps.items():
            # Cleanup keeps the best ancestors only, so one that is gone matters only if no other descends from it.
            if all(reached.get(incarnation, -1) < shared[incarnation] for _, reached, _ in bases):
                raise gap
        return [(commit, entry) for commit, _, entry in sorted(bases, key=lambda base: (-base[0]._at_us, base[0].id))]

    def _locate(self, incarnation: str, seq: int, near: Sequence[Entry]) -> CommitRef:
        """Find a shared commit: in a recent record if possible, otherwise by a search of its branch."""
        for entry in near:
            for commit in (*entry.tail, entry.before.commit, *(step.commit for step in entry.steps)):
                for ref in (commit.ref, *commit.parents):
                    if ref.incarnation == incarnation and ref.seq == seq:
                        return ref
        branch, _ = incarnation_start(incarnation)
        newest = self.chain.newest(branch)
        if newest is None:
            raise HistoryGap(f"branch '{branch}' left no history", hint="start from a newer commit")
        if newest.incarnation == incarnation:
            # The log has its position even if cleanup removed the entries around it.
            recorded = self.chain.log.by_seq(newest, seq)
            if recorded is not None and (recorded.ref.incarnation, recorded.ref.seq) == (incarnation, seq):
                return recorded.ref
        return self.commit_at(incarnation, seq, newest.position)


def _lies_before(entry: Entry | None, incarnation: str, seq: int) -> bool:
    """Whether an entry of the branch precedes commit `seq` of the incarnation. One that a cleanup has just removed is an old one."""
    if entry is None:
        return True
    if entry.incarnation != incarnation:
        return incarnation_start(entry.incarnation)[1] < incarnation_start(incarnation)[1]
    if entry.op == "delete":
        return False
    return entry.head.commit.ref.seq < seq
