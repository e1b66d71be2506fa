"""The chain of one branch: immutable entries, the newest found with one listing, the next one won by one create.

Nothing but `append` makes anything visible. An entry that exists never changes and, until retention sweeps it, never
vanishes; so a cached head needs one probe (is there a next entry?) to be known current.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

from omnigraph.errors import (
    BranchNotFound,
    Damaged,
    HistoryGap,
    ObjectExists,
    OutcomeUnknown,
    StorageError,
    StorageTransient,
    UsageError,
)
from omnigraph.failpoints import Failpoint, reach
from omnigraph.features import check_writable
from omnigraph.history.encoding import decode_entry, encode_entry
from omnigraph.history.log import Log
from omnigraph.history.values import Entry
from omnigraph.storage import Store

MAIN = "main"
POSITION_DIGITS = 12
MAX_POSITION: int = 10**POSITION_DIGITS - 1
MAX_NAME_LENGTH = 200
MAX_QUOTED_LENGTH = 240
"""As a name of a folder or file, percent-encoded: file systems take 255 bytes."""
WATERMARKS = "retention"
_RESERVED = '~^:?*[\\@"'
COMMIT_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
COMMIT_ID_PREFIX = re.compile(r"0[0-9A-HJKMNP-TV-Z]{3,24}")
"""The beginning of a commit id, as users may write it: ids begin with their time, and that with 0 for a thousand years."""
MAX_PROBES = 3
"""Entries followed one by one from a cached head before a listing finds the newest at once."""
CREATE_ATTEMPTS = 5
MAX_CREATED_KNOWN = 4_096

PROBE_WINDOW_S = 600.0
"""A cached head seen current within this time may be trusted to a probe, and a publish prepared within it needs no second
look at the watermark: retention never sweeps an entry younger than SWEEP_AGE_S, many times as long."""


def check_branch_name(name: str) -> str:
    """The name if it can be one: no spaces or control characters, nothing a revision expression needs."""
    bad = not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH or name[0] in "/-." or name[-1] in "/."
    bad = bad or "//" in name or ".." in name or any(c.isspace() or not c.isprintable() or c in _RESERVED for c in name)
    if bad or len(quote(name, safe="")) > MAX_QUOTED_LENGTH:
        shown = f"'{name}'" if isinstance(name, str) else f"{name!r} ({type(name).__name__})"
        raise UsageError(
            f"{shown} cannot be a branch or tag name",
            hint="use letters, digits, '-', '_', '.' and '/' (for example review/2026-07)",
        )
    if COMMIT_ID.fullmatch(name) or COMMIT_ID_PREFIX.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot be a branch or tag name: it reads as a commit id", hint="put a word before it"
        )
    return name


@lru_cache(maxsize=1_024)
def folder_of(branch: str) -> str:
    """UsageError for what cannot be a name: an empty one would be the folder of all branches."""
    return f"branches/{quote(check_branch_name(branch), safe='')}"


def key_of(branch: str, position: int) -> str:
    """Newest first: the first key of a listing is the head."""
    return f"{folder_of(branch)}/{MAX_POSITION - position:0{POSITION_DIGITS}d}.json"


def position_of(key: str) -> int:
    """Of an entry or watermark. Damaged when the key is neither's: something else lies in the folder."""
    digits = key.rsplit("/", 1)[1].removesuffix(".json")
    if not (len(digits) == POSITION_DIGITS and digits.isascii() and digits.isdigit()):
        raise Damaged(key, "no file of a graph has this name", hint="move it out of the graph's folder")
    return MAX_POSITION - int(digits)


