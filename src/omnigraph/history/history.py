"""The history of one graph: all parts, with one store, one clock and one source of ids."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial

from omnigraph._internal.deadlines import Deadline
from omnigraph.errors import Cancelled, QueryTimeout, UsageError
from omnigraph.history import genesis
from omnigraph.history.branches import Branches
from omnigraph.history.chain import COMMIT_ID, Chain
from omnigraph.history.envelope import SchemaTexts
from omnigraph.history.genesis import Identity
from omnigraph.history.lineage import Lineage
from omnigraph.history.log import MAX_TAIL, Log
from omnigraph.history.plan import Recovery
from omnigraph.history.publish import Publisher
from omnigraph.history.retention import Leases, Retention
from omnigraph.history.revisions import Revisions
from omnigraph.history.tags import Tags
from omnigraph.history.values import Commit, Entry, SteadyClock, uptime
from omnigraph.history.write_keys import WriteKeys
from omnigraph.storage.store import Store

# Waiting for the head of a branch to move.
#
# Writes and reads through this graph wake its waiters at once: the chain calls back when it learns of a newer entry. Writes of
# other processes are found by polling the head. One of the waiters of a branch does that for all of them.

POLL_INTERVAL_S = 0.25


class Watch:
    """The waiters for all branches of one graph. Thread-safe."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._moved = threading.Condition()
        self._polled: set[str] = set()
        """The branches whose head a waiter is polling."""
        chain.on_newer(self._wake)

    def wait(self, branch: str, since: str | None, deadline: Deadline) -> Commit | None:
        """The commit at the head, once it is not `since` any more (by default, the current one). None if the time is over first.
        BranchNotFound if the branch is deleted, Cancelled if the call is."""
        if since is not None and not COMMIT_ID.fullmatch(since):
            raise UsageError(f"'{since}' is not a commit id", hint="give the id of the commit that you have seen")
        head = self._chain.head(branch)
        seen = since or head.head.commit.id
        with deadline.waking(self._wake):
            while head.head.commit.id == seen:
                try:
                    deadline.check()
                except QueryTimeout:
                    return None
                head = self._next(head, deadline)
        return head.head.commit

    def _next(self, head: Entry, deadline: Deadline) -> Entry:
        """The head of the branch after a while, or as soon as it has moved."""
        branch = head.branch
        with self._moved:
            does_poll = branch not in self._polled
            if does_poll:
                self._polled.add(branch)
            try:
                if not self._is_over(head, deadline):
                    self._moved.wait(_least(deadline.remaining_s(), POLL_INTERVAL_S if does_poll else None))
            finally:
                if does_poll:
                    self._polled.remove(branch)
                    # Another waiter may have to poll from now on.
                    self._moved.notify_all()
        known = self._chain.cached_head(branch)
        return self._chain.head(branch) if does_poll or known is None or not known[0].alive else known[0]

    def _is_over(self, head: Entry, deadline: Deadline) -> bool:
        """Whether there is no need to wait. Called with the lock, so that no wake-up is missed."""
        known = self._chain.cached_head(head.branch)
        try:
            deadline.check()
        except (QueryTimeout, Cancelled):
            return True
        return known is not None and known[0].position > head.position

    def _wake(self) -> None:
        with self._moved:
            self._moved.notify_all()


def _least(*seconds: float | None) -> float | None:
    return min((limit for limit in seconds if limit is not None), default=None)


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
SEED_BYTES = 2_496
"""The size of the generator's state."""
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]


class _Ulids:
    """ULIDs: 48 bits of milliseconds and 80 random bits as 26 digits of Crockford's base 32. Those of one process sort in the
    order in which they were made, so what a transaction inserts keeps its order."""

    def __init__(self) -> None:
        self._last = 0
        self._chance = random.Random(os.urandom(SEED_BYTES))
        self._lock = threading.Lock()

    def new(self) -> str:
        # Asking the system for random bits every time would release the GIL to another thread.
        number = time.time_ns() // 1_000_000 << 80 | self._chance.getrandbits(80)
        with self._lock:
            number = self._last = max(number, self._last + 1)
        return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


_ulids = _Ulids()


def _begin_anew() -> None:
    """Seed again in a forked process, which must not continue the sequence of its parent."""
    global _ulids
    _ulids = _Ulids()


os.register_at_fork(after_in_child=_begin_anew)


def new_ulid() -> str:
    return _ulids.new()


class History:
    """The history of an existing graph. Clocks, sleep, jitter and ids are arguments so that a simulation can control them.

    `clock` says how much time has passed; `wall_clock` gives commits their times.
    """

    def __init__(
        self,
        store: Store,
        identity: Identity,
        *,
        new_id: Callable[[], str] = new_ulid,
        wall_clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] = uptime,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        max_tail: int = MAX_TAIL,
    ) -> None:
        self.store = store
        self.identity = identity
        self.new_id = new_id
        self.wall_clock = wall_clock
        self.clock = clock = SteadyClock(wall_clock, uptime)
        self.sleep = sleep
        self.jitter = jitter
        self.log = Log(store, new_id, max_tail=max_tail)
        self.chain = Chain(store, self.log, clock=clock, begin=partial(genesis.ensure_first_entry, store, identity))
        self.watch = Watch(self.chain)
        self.retention = Retention(store, self.chain, new_id, clock)
        self.lineage = Lineage(self.chain, new_id)
        self.tags = Tags(store, self.chain, self.retention, new_id, identity.write_features)
        self.keys = WriteKeys(store, self.log, new_id, self._clock_us)
        self.branches = Branches(self.chain, self.log, self.lineage, self.tags, self.keys, self.retention, new_id)
        self.schemas = SchemaTexts(store)
        self.recovery = Recovery(store)
        self.leases = Leases(store, self.retention, new_id, clock)
        self.revisions = Revisions(self.chain, self.log, self.lineage, self.tags)
        self.publisher = Publisher(
            self.chain,
            self.log,
            self.lineage,
            self.tags,
            self.keys,
            self.retention,
            new_id,
            clock_us=self._clock_us,
        )

    def _clock_us(self) -> int:
        return int(self.wall_clock() * 1_000_000)

    @classmethod
    def create(
        cls,
        store: Store,
        schema: bytes,
        *,
        actor: str | None = None,
        new_id: Callable[[], str] = new_ulid,
        wall_clock: Callable[[], float] = time.time,
    ) -> History:
        """Create a graph with this schema and no rows."""
        digest = SchemaTexts(store).put(schema)
        identity = genesis.create_graph(
            store, digest, new_id=new_id, clock_us=lambda: int(wall_clock() * 1_000_000), actor=actor
        )
        return cls(store, identity, new_id=new_id, wall_clock=wall_clock)

    @classmethod
    def open(cls, store: Store) -> History:
        """Open an existing graph; otherwise GraphNotFound or UnsupportedFormat. One request: heads are not read, so that a
        damaged graph can be opened to be verified and repaired."""
        return cls(store, genesis.read_identity(store))
