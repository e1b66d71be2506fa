"""The commit protocol under every interleaving, crash, lost answer and stall that a seed can think of.

OMNIGRAPH_SIM_SCHEDULES=1000000 OMNIGRAPH_SIM_SEED=7 pytest -m soak tests/simulation
OMNIGRAPH_SIM_SCHEMA_SCHEDULES=20000 pytest tests/simulation -k schemas
python tests/simulation/replay.py <seed>         what happened in one schedule, step by step
python tests/simulation/replay.py --rules        the first schedule that notices each broken rule
"""

from __future__ import annotations

import functools
import os
import time
from collections import Counter

import pytest
from simulation.broken_rules import RULES, Patch, broken
from simulation.model import Model, Violation
from simulation.schedule import BOUNDS, SCHEMA_SEEDS, first_failure, run, seeds_like

from omnigraph.history import chain

SCHEDULES = 6_000
FOLDED = (1, 3)
"""Bounds that schedules reach."""
SCHEDULES_SOAK = int(os.environ.get("OMNIGRAPH_SIM_SCHEDULES", "2000000"))
SEED_SOAK = int(os.environ.get("OMNIGRAPH_SIM_SEED", "1000000000"))
SCHEMA_SCHEDULES = int(os.environ.get("OMNIGRAPH_SIM_SCHEMA_SCHEDULES", "1000"))


@pytest.fixture(autouse=True)
def _entries_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are immutable values: reading the same bytes once makes a schedule a third shorter. What an error would say is
    affected plays no part here, nor what was known before."""
    decode_once = functools.lru_cache(maxsize=512)(chain.decode_entry)
    monkeypatch.setattr(chain, "decode_entry", lambda data, key, *_: decode_once(data, key))


def run_many(seeds: range) -> Counter[str]:
    """Every seed's schedule, and how often the interesting things happened."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            happened.update(notable(run(seed)))
        except (Violation, AssertionError) as error:
            pytest.fail(f"seed {seed}: {error!r} (python tests/simulation/replay.py {seed})", pytrace=False)
    return happened


def notable(model: Model) -> dict[str, int]:
    return {
        "commits": len(model.commits),
        "denied": len(model.denied),
        "swept entries": len(model.swept),
        "positions made anew": model.made_anew,
        "branches made again": sum(
            entry.op == "create" and entry.position > 0 for entry in model.chains.get("dev", ())
        ),
        "branches made with a commit": sum(
            entry.op == "create" and bool(entry.steps) for entry in model.chains.get("dev", ())
        ),
        "group entries": sum(len(entry.steps) > 1 for chain in model.chains.values() for entry in chain),
        "tags": len(model.tags),
        "schema changes": sum(
            step.schema != before
            for chain in model.chains.values()
            for entry in chain
            for before, step in zip(
                [entry.before.schema, *(each.schema for each in entry.steps)], entry.steps, strict=False
            )
        ),
        "commits under a key": sum(commit._write_key is not None for commit in model.commits.values()),
        **({f"folds at {model.max_inline} rows": model.folds} if model.max_inline in FOLDED else {}),
    }


def test_every_schedule_keeps_every_invariant() -> None:
    start = time.perf_counter()
    happened = run_many(range(SCHEDULES))
    print(f"\n{SCHEDULES:,} schedules, {SCHEDULES / (time.perf_counter() - start):,.0f} a second: {dict(happened)}")
    assert all(count > 0 for count in happened.values()), happened


def test_schedules_about_schemas_keep_every_invariant() -> None:
    start = time.perf_counter()
    happened = run_many(range(SCHEMA_SEEDS, SCHEMA_SEEDS + SCHEMA_SCHEDULES))
    print(
        f"\n{SCHEMA_SCHEDULES:,} schedules, {SCHEMA_SCHEDULES / (time.perf_counter() - start):,.0f} a second: {dict(happened)}"
    )
    assert happened["schema changes"] > SCHEMA_SCHEDULES / 2, happened


@pytest.mark.soak
def test_millions_of_schedules_keep_every_invariant() -> None:
    print(f"\nseeds from {SEED_SOAK:,}")
    print(run_many(range(SEED_SOAK, SEED_SOAK + SCHEDULES_SOAK)))


def test_a_seed_replays_exactly() -> None:
    for seed in range(60):
        first: list[str] = []
        second: list[str] = []
        run(seed, trace=first)
        run(seed, trace=second)
        assert first == second


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_broken_rule_is_noticed(rule: Patch, bound: int) -> None:
    """By its own schedule, whatever number of rows may be inline. When the protocol makes other requests than before, that may be
    another schedule: then it is looked for, which takes longer, and `replay.py --rules` says which it is now."""
    seed = RULES[rule][BOUNDS.index(bound)]
    with broken(rule):
        failure = first_failure((seed,)) or first_failure(seeds_like(seed))
    assert failure is not None, "no schedule noticed it"
    print(f"\n{rule.__name__}: seed {failure[0]}: {failure[1]}")
    with broken(rule), pytest.raises((Violation, AssertionError)):
        run(failure[0])
    run(failure[0])


@pytest.mark.parametrize(
    "seed", [3_000_031_206, 5_000_051_004, 5_000_084_311, 6_000_131_587, 7_000_093_957, 5_000_692_241]
)
def test_schedules_that_found_something(seed: int) -> None:
    """A lost answer that was said to be no commit; a prepared plan that was acknowledged at a position made again; a branch
    whose log was swept before it was made; a plan that was recovered although storing it had no answer;
    a load that began hours before it looked at where its branch starts; a branch that was created hours late, whose creator then
    got no answer: nobody was told of it, and its log is gone with the commit it starts at."""
    run_many(range(seed, seed + 1))
