"""Write keys: a write that is repeated under its key is answered with the commit that it made the first time.

A commit made under a key has the digests of the key and of what was asked for. A key is looked up in the log of the branch, along
first parents: in the records of the newest entry, then in the objects into which older keys are rolled up together with the
records. So a look-up takes no request if those objects are cached, and usually one if they are not, whatever the length of
history.

A key is kept until more than KEPT_COMMITS commits and more than KEPT_US have passed since. For a *sequence*, an application and a
number that grows, the first and the last number are kept for ever: a number between them that is older than the window counts as
written.
"""

from __future__ import annotations

import hashlib
import json
import threading
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.errors import SequencePassed, UsageError, WriteKeyReused
from omnigraph.features import BASE, WRITE_KEYS
from omnigraph.history.envelope import read_as, required, seal, unseal
from omnigraph.history.log import Log
from omnigraph.history.values import Commit, CommitStep, Entry, KeyObject, WriteKey
from omnigraph.storage.store import Store

KEPT_COMMITS = 10_000
KEPT_US = 24 * 3600 * 1_000_000
MAX_KEYS = 16_384
"""The maximum number of keys in one object. More keys within the window take further objects, each of which a look-up reads."""
MAX_APPLICATIONS = 10_000
MAX_HELD = 8
MAX_KEY_LENGTH = 512
MAX_NUMBER = 2**63 - 1
NAME_BYTES = 16
CONTENT_BYTES = 8

Once = str | tuple[str, int]
"""A write key as callers pass it: a text, or an application and a number that grows."""


class KeyOfChange(str):
    """The key of a write that leaves no commit if it changes nothing: then it may be repeated, which is harmless."""

    __slots__ = ()


@dataclass(frozen=True)
class KeyName:
    """A checked write key: the digest of a text, or of an application, with its number."""

    digest: str
    number: int | None = None
    commits_empty: bool = True
    """Whether a write that changes nothing makes a commit too, to keep its key."""

    @classmethod
    def of(cls, once: Once) -> KeyName:
        """The checked key. UsageError unless it is a text, or an application and a number from 0."""
        if isinstance(once, str):
            return cls(_name_digest("key", once), commits_empty=not isinstance(once, KeyOfChange))
        if not (isinstance(once, tuple) and len(once) == 2 and isinstance(once[0], str)):
            raise UsageError(
                f"'once' must be text, or an application and a number, got {type(once).__name__}",
                hint='once="orders-2026-11-15" or once=("orders", 17)',
            )
        application, number = once
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_NUMBER:
            raise UsageError(f"the number of a sequence is an integer from 0, got {number!r}"[:200])
        return cls(_name_digest("sequence", application), number)

    def asking(self, request: object) -> WriteKey:
        """The key of a write with a digest of what it asks for, which is anything that JSON or `repr` can express."""
        try:
            text = json.dumps(request, sort_keys=True, default=repr)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"a write under a key cannot be compared with its repetition: {error}") from None
        return WriteKey(self.digest, _digest(text.encode(), CONTENT_BYTES), self.number)


def _name_digest(kind: str, text: str) -> str:
    if not 0 < len(text) <= MAX_KEY_LENGTH:
        raise UsageError(f"a write key has 1 to {MAX_KEY_LENGTH} characters, not {len(text)}")
    try:
        return _digest(f"{kind}\0{text}".encode(), NAME_BYTES)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the write key cannot be encoded in UTF-8: character {error.start + 1} is half of a surrogate pair"
        ) from None


def _digest(data: bytes, size: int) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()[:size]).decode().rstrip("=")


@dataclass(frozen=True)
class _KeyUse:
    """Where a key was used: the seq of the commit, along first parents, and its time."""

    content: str
    seq: int
    at_us: int


@dataclass(frozen=True)
class _Sequence:
    """The progress of an application: its first number, and the use of its last one."""

    first: int
    last: int
    use: _KeyUse


