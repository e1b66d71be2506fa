"""Pictures: their content, and how it is drawn as SVG or as a page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from omnigraph._internal.lazy_imports import load_extra, pa
from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog, NodeType
from omnigraph.snapshot import View
from omnigraph.storage.outputs import outputs
from omnigraph.values.json_values import json_value

# The colours of node types, the same in every picture and in the studio. People who do not see all colours can tell them apart.

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d46", "#999933")


def type_colours(names: Iterable[str]) -> dict[str, str]:
    """The colour of each type, in the order of the schema: the one that its name hashes to or, if an earlier type has that, the
    next free one. A type that is added at the end changes no colour."""
    colours: dict[str, str] = {}
    taken: set[int] = set()
    for name in names:
        if len(taken) == len(PALETTE):
            taken.clear()
        slot = _hash(name) % len(PALETTE)
        while slot in taken:
            slot = (slot + 1) % len(PALETTE)
        taken.add(slot)
        colours[name] = PALETTE[slot]
    return colours


def _hash(text: str) -> int:
    """FNV-1a, 32 bits: short enough to be the same in the page, which is written in another language."""
    value = 0x811C9DC5
    for byte in text.encode("utf-8"):
        value = (value ^ byte) * 0x01000193 % 2**32
    return value


TextFormat = Literal["svg", "html", "mermaid", "dot"]
PictureFormat = Literal["svg", "png", "html", "mermaid", "dot"]
FORMATS: Mapping[str, PictureFormat] = {
    "svg": "svg",
    "png": "png",
    "html": "html",
    "mmd": "mermaid",
    "mermaid": "mermaid",
    "dot": "dot",
    "gv": "dot",
}
"""By file extension."""
MAX_LINES = 12
"""How many properties a box shows."""
MAX_TEXT = 48
"""How many characters a line in a box has."""


@dataclass(frozen=True)
class PictureNode:
    """A box: a type of the schema, or a node with its `id`.

    >>> assert (around.nodes[0].type_name, around.nodes[0].id) == ("Person", "Ada")
    """

    type_name: str
    id: str | None
    lines: tuple[str, ...]
    """Properties, one per line."""
    colour: str = PALETTE[0]
    """That of its type, as #rrggbb."""


@dataclass(frozen=True)
class PictureEdge:
    """An arrow between two boxes, by their positions among the boxes; it stands for `count` edges of one type.

    >>> assert around.edges[0].type_name in ("Knows", "LivesIn")
    """

    source: int
    target: int
    type_name: str
    count: int = 1

    @property
    def label(self) -> str:
        """The text next to the arrow."""
        return self.type_name if self.count == 1 else f"{self.type_name} ×{self.count}"


@dataclass(frozen=True)
class Picture:
    """A drawing of a schema, or of the neighbourhood of a node. Notebooks display it.

    >>> around = g.picture("Person", "Ada")
    >>> around.save("ada.svg")
    >>> assert around.to_mermaid().startswith("flowchart LR")
    """

    title: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    left_out: int = 0
    """How many nodes there was no room for, as far as they were met."""

    def __repr__(self) -> str:
        return f"<Picture of {self.title}: {len(self.nodes)} boxes, {len(self.edges)} arrows>"

    def _repr_svg_(self) -> str:
        """In a notebook: the drawing."""
        return self.to_svg()

    def to_svg(self) -> str:
        """A self-contained drawing: no fonts, no scripts. The same picture always gives the same drawing."""

        return svg_text(self)

    def to_png(self, *, zoom: float = 2.0) -> bytes:
        """The drawing as pixels, for programs that do not show SVG. Needs the extra `png`, and a font on this machine."""

        return png_bytes(self, zoom)

    def to_html(self) -> str:
        """A page with the drawing in it."""

        return html_text(self)

    def to_mermaid(self) -> str:
        """Text for Mermaid, which Markdown pages draw."""

        return mermaid_text(self)

    def to_dot(self) -> str:
        """Text for Graphviz."""

        return dot_text(self)

    def to_text(self, format: TextFormat) -> str:
        """The picture in one of its text formats: svg, html, mermaid or dot."""
        writers = {"svg": self.to_svg, "html": self.to_html, "mermaid": self.to_mermaid, "dot": self.to_dot}
        if format not in writers:
            raise UsageError(f"'{format}' is not a text format of pictures", hint=f"one of {', '.join(writers)}")
        return writers[format]()

    def save(self, target: str | Path, *, format: PictureFormat | None = None, overwrite: bool = False) -> None:
        """Write it to a file, in `format` or that of the file's extension. "-" is standard output.

        Raises AlreadyExists if the file exists, unless `overwrite` replaces it."""
        chosen = format or FORMATS.get(str(target).rpartition(".")[2].lower())
        if chosen is None:
            raise UsageError(
                f"the format of '{target}' is not known",
                hint=f"use a name that ends with {', '.join(f'.{ending}' for ending in FORMATS)}",
            )
        data = self.to_png() if chosen == "png" else self.to_text(chosen).encode()
        with outputs([target], {}, replace=overwrite) as (file,), file.open() as out:
            if chosen == "png" and out.isatty():
                raise UsageError("png is not for a terminal", hint="write it to a file (--out FILE) or into a pipe")
            out.write(data)


def schema_picture(catalog: Catalog, title: str) -> Picture:
    """Node types as boxes, edge types as arrows."""
    colours = type_colours(catalog.nodes)
    boxes = tuple(PictureNode(node.name, None, _declared(node), colours[node.name]) for node in catalog.nodes.values())
    places = {box.type_name: place for place, box in enumerate(boxes)}
    arrows = [PictureEdge(places[edge.source], places[edge.target], edge.name) for edge in catalog.edges.values()]
    return Picture(title, boxes, tuple(arrows))


