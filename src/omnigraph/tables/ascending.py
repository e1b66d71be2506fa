"""Ascending arrays of integers. `numpy.unique` hashes, which takes up to sixty times as long as the sort does here."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Integers = np.ndarray[Any, Any]


def distinct(values: Integers) -> Integers:
    """Each value once, ascending."""
    import numpy as np

    ordered = np.sort(values)
    kept: Integers = ordered[_begins(ordered)]
    return kept


def union(left: Integers, right: Integers) -> Integers:
    """The values of both, each once, ascending."""
    import numpy as np

    return distinct(np.concatenate([left, right]))


def runs(ordered: Integers) -> list[tuple[int, slice]]:
    """The values of an ascending array, each once, with its places."""
    import numpy as np

    bounds = [*np.flatnonzero(_begins(ordered)).tolist(), len(ordered)]
    return [(ordered[start].item(), slice(start, end)) for start, end in pairwise(bounds)]


def _begins(ordered: Integers) -> Integers:
    import numpy as np

    begins = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins
