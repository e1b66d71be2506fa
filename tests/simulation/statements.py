"""Schedules of statements: processes with several threads run transactions of the library on a few rows, over the simulated store.

What must hold is told by a model in plain Python: each commit is what its transaction does on the state of the commit before it, and
shows its caller what the caller saw. A mutation never conflicts, and a transaction that has read does so only if somebody changed what
it read. The rows are in the commits; the stored version below them is real, and no schedule changes it.
"""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from greenlet import greenlet
from simulation.model import Violation
from simulation.world import Objects, SimStore, Weather, World

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, OmnigraphError, PreconditionFailed
from omnigraph.history import chain as chain_module
from omnigraph.history.chain import position_of
from omnigraph.history.genesis import Identity
from omnigraph.history.history import History
from omnigraph.history.values import Entry, Snapshot
from omnigraph.snapshot import Repository
from omnigraph.tables.store import Tables
from omnigraph.testing.stores import SimulatedCrash
from omnigraph.write import group as group_module
from omnigraph.write.inlining import ENVIRONMENT

SCHEMA = "node A { name: String @key  n: I32 }"
STORED = ("a", "b")
NAMES = (*STORED, "c")
MANY = 2
ADD = "query q($k: String) { update A set { n: n + 1 } where name = $k }"
CLEAR = f"query q() {{ update A set {{ n: 0 }} where n >= {MANY} }}"
DELETE = "query q($k: String) { delete A where name = $k }"
UPSERT = "query q($k: String) { upsert A { name: $k, n: 1 } }"
GREAT = f"query q() {{ match {{ $a: A  $a.n >= {MANY} }} return {{ $a.name as name }} order {{ name }} }}"
START = 2_000_000_000.0

State = Mapping[str, int]


@dataclass(frozen=True)
class Program:
    """A transaction: what it does, on which row, and which row it reads for that."""

    kind: str
    row: str
    other: str

    def run(self, tx: og.Transaction) -> object:
        """What its caller learned."""
        match self.kind:
            case "add":
                tx.mutate(ADD, {"k": self.row})
            case "clear":
                tx.mutate(CLEAR)
            case "delete":
                tx.mutate(DELETE, {"k": self.row})
            case "upsert":
                tx.mutate(UPSERT, {"k": self.row})
            case "copy":
                entity = tx.get("A", self.other)
                seen = None if entity is None else int(entity["n"])
                tx.upsert("A", name=self.row, n=0 if seen is None else seen + 1)
                return seen
            case "count":
                names = [str(row["name"]) for row in tx.query(GREAT).rows]
                tx.upsert("A", name=self.row, n=len(names))
                return names
            case _:
                raise AssertionError(self.kind)
        return None

    def on(self, state: State) -> tuple[object, State]:
        """The same on a state: what the caller learns, and the next state."""
        row, after = self.row, dict(state)
        match self.kind:
            case "add" if row in state:
                after[row] += 1
            case "clear":
                after = {name: 0 if n >= MANY else n for name, n in state.items()}
            case "delete":
                after.pop(row, None)
            case "upsert":
                after[row] = 1
            case "copy":
                seen = state.get(self.other)
                after[row] = 0 if seen is None else seen + 1
                return seen, after
            case "count":
                names = sorted(name for name, n in state.items() if n >= MANY)
                after[row] = len(names)
                return names, after
        return None, after

    @property
    def reads(self) -> bool:
        return self.kind in ("copy", "count")


KINDS = {"add": 4, "clear": 2, "delete": 1, "upsert": 2, "copy": 3, "count": 3}
KINDS_OF_NEW_ROWS = {"upsert": 5, "delete": 1, "add": 1}


class Run(NamedTuple):
    """A transaction that was begun: at which length of the chain, and what it expected to be its parent."""

    program: Program
    began: int
    parent: str | None