@dataclass(frozen=True)
class RolledKeys:
    """The content of an object of keys: the uses of keys within the window, and every sequence."""

    keys: Mapping[str, _KeyUse] = field(default_factory=dict)
    sequences: Mapping[str, _Sequence] = field(default_factory=dict)


class WriteKeys:
    """The keys of all branches of a graph. Thread-safe; caches objects that were read."""

    def __init__(self, store: Store, log: Log, new_id: Callable[[], str], clock_us: Callable[[], int]) -> None:
        self.store = store
        self.log = log
        self.new_id = new_id
        self.clock_us = clock_us
        self._held: OrderedDict[str, RolledKeys] = OrderedDict()
        self._lock = threading.Lock()

    # ------------------------------------------------------------ looking up

    def committed(self, key: WriteKey, entry: Entry, steps: Sequence[CommitStep] = ()) -> Commit | None:
        """The commit that was made under the key, on the branch with this newest entry and further steps on top.

        WriteKeyReused if that write asked for something else. SequencePassed for a number that is known to have been skipped; if
        it is too old for that to be known, it counts as written, and the newest commit of the sequence is returned for it.
        """
        passed: list[Commit] = []
        for commit, used in _keyed(entry, steps):
            if used.name == key.name:
                if used.number == key.number:
                    return _same(key, used.content, commit)
                if _number(used) < _number(key):
                    if passed:  # The number is between two that were written one right after the other.
                        raise SequencePassed(_number(key))
                    return None
                passed.append(commit)
        for place in reversed(entry.key_objects):
            use = self._rolled(place).keys.get(key.id)
            if use is not None:
                return _same(key, use.content, self._commit(entry, use))
        return None if key.number is None else self._of_sequence(key, passed, entry)

    def _of_sequence(self, key: WriteKey, passed: Sequence[Commit], entry: Entry) -> Commit | None:
        """The commit for a number that is not among the keys of the window. `passed` are recent commits of higher numbers."""
        sequences = self._rolled(entry.key_objects[-1]).sequences if entry.key_objects else {}
        known = sequences.get(key.name)
        if known is None and not passed:
            if len(sequences) >= MAX_APPLICATIONS:
                raise UsageError(
                    f"{MAX_APPLICATIONS} applications write sequences to branch '{entry.branch}' already",
                    hint="use one of their names, or a separate key for each write (once='...')",
                )
            return None
        if known is None or _number(key) < known.first:
            raise SequencePassed(_number(key))  # The sequence began with a higher number.
        if not passed and known.last < _number(key):
            return None
        if known.last == key.number:
            return _same(key, known.use.content, self._commit(entry, known.use))
        if any(self._has_lower_number(place, key) for place in entry.key_objects):
            raise SequencePassed(_number(key))
        return passed[0] if passed else self._commit(entry, known.use)

    def _has_lower_number(self, place: KeyObject, key: WriteKey) -> bool:
        """Whether an object has a lower number of the sequence: then it would have this one too, had it been used, since numbers
        grow."""
        prefix = f"{key.name}:"
        numbers = (int(id.removeprefix(prefix)) for id in self._rolled(place).keys if id.startswith(prefix))
        return any(number < _number(key) for number in numbers)

    def _commit(self, entry: Entry, use: _KeyUse) -> Commit:
        commit = self.log.by_seq(entry, use.seq)
        assert commit is not None, "a log holds every commit from the branch's first to its head"
        return commit

    # ------------------------------------------------------------ rolling up

    def following(self, entry: Entry, *, rolled: bool) -> tuple[KeyObject, ...]:
        """The objects of keys for the entry after this one; if its records were `rolled` up, including their keys.

        Takes one put if any of the records has a key (garbage if the next entry loses the race).
        """
        if not rolled:
            return entry.key_objects
        uses = [(key, _KeyUse(key.content, commit.ref.seq, commit._at_us)) for commit, key in _keyed(entry)][::-1]
        if not uses:
            return entry.key_objects
        places = entry.key_objects
        before = self._rolled(places[-1]) if places else RolledKeys()
        now_us, seq = self.clock_us(), entry.head.commit.ref.seq
        kept = {id: use for id, use in before.keys.items() if _is_kept(use.seq, use.at_us, seq, now_us)}
        # A full object stays as it is, and a new one is started.
        is_full = len(kept) + len(uses) > MAX_KEYS
        keys = {**({} if is_full else kept), **{key.id: use for key, use in uses}}
        sequences = _sequences_after(before.sequences, uses)
        older = places if is_full else places[:-1]
        return (
            *(place for place in older if _is_kept(place.last_seq, place.last_at, seq, now_us)),
            self._store(RolledKeys(keys, sequences), uses[-1][1]),
        )

    def _store(self, rolled: RolledKeys, last: _KeyUse) -> KeyObject:
        place = KeyObject(self.new_id(), last.seq, last.at_us)
        self.store.put(place.key, _encode_keys(rolled))
        self._hold(place.id, rolled)
        return place

    def _rolled(self, place: KeyObject) -> RolledKeys:
        with self._lock:
            held = self._held.get(place.id)
        if held is None:
            affected = "writes under keys cannot be told from repeated ones"
            held = decode_keys(required(self.store, place.key, affected), place.key, affected)
            self._hold(place.id, held)
        return held

    def _hold(self, id: str, rolled: RolledKeys) -> None:
        with self._lock:
            self._held[id] = rolled
            while len(self._held) > MAX_HELD:
                self._held.popitem(last=False)


