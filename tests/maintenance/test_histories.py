"""Random histories with cleanups in the middle, checked step by step against the model of `histories`."""

from __future__ import annotations

import os
import random

import pytest
from maintenance import histories

SEEDS = range(8)
SOAK = int(os.environ.get("OMNIGRAPH_HISTORIES", "2000"))


@pytest.mark.parametrize("rows", ["in commits", "in files"])
def test_histories_with_cleanups_follow_the_model(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rows == "in files":
        monkeypatch.setenv("OMNIGRAPH_INLINE_ROWS", "0")
    for seed in SEEDS[: len(SEEDS) // 2] if rows == "in commits" else SEEDS[len(SEEDS) // 2 :]:
        histories.run(seed, steps=30)


@pytest.mark.soak
def test_many_histories_with_cleanups_follow_the_model() -> None:
    for _ in range(SOAK):
        histories.run(random.randrange(2**32))
