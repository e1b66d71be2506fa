"""The site that `make docs` builds: every page is in its navigation, every link in a page leads somewhere, nothing comes from elsewhere."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SETTINGS: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def in_navigation(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from in_navigation(entry)


def prose_of(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """As GitHub and MkDocs make them of headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(prose_of(page)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text))
        found.add(anchor if not seen[anchor] else f"{anchor}-{seen[anchor]}")
        seen[anchor] += 1
    return frozenset(found)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(in_navigation(SETTINGS["nav"]))
    folders = [entry for entry in listed if entry.endswith("/")]
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    alone = sorted(page for page in pages if not any(page.startswith(folder) for folder in folders))
    assert sorted(entry for entry in listed if entry not in folders) == alone
    assert all((DOCS / folder).is_dir() for folder in folders)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for target in _LINK.findall(prose_of(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), target
        assert not anchor or anchor in anchors_of(place), target
        inside = place in (page, DOCS) or DOCS in place.parents
        assert page.parent == ROOT or inside, f"{target} is not part of the site"


def test_the_site_loads_nothing_from_elsewhere() -> None:
    assert SETTINGS["theme"]["font"] is False
    assert SETTINGS["plugins"] == ["search"]
    assert not {"extra_css", "extra_javascript", "repo_url"} & SETTINGS.keys()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "```mermaid" not in text
        assert not re.search(r"!\[[^]]*\]\(https?:|<(img|script|iframe)[^>]+https?:", text), page.name


def test_the_readme_lists_the_guides_in_the_order_of_the_navigation() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    guides = re.findall(r"\]\(docs/([\w-]+\.md)\)", text[text.index("## Guides") : text.index("## Repository")])
    order = [entry for entry in in_navigation(SETTINGS["nav"]) if entry in guides]
    assert [guide for guide in guides if guide in order] == order


@pytest.mark.parametrize(
    ("language", "text", "coloured"),
    [
        ("pg", "node Person { name: String @key }", {"node": "k", "String": "kt", "@key": "nd"}),
        (
            "gq",
            'query q() { match { $p: Person { name: "Ada" } } return { $p.name } }',
            {"match": "k", "$p": "nv", '"Ada"': "s"},
        ),
    ],
)
def test_both_languages_are_highlighted(language: str, text: str, coloured: dict[str, str]) -> None:
    runpy.run_path(str(ROOT / "tools" / "site_hooks.py"))
    found = {value: short_name(kind) for kind, value in get_lexer_by_name(language).get_tokens(text)}
    assert {word: found[word] for word in coloured} == coloured
    assert "".join(value for _, value in get_lexer_by_name(language).get_tokens(text)).strip() == text


def short_name(kind: Any) -> str:
    """The class that a stylesheet knows a token by."""
    return str(STANDARD_TYPES[kind])
