"""Every step that a schedule of statements is made of, one by one: a transaction that has run on one state of a few rows is put on
another.

What becomes of a transaction is decided by the state that it ran on, the state that it meets, and what its earlier attempts have left
behind. So where each step is right, each commit of every schedule is what its transaction does on the commit before it, however many
transactions there are. Here the states and the steps are all made, over rows that are absent or hold one of a few numbers; the
schedules of `statements` show that the library passes from one step to the next as it is done here.

A step is the library's own: statements, conflicts, groups and staging. Only the store is left out: nothing is encoded or created.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import pytest
from simulation.statements import MANY, NAMES, START, Program, Rows, State, beginning, require
from simulation.world import SimStore, Weather, World

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, PreconditionFailed
from omnigraph.history.history import History
from omnigraph.history.publish import Attempt, Head
from omnigraph.history.values import Commit, CommitStep, Entry, TableState
from omnigraph.snapshot import Repository
from omnigraph.values.inline_rows import Inline, InlineChange
from omnigraph.write.group import GroupCommitter, JointStage
from omnigraph.write.publishing import Outcome, Unchanged, _SharedEntry
from omnigraph.write.row_write import RowWrite

KEY = "node:A"
VALUES = range(MANY + 1)
STATES: tuple[State, ...] = tuple(
    {name: n for name, n in zip(NAMES, numbers, strict=True) if n is not None}
    for numbers in itertools.product((None, *VALUES), repeat=len(NAMES))
)
PROGRAMS: tuple[Program, ...] = (
    *(Program(kind, row, row) for kind in ("add", "delete", "upsert", "count") for row in NAMES),
    *(Program("copy", row, other) for row in NAMES for other in NAMES),
    Program("clear", "a", "a"),
)


class Prepared(NamedTuple):
    """A transaction that has run its statements on a state, and is about to be published."""

    program: Program
    state: State
    learned: object
    write: RowWrite | None
    """None if it has changed nothing."""
    expected: str | None
    """The commit that it must follow, if it names one."""


class _Ready(Exception):
    """What is about to be published."""


@dataclass(frozen=True)
class Steps:
    """The graph that the states are states of."""

    graph: og.Graph

    @classmethod
    def new(cls) -> Steps:
        start = beginning()
        world = World(0, start.objects.copy(), Rows(start.rows), Weather(), START + 1)  # type: ignore[arg-type]
        store = SimStore(world)
        history = History(
            store,
            start.identity,
            new_id=world.new_id,
            wall_clock=world.clock,
            uptime=world.clock,
            sleep=lambda _: None,
            jitter=lambda: 0.5,
        )
        store.turns = False
        return cls(og.Graph(Repository(store, history, lambda: start.tables)))

    @cached_property
    def _first(self) -> Entry:
        return self._history.chain.head("main")

    @property
    def _history(self) -> History:
        return self.graph._repository.history

    @cached_property
    def _rows(self) -> Rows:
        return Rows(beginning().rows)

    def entry(self, number: int, table: TableState) -> Entry:
        """An entry of a chain whose newest commit has left this table."""
        before = self._first.head
        ref = replace(before.commit.ref, id=f"{number:026d}", seq=before.commit.ref.seq + number, position=number)
        commit = Commit(ref, (before.commit.ref,), "mutation", before.commit._at_us + number)
        step = CommitStep(commit, before.schema, {KEY: table})
        return replace(self._first, id=ref.id, position=number, before=before, steps=(step,))

    def table(self, state: State, generation: int, *, is_inline: bool) -> TableState:
        """A table with the rows of a state: stored ones as they are where they can be, or all of them in commits."""
        stored = self._first.head.tables[KEY]
        kept = {address for address, name in self._rows.stored.items() if not is_inline and state.get(name) == 0}
        names = {self._rows.stored[address] for address in kept}
        rows = tuple((name, name, n) for name, n in state.items() if name not in names)
        masked = tuple(sorted(self._rows.stored.keys() - kept))
        inline = (
            Inline([InlineChange(("id", "name", "n") if rows else (), rows, (), masked)])
            if rows or masked
            else Inline()
        )
        return replace(stored, generation=generation, rows=len(state), inline=inline)

    def prepared(
        self, program: Program, number: int, entry: Entry, state: State, *, is_exact: bool = False
    ) -> Prepared:
        """Run a program on a state."""
        history = self._history
        history.chain._heads["main"] = (entry, history.clock())
        writes: list[RowWrite] = []
        learned: object = None
        expected = entry.head.commit.id if is_exact else None

        def ready(_: GroupCommitter, write: RowWrite) -> None:
            writes.append(write)
            raise _Ready

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GroupCommitter, "publish", ready)
            try:
                with self.graph.transaction(if_commit=expected) as tx:
                    learned = program.run(tx)
            except _Ready:
                pass
        require(learned == program.on(state)[0], f"{program} has read {learned} of {state}")
        return Prepared(program, state, learned, writes[0] if writes else None, expected)

    def attempt(self, entry: Entry) -> Attempt:
        history = self._history
        return Attempt(history.publisher, "main", Head(entry, history.clock(), confirmed=True))

    def put(self, group: Sequence[Prepared], shared: _SharedEntry, entry: Entry, state: State) -> Counter[str]:
        """Put a group on a state, and compare what becomes of each member with the model. What happened, by name."""
        attempt = self.attempt(entry)
        outcomes = shared._put_on(attempt)
        added = replace(entry, before=entry.head, steps=tuple(attempt._steps))
        members = {plan.commit_id: index for index, plan in enumerate(shared.plans)}
        states, happened, parent = [state], Counter[str](), entry.head.commit.id
        for step, snapshot in zip(attempt._steps, added.snapshots(), strict=True):
            member = group[members[step.commit.id]]
            learned, after = member.program.on(states[-1])
            found = self._rows.state_of(snapshot)
            require(found == after, f"{member.program}: {states[-1]} became {found}, not {after}")
            require(learned == member.learned, f"{member.program} has read {member.learned}, not {learned}")
            require(member.expected in (None, parent), f"{member.program} was to follow another commit")
            states.append(found)
            parent = step.commit.id
            happened["commits"] += 1
        for index, member in enumerate(group):
            self._check(member, outcomes.get(index), states, happened)
        return happened

    def _check(
        self, member: Prepared, outcome: Outcome | None, states: Sequence[State], happened: Counter[str]
    ) -> None:
        program = member.program
        match outcome:
            case None:
                return
            case Unchanged():
                require(
                    any(program.on(state) == (member.learned, state) for state in states),
                    f"{program} changes something",
                )
            case PreconditionFailed():
                require(member.expected is not None, f"{program} expected nothing")
            case ExpectedVersionMismatch():
                require(program.reads, f"{program}: a mutation has no conflicts")
                changed = any(program.on(state)[0] != member.learned for state in states)
                require(changed, f"{program}: nobody changed what it read")
            case _:
                raise AssertionError(outcome)
        happened[type(outcome).__name__] += 1


def single_steps(start: int = 0, stride: int = 1) -> Counter[str]:
    """Each program, run on each state and then put on each other one, one after the other, as after so many lost races."""
    steps, happened = Steps.new(), Counter[str]()
    heads = [
        steps.entry(1_000 + number, steps.table(state, 100 + number, is_inline=bool(number % 2)))
        for number, state in enumerate(STATES)
    ]
    for place, (program, (number, state)) in enumerate(itertools.product(PROGRAMS, enumerate(STATES))):
        if place % stride != start:
            continue
        table = steps.table(state, number, is_inline=False)
        began = steps.entry(number + 1, table)
        untouched = steps.entry(500, table)
        for is_exact in (False, True):
            prepared = steps.prepared(program, number, began, state, is_exact=is_exact)
            if prepared.write is None:
                require(program.on(state)[1] == state, f"{program} changes {state}")
                happened["nothing to do"] += 1
                continue
            shared = _SharedEntry(steps._history, [prepared.write], None)
            met = [(began, state), (untouched, state), *zip(heads, STATES, strict=True), (untouched, state)]
            for head, now in met:
                before = happened["commits"]
                happened += steps.put([prepared], shared, head, now)
                happened["steps"] += 1
                must = head is began or (
                    not is_exact and program.on(now)[0] == prepared.learned and program.on(now)[1] != now
                )
                require(
                    not must or happened["commits"] == before + 1, f"{program} of {state} is not committed on {now}"
                )
    return happened


def groups(size: int, start: int = 0, stride: int = 1) -> Counter[str]:
    """Each group of programs, on each state; one of them ran on that state, the others on others."""
    steps, happened = Steps.new(), Counter[str]()
    heads = [
        steps.entry(1_000 + number, steps.table(state, 100 + number, is_inline=bool(number % 2)))
        for number, state in enumerate(STATES)
    ]
    held: dict[tuple[int, Program, int], Prepared] = {}

    def prepared(member: int, program: Program, number: int, target: int) -> Prepared:
        key = member, program, number if number != target else -number - 1
        if key not in held:
            state = STATES[number]
            table = steps.table(state, number, is_inline=False)
            entry = heads[target] if number == target else steps.entry(number + 1, table)
            held[key] = steps.prepared(program, number, entry, state)
        return held[key]

    chosen = itertools.product(range(len(STATES)), itertools.product(PROGRAMS, repeat=size))
    for place, (target, programs) in enumerate(chosen):
        if place % stride != start:
            continue
        fresh = place % size
        members = [
            prepared(
                member, program, target if member == fresh else (target * 7 + 11 * member + 3) % len(STATES), target
            )
            for member, program in enumerate(programs)
        ]
        group = [member for member in members if member.write is not None]
        if not group:
            continue
        writes = [member.write for member in group if member.write is not None]
        joint = JointStage(steps.graph._repository, writes) if len(writes) > 1 else None
        shared = _SharedEntry(steps._history, writes, joint)
        happened += steps.put(group, shared, heads[target], STATES[target])
        happened["groups"] += 1
    return happened
