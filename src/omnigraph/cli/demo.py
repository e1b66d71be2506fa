"""`omnigraph demo`: the whole of the project's main job on generated data, told step by step."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.cli.commit_graph import draw_commits
from omnigraph.cli.demo_data import SCHEMA, Sizes, write_files
from omnigraph.cli.output import print_table
from omnigraph.graph import Graph, init

QUERIES = """
query most_followed() {
  match { $a: Person  $a follows $b }
  return { $b.handle as handle, $b.name as name, count($a) as followers }
  order { followers desc }  limit 5
}
query cities_of_likers($interest: String) {
  match { $i: Interest { name: $interest }  $p: Person  $p likes $i  $p livesIn $c }
  return { $c.name as city, $c.country as country, count($p) as people }
  order { people desc }  limit 5
}
query two_hops($who: String) {
  match { $a: Person { handle: $who }  $a follows{1,2} $b  $b livesIn $c }
  return { $c.name as city, count($b) as reached }
  order { reached desc }  limit 5
}
query profile($who: String) {
  match { $p: Person { handle: $who } }
  return { $p.handle as handle, $p.name as name, $p.tier as tier }
}
query promote($who: String) { update Person set { tier: "pro" } where handle = $who }
query join($handle: String, $name: String, $city: String, $friend: String) {
  insert Person { handle: $handle, name: $name, tier: "free" }
  insert LivesIn { from: $handle, to: $city }
  insert Follows { from: $handle, to: $friend }
}
query leave($who: String) { delete Person where handle = $who }
"""


@dataclass
class Story:
    """Tells what happens, and keeps how long each step took."""

    show: bool
    steps: list[dict[str, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        if self.show:
            print(f"\n== {title}", flush=True)
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self.steps.append({"step": title, "seconds": round(seconds, 3)})
        if self.show:
            print(f"   ({seconds:.2f} s)", flush=True)

    def say(self, text: str) -> None:
        if self.show:
            print("\n".join(f"   {line}" for line in text.splitlines()), flush=True)

    def rows(self, rows: list[dict[str, Any]], columns: list[str]) -> None:
        if self.show:
            print_table(rows, columns, 40)


def run_demo(*, small: bool, folder: str | None, show: bool) -> dict[str, Any]:
    """Run everything; the steps with their times. The folder goes away afterwards unless it was named."""
    place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="omnigraph-demo-"))
    story = Story(show)
    try:
        tell(story, place, Sizes.small() if small else Sizes.full(), "local" if small else "spark")
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
    if show:
        total = sum(step["seconds"] for step in story.steps)
        print(f"\nDone in {total:.1f} s." + (f" The graph is at {place / 'graph'}." if folder else ""))
    return {"folder": str(place) if folder else None, "steps": story.steps}


def tell(story: Story, place: Path, sizes: Sizes, engine: Any) -> None:
    with story.step(f"Generate {sizes.nodes:,} nodes and {sizes.edges:,} edges as JSON lines"):
        files = write_files(place / "data", sizes)
    with story.step("omnigraph init: a graph is a folder"):
        graph = init(place / "graph", SCHEMA, actor="demo")
    with story.step(f"omnigraph load: one commit or nothing, validated ({engine} engine)"):
        receipt = graph.load(
            files, mode="append", engine=engine, actor="demo", message="first load", show_progress=story.show
        )
        story.say(f"{receipt.to_json()['total_entities']:,} entities in commit {receipt.commit.id}")
    _ask(story, graph)
    _branch_and_merge(story, graph)
    with story.step("Time travel: the same question before the merge"):
        for revision in ("loaded", "main"):
            result = graph.query(QUERIES, {"who": "newcomer"}, name="profile", snapshot=revision)
            story.say(f"{revision}: {result.num_rows} rows for 'newcomer'")
    with story.step("omnigraph commit list --graph"):
        story.say(draw_commits({name: graph.commits(name) for name in graph.branches.list()}, 20))


def _ask(story: Story, graph: Graph) -> None:
    asked: list[tuple[str, dict[str, object]]] = [
        ("most_followed", {}),
        ("cities_of_likers", {"interest": "chess"}),
        ("two_hops", {"who": "p42"}),
    ]
    for name, parameters in asked:
        with story.step(f"omnigraph query {name} {parameters or ''}".rstrip()):
            result = graph.query(QUERIES, parameters, name=name)
            story.rows(result.rows, [column.name for column in result.columns])


def _branch_and_merge(story: Story, graph: Graph) -> None:
    graph.tags.create("loaded")
    with story.step("omnigraph branch create review: one small object, whatever the size of the graph"):
        graph.branches.create("review")
    with story.step("Three changes on the branch; main does not see them"):
        newcomer = {"handle": "newcomer", "name": "Nia Newcomer", "city": "City 7", "friend": "p42"}
        graph.mutate(QUERIES, newcomer, name="join", branch="review", actor="ada")
        graph.mutate(QUERIES, {"who": "p7"}, name="promote", branch="review", actor="ada")
        graph.mutate(QUERIES, {"who": "p13"}, name="leave", branch="review", actor="ada")
        graph.mutate(QUERIES, {"who": "p99"}, name="promote", actor="bob", message="meanwhile on main")
    with story.step("omnigraph diff main review"):
        counts: dict[str, int] = {}
        for change in graph.diff("loaded", "review"):
            value = change.to_json()
            what = f"{value['op']} {value['kind']} {value['type']['name']}"
            counts[what] = counts.get(what, 0) + 1
        story.say("\n".join(f"{number:5d}  {what}" for what, number in sorted(counts.items())))
    with story.step("omnigraph branch merge review"):
        merged = graph.branches.merge("review", into="main", actor="ada")
        story.say(f"{merged.outcome}: commit {merged.commit.id}")
