"""Each view in a real browser: on a graph with content, on an empty one, on a large one, and for somebody who may see nothing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from studio_browser import Site, Watched, context_of
from studio_graphs import HOSTILE, SCHEMA

import omnigraph as og

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

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


def _look_at(watched: Watched, site: Site, graph: str, views: dict[str, tuple[str, str]]) -> None:
    """Opens each view: no error on the console, no failed request, nothing that axe objects to in either theme, no view too wide."""
    objections: list[str] = []
    for name, (place, expected) in views.items():
        watched.open(site, f"/{graph}/{place}")
        watched.page.wait_for_selector(expected)
        objections += [f"{name}: {found}" for found in watched.look()]
    assert objections == []
    assert watched.problems == []


def test_each_view_shows_the_demo_graph(watched: Watched, site: Site) -> None:
    _look_at(watched, site, "demo", VIEWS)
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
    _look_at(watched, site, "empty", EMPTY)
    assert watched.refusals == []


LARGE = {
    "overview": ("overview", "text=12,000 >> nth=0"),
    "schema": ("schema", ".box >> text=12,000"),
    "browse": ("browse/Person", "[data-row='0'] >> text=person 000000"),
    "explore": ("explore?node=Person:person+000000", "aside >> text=person 000000 >> nth=0"),
    "query": ("query?q=query+q()+{+match+{+$p:+Person+}+return+{+$p.name+as+name+}+}", "text=12,000 rows"),
    "history": ("history", "[role=row] >> nth=3"),
    "diff list": ("diff/main/review", "[role=option] >> text=person 000000"),
    "diff table": ("diff/main/review?tab=table", "td >> text=person 000000"),
    "diff picture": ("diff/main/review?tab=picture", "text=10,000 changes, in groups"),
    "diff json": ("diff/main/review?tab=json", "pre >> text=person 000000"),
    "merge": ("merge/review/main", "button >> text=Merge 10,000 changes"),
    "refs": ("refs", "td >> text=review"),
    "health": ("health", "td >> text=12,000 >> nth=0"),
}


def test_each_view_shows_a_large_graph(watched: Watched, site: Site) -> None:
    _look_at(watched, site, "large", LARGE)
    assert watched.refusals == []


def test_who_may_see_nothing_is_told_so(watched: Watched, denied: Site) -> None:
    views = (
        "overview",
        "schema",
        "browse/Person",
        "explore",
        "query",
        "history",
        "diff/main/review",
        "merge",
        "loads",
        "refs",
        "health",
    )
    _look_at(watched, denied, "demo", {view: (view, "text=You may not see this") for view in views})
    button = watched.page.get_by_role("link", name="Refs")
    button.click()
    watched.page.wait_for_selector("button[aria-disabled=true] >> text=New branch")


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
    from omnigraph.pictures.picture import type_colours

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


def test_while_an_answer_is_awaited_the_page_says_so_and_other_views_work(watched: Watched, site: Site) -> None:
    """A server that is slow with one request holds up only what waits for it."""
    page = watched.page
    held: list[Route] = []
    page.route("**/storage?**", lambda route: held.append(route))
    watched.open(site, "/demo/health")
    page.wait_for_selector("main [role=status][aria-label=Loading]")
    assert watched.axe() == []
    page.get_by_role("link", name="Refs").click()
    page.wait_for_selector("td >> text=import/hr")
    with page.expect_request("**/storage?**"):
        page.get_by_role("link", name="Health").click()
    page.wait_for_selector("main [role=status][aria-label=Loading]")
    held[-1].continue_()
    page.wait_for_selector("text=Space by type")
    assert watched.problems == []


def test_a_lost_connection_is_said_and_reads_are_sent_again(watched: Watched, site: Site) -> None:
    page = watched.page
    watched.open(site, "/demo/health")
    page.wait_for_selector("text=Space by type")
    page.get_by_role("link", name="Merge").click()
    page.wait_for_selector("text=two joiners and a leaver")
    page.context.set_offline(True)
    page.get_by_role("link", name="Health").click()
    page.wait_for_selector(".band >> text=The connection is lost")
    assert watched.axe() == []
    page.context.set_offline(False)
    page.wait_for_selector("text=Space by type")
    page.wait_for_selector(".band >> text=The connection is lost", state="detached")