def keys_of(commits: Iterable[Commit]) -> bytes:
    """The object of keys with those of all these commits, oldest first."""
    uses = [
        (commit._write_key, _KeyUse(commit._write_key.content, commit.ref.seq, commit._at_us))
        for commit in commits
        if commit._write_key is not None
    ]
    return _encode_keys(RolledKeys({key.id: use for key, use in uses}, _sequences_after({}, uses)))


def _sequences_after(
    before: Mapping[str, _Sequence], uses: Iterable[tuple[WriteKey, _KeyUse]]
) -> Mapping[str, _Sequence]:
    """The sequences after some uses of keys, oldest first."""
    after = dict(before)
    for key, use in uses:
        if key.number is not None:
            first = after[key.name].first if key.name in after else key.number
            after[key.name] = _Sequence(first, key.number, use)
    return after


def _encode_keys(rolled: RolledKeys) -> bytes:
    keys = {id: [use.content, use.seq, use.at_us] for id, use in rolled.keys.items()}
    sequences = {
        name: [sequence.first, sequence.last, sequence.use.content, sequence.use.seq, sequence.use.at_us]
        for name, sequence in rolled.sequences.items()
    }
    return seal({"features": [BASE, WRITE_KEYS], "keys": keys, "sequences": sequences})


def decode_keys(data: bytes, key: str, affected: str | None = None) -> RolledKeys:
    """A stored object of keys."""
    value = unseal(key, data, affected)

    def decoded() -> RolledKeys:
        keys = {id: _KeyUse(*use) for id, use in value["keys"].items()}
        sequences = {
            name: _Sequence(first, last, _KeyUse(*use)) for name, (first, last, *use) in value["sequences"].items()
        }
        return RolledKeys(keys, sequences)

    return read_as(key, decoded, affected)


def _keyed(entry: Entry, steps: Sequence[CommitStep] = ()) -> Iterator[tuple[Commit, WriteKey]]:
    """The commits with keys among the records of an entry and further steps, newest first."""
    recent = (*entry.tail, *(step.commit for step in entry.steps), *(step.commit for step in steps))
    return ((commit, commit._write_key) for commit in reversed(recent) if commit._write_key is not None)


def _number(key: WriteKey) -> int:
    return -1 if key.number is None else key.number


def _same(key: WriteKey, content: str, commit: Commit) -> Commit:
    if content != key.content:
        raise WriteKeyReused(commit.id)
    return commit


def _is_kept(seq: int, at_us: int, head_seq: int, now_us: int) -> bool:
    return head_seq - seq <= KEPT_COMMITS or now_us - at_us <= KEPT_US
