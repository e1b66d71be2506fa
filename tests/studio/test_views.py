"""Each view in a real browser: on a graph with content, on an empty one, on a large one, and for somebody who may see nothing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from studio_browser import AXE_RULES, COLOURS, Site, Watched, context_of
from studio_graphs import HOSTILE, SCHEMA

import omnigraph as og

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUERY = "query q() { match { $p: Person } return { $p.name as name } order { name } limit 5 }"
VIEWS = {
    "overview": ("overview", "text=Last commits"),
    "schema": ("schema?type=Person", "aside >> text=Rules"),
    "browse": ("browse/Person?row=Ada+Lindqvist", "aside >> text=ada.lindqvist@example.com"),
    "browse edges": ("browse/Knows", "[role=row] >> text=Lindqvist >> nth=0"),
    "explore": ("explore?node=Person:Ada+Lindqvist", "aside >> text=WorksAt >> nth=0"),
    "query": (f"query?q={QUERY.replace(' ', '+')}", "[role=gridcell] >> text=Ada Lindqvist"),
    "history": ("history", "text=take the seventh city"),
    "diff list": ("diff/spring/main?sel=Person:Ada+Lindqvist", "aside >> text=engineer"),
    "diff table": ("diff/spring/main?tab=table", "td >> text=engineer"),
    "diff picture": ("diff/spring/main?tab=picture", "text=unchanged neighbours"),
    "merge": ("merge/review/main", "text=3 conflicts, 0 decided"),
    "loads": ("loads", "text=people of the spring survey"),
    "refs": ("refs", "td >> text=import/hr"),
    "health": ("health", "text=Space by type"),
}


@pytest.mark.parametrize(("theme", "rules"), [("light", AXE_RULES), ("dark", COLOURS)])
def test_each_view_shows_the_demo_graph(browser: Browser, site: Site, theme: str, rules: tuple[str, ...]) -> None:
    """No error on the console, no failed request, nothing that axe objects to."""
    with context_of(browser, color_scheme=theme) as context:
        watched = Watched(context.new_page())
        objections: list[str] = []
        for name, (place, expected) in VIEWS.items():
            watched.open(site, f"/demo/{place}")
            watched.page.wait_for_selector(expected)
            objections += [f"{name}: {found}" for found in watched.axe(rules)]
        assert objections == []
        assert watched.problems == []
        assert watched.refusals == []


EMPTY = {
    "overview": ("overview", "text=The graph is empty"),
    "schema": ("schema", ".box >> text=Person"),
    "browse": ("browse/Person", "text=There is no Person yet"),
    "explore": ("explore", "text=There is no node yet"),
    "query": (f"query?q={QUERY.replace(' ', '+')}", "text=No rows"),
    "history": ("history", "[role=row] >> text=init >> nth=0"),
    "diff": ("diff/main/main", "text=Nothing differs"),
    "merge": ("merge", "text=Nothing waits for a merge"),
    "loads": ("loads", "text=No load yet"),
    "refs": ("refs", "text=No tags"),
    "health": ("health", "text=Space by type"),
}


def test_each_view_says_that_a_graph_is_empty(watched: Watched, site: Site) -> None:
    objections: list[str] = []
    for name, (place, expected) in EMPTY.items():
        watched.open(site, f"/empty/{place}")
        watched.page.wait_for_selector(expected)
        objections += [f"{name}: {found}" for found in watched.axe()]
    assert objections == []
    assert watched.problems == []
    assert watched.refusals == []


def test_who_may_see_nothing_is_told_so(watched: Watched, denied: Site) -> None:
    for view in ("overview", "browse/Person", "query", "history", "merge", "refs", "health"):
        watched.open(denied, f"/demo/{view}")
        watched.page.wait_for_selector("text=You may not see this")
    assert watched.axe() == []
    assert watched.problems == []


def test_what_a_caller_may_not_do_is_disabled_with_the_reason(watched: Watched, read_only: Site) -> None:
    watched.open(read_only, "/demo/refs")
    button = watched.page.get_by_role("button", name="New branch")
    button.wait_for()
    watched.page.wait_for_selector("button[aria-disabled=true]")
    assert "may not" in (button.get_attribute("title") or "") or "does not let" in (button.get_attribute("title") or "")
    button.dispatch_event("click")
    assert watched.page.locator("dialog").count() == 0


def test_without_a_token_the_page_asks_for_one(watched: Watched, site: Site) -> None:
    watched.page.goto(f"http://{site.address}/")
    watched.page.wait_for_selector("text=This server wants a token")
    assert watched.axe() == []


def test_the_token_leaves_the_address(watched: Watched, site: Site) -> None:
    watched.open(site, "/demo/overview")
    watched.page.wait_for_selector("text=Last commits")
    assert "token" not in watched.page.url


def test_hostile_texts_are_shown_as_text(watched: Watched, site: Site) -> None:
    """Markup, text that runs backwards, 100,000 characters and control characters, in every view that shows values."""
    page = watched.page
    branch = "a%2F%3Cb%3E%26%252F"
    places = {
        "overview": "text=Last commits",
        "browse/Person": "[role=row] >> text=<img src=x",
        "browse/Knows": "[role=row] >> text=<img src=x",
        "query?q=query+q()+{+match+{+$p:+Person+}+return+{+$p.bio+as+bio+}+}": "[role=gridcell] >> text=<img src=x",
        "history": "text=<i>message</i>",
        f"diff/main/{branch}": "text=<b>changed</b> >> nth=0",
        f"diff/main/{branch}?tab=picture": "text=unchanged neighbours",
        "explore?node=Person:" + HOSTILE[0].replace("=", "%3D").replace(" ", "+"): "aside >> text=<img src=x >> nth=0",
        "browse/Person?row=long+2": "aside >> text=xxxxxxxxxx >> nth=0",
    }
    for place, expected in places.items():
        watched.open(site, f"/hostile/{place}")
        page.wait_for_selector(expected)
        assert page.locator("main img, main script, main i > b, main bdi b").count() == 0, place
    assert watched.problems == []
    assert "\u202e" not in page.inner_text("main")


def test_a_link_leads_back_to_what_was_seen(browser: Browser, watched: Watched, site: Site) -> None:
    """Filters, order, revision and the open row are in the address; another browser shows the same."""
    page = watched.page
    watched.open(site, "/demo/browse/Person")
    page.get_by_label("Filter age").fill(">60")
    page.get_by_label("Filter age").press("Enter")
    page.wait_for_selector("text=of 62 rows")
    page.get_by_role("columnheader", name="age").get_by_role("button").click()
    page.wait_for_selector("[aria-sort=ascending]")
    page.locator("[data-row='0']").click()
    page.wait_for_selector("aside >> text=born")
    seen = page.inner_text("aside"), page.locator("[role=rowgroup]").inner_text()
    with context_of(browser) as context:
        other = Watched(context.new_page())
        other.open(site, page.url.partition("#")[2])
        other.page.wait_for_selector("aside >> text=born")
        other.page.wait_for_selector("text=of 62 rows")
        assert (other.page.inner_text("aside"), other.page.locator("[role=rowgroup]").inner_text()) == seen
    page.go_back()
    page.wait_for_selector("aside", state="detached")


def test_an_older_revision_is_marked_and_read(watched: Watched, site: Site) -> None:
    watched.open(site, "/demo/browse/City?rev=spring")
    watched.page.wait_for_selector(".band >> text=read-only")
    watched.page.wait_for_selector("text=6 rows")
    watched.page.get_by_role("link", name="Back to main").click()
    watched.page.wait_for_selector("text=7 rows")


def test_types_have_the_colours_that_pictures_give_them(watched: Watched, site: Site) -> None:
    from omnigraph.language.schema.compiler import compile_schema
    from omnigraph.read.pictures.colours import type_colours

    watched.open(site, "/demo/overview")
    watched.page.wait_for_selector("text=Last commits")
    for name, colour in type_colours(compile_schema(SCHEMA).nodes).items():
        dot = watched.page.locator(".type", has_text=name).first.locator(".dot")
        shown = dot.evaluate("dot => getComputedStyle(dot).backgroundColor")
        assert shown == "rgb({}, {}, {})".format(*bytes.fromhex(colour[1:]))


def test_history_goes_to_any_time(watched: Watched, site: Site, places: dict[str, Path]) -> None:
    """The server answers from that time on: nobody pages through what came later."""
    page = watched.page
    first = og.open(places["demo"]).commits(limit=1_000)[-1]
    watched.open(site, "/demo/history")
    page.wait_for_selector("text=take the seventh city")
    then = first.at.astimezone() + dt.timedelta(minutes=1)
    page.get_by_label("Commits up to a time").fill(then.replace(tzinfo=None).isoformat(timespec="minutes"))
    page.get_by_label("Commits up to a time").press("Tab")
    page.wait_for_url("**until=**")
    page.wait_for_selector("[role=row]")
    assert any("/log?" in url and "at=" in url for url in watched.requests)
    assert watched.problems == []


def test_explore_pins_slices_and_finds_a_path(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/demo/explore?node=Person:Ada+Lindqvist&sel=Person:Ada+Lindqvist")
    page.get_by_role("button", name="Path from here").click()
    rows = page.locator(".scene-table tbody tr")
    rows.nth(1).wait_for()
    shown = rows.count()
    rows.nth(1).get_by_role("button").click()
    page.wait_for_selector("[role=status] >> text=1 edge from Ada Lindqvist")
    page.get_by_role("button", name="Pin", exact=True).click()
    page.wait_for_selector("button[aria-pressed=true] >> text=Pin")
    page.get_by_label("Slice by").select_option("age")
    page.get_by_label("Lowest age").wait_for()
    page.get_by_label("Lowest age").press("End")
    page.wait_for_function("most => document.querySelectorAll('.scene-table tbody tr').length < most", arg=shown)
    assert watched.axe() == []
    assert watched.problems == []


def test_an_answer_is_saved_as_arrow(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/demo/query?q=query+q()+{+match+{+$c:+City+}+return+{+$c.name+as+name+}+}")
    page.wait_for_selector("[role=gridcell] >> text=Turin")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save Arrow").click()
    with pa.ipc.open_stream(saved.value.path()) as rows:
        assert "Turin" in rows.read_all().column("name").to_pylist()


def test_a_load_from_an_address_that_the_server_may_not_read_says_so(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/demo/loads")
    page.get_by_label("Or an address").fill("/etc/hostname")
    page.get_by_role("button", name="Start the load").click()
    page.wait_for_selector("[role=alert]")
    assert [url for url in watched.requests if url.endswith("/jobs/load")]


def test_the_slider_of_a_comparison_has_what_only_the_later_side_has(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/demo/diff/main~3/main")
    page.wait_for_selector("text=3 of 3 commits")
    page.get_by_label("Commit", exact=True).press("Home")
    page.wait_for_selector("text=1 of 3 commits")
    with page.expect_response(lambda response: "/log?ref=" in response.url):
        watched.open(site, "/demo/diff/main/review")
    page.wait_for_selector("[role=option]")
    assert page.locator("#steps").count() == 0
