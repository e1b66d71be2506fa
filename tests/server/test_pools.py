"""The threads of a server: a bounded number, each with work or waiting; what fails fails where it is awaited."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections import Counter
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

import pytest

from omnigraph.server import pools as pools_module
from omnigraph.server.pools import BULK_THREADS, LOOK_S, MAX_AHEAD_S, READ_THREADS, Pools
from omnigraph.server.telemetry import Metrics

VALUE: ContextVar[str] = ContextVar("VALUE", default="")


def threads_of(pool: str) -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == f"omnigraph-{pool}"}


def test_more_work_than_threads_waits_for_one_and_all_of_it_is_done() -> None:
    pools, before = Pools(), threads_of("bulk")
    busy, most, lock = [0], [0], threading.Lock()
    together = threading.Barrier(BULK_THREADS)

    def work(number: int) -> int:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        together.wait(60)
        with lock:
            busy[0] -= 1
        return number

    async def go() -> list[int]:
        return await asyncio.gather(*(pools.run("bulk", partial(work, n)) for n in range(4 * BULK_THREADS)))

    assert asyncio.run(go()) == list(range(4 * BULK_THREADS))
    assert most == [BULK_THREADS]
    assert len(threads_of("bulk") - before) == BULK_THREADS
    pools.close()


def test_one_thread_is_enough_for_work_that_comes_one_by_one() -> None:
    pools, before = Pools(), threads_of("write")

    async def go() -> None:
        for _ in range(20):
            await pools.run("write", lambda: None)

    asyncio.run(go())
    assert len(threads_of("write") - before) == 1
    pools.close()


def test_short_reads_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools_module, "LOOK_S", 3600.0)  # nothing takes long
    pools, busy = Pools(), threading.Lock()

    def work(number: int) -> int:
        assert busy.acquire(blocking=False), "another read is at work"
        busy.release()
        return number

    async def go() -> list[int]:
        return await asyncio.gather(*(pools.run("read", partial(work, number)) for number in range(200)))

    assert asyncio.run(go()) == list(range(200))
    pools.close()


def test_reads_that_take_long_keep_no_other_waiting() -> None:
    pools, short_is_done = Pools(), threading.Event()
    long_reads = 4 * (os.cpu_count() or 1) - 1

    async def go() -> list[bool | None]:
        owners = map(str, range(min(31, long_reads)))
        waiting = [pools.run("read", partial(short_is_done.wait, 60), owner) for owner in owners]
        return await asyncio.gather(*waiting, pools.run("read", short_is_done.set))

    assert all(asyncio.run(go())[:-1])
    pools.close()


def test_work_sees_the_context_of_whoever_asks_and_fails_where_it_is_awaited() -> None:
    pools = Pools()

    def fails() -> None:
        raise KeyError(VALUE.get())

    async def go() -> None:
        VALUE.set("asked")
        await pools.run("read", fails)

    with pytest.raises(KeyError, match="asked"):
        asyncio.run(go())
    pools.close()


class Refusal(Exception):
    """An error that can be watched."""

    made: weakref.ref[Refusal]

    def __init__(self) -> None:
        Refusal.made = weakref.ref(self)


def refuse() -> None:
    raise Refusal


def test_an_error_is_gone_with_whoever_met_it() -> None:
    """Refusals are frequent: what they hold, which may be a whole answer, must not wait for the collector."""
    pools = Pools()

    async def go() -> None:
        with suppress(Refusal):
            await pools.run("read", refuse)
        await pools.run("read", lambda: None)
        assert Refusal.made() is None

    gc.disable()
    try:
        asyncio.run(go())
    finally:
        gc.enable()
    pools.close()


def test_pools_that_are_closed_or_forgotten_end_their_threads() -> None:
    before = threads_of("read")
    closed, forgotten = Pools(), Pools()
    for pools in (closed, forgotten):
        asyncio.run(pools.run("read", lambda: None))
    mine = threads_of("read") - before
    assert len(mine) == 2
    closed.close()
    with pytest.raises(RuntimeError):
        asyncio.run(closed.run("read", lambda: None))
    del forgotten, pools
    gc.collect()
    for thread in mine:
        thread.join(60)
    assert not any(thread.is_alive() for thread in mine)


def test_methods_that_a_client_makes_up_are_counted_as_one() -> None:
    metrics = Metrics()
    for number in range(50):
        metrics.answered("-", f"MADEUP{number}", 405, 0.0)
    metrics.answered("-", "GET", 404, 0.0)
    lines = [line for line in metrics.text().decode().splitlines() if line.startswith("omnigraph_http_requests_total{")]
    assert len(lines) == 2


def test_endless_reads_of_one_owner_leave_threads_to_the_others() -> None:
    pools, may_end = Pools(), threading.Event()

    async def go() -> str:
        endless = [asyncio.ensure_future(pools.run("read", partial(may_end.wait, 60), "eve")) for _ in range(40)]
        answers = [await asyncio.wait_for(pools.run("read", lambda: "answer", "ada"), 60) for _ in range(3)]
        may_end.set()
        assert all(await asyncio.gather(*endless))
        return answers[-1]

    assert asyncio.run(go()) == "answer"
    pools.close()


def order_of_turns(pools: Pools, waiting: list[tuple[str, float]], clock: list[float]) -> list[str]:
    """The owners of reads that wait together, in the order in which they run: each takes so many seconds of the clock."""
    may_begin, begun = threading.Event(), list[str]()

    def work(owner: str, seconds: float) -> None:
        begun.append(owner)
        clock[0] += seconds

    async def go() -> None:
        first = asyncio.ensure_future(pools.run("read", partial(may_begin.wait, 60), "first"))
        await asyncio.sleep(0)  # It has the only place.
        others = [asyncio.ensure_future(pools.run("read", partial(work, *each), each[0])) for each in waiting]
        await asyncio.sleep(0)
        may_begin.set()
        await asyncio.gather(first, *others)

    asyncio.run(go())
    return begun


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(pools_module, "LOOK_S", 3600.0)  # no read takes long in real time
    return [0.0]


def test_an_owner_with_many_reads_waits_behind_one_with_few(clock: list[float]) -> None:
    pools = Pools(clock=lambda: clock[0])
    waiting = [("eve", 0.01)] * 6 + [("ada", 0.01)] * 2 + [("bo", 0.01)]
    assert order_of_turns(pools, waiting, clock) == ["eve", "ada", "bo", "eve", "ada", "eve", "eve", "eve", "eve"]
    pools.close()


def test_owners_take_turns_by_time_and_not_by_number(clock: list[float]) -> None:
    pools = Pools(clock=lambda: clock[0])
    waiting = [("eve", 0.03)] * 3 + [("ada", 0.01)] * 6
    assert order_of_turns(pools, waiting, clock) == ["eve", *["ada"] * 3, "eve", *["ada"] * 3, "eve"]
    pools.close()


def test_an_owner_that_used_much_before_is_not_kept_away_when_others_come(clock: list[float]) -> None:
    """What nobody else wanted costs nothing, and a debt to those who wait has a bound."""
    pools = Pools(clock=lambda: clock[0])
    assert order_of_turns(pools, [("eve", 1_000.0)], clock) == ["eve"]
    assert order_of_turns(pools, [("ada", 1.0), ("eve", 1.0)], clock) == ["ada", "eve"]
    waiting = [("eve", 1_000.0), ("eve", 1.0), *[("ada", MAX_AHEAD_S / 4)] * 9]
    assert order_of_turns(pools, waiting, clock) == ["eve", *["ada"] * 4, "eve", *["ada"] * 5]
    pools.close()


def test_an_owner_that_comes_later_is_owed_nothing_for_the_time_before(clock: list[float]) -> None:
    pools, begun = Pools(clock=lambda: clock[0]), list[str]()
    may_begin, others_wait = threading.Event(), threading.Event()

    def work(owner: str, seconds: float) -> None:
        begun.append(owner)
        clock[0] += seconds

    async def go() -> None:
        loop, later = asyncio.get_running_loop(), list[asyncio.Future[None]]()

        def come() -> None:
            later.extend(asyncio.ensure_future(pools.run("read", partial(work, "bo", 0.01), "bo")) for _ in range(4))
            loop.call_soon(others_wait.set)

        def second() -> None:
            loop.call_soon_threadsafe(come)
            others_wait.wait(60)
            work("eve", 0.02)

        reads = [partial(may_begin.wait, 60), partial(work, "eve", 0.02), second, partial(work, "eve", 0.02)]
        eves = [asyncio.ensure_future(pools.run("read", read, "eve")) for read in reads]
        await asyncio.sleep(0)
        may_begin.set()
        await asyncio.gather(*eves)
        await asyncio.gather(*later)

    asyncio.run(go())
    assert begun == ["eve", "eve", "bo", "bo", "eve", "bo", "bo"]
    pools.close()


@pytest.mark.parametrize(("held_by_bo", "first"), [(0.02, "bo"), (0.08, "ada")])
def test_a_read_counts_as_long_as_it_has_a_place(
    held_by_bo: float, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    pools, begun = Pools(clock=lambda: clock[0]), list[str]()
    begins, may_end, cy_may_end, bo_may_end = (threading.Event() for _ in range(4))

    def blocked(may_end: threading.Event) -> None:
        begins.set()
        may_end.wait(60)

    async def start(owner: str, may_end: threading.Event) -> asyncio.Future[None]:
        begins.clear()
        read = asyncio.ensure_future(pools.run("read", partial(blocked, may_end), owner))
        while not begins.is_set():
            await asyncio.sleep(0)
        return read

    async def go() -> None:
        cy = await start("cy", cy_may_end)  # somebody always has work
        await pools.run("read", lambda: None, "bo")  # cy has given up its place
        ada = await start("ada", may_end)
        clock[0] += 0.05
        await pools.run("read", lambda: None, "bo")  # and so has ada
        clock[0] += 1_000.0
        may_end.set()
        await ada
        monkeypatch.setattr(pools_module, "LOOK_S", 3600.0)
        bo = await start("bo", bo_may_end)
        waiting = [
            asyncio.ensure_future(pools.run("read", partial(begun.append, owner), owner)) for owner in ("ada", "bo")
        ]
        await asyncio.sleep(0)
        clock[0] += held_by_bo
        bo_may_end.set()
        await asyncio.gather(bo, *waiting)
        cy_may_end.set()
        await cy

    asyncio.run(go())
    assert begun[0] == first
    pools.close()


def test_a_result_does_not_wait_for_the_task_that_took_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ends, and the second begins, in the middle of a look: nothing waits after it, so it is the last."""
    pools = Pools()
    first_may_end, second_begins, second_may_end = (threading.Event() for _ in range(3))

    def second() -> None:
        second_begins.set()
        second_may_end.wait(120)

    def in_a_look(_: object) -> None:
        first_may_end.set()
        second_begins.wait(60)

    async def go() -> None:
        reads = (partial(first_may_end.wait, 60), second)
        first, other = (asyncio.ensure_future(pools.run("read", read)) for read in reads)
        await asyncio.wait([first], timeout=60)
        assert first.done()
        second_may_end.set()
        await other

    monkeypatch.setattr(pools_module._Tasks, "make_room", in_a_look)
    asyncio.run(go())
    pools.close()


def test_owners_of_endless_reads_share_the_threads_equally() -> None:
    pools, may_end, begun = Pools(), threading.Event(), Counter[str]()
    owners = ("ada", "bo", "eve")

    def work(owner: str) -> None:
        begun[owner] += 1
        may_end.wait(60)

    async def go() -> Counter[str]:
        endless = [
            asyncio.ensure_future(pools.run("read", partial(work, owner), owner))
            for owner in owners
            for _ in range(READ_THREADS)
        ]
        while begun.total() < len(owners) * (READ_THREADS // len(owners)):
            await asyncio.sleep(LOOK_S)
        at_once = begun.copy()
        may_end.set()
        await asyncio.gather(*endless)
        return at_once

    assert asyncio.run(go()) == dict.fromkeys(owners, READ_THREADS // len(owners))
    pools.close()
