"""The chain of one branch: immutable entries, of which a listing finds the newest and a create adds the next one.

Only `append` makes anything visible. An entry never changes and, until cleanup removes it, never vanishes; so one probe (is there
a next entry?) shows whether a cached head is current.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeVar
from urllib.parse import quote, unquote

from omnigraph._internal.failpoints import Failpoint, reach
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
from omnigraph.features import check_writable
from omnigraph.history.encoding import decode_entry, encode_entry
from omnigraph.history.log import Log
from omnigraph.history.values import Entry, incarnation_start
from omnigraph.metering import Threads
from omnigraph.storage.os_errors import is_disk_fault
from omnigraph.storage.store import Store

MAIN = "main"
POSITION_DIGITS = 12
MAX_POSITION: int = 10**POSITION_DIGITS - 1
MAX_NAME_LENGTH = 200
MAX_QUOTED_LENGTH = 240
"""The maximum length of a percent-encoded name of a folder or file: file systems allow 255 bytes."""
WATERMARKS = "retention"
_RESERVED = '~^:?*[\\@"'
COMMIT_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
COMMIT_ID_PREFIX = re.compile(r"0[0-9A-HJKMNP-TV-Z]{3,24}")
"""The beginning of a commit id, as users may write it: ids begin with their time, which begins with 0 for a thousand years."""
READ_THREADS = 8
Result = TypeVar("Result")
MAX_PROBES = 3
"""How often following entries are looked for from a cached head before a listing is used."""
CREATE_ATTEMPTS = 5
MAX_CREATED_KNOWN = 4_096

PROBE_WINDOW_S = 600.0
"""A head that was current within this time needs only a probe, and a publish that was prepared within it need not check the
watermark afterwards: cleanup never removes an entry that was superseded less than `retention.GRACE_S` ago, which is several times
as long."""


def check_branch_name(name: str) -> str:
    """The name, if it is valid: no spaces or control characters, and nothing with a meaning in revisions."""
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
            f"'{name}' cannot be a branch or tag name: it reads as a commit id", hint="begin it with a word"
        )
    return name


@lru_cache(maxsize=1_024)
def folder_of(branch: str) -> str:
    """The folder of a branch. UsageError for an invalid name: an empty one would be the folder of all branches."""
    return f"branches/{quote(check_branch_name(branch), safe='')}"


def key_of(branch: str, position: int) -> str:
    """The key of an entry. Keys sort newest first, so the first one of a listing is the head."""
    return f"{folder_of(branch)}/{MAX_POSITION - position:0{POSITION_DIGITS}d}.json"


def position_of(key: str) -> int:
    """The position of an entry or watermark. Damaged if the key is neither: then the folder has a foreign file."""
    digits = key.rsplit("/", 1)[1].removesuffix(".json")
    if not (len(digits) == POSITION_DIGITS and digits.isascii() and digits.isdigit()):
        raise Damaged(key, "no file of a graph has this name", hint="move it out of the graph's folder")
    return MAX_POSITION - int(digits)


class Chain:
    """The chains of all branches of one graph. Thread-safe; caches the last known head of each branch."""

    def __init__(
        self, store: Store, log: Log, *, clock: Callable[[], float], begin: Callable[[], object] = lambda: None
    ) -> None:
        """`begin` creates the first entry of main, if the process that created the graph died before it did."""
        self.store = store
        self.log = log
        self.clock = clock
        self._begin = begin
        self._heads: dict[str, tuple[Entry, float]] = {}
        self._created: OrderedDict[tuple[str, int], None] = OrderedDict()
        """Branch and position of the entries that were created here last."""
        self._lock = threading.Lock()
        self._listings: dict[str, threading.Lock] = {}
        """By branch: held while it is listed, so that threads that need its head at the same time list it once."""
        self._on_newer: list[Callable[[], None]] = []

    def on_newer(self, call: Callable[[], None]) -> None:
        """Register a callback for newer entries of any branch that become known here, by a write or a read."""
        self._on_newer.append(call)

    # ------------------------------------------------------------ reading

    def head(self, branch: str) -> Entry:
        """The newest entry: one request if the cached head is still current, two without a cache. BranchNotFound if the branch is
        deleted."""
        entry = self.newest(branch)
        if entry is None or not entry.alive:
            raise BranchNotFound(f"branch '{branch}' does not exist", hint="see 'omnigraph branch list'")
        return entry

    def newest(self, branch: str, *, is_moving: bool = False) -> Entry | None:
        """Like `head`, but the closing entry of a deleted branch, and None for an unknown one. If others are writing to the branch
        (`is_moving`), following entries are read two at a time."""
        while True:
            started = self.clock()
            entry = self._followed(branch, started, 2 if is_moving else 1) or self._listed_once(branch)
            if entry is None and branch == MAIN:
                self._begin()
                entry = self._listed(branch)
            # If this took so long, a cleanup may have run between two requests, and what was read may not be the head.
            if self.clock() - started < PROBE_WINDOW_S:
                return None if entry is None else self._remember(entry, started)

    def newest_of(self, branches: Sequence[str]) -> list[Entry | None]:
        """`newest` of several branches, read at the same time."""
        return self._at_once(self.newest, branches)

    def heads(self, *branches: str) -> list[Entry]:
        """`head` of several branches, read at the same time."""
        return self._at_once(self.head, branches)

    def _at_once(self, read: Callable[[str], Result], branches: Sequence[str]) -> list[Result]:
        with Threads(READ_THREADS, "omnigraph-heads") as pool:
            return list(pool.map(read, branches))

    def cached_head(self, branch: str) -> tuple[Entry, float] | None:
        """The last known newest entry and when it was current, without a request; it may be outdated."""
        with self._lock:
            cached = self._heads.get(branch)
        return None if cached is None or self.clock() - cached[1] >= PROBE_WINDOW_S else cached

    def has_created(self, branch: str, position: int) -> bool:
        """Whether the entry at this position was created here recently: then the one before it was the newest until then."""
        with self._lock:
            return (branch, position) in self._created

    def read(self, branch: str, position: int) -> Entry:
        """The entry at a position that was used: HistoryGap if cleanup removed it, Damaged if it is lost."""
        entry = self.find(branch, position)
        if entry is not None:
            return entry
        floor = self.floor(branch)
        if floor <= position:
            if not self.store.list(folder_of(branch), limit=1):
                raise HistoryGap(
                    f"branch '{branch}' is not in this graph: a clone did not copy it",
                    branch=branch,
                    hint=f"omnigraph pull SOURCE {branch} copies it",
                )
            raise Damaged(key_of(branch, position), "it is missing", affected=_commits_of(branch, position))
        raise swept(branch, f"entry {position} of branch '{branch}'", floor)

    def find(self, branch: str, position: int) -> Entry | None:
        """The entry at a position; None if there is none yet, or none any more."""
        return self._decoded(branch, position, self.store.find(key_of(branch, position)))

    def _decoded(self, branch: str, position: int, data: bytes | None) -> Entry | None:
        if data is None:
            return None
        key = key_of(branch, position)
        affected, known = _commits_of(branch, position), self._heads.get(branch)
        entry = decode_entry(data, key, affected, known and known[0])
        if (entry.branch, entry.position) != (branch, position):
            raise Damaged(key, f"it holds entry {entry.position} of branch '{entry.branch}'", affected=affected)
        return entry

    def branches(self) -> list[str]:
        """Every name that ever had a chain, including deleted branches, sorted; always including main."""
        return sorted({MAIN, *(unquote(name) for name in self.store.list_folders("branches"))})

    def positions(self, branch: str) -> list[int]:
        """The positions of all entries of a branch that are there, oldest first."""
        return [position_of(info.key) for info in reversed(self.store.list(folder_of(branch)))]

    def floor(self, branch: str) -> int:
        """The watermark: the position of a branch from which on cleanup keeps all entries."""
        newest = self.store.list(watermark_folder(branch), limit=1)
        return position_of(newest[0].key) if newest else 0

    def _followed(self, branch: str, now: float, at_once: int = 1) -> Entry | None:
        """The newest entry, found by probing from a cached head, so many positions at once; None if there is none, or if too many
        entries were added since."""
        with self._lock:
            cached = self._heads.get(branch)
        if cached is None or now - cached[1] >= PROBE_WINDOW_S:
            return None
        entry = cached[0]
        if (has_next := self.store.has(key_of(branch, entry.position + 1))) is not None:
            newest = self._last_there(branch, entry.position + 1) if has_next else entry.position
            return entry if newest == entry.position else self.find(branch, newest)
        for _ in range(MAX_PROBES):
            positions = range(entry.position + 1, entry.position + 1 + at_once)
            objects = self.store.find_many([key_of(branch, position) for position in positions])
            following = [*filter(None, map(partial(self._decoded, branch), positions, objects))]
            if following:
                entry = following[-1]
            if len(following) < at_once:
                return entry
        return None

    def _last_there(self, branch: str, position: int) -> int:
        """The last position with an entry, from this one on, if probing is cheap: by doubling steps, then by bisection. Nothing
        after a recently seen head is removed by cleanup."""
        step = 1
        while self.store.has(key_of(branch, position + step)):
            position, step = position + step, step * 2
        while step > 1:
            step //= 2
            if self.store.has(key_of(branch, position + step)):
                position += step
        return position

    def _listed_once(self, branch: str) -> Entry | None:
        with self._lock:
            known, listing = self._heads.get(branch), self._listings.setdefault(branch, threading.Lock())
        with listing:
            if self._heads.get(branch) is known:
                started = self.clock()
                entry = self._listed(branch)
                if entry is not None and self.clock() - started < PROBE_WINDOW_S:
                    self._remember(entry, started)
                return entry
        # Another thread has listed it meanwhile, perhaps before this one asked.
        return self._followed(branch, self.clock()) or self._listed(branch)

    def _listed(self, branch: str) -> Entry | None:
        while newest := self.store.list(folder_of(branch), limit=1):
            entry = self.find(branch, position_of(newest[0].key))
            if entry is not None:
                return entry
            # Cleanup removed it between the two requests, so it was no longer the newest.
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
        """Create the entry at its position, and return it as it is in the chain. None if it is not there and cannot get there.

        `prepared_at` is when the entry before it was last known to be the head. OutcomeUnknown only if the store does not answer:
        after a lost answer the position is read, and a request that may still arrive is repeated at the same position, where it
        can win only once. `sync_first` are local files that must be durable before the entry is visible.
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
        """Create the entry at its position. None if another entry has it, which is cached: the next attempt starts from it.

        An entry with the same id is ours, although its bytes may differ: two processes may publish the same prepared plan.
        """
        key, data = key_of(entry.branch, entry.position), encode_entry(entry)
        silence = f"the store stopped answering while commit {entry.id} was published"
        last_error: StorageError | None = None
        for number in range(CREATE_ATTEMPTS):
            try:
                reach(Failpoint.PUBLISH_BEFORE_CREATE)
                self.store.create(key, data, sync_first=sync_first)
                reach(Failpoint.PUBLISH_AFTER_CREATE)
                return entry
            except StorageError as error:
                # One attempt can be several requests: whatever the last answer says, an earlier one may have been applied.
                reach(Failpoint.PUBLISH_BEFORE_READBACK)
                holder = self._holder(entry)
                if holder is not None and holder.id == entry.id:
                    if is_disk_fault(error):
                        visible = f"commit {entry.id} is visible, and may be lost if the power fails"
                        raise OutcomeUnknown(f"{visible}: {error.message}", commit_id=entry.id) from error
                    return holder
                if holder is not None:
                    self._remember(holder, prepared_at)
                    return None
                if isinstance(error, (ObjectExists, StorageTransient)):
                    last_error = error
                    continue
                if number == 0:
                    raise
                raise OutcomeUnknown(f"{silence}: {error.message}", commit_id=entry.id) from error
        raise OutcomeUnknown(silence, commit_id=entry.id) from last_error

    def _holder(self, entry: Entry) -> Entry | None:
        """The entry at a position, after a create that may have succeeded; None if it cannot be read."""
        try:
            return self.find(entry.branch, entry.position)
        except Damaged as error:
            raise OutcomeUnknown(f"{error.message}, and may be commit {entry.id}", commit_id=entry.id) from error
        except StorageError:
            return None

    def _is_garbage(self, entry: Entry) -> bool:
        """Whether the entry was created at a position that cleanup had removed. After the create, an error does not mean that the
        entry does not exist."""
        try:
            return self.floor(entry.branch) > entry.position and not self._was_in_chain(entry)
        except (StorageError, Damaged) as error:
            raise OutcomeUnknown(
                f"commit {entry.id} was created, and whether it is in its branch could not be checked: {error.message}",
                commit_id=entry.id,
            ) from error

    def _was_in_chain(self, entry: Entry) -> bool:
        """Whether an entry that was created at a position below the watermark had been in the chain before the cleanup.

        The watermark is raised before anything is removed, so reading it after our create shows every cleanup that could have
        freed this position. The log shows whether the entry was in the chain before that; if it is not in the log, we have
        created garbage. It is garbage too if the log has it at another position: another process has published the same prepared
        plan.
        """
        newest = self._listed(entry.branch)
        if newest is None or newest.incarnation != entry.incarnation:
            raise OutcomeUnknown(
                f"branch '{entry.branch}' was deleted and cleaned up while commit {entry.id} was published",
                commit_id=entry.id,
            )
        if entry.op == "create" or self._is_recorded(entry, newest):
            return True
        self.store.delete(key_of(entry.branch, entry.position))
        return False

    def _is_recorded(self, entry: Entry, last: Entry) -> bool:
        """Whether the log of the last entry of an incarnation has the commits of an entry, at its position."""
        first = self.log.find(last, entry.steps[0].commit.id) if entry.steps else None
        return first is not None and first.ref.position == entry.position

    def is_stray(self, entry: Entry) -> bool:
        """Whether an entry below the watermark is not part of its chain, as far as the log shows: its writer was so late that a
        cleanup had removed the position, and died before it could delete the entry again. A fence there adds nothing."""
        if self.floor(entry.branch) <= entry.position:
            return False
        last = self.newest(entry.branch)
        while last is not None and last.incarnation != entry.incarnation:
            start = incarnation_start(last.incarnation)[1]
            last = self.find(entry.branch, start - 1) if start > entry.position else None
        if last is None or entry.is_fence:
            return True
        return bool(entry.steps) and not self._is_recorded(entry, last)


def watermark_folder(branch: str) -> str:
    return f"{WATERMARKS}/{quote(branch, safe='')}"


def watermark_key(branch: str, floor: int) -> str:
    """The key of a watermark. Each one is a separate object, and the highest sorts first: raising it is a create, so that no
    cleanup can lower another's."""
    return f"{watermark_folder(branch)}/{MAX_POSITION - floor:0{POSITION_DIGITS}d}.json"


def swept(branch: str, what: str, floor: int) -> HistoryGap:
    """The error for something on a branch that cleanup has removed."""
    return HistoryGap(
        f"{what} was removed by cleanup, or not copied by a clone: branch '{branch}' has entries from {floor} on",
        branch=branch,
        watermark=floor,
        hint="start from a newer commit; 'omnigraph log' shows them",
    )


def _commits_of(branch: str, position: int) -> str:
    """What is affected by a lost entry."""
    return f"the commits of entry {position} of branch '{branch}' cannot be read, nor can what was merged from them"
