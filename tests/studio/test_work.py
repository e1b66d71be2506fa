"""What people do in the studio: review a merge, race for one, load a file, and five tasks counted in clicks and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from serving import Fixed, tokens
from studio_browser import TOKEN, Site, Watched, context_of, site_of

import omnigraph as og

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route


class Hands:
    """Uses a page as a person does, and counts what that takes: a click, or a text or key typed, is one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.acts = 0

    def click(self, name: str, role: str = "button", within: str = "") -> None:
        """What has this name; `within` is a text of the line that it is in."""
        page = self.page
        place = page.get_by_role("listitem").filter(has=page.get_by_text(within, exact=True)) if within else page
        place.get_by_role(role, name=name, exact=bool(within)).first.click()  # type: ignore[arg-type]  # a role of ARIA
        self.acts += 1

    def choose_file(self, path: Path) -> None:
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_text("Drop files here, or choose them").click()
        chooser.value.set_files(path)
        self.acts += 1

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.acts += 1

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.acts += 1

    def sees(self, selector: str) -> None:
        self.page.wait_for_selector(selector)


def _head(tmp_path: Path) -> og.types.Commit:
    return og.open(tmp_path / "demo").show("main")


def test_a_merge_is_reviewed_and_published_with_the_keyboard_alone(
    watched: Watched, own_site: Site, tmp_path: Path
) -> None:
    """From the conflicts to the merge commit: theirs, then ours, then another value for the address that two people hold."""
    page, hands = watched.page, Hands(watched.page)
    watched.open(own_site, "/demo/merge/review/main")
    hands.sees("text=3 conflicts, 0 decided")
    hands.press("2")
    hands.sees("text=3 conflicts, 1 decided")
    hands.press("1")
    hands.sees("text=3 conflicts, 2 decided")
    hands.sees("[role=note] >> text=give this entity another value")
    hands.press("1")  # would leave the value with both
    assert page.locator("text=3 conflicts, 2 decided").count() == 1
    page.get_by_role("button", name="Edit", exact=True).focus()
    hands.press("Enter")
    page.get_by_label("email").focus()
    hands.press("Control+a")
    hands.type("luca.ferri@example.com")
    hands.press("Enter")
    hands.sees("text=3 conflicts, 3 decided")
    page.get_by_label("Message of the merge commit").focus()
    hands.type("reviewed")
    hands.press("Enter")
    hands.sees("text=review is merged into main")
    assert watched.problems == []
    commit = _head(tmp_path)
    assert commit.kind == "merge"
    assert commit.message is not None
    assert commit.message.startswith("reviewed")
    graph = og.open(tmp_path / "demo")
    assert graph.entity("Company", "Meridian") is not None
    person = graph.entity("Person", "Ada Lindqvist")
    assert person is not None
    assert person["age"] == 36
    luca = graph.entity("Person", "Luca Ferri")
    assert luca is not None
    assert luca["email"] == "luca.ferri@example.com"


def test_of_two_tabs_that_merge_the_second_returns_to_the_review(
    browser: Browser, watched: Watched, own_site: Site
) -> None:
    with context_of(browser) as context:
        second = Watched(context.new_page())
        for each in (watched, second):
            each.open(own_site, "/demo/merge/import%2Fhr/main")
            each.page.wait_for_selector("text=Merges without a conflict")
        watched.page.locator("button[type=submit]").click()
        watched.page.wait_for_selector("text=import/hr is merged into main")
        second.page.locator("button[type=submit]").click()
        second.page.wait_for_selector("text=A branch has moved since this review")
        second.click("Review again")
        second.page.wait_for_selector("text=Already up to date")
        assert [refusal[:3] for refusal in second.refusals] == ["412"]


def test_a_broken_rule_has_a_card_with_the_ways_out(watched: Watched, own_site: Site, tmp_path: Path) -> None:
    """An edge whose node is gone is dropped by a key; a second employer is decided on a branch, and until then nothing is published."""
    graph = og.open(tmp_path / "demo")
    graph.branches.create("rules")
    with graph.transaction(branch="rules") as tx:
        tx.insert("LivesIn", from_="Luca Ferri", to="Oslo")
        tx.insert("WorksAt", from_="Luca Ferri", to="Kestrel")
    with graph.transaction() as tx:
        tx.delete("City", "Oslo")
        tx.insert("WorksAt", from_="Luca Ferri", to="Northwind")
    page, hands = watched.page, Hands(watched.page)
    watched.open(own_site, "/demo/merge/rules/main")
    hands.sees("[role=note] >> text=Drop the edge")
    hands.press("x")
    hands.sees("text=2 conflicts, 1 decided")
    hands.sees("[role=note] >> text=Delete or add edges of this node on rules or main")
    assert watched.axe() == []
    hands.press("1", "2", "x")
    assert page.get_by_text("2 conflicts, 1 decided").count() == 1
    assert page.locator("button[type=submit]").get_attribute("aria-disabled") == "true"
    page.get_by_label("Conflict", exact=True).get_by_role("link", name="Luca Ferri").click()
    page.wait_for_selector("text=/^1 of [0-9]+ rows/")
    page.wait_for_selector("[role=row] >> text=Kestrel")
    assert watched.problems == []


