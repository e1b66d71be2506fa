"""`examples` and `skill`: a user without the repository can follow the pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from docs.blocks import blocks_of

from omnigraph.cli.main import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.stem: page for page in (*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"))}
USES_FILES = {name for name, page in PAGES.items() if any(block.file for block in blocks_of(page))}


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(cli, arguments)
    return ran.exit_code, ran.output


def test_every_page_that_uses_files_is_listed() -> None:
    code, text = run("examples")
    assert code == 0
    assert {line.split()[0] for line in text.splitlines()[1:]} == USES_FILES


@pytest.mark.parametrize("page", sorted(USES_FILES))
def test_a_page_comes_with_its_files(page: str, tmp_path: Path) -> None:
    assert run("examples", page, str(tmp_path / "tour"))[0] == 0
    expected = {block.file: block.text for block in blocks_of(PAGES[page]) if block.file is not None}
    expected[f"{page}.md"] = PAGES[page].read_text(encoding="utf-8")
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "tour").iterdir() if path.is_file()}
    assert written == expected
    folders = [path.name for path in (tmp_path / "tour").iterdir() if path.is_dir()]
    assert folders == (["data"] if page == "own-data" else [])


def test_no_file_of_the_user_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "books.gq").write_text("mine")
    ran = CliRunner().invoke(cli, ["examples", "quickstart", str(tmp_path)], standalone_mode=False)
    assert "books.gq is there already" in str(ran.exception)
    assert os.listdir(tmp_path) == ["books.gq"]


def test_a_skill_says_what_it_is_for() -> None:
    code, text = run("skill")
    assert code == 0
    assert text == (DOCS / "skill.md").read_text(encoding="utf-8")
    start, name, description, end = text.splitlines()[:4]
    assert (start, name, end) == ("---", "name: omnigraph", "---")
    assert len(description) < 1024
