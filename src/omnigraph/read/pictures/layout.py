"""Where the boxes of a picture are placed: pulled together by arrows, pushed apart by each other, without overlap.

Nothing is random: the same boxes and arrows always get the same places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 200
GAP = 46.0
"""Minimum distance between two boxes."""


def placed(sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """The centre of each box; the left-most and top-most edges are at 0."""
    if not sizes:
        return []
    boxes = np.array(sizes, float)
    centres = _apart(_pulled(boxes, arrows), boxes)
    centres -= (centres - boxes / 2).min(axis=0)
    return [(round(float(x), 1), round(float(y), 1)) for x, y in centres]


def _pulled(boxes: Floats, arrows: Sequence[tuple[int, int]]) -> Floats:
    """The forces of Fruchterman and Reingold, starting from a circle, in units of a large box."""
    count = len(boxes)
    turns = 2 * np.pi * np.arange(count) / count
    at = np.column_stack([np.cos(turns), np.sin(turns)]) * np.sqrt(count)
    pairs = np.array([(a, b) for a, b in arrows if a != b], int).reshape(-1, 2)
    for step in range(ROUNDS):
        away = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.sqrt((away**2).sum(axis=2)), 1e-3)
        force = (away / distance[..., None] ** 2).sum(axis=1)
        if len(pairs):
            along = at[pairs[:, 0]] - at[pairs[:, 1]]
            pull = along * np.sqrt((along**2).sum(axis=1))[:, None]
            np.add.at(force, pairs[:, 0], -pull)
            np.add.at(force, pairs[:, 1], pull)
        force -= 0.05 * at
        length = np.maximum(np.sqrt((force**2).sum(axis=1)), 1e-9)
        at = at + force / length[:, None] * np.minimum(length, (1 - step / ROUNDS) * 0.3)[:, None]
    scale = np.array([boxes[:, 0].max() * 1.15, boxes[:, 1].max() * 1.3])
    spread: Floats = at * scale
    return spread


def _apart(centres: Floats, boxes: Floats) -> Floats:
    """Move overlapping boxes away from each other, along the shorter axis."""
    at = centres.copy()
    for _ in range(ROUNDS):
        moved = False
        for first in range(len(at)):
            for second in range(first + 1, len(at)):
                away = at[second] - at[first]
                missing = (boxes[first] + boxes[second]) / 2 + GAP - np.abs(away)
                if (missing <= 0.5).any():
                    continue
                axis = int(missing.argmin())
                shift = missing[axis] / 2 * (1.0 if away[axis] >= 0 else -1.0)
                at[first, axis] -= shift
                at[second, axis] += shift
                moved = True
        if not moved:
            break
    return at