def test_a_decision_about_a_value_that_has_changed_is_made_again(
    watched: Watched, own_site: Site, tmp_path: Path
) -> None:
    """Three decisions; then one of the values moves. The others are kept, and the conflict is marked."""
    page, hands = watched.page, Hands(watched.page)
    watched.open(own_site, "/demo/merge/review/main")
    hands.sees("text=3 conflicts, 0 decided")
    hands.press("2", "2", "x")
    hands.sees("text=3 conflicts, 3 decided")
    og.open(tmp_path / "demo").mutate('query birthday() { update Person set { age: 38 } where name = "Ada Lindqvist" }')
    before = _head(tmp_path)
    hands.click("and 3 decisions into main")
    hands.sees("text=A branch has moved since this review")
    assert _head(tmp_path) == before
    hands.click("Review again")
    hands.sees("text=1 decision must be made again")
    assert "Ada Lindqvist" in page.get_by_role("option").filter(has_text="changed").inner_text()
    hands.sees("text=3 conflicts, 2 decided")


def test_a_write_whose_answer_was_lost_is_checked_and_made_once(
    watched: Watched, own_site: Site, tmp_path: Path
) -> None:
    """The server makes the tag, and the connection ends before it can say so."""
    page = watched.page
    watched.open(own_site, "/demo/refs")

    def answered_into_the_void(route: Route) -> None:
        if route.request.method == "POST":
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/tags", answered_into_the_void)
    watched.click("New tag")
    page.get_by_label("Name").fill("v2")
    watched.click("Make the tag")
    page.wait_for_selector("text=The outcome is not known")
    page.unroute("**/tags")
    watched.click("Check whether it was done")
    page.wait_for_selector("td >> text=v2")
    assert [tag.name for tag in og.open(tmp_path / "demo").tags.list()] == ["spring", "v2"]


def test_a_property_is_picked_from_each_side(watched: Watched, own_site: Site, tmp_path: Path) -> None:
    page = watched.page
    watched.open(own_site, "/demo/merge/review/main")
    page.get_by_role("option", name="Ada Lindqvist").click()
    page.get_by_role("button", name="age theirs").click()
    page.get_by_role("button", name="role base").click()
    page.wait_for_selector("text=3 conflicts, 1 decided")
    decided = page.evaluate("JSON.parse(Object.values({...localStorage}).find(text => text.includes('picks')))")
    value = next(iter(decided.values()))["value"]["properties"]
    assert (value["age"], value["role"]) == (37, "analyst")
    page.reload()
    page.wait_for_selector("text=3 conflicts, 1 decided")


def test_a_commit_of_somebody_else_is_announced(watched: Watched, own_site: Site, tmp_path: Path) -> None:
    page = watched.page
    with page.expect_response("**/changes/stream**"):
        watched.open(own_site, "/demo/browse/City")
    page.wait_for_selector("text=7 rows")
    og.open(tmp_path / "demo").mutate('query add() { insert City { name: "Bergen" } }')
    page.wait_for_selector(".band >> text=main moved")
    page.wait_for_selector("text=7 rows")
    watched.click("Refresh")
    page.wait_for_selector("text=8 rows")


def test_a_query_that_writes_needs_the_switch_and_ends_in_its_diff(
    watched: Watched, own_site: Site, tmp_path: Path
) -> None:
    page, before = watched.page, _head(tmp_path)
    query = 'query grow() { update Person set { age: 70 } where name = "Bo Lindqvist" }'
    watched.open(own_site, f"/demo/query?q={query.replace(' ', '+')}")
    run = page.get_by_role("button", name="Write to main")
    run.wait_for()
    run.dispatch_event("click")
    assert _head(tmp_path).id == before.id
    page.get_by_role("switch").click()
    run.click()
    page.wait_for_selector("[role=option] >> text=Bo Lindqvist")
    assert _head(tmp_path).parent.id == before.id  # type: ignore[union-attr]  # it has one


