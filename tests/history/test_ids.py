"""Ids of commits and entities."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from omnigraph.history.history import new_ulid


def test_ids_of_one_process_sort_in_the_order_in_which_they_were_made() -> None:
    ids = [new_ulid() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", id) for id in ids[::1_000])


def test_ids_of_threads_differ() -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = [id for made in pool.map(lambda _: [new_ulid() for _ in range(2_000)], range(8)) for id in made]
    assert len(set(ids)) == len(ids)
