"""What the studio costs: bytes, requests, and the time of its scripts. How fast a machine draws is not measured."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from studio_browser import Site, Watched, context_of

from omnigraph.server.handlers.studio import assets

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _first_load() -> dict[str, int]:
    """Compressed sizes of the files that the page names, and of those that they import at once."""
    page = assets()["index.html"].data.decode()
    wanted = [name for name in assets() if f"/studio/{name}" in page]
    for name in wanted:
        if name.endswith(".js"):
            text = assets()[name].data.decode()
            wanted += [other for other in assets() if f'from"./{other}"' in text and other not in wanted]
    return {name: len(assets()[name].compressed) for name in wanted}


def test_the_first_load_is_small() -> None:
    sizes = _first_load()
    assert sum(size for name, size in sizes.items() if name.endswith(".js")) < 70_000
    assert sum(size for name, size in sizes.items() if name.endswith(".css")) < 10_000
    assert sum(len(asset.data) for asset in assets().values()) < 1_500_000
    assert all(gzip.decompress(asset.compressed) == asset.data for asset in assets().values())


def test_the_overview_asks_for_little_and_only_its_own_server(watched: Watched, site: Site) -> None:
    watched.open(site, "/demo/overview")
    watched.page.wait_for_selector("text=Last commits")
    watched.page.wait_for_selector("li >> text=take the seventh city")
    asked = [urlsplit(url) for url in watched.requests]
    assert {url.netloc for url in asked} == {site.address}
    paths = sorted(url.path for url in asked if url.path.startswith("/graphs"))
    below = "/graphs/demo/"
    assert paths == [
        "/graphs",
        *(below + name for name in ("branches", "catalog", "changes/stream", "log", "policy/me", "tags")),
    ]


def test_a_table_of_many_rows_draws_those_on_the_screen(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/large/browse/Person")
    page.wait_for_selector("text=12,000 rows")
    page.wait_for_selector("[data-row='0'] >> text=person 000000")
    requests = len(watched.requests)
    page.locator("[role=grid]").evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
    page.wait_for_selector("text=person 011999")
    assert page.locator("[data-row]").count() < 60
    assert len(watched.requests) - requests <= 3


def test_a_diff_of_10000_changes_is_shown_by_its_first_page_and_by_groups(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/large/diff/main/review")
    page.wait_for_selector("[role=option] >> text=person 000000")
    assert page.locator("[role=option]").count() < 60
    pages = [url for url in watched.requests if "/diff?" in url and "summary" not in url and "limit=100" in url]
    assert len(pages) == 1
    page.get_by_role("tab", name="Picture").click()
    page.wait_for_selector("text=10,000 changes, in groups")
    page.wait_for_selector("[data-nodes='1']")
    assert list(page.evaluate("window.__studio.positions()")) == ["Person:update"]
    assert watched.problems == []


def _script_s(watched: Watched) -> Callable[[], float]:
    """Seconds of the processor that scripts of the page have taken: others who want it do not count."""
    session = watched.page.context.new_cdp_session(watched.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "ScriptDuration")

    return read


def test_scripts_leave_the_budget_of_a_diff_of_10000_changes_to_the_server(watched: Watched, site: Site) -> None:
    """0.3 s to the first rows, 2 s to the picture; scripts take a tenth of that."""
    watched.open(site, "/large/refs")
    watched.page.wait_for_selector("td >> text=review")
    script_s = _script_s(watched)
    before, requests = script_s(), len(watched.requests)
    watched.open(site, "/large/diff/main/review")
    watched.page.wait_for_selector("[role=option] >> text=person 000000")
    assert script_s() - before < 0.1
    asked = [url for url in watched.requests[requests:] if "/graphs/" in url]
    assert 1 <= len(asked) <= 3
    assert "limit=100" in asked[0]
    before = script_s()
    watched.page.get_by_role("tab", name="Picture").click()
    watched.page.wait_for_selector("[data-nodes='1']")
    assert script_s() - before < 0.2


def test_scrolling_through_a_large_table_keeps_frames_short(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/large/browse/Person")
    page.wait_for_selector("[data-row='0'] >> text=person 000000")
    script_s, requests = _script_s(watched), len(watched.requests)
    before = script_s()
    page.locator("[role=grid]").evaluate(SCROLL)
    assert (script_s() - before) / 60 < 0.05, "of a frame, in the middle"
    page.wait_for_selector("text=person 011999")
    assert len(watched.requests) - requests <= 60, "at most a page of rows for each stop"


SCROLL = """async grid => {
  for (let step = 1; step <= 60; step++) {
    grid.scrollTop = (grid.scrollHeight * step) / 60;
    await new Promise(drawn => requestAnimationFrame(drawn));
  }
}"""
TWO_FRAMES = "() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


def test_a_picture_of_1500_changes_is_drawn_whole_and_then_stands_still(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/large/diff/main/some?tab=picture")
    page.wait_for_selector("[data-nodes='1500']")
    page.get_by_role("button", name="Nearer").click()
    for _ in range(20):
        frames = page.evaluate("window.__studio.frames.length")
        page.evaluate(TWO_FRAMES)
        if frames and page.evaluate("window.__studio.frames.length") == frames:
            break
    else:
        raise AssertionError("it is drawn again and again")
    assert len(page.evaluate("window.__studio.positions()")) == 1_500
    for _ in range(8):
        page.get_by_role("button", name="Nearer").click()
        page.get_by_role("button", name="Farther").click()
    frames = sorted(page.evaluate("window.__studio.frames"))
    assert frames[len(frames) // 4] < 8, "script of a frame, in milliseconds, while nothing else has the processor"
    assert watched.problems == []


def test_the_picture_of_a_diff_asks_once_for_each_kind_of_edge_at_what_is_there(watched: Watched, site: Site) -> None:
    """A person may know, be known, work somewhere and live somewhere; cities and companies have people. Nothing is asked twice."""
    watched.open(site, "/demo/diff/spring/main?tab=picture")
    watched.page.wait_for_function("() => 'Person:Ada Lindqvist' in (window.__studio?.positions() ?? {})")
    watched.page.wait_for_function("() => 'City:Paris' in window.__studio.positions()")
    paths = [urlsplit(url).path for url in watched.requests]
    assert paths.count("/graphs/demo/query") == 5
    assert paths.count("/graphs/demo/diff") == 2


def test_a_table_on_a_narrow_screen_draws_and_asks_for_no_more_than_on_a_wide_one(browser: Browser, site: Site) -> None:
    """The row that is open is below the table: the table keeps to its own part of the page."""
    with context_of(browser, viewport={"width": 390, "height": 844}) as context:
        watched = Watched(context.new_page())
        watched.open(site, "/large/browse/Person?row=person+000003")
        watched.page.wait_for_selector("aside >> text=person 000003")
        watched.page.wait_for_selector("[data-row='0'] >> text=person 000000")
        assert watched.page.locator("[data-row]").count() < 60
        assert len([url for url in watched.requests if "/entities/Person?" in url]) <= 2
        watched.open(site, "/demo/diff/spring/main")
        assert watched.page.get_by_role("tab", name="Picture").bounding_box()["height"] > 20  # type: ignore[index]  # it is shown
