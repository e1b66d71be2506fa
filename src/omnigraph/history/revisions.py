"""Revisions: finds the commit that a user names by a branch, `branch~N`, a tag, a commit id or a unique beginning of one, or a
time."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import replace

from omnigraph.errors import AmbiguousRevision, BranchNotFound, CommitNotFound, Damaged, HistoryGap, UsageError
from omnigraph.history.chain import COMMIT_ID, COMMIT_ID_PREFIX, MAIN, Chain
from omnigraph.history.lineage import Lineage
from omnigraph.history.log import Log
from omnigraph.history.tags import Tags
from omnigraph.history.values import (
    Commit,
    CommitRef,
    Entry,
    Snapshot,
    incarnation_start,
    parse_time,
    time_of,
    to_microseconds,
)

_BACK = re.compile(r"(?P<branch>.+)~(?P<steps>[0-9]{1,12})")

AMBIGUOUS_SHOWN = 5
MAX_REVISION = 256
"""The maximum length: that of a name of a branch or tag, and room for `~N`."""


class Revisions:
    def __init__(self, chain: Chain, log: Log, lineage: Lineage, tags: Tags) -> None:
        self.chain = chain
        self.log = log
        self.lineage = lineage
        self.tags = tags
        self._untagged: dict[str, str] = {}
        """Branches whose name is not a tag's, with the incarnation for which that was checked."""

    def snapshot(self, ref: CommitRef) -> Snapshot:
        """The state right after a commit, of any branch and age."""
        return snapshot_in(self.lineage.entry_of(ref), ref)

    def resolve(self, revision: str, as_of: str | dt.datetime | None = None) -> Snapshot:
        """The state that a revision names; with `as_of`, a branch as it was at that time."""
        named = self._find(revision, as_of)
        if isinstance(named, Entry):
            return named.head
        return self.snapshot(named.ref if isinstance(named, Commit) else named)

    def commit(self, revision: str, as_of: str | dt.datetime | None = None) -> Commit:
        """The commit that a revision names; it is found even if cleanup removed its state."""
        named = self._find(revision, as_of)
        match named:
            case Entry():
                return named.head.commit
            case Commit():
                return named
        return self.snapshot(named).commit

    def owner(self, revision: str, as_of: str | dt.datetime | None = None) -> tuple[str, str | None]:
        """The branch, and None, if the revision is a branch; otherwise the branch that its commit was made on, and the id of the
        commit."""
        named = self._find(revision, as_of)
        if isinstance(named, Entry):
            return named.branch, None
        ref = named.ref if isinstance(named, Commit) else named
        return ref.branch, ref.id

    def entry(self, revision: str, as_of: str | dt.datetime | None = None) -> Entry:
        """An entry whose last commit is the one that a revision names: its log, and a new branch, can start there."""
        named = self._find(revision, as_of)
        if isinstance(named, Entry):
            return named
        return self.entry_at(named.ref if isinstance(named, Commit) else named)

    def entry_at(self, ref: CommitRef) -> Entry:
        """An entry whose last commit is this one."""
        entry = self.lineage.entry_of(ref)
        # A merge has an entry to itself, so only the own incarnation is reached less far.
        reached = {**entry.ancestry.reached, ref.incarnation: ref.seq}
        return replace(
            entry,
            steps=tuple(step for step in entry.steps if step.commit.ref.seq <= ref.seq),
            ancestry=replace(entry.ancestry, reached=reached),
        )

    def _find(self, revision: str, as_of: str | dt.datetime | None) -> Entry | Commit | CommitRef:
        """`branch~N` and commit ids are recognized by their form; otherwise a branch, a tag, and the beginning of a commit id are
        tried."""
        if not isinstance(revision, str) or not revision:
            raise UsageError(f"{revision!r} is not a revision", hint="a branch, branch~N, a tag or a commit id")
        if len(revision) > MAX_REVISION:
            raise _unknown(f"{revision[:40]}…")
        if as_of is not None:
            return self._at(self.chain.head(revision), time_of(as_of))
        back = _BACK.fullmatch(revision)
        if back is not None:
            return self._back(self.chain.head(back["branch"]), int(back["steps"]))
        if COMMIT_ID.fullmatch(revision):
            return self.find(revision)
        branch = self._branch(revision)
        if branch is not None:
            return branch
        tag = self.tags.find(revision)
        if tag is not None:
            return tag
        if COMMIT_ID_PREFIX.fullmatch(revision):
            return self._starting_with(revision)
        raise _unknown(revision)

    def _branch(self, name: str) -> Entry | None:
        """The head of the branch of this name, if there is one; AmbiguousRevision if a tag has the name too.

        No tag of the name can be created while the branch exists, so checking once per incarnation is enough.
        """
        try:
            head = self.chain.head(name)
        except (BranchNotFound, UsageError):
            return None
        if name != MAIN and self._untagged.get(name) != head.incarnation:
            if self.tags.find(name) is not None:
                raise AmbiguousRevision(
                    f"'{name}' is a branch and a tag",
                    hint=f"'{name}~0' is the branch; 'omnigraph tag delete {name}' removes the tag",
                )
            self._untagged[name] = head.incarnation
        return head

    def _starting_with(self, prefix: str) -> Commit:
        matches: dict[str, Commit] = {}
        for logs in (self._branch_logs, self._logs):
            if not matches:
                for entry in logs():
                    matches |= {commit.id: commit for commit in self.log.starting_with(entry, prefix)}
        if len(matches) > 1:
            shown = ", ".join(sorted(matches)[:AMBIGUOUS_SHOWN])
            raise AmbiguousRevision(
                f"{len(matches)} commit ids begin with '{prefix}'", hint=f"write more of one: {shown}"
            )
        if not matches:
            raise _unknown(prefix)
        return matches.popitem()[1]

    def _back(self, head: Entry, steps: int) -> Entry | Commit:
        """The commit `steps` before a branch's head, along first parents."""
        if steps == 0:
            return head
        commit = self.log.by_seq(head, head.head.commit.ref.seq - steps)
        if commit is None:
            raise CommitNotFound(f"branch '{head.branch}' has no commit {steps} before its head")
        return commit

    def _at(self, head: Entry, moment: dt.datetime) -> Commit:
        """The last commit of a branch at a time."""
        commit = self.log.at_time(head, to_microseconds(moment))
        if commit is None:
            raise CommitNotFound(f"branch '{head.branch}' has no commit at or before {moment.isoformat()}")
        return commit

    def find(self, commit_id: str) -> Commit:
        """A commit by id, from the log of main, then of the other branches, including former incarnations, then of tags."""
        for entry in self._logs():
            known = self.log.find(entry, commit_id)
            if known is not None:
                return known
        raise CommitNotFound(f"commit '{commit_id}' not found")

    def _logs(self) -> Iterator[Entry]:
        """The newest entry of every incarnation of every branch, main first; then the entries of tagged commits on other
        incarnations."""
        seen = set()
        for entry in self._branch_logs():
            yield entry
            seen.add(entry.incarnation)
        with contextlib.suppress(Damaged):  # A damaged tag is an error only if that tag is asked for.
            for ref in self.tags.list().values():
                if ref.incarnation not in seen:
                    with contextlib.suppress(HistoryGap):
                        yield self.lineage.entry_of(ref)

    def _branch_logs(self) -> Iterator[Entry]:
        names = self.chain.branches()
        for name in sorted(names, key=lambda name: (name != MAIN, name)):
            entry = self.chain.newest(name)
            while entry is not None:
                yield entry
                start = incarnation_start(entry.incarnation)[1]
                entry = self.chain.find(name, start - 1) if start else None


def snapshot_in(entry: Entry, ref: CommitRef) -> Snapshot:
    """The state right after a commit that the entry has, or starts from."""
    for snapshot in (entry.before, *entry.snapshots()):
        if snapshot.commit.id == ref.id:
            return snapshot
    raise CommitNotFound(f"commit '{ref.id}' not found")


def _unknown(revision: str) -> CommitNotFound:
    if parse_time(revision) is not None:
        hint = "a time is given with as_of= (--as-of)"
    else:
        hint = "see 'omnigraph branch list', 'omnigraph tag list' and 'omnigraph log'"
    return CommitNotFound(f"'{revision}' is not a branch, branch~N, tag or commit id", hint=hint)
