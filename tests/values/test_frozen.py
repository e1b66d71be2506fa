"""Frozen values behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, field, replace

import pytest

from omnigraph._internal.frozen import Frozen


class Point(Frozen):
    x: int
    y: int = 0
    at: str = field(default="here", compare=False, repr=False)


class Size(Frozen):
    x: int
    y: int = 0


class Nothing(Frozen):
    pass


def test_values_are_equal_by_class_and_compared_fields() -> None:
    assert Point(1, 2) == Point(1, y=2, at="there") != Point(2, 2)
    assert Point(1, 2) != Size(1, 2)
    assert Nothing() == Nothing()
    assert len({Point(1), Point(1, 0, "there"), Size(1), Nothing(), Nothing()}) == 3


def test_values_are_copied_pickled_replaced_and_shown() -> None:
    point = Point(1, 2, "there")
    for same in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point)), replace(point)):
        assert (same, same.at) == (point, "there")
    assert replace(point, x=3) == Point(3, 2)
    assert repr(point) == "Point(x=1, y=2)"
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_nothing_is_set_twice() -> None:
    point = Point(1)
    for change in (
        lambda: setattr(point, "x", 2),
        lambda: setattr(point, "z", 2),
        lambda: delattr(point, "x"),
    ):
        with pytest.raises(FrozenInstanceError):
            change()
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
