"""How cleanup and all other processes stay safe from each other: the watermark, the cutoff and fences.

Cleanup deletes two kinds of objects, and for each another process may come too late.

*Entries of a chain.* The **watermark** of a branch is raised first, durably; only then are entries below it deleted, and only
those that were superseded at least GRACE_S ago. A process with an old head either probes within PROBE_WINDOW_S, and nothing that
young is ever deleted, or lists the chain; a writer that created an entry at a deleted position notices it by reading the
watermark (`Chain._was_in_chain`). A process that creates a tag or a branch at an old commit reads the watermark afterwards, and
cleanup reads tags and branches after it has raised the watermark: one of the two sees the other.

*Files that no kept commit names.* A writer may have staged them and not have published yet. The **cutoff**, a time of the store's
clock, is raised first: files written before it may be gone. Then every living branch gets a **fence**, an entry without commits;
then the heads are read, and what they do not need may be deleted. So a writer that was stopped between staging and its create
either has published before the fence, and its files are seen, or has lost the position to the fence or to another entry. Then it
makes another attempt, and before each attempt a writer that staged longer ago than PROBE_WINDOW_S compares that time with the
cutoff (`check_staged`). Long writes hold a lease, which keeps the cutoff below the time they began (`leases`); a prepared plan
names what it staged, and protects it as long as the plan exists.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import Damaged, HistoryGap, ObjectExists, ObjectMissing, StagedTooLongAgo, StorageError
from omnigraph.features import check_writable
from omnigraph.history.chain import PROBE_WINDOW_S, WATERMARKS, Chain, position_of, watermark_folder, watermark_key
from omnigraph.history.envelope import read_as, seal, unseal
from omnigraph.history.plan import PublishPlan, recovery_key
from omnigraph.history.values import CommitRef, Entry, decode_ref, encode_ref, new_incarnation
from omnigraph.storage.store import Store

GRACE_S = 6 * PROBE_WINDOW_S
"""What was superseded, or written and not yet named, within this time is never deleted."""
CLOCK_MARGIN_S = 60.0
"""Two clocks differ by less than this over the hours that are compared."""
CUTOFFS = "cutoffs"


class Retention:
    def __init__(self, store: Store, chain: Chain, new_id: Callable[[], str], clock: Callable[[], float]) -> None:
        self.store = store
        self.chain = chain
        self.new_id = new_id
        self.clock = clock

    def store_now(self) -> float:
        """The time by the store's clock, which determines the ages of objects: the time of an object that is written for this."""
        key = f"staging/clock-{self.new_id()}"
        self.store.put(key, b"")
        try:
            return self.store.info(key).modified.timestamp()
        finally:
            self.store.delete(key)

    # ------------------------------------------------------------ what cleanup does, in this order

    def raise_watermark(self, branch: str, floor: int) -> None:
        """Record durably that entries below `floor` may be gone. The watermark never falls."""
        reach(Failpoint.SWEEP_BEFORE_WATERMARK)
        with contextlib.suppress(ObjectExists):
            self.store.create(watermark_key(branch, floor), seal({"floor": floor}))
        reach(Failpoint.SWEEP_AFTER_WATERMARK)
        self._delete_surpassed(watermark_folder(branch))

    def raise_cutoff(self, cutoff: float) -> None:
        """Record durably that files written before this time, and named by no commit, may be gone. The cutoff never falls."""
        time_us = int(cutoff * 1_000_000)
        with contextlib.suppress(ObjectExists):
            self.store.create(_cutoff_key(time_us), seal({"cutoff": time_us}))
        reach(Failpoint.SWEEP_AFTER_CUTOFF)
        self._delete_surpassed(CUTOFFS)

    def _delete_surpassed(self, folder: str) -> None:
        """Delete watermarks, or cutoffs, below one that is at least GRACE_S old.

        Other processes may be listing them: a listing of a folder on disk is not a snapshot, but one that misses a new object
        still finds the one before it.
        """
        listed = self.store.list(folder)
        now = max(info.modified for info in listed).timestamp() if listed else 0.0
        has_stood = [now - info.modified.timestamp() >= GRACE_S for info in listed]
        if any(has_stood):
            self.store.delete_many([info.key for info in listed[has_stood.index(True) + 1 :]])

    def cutoff(self) -> float:
        """The highest cutoff; 0 if nothing was ever deleted."""
        listed = self.store.list(CUTOFFS, limit=1)
        return _cutoff_us(listed[0].key) / 1_000_000 if listed else 0.0

    def fence(self, branch: str) -> None:
        """Take the next position of a living branch, so that no write that was prepared before gets it. An entry of another
        process does as well: it was created after this read the head."""
        prepared_at = self.clock()
        head = self.chain.newest(branch)
        if head is None or not head.alive:
            return
        check_writable(head.write_features, f"branch '{branch}'")
        entry = replace(
            head,
            id=self.new_id(),
            op="commit",
            position=head.position + 1,
            before=head.head,
            steps=(),
            tail=(*head.tail, *(step.commit for step in head.steps)),
        )
        self.chain.append(entry, prepared_at=prepared_at)
        reach(Failpoint.SWEEP_AFTER_FENCE)

    def fence_opening(self, opening: Entry) -> None:
        """Like `fence`, for a branch that does not exist and that a plan would create: it is closed before it is opened."""
        prepared_at = self.clock()
        newest = self.chain.newest(opening.branch)
        if newest is not None and newest.alive:
            return
        entry_id = self.new_id()
        position = 0 if newest is None else newest.position + 1
        incarnation = new_incarnation(opening.branch, position, entry_id)
        closing = replace(opening, id=entry_id, op="delete", position=position, incarnation=incarnation, steps=())
        self.chain.append(closing, prepared_at=prepared_at)

    # ------------------------------------------------------------ what other processes do

    def check_staged(self, plan: PublishPlan) -> None:
        """Called before a plan is published: StagedTooLongAgo if a cleanup may have removed what it staged.

        It is called after the head was read and before the create; a cleanup that begins in between creates a fence.
        """
        is_late = plan.kept_since is not None and self.clock() - plan.kept_since >= PROBE_WINDOW_S
        if is_late and not self.is_prepared(plan.commit_id):
            raise StagedTooLongAgo(plan.branch, "its prepared plan is gone: it was discarded, or too old")
        if plan.staged_since is not None:
            self.check_cutoff(plan.branch, plan.staged_since)

    def check_prepared(self, plan: PublishPlan) -> None:
        """Called after a prepared plan was stored, which protects what it names from then on: StagedTooLongAgo if a cleanup that
        has not seen it may have removed something already."""
        if plan.staged_since is not None:
            self.check_cutoff(plan.branch, plan.staged_since)

    @contextlib.contextmanager
    def explaining(self, branch: str, staged_since: float) -> Iterator[None]:
        """Within the block, an error because of a missing file becomes StagedTooLongAgo if cleanup may have removed it; but not
        an error with an unknown outcome."""
        try:
            yield
        except (StorageError, Damaged) as error:
            self.explain(error, branch, staged_since)
            raise

    def explain(self, error: StorageError | Damaged, branch: str, staged_since: float) -> None:
        """Raises StagedTooLongAgo if that may be why something failed."""
        if error.outcome == "unknown":
            return
        try:
            self.check_cutoff(branch, staged_since)
        except StagedTooLongAgo as late:
            raise late from error

    def check_cutoff(self, branch: str, staged_since: float) -> None:
        """StagedTooLongAgo if a cleanup may have removed what was staged since this time and is not named by a commit yet."""
        elapsed = self.clock() - staged_since
        if elapsed < PROBE_WINDOW_S:
            return
        cutoff = self.cutoff()
        if cutoff and cutoff > self.store_now() - (self.clock() - staged_since) - CLOCK_MARGIN_S:
            raise StagedTooLongAgo(branch, f"it was staged {elapsed / 60:.0f} minutes ago")

    def is_prepared(self, commit_id: str) -> bool:
        try:
            self.store.info(recovery_key(commit_id))
        except ObjectMissing:
            return False
        return True

    def check_kept(self, commit: CommitRef, what: str) -> None:
        """Called after something was created that protects a commit: HistoryGap if a cleanup that has not seen it may remove the
        commit. None removes the commit at which a branch is, though its fences may have put it below the watermark."""
        floor = self.chain.floor(commit.branch)
        if floor <= commit.position:
            return
        newest = self.chain.newest(commit.branch)
        if newest is None or not newest.alive or newest.head.commit.ref != commit:
            raise HistoryGap(
                f"commit {commit.id} is older than what cleanup keeps of branch '{commit.branch}' "
                f"(entries from {floor} on), so {what}",
                branch=commit.branch,
                watermark=floor,
                hint="choose a newer commit; where a branch or a tag is at this one, a branch can start from that name",
            )


def limit_object(key: str) -> bytes | None:
    """The bytes of a watermark or cutoff, which its key determines; None for any other object."""
    if key.startswith(f"{CUTOFFS}/"):
        return seal({"cutoff": _cutoff_us(key)})
    return seal({"floor": position_of(key)}) if key.startswith(f"{WATERMARKS}/") else None


def _cutoff_key(time_us: int) -> str:
    """The key of a cutoff. Keys sort highest first, like the entries of a chain."""
    return f"{CUTOFFS}/{_MAX_TIME_US - time_us:018d}.json"


_MAX_TIME_US = 10**18 - 1


def _cutoff_us(key: str) -> int:
    return _MAX_TIME_US - int(key.rsplit("/", 1)[1].removesuffix(".json"))


# Leases: how a long write keeps cleanup from what it has staged and from the commit it reads.
#
# A lease is one object that its holder writes repeatedly, for as long as it works. It says since when, by the store's clock, the
# holder has been staging: cleanup does not remove unnamed files that are younger. A lease that was not renewed for GRACE_S is dead,
# and so, presumably, is its holder. A write that ends before the first renewal never writes a lease: nothing is removed that
# quickly.

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
