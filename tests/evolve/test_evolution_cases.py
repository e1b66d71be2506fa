"""One property's life on two branches: each fault that was found in it, a sample of all cases, and the thousands of `make soak`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evolve.evolution_cases import history, run
from evolve.evolution_laboratory import History

NONE = ("none", "none")
FOUND = {
    "a property widened on a branch that stored rows": (
        History(("", "q: I32?", "q: I64?"), (1, 0, 1), (("stored", "none"), ("touch", "none"), ("stored", "none"))),
        "merge work into main, fail",
    ),
    "a property widened on main, rows of the branch": (
        History(("", "q: F32?", "q: F64?"), (1, 1, 0), (("stored", "none"), ("inline", "inline"), ("stored", "none")), is_edge=True),
        "merge work into main, fail",
    ),
    "a load that loses to a wider type": (
        History(("", "q: I32?", "q: I64?"), (1, 0, 0), (("stored", "none"), NONE, NONE)),
        "append load that loses to change 1",
    ),
    "a load that loses to a property with a default that is dropped again": (
        History(("", "q: I32 = 7", ""), (0, 2, 2), (NONE, NONE, NONE)),
        "append load that loses to change 0",
    ),
    "a load resumed after a wider type": (
        History(("", "q: I32 = 7", "q: I64 = 7"), (1, 0, 0), (("stored", "none"), NONE, NONE)),
        "merge load resumed after change 1",
    ),
    "a required property in a type that was empty at the fork": (
        History(("", "q: I32 = 7"), (0, 0, 1), (NONE, ("inline", "none"), ("none", "stored")), work_first=True),
        "merge main into work, fail",
    ),
    "a required property with a default, widened to a list": (
        History(("", "q: I32 = 7", "q: [I32]"), (2, 0, 0), (("stored", "inline"), NONE, NONE)),
        "optimize main",
    ),
    "a dropped property that a revert brings back": (
        History(("q: I32?", ""), (0, 0, 1), (("stored", "none"), NONE, ("none", "other"))),
        "revert commit 2",
    ),
    "a default that becomes nullable": (
        History(("", "q: I32 = 7", "q: I32?"), (2, 0, 0), (("stored", "none"), NONE, NONE)),
        "older and newer schemas",
    ),
    "a list of wider numbers": (
        History(("q: [I64]?", "q: [F64]?"), (1, 0, 0), (("stored", "inline"), NONE, NONE)),
        "optimize main",
    ),
    "a drop of a required property whose revert would leave rows without it": (
        History(("q: I32", ""), (1, 0, 0), (NONE, ("inline", "inline"), NONE), work_first=True),
        "revert commit 1",
    ),
    "a property that both branches added and one has dropped again": (
        History(("", "q: I32?", ""), (0, 2, 1), (("none", "inline"), NONE, ("none", "touch"))),
        "merge main into work, fail",
    ),
    "the same, where the branch that dropped it is preferred": (
        History(("", "q: I32?", ""), (0, 2, 1), (("none", "inline"), NONE, ("none", "touch"))),
        "merge work into main, ours",
    ),
    "a required property that a merge brings back into a row that was written without it": (
        History(("q: I32", ""), (0, 1, 0), (("none", "inline"), ("none", "touch"), ("none", "inline")), work_first=True),
        "merge work into main, theirs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("bound", [1, 3])
def test_every_value_is_there_where_values_were_lost(name: str, bound: int) -> None:
    case, operation = FOUND[name]
    found = list(run(replace(case, bound=bound), only=operation))
    assert found == [None], "\n".join(f"{each}\n{each.program}" for each in found if each is not None)


@pytest.mark.parametrize("number", range(2))
def test_every_operation_on_a_sample_of_histories_has_the_values_of_the_model(number: int) -> None:
    check(range(number, number + 1))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(40))
def test_every_operation_on_every_history_has_the_values_of_the_model(block: int) -> None:
    check(range(block * 25, block * 25 + 25))


def check(numbers: range) -> None:
    for number in numbers:
        for failure in run(history(number), number):
            assert failure is None, f"{failure}\n{failure.program}"
