"""Who descends from whom: ancestry as a vector of lines, and the merge bases of two heads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from omnigraph.errors import HistoryGap
from omnigraph.history.chain import Chain
from omnigraph.history.values import Ancestry, Commit, CommitRef, Entry

ANCESTRY_INLINE = 128


def new_line(branch: str, position: int, entry_id: str) -> str:
    """The name of a branch's life that starts at a position of its chain."""
    return f"{branch}@{position}.{entry_id}"


def line_start(line: str) -> tuple[str, int]:
    """The branch and the position a line starts at."""
    branch, _, rest = line.rpartition("@")
    return branch, int(rest.partition(".")[0])


class Lineage:
    def __init__(self, chain: Chain, new_id: Callable[[], str]) -> None:
        self.chain = chain
        self.new_id = new_id

    # ------------------------------------------------------------ ancestry

    def after(self, ancestry: Ancestry, commit: CommitRef, merged: Mapping[str, int] | None = None) -> Ancestry:
        """The ancestry of a commit on top of `ancestry`, with a merged parent's lines joined in."""
        lines = dict(ancestry.lines)
        for line, seq in (merged or {}).items():
            lines[line] = max(seq, lines.get(line, -1))
        lines[commit.line] = commit.seq
        grown = replace(ancestry, lines=lines)
        if len(lines) <= ANCESTRY_INLINE:
            return grown
        key = f"history/{self.new_id()}.lines.json"
        # The own line is never stored: an older commit of this entry reaches less of it.
        whole = {line: seq for line, seq in self.lines(grown).items() if line != commit.line}
        self.chain.store.put(key, json.dumps(whole, separators=(",", ":")).encode())
        return Ancestry({commit.line: commit.seq}, key)

    def lines(self, ancestry: Ancestry) -> dict[str, int]:
        """The whole vector."""
        if ancestry.stored is None:
            return dict(ancestry.lines)
        whole: dict[str, int] = json.loads(self.chain.store.get(ancestry.stored))
        for line, seq in ancestry.lines.items():
            whole[line] = max(seq, whole.get(line, -1))
        return whole

    def lines_at(self, entry: Entry, commit: CommitRef) -> dict[str, int]:
        """The vector of one commit of an entry (merges stand alone in their entry, so only the own line differs)."""
        lines = self.lines(entry.ancestry)
        lines[commit.line] = commit.seq
        return lines

    # ------------------------------------------------------------ places

    def entry_of(self, ref: CommitRef) -> Entry:
        """The entry that holds a commit; HistoryGap when it was swept."""
        entry = self.chain.read(ref.branch, ref.position)
        if all(step.commit.id != ref.id for step in entry.steps):
            raise HistoryGap(f"commit {ref.id} of branch '{ref.branch}' was swept", hint="start from a newer commit")
        return entry

    def commit_on_line(self, line: str, seq: int, newest: int) -> CommitRef:
        """The commit with this seq on a line. Every entry but the opening one adds at least one commit, so it lies at most
        `seq` entries after the line's start, and exactly there when no commits were published in groups."""
        branch, start = line_start(line)
        low, high = start, min(newest, start + seq)
        probe = high
        while low <= high:
            entry = self.chain.find(branch, probe)
            seqs = [] if entry is None else [step.commit.ref.seq for step in entry.steps]
            if entry is not None and entry.line == line and seqs and seqs[0] <= seq <= seqs[-1]:
                return entry.steps[seq - seqs[0]].commit.ref
            if _lies_before(entry, line, seq):
                low = probe + 1
            else:
                high = probe - 1
            probe = (low + high) // 2
        raise HistoryGap(f"commit {seq} of branch '{branch}' was swept", hint="start from a newer commit")

    # ------------------------------------------------------------ merge bases

    def merge_bases(self, a: Entry, b: Entry) -> list[Commit]:
        """The best common ancestors of two heads: one, unless merges crossed. Newest first."""
        lines_a, lines_b = self.lines(a.ancestry), self.lines(b.ancestry)
        for mine, theirs, entry in ((lines_a, lines_b, b), (lines_b, lines_a, a)):
            tip = entry.head.commit.ref
            if mine.get(tip.line, -1) >= tip.seq and theirs:
                return [entry.head.commit]
        shared = {line: min(lines_a[line], lines_b[line]) for line in lines_a.keys() & lines_b.keys()}
        # Lines on which one side is ahead are where the sides parted; the rest is almost always below those.
        open_lines = sorted(shared, key=lambda line: (lines_a[line] == lines_b[line], -shared[line], line))
        bases: list[tuple[Commit, dict[str, int]]] = []
        for line in open_lines:
            seq = shared[line]
            if any(reached.get(line, -1) >= seq for _, reached in bases):
                continue
            ref = self._locate(line, seq, a, b)
            entry = self.entry_of(ref)
            commit = next(step.commit for step in entry.steps if step.commit.id == ref.id)
            reached = self.lines_at(entry, ref)
            bases = [known for known in bases if reached.get(known[0].ref.line, -1) < known[0].ref.seq]
            bases.append((commit, reached))
        return sorted((commit for commit, _ in bases), key=lambda commit: (-commit.at, commit.id))

    def _locate(self, line: str, seq: int, a: Entry, b: Entry) -> CommitRef:
        """Where a shared commit is: named by a recent record if possible, else by a search of its branch."""
        for entry in (a, b):
            for commit in (*entry.tail, entry.before.commit, *(step.commit for step in entry.steps)):
                for ref in (commit.ref, *commit.parents):
                    if ref.line == line and ref.seq == seq:
                        return ref
        branch, _ = line_start(line)
        newest = self.chain.newest(branch)
        if newest is None:
            raise HistoryGap(f"branch '{branch}' left no history", hint="start from a newer commit")
        return self.commit_on_line(line, seq, newest.position)


def _lies_before(entry: Entry | None, line: str, seq: int) -> bool:
    """Whether an entry of the line's branch stands before the commit `seq` of the line. What is swept is the oldest."""
    if entry is None:
        return True
    if entry.line != line:
        return line_start(entry.line)[1] < line_start(line)[1]
    return entry.op == "create" or (entry.op == "commit" and entry.steps[-1].commit.ref.seq < seq)
