"""Pictures as PNG: the SVG drawing, rendered in this process by resvg, with the fonts of the machine."""

from __future__ import annotations

from omnigraph.errors import UsageError
from omnigraph.extras import load_extra
from omnigraph.read.pictures.picture import Picture
from omnigraph.read.pictures.svg import STYLE, svg_text

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