def test_large_whole_numbers_stay_exact(watched: Watched, tmp_path: Path) -> None:
    """No double holds them: in a parameter, in a list, in a mutation, and in a decision about a conflict."""
    page, first, second = watched.page, 2**53 + 1, 2**60 + 1
    graph = og.init(tmp_path / "big", "node Row { name: String @key  size: I64?  note: String? }")
    with site_of(Fixed({"big": tmp_path / "big"}, (tokens(ada=TOKEN),), queries="")) as site:
        query = 'query add($size: I64) { create Row { name: "a", size: $size } }'
        watched.open(site, f"/big/query?q={query.replace(' ', '+')}&params=%7B%22size%22%3A%22{first}%22%7D")
        page.get_by_role("switch").click()
        page.get_by_role("button", name="Write to main").click()
        page.wait_for_selector("[role=option] >> text=a")
        assert graph.entity("Row", "a") == {"id": "a", "name": "a", "size": first, "note": None}
        listed = "query of($sizes: [I64]) { match { $r: Row  $r.size in $sizes } return { $r.name as name } }"
        watched.open(site, f"/big/query?q={listed.replace(' ', '+')}")
        assert page.locator(".band").count() == 0, "what the page itself wrote is what it shows"
        page.get_by_label("$sizes: [I64]").fill(f"[{first}]")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("[role=gridcell] >> text=a")
        graph.branches.create("work")
        for branch, note in (("work", "theirs"), ("main", "ours")):
            with graph.transaction(branch) as tx:
                tx.update("Row", "a", size=second, note=note)
        watched.open(site, "/big/merge/work/main")
        page.get_by_role("button", name="Edit", exact=True).click()
        page.get_by_label("note: String?").fill("decided")
        page.get_by_role("button", name="Use these values").click()
        page.locator("button[type=submit]", has_text="into main").click()
        page.wait_for_selector("text=work is merged into main")
        assert graph.entity("Row", "a") == {"id": "a", "name": "a", "size": second, "note": "decided"}
    assert watched.problems == []


# Five tasks, done as a person would: from the first page, by what is to be read there.


def test_find_a_node_by_text_and_see_who_is_near(watched: Watched, own_site: Site) -> None:
    hands = Hands(watched.page)
    watched.open(own_site, "/demo/overview")
    hands.sees("text=Last commits")
    hands.press("Control+k")
    hands.type("kai lind")
    hands.sees("[role=option] >> text=Kai Lindqvist")
    hands.press("Enter")
    hands.sees("aside >> text=Kai Lindqvist")
    hands.sees("[aria-label='What the picture shows'] tr >> nth=3")
    assert hands.acts == 3


def test_compare_main_with_an_earlier_state(watched: Watched, own_site: Site) -> None:
    hands = Hands(watched.page)
    watched.open(own_site, "/demo/overview")
    hands.click("Refs", "link")
    hands.click("More about spring")
    hands.click("Compare with main", "menuitem")
    hands.sees("text=4 of 4 commits")
    hands.sees("[role=option] >> text=Meridian")
    hands.click("Picture", "tab")
    hands.sees("text=8 changes; faint: unchanged neighbours")
    assert hands.acts == 4


def test_review_three_conflicts_and_merge(watched: Watched, own_site: Site) -> None:
    hands = Hands(watched.page)
    watched.open(own_site, "/demo/overview")
    hands.click("Review", "link", within="review")
    hands.sees("text=3 conflicts, 0 decided")
    hands.press("2", "2", "x")
    hands.sees("text=3 conflicts, 3 decided")
    hands.click("and 3 decisions into main")
    hands.sees("text=review is merged into main")
    assert hands.acts == 5


def test_find_out_why_records_were_refused_and_load_the_corrected_file(
    watched: Watched, own_site: Site, tmp_path: Path
) -> None:
    page, hands = watched.page, Hands(watched.page)
    people = [{"type": "Person", "data": {"name": f"new {at}", "age": 200 if at < 14 else 30}} for at in range(20)]
    wrong = tmp_path / "people.jsonl"
    wrong.write_text("".join(json.dumps(line) + "\n" for line in people))
    watched.open(own_site, "/demo/overview")
    hands.click("Loads", "link")
    hands.choose_file(wrong)
    hands.sees("text=people.jsonl")
    hands.click("Start the load")
    hands.sees("text=14 records refused")
    assert "age" in page.locator("[aria-label=Reasons] button").first.inner_text()
    assert page.locator("[aria-label='Refused records'] tbody tr").count() == 14
    for line in people:
        line["data"]["age"] = 30  # type: ignore[index]  # a dictionary, as above
    wrong.write_text("".join(json.dumps(line) + "\n" for line in people))
    hands.choose_file(wrong)
    hands.sees("text=people.jsonl")
    hands.click("Start the load")
    hands.sees("text=20 entities loaded")
    hands.click("Review the merge into main", "link")
    hands.sees("text=20 changes")
    assert hands.acts == 6


def test_see_which_type_takes_the_space_and_compact_it(watched: Watched, own_site: Site, tmp_path: Path) -> None:
    hands = Hands(watched.page)
    watched.open(own_site, "/demo/overview")
    hands.click("Health", "link")
    hands.sees("text=Space by type")
    assert watched.page.locator("tbody tr").first.inner_text().startswith("Knows")
    hands.click("Optimize…")
    hands.click("Compact and index")
    hands.sees("dialog >> text=Done, in commit")
    assert hands.acts == 3
    assert _head(tmp_path).kind == "optimize"
    assert TOKEN not in watched.page.url
