"""Named points between two durable effects, where a test may stop, break or kill the program.

The list is closed: a name that is not in `Failpoint` cannot be reached or armed. Only tests arm points; in a process
where none is armed `reach` is one look at an empty dictionary.

A child process is armed through the environment, before it starts:

    OMNIGRAPH_FAILPOINTS="publish.before_create=kill;table.staged_data=park:/some/folder@3"

`kill` ends the process at once, `raise` raises `FailpointReached`, `park:<folder>` makes the file `<folder>/reached`
and waits until `<folder>/release` exists. `@3` means the third time the point is reached, and only then.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from omnigraph.errors import UsageError

ENVIRONMENT = "OMNIGRAPH_FAILPOINTS"
_POLL_SECONDS = 0.005
_REACH_SECONDS_MAX = 120.0
_PARK_SECONDS_MAX = 300.0


class Failpoint(StrEnum):
    """Every point there is. The value is `<room>.<place>`."""

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
    RECOVERY_PLAN_WRITTEN = "recovery.plan_written"
    RECOVERY_BEFORE_REMOVE = "recovery.before_remove"
    SWEEP_BEFORE_WATERMARK = "sweep.before_watermark"
    SWEEP_AFTER_WATERMARK = "sweep.after_watermark"
    SWEEP_AFTER_DELETE = "sweep.after_delete"
    LOAD_AFTER_READ = "load.after_read"
    LOAD_AFTER_STAGE = "load.after_stage"
    LOAD_AFTER_CHECKS = "load.after_checks"
    LOAD_AFTER_INDEXES = "load.after_indexes"
    LOAD_BEFORE_PUBLISH = "load.before_publish"
    LOAD_AFTER_PUBLISH = "load.after_publish"
    MERGE_BEFORE_STAGE = "merge.before_stage"
    MERGE_BEFORE_PUBLISH = "merge.before_publish"
    MERGE_AFTER_PUBLISH = "merge.after_publish"
    MERGE_BEFORE_BRANCH_DELETE = "merge.before_branch_delete"


class FailpointReached(BaseException):
    """Raised by the action `raise`. No `Exception`, so that no handler of the program takes it for its own."""


Action = Callable[[], None]


@dataclass
class _Armed:
    action: Action
    nth: int
    hits: int = 0


_armed: dict[Failpoint, _Armed] = {}
_lock = threading.Lock()


def reach(point: Failpoint) -> None:
    """Called by the program at `point`. Does nothing unless a test armed it."""
    if not _armed:
        return
    with _lock:
        armed = _armed.get(point)
        if armed is None:
            return
        armed.hits += 1
        due = armed.hits == armed.nth
    if due:
        armed.action()


def arm(point: Failpoint, action: Action, *, nth: int = 1) -> None:
    """Do `action` the `nth` time `point` is reached from now on. One action per point; the last one armed counts."""
    with _lock:
        _armed[Failpoint(point)] = _Armed(action, nth)


def disarm_all() -> None:
    with _lock:
        _armed.clear()


def raising(error: BaseException) -> Action:
    def action() -> None:
        raise error

    return action


def killing() -> Action:
    """End this process as a power failure would: no handler, no clean-up."""
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


class Park:
    """An action that holds the thread which reaches the point until the test lets it go."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._released = threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        if not self._released.wait(_PARK_SECONDS_MAX):
            raise FailpointReached("parked and never released")

    def wait_until_reached(self, timeout_seconds: float = _REACH_SECONDS_MAX) -> None:
        if not self._reached.wait(timeout_seconds):
            raise TimeoutError("the point was not reached")

    def release(self) -> None:
        self._released.set()


class FilePark:
    """The same across processes, through two files in `folder`: one process parks, another waits and releases."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._reached = Path(folder) / "reached"
        self._release = Path(folder) / "release"

    def __call__(self) -> None:
        self._reached.parent.mkdir(parents=True, exist_ok=True)
        self._reached.touch()
        if not _appears(self._release, _PARK_SECONDS_MAX):
            raise FailpointReached("parked and never released")

    def wait_until_reached(self, timeout_seconds: float = _REACH_SECONDS_MAX) -> None:
        if not _appears(self._reached, timeout_seconds):
            raise TimeoutError("the point was not reached")

    def release(self) -> None:
        self._release.touch()


def arm_from_environment(text: str) -> None:
    """Arm what `text` says (see the top of this module). `UsageError` for an unknown point or action."""
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, separator, spec = item.partition("=")
        what, _, nth = spec.partition("@")
        if name not in set(Failpoint):
            raise UsageError(f"{ENVIRONMENT}: '{name}' is not a failpoint", hint=f"one of {', '.join(Failpoint)}")
        if not separator or (nth and not nth.isdigit()):
            raise UsageError(f"{ENVIRONMENT}: '{item}' is not <point>=<action>[@<number>]")
        arm(Failpoint(name), _action_named(what), nth=int(nth or 1))


def _action_named(what: str) -> Action:
    kind, _, argument = what.partition(":")
    if what == "kill":
        return killing()
    if what == "raise":
        return raising(FailpointReached("raised as the environment asked"))
    if kind == "park" and argument:
        return FilePark(argument)
    raise UsageError(f"{ENVIRONMENT}: '{what}' is not an action", hint="kill, raise or park:<folder>")


def _appears(path: Path, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


if ENVIRONMENT in os.environ:
    arm_from_environment(os.environ[ENVIRONMENT])
