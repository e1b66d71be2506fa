"""Random small graphs and random queries of the grammar, on every access path, against the naive interpreter."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from logic.runner import NOW, engines
from read.graphs import (
    build_indexes,
    commit,
    every_expansion_is_long,
    every_table_is_large,
    new_graph,
    replace_some,
    store_adjacency,
)
from read.oracle import Oracle

from omnigraph.errors import QueryError
from omnigraph.language.query.functions import FUNCTIONS
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.snapshot import View
from omnigraph.values.json_values import json_value

SCHEMA = """
interface Named { name: String  rank: I32? }
node Person implements Named {
  name: String @key
  rank: I32?
  tier: enum(free, pro)?
  score: F64? @index
  big: I64?
  tags: [String]?
  note: String? @index
  born: Date?
  seen: DateTime?
}
node City implements Named {
  name: String @key
  rank: I32? @index
}
edge Knows: Person -> Person { weight: I32? }
edge Follows: Person -> Person { since: Date?  weight: I32? }
edge LivesIn: Person -> City { weight: I32? }
edge Near: City -> City { weight: I32? }
edge OwnedBy: City -> Person { weight: I32? }
"""
NAMES = ["a", "b", "c", "d", "e"]
CITIES = ["a", "x", "y"]
SMALL = st.integers(-2, 3)
WORDS = ["knows", "knows", "knows|follows", "follows|knows"]
FUNCTION_VALUES = (
    ("abs(${}.rank)", "n"),
    ("round(${}.score)", "n"),
    ("floor(${}.score)", "n"),
    ("ceil(${}.score)", "n"),
    # Libraries of mathematics differ in the last digit.
    *((f"round({text}, 6)", "n") for text in ("sqrt(${}.rank)", "ln(${}.rank)", "power(${}.score, ${}.rank)")),
    ("integer(${}.score)", "n"),
    ("float(text(${}.score))", "n"),
    ("text(${}.rank)", "t"),
    ("text(${}.seen)", "t"),
    ("length(${}.note)", "n"),
    ("size(${}.tags)", "n"),
    ('size(split(${}.note, " "))', "n"),
    *(
        (f"{name}(${{}}.{time})", "n")
        for name in ("year", "month", "day", "week", "weekday", "hour")
        for time in ("born", "seen")
    ),
    ('duration(${}.born, ${}.seen, "week")', "n"),
    ('duration(${}.seen, now(), "hour")', "n"),
    ('month(date_trunc("week", ${}.born))', "n"),
    ('day(date_add(${}.born, 1, "month"))', "n"),
    ("day(${}.seen - 1 year)", "n"),
    ("upper(${}.name)", "t"),
    ("trim(substring(${}.note, 4))", "t"),
    ('replace(${}.note, "e", "a")', "t"),
    ('join(${}.tags, "a")', "t"),
    ("lower(${}.note)", "t"),
)
"""Values of a person, by the functions of the language."""


def _optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    people = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    cities = draw(st.lists(st.sampled_from(CITIES), unique=True, max_size=3))
    records: list[dict[str, Any]] = []
    for name in people:
        data = {
            "name": name,
            "rank": draw(_optional(SMALL)),
            "tier": draw(_optional(st.sampled_from(["free", "pro"]))),
            "score": draw(_optional(st.sampled_from([-1.5, 0.0, 0.5, 2.0]))),
            "big": draw(_optional(st.sampled_from([0, 1, 2**53 + 1, -(2**63), 2**63 - 1]))),
            "tags": draw(_optional(st.lists(st.sampled_from(["p", "q"]), max_size=2))),
            "note": draw(_optional(st.sampled_from(["", "red fox", "the Red hen", "blue"]))),
            "born": draw(_optional(st.sampled_from(["1999-12-31", "2020-02-29", "2021-01-03"]))),
            "seen": draw(_optional(st.sampled_from(["2025-12-31T23:59:59.5Z", "2026-01-01T00:00:00Z"]))),
        }
        records.append({"type": "Person", "data": data})
    records += [{"type": "City", "data": {"name": name, "rank": draw(_optional(SMALL))}} for name in cities]
    if people:
        ends = st.tuples(st.sampled_from(people), st.sampled_from(people), _optional(SMALL))
        for a, b, weight in draw(st.lists(ends, max_size=9)):
            records.append({"edge": "Knows", "from": a, "to": b, "data": {"weight": weight}})
        for place, (a, b, weight) in enumerate(draw(st.lists(ends, max_size=4))):
            same = f"e{len(people) + len(cities) + place:04}"  # the id of an edge of the other type
            records.append({"edge": "Follows", "id": same, "from": a, "to": b, "data": {"weight": weight}})
    if people and cities:
        homes = st.tuples(st.sampled_from(people), st.sampled_from(cities))
        records += [{"edge": "LivesIn", "from": a, "to": b} for a, b in draw(st.lists(homes, max_size=4))]
        for b, a in draw(st.lists(homes, max_size=3)):
            data = {"weight": draw(_optional(SMALL))}
            records.append({"edge": "OwnedBy", "id": f"e{len(records):04}", "from": a, "to": b, "data": data})
    if cities:
        for a, b in draw(st.lists(st.tuples(st.sampled_from(cities), st.sampled_from(cities)), max_size=3)):
            records.append({"edge": "Near", "from": a, "to": b, "data": {"weight": draw(_optional(SMALL))}})
    return records


class Writer:
    """Writes one query; remembers which variables are there."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.names = (f"v{number}" for number in itertools.count())

    def query(self) -> str:
        people, cities, edges = [], [], []
        clauses = self.clauses(people, cities, edges, self.draw(st.integers(1, 3)))
        if self.draw(st.integers(0, 3)) == 0:
            clauses.append(f"unnest ${self.pick(people)}.tags as $t")
        if self.draw(st.integers(0, 3)) == 0:
            clauses.append(self.path(people))
        if self.draw(st.integers(0, 2)) == 0:
            clauses.append(self.optional(people, cities))
        pattern = f"match {{ {' '.join(clauses)} }}"
        if self.draw(st.integers(0, 5)) == 0:
            return f"query q() {{ {pattern} {self.unpacked(people)} }}"
        if self.draw(st.integers(0, 4)) == 0:
            return f"query q() {{ {pattern} {self.staged(people, cities)} }}"
        if self.draw(st.integers(0, 7)) == 0:
            return f"query q() {{ {pattern} {self.united(people)} }}"
        return f"query q() {{ {pattern} {self.returned(people, cities, edges)} }}"

    def staged(self, people: list[str], cities: list[str]) -> str:
        """A stage with some of the people and a value, then clauses about them, and columns."""
        kept = self.draw(st.lists(st.sampled_from(people), unique=True, min_size=1, max_size=2))
        items = [f"${name}" for name in kept]
        if cities and self.draw(st.booleans()):
            items.append(f"${self.pick(cities)}")
        value = self.pick([f"count(${self.pick(people)})", f"${kept[0]}.rank", f"max(${self.pick(people)}.rank)"])
        distinct = "distinct " if self.draw(st.integers(0, 3)) == 0 else ""
        stage = f"with {distinct}{{ {', '.join(items)}, {value} as n }} {self.ordered(['n'])} {self.cut()}"
        clauses = [self.step(kept, [], []) for _ in range(self.draw(st.integers(0, 2)))]
        if self.draw(st.booleans()):
            clauses.append(f"${self.pick(kept)}.rank {self.pick(['<', '>=', '!='])} (n)")
        if self.draw(st.integers(0, 2)) == 0:
            clauses.append(f"optional {{ ${self.pick(kept)} livesIn $home  $home.rank >= (n) }}")
        pattern = f"match {{ {' '.join(clauses)} }}" if clauses else ""
        columns = [f"${self.pick(kept)}.name as a", "n as b", f"exists {{ ${self.pick(kept)} knows $z }} as c"]
        if self.draw(st.booleans()):
            columns = ["n as a", f"count(${self.pick(kept)}) as b", f"sum(distinct ${self.pick(kept)}.rank) as c"]
        return f"{stage} {pattern} return {{ {', '.join(columns)} }} {self.ordered(['a', 'b'])} {self.cut()}"

    def unpacked(self, people: list[str]) -> str:
        """Records of a stage, one row for each of them again."""
        kept, other = self.pick(people), self.pick(people)
        stage = f"with {{ ${kept}, collect({{a: ${other}.rank, b: ${other}.name}}) as all }}"
        condition = self.pick(
            [
                "",
                f"$r.a {self.pick(['<', '>='])} {self.draw(SMALL)}",
                f"$r.b != ${kept}.name",
                "any($x in (all) where $x.a = $r.a)",
            ]
        )
        columns = f"${kept}.name as who, $r.a as a, $r.b as b, [$r.a, ${kept}.rank] as both"
        return f"{stage} match {{ unnest (all) as $r {condition} }} return {{ {columns} }} {self.cut()}"

    def united(self, people: list[str]) -> str:
        """Two columns of this read, and of a read of another kind of node."""
        person = self.pick(people)
        first = f"return {{ ${person}.name as name, {self.pick(['', 'abs'])}(${person}.rank) as rank }}"
        second = f"match {{ $c: City  $c.rank {self.pick(['<', '>='])} {self.draw(SMALL)} }} return {{ $c.name as name, $c.rank as rank }}"
        word = self.pick(["union", "union all"])
        return f"{first} {word} {second} {self.ordered(['name', 'rank'])} {self.cut()}"

    def pick(self, items: Iterable[str]) -> str:
        return self.draw(st.sampled_from(list(items)))

    def clauses(self, people: list[str], cities: list[str], edges: list[str], steps: int) -> list[str]:
        clauses: list[str] = []
        if not people:
            start = next(self.names)
            people.append(start)
            key = f' {{ name: "{self.pick(NAMES)}" }}' if self.draw(st.booleans()) else ""
            clauses.append(f"${start}: Person{key}")
        for _ in range(steps):
            clauses.append(self.step(people, cities, edges))
        for _ in range(self.draw(st.integers(0, 2))):
            clauses.append(self.condition(people, cities, edges, depth=1))
        return clauses

    def step(self, people: list[str], cities: list[str], edges: list[str]) -> str:
        kinds = ["knows", "knows", "hops", "walk", "both", "edge", "back", "lives", "home", "close", "node", "mixed"]
        kind, a = self.pick(kinds), self.pick(people)
        if kind == "mixed":
            return self.mixed(people, cities, edges)
        if kind in ("close", "knows", "hops", "both", "back"):
            reuse = kind == "close" or self.draw(st.integers(0, 4)) == 0
            b = self.pick(people) if reuse else next(self.names)
            if b not in people:
                people.append(b)
            low = self.draw(st.integers(0, 3))
            high = max(low + self.draw(st.integers(0, 2)), 1) if self.draw(st.integers(0, 3)) else ""
            bounds = f"{{{low},{high}}}" if kind in ("hops", "close") else ""
            words = self.pick(WORDS)
            word = f"<{words}>" if kind == "both" else words
            return f"${b} {word}{bounds} ${a}" if kind == "back" else f"${a} {word}{bounds} ${b}"
        if kind == "walk":
            b = self.pick(people) if self.draw(st.integers(0, 4)) == 0 else next(self.names)
            if b not in people:
                people.append(b)
            bounds = self.pick(["{1,1}", "{1,3}", "{0,2}", "{2,3}", "{1,}", "{2,}"])
            return f"${a} $e:{self.edge()}{bounds} ${b} {self.along()}"
        if kind == "edge":
            b, e = next(self.names), next(self.names)
            people.append(b)
            edges.append(e)
            return f"${a} ${e}:{self.edge()} ${b}"
        if kind == "lives":
            c = self.pick(cities) if cities and self.draw(st.booleans()) else next(self.names)
            if c not in cities:
                cities.append(c)
            return f"${a} livesIn ${c}"
        if kind == "home" and cities:
            b = next(self.names)
            people.append(b)
            return f"${self.pick(cities)} livesIn ${b}"
        b = next(self.names)
        people.append(b)
        return f"${b}: Person"

    def value(self, people: list[str], cities: list[str], edges: list[str]) -> tuple[str, str]:
        """(a numeric or text operand, its kind)."""
        choices = [
            (f"${v}.{p}", k) for v in people for p, k in (("rank", "n"), ("score", "n"), ("name", "t"), ("tier", "e"))
        ]
        choices += [
            (text.replace("${}", f"${v}").replace("${0}", f"${v}"), k)
            for v in people
            for text, k in (
                *FUNCTION_VALUES,
                ("coalesce(${}.rank, 0)", "n"),
                ('case when ${0}.rank > 0 then "a" when ${0}.rank < 0 then "b" else "c" end', "t"),
            )
        ]
        choices += [(f"${v}.rank", "n") for v in cities] + [(f"${v}.name", "t") for v in cities]
        choices += [(f"${v}.weight", "n") for v in edges]
        return self.draw(st.sampled_from(choices))

    def condition(self, people: list[str], cities: list[str], edges: list[str], depth: int) -> str:
        kind = self.pick(
            [
                "compare",
                "compare",
                "compare",
                "null",
                "in",
                "list",
                "items",
                "search",
                "block",
                "block",
                "logic",
                "pair",
            ]
        )
        if kind == "block" and depth > 0:
            return self.block(people, depth)
        if kind == "logic" and depth > 0:
            parts = [self.condition(people, cities, edges, 0) for _ in range(2)]
            joined = f" {self.pick(['and', 'or'])} ".join(f"({part})" for part in parts)
            return f"not ({joined})" if self.draw(st.booleans()) else f"({joined})"
        if kind == "pair" and len(people) > 1:
            return f"${self.pick(people)} {self.pick(['=', '!='])} ${self.pick(people)}"
        if kind == "list":
            return f'${self.pick(people)}.tags contains "{self.pick(["p", "q"])}"'
        if kind == "items":
            quantifier = self.pick(["any", "all"])
            return (
                f'{quantifier}($t in ${self.pick(people)}.tags where $t = lower(${self.pick(people)}.tier) or $t = "p")'
            )
        if kind == "search":
            return f'search(${self.pick(people)}.note, "{self.pick(["red", "red fox", "blue", ""])}")'
        left, type_ = self.value(people, cities, edges)
        if kind == "null":
            return f"{left} is {self.pick(['null', 'not null'])}"
        if type_ == "n":
            if kind == "in":
                return f"{left} in [{', '.join(str(n) for n in self.draw(st.lists(SMALL, max_size=3)))}]"
            other, other_type = self.value(people, cities, edges)
            right = other if other_type == "n" and self.draw(st.booleans()) else str(self.draw(SMALL))
            sum_ = (
                f"{left} {self.pick(['+', '-', '*', '/', '%'])} {self.draw(SMALL)}"
                if self.draw(st.booleans())
                else left
            )
            return f"{sum_} {self.pick(['=', '!=', '<', '<=', '>', '>='])} {right}"
        if type_ == "e":
            return f'{left} {self.pick(["=", "!="])} "{self.pick(["free", "pro"])}"'
        return (
            f'{left} {self.pick(["=", "!=", "<", ">=", "starts_with", "ends_with", "contains"])} "{self.pick(NAMES)}"'
        )

    def mixed(self, people: list[str], cities: list[str], edges: list[str]) -> str:
        """Edges that join different node types: one hop, or several, from and to nodes of one type or of both."""
        a, b = self.pick(people + cities), next(self.names)
        bounds = self.pick(["", "", "{1,2}", "{0,2}", "{2,3}", "{1,}", "{0,}"])
        kind = self.pick(["City", "City", "Person", ""]) if bounds else ""
        (people if kind == "Person" else cities).append(b)
        words = self.pick(
            ["livesIn|near", "near|ownedBy|livesIn", "livesIn|ownedBy"] if bounds else ["livesIn|near", "knows|livesIn"]
        )
        bound = f"${b}: {kind}" if kind else ""
        if bounds and self.draw(st.booleans()):
            return f"{bound} ${a} $e:{words}{bounds} ${b} {self.along()}"
        if not bounds and self.draw(st.booleans()):
            e = next(self.names)
            edges += [] if words.startswith("knows") else [e]
            return f"${a} ${e}:{words} ${b}"
        back = bounds and self.draw(st.booleans())
        return f"{bound} ${b} {words}{bounds} ${a}" if back else f"{bound} ${a} {words}{bounds} ${b}"

    def edge(self) -> str:
        words = self.pick(WORDS)
        return self.pick([words, f"<{words}>"])

    def along(self) -> str:
        """What holds for each hop of a walk."""
        return self.pick(
            [
                f"where $e.weight {self.pick(['<', '>='])} {self.draw(SMALL)}",
                f"via $n where $n.rank >= {self.draw(SMALL)} and $e.weight is not null",
                f"after $f where $e.weight {self.pick(['>', '<=', '!='])} $f.weight",
                "via $n after $f where ($e.weight > $f.weight or $n.rank > $f.weight) and $n.name != $f.from",
            ]
        )

    def path(self, people: list[str]) -> str:
        """A path between two people, of whom one may be new, with a condition on it."""
        start, end = self.pick(people), next(self.names) if self.draw(st.booleans()) else self.pick(people)
        if end not in people:
            people.append(end)
        bounds = self.pick(["{1,3}", "{0,2}", "{2,4}", "{0,4} by weight", "{1,3} by weight"])
        edge = f"{self.edge()}{bounds}"
        if self.draw(st.integers(0, 2)) == 0:
            bounds, by = self.pick(["{1,3}", "{0,2}", "{2,4}"]), ""
            if bounds != "{2,4}":
                by = self.pick([" by weight", ""])
            edge = f"$e:{self.edge()}{bounds}{by} {self.along()}"
        name = next(self.names)
        condition = self.pick(["", f"${name}.length > 1", f"${name}.cost < 3", f"size(${name}.nodes) >= 3"])
        number = "path" if "by weight" in edge or self.draw(st.integers(0, 2)) else "paths"
        return f"shortest {number} ${name} from ${start} to ${end} along {edge} {condition}"

    def optional(self, people: list[str], cities: list[str]) -> str:
        """Its new variables are seen by what follows, but in no later step of the pattern."""
        outer = self.pick(people)
        inside, homes = [outer], list[str]()
        steps = [self.step(inside, homes, []) for _ in range(self.draw(st.integers(1, 2)))]
        if not any(f"${outer} " in f"{step} " for step in steps):
            steps.append(f"${outer} knows ${next(self.names)}")
        if self.draw(st.booleans()):
            steps.append(f"${inside[-1]}.rank >= {self.draw(SMALL)}")
        people += [name for name in inside if name not in people]
        cities += homes
        return f"optional {{ {' '.join(steps)} }}"

    def block(self, people: list[str], depth: int) -> str:
        outer = self.pick(people)
        inner_people, inner_cities, inner_edges = [outer], list[str](), list[str]()
        steps = [self.step(inner_people, inner_cities, inner_edges) for _ in range(self.draw(st.integers(1, 2)))]
        if not any(f"${outer} " in f"{step} " for step in steps):
            steps.append(f"${outer} knows ${next(self.names)}")
        if self.draw(st.booleans()):
            steps.append(self.condition(inner_people, inner_cities, inner_edges, depth - 1))
        if self.draw(st.integers(0, 3)) == 0 and len(people) > 1:
            steps.append(f"${inner_people[-1]}.rank >= ${self.pick(people)}.rank")
        inside = " ".join(steps)
        kind = self.pick(["not", "not", "exists", "count"])
        if kind == "count":
            return f"count {{ {inside} }} {self.pick(['=', '>', '<='])} {self.draw(st.integers(0, 2))}"
        return f"{kind} {{ {inside} }}"

    def returned(self, people: list[str], cities: list[str], edges: list[str]) -> str:
        columns = [f"${v}.{p}" for v in people for p in ("name", "rank", "tier", "big", "id")] + [
            f"${v}.name" for v in cities
        ]
        columns += [f"${v}.{p}" for v in edges for p in ("weight", "weight", "id", "from")]
        columns += [f"count {{ ${v} {self.pick(WORDS)}{self.pick(['', '{0,2}'])} $z }}" for v in people]
        columns += [f'case when exists {{ ${v} livesIn $z }} then "home" else ${v}.tier end' for v in people]
        columns += [f"coalesce(${v}.rank, 0) + 1" for v in people] + [f"substring(${v}.note, 2, 3)" for v in people]
        columns += [f"{{a: ${v}.rank, b: ${v}.tier, c: ${v}.big}}" for v in people]
        columns += [f"[${v}.rank, ${v}.score, 1]" for v in people]
        chosen = self.draw(st.lists(st.sampled_from(columns), unique=True, min_size=1, max_size=3))
        if self.draw(st.integers(0, 2)) == 0:
            return self.aggregated(people, edges, chosen)
        shown = [f"{column} as c{place}" for place, column in enumerate(chosen)]
        if self.draw(st.integers(0, 4)) == 0:
            shown.append(f"${self.pick(people)} as whole")
        distinct = "distinct " if self.draw(st.integers(0, 3)) == 0 else ""
        keys = [f"c{place}" for place, column in enumerate(chosen) if column[0] not in "[{"]
        order = self.ordered(keys if distinct else [*keys, f"count {{ $z knows ${self.pick(people)} }}"])
        return f"return {distinct}{{ {', '.join(shown)} }} {order} {self.cut()}"

    def aggregated(self, people: list[str], edges: list[str], keys: list[str]) -> str:
        functions = [f"count({d}${v})" for v in people + edges for d in ("", "distinct ")]
        functions += [f"{f}(${v}.rank)" for v in people for f in ("sum", "avg", "min", "max", "count", "count")]
        functions += [f"{f}(${v}.rank)" for v in people for f in ("collect", "median")]
        functions += [f"{f}(distinct ${v}.rank)" for v in people for f in ("sum", "avg", "collect")]
        functions += [f"sum(count {{ ${v} knows $z }})" for v in people]
        functions += [f"{f}(${v}.name by ${v}.score)" for v in people for f in ("first", "last")]
        records = [f"{{a: ${v}.rank, b: ${self.pick(people)}.tier, c: ${v}.born}}" for v in people]
        functions += [f"collect({d}{record})" for record in records for d in ("", "distinct ")]
        functions += [f"{f}({record} by ${self.pick(people)}.rank)" for record in records for f in ("first", "last")]
        functions += [f"collect(case when ${v}.rank > 0 then {{a: ${v}.rank}} end)" for v in people]
        functions += [f"count(distinct {record})" for record in records]
        functions += [f"percentile(${v}.rank, 0.3) + count(${v})" for v in people]
        functions += [f"coalesce(sum(${v}.rank), 0) / count(distinct ${v})" for v in people]
        chosen = self.draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3))
        kept = keys[: self.draw(st.integers(0, len(keys)))]
        shown = [f"{key} as k{place}" for place, key in enumerate(kept)]
        shown += [f"{function} as f{place}" for place, function in enumerate(chosen)]
        ordinary = [one for one in shown if "{a:" not in one and one[0] not in "[{" and "collect" not in one]
        names = [one.rpartition(" ")[2] for one in ordinary]
        counted = f"having {{ count(${self.pick(people)}) > 1 }}" if self.draw(st.integers(0, 3)) == 0 else ""
        hidden = [*names, f"max(${self.pick(people)}.name)", f"count(distinct ${self.pick(people)})"]
        return f"return {{ {', '.join(shown)} }} {counted} {self.ordered(hidden)} {self.cut()}"

    def ordered(self, names: list[str]) -> str:
        chosen = self.draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if names else []
        keys = ", ".join(f"{name} {self.pick(['asc', 'desc'])}" for name in chosen)
        return f"order {{ {keys} }}" if keys else ""

    def cut(self) -> str:
        limit = self.draw(_optional(st.integers(0, 5)))
        offset = self.draw(_optional(st.integers(0, 3)))
        return (f"limit {limit} " if limit is not None else "") + (f"offset {offset}" if offset is not None else "")