def node_picture(view: View, type_name: str, id: str, hops: int, limit: int) -> Picture | None:
    """A node and those within some hops of it, nearest first; None if the node does not exist."""
    if type_name not in view.catalog.nodes:
        known = ", ".join(view.catalog.nodes)
        raise UsageError(f"the schema has no node type '{type_name}'", hint=f"its node types: {known}")
    if not _rows(view, type_name, [id]):
        return None
    met: dict[tuple[str, str], int] = {(type_name, id): 0}
    arrows: dict[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {}
    left_out: set[tuple[str, str]] = set()
    frontier = [(type_name, id)]
    for _ in range(hops):
        following: list[tuple[str, str]] = []
        for key, ends in _edges_of(view, frontier):
            unknown = [end for end in ends if end not in met]
            if unknown and len(met) >= limit:
                left_out.update(unknown)
                continue
            for end in unknown:
                met[end] = len(met)
                following.append(end)
            arrows[key] = ends
        frontier = following
    for key, ends in _edges_of(view, frontier):
        if all(end in met for end in ends):
            arrows[key] = ends
    counted = Counter((met[source], met[target], key[0]) for key, (source, target) in arrows.items())
    drawn = tuple(PictureEdge(*ends, count) for ends, count in sorted(counted.items()))
    return Picture(f"{type_name} {id}", _boxes(view, met), drawn, len(left_out))


def _edges_of(
    view: View, nodes: list[tuple[str, str]]
) -> list[tuple[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]]]:
    """The edges at the given nodes, by (type, id), with both ends; sorted by type name and id."""
    edges = {}
    for edge in sorted(view.catalog.edges.values(), key=lambda edge: edge.name):
        table = view.table(edge.table_key)
        if table is None:
            continue
        for column, end_type in (("src", edge.source), ("dst", edge.target)):
            ids = [id for type_name, id in nodes if type_name == end_type]
            if not ids:
                continue
            rows: pa.Table = table.lookup(column, ids, ["id", "src", "dst"])
            columns = [rows.column(name).to_pylist() for name in ("id", "src", "dst")]
            for id, source, target in zip(*columns, strict=True):
                edges[(edge.name, id)] = ((edge.source, source), (edge.target, target))
    return sorted(edges.items())


def _boxes(view: View, met: Mapping[tuple[str, str], int]) -> tuple[PictureNode, ...]:
    values = {}
    for type_name in {type_name for type_name, _ in met}:
        for row in _rows(view, type_name, [id for name, id in met if name == type_name]):
            values[type_name, row["id"]] = row
    colours = type_colours(view.catalog.nodes)
    return tuple(PictureNode(name, id, _held(values.get((name, id), {})), colours[name]) for name, id in met)


def _rows(view: View, type_name: str, ids: list[str]) -> list[dict[str, object]]:
    from omnigraph.read.entities import object_fields

    table = view.table(f"node:{type_name}")
    if table is None:
        return []
    rows: list[dict[str, object]] = table.lookup("id", ids, ["id", *object_fields(view, [type_name])]).to_pylist()
    return rows


def _held(row: Mapping[str, object]) -> tuple[str, ...]:
    lines = [f"{name}: {_shown(value)}" for name, value in row.items() if name != "id" and value is not None]
    return _few([line for line in lines if line != f"name: {row.get('id')}"])


def _shown(value: object) -> str:
    import json

    shown = json_value(value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _declared(entity: NodeType) -> tuple[str, ...]:
    return _few(
        [
            f"{property.name}: {property.type}{' @key' * (property.name in entity.key)}"
            for property in entity.properties.values()
        ]
    )


def _few(lines: list[str]) -> tuple[str, ...]:
    shown = [line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…" for line in lines[:MAX_LINES]]
    return (*shown, f"… {len(lines) - MAX_LINES} more") if len(lines) > MAX_LINES else tuple(shown)


# Pictures as text for other drawing programs. Data is always quoted as text, so that it is never taken for their syntax.


def mermaid_text(picture: Picture) -> str:
    lines = ["flowchart LR"]
    lines += [f'  n{place}["{_mermaid(node)}"]' for place, node in enumerate(picture.nodes)]
    lines += [f'  n{edge.source} -- "{_entities(edge.label)}" --> n{edge.target}' for edge in picture.edges]
    if picture.left_out:
        lines.append(f'  more["… {picture.left_out} more"]')
    return "\n".join(lines) + "\n"


def _mermaid(node: PictureNode) -> str:
    return "<br/>".join(_entities(text) for text in titled(node))


def _entities(text: str) -> str:
    """Letters, digits, blanks and a few marks as they are, all other characters by number: Mermaid gives too many of them a
    meaning."""
    return "".join(
        letter if letter.isalnum() or letter in " _-:.,@×" else f"#{ord(letter)};" for letter in one_line(text)
    )


def dot_text(picture: Picture) -> str:
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box];"]
    for place, node in enumerate(picture.nodes):
        label = "\\n".join(_quoted(text) for text in titled(node))
        lines.append(f'  n{place} [label="{label}"];')
    lines += [f'  n{edge.source} -> n{edge.target} [label="{_quoted(edge.label)}"];' for edge in picture.edges]
    if picture.left_out:
        lines.append(f'  more [label="… {picture.left_out} more", shape=plaintext];')
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def titled(node: PictureNode) -> list[str]:
    """The lines of a box, its title first."""
    return [node.type_name if node.id is None else f"{node.type_name} {node.id}", *node.lines]


def one_line(text: str) -> str:
    """Text without line breaks, control characters, or characters that XML does not allow."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


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
