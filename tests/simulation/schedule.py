"""One schedule from one seed: a graph with some history, a few actors, and a look at everything afterwards."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from simulation.actors import BRANCHES, KEYED_OPERATIONS, OPERATIONS, SCHEMA_OPERATIONS, Actor
from simulation.model import Model, Violation
from simulation.world import Objects, SimStore, Weather, World

from omnigraph.history.chain import key_of
from omnigraph.history.genesis import Identity
from omnigraph.history.history import History
from omnigraph.history.values import Entry, incarnation_start
from omnigraph.maintenance.reachable import entry_snapshots
from omnigraph.write.inlining import ENVIRONMENT, bounds

BOUNDS = (bounds().rows,) * 3 if ENVIRONMENT in os.environ else (1, 3, bounds().rows)
"""Bounds of inline rows, per table: those of the first two are reached."""
START = 2_000_000_000.0
NAMES = [name for name, _ in OPERATIONS]
WEIGHTS = [weight for _, weight in OPERATIONS]
KEYED_NAMES = [name for name, _ in KEYED_OPERATIONS]
KEYED_WEIGHTS = [weight for _, weight in KEYED_OPERATIONS]
SCHEMA_NAMES = [name for name, _ in SCHEMA_OPERATIONS]
SCHEMA_WEIGHTS = [weight for _, weight in SCHEMA_OPERATIONS]
SCHEMA_SEEDS = 10**12
"""Schedules of seeds from here on are about schema changes."""
HUNTED_SEEDS = 60_000
LONG_NAMES = ("append", "strict", "sweep", "look", "tag", "prepared", "recover", "long_write")
LONG_WEIGHTS = (6.0, 1.0, 4.0, 1.0, 0.7, 0.7, 0.4, 0.5)
LONG_ABSENCE = Weather(lost=0.005, slow=0.05, stall=0.08, sleep=0.8, wake=0.008)
"""Somebody is away for hours while the others commit to and sweep one branch."""

CLEANING_NAMES = (
    "append",
    "strict",
    "sweep",
    "long_write",
    "prepared",
    "recover",
    "create_branch",
    "delete_branch",
    "tag",
)
CLEANING_WEIGHTS = (5.0, 1.0, 6.0, 1.5, 2.0, 1.5, 1.5, 0.5, 0.5)
CLEANING = (
    Weather(crash=0.005, slow=0.05, sleep=0.8, wake=0.008),
    Weather(lost=0.002, slow=0.05, stall=0.06, sleep=0.8, wake=0.008),
)
"""Of schedules about cleanup: somebody falls asleep, for seconds or for hours, while others commit and clean up."""


@dataclass(frozen=True)
class Beginning:
    """A graph as a schedule finds it: old enough to be swept."""

    identity: Identity
    objects: Objects
    model: Model


@cache
def beginning(commits: int, with_branch: bool, max_inline: int) -> Beginning:
    model = Model(max_inline)
    world = World(0, Objects(), model, Weather(), START - 4 * 3600)
    world.ids = 0
    store = SimStore(world, turns=False)
    # The first entry has no predecessor to be checked against; the model takes it as it is.
    history = History.create(store, b"{}", new_id=world.new_id, wall_clock=world.clock)
    first = model.chains["main"][0]
    model.commits[first.id] = first.head.commit
    model.incarnations.add(first.incarnation)
    model.reached[first.id] = {first.incarnation: 0}
    world.ids = 100
    actor = Actor(world, history.identity, [], max_tail=64, label="beginning")
    actor.history = history
    for _ in range(commits):
        world.now += 1
        plan, snapshot = actor._plan("main", ("insert", "insert"))
        actor._publish(plan, snapshot)
    if with_branch:
        model.opened.add(history.branches.create("dev", history.chain.head("main")).incarnation)
    return Beginning(history.identity, world.objects, model)


def weather_of(chance: random.Random) -> Weather:
    kind = chance.random()
    if kind < 0.2:
        return Weather()
    if kind < 0.6:
        return Weather(crash=0.03, lost=0.05, slow=0.05)
    return Weather(crash=0.03, lost=0.1, slow=0.1, stall=0.06, sleep=0.1)


def bound_of(seed: int) -> int:
    """How many rows of a table may be inline in the schedule of a seed: each bound has its turn."""
    return BOUNDS[seed % SCHEMA_SEEDS % len(BOUNDS)]


def run(seed: int, *, trace: list[str] | None = None) -> Model:
    """Run one schedule; Violation if anything that must hold does not. `trace` is filled with what happened."""
    chance = random.Random(seed)
    start = beginning(int(chance.random() * 5), chance.random() < 0.5, bound_of(seed))
    with_schemas = seed >= SCHEMA_SEEDS
    long_absence = chance.random() < 0.4 and not with_schemas
    weather = LONG_ABSENCE if long_absence else weather_of(chance)
    with_cleaning = seed % 7 in (5, 6) and not with_schemas
    if with_cleaning:
        weather = CLEANING[seed % 2]
    world = World(seed, start.objects.copy(), start.model.copy(), weather, START)
    world.trace = trace
    with_keys = seed % 7 in (1, 3) and not with_schemas
    max_tail = 2 if chance.random() < (0.5 if with_keys else 0.06) else 64
    names, weights, most = (LONG_NAMES, LONG_WEIGHTS, 4) if long_absence else (NAMES, WEIGHTS, 3)
    if with_keys:
        names, weights, most = KEYED_NAMES, KEYED_WEIGHTS, 4
    if with_schemas:
        names, weights, most = SCHEMA_NAMES, SCHEMA_WEIGHTS, 4
    if with_cleaning:
        names, weights, most = CLEANING_NAMES, CLEANING_WEIGHTS, 3
    actors = []
    for number in range(2 + int(chance.random() * 3)):
        script = chance.choices(names, weights, k=1 + int(chance.random() * most))
        actor = Actor(world, start.identity, script, max_tail=max_tail, label=f"actor-{number}")
        actor.branch_chance = 0.0 if long_absence else 0.3
        actors.append(actor)
    world.run([actor.greenlet for actor in actors])
    look_at_everything(world, start.identity)
    return world.model


def look_at_everything(world: World, identity: Identity) -> None:
    """A new process opens the graph: every branch, its whole log, every tag and every kept commit."""
    history = History(SimStore(world, turns=False), identity, new_id=world.new_id, wall_clock=world.clock)
    model = world.model
    for branch in BRANCHES:
        chain = model.chains.get(branch, [])
        newest = history.chain.newest(branch)
        if not chain or newest is None:
            require(not chain and newest is None, f"{branch} is there for one side only")
            continue
        require(newest == chain[-1], f"{branch}: another head")
        if not was_taken_back(model, newest) and not is_useless(model, newest):
            require(
                [commit.id for commit in history.log.walk(newest)] == first_parents(model, newest), f"{branch}: log"
            )
        kept = [p for p in range(len(chain)) if (branch, p) not in model.swept]
        floor = model.floors.get(branch, 0)
        require(kept[-1] == len(chain) - 1 and set(range(floor, len(chain))) <= set(kept), f"{branch}: swept too much")
        for position in kept:
            require(key_of(branch, position) in world.objects.held, f"{branch}/{position} is gone")
            if is_useless(model, chain[position]):
                continue
            for snapshot in entry_snapshots(chain[position]):
                for state in snapshot.tables.values():
                    lost = [file for file in model.files_of(state) if file not in world.objects.held]
                    require(not lost, f"{branch}/{position} lost {lost}")
    for name, ref in model.tags.items():
        require(history.tags.find(name) == ref, f"tag {name} is not kept")
        require(history.revisions.snapshot(ref).commit.ref == ref, f"tag {name} does not open")


def is_useless(model: Model, entry: Entry) -> bool:
    """Of a branch that was made without a commit of its own, at a commit that is gone, and that nobody was told of."""
    branch, start = incarnation_start(entry.incarnation)
    opening = model.chains[branch][start]
    source = opening.before.commit.ref
    is_gone = (source.branch, source.position) in model.swept
    return opening.op == "create" and not opening.steps and is_gone and entry.incarnation not in model.opened


def was_taken_back(model: Model, newest: Entry) -> bool:
    """Of a branch that its maker closed at once, because it came too late, and that nobody was told of or wrote to."""
    branch, start = incarnation_start(newest.incarnation)
    is_empty = not any(entry.steps for entry in model.chains[branch][start:])
    return newest.op == "delete" and is_empty and newest.incarnation not in model.opened


def first_parents(model: Model, newest: Entry) -> list[str]:
    commit = newest.head.commit
    ids = [commit.id]
    while commit.parents:
        commit = model.commits[commit.parents[0].id]
        ids.append(commit.id)
    return ids


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def seeds_like(seed: int) -> range:
    """Where a broken rule is looked for: many schedules of the same kind, with the same bound."""
    start = SCHEMA_SEEDS if seed >= SCHEMA_SEEDS else 0
    return range(start + (seed - start) % len(BOUNDS), start + HUNTED_SEEDS * len(BOUNDS), len(BOUNDS))


def first_failure(seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed whose schedule breaks an invariant (or the program), and how."""
    for seed in seeds:
        try:
            run(seed)
        except (Violation, AssertionError) as error:
            return seed, f"{type(error).__name__}: {error}"
    return None