@st.composite
def queries(draw: st.DrawFn) -> str:
    return Writer(draw).query()


@st.composite
def counts_over_trees(draw: st.DrawFn) -> str:
    """Groups over variables that hang together as a tree: what is summed without making its rows."""
    writer = Writer(draw)
    people, cities, edges, clauses = [next(writer.names)], list[str](), list[str](), list[str]()
    clauses.append(f"${people[0]}: Person")
    for _ in range(draw(st.integers(1, 4))):
        a, new = writer.pick(people), next(writer.names)
        kind = writer.pick(["knows", "back", "both", "edge", "lives", "lives", "home"])
        if kind == "lives" or (kind == "home" and not cities):
            cities.append(new)
            clauses.append(f"${a} livesIn ${new}")
            continue
        people.append(new)
        if kind == "edge":
            edges.append(next(writer.names))
            clauses.append(f"${a} ${edges[-1]}:knows ${new}")
        elif kind == "home":
            clauses.append(f"${new} livesIn ${writer.pick(cities)}")
        else:
            ends = (new, a) if kind == "back" else (a, new)
            clauses.append(f"${ends[0]} {'<knows>' if kind == 'both' else 'knows'} ${ends[1]}")
    for variable in draw(st.lists(st.sampled_from(people + cities), unique=True, max_size=2)):
        clauses.append(f"${variable}.rank {writer.pick(['=', '<', '>='])} {draw(SMALL)}")
    keys = [f"${v}.{p}" for v in people for p in ("name", "rank", "tier", "id")]
    keys += [f"${v}.{p}" for v in cities for p in ("name", "rank")] + [f"${v}" for v in people]
    kept = draw(st.lists(st.sampled_from(keys), unique=True, max_size=3))
    functions = [f"count(${v})" for v in people + cities + edges]
    functions += [f"{f}(${v}.rank)" for v in people + cities for f in ("sum", "avg", "count")]
    shown = [f"{key} as k{place}" for place, key in enumerate(kept)]
    shown += [
        f"{one} as f{place}"
        for place, one in enumerate(draw(st.lists(st.sampled_from(functions), min_size=1, max_size=2)))
    ]
    names = [one.rpartition(" ")[2] for one in shown if not one.startswith("$") or "." in one]
    returned = f"return {{ {', '.join(shown)} }} {writer.ordered(names)} {writer.cut()}"
    return f"query q() {{ match {{ {' '.join(clauses)} }} {returned} }}"


