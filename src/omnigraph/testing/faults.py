"""A store that fails on demand."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from omnigraph.errors import StorageTransient
from omnigraph.storage.store import Store
from omnigraph.testing.wrapping import Operation, T, WrappedStore

FaultKind = Literal["answer_lost", "refused", "slow", "crash_before", "crash_after"]


class SimulatedCrash(BaseException):
    """The process "died" at a storage call. A `BaseException`, since no `except` of the program may catch it."""


@dataclass(frozen=True)
class Fault:
    """What happens to some of the calls whose operation and key match the patterns (`*` and `?` as in file names).

    - answer_lost: the call is applied, then `StorageTransient`;
    - refused: the call is not applied, `StorageTransient`;
    - slow: the call waits `seconds`, then goes on;
    - crash_before, crash_after: `SimulatedCrash` before or after the call is applied.

    The first `skip` matching calls pass, the next `times` fail, all later ones pass.
    """

    kind: FaultKind
    operation: str = "*"
    key: str = "*"
    times: int = 1
    skip: int = 0
    seconds: float = 0.0


class FaultyStore(WrappedStore):
    """Applies the first fault that matches a call. After a crash every further call crashes too, since a dead process makes none;
    a new `FaultyStore` around the same inner store stands for the next process.
    """

    def __init__(self, inner: Store, *faults: Fault, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(inner)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._seen: list[int] = []
        self._fired: list[tuple[FaultKind, Operation, str]] = []
        self._dead = False
        for fault in faults:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)
            self._seen.append(0)

    def fired(self) -> tuple[tuple[FaultKind, Operation, str], ...]:
        """Which faults happened to which calls, in order, so that a test can check that its fault occurred."""
        with self._lock:
            return tuple(self._fired)

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        fault = self._take(operation, key)
        if fault is None:
            return call()
        if fault.kind == "slow":
            self._sleep(fault.seconds)
            return call()
        if fault.kind in ("crash_before", "refused"):
            raise self._failure(fault, operation, key)
        call()
        raise self._failure(fault, operation, key)

    def _failure(self, fault: Fault, operation: Operation, key: str) -> BaseException:
        if fault.kind in ("crash_before", "crash_after"):
            with self._lock:
                self._dead = True
            return SimulatedCrash(f"{fault.kind} {operation} '{key}'")
        return StorageTransient(f"cannot {operation} '{key}' in {self.uri}: {fault.kind}", key=key, hint="try again")

    def _take(self, operation: Operation, key: str) -> Fault | None:
        with self._lock:
            if self._dead:
                raise SimulatedCrash(f"{operation} '{key}' after the crash")
            for index, fault in enumerate(self._faults):
                if fnmatch.fnmatchcase(operation, fault.operation) and fnmatch.fnmatchcase(key, fault.key):
                    self._seen[index] += 1
                    if fault.skip < self._seen[index] <= fault.skip + fault.times:
                        self._fired.append((fault.kind, operation, key))
                        return fault
            return None
