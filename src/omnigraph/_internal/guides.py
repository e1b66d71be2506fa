"""The guides, where the program finds them: an installed package has its own copy, a clone has `docs/`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_PACKAGED = _PACKAGE / "guides"
_MADE = ("ldbc", "queries-by-example")
_FOLDER = _PACKAGED if _PACKAGED.is_dir() else _PACKAGE.parents[1] / "docs"


def guide(name: str) -> str:
    """The text of a page, by its name without `.md`."""
    path = _FOLDER / f"{name}.md"
    return (path if path.exists() else _FOLDER / "reference" / path.name).read_text(encoding="utf-8")


def guides() -> Iterator[str]:
    """The names of all pages, in order; of those that are made from code, the two with queries to follow."""
    generated = (path for name in _MADE for path in _FOLDER.glob(f"reference/{name}.md"))
    return (path.stem for path in sorted((*_FOLDER.glob("*.md"), *generated), key=lambda path: path.stem))


def title_of(text: str) -> str:
    """The heading of a page."""
    return text.partition("\n")[0].lstrip("# ")