@dataclass
class Rows:
    """The chain and the states of its commits, as the model has them."""

    stored: Mapping[int, str]
    """The ids of the stored rows, by address."""
    chain: list[Entry] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    """After each commit."""
    commits: list[str] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    """By the message of the commit."""
    learned: dict[str, object] = field(default_factory=dict)
    happened: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    def written(self, key: str, data: bytes, now: float) -> None:
        if not key.startswith("branches/"):
            return
        entry = chain_module.decode_entry(data, key)
        require(position_of(key) == len(self.chain), "an entry at another place")
        self.chain.append(entry)
        for step, snapshot in zip(entry.steps, entry.snapshots(), strict=True):
            self._committed(step.commit.message or "", step.commit.id, step.commit.parents, snapshot)
        if len(entry.steps) > 1:
            self.count("shared entries")

    def _committed(self, message: str, id: str, parents: Any, snapshot: Snapshot) -> None:
        state = self.state_of(snapshot)
        if message:
            run, before = self.runs[message], self.states[-1]
            require(parents[0].id == self.commits[-1], f"{message} has another parent")
            require(run.parent in (None, self.commits[-1]), f"{message} was to follow another commit")
            learned, after = run.program.on(before)
            require(after == state, f"{message}, {run.program}: {before} became {state}, not {after}")
            require(
                learned == self.learned[message], f"{message}, {run.program} saw {self.learned[message]}, not {learned}"
            )
            self.count("commits")
        self.commits.append(id)
        self.states.append(state)

    def state_of(self, snapshot: Snapshot) -> State:
        table = snapshot.table("node:A")
        if table is None:
            return {}
        inline = table.inline
        state = {name: 0 for address, name in self.stored.items() if address not in inline.masked_addresses}
        for change in inline:
            for row in change.rows:
                values = dict(zip(change.columns, row, strict=True))
                require(values["name"] not in state, f"{values['name']} is there twice")
                state[values["name"]] = values["n"]
        return state

    def removed(self, key: str, now: float) -> None:
        raise Violation(f"{key} was removed")

    def refused(self, message: str, error: OmnigraphError) -> None:
        """A writer was told that its transaction is not committed."""
        run = self.runs[message]
        require(
            message not in [step.commit.message for entry in self.chain for step in entry.steps], f"{message} is there"
        )
        self.count(type(error).__name__)
        if isinstance(error, PreconditionFailed):
            require(run.parent is not None, f"{message} expected nothing")
        elif isinstance(error, ExpectedVersionMismatch):
            require(run.program.reads, f"{message}, {run.program}: a mutation has no conflicts")
            since = self.states[run.began - 1 :]
            seen = self.learned[message]
            changed = [state for state in since if run.program.on(state)[0] != seen]
            require(bool(changed), f"{message}, {run.program}: nobody changed what it read")

    def unchanged(self, message: str) -> None:
        """A writer was told that there is nothing to change."""
        run = self.runs[message]
        since = self.states[run.began - 1 :]
        require(
            any(run.program.on(state)[1] == state for state in since), f"{message}, {run.program} changes something"
        )


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


class Beginning(NamedTuple):
    identity: Identity
    objects: Objects
    rows: Mapping[int, str]
    tables: Tables


