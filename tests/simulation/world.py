"""A world in one thread: objects in a dictionary, a clock that is told the time, actors that take turns.

Every storage call of an actor hands control to the scheduler, which decides with one seeded random source who goes on
next and what becomes of the call. The same seed gives the same run, to the last byte.
"""

from __future__ import annotations

import builtins
import random
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from greenlet import greenlet
from simulation.model import Model, Violation

from omnigraph.errors import ObjectExists, ObjectMissing, StorageTransient
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.testing.stores import SimulatedCrash

T = TypeVar("T")
MAX_STEPS = 4_000
STEP_S = 0.05
STALLS_S = (650.0, 1_300.0, 3_700.0, 9_000.0, 14_400.0)

FINE, CRASH_BEFORE, CRASH_AFTER, REFUSED, ANSWER_LOST, REPEATED, LATE, SLOW = range(8)


@dataclass
class Weather:
    """How rough one schedule is: chances per storage call, and per step for the clock and for an actor to fall asleep."""

    crash: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    stall: float = 0.0
    sleep: float = 0.0
    wake: float = 0.03
    """Of one that sleeps, per step: the others do a lot meanwhile."""


class Objects:
    """What the store holds: key -> (bytes, time written), and the keys in order."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes, float]] = {}
        self._keys: list[str] = []

    def copy(self) -> Objects:
        result = Objects()
        result.held, result._keys = self.held.copy(), self._keys.copy()
        return result

    def below(self, prefix: str) -> list[str]:
        # "0" is the character after "/".
        return self._keys[bisect_left(self._keys, prefix + "/") : bisect_left(self._keys, prefix + "0")]

    def write(self, key: str, data: bytes, now: float) -> None:
        if key not in self.held:
            insort(self._keys, key)
        self.held[key] = (data, now)

    def remove(self, key: str) -> bool:
        """Whether it was there."""
        if self.held.pop(key, None) is None:
            return False
        del self._keys[bisect_left(self._keys, key)]
        return True


class World:
    def __init__(self, seed: int, objects: Objects, model: Model, weather: Weather, now: float) -> None:
        self.random = random.Random(seed)
        self.objects = objects
        self.model = model
        self.weather = weather
        self.now = now
        self.hub = greenlet.getcurrent()
        self.late: list[tuple[str, bytes]] = []
        self.ids = 1_000
        self.clock_setting = random.Random(-1 - seed)
        self.set_back: dict[str, float] = {}
        """By label of an actor: by how much its wall clock was set back."""
        self.trace: list[str] | None = None

    def clock(self) -> float:
        return self.now

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:026d}"

    def run(self, actors: list[greenlet]) -> None:
        """Until every actor has ended. A Violation of any actor ends it all."""
        chance = self.random.random
        alive, asleep = list(actors), None
        steps = 0
        for actor in actors:
            actor.switch()
        while alive := [actor for actor in alive if not actor.dead]:
            steps += 1
            if steps > MAX_STEPS:
                raise Violation("the actors do not come to an end")
            self.now += STEP_S
            if self.weather.stall and chance() < self.weather.stall:
                self.arrive()
                stall = STALLS_S[int(chance() * len(STALLS_S))]
                self.now += stall
                self._set_a_clock_back(actors, stall)
            if self.late and chance() < 0.3:
                self.arrive()
            if asleep is None or asleep.dead or chance() < self.weather.wake:
                asleep = alive[int(chance() * len(alive))] if chance() < self.weather.sleep else None
            actor = alive[int(chance() * len(alive))]
            if actor is not asleep or len(alive) == 1:
                actor.switch(self._fate(chance))
        self.arrive()

    def _set_a_clock_back(self, actors: list[greenlet], stall: float) -> None:
        """By about the time that has passed, of one of them or of none: to that one, no time seems to have passed."""
        number = self.clock_setting.randrange(2 * len(actors))
        if number < len(actors):
            label: str = actors[number].label  # type: ignore[attr-defined] # the actor's
            self.set_back[label] = self.set_back.get(label, 0.0) + stall

    def _fate(self, chance: Callable[[], float]) -> int:
        weather = self.weather
        drawn = chance()
        if drawn < weather.crash:
            return CRASH_BEFORE if chance() < 0.5 else CRASH_AFTER
        if drawn < weather.crash + weather.lost:
            return (REFUSED, ANSWER_LOST, REPEATED, LATE)[int(chance() * 4)]
        if drawn < weather.crash + weather.lost + weather.slow:
            return SLOW
        return FINE

    def arrive(self) -> None:
        """Requests whose sender has given up on them reach the store after all; none is under way for hours."""
        for key, data in self.late:
            if key not in self.objects.held:
                self.write(key, data)
        self.late = []

    def write(self, key: str, data: bytes) -> None:
        self.note("write", key)
        self.objects.write(key, data, self.now)
        self.model.written(key, data, self.now)

    def remove(self, key: str) -> None:
        if self.objects.remove(key):
            self.note("remove", key)
            self.model.removed(key, self.now)

    def note(self, what: str, key: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:.2f} {getattr(greenlet.getcurrent(), 'label', 'late')} {what} {key}")


class SimStore(Store):
    """The world's objects as one actor sees them. `turns=False`: no scheduling, no faults (for looking afterwards)."""

    def __init__(self, world: World, *, turns: bool = True) -> None:
        self.world = world
        self.turns = turns
        self.uri = "sim://world"

    def get(self, key: str) -> bytes:
        def apply() -> bytes:
            try:
                return self.world.objects.held[key][0]
            except KeyError:
                raise ObjectMissing("missing", key=key) from None

        return self._call(key, apply)

    def put(self, key: str, data: bytes) -> None:
        self._call(key, lambda: self.world.write(key, data))

    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        def apply() -> None:
            if key in self.world.objects.held:
                raise ObjectExists("exists", key=key)
            self.world.write(key, data)

        self._call(key, apply, data)

    def list(self, prefix: str, *, limit: int | None = None) -> builtins.list[ObjectInfo]:
        def apply() -> builtins.list[ObjectInfo]:
            held = self.world.objects.held
            return [
                ObjectInfo(key, len(held[key][0]), datetime.fromtimestamp(held[key][1], UTC))
                for key in self.world.objects.below(prefix)[:limit]
            ]

        return self._call(prefix, apply)

    def list_folders(self, prefix: str) -> builtins.list[str]:
        depth = len(prefix) + 1
        return self._call(
            prefix,
            lambda: sorted(
                {key[depth:].partition("/")[0] for key in self.world.objects.below(prefix) if "/" in key[depth:]}
            ),
        )

    def info(self, key: str) -> ObjectInfo:
        def apply() -> ObjectInfo:
            try:
                data, written = self.world.objects.held[key]
            except KeyError:
                raise ObjectMissing("missing", key=key) from None
            return ObjectInfo(key, len(data), datetime.fromtimestamp(written, UTC))

        return self._call(key, apply)

    def delete(self, key: str) -> None:
        self._call(key, lambda: self.world.remove(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Anything may happen between two of them."""
        for key in keys:
            self.delete(key)

    def delete_prefix(self, prefix: str) -> int:
        raise NotImplementedError("history never removes a folder")

    def _call(self, key: str, apply: Callable[[], T], created: bytes | None = None) -> T:
        if not self.turns:
            return apply()
        fate: Any = self.world.hub.switch()
        if fate == FINE:
            return apply()
        self.world.note(f"fate {fate}", key)
        if fate == CRASH_BEFORE:
            raise SimulatedCrash(key)
        if fate == REFUSED:
            raise StorageTransient("refused", key=key)
        if fate == LATE and created is not None:
            self.world.late.append((key, created))
            raise StorageTransient("no answer yet", key=key)
        result = apply()
        if fate == SLOW:  # the answer comes a turn later
            if self.world.hub.switch() in (CRASH_BEFORE, CRASH_AFTER):
                raise SimulatedCrash(key)
            return result
        if fate == CRASH_AFTER:
            raise SimulatedCrash(key)
        if fate == REPEATED and created is not None:
            raise ObjectExists("the client asked twice", key=key)
        raise StorageTransient("answer lost", key=key)
