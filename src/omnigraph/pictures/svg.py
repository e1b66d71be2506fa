"""Pictures as SVG, and as a page with one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from omnigraph._internal.lazy_imports import load_extra
from omnigraph.errors import UsageError
from omnigraph.pictures.picture import Picture, one_line, titled

# Where the boxes of a picture are placed: pulled together by arrows, pushed apart by each other, without overlap.
#
# Nothing is random: the same boxes and arrows always get the same places.

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


LETTER, LINE, PADDING, MARGIN = 7.3, 17.0, 10.0, 24.0
FONTS = "ui-monospace,Menlo,Consolas,DejaVu Sans Mono,Liberation Mono,Noto Sans Mono,Courier New,monospace"
"""Browsers have a font for each generic name; a PNG renderer may only know those that are installed."""
STYLE = (
    f"text{{font:12px {FONTS};fill:#1b1f24}}.t{{font-weight:bold}}"
    ".e{fill:#57606a;font-size:11px}path{stroke:#57606a;fill:none}"
)


def svg_text(picture: Picture) -> str:
    texts = [[one_line(text) for text in titled(node)] for node in picture.nodes]
    sizes = [
        (max(len(text) for text in lines) * LETTER + 2 * PADDING, len(lines) * LINE + 2 * PADDING - 4)
        for lines in texts
    ]
    centres = placed(sizes, [(edge.source, edge.target) for edge in picture.edges])
    boxes = []
    for node, lines, (width, height), (x, y) in zip(picture.nodes, texts, sizes, centres, strict=True):
        left, top = x - width / 2, y - height / 2
        boxes.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" '
            f'fill="{node.colour}" fill-opacity="0.12" stroke="{node.colour}"/>'
        )
        for at, text in enumerate(lines):
            kind = ' class="t"' if at == 0 else ""
            baseline = top + PADDING + 9 + at * LINE
            boxes.append(f'<text{kind} x="{left + PADDING:.1f}" y="{baseline:.1f}">{escape(text)}</text>')
    arrows = _arrows(picture, sizes, centres)
    room = [max((c[axis] + s[axis] / 2 for c, s in zip(centres, sizes, strict=True)), default=0) for axis in (0, 1)]
    note = f"… {picture.left_out} more" if picture.left_out else ""
    width, height = room[0] + 2 * MARGIN + 40, room[1] + 2 * MARGIN + 30
    more = f'<text class="e" x="{MARGIN}" y="{height - 8:.1f}">{escape(note)}</text>' if note else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><title>{escape(one_line(picture.title))}</title>'
        f"<style>{STYLE}</style>"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#57606a"/></marker></defs>'
        f'<g transform="translate({MARGIN} {MARGIN})">{"".join(arrows)}{"".join(boxes)}</g>{more}</svg>\n'
    )


def html_text(picture: Picture) -> str:
    title = escape(one_line(picture.title))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>\n{svg_text(picture)}</body></html>\n"
    )


def _arrows(picture: Picture, sizes: list[tuple[float, float]], centres: list[tuple[float, float]]) -> list[str]:
    """A curve and a label for each edge; curves between the same two boxes bend by different amounts."""
    drawn, seen = [], Counter[tuple[int, int]]()
    for edge in picture.edges:
        pair = (min(edge.source, edge.target), max(edge.source, edge.target))
        number = seen[pair]
        seen[pair] += 1
        (x1, y1), (x2, y2) = centres[edge.source], centres[edge.target]
        if edge.source == edge.target:
            width, height = sizes[edge.source]
            right, top, reach = x1 + width / 2, y1 - height / 2, 26 + 16 * number
            path = f"M{right - 14:.1f} {top:.1f}C{right - 14:.1f} {top - reach:.1f} {right + reach:.1f} {top + 14:.1f} {right:.1f} {top + 14:.1f}"
            where = (right + reach / 2 - 4, top - reach / 2 + 6)
        else:
            bend = (0, 1, -1)[number % 3] * (28.0 + 14 * (number // 3)) * (1 if edge.source < edge.target else -1)
            length = math.hypot(x2 - x1, y2 - y1) or 1.0
            middle = ((x1 + x2) / 2 - (y2 - y1) / length * bend, (y1 + y2) / 2 + (x2 - x1) / length * bend)
            start = _border(centres[edge.source], sizes[edge.source], middle)
            end = _border(centres[edge.target], sizes[edge.target], middle)
            path = f"M{start[0]:.1f} {start[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
            where = ((start[0] + 2 * middle[0] + end[0]) / 4, (start[1] + 2 * middle[1] + end[1]) / 4 - 4)
        label = escape(one_line(edge.label))
        drawn.append(f'<path d="{path}" marker-end="url(#a)"/>')
        drawn.append(f'<text class="e" text-anchor="middle" x="{where[0]:.1f}" y="{where[1]:.1f}">{label}</text>')
    return drawn


def _border(
    centre: tuple[float, float], size: tuple[float, float], towards: tuple[float, float]
) -> tuple[float, float]:
    """Where the line from the centre of a box leaves it."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    if not dx and not dy:
        return centre
    share = min(size[0] / 2 / abs(dx) if dx else math.inf, size[1] / 2 / abs(dy) if dy else math.inf, 1.0)
    return centre[0] + dx * share, centre[1] + dy * share


# Pictures as PNG: the SVG drawing, rendered in this process by resvg, with the fonts of the machine.

MIN_ZOOM, MAX_ZOOM = 0.1, 8.0
_PROBE = f'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><style>{STYLE}</style>%s</svg>'


def png_bytes(picture: Picture, zoom: float) -> bytes:
    """Raises UsageError if the machine has no font for the text: resvg would leave the text out silently."""
    if not MIN_ZOOM <= zoom <= MAX_ZOOM:
        raise UsageError(f"zoom must be between {MIN_ZOOM} and {MAX_ZOOM}, got {zoom}")
    if _rendered(_PROBE % '<text x="2" y="16">A</text>') == _rendered(_PROBE % ""):
        raise UsageError(
            "a PNG needs a monospace font, and none is installed",
            hint="install one, such as fonts-dejavu-core on Debian, or write SVG",
        )
    return _rendered(svg_text(picture), zoom)


def _rendered(svg: str, zoom: float = 1.0) -> bytes:
    renderer = load_extra("resvg_py", "a PNG", extra="png")
    return bytes(renderer.svg_to_bytes(svg_string=svg, zoom=zoom, background="#ffffff"))