class Chain:
    """All branches' chains of one graph. Thread-safe; caches the last known head of each branch."""

    def __init__(
        self, store: Store, log: Log, *, clock: Callable[[], float], begin: Callable[[], object] = lambda: None
    ) -> None:
        """`begin` makes the first entry of main, which whoever created the graph may have failed to make."""
        self.store = store
        self.log = log
        self.clock = clock
        self._begin = begin
        self._heads: dict[str, tuple[Entry, float]] = {}
        self._created: OrderedDict[tuple[str, int], None] = OrderedDict()
        """Places of the entries that were created here last."""
        self._lock = threading.Lock()
        self._on_newer: list[Callable[[], None]] = []

    def on_newer(self, call: Callable[[], None]) -> None:
        """Call this whenever a newer entry of some branch becomes known here, by a write or by a look."""
        self._on_newer.append(call)

    # ------------------------------------------------------------ reading

    def head(self, branch: str) -> Entry:
        """The newest entry: one request when the cached head is still current, two from nothing. BranchNotFound if dead."""
        entry = self.newest(branch)
        if entry is None or not entry.alive:
            raise BranchNotFound(f"branch '{branch}' does not exist", hint="see 'omnigraph branch list'")
        return entry

    def newest(self, branch: str) -> Entry | None:
        """Like `head`, but a deleted branch gives its closing entry, and an unknown one None."""
        while True:
            started = self.clock()
            entry = self._followed(branch, started) or self._listed(branch)
            if entry is None and branch == MAIN:
                self._begin()
                entry = self._listed(branch)
            # During a stall this long a sweep may have passed between two requests: what was read across it is not known
            # to be the head.
            if self.clock() - started < PROBE_WINDOW_S:
                return None if entry is None else self._remember(entry, started)

    def cached_head(self, branch: str) -> tuple[Entry, float] | None:
        """The last known newest entry and when it was known to be that, without a request; it may be old by now."""
        with self._lock:
            cached = self._heads.get(branch)
        return None if cached is None or self.clock() - cached[1] >= PROBE_WINDOW_S else cached

    def has_created(self, branch: str, position: int) -> bool:
        """Whether the entry at this place was created here, lately: the one before it was the newest until then."""
        with self._lock:
            return (branch, position) in self._created

    def read(self, branch: str, position: int) -> Entry:
        """The entry at a position where one was: HistoryGap when it was swept, Damaged when it is lost."""
        entry = self.find(branch, position)
        if entry is not None:
            return entry
        floor = self.floor(branch)
        if floor <= position:
            if not self.store.list(folder_of(branch), limit=1):
                raise HistoryGap(
                    f"branch '{branch}' is not in this graph: a clone did not copy it",
                    branch=branch,
                    hint=f"omnigraph pull SOURCE {branch} brings it",
                )
            raise Damaged(key_of(branch, position), "it is missing", affected=_commits_of(branch, position))
        raise swept(branch, f"entry {position} of branch '{branch}'", floor)

    def find(self, branch: str, position: int) -> Entry | None:
        """The entry at a position; None when there is none yet, or no more."""
        key = key_of(branch, position)
        data = self.store.find(key)
        if data is None:
            return None
        affected, known = _commits_of(branch, position), self._heads.get(branch)
        entry = decode_entry(data, key, affected, known and known[0])
        if (entry.branch, entry.position) != (branch, position):
            raise Damaged(key, f"it holds entry {entry.position} of branch '{entry.branch}'", affected=affected)
        return entry

    def branches(self) -> list[str]:
        """Every name that ever had a chain, deleted ones included, sorted; main, too, if it has none yet."""
        return sorted({MAIN, *(unquote(name) for name in self.store.list_folders("branches"))})

    def floor(self, branch: str) -> int:
        """The watermark: the lowest position retention still keeps on a branch."""
        newest = self.store.list(watermark_folder(branch), limit=1)
        return position_of(newest[0].key) if newest else 0

    def _followed(self, branch: str, now: float) -> Entry | None:
        """The newest entry, found by probing from a cached head; None when there is none or too many have come since."""
        with self._lock:
            cached = self._heads.get(branch)
        if cached is None or now - cached[1] >= PROBE_WINDOW_S:
            return None
        entry = cached[0]
        if (has_next := self.store.has(key_of(branch, entry.position + 1))) is not None:
            newest = self._last_there(branch, entry.position + 1) if has_next else entry.position
            return entry if newest == entry.position else self.find(branch, newest)
        for _ in range(MAX_PROBES):
            following = self.find(branch, entry.position + 1)
            if following is None:
                return entry
            entry = following
        return None

    def _last_there(self, branch: str, position: int) -> int:
        """The last position from this one on that has an entry, where a look at names is cheap: in steps that double, then by
        halving. Nothing that follows a head seen lately is swept."""
        step = 1
        while self.store.has(key_of(branch, position + step)):
            position, step = position + step, step * 2
        while step > 1:
            step //= 2
            if self.store.has(key_of(branch, position + step)):
                position += step
        return position

    def _listed(self, branch: str) -> Entry | None:
        while newest := self.store.list(folder_of(branch), limit=1):
            entry = self.find(branch, position_of(newest[0].key))
            if entry is not None:
                return entry
            # Swept between the two requests, so it was no longer the newest.
        return None

    def _remember(self, entry: Entry, seen_at: float) -> Entry:
        with self._lock:
            known = self._heads.get(entry.branch)
            if known is None or known[0].position <= entry.position:
                self._heads[entry.branch] = (entry, seen_at)
        if known is None or known[0].position < entry.position:
            for call in self._on_newer:
                call()
        return entry

    # ------------------------------------------------------------ writing

    def append(self, entry: Entry, *, prepared_at: float, sync_first: Sequence[str] = ()) -> Entry | None:
        """Create the entry at its position, and give it as it stands in the chain. None: it is not there and cannot get there.

        `prepared_at` is when the entry before it was last known to be the head. OutcomeUnknown only if the store stays
        silent: an answer that got lost is looked up, and a request that may still arrive is repeated at the same
        position, where it can win at most once. `sync_first` are local files that must be durable before the entry may be seen.
        """
        check_writable(entry.write_features, f"branch '{entry.branch}'")
        held = self._create(entry, prepared_at, sync_first)
        if held is None:
            return None
        if self.clock() - prepared_at >= PROBE_WINDOW_S and self._is_garbage(entry):
            return None
        with self._lock:
            self._created[entry.branch, entry.position] = None
            if len(self._created) > MAX_CREATED_KNOWN:
                self._created.popitem(last=False)
        reach(Failpoint.PUBLISH_BEFORE_ACK)
        return self._remember(held, prepared_at)

    def _create(self, entry: Entry, prepared_at: float, sync_first: Sequence[str]) -> Entry | None:
        """Put the entry at its position. None when another one holds it, which is remembered: the next attempt starts from it.

        An entry of the same id is ours. Its bytes need not be: two processes may publish the same prepared plan.
        """
        key, data = key_of(entry.branch, entry.position), encode_entry(entry)
        silence = f"the store stopped answering while commit {entry.id} was published"
        for number in range(CREATE_ATTEMPTS):
            try:
                reach(Failpoint.PUBLISH_BEFORE_CREATE)
                self.store.create(key, data, sync_first=sync_first)
                reach(Failpoint.PUBLISH_AFTER_CREATE)
                return entry
            except (ObjectExists, StorageTransient):
                reach(Failpoint.PUBLISH_BEFORE_READBACK)
                holder = self._holder(entry)
                if holder is not None and holder.id == entry.id:
                    return holder
                if holder is not None:
                    self._remember(holder, prepared_at)
                    return None
            except StorageError as error:
                if number == 0:
                    raise
                raise OutcomeUnknown(f"{silence}: {error.message}", commit_id=entry.id) from error
        raise OutcomeUnknown(silence, commit_id=entry.id)

    def _holder(self, entry: Entry) -> Entry | None:
        """What stands at the position of an entry, after a create that may have put it there; None if nothing tells."""
        try:
            return self.find(entry.branch, entry.position)
        except Damaged as error:
            raise OutcomeUnknown(f"{error.message}, and may be commit {entry.id}", commit_id=entry.id) from error
        except StorageError:
            return None

    def _is_garbage(self, entry: Entry) -> bool:
        """Whether a position that was swept was made anew with the entry. From the create on, no failure means that it is
        not there."""
        try:
            return self.floor(entry.branch) > entry.position and not self._was_in_chain(entry)
        except (StorageError, Damaged) as error:
            raise OutcomeUnknown(
                f"commit {entry.id} was created, and whether it is in its branch could not be looked up: {error.message}",
                commit_id=entry.id,
            ) from error

    def _was_in_chain(self, entry: Entry) -> bool:
        """Of an entry created at a position below the watermark: was it in the chain, and the sweep came later?

        The watermark is raised before anything is swept, so reading it after our create shows every sweep that could
        have freed this position for us. Whether we were in the chain before that sweep, the log tells; what is not in
        it is garbage of our own making. So is what is in it elsewhere: somebody else has published the same prepared plan.
        """
        newest = self._listed(entry.branch)
        if newest is None or newest.incarnation != entry.incarnation:
            raise OutcomeUnknown(
                f"branch '{entry.branch}' was deleted and swept while commit {entry.id} was published",
                commit_id=entry.id,
            )
        if entry.op == "create":
            return True
        first = self.log.find(newest, entry.steps[0].commit.id) if entry.steps else None
        if first is not None and first.ref.position == entry.position:
            return True
        self.store.delete(key_of(entry.branch, entry.position))
        return False


def watermark_folder(branch: str) -> str:
    return f"{WATERMARKS}/{quote(branch, safe='')}"


def watermark_key(branch: str, floor: int) -> str:
    """One object per watermark, highest first: raising it is a create, so no sweeper can lower another's."""
    return f"{watermark_folder(branch)}/{MAX_POSITION - floor:0{POSITION_DIGITS}d}.json"


def swept(branch: str, what: str, floor: int) -> HistoryGap:
    """Something on a branch that a cleanup has removed."""
    return HistoryGap(
        f"{what} was removed by cleanup, or not copied by a clone: branch '{branch}' has entries from {floor} on",
        branch=branch,
        watermark=floor,
        hint="start from a newer commit; 'omnigraph commit list' shows them",
    )


def _commits_of(branch: str, position: int) -> str:
    """What a lost entry takes with it."""
    return f"the commits of entry {position} of branch '{branch}' cannot be read, nor can what was merged from them"
