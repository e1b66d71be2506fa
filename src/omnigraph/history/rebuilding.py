"""Rebuilds objects of history that can be derived from others: segments of the log, write keys, stored ancestries, watermarks,
cutoffs, the first entry of main.

Each is rebuilt to the same bytes, or not at all; except that an object of write keys also gets keys that had left the window,
which will leave it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.errors import Damaged, ObjectMissing
from omnigraph.history.chain import MAIN, key_of, position_of
from omnigraph.history.encoding import decode_records, encode_entry, encode_records
from omnigraph.history.envelope import seal
from omnigraph.history.genesis import first_entry
from omnigraph.history.history import History
from omnigraph.history.retention import limit_object
from omnigraph.history.values import Commit, Entry, KeyObject, LogSegment
from omnigraph.history.write_keys import keys_of


class Rebuilder:
    """What all readable entries and segments say about a graph's commits. Reads the whole history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._commits: dict[str, Commit] = {}
        self._segments: dict[str, tuple[LogSegment, Entry]] = {}
        self._key_objects: dict[str, tuple[KeyObject, Entry]] = {}
        self._ancestries: dict[str, Entry] = {}
        for entry in self._entries():
            self._note(entry)
        for key in self._segments:
            try:
                records = decode_records(history.store.get(key), key)
            except (Damaged, ObjectMissing):
                continue
            self._commits.update((commit.id, commit) for commit in records)

    def _entries(self) -> Iterator[Entry]:
        """Every entry that can be read, oldest first on each branch."""
        chain = self._history.chain
        for info in reversed(self._history.store.list("branches")):
            try:
                entry = chain.find(*_place(info.key))
            except Damaged:
                continue
            if entry is not None:
                yield entry

    def _note(self, entry: Entry) -> None:
        known = (*entry.tail, entry.before.commit, *(step.commit for step in entry.steps))
        self._commits.update((commit.id, commit) for commit in known)
        for segment in entry.segments:
            self._segments.setdefault(segment.key, (segment, entry))
        for place in entry.key_objects:
            self._key_objects.setdefault(place.key, (place, entry))
        # The stored ancestry is what was reached before the commit that stored it: later, only its own incarnation moved.
        if entry.ancestry.stored is not None and entry.steps:
            last = entry.steps[-1].commit.ref
            if entry.ancestry.reached == {last.incarnation: last.seq}:
                self._ancestries.setdefault(entry.ancestry.stored, entry)

    def object(self, key: str) -> bytes | None:
        """The bytes of the object that was stored under this key; None if they cannot be derived from what is left."""
        if key == key_of(MAIN, 0):
            return encode_entry(first_entry(self._history.identity))
        if key in self._segments:
            return self._segment(*self._segments[key])
        if key in self._key_objects:
            return self._keys(*self._key_objects[key])
        if key in self._ancestries:
            return self._ancestry(self._ancestries[key])
        return limit_object(key)

    def _segment(self, segment: LogSegment, entry: Entry) -> bytes | None:
        """The records of the segment."""
        commits = self._between(segment.first_seq, segment.last_seq, entry)
        return None if commits is None else encode_records(commits)

    def _keys(self, place: KeyObject, entry: Entry) -> bytes | None:
        """The keys of all commits up to the newest that the object had: for sequences, the oldest count too."""
        commits = self._between(0, place.last_seq, entry)
        return None if commits is None else keys_of(commits)

    def _between(self, first_seq: int, last_seq: int, entry: Entry) -> list[Commit] | None:
        """The commits of a range along first parents from an entry that has them, oldest first; None if one is not known."""
        commits: list[Commit] = []
        commit: Commit | None = entry.before.commit
        while commit is not None and commit.ref.seq >= first_seq:
            if commit.ref.seq <= last_seq:
                commits.append(commit)
            commit = None if commit.parent is None else self._commits.get(commit.parent.id)
        if [commit.ref.seq for commit in commits] != list(range(last_seq, first_seq - 1, -1)):
            return None
        return commits[::-1]

    def _ancestry(self, entry: Entry) -> bytes | None:
        """Everything that the entry's last commit reaches, except its own incarnation."""
        last = entry.steps[-1].commit
        reached: dict[str, int] = {}
        waiting, seen = [last], {last.id}
        while waiting:
            commit = waiting.pop()
            incarnation = commit.ref.incarnation
            reached[incarnation] = max(commit.ref.seq, reached.get(incarnation, -1))
            for parent in commit.parents:
                if parent.id not in seen:
                    seen.add(parent.id)
                    known = self._commits.get(parent.id)
                    if known is None:
                        return None
                    waiting.append(known)
        del reached[last.ref.incarnation]
        return seal({"reached": dict(sorted(reached.items()))})


def _place(key: str) -> tuple[str, int]:
    from urllib.parse import unquote

    return unquote(key.split("/")[1]), position_of(key)
