"""Sweeping old entries of a chain. The watermark goes up first, durably; only then is anything deleted.

Whoever still holds an old head either probes within PROBE_WINDOW_S, and no entry that young is ever swept, or looks at
the listing; a writer that made a swept position anew reads the watermark and knows (`Chain._was_in_chain`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from omnigraph.errors import ObjectExists
from omnigraph.failpoints import Failpoint, reach
from omnigraph.features import check_writable
from omnigraph.history.chain import (
    PROBE_WINDOW_S,
    Chain,
    folder_of,
    position_of,
    watermark_folder,
    watermark_key,
)
from omnigraph.history.envelope import seal
from omnigraph.history.values import CommitRef

SWEEP_AGE_S = 6 * PROBE_WINDOW_S


def sweep_chain(chain: Chain, branch: str, *, keep: int, protected: Callable[[], Iterable[CommitRef]]) -> int:
    """Delete entries of a branch older than its `keep` newest ones and than SWEEP_AGE_S; how many went.

    Entries of `protected` commits stay; the newest entry always does. `protected` is asked after the watermark is up:
    whoever protects a commit looks at the watermark afterwards, so one of the two sees the other (`Tags.create`).
    """
    newest = chain.newest(branch)
    if newest is None:
        return 0
    check_writable(newest.write_features, f"branch '{branch}'")
    objects = chain.store.list(folder_of(branch))
    now = chain.clock()
    floor = max(0, newest.position - max(keep, 1) + 1)
    # An entry younger than the limit keeps everything after it too: what is swept is always the oldest run.
    young = [position_of(info.key) for info in objects if now - info.modified.timestamp() < SWEEP_AGE_S]
    floor = min([floor, *young])
    old = [info.key for info in objects if position_of(info.key) < floor]
    if not old:
        return 0
    _raise_watermark(chain, branch, floor)
    kept = {ref.position for ref in protected() if ref.branch == branch}
    swept = [key for key in old if position_of(key) not in kept]
    for key in swept:
        chain.store.delete(key)
        reach(Failpoint.SWEEP_AFTER_DELETE)
    return len(swept)


def _raise_watermark(chain: Chain, branch: str, floor: int) -> None:
    reach(Failpoint.SWEEP_BEFORE_WATERMARK)
    with contextlib.suppress(ObjectExists):
        chain.store.create(watermark_key(branch, floor), seal({"floor": floor}))
    reach(Failpoint.SWEEP_AFTER_WATERMARK)
    for info in chain.store.list(watermark_folder(branch))[1:]:
        chain.store.delete(info.key)
