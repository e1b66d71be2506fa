"""Named points between two durable effects, where a test may stop, break or kill the program.

The list is closed. Only `omnigraph.testing.failpoints` installs a hook; in a process without one `reach` is one
comparison. A child process is armed through the environment variable `OMNIGRAPH_FAILPOINTS`, described there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from enum import StrEnum

ENVIRONMENT = "OMNIGRAPH_FAILPOINTS"


class Failpoint(StrEnum):
    """Every point there is. The value is `<package>.<place>`."""

    TABLE_STAGED_DATA = "table.staged_data"
    TABLE_STAGED_VERSION = "table.staged_version"
    TXN_BEFORE_STAGE = "txn.before_stage"
    TXN_AFTER_STAGE = "txn.after_stage"
    PUBLISH_BEFORE_CREATE = "publish.before_create"
    PUBLISH_AFTER_CREATE = "publish.after_create"
    PUBLISH_BEFORE_READBACK = "publish.before_readback"
    PUBLISH_BEFORE_ACK = "publish.before_ack"
    BRANCH_BEFORE_CREATE = "branch.before_create"
    BRANCH_AFTER_CREATE = "branch.after_create"
    BRANCH_BEFORE_DELETE = "branch.before_delete"
    BRANCH_AFTER_DELETE = "branch.after_delete"
    TAG_BEFORE_CREATE = "tag.before_create"
    TAG_AFTER_CREATE = "tag.after_create"
    SCHEMA_BEFORE_PUT = "schema.before_put"
    INIT_BEFORE_GRAPH_JSON = "init.before_graph_json"
    INIT_BEFORE_FIRST_COMMIT = "init.before_first_commit"
    HISTORY_BEFORE_ROLLUP = "history.before_rollup"
    HISTORY_AFTER_ROLLUP = "history.after_rollup"
    RECOVERY_PLAN_PROVISIONAL = "recovery.plan_provisional"
    RECOVERY_PLAN_WRITTEN = "recovery.plan_written"
    RECOVERY_BEFORE_REMOVE = "recovery.before_remove"
    SWEEP_BEFORE_WATERMARK = "sweep.before_watermark"
    SWEEP_AFTER_WATERMARK = "sweep.after_watermark"
    SWEEP_AFTER_CUTOFF = "sweep.after_cutoff"
    SWEEP_AFTER_FENCE = "sweep.after_fence"
    SWEEP_AFTER_ENTRIES = "sweep.after_entries"
    SWEEP_AFTER_DELETE = "sweep.after_delete"
    LOAD_AFTER_READ = "load.after_read"
    LOAD_AFTER_STAGE = "load.after_stage"
    LOAD_AFTER_CHECKS = "load.after_checks"
    LOAD_AFTER_INDEXES = "load.after_indexes"
    LOAD_BEFORE_PUBLISH = "load.before_publish"
    LOAD_AFTER_PUBLISH = "load.after_publish"
    COPY_AFTER_OBJECT = "copy.after_object"
    CLONE_BEFORE_GRAPH_JSON = "clone.before_graph_json"
    PUSH_AFTER_COPY = "push.after_copy"
    OPTIMIZE_AFTER_REWRITE = "optimize.after_rewrite"
    OPTIMIZE_AFTER_INDEXES = "optimize.after_indexes"
    OPTIMIZE_BEFORE_PUBLISH = "optimize.before_publish"
    MERGE_BEFORE_STAGE = "merge.before_stage"
    MERGE_BEFORE_PUBLISH = "merge.before_publish"
    MERGE_AFTER_PUBLISH = "merge.after_publish"
    MERGE_BEFORE_BRANCH_DELETE = "merge.before_branch_delete"


_arming = threading.Lock()


def _arm_from_environment(point: Failpoint) -> None:
    """The hook of a process that was armed before it started: arms on the first point it reaches."""
    from omnigraph.testing.failpoints import arm_from_environment

    with _arming:
        if _hook is _arm_from_environment:  # Threads may reach their first points at the same time.
            arm_from_environment(os.environ[ENVIRONMENT])
    if _hook is not None:
        _hook(point)


_hook: Callable[[Failpoint], None] | None = _arm_from_environment if ENVIRONMENT in os.environ else None


def reach(point: Failpoint) -> None:
    """Called by the program at `point`. Does nothing unless a test installed a hook."""
    if _hook is not None:
        _hook(point)


def install(hook: Callable[[Failpoint], None] | None) -> None:
    """Call `hook` at every point from now on; None removes it."""
    global _hook
    _hook = hook