@st.composite
def searched_paths(draw: st.DrawFn) -> str:
    """Shortest paths of every kind, with both ends bound or one, listed with their nodes and edges."""
    writer = Writer(draw)
    people, cities, edges = list[str](), list[str](), list[str]()
    clauses = writer.clauses(people, cities, edges, draw(st.integers(0, 1)))
    start, end = writer.pick(people), next(writer.names) if draw(st.booleans()) else writer.pick(people)
    start, end = draw(st.permutations([start, end]))
    kind = writer.pick(["paths", "path", "by weight"])
    bounds = writer.pick(["{1,3}", "{0,2}", "{1,5}", "{0,4}", *([] if kind == "by weight" else ["{2,4}"])])
    number, by = ("path", " by weight") if kind == "by weight" else (kind, "")
    clauses.append(
        f"shortest {number} $w from ${start} to ${end} along {writer.pick(['knows', '<knows>'])}{bounds}{by}"
    )
    shown = f"${start}.name as s, ${end}.name as e, $w.nodes as n, $w.edges as d, $w.length as l, $w.cost as c"
    return f"query q() {{ match {{ {' '.join(clauses)} }} return {{ {shown} }} {writer.cut()} }}"


def check(view: View, indexed: View, followed: View, text: str, data: dict[str, list[dict[str, Any]]]) -> bool:
    """All engines give the interpreter's rows; False when the text is not a query."""
    try:
        plan = compile_query(text, view.catalog)
    except QueryError:
        return False
    assert isinstance(plan, ReadPlan)
    parameters = bind_parameters(plan.parameters, {})
    rows = Oracle(view.catalog, data, parameters, NOW).run(plan)
    expected = [{name: json_value(value) for name, value in row.items()} for row in rows]
    for name, engine in engines.items():
        assert engine(view, plan, parameters).to_json() == expected, (name, text)
    assert engines["auto"](indexed, plan, parameters).to_json() == expected, ("with indexes", text)
    with every_table_is_large(), every_expansion_is_long():
        for name in ("auto", "csr"):
            assert engines[name](followed, plan, parameters).to_json() == expected, ("stored adjacency", name, text)
    return True


