"""How long a call may take. Work that can be long asks from time to time whether it may go on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from omnigraph.errors import QueryTimeout, UsageError


class Deadline:
    def __init__(self, timeout_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`timeout_s` from now; None never ends."""
        if timeout_s is not None and not 0 < timeout_s < math.inf:
            raise UsageError(f"a timeout is a number of seconds above zero, not {timeout_s}")
        self._timeout_s = timeout_s
        self._clock = clock
        self._end = math.inf if timeout_s is None else clock() + timeout_s

    @property
    def is_never(self) -> bool:
        return self._timeout_s is None

    def remaining_s(self) -> float | None:
        """Seconds that are left, at least 0; None without an end."""
        return None if self._timeout_s is None else max(self._end - self._clock(), 0.0)

    def check(self) -> None:
        """Raises QueryTimeout once the time is over."""
        if self._timeout_s is not None and self._clock() >= self._end:
            raise self.error()

    def error(self) -> QueryTimeout:
        return QueryTimeout(self._timeout_s or 0.0)


NEVER = Deadline()
