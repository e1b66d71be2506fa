"""Servers for tests: graphs, tokens and gates given as values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.graph.stored_queries import compile_stored
from omnigraph.policy.ask import Authorizer
from omnigraph.server.app import Application
from omnigraph.server.auth import StaticTokens, TokenEntry
from omnigraph.server.logs import RequestLog
from omnigraph.server.registry import Allowing, Served, ServedGraph
from omnigraph.server.settings import ServerSettings

SCHEMA = """
node Person { name: String @key  age: I32?  born: DateTime? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
RECORDS = """
{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bo", "age": 27}}
{"type": "City", "data": {"name": "Rome"}}
{"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"id": "ada-bo", "since": "2020-05-01"}}
"""
QUERIES = """
query everyone() @description("All people") { match { $p: Person } return { $p.name as name, $p.age as age } order { name asc } }
query by_name($name: String) { match { $p: Person { name: $name } } return { $p.age as age } }
query add($name: String, $age: I32? = null) @instruction("Adds one") { insert Person { name: $name, age: $age } }
"""
ADD = "query add($name: String, $age: I32? = null) { insert Person { name: $name, age: $age } }"
ALL = "query everyone() { match { $p: Person } return { $p.name as name } order { name asc } }"


def make_people(place: Path) -> Path:
    graph = og.init(place, SCHEMA)
    records = place.parent / f"{place.name}.jsonl"
    records.write_text(RECORDS.strip() + "\n")
    graph.load(records, mode="merge", engine="local", actor="loader")
    return place


def tokens(**actors: str) -> StaticTokens:
    """Tokens by actor."""
    return StaticTokens([TokenEntry(actor, hashlib.sha256(token.encode()).digest()) for actor, token in actors.items()])


@dataclass
class Fixed:
    """A source of served graphs that is written down here."""

    places: Mapping[str, Path]
    verifiers: tuple[StaticTokens, ...] = ()
    gate: Authorizer | None = None
    server_gate: Authorizer = field(default_factory=lambda: Allowing(frozenset({"graph_list"})))
    in_cluster: bool = False
    queries: str = QUERIES

    def load(self) -> Served:
        graphs = {}
        for name, place in self.places.items():
            stored = compile_stored({"people.gq": self.queries}, og.open(place).schema.catalog)
            graph = og.open(place, policy=self.gate)
            graphs[name] = ServedGraph(name, graph, self.gate, stored, self.in_cluster)
        return Served(graphs, self.verifiers, self.server_gate, digest="fixed", revision=1, state_token="one")


def people_client(source: Fixed, settings: ServerSettings | None = None, log: StringIO | None = None) -> TestClient:
    """A client of a server in this process. Paths that do not begin at the root are below the graph `people`."""
    app = Application(source, source.load(), settings, RequestLog("json", log or StringIO()))
    return PeopleClient(app, base_url="http://localhost", raise_server_exceptions=False)


class PeopleClient(TestClient):
    def request(self, method: str, url: object, **options: object) -> object:  # type: ignore[override]  # as the base
        text = str(url)
        return super().request(method, text if text.startswith("/") else f"/graphs/people/{text}", **options)  # type: ignore[arg-type]
