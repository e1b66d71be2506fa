"""A browser, and servers with the graphs that it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serving import Fixed, tokens
from studio_browser import FLAGS, MISSING, TOKEN, Site, Watched, chromium_path, context_of, site_of
from studio_graphs import QUERIES, SCHEMA, make_demo, make_hostile, make_large

import omnigraph as og
from omnigraph.server.registry import Allowing

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = chromium_path()
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="package")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Graphs that no test changes."""
    folder = tmp_path_factory.mktemp("studio")
    og.init(folder / "empty", SCHEMA)
    return {
        "demo": make_demo(folder / "demo"),
        "empty": folder / "empty",
        "large": make_large(folder / "large"),
        "hostile": make_hostile(folder / "hostile"),
    }


@pytest.fixture(scope="package")
def site(places: dict[str, Path]) -> Iterator[Site]:
    with site_of(Fixed(places, (tokens(ada=TOKEN),), queries="")) as running:
        yield running


@pytest.fixture(scope="package")
def denied(places: dict[str, Path]) -> Iterator[Site]:
    """Here nobody may do anything with a graph."""
    source = Fixed({"demo": places["demo"]}, (tokens(ada=TOKEN),), gate=Allowing(frozenset()), queries="")
    with site_of(source) as running:
        yield running


@pytest.fixture(scope="package")
def read_only(places: dict[str, Path]) -> Iterator[Site]:
    source = Fixed({"demo": places["demo"]}, (tokens(ada=TOKEN),), gate=Allowing(frozenset({"read"})), queries="")
    with site_of(source) as running:
        yield running


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A demo graph of the test's own."""
    with site_of(Fixed({"demo": make_demo(tmp_path / "demo")}, (tokens(ada=TOKEN),), queries=QUERIES)) as running:
        yield running


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A page of 1280 pixels in the light theme, without motion."""
    with context_of(browser) as context:
        yield Watched(context.new_page())
