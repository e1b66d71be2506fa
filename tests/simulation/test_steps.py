"""Every step of a schedule of statements, and each part of the check for conflicts broken on purpose.

A part of the steps is made in every run; all of them take some five minutes:

pytest -m soak -s tests/simulation/test_steps.py
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from simulation.model import Violation
from simulation.steps import groups, single_steps
from simulation.test_statements import RULES, Patch

PART = 311
"""Every so many of the states that a program runs on; of the groups, one of ten times as many."""
GROUPS_OF_THREE = int(os.environ.get("OMNIGRAPH_SIM_GROUPS", "101"))


def test_a_part_of_the_steps() -> None:
    happened = single_steps(0, PART)
    assert happened.keys() >= {"commits", "ExpectedVersionMismatch", "PreconditionFailed", "Unchanged", "nothing to do"}
    happened = groups(2, 0, 2 * PART) + groups(3, 0, 100 * PART)
    assert happened.keys() >= {"commits", "ExpectedVersionMismatch", "groups"}


@pytest.mark.soak
def test_every_step_of_one_transaction() -> None:
    print(f"\n{single_steps()}")


@pytest.mark.soak
def test_every_step_of_two_that_share_an_entry() -> None:
    print(f"\n{groups(2)}")


@pytest.mark.soak
def test_steps_of_three_that_share_an_entry() -> None:
    print(f"\n{groups(3, 0, GROUPS_OF_THREE)}")


def a_part() -> Counter[str]:
    return single_steps(0, PART) + groups(2, 0, PART)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_broken_part_is_noticed(rule: Patch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rule(patch)
        with pytest.raises(Violation):
            a_part()
    single_steps(0, 10 * PART)
