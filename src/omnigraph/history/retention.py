"""Sweeping old entries of a chain. The watermark goes up first, durably; only then is anything deleted.

Whoever still holds an old head either probes within PROBE_WINDOW_S, and no entry that young is ever swept, or looks at
the listing; a writer that created a swept position anew reads the watermark and knows (`Chain._resurrected`).
"""

from __future__ import annotations

import json

from omnigraph.history.chain import PROBE_WINDOW_S, Chain, folder_of, position_of, watermark_key
from omnigraph.history.values import CommitRef
from omnigraph.storage.failpoints import Failpoint, reach

SWEEP_AGE_S = 6 * PROBE_WINDOW_S


def sweep_chain(chain: Chain, branch: str, *, keep: int, protected: frozenset[CommitRef] = frozenset()) -> int:
    """Delete entries of a branch older than its `keep` newest ones and than SWEEP_AGE_S; how many went.

    Entries of `protected` commits stay; the newest entry always does.
    """
    newest = chain.newest(branch)
    if newest is None:
        return 0
    objects = chain.store.list(folder_of(branch))
    kept_positions = {ref.position for ref in protected if ref.branch == branch}
    now = chain.clock()
    floor = max(0, newest.position - max(keep, 1) + 1)
    # An entry younger than the limit keeps everything after it too: what is swept is always the oldest run.
    young = [position_of(info.key) for info in objects if now - info.modified.timestamp() < SWEEP_AGE_S]
    floor = min([floor, *young])
    if floor <= chain.floor(branch):
        return 0
    reach(Failpoint.SWEEP_BEFORE_WATERMARK)
    chain.store.put(watermark_key(branch), json.dumps({"floor": floor}).encode())
    reach(Failpoint.SWEEP_AFTER_WATERMARK)
    swept = 0
    for info in objects:
        position = position_of(info.key)
        if position < floor and position not in kept_positions:
            chain.store.delete(info.key)
            swept += 1
    reach(Failpoint.SWEEP_AFTER_DELETE)
    return swept
