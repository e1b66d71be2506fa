"""Answers to writes that have an idempotency key and no commit of their own, remembered in this process for a day.

What makes a commit under its key needs no memory: the commit is found in the branch, by any process.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from omnigraph.errors import WriteKeyReused
from omnigraph.server.calls import HandlerResult

KEPT_SECONDS = 24 * 3600
MAX_KEPT = 10_000


@dataclass(frozen=True)
class _Kept:
    digest: str
    answer: asyncio.Future[HandlerResult]
    at: float


class Replays:
    """Used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def once(
        self, identity: str, digest: str, work: Callable[[], Awaitable[HandlerResult]]
    ) -> tuple[HandlerResult, bool]:
        """The answer of the work, and whether it is one from before. One that failed may be tried again."""
        known = self._kept.get(identity)
        if known is not None and self._clock() - known.at < KEPT_SECONDS:
            if known.digest != digest:
                raise WriteKeyReused(None)
            return await asyncio.shield(known.answer), True
        kept = _Kept(digest, asyncio.get_running_loop().create_future(), self._clock())
        self._kept[identity] = kept
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        try:
            answer = await work()
        except BaseException as error:
            self._kept.pop(identity, None)
            kept.answer.set_exception(error)
            kept.answer.exception()  # somebody has looked at it
            raise
        kept.answer.set_result(answer)
        return answer, False
