"""Leases: how a long write keeps cleanup from what it has staged and from the commit it reads.

A lease is one object that its holder writes repeatedly, for as long as it works. It says since when, by the store's clock, the
holder has been staging: cleanup does not remove unnamed files that are younger. A lease that was not renewed for GRACE_S is dead,
and so, presumably, is its holder. A write that ends before the first renewal never writes a lease: nothing is removed that
quickly.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from omnigraph.errors import ObjectMissing, StorageError
from omnigraph.history.chain import PROBE_WINDOW_S
from omnigraph.history.envelope import read_as, seal, unseal
from omnigraph.history.retention import CLOCK_MARGIN_S, GRACE_S, Retention
from omnigraph.history.values import CommitRef, decode_ref, encode_ref
from omnigraph.storage import Store

LEASES = "leases"
RENEWAL_S = PROBE_WINDOW_S / 2


@dataclass(frozen=True)
class Lease:
    """A lease on a commit; `since` is by the store's clock."""

    id: str
    commit: CommitRef
    since: float


class Leases:
    def __init__(
        self, store: Store, retention: Retention, new_id: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self.store = store
        self.retention = retention
        self.new_id = new_id
        self.clock = clock

    @contextlib.contextmanager
    def hold(self, commit: CommitRef, *, since: float | None = None) -> Iterator[None]:
        """Protect what is staged in the block, and the commit that it reads, while the block runs. With `since`, a time of the
        store's clock, what others have staged since then is protected too.
        """
        started, ended = self.clock(), threading.Event()
        lease: list[Lease] = []

        def renew() -> None:
            while not ended.wait(RENEWAL_S):
                # The next renewal comes long before the lease is dead. A holder that can never renew it finds out when it publishes.
                with contextlib.suppress(StorageError):
                    if not lease:
                        lease.append(self.begin(commit, started, since))
                    self.renew(lease[0])

        renewing = threading.Thread(target=renew, name="omnigraph-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            for held in lease:
                with contextlib.suppress(StorageError):
                    self.release(held)

    def begin(self, commit: CommitRef, started: float, since: float | None = None) -> Lease:
        """A lease, not yet written, of a holder that began at this time of its own clock, or at `since` by the store's. It starts
        a little earlier, so that its holder is never refused as too late (`Retention.check_staged`).
        """
        if since is None:
            since = self.retention.store_now() - (self.clock() - started)
        return Lease(self.new_id(), commit, since - 2 * CLOCK_MARGIN_S)

    def renew(self, lease: Lease) -> None:
        value = {"commit": encode_ref(lease.commit), "since": int(lease.since * 1_000_000)}
        self.store.put(_key(lease.id), seal(value))

    def release(self, lease: Lease) -> None:
        self.store.delete(_key(lease.id))

    def living(self, now: float) -> list[Lease]:
        """The leases that were renewed within GRACE_S before `now`, a time of the store's clock."""
        living = []
        for info in self.store.list(LEASES):
            if now - info.modified.timestamp() >= GRACE_S:
                continue
            with contextlib.suppress(ObjectMissing):  # Released meanwhile.
                living.append(_decoded(info.key, self.store.get(info.key)))
        return living


def _decoded(key: str, data: bytes) -> Lease:
    value = unseal(key, data)
    lease_id = key.rsplit("/", 1)[1].removesuffix(".json")
    return read_as(key, lambda: Lease(lease_id, decode_ref(value["commit"]), value["since"] / 1_000_000))


def _key(lease_id: str) -> str:
    return f"{LEASES}/{lease_id}.json"