@cache
def beginning() -> Beginning:
    """A graph with a few stored rows. Its tables are real; everything else is copied into the simulated store."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    graph = og.init(f"{folder}/graph", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert_many("A", [{"name": name, "n": 0} for name in STORED])
    repository = graph._repository
    table = repository.head()[1].table("node:A")
    assert table is not None
    objects = Objects()
    for path in sorted(Path(folder, "graph").rglob("*.json")):
        objects.write(path.relative_to(Path(folder, "graph")).as_posix(), path.read_bytes(), START)
    rows = {address: name for name, address in table.addresses_of(STORED).items()}
    return Beginning(repository.history.identity, objects, rows, repository.tables)


class GreenLock:
    """Takes the place of a lock of threads, which are greenlets here."""

    hub: greenlet

    def __init__(self) -> None:
        self._is_taken = False

    def acquire(self) -> bool:
        while self._is_taken:
            self.hub.switch()
        self._is_taken = True
        return True

    def release(self) -> None:
        self._is_taken = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def green_threads(hub: greenlet) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GreenLock, "hub", hub, raising=False)
        patch.delenv(ENVIRONMENT, raising=False)
        names = SimpleNamespace(**{**vars(threading), "Lock": GreenLock})
        for module in (group_module, chain_module):
            patch.setattr(module, "threading", names)
        yield


class Process:
    """A process that has the graph open, with some threads that write."""

    def __init__(self, world: World, number: int) -> None:
        start = beginning()
        store = SimStore(world)
        history = History(
            store,
            start.identity,
            new_id=world.new_id,
            wall_clock=world.clock,
            uptime=world.clock,
            sleep=lambda _: world.hub.switch(),
            jitter=lambda: 0.5,
        )
        self.world, self.number = world, number
        self.graph = og.Graph(Repository(store, history, lambda: start.tables))
        store.turns = False
        self.graph.head()
        _ = self.graph.schema.catalog
        store.turns = True

    def thread(self, number: int, programs: list[tuple[Program, bool]]) -> greenlet:
        def live(*_: object) -> None:
            self.world.hub.switch()
            for turn, (program, is_exact) in enumerate(programs):
                try:
                    self.write(f"{self.number}.{number}.{turn}", program, is_exact)
                except SimulatedCrash:
                    return

        thread = greenlet(live)
        thread.label = f"{self.number}.{number}"  # type: ignore[attr-defined] # for the trace
        return thread

    def write(self, message: str, program: Program, is_exact: bool) -> None:
        rows: Rows = self.world.model  # type: ignore[assignment]
        self.world.note("begins", f"{message} {program}")
        try:
            expected = self.graph.head().id if is_exact else None
            rows.runs[message] = Run(program, len(rows.states), expected)
            with self.graph.transaction(message=message, if_commit=expected) as tx:
                rows.learned[message] = program.run(tx)
            if tx.receipt.commit is None:
                rows.unchanged(message)
            else:
                require(tx.receipt.commit.id in rows.commits, f"{message} was acknowledged and is not there")
        except OmnigraphError as error:
            self.world.note("fails", repr(error))
            if message in rows.runs and error.outcome == "not_committed":
                rows.refused(message, error)


def weather_of(chance: random.Random) -> Weather:
    kind = chance.random()
    if kind < 0.4:
        return Weather()
    if kind < 0.7:
        return Weather(lost=0.05, slow=0.1)
    return Weather(crash=0.02, lost=0.05, slow=0.1, sleep=0.3)


def run(seed: int, *, trace: list[str] | None = None) -> Rows:
    """Run one schedule; Violation if anything that must hold does not. `trace` is filled with what happened."""
    chance, start = random.Random(seed), beginning()
    rows = Rows(start.rows)
    for key in sorted(start.objects.held, reverse=True):
        rows.written(key, start.objects.held[key][0], START)
    world = World(seed, start.objects.copy(), rows, weather_of(chance), START + 1)  # type: ignore[arg-type]
    world.trace = trace
    kinds = KINDS if chance.random() < 0.7 else KINDS_OF_NEW_ROWS
    with green_threads(world.hub):
        threads = []
        for number in range(1 + int(chance.random() * 3)):
            process = Process(world, number)
            for thread in range(1 + int(chance.random() * 3)):
                programs = [
                    (Program(kind, chance.choice(NAMES), chance.choice(NAMES)), chance.random() < 0.1)
                    for kind in chance.choices([*kinds], [*kinds.values()], k=1 + int(chance.random() * 3))
                ]
                threads.append(process.thread(thread, programs))
        world.run(threads)
    return rows
