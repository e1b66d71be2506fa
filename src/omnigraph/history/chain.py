"""The chain of one branch: immutable entries, the newest found with one listing, the next one won by one create.

Nothing but `append` makes anything visible. An entry that exists never changes and, until retention sweeps it, never
vanishes; so a cached head needs one probe (is there a next entry?) to be known current.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from urllib.parse import quote, unquote

from omnigraph.errors import (
    BranchNotFound,
    HistoryGap,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
    StorageTransient,
    UnsupportedFormat,
    UsageError,
)
from omnigraph.history.values import FORMAT, Entry
from omnigraph.storage import Store
from omnigraph.storage.failpoints import Failpoint, reach

POSITION_MOST = 10**12 - 1
PROBES_MOST = 3
"""Entries followed one by one from a cached head before a listing finds the newest at once."""
CREATE_ATTEMPTS = 5

PROBE_WINDOW_S = 600.0
"""A cached head seen current within this time may be trusted to a probe, and a publish prepared within it needs no second
look: retention never sweeps an entry younger than SWEEP_AGE_S, many times as long."""


def check_branch_name(name: str) -> str:
    """The name if it can be one: no spaces or control characters, nothing a revision expression needs."""
    bad = not name or len(name) > 200 or name.startswith(("/", "-", ".")) or name.endswith(("/", ".")) or "//" in name
    if bad or ".." in name or any(c.isspace() or not c.isprintable() or c in '~^:?*[\\@"' for c in name):
        raise UsageError(
            f"'{name}' cannot be a branch or tag name",
            hint="use letters, digits, '-', '_', '.' and '/' (for example review/2026-07)",
        )
    return name


def folder_of(branch: str) -> str:
    return f"branches/{quote(branch, safe='')}"


def key_of(branch: str, position: int) -> str:
    """Newest first: the first key of a listing is the head."""
    return f"{folder_of(branch)}/{POSITION_MOST - position:012d}.json"


def position_of(key: str) -> int:
    return POSITION_MOST - int(key.rsplit("/", 1)[1].removesuffix(".json"))


class Chain:
    """All branches' chains of one graph. Thread-safe; caches the last known head of each branch."""

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        self.store = store
        self.clock = clock
        self._heads: dict[str, tuple[Entry, float]] = {}
        self._lock = threading.Lock()

    # ------------------------------------------------------------ reading

    def head(self, branch: str) -> Entry:
        """The newest entry: one request when the cached head is still current, two from nothing. BranchNotFound if dead."""
        entry = self.newest(branch)
        if entry is None or not entry.alive:
            raise BranchNotFound(f"branch '{branch}' does not exist", hint="see the list of branches")
        return entry

    def newest(self, branch: str) -> Entry | None:
        """Like `head`, but a deleted branch gives its closing entry, and an unknown one None."""
        with self._lock:
            cached = self._heads.get(branch)
        now = self.clock()
        if cached is not None and now - cached[1] < PROBE_WINDOW_S:
            entry = cached[0]
            for _ in range(PROBES_MOST):
                following = self._read(branch, entry.position + 1)
                if following is None:
                    return self._remember(entry, now)
                entry = following
        found = self.store.list(folder_of(branch), limit=1)
        if not found:
            return None
        newest = self._read(branch, position_of(found[0].key))
        if newest is None:  # swept between the two requests: only possible when it was not the newest
            return self.newest(branch)
        return self._remember(newest, now)

    def cached_head(self, branch: str) -> Entry | None:
        """The last known head without a request; it may be old."""
        with self._lock:
            cached = self._heads.get(branch)
        return None if cached is None or self.clock() - cached[1] >= PROBE_WINDOW_S else cached[0]

    def read(self, branch: str, position: int) -> Entry:
        entry = self._read(branch, position)
        if entry is None:
            raise HistoryGap(
                f"entry {position} of branch '{branch}' was swept",
                hint="older history is gone; start from a newer commit",
            )
        return entry

    def branches(self) -> list[str]:
        """Every name that ever had a chain, deleted ones included, sorted."""
        return sorted(unquote(name) for name in self.store.list_folders("branches"))

    def _read(self, branch: str, position: int) -> Entry | None:
        try:
            data = self.store.get(key_of(branch, position))
        except ObjectMissing:
            return None
        return decode_entry(data)

    def _remember(self, entry: Entry, seen_at: float) -> Entry:
        with self._lock:
            known = self._heads.get(entry.branch)
            if known is None or known[0].position <= entry.position:
                self._heads[entry.branch] = (entry, seen_at)
        return entry

    # ------------------------------------------------------------ writing

    def append(self, entry: Entry, *, prepared_at: float) -> Entry | None:
        """Create the entry at its position. None: it is in the chain. An entry: somebody else's holds that position.

        `prepared_at` is when the entry before it was last known to be the head. OutcomeUnknown only if the store stays
        silent: an answer that got lost is looked up, and a request that may still arrive is repeated at the same
        position, where it can win at most once.
        """
        key, data = key_of(entry.branch, entry.position), encode_entry(entry)
        silent = 0
        while True:
            try:
                reach(Failpoint.PUBLISH_BEFORE_CREATE)
                self.store.create(key, data)
                reach(Failpoint.PUBLISH_AFTER_CREATE)
                break
            except (ObjectExists, StorageTransient):
                reach(Failpoint.PUBLISH_BEFORE_READBACK)
                try:
                    holder = self._read(entry.branch, entry.position)
                except StorageTransient:
                    holder = None
                if holder is not None:
                    if holder.id == entry.id:
                        break
                    return holder
                silent += 1
                if silent >= CREATE_ATTEMPTS:
                    raise OutcomeUnknown(
                        f"the store stopped answering while commit {entry.id} was published", commit_id=entry.id
                    ) from None
        now = self.clock()
        if now - prepared_at >= PROBE_WINDOW_S and self._resurrected(entry):
            newest = self.newest(entry.branch)
            assert newest is not None, "a swept position has a newer entry"
            return newest
        reach(Failpoint.PUBLISH_BEFORE_ACK)
        self._remember(entry, now)
        return None

    def _resurrected(self, entry: Entry) -> bool:
        """Was this position swept before we created it? The watermark is raised before anything is swept, so reading it
        after our create decides. Our object is then unreachable garbage and is removed."""
        if self.floor(entry.branch) <= entry.position:
            return False
        self.store.delete(key_of(entry.branch, entry.position))
        with self._lock:
            self._heads.pop(entry.branch, None)
        return True

    def floor(self, branch: str) -> int:
        """The lowest position retention still keeps on a branch."""
        try:
            value = json.loads(self.store.get(watermark_key(branch)))
        except ObjectMissing:
            return 0
        return int(value["floor"])


def watermark_key(branch: str) -> str:
    return f"retention/{quote(branch, safe='')}.json"


def encode_entry(entry: Entry) -> bytes:
    return json.dumps(entry.to_json(), separators=(",", ":"), ensure_ascii=False).encode()


def decode_entry(data: bytes) -> Entry:
    value = json.loads(data)
    if value.get("format") != FORMAT:
        raise UnsupportedFormat(
            f"this graph has a commit of format {value.get('format')}; this omnigraph reads format {FORMAT}",
            hint="upgrade omnigraph",
        )
    return Entry.from_json(value)