counter = itertools.count()


def _explore(folder: Path, records: list[dict[str, Any]], texts: list[str]) -> None:
    number = next(counter)
    repository = new_graph(str(folder / f"g{number}"), SCHEMA)
    half = len(records) // 2
    commit(repository, records[:half])
    replace_some(repository)
    view = commit(repository, records[half:], first_number=half)
    indexed = followed = view
    if records:
        build_indexes(view)
        with every_table_is_large():
            opened = store_adjacency(repository, part_edges=1 if number % 2 else len(records))
            indexed = replace_some(repository)
            followed = opened.head()[1]
    tables = {key: view.table(key) for key in view.catalog.tables}
    data = {key: [] if table is None else table.read().to_pylist() for key, table in tables.items()}
    for text in texts:
        check(view, indexed, followed, text, data)


# Each example is a graph on disk: shrinking one takes minutes, and the assertion names the query anyway.
PHASES = [Phase.explicit, Phase.generate]
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@settings(max_examples=16, deadline=None, phases=PHASES, suppress_health_check=QUIET, derandomize=True)
@given(records=graphs(), texts=st.lists(queries(), min_size=4, max_size=8))
def test_random_queries_on_random_graphs(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], texts: list[str]
) -> None:
    _explore(tmp_path_factory.mktemp("random"), records, texts)


