"""From what a user writes to a snapshot: `branch`, `branch~N`, a commit id, a tag, or a time."""

from __future__ import annotations

import datetime as dt
import re

from omnigraph.errors import BranchNotFound, CommitNotFound, UsageError
from omnigraph.history.branches import Branches
from omnigraph.history.chain import Chain
from omnigraph.history.genesis import MAIN
from omnigraph.history.lineage import Lineage, incarnation_start
from omnigraph.history.log import Log
from omnigraph.history.tags import Tags
from omnigraph.history.values import Commit, CommitRef, Entry, Snapshot

_COMMIT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_BACK = re.compile(r"(?P<branch>.+)~(?P<steps>\d+)")


class Revisions:
    def __init__(self, chain: Chain, log: Log, lineage: Lineage, branches: Branches, tags: Tags) -> None:
        self.chain = chain
        self.log = log
        self.lineage = lineage
        self.branches = branches
        self.tags = tags

    def snapshot(self, ref: CommitRef) -> Snapshot:
        """The state right after a commit, of whatever branch and age."""
        entry = self.lineage.entry_of(ref)
        for snapshot in (entry.before, *entry.snapshots()):
            if snapshot.commit.id == ref.id:
                return snapshot
        raise CommitNotFound(f"commit '{ref.id}' not found")

    def resolve(self, text: str) -> Snapshot:
        """A branch first, then `branch~N`, a tag, a commit id, a time. Says what it tried when nothing fits."""
        back = _BACK.fullmatch(text)
        if back is not None:
            return self.back(self.chain.head(back["branch"]), int(back["steps"]))
        if _COMMIT_ID.fullmatch(text):
            return self.snapshot(self.find(text).ref)
        try:
            return self.chain.head(text).head
        except (BranchNotFound, UsageError):
            tagged = self.tags.find(text)
        if tagged is not None:
            return self.snapshot(tagged)
        moment = parse_time(text)
        if moment is not None:
            return self.at(self.chain.head(MAIN), moment)
        raise CommitNotFound(
            f"'{text}' is not a branch, branch~N, tag, commit id or time", hint="see the branches, tags and commits"
        )

    def back(self, head: Entry, steps: int) -> Snapshot:
        """The state `steps` commits before a branch's head, along first parents."""
        if steps == 0:
            return head.head
        commit = self.log.by_seq(head, head.head.commit.ref.seq - steps)
        if commit is None:
            raise CommitNotFound(f"branch '{head.branch}' has no commit {steps} before its head")
        return self.snapshot(commit.ref)

    def at(self, head: Entry, moment: dt.datetime) -> Snapshot:
        """The state of a branch at a time."""
        commit = self.log.at_time(head, int(moment.timestamp() * 1_000_000))
        if commit is None:
            raise CommitNotFound(f"branch '{head.branch}' has no commit at or before {moment.isoformat()}")
        return self.snapshot(commit.ref)

    def find(self, commit_id: str) -> Commit:
        """A commit by id: in main's log, then in those of the other branches, former incarnations included."""
        names = self.chain.branches()
        for name in sorted(names, key=lambda name: (name != MAIN, name)):
            entry = self.chain.newest(name)
            while entry is not None:
                found = self.log.find(entry, commit_id)
                if found is not None:
                    return found
                start = incarnation_start(entry.incarnation)[1]
                entry = self.chain.find(name, start - 1) if start else None
        raise CommitNotFound(f"commit '{commit_id}' not found")


def parse_time(text: str) -> dt.datetime | None:
    """An ISO 8601 date or time; without a zone it is UTC."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
