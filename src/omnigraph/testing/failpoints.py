"""Arming failpoints: what happens when the program reaches one of the points named in `omnigraph._internal.failpoints`.

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
from pathlib import Path

from omnigraph._internal.failpoints import ENVIRONMENT, Failpoint, install, reach
from omnigraph.errors import UsageError

_POLL_SECONDS = 0.005
_MAX_REACH_SECONDS = 120.0
_MAX_PARK_SECONDS = 300.0


class FailpointReached(BaseException):
    """Raised by the action `raise`. A `BaseException`, so that no handler of the program catches it."""


Action = Callable[[], None]


@dataclass
class _Armed:
    action: Action
    nth: int
    hits: int = 0


_armed: dict[Failpoint, _Armed] = {}
_lock = threading.Lock()

__all__ = [
    "ENVIRONMENT",
    "Failpoint",
    "FailpointReached",
    "FilePark",
    "Park",
    "arm",
    "arm_from_environment",
    "disarm_all",
    "killing",
    "raising",
    "reach",
]


def _reached(point: Failpoint) -> None:
    with _lock:
        armed = _armed.get(point)
        if armed is None:
            return
        armed.hits += 1
        due = armed.hits == armed.nth
    if due:
        armed.action()


def arm(point: Failpoint, action: Action, *, nth: int = 1) -> None:
    """Do `action` the `nth` time `point` is reached from now on. There is one action per point: the last one armed."""
    with _lock:
        _armed[Failpoint(point)] = _Armed(action, nth)
        install(_reached)


def disarm_all() -> None:
    with _lock:
        _armed.clear()
        install(None)


def raising(error: BaseException) -> Action:
    def action() -> None:
        raise error

    return action


def killing() -> Action:
    """End this process as a power failure would: no handler, no clean-up."""
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


class Park:
    """An action that blocks the thread that reaches the point until the test releases it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._released = threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        if not self._released.wait(_MAX_PARK_SECONDS):
            raise FailpointReached("parked and never released")

    def wait_until_reached(self, timeout_seconds: float = _MAX_REACH_SECONDS) -> None:
        if not self._reached.wait(timeout_seconds):
            raise TimeoutError("the point was not reached")

    def release(self) -> None:
        self._released.set()


class FilePark:
    """Like `Park`, across processes, through two files in `folder`: one process parks, another waits and releases it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._reached = Path(folder) / "reached"
        self._release = Path(folder) / "release"

    def __call__(self) -> None:
        self._reached.parent.mkdir(parents=True, exist_ok=True)
        self._reached.touch()
        if not _appears(self._release, _MAX_PARK_SECONDS):
            raise FailpointReached("parked and never released")

    def wait_until_reached(self, timeout_seconds: float = _MAX_REACH_SECONDS) -> None:
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
