"""Every command and query shown in the documentation works as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.blocks import KINDS, Runner, blocks_of

from omnigraph.cli.reference import PAGES as MADE

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]


def is_run(page: Path) -> bool:
    return any(block.language in ("pg", "gq", "sh", "python") for block in blocks_of(page))


def uses_spark(page: Path) -> bool:
    return any(block.on_spark for block in blocks_of(page))


RUN = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.spark] if uses_spark(page) else [])
    for page in PAGES
    if is_run(page)
]


@pytest.mark.parametrize("page", RUN)
def test_page_works_as_written(page: Path, tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner(page, tmp_path, programs)
    for block in blocks_of(page):
        runner.run(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_of_known_kinds(page: Path) -> None:
    blocks = list(blocks_of(page))
    assert {block.language for block in blocks} <= KINDS
    assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_paths_exist(page: Path) -> None:
    """`src/...`, `tests/...` and the like in the text are there."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for path in re.findall(r"`((?:src|tests|docs|examples|bench)/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", MADE)
def test_made_pages_are_up_to_date(name: str) -> None:
    """`python -m omnigraph.cli.reference docs` makes them."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == MADE[name]()
