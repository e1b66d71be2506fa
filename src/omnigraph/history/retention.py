"""What keeps cleanup and everybody else out of each other's way: the watermark, the cutoff and fences.

Cleanup deletes two kinds of things, and each has its own late comer.

*Entries of a chain.* The **watermark** of a branch goes up first, durably; only then are entries below it deleted, and those
only that were superseded GRACE_S ago. Whoever still holds an old head either probes within PROBE_WINDOW_S, and nothing that
young is ever deleted, or looks at the listing; a writer that made a deleted position anew reads the watermark and knows
(`Chain._was_in_chain`). Whoever makes a tag or a branch at an old commit looks at the watermark afterwards, and cleanup looks
at tags and branches after it has raised the watermark: one of the two sees the other.

*Files that no kept commit names.* Some writer may have staged them and not have published yet. The **cutoff**, a time of
the store's own clock, goes up first: files written before it may be gone. Then every living branch gets a **fence**, an entry
without commits; then the heads are read, and what they do not need may be deleted. So a writer that was stopped between
staging and its create has either published before the fence, and its files are seen, or has lost the position to it (or to
somebody else). It makes another attempt then, and before each attempt whoever staged longer ago than PROBE_WINDOW_S compares
that time with the cutoff (`check_staged`). Long writes hold a lease, which keeps the cutoff below the time they began
(`leases`); a prepared plan names what it staged, and protects it for as long as it is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from omnigraph.errors import Damaged, HistoryGap, ObjectExists, ObjectMissing, StagedTooLongAgo, StorageError
from omnigraph.failpoints import Failpoint, reach
from omnigraph.features import check_writable
from omnigraph.history.chain import PROBE_WINDOW_S, WATERMARKS, Chain, position_of, watermark_folder, watermark_key
from omnigraph.history.envelope import seal
from omnigraph.history.plan import PublishPlan
from omnigraph.history.recovery import recovery_key
from omnigraph.history.values import CommitRef, Entry, new_incarnation
from omnigraph.storage import Store

GRACE_S = 6 * PROBE_WINDOW_S
"""What was superseded, or written and not yet named, within this time is never deleted."""
CLOCK_MARGIN_S = 60.0
"""Two clocks measure the same hours differently by less than this."""
CUTOFFS = "cutoffs"


class Retention:
    def __init__(self, store: Store, chain: Chain, new_id: Callable[[], str], clock: Callable[[], float]) -> None:
        self.store = store
        self.chain = chain
        self.new_id = new_id
        self.clock = clock

    def store_now(self) -> float:
        """The time by the store's own clock, with which ages of objects are measured: an object is written and looked at."""
        key = f"staging/clock-{self.new_id()}"
        self.store.put(key, b"")
        try:
            return self.store.info(key).modified.timestamp()
        finally:
            self.store.delete(key)

    # ------------------------------------------------------------ what cleanup does, in this order

    def raise_watermark(self, branch: str, floor: int) -> None:
        """Say durably that entries below `floor` may be gone. It never falls."""
        reach(Failpoint.SWEEP_BEFORE_WATERMARK)
        with contextlib.suppress(ObjectExists):
            self.store.create(watermark_key(branch, floor), seal({"floor": floor}))
        reach(Failpoint.SWEEP_AFTER_WATERMARK)
        self._delete_surpassed(watermark_folder(branch))

    def raise_cutoff(self, cutoff: float) -> None:
        """Say durably that files written before this time, and named by no commit, may be gone. It never falls."""
        time_us = int(cutoff * 1_000_000)
        with contextlib.suppress(ObjectExists):
            self.store.create(_cutoff_key(time_us), seal({"cutoff": time_us}))
        reach(Failpoint.SWEEP_AFTER_CUTOFF)
        self._delete_surpassed(CUTOFFS)

    def _delete_surpassed(self, folder: str) -> None:
        """Delete watermarks, or cutoffs, below one that has stood for GRACE_S.

        Somebody may be listing them: who misses one that was made meanwhile still finds the one before it. A listing of a
        folder on disk takes no snapshot of it.
        """
        listed = self.store.list(folder)
        now = max(info.modified for info in listed).timestamp() if listed else 0.0
        has_stood = [now - info.modified.timestamp() >= GRACE_S for info in listed]
        if any(has_stood):
            self.store.delete_many([info.key for info in listed[has_stood.index(True) + 1 :]])

    def cutoff(self) -> float:
        """The highest cutoff there is; 0 when nothing was ever deleted."""
        listed = self.store.list(CUTOFFS, limit=1)
        return _cutoff_us(listed[0].key) / 1_000_000 if listed else 0.0

    def fence(self, branch: str) -> None:
        """Take the next position of a living branch, so that nobody gets it with what was prepared before. Somebody else's
        entry does as well: it was made after this looked for the head."""
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
        """The same for a branch that is not there and that a plan would make: it is closed before it was opened."""
        prepared_at = self.clock()
        newest = self.chain.newest(opening.branch)
        if newest is not None and newest.alive:
            return
        entry_id = self.new_id()
        position = 0 if newest is None else newest.position + 1
        incarnation = new_incarnation(opening.branch, position, entry_id)
        closing = replace(opening, id=entry_id, op="delete", position=position, incarnation=incarnation, steps=())
        self.chain.append(closing, prepared_at=prepared_at)

    # ------------------------------------------------------------ what others do

    def check_staged(self, plan: PublishPlan) -> None:
        """Before a plan is published: StagedTooLongAgo when a cleanup may have taken what it staged.

        It is asked after the head was looked at and before the create; a cleanup that begins in between has a fence there.
        """
        is_late = plan.kept_since is not None and self.clock() - plan.kept_since >= PROBE_WINDOW_S
        if is_late and not self.is_prepared(plan.commit_id):
            raise StagedTooLongAgo(plan.branch, "its prepared plan is gone: it was discarded, or too old")
        if plan.staged_since is not None:
            self.check_cutoff(plan.branch, plan.staged_since)

    def check_prepared(self, plan: PublishPlan) -> None:
        """After a prepared plan was stored, which protects what it names from now on: StagedTooLongAgo when a cleanup that
        has not seen it may have taken that already."""
        if plan.staged_since is not None:
            self.check_cutoff(plan.branch, plan.staged_since)

    @contextlib.contextmanager
    def explaining(self, branch: str, staged_since: float) -> Iterator[None]:
        """What fails in the block because a file is not there fails as StagedTooLongAgo if cleanup may have taken it. Not what
        leaves open whether there is a commit."""
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
        """StagedTooLongAgo when a cleanup may have taken what was staged from this time on and is not named yet."""
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
        """After something was made that protects a commit: HistoryGap when a cleanup that has not seen it may take the commit."""
        floor = self.chain.floor(commit.branch)
        if floor > commit.position:
            raise HistoryGap(
                f"commit {commit.id} is older than what cleanup keeps of branch '{commit.branch}' "
                f"(entries from {floor} on), so {what}",
                branch=commit.branch,
                watermark=floor,
                hint="choose a newer commit",
            )


def limit_object(key: str) -> bytes | None:
    """The bytes of a watermark or cutoff, which follow from its key; None for any other object."""
    if key.startswith(f"{CUTOFFS}/"):
        return seal({"cutoff": _cutoff_us(key)})
    return seal({"floor": position_of(key)}) if key.startswith(f"{WATERMARKS}/") else None


def _cutoff_key(time_us: int) -> str:
    """Highest first, as the entries of a chain."""
    return f"{CUTOFFS}/{_MAX_TIME_US - time_us:018d}.json"


_MAX_TIME_US = 10**18 - 1


def _cutoff_us(key: str) -> int:
    return _MAX_TIME_US - int(key.rsplit("/", 1)[1].removesuffix(".json"))