@settings(max_examples=8, deadline=None, phases=PHASES, suppress_health_check=QUIET, derandomize=True)
@given(records=graphs(), texts=st.lists(counts_over_trees(), min_size=8, max_size=12))
def test_random_counts_over_trees(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], texts: list[str]
) -> None:
    _explore(tmp_path_factory.mktemp("trees"), records, texts)


@settings(max_examples=4, deadline=None, phases=PHASES, suppress_health_check=QUIET, derandomize=True)
@given(records=graphs(), texts=st.lists(searched_paths(), min_size=6, max_size=8))
def test_random_shortest_paths(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], texts: list[str]
) -> None:
    _explore(tmp_path_factory.mktemp("paths"), records, texts)


@pytest.mark.soak
@settings(max_examples=1_000, deadline=None, phases=PHASES, suppress_health_check=QUIET)
@given(records=graphs(), texts=st.lists(queries() | counts_over_trees() | searched_paths(), min_size=4, max_size=8))
def test_many_random_queries_on_random_graphs(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], texts: list[str]
) -> None:
    _explore(tmp_path_factory.mktemp("soak"), records, texts)


def test_every_function_is_among_the_values() -> None:
    called = {name for text, _ in FUNCTION_VALUES for name in re.findall(r"(\w+)\(", text)}
    assert called >= FUNCTIONS.keys()


@pytest.mark.parametrize("written", [queries(), counts_over_trees(), searched_paths()])
def test_most_written_texts_are_queries(written: st.SearchStrategy[str]) -> None:
    """The generator is of no use if the checker refuses most of what it writes."""
    from omnigraph.language.schema.compiler import compile_schema

    catalog = compile_schema(SCHEMA)
    good = bad = 0

    @settings(max_examples=120, deadline=None, suppress_health_check=QUIET, derandomize=True)
    @given(text=written)
    def count(text: str) -> None:
        nonlocal good, bad
        try:
            compile_query(text, catalog)
            good += 1
        except QueryError:
            bad += 1

    count()
    assert good > bad * 3
