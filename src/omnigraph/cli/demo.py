"""`omnigraph demo`: what OmniGraph does, step by step, on generated data."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from omnigraph._internal.lazy_imports import np
from omnigraph.cli.commit_graph import commits_with_merged, draw_commits, labels_of
from omnigraph.cli.output import print_table
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import init

if TYPE_CHECKING:
    from omnigraph.types import Result


# The demo's data: people who follow each other (a few of them very popular), where they live and what they like.
#
# Deterministic: the same sizes give the same files.

SCHEMA = """\
// A small social network.
interface Named { name: String }

node Person implements Named {
  handle: String @key
  tier: enum(free, pro) @index
  born: Date?
  bio: String?
}
node City implements Named { country: String  @key(name) }
node Interest { name: String @key }

edge Follows: Person -> Person { since: Date? }
edge LivesIn: Person -> City @card(0..1)
edge Likes: Person -> Interest
"""

_COUNTRIES = ("France", "Kenya", "Japan", "Brazil", "Canada", "India", "Norway", "Chile")
_INTERESTS = ("chess", "climbing", "jazz", "sailing", "cooking", "astronomy", "gardening", "running", "pottery", "film")
_FIRST = ("Ana", "Ben", "Chi", "Dag", "Eva", "Finn", "Gul", "Hana", "Ivo", "Jun", "Kofi", "Lea", "Mia", "Noor", "Ola")
_LAST = ("Abe", "Berg", "Costa", "Diaz", "Eze", "Fox", "Gray", "Holt", "Iqbal", "Jung", "Kim", "Lund", "Mora", "Nash")


@dataclass(frozen=True)
class Sizes:
    persons: int
    cities: int
    follows: int
    likes: int

    @classmethod
    def full(cls) -> Sizes:
        return cls(persons=99_500, cities=490, follows=750_000, likes=150_500)

    @classmethod
    def small(cls) -> Sizes:
        return cls(persons=1_940, cities=50, follows=6_000, likes=2_060)

    @property
    def nodes(self) -> int:
        return self.persons + self.cities + len(_INTERESTS)

    @property
    def edges(self) -> int:
        return self.persons + self.follows + self.likes


def write_files(folder: Path, sizes: Sizes) -> list[str]:
    """Write nodes and edges to separate files of JSON lines; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2026)
    nodes, edges = folder / "nodes.jsonl", folder / "edges.jsonl"
    with nodes.open("w", encoding="utf-8") as out:
        for city in range(sizes.cities):
            country = _COUNTRIES[city % len(_COUNTRIES)]
            out.write(f'{{"type":"City","data":{{"name":"City {city}","country":"{country}"}}}}\n')
        for name in _INTERESTS:
            out.write(f'{{"type":"Interest","data":{{"name":"{name}"}}}}\n')
        born = rng.integers(-7_000, 14_000, sizes.persons)
        for person in range(sizes.persons):
            name = f"{_FIRST[person % len(_FIRST)]} {_LAST[person // 7 % len(_LAST)]}"
            tier = "pro" if person % 10 == 0 else "free"
            out.write(
                f'{{"type":"Person","data":{{"handle":"p{person}","name":"{name}","tier":"{tier}",'
                f'"born":{born[person]},"bio":"likes {_INTERESTS[person % 10]} and {_INTERESTS[person // 3 % 10]}"}}}}\n'
            )
    with edges.open("w", encoding="utf-8") as out:
        source = rng.integers(0, sizes.persons, sizes.follows)
        target = rng.zipf(1.5, sizes.follows) % sizes.persons
        since = rng.integers(14_000, 20_500, sizes.follows)
        for a, b, day in zip(source.tolist(), target.tolist(), since.tolist(), strict=True):
            out.write(f'{{"edge":"Follows","from":"p{a}","to":"p{b}","data":{{"since":{day}}}}}\n')
        for person, city in enumerate(rng.integers(0, sizes.cities, sizes.persons).tolist()):
            out.write(f'{{"edge":"LivesIn","from":"p{person}","to":"City {city}"}}\n')
        fans = rng.integers(0, sizes.persons, sizes.likes).tolist()
        for fan, liked in zip(fans, rng.integers(0, len(_INTERESTS), sizes.likes).tolist(), strict=True):
            out.write(f'{{"edge":"Likes","from":"p{fan}","to":"{_INTERESTS[liked]}"}}\n')
    return [str(nodes), str(edges)]


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
query three_hops($who: String) {
  match { $a: Person { handle: $who }  $a follows{1,3} $b  $b livesIn $c }
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
    """Prints what happens, and records how long each step took."""

    show: bool
    steps: list[dict[str, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def step(self, title: str, command: str | None = None) -> Iterator[None]:
        """One step; `command` is the equivalent command line."""
        if self.show:
            click.echo("\n" + click.style(f"{len(self.steps) + 1}. {title}", bold=True))
            if command is not None:
                self.say(click.style(f"$ omnigraph {command}", dim=True))
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self.steps.append({"step": title, "seconds": round(seconds, 3)})
        self.say(click.style(f"({seconds:.2f} s)", dim=True))

    def say(self, text: str) -> None:
        if self.show:
            click.echo("\n".join(f"   {line}" for line in text.splitlines()))

    def rows(self, result: Result) -> None:
        """Print a result as the command line does."""
        if self.show:
            with io.StringIO() as lines, contextlib.redirect_stdout(lines):
                print_table(result.rows, [column.name for column in result.columns], 40)
                text = lines.getvalue()
            self.say(text)


def run_demo(*, small: bool, folder: str | None, show: bool) -> dict[str, Any]:
    """Run everything; returns the steps with their times. The folder is removed afterwards unless it was named."""
    place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="omnigraph-demo-"))
    sizes = Sizes.small() if small else Sizes.full()
    story = Story(show)
    try:
        tell(story, place, sizes, "local" if small else "spark")
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
    if show:
        total = sum(step["seconds"] for step in story.steps)
        end = "Keep the graph next time with --keep FOLDER."
        if folder:
            end = f"To go on: cd {folder} && export OMNIGRAPH_STORE=graph"
        click.echo(f"\nDone in {total:.1f} s. {end}")
    return {"folder": folder, "nodes": sizes.nodes, "edges": sizes.edges, "steps": story.steps}


def tell(story: Story, place: Path, sizes: Sizes, engine: Literal["local", "spark"]) -> None:
    with story.step(f"Generate {sizes.nodes:,} nodes and {sizes.edges:,} edges as JSON lines"):
        files = write_files(place / "data", sizes)
        (place / "social.pg").write_text(SCHEMA, encoding="utf-8")
        (place / "social.gq").write_text(QUERIES.lstrip(), encoding="utf-8")
    with story.step("Make a graph: a folder with a schema", "init --schema social.pg graph"):
        graph = init(place / "graph", SCHEMA, actor="demo")
    typed = "load graph --data data/ --mode append" + (" --engine spark" if engine == "spark" else "")
    title = "Load, in process" if engine == "local" else "Load, on Spark"
    with story.step(f"{title}: every record checked, one commit or nothing", typed):
        receipt = graph.load(
            files, mode="append", engine=engine, actor="demo", message="first load", progress=story.show
        )
        story.say(f"{receipt.total_entities:,} entities")
    _ask(story, graph)
    _branch_and_merge(story, graph)
    typed = """query profile --query social.gq --params '{"who": "newcomer"}' --revision loaded"""
    with story.step("Travel in time: who is 'newcomer', then and now?", typed):
        for revision in ("loaded", "main"):
            result = graph.query(QUERIES, {"who": "newcomer"}, name="profile", revision=revision)
            story.say(f"{revision}: {str(result.rows[0]['name']) if result.rows else 'nobody'}")
    with story.step("The history", "log --draw"):
        names = [branch.name for branch in graph.branches.list()]
        story.say(draw_commits(commits_with_merged(graph, names, limit=20), labels_of(graph)))


def _ask(story: Story, graph: Graph) -> None:
    queries: list[tuple[str, str, dict[str, object]]] = [
        ("Who is followed most?", "most_followed", {}),
        ("Where do chess players live?", "cities_of_likers", {"interest": "chess"}),
        ("Where are the people within three hops of p42?", "three_hops", {"who": "p42"}),
    ]
    for question, name, parameters in queries:
        params = f" --params '{json.dumps(parameters)}'" if parameters else ""
        with story.step(question, f"query {name} --query social.gq{params}"):
            story.rows(graph.query(QUERIES, parameters, name=name))


def _branch_and_merge(story: Story, graph: Graph) -> None:
    graph.tags.create("loaded")
    with story.step("Make a branch: one small object, whatever the size of the graph", "branch create review"):
        graph.branches.create("review")
    with story.step("Three changes on the branch, and one on main meanwhile", "mutate join --branch review ..."):
        newcomer = {"handle": "newcomer", "name": "Nia Newcomer", "city": "City 7", "friend": "p42"}
        graph.mutate(QUERIES, newcomer, name="join", branch="review", actor="ada", message="a newcomer")
        graph.mutate(QUERIES, {"who": "p7"}, name="promote", branch="review", actor="ada", message="p7 is pro now")
        graph.mutate(QUERIES, {"who": "p13"}, name="leave", branch="review", actor="ada", message="p13 left")
        graph.mutate(QUERIES, {"who": "p99"}, name="promote", actor="bob", message="meanwhile on main")
    with story.step("What did the branch change?", "diff loaded review"):
        counts = Counter(f"{change.op} {change.kind} {change.type_name}" for change in graph.diff("loaded", "review"))
        story.say("\n".join(f"{number:5d}  {what}" for what, number in sorted(counts.items())))
    with story.step("Merge: both sides' changes, or a list of conflicts", "branch merge review"):
        story.say(graph.branches.merge("review", into="main", actor="ada").outcome)
