"""Ids that a load makes: no two parts, loads, threads or processes share any."""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.errors import UnreadableInput
from omnigraph.history.history import new_ulid
from omnigraph.records.ids import MAX_ROWS, FreshIds

STARTS = 2_000


def test_parts_of_a_load_follow_each_other_without_overlap() -> None:
    first = FreshIds.new()
    bounds = [
        id for part in range(1_000) for ids in [first.part(part)] for id in (ids.for_row(0), ids.for_row(MAX_ROWS - 1))
    ]
    assert bounds == sorted(set(bounds))
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", id) for id in bounds)


def test_a_part_keeps_its_ids_when_it_is_read_again() -> None:
    rows = pa.array([3, 1, 70_000])
    ids = FreshIds.new().part(7)
    assert FreshIds(ids.prefix).for_rows(rows).to_pylist() == ids.for_rows(rows).to_pylist()


@pytest.mark.parametrize("clock", [lambda: 1_700_000_000.0, lambda: 0.0], ids=["stands still", "at the epoch"])
def test_loads_differ_whatever_the_clock_says(clock: object) -> None:
    assert len({FreshIds.new(clock) for _ in range(STARTS)}) == STARTS  # type: ignore[arg-type]


def test_loads_differ_after_the_clock_was_set_back() -> None:
    times = [1_700_000_000.0 - step % 7 for step in range(STARTS)]
    assert len({FreshIds.new(lambda at=at: at) for at in times}) == STARTS  # type: ignore[misc]


def test_loads_of_threads_differ() -> None:
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: FreshIds.new(lambda: 1.0), range(STARTS)))
    assert len(set(drawn)) == STARTS


def in_forked_processes(processes: int, work: Callable[[], list[Any]]) -> list[Any]:
    """What the same work gives in processes that were forked from this one and run at once."""
    answers = []
    for _ in range(processes):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lance, if another test has loaded it, warns of forks.
            child = os.fork()
        if child == 0:
            try:
                with os.fdopen(writing, "w") as answer:
                    json.dump(work(), answer)
            finally:
                os._exit(0)
        os.close(writing)
        answers.append((child, reading))
    results = []
    for child, reading in answers:
        with os.fdopen(reading) as answer:
            results += json.load(answer)
        os.waitpid(child, 0)
    return results


def test_loads_of_forked_processes_differ() -> None:
    drawn = [FreshIds.new(lambda: 1.0).prefix]
    drawn += in_forked_processes(4, lambda: [FreshIds.new(lambda: 1.0).prefix for _ in range(100)])
    assert len(set(drawn)) == len(drawn) == 401


@pytest.mark.soak
def test_no_pair_of_a_hundred_million_ids_is_equal() -> None:
    """Four processes with two threads each, 100 loads of 10 parts with 100,000 rows, and single ids; the clock stands still, and is
    set back. Rows of a part ascend, so ranges that do not overlap have no equal ids."""
    now, rows = time.time(), pa.array(range(1, 100_001))

    def load(number: int) -> list[tuple[str, str]]:
        first = FreshIds.new(lambda: now - 60 * (number % 3))
        ranges = []
        for part in range(10):
            ids = first.part(part).for_rows(rows)
            assert pc.all(pc.less(ids[:-1], ids[1:])).as_py()
            ranges.append((ids[0].as_py(), ids[-1].as_py()))
        return ranges

    def work() -> list[tuple[str, str]]:
        singles = [new_ulid() for _ in range(100_000)]
        with ThreadPoolExecutor(2) as threads:
            loads = threads.map(load, range(25))
        return [*((id, id) for id in singles), *(ids for ranges in loads for ids in ranges)]

    found = sorted(map(tuple, in_forked_processes(4, work)))
    assert len(found) == 4 * (25 * 10 + 100_000)
    assert all(last < first for (_, last), (first, _) in pairwise(found))


def test_a_part_with_too_many_rows_is_refused_instead_of_taking_the_ids_of_the_next() -> None:
    ids = FreshIds.new()
    assert ids.for_rows(pa.array([MAX_ROWS - 1])).to_pylist() == [ids.for_row(MAX_ROWS - 1)]
    with pytest.raises(UnreadableInput, match="more rows without ids"):
        ids.for_rows(pa.array([1, MAX_ROWS]))
    with pytest.raises(UnreadableInput, match="more rows without ids"):
        ids.for_row(MAX_ROWS)
