"""The check for conflicts under many seeded schedules of statements, and each of its parts broken on purpose.

OMNIGRAPH_SIM_STATEMENTS=100000 pytest -m soak -s tests/simulation/test_statements.py
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
from simulation.model import Violation
from simulation.statements import run

from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.history.plan import PublishPlan
from omnigraph.history.publish import Attempt
from omnigraph.history.values import Snapshot
from omnigraph.snapshot import View
from omnigraph.write.publishing import _SharedEntry
from omnigraph.write.row_write import Rerun, RowWrite
from omnigraph.write.transaction import WriteTransaction

SCHEDULES = 300
SCHEDULES_SOAK = int(os.environ.get("OMNIGRAPH_SIM_STATEMENTS", "20000"))
SEED_SOAK = 1_000_000
HUNTED = 500
Patch = Callable[[pytest.MonkeyPatch], None]


def answers_may_change(patch: pytest.MonkeyPatch, is_concerned: Callable[[object], bool]) -> None:
    run = WriteTransaction._run

    def forgetful(self: WriteTransaction, statement: Any, compare: Any) -> tuple[Any, bytes | None]:
        result, digest = run(self, statement, compare)
        return result, None if is_concerned(compare) else digest

    patch.setattr(WriteTransaction, "_run", forgetful)


def rows_that_were_read_may_change(patch: pytest.MonkeyPatch) -> None:
    answers_may_change(patch, lambda compare: compare is None)


def answers_of_queries_may_change(patch: pytest.MonkeyPatch) -> None:
    """Rows come or go that satisfy what a transaction has asked for."""
    answers_may_change(patch, lambda compare: compare is not None)


def statements_are_not_run_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowWrite, "_has_read_moved", lambda *_: False)


def statements_are_run_on_an_old_state(patch: pytest.MonkeyPatch) -> None:
    """On the one that they began with instead of the newest."""
    rerun_on = RowWrite._rerun_on

    def on_own_view(self: RowWrite, rerun: Rerun, plan: PublishPlan, view: View) -> PublishPlan | None:
        return rerun_on(self, rerun, plan, self.view)

    patch.setattr(RowWrite, "_rerun_on", on_own_view)


def members_do_not_see_each_other(patch: pytest.MonkeyPatch) -> None:
    """Those of a group are put on the head, not on the state that the one before them leaves."""
    heads: list[Snapshot] = []
    put_on, stage_on = _SharedEntry._put_on, RowWrite.stage_on

    def recorded(self: _SharedEntry, attempt: Attempt) -> Any:
        heads.append(attempt.snapshot)
        return put_on(self, attempt)

    def on_the_head(self: RowWrite, plan: PublishPlan, attempt: Attempt) -> PublishPlan | None:
        as_it_began = copy(attempt)
        as_it_began.snapshot = heads[-1]
        return stage_on(self, plan, as_it_began)

    patch.setattr(_SharedEntry, "_put_on", recorded)
    patch.setattr(RowWrite, "stage_on", on_the_head)


def whatever_a_member_does_it_is_staged_with_others(patch: pytest.MonkeyPatch) -> None:
    """As if all of them only added rows."""
    patch.setattr(RowWrite, "only_adds", True)
    patch.setattr(Attempt, "adds_only", lambda *_: True)


def expected_commits_are_not_exact(patch: pytest.MonkeyPatch) -> None:
    check = Attempt._check_incarnation
    patch.setattr(Attempt, "_check_incarnation", lambda self, plan: check(self, replace(plan, if_commit=None)))


def tables_conflict_and_not_rows(patch: pytest.MonkeyPatch) -> None:
    def rerun(self: WriteTransaction, view: View) -> WriteTransaction:
        raise ExpectedVersionMismatch("node:A", 0, 1)

    patch.setattr(WriteTransaction, "rerun", rerun)


RULES: Mapping[Patch, int] = {
    rows_that_were_read_may_change: 3,
    answers_of_queries_may_change: 13,
    statements_are_not_run_again: 3,
    statements_are_run_on_an_old_state: 3,
    members_do_not_see_each_other: 1,
    whatever_a_member_does_it_is_staged_with_others: 5,
    expected_commits_are_not_exact: 1,
    tables_conflict_and_not_rows: 3,
}
"""With the first schedule that notices it; others are tried if that one does not."""


def run_many(seeds: range) -> Counter[str]:
    """Every seed's schedule, and how often the interesting things happened."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            happened.update(run(seed).happened)
        except (Violation, AssertionError) as error:
            pytest.fail(f"seed {seed}: {error!r}", pytrace=False)
    return happened


def first_failure(seeds: Collection[int]) -> tuple[int, BaseException] | None:
    for seed in seeds:
        try:
            run(seed)
        except (Violation, AssertionError) as error:
            return seed, error
    return None


def test_every_schedule_is_a_serial_order() -> None:
    start = time.process_time()
    happened = run_many(range(SCHEDULES))
    print(f"\n{SCHEDULES} schedules, {SCHEDULES / (time.process_time() - start):.0f} a second: {dict(happened)}")
    assert happened.keys() >= {"commits", "shared entries", "ExpectedVersionMismatch", "PreconditionFailed"}


@pytest.mark.soak
def test_many_schedules_are_serial_orders() -> None:
    print(f"\n{run_many(range(SEED_SOAK, SEED_SOAK + SCHEDULES_SOAK))}")


def test_a_seed_replays_exactly() -> None:
    for seed in range(10):
        first: list[str] = []
        second: list[str] = []
        run(seed, trace=first)
        run(seed, trace=second)
        assert first == second


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_broken_part_is_noticed(rule: Patch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rule(patch)
        failure = first_failure((RULES[rule],)) or first_failure(range(HUNTED))
    assert failure is not None, "no schedule noticed it"
    print(f"\n{rule.__name__}: seed {failure[0]}: {failure[1]}")
    run(failure[0])
