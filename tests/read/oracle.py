"""A naive interpreter of read plans over plain Python rows: nested loops and no engine; it
shares the plan and its types with what it checks, and nothing of `read/`.

Data is {table key: [row]}; a row is a dict of stored columns. Every value the interpreter compares is a plain Python
value; None is null.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

import snowballstemmer

from omnigraph.language.catalog import Catalog
from omnigraph.language.query import plan as p
from omnigraph.values.types import PropertyType, Scalar

Row = Mapping[str, Any]
Data = Mapping[str, Sequence[Row]]


class Bound:
    """An entity in a row of matches."""

    def __init__(self, key: str, row: Row) -> None:
        self.key, self.row = key, row

    @property
    def identity(self) -> tuple[str, str]:
        return self.key, self.row["id"]


Match = dict[str, Bound]


class Oracle:
    def __init__(self, catalog: Catalog, data: Data, parameters: Mapping[str, Any], now: dt.datetime) -> None:
        self.catalog, self.data = catalog, data
        self.parameters = {name: plain(value) for name, value in parameters.items()}
        self.now = plain(now)

    # ------------------------------------------------------------ rows of a read

    def run(self, plan: p.ReadPlan) -> list[dict[str, Any]]:
        texts = {
            per_hop.name: mock_vector(str(self.value(per_hop.text, {})), per_hop.dimension) for per_hop in plan.texts
        }
        self.parameters = {**self.parameters, **texts}
        if plan.union is not None:
            return self.united(plan, plan.union)
        matches = self.matches(plan.pattern, {})
        self.fused: dict[tuple[str, str], float] = {}
        limit = self.cut(plan.limit)
        offset = self.cut(plan.offset) or 0
        ranking = plan.order[0].expression if plan.order else None
        if isinstance(ranking, p.Rrf):
            matches = self.fuse(ranking, matches)
        elif isinstance(ranking, p.Nearest | p.Bm25):
            matches = [one for one in matches if self.value(ranking, one) is not None]
        if plan.grouped:
            rows = self.grouped(plan, matches)
        else:
            rows = [self.row(plan, one) for one in matches]
        if plan.distinct:
            unique: dict[str, Any] = {}
            for one in rows:
                unique.setdefault(repr(one["out"]), one)
            rows = list(unique.values())
        rows.sort(key=cmp_to_key(lambda a, b: compare_keys(a["keys"], b["keys"])))
        rows = rows[offset:]
        return [one["out"] for one in (rows if limit is None else rows[:limit])]

    def united(self, plan: p.ReadPlan, union: p.Union) -> list[dict[str, Any]]:
        rows = [row for part in union.parts for row in self.run(part)]
        rows = [
            {
                one.name: in_type(value, one.expression.type)
                for one, value in zip(plan.projections, row.values(), strict=True)
            }
            for row in rows
        ]
        if not union.keeps_all:
            rows = list({repr(row): row for row in rows}.values())
        keys = [(key.expression.column, key.descending) for key in plan.order] + [
            (one.name, False) for one in plan.projections
        ]

        def sortable(value: Any) -> Any:
            return as_key(value)

        rows.sort(
            key=cmp_to_key(
                lambda a, b: compare_keys(
                    [(sortable(a[name]), down) for name, down in keys],
                    [(sortable(b[name]), down) for name, down in keys],
                )
            )
        )
        rows = rows[self.cut(plan.offset) or 0 :]
        limit = self.cut(plan.limit)
        return rows if limit is None else rows[:limit]

    def cut(self, cut: p.Constant | p.Parameter | None) -> int | None:
        return None if cut is None else int(self.value(cut, {}))

    def row(self, plan: p.ReadPlan, match: Match) -> dict[str, Any]:
        out = {one.name: self.shown(one.expression, match) for one in plan.projections}
        keys = [(self.sortable(key.expression, match), down(key)) for key in plan.order]
        if plan.distinct:
            keys += [(self.sortable(one.expression, match), False) for one in plan.projections]
        for name in plan.tie_break:
            key, id_ = match[name].identity
            keys += [(as_key(id_), False), (key, False)]
        return {"out": out, "keys": keys}

    def sortable(self, expression: p.Expression, match: Match) -> Any:
        value = self.value(expression, match)
        return as_key(value)

    def shown(self, expression: p.Expression, match: Match) -> Any:
        if isinstance(expression, p.EntityRef):
            bound = match[expression.variable]
            types = self.types_of[expression.variable]
            if bound.key is None:
                return None
            names = dict.fromkeys(n for t in types for n in self.catalog.nodes[t].properties)
            blobs = {
                n
                for t in types
                for n, one in self.catalog.nodes[t].properties.items()
                if one.type.scalar is Scalar.BLOB
            }
            return {"id": bound.row["id"], **{n: bound.row.get(n) for n in names if n not in blobs}}
        return self.value(expression, match)

    def grouped(self, plan: p.ReadPlan, matches: list[Match]) -> list[dict[str, Any]]:
        groups: dict[str, list[Match]] = {}
        plain_ones = [one.expression for one in plan.projections if not holds_aggregate(one.expression)]
        for match in matches:
            key = repr([self.group_key(one, match) for one in plain_ones])
            groups.setdefault(key, []).append(match)
        if not plain_ones and not groups:
            groups[""] = []
        rows = []
        for members in groups.values():
            self.members, first = members, members[0] if members else {}
            if not all(self.value(one, first) is True for one in plan.having):
                continue
            values = [self.value(one.expression, first) for one in plan.projections]
            shown = [
                self.shown(one.expression, first) if isinstance(one.expression, p.EntityRef) else value
                for one, value in zip(plan.projections, values, strict=True)
            ]
            keys = []
            for order in plan.order:
                keys.append((self.value(order.expression, first), down(order)))
            for one, value in zip(plan.projections, values, strict=True):
                if not holds_aggregate(one.expression):
                    keys.append((as_key(value), False))
            names = [one.name for one in plan.projections]
            rows.append({"out": dict(zip(names, shown, strict=True)), "keys": keys})
        return rows

    def group_key(self, expression: p.Expression, match: Match) -> Any:
        return (
            match[expression.variable].identity
            if isinstance(expression, p.EntityRef)
            else self.value(expression, match)
        )

    def aggregate(self, one: p.Aggregate, members: list[Match]) -> Any:
        if isinstance(one.operand, p.EntityRef):
            ids = [m[one.operand.variable].identity for m in members if m[one.operand.variable].key is not None]
            return len(set(ids)) if one.distinct else len(ids)
        values = [v for v in (self.value(one.operand, m) for m in members) if v is not None]
        if one.function == "count":
            return len({repr(v) for v in values}) if one.distinct else len(values)
        if one.function == "collect":
            kept = {repr(v): v for v in values}.values() if one.distinct else values
            return sorted(kept, key=rank)
        if one.function in ("first", "last"):
            pairs = [(self.value(one.argument, m), self.value(one.operand, m)) for m in members]
            pairs = sorted((pair for pair in pairs if None not in pair), key=lambda pair: (pair[0], rank(pair[1])))
            return None if not pairs else pairs[0][1] if one.function == "first" else pairs[-1][1]
        if not values:
            return None
        if one.function in ("median", "percentile"):
            ranked = sorted(map(float, values))
            place = (len(ranked) - 1) * (0.5 if one.argument is None else self.value(one.argument, {}))
            low, high = ranked[math.floor(place)], ranked[math.ceil(place)]
            return low + (high - low) * (place - math.floor(place))
        if one.distinct:
            values = list(dict.fromkeys(values))
        if one.function == "sum":
            return sum(values) if one.type.scalar.is_integer else float(sum(values))
        if one.function == "avg":
            return float(sum(values)) / len(values)
        return min(values) if one.function == "min" else max(values)

    # ------------------------------------------------------------ patterns

    def matches(self, pattern: p.Pattern, outer: Match) -> list[Match]:
        starts = [dict(outer)] if pattern.start_rows is None else self.carried(pattern)
        if not outer:
            self.types_of = {binding.variable: binding.types for binding in pattern.bindings}
        found: list[Match] = []
        bindings = [
            b for b in pattern.bindings if pattern.start_rows is None or b.variable not in pattern.start_rows.entities
        ]
        choices = [
            [Bound(f"node:{t}", row) for t in binding.types for row in self.data.get(f"node:{t}", ())]
            for binding in bindings
        ]
        for start, *combination in itertools.product(starts, *choices):
            match = dict(start)
            match.update(zip((b.variable for b in bindings), combination, strict=True))
            found += self.expanded(pattern, list(pattern.expansions), match)
        for unnest in pattern.unnests:
            listed = [(one, self.value(unnest.items, one) or []) for one in found]
            found = [
                {**one, unnest.variable: Bound("item", {"id": i, "item": i})} for one, items in listed for i in items
            ]
        for optional in pattern.optionals:
            names = [binding.variable for binding in optional.bindings]
            names += [hop.edge_variable for hop in optional.expansions if hop.edge_variable is not None]
            names += [hop.path.variable for hop in optional.expansions if hop.path is not None]
            self.types_of |= {binding.variable: binding.types for binding in optional.bindings}
            nothing = {name: Bound(None, {"id": None}) for name in names}
            found = [inner for one in found for inner in self.matches(optional, one) or [{**one, **nothing}]]
        return [one for one in found if all(self.value(f, one) is True for f in pattern.filters)]

    def carried(self, pattern: p.Pattern) -> list[Match]:
        """The rows of the stage before."""
        starts: list[Match] = []
        types = {binding.variable: binding.types[0] for binding in pattern.bindings}
        for number, row in enumerate(self.run(pattern.start_rows.read)):
            start: Match = {p.ROWS: Bound("rows", {**row, "id": number})}
            for name in pattern.start_rows.entities:
                key = f"node:{types[name]}"
                nodes = [one for one in self.data.get(key, ()) if one["id"] == row[f"${name}"]]
                start[name] = Bound(key, nodes[0]) if nodes else Bound(None, {"id": None})
            starts.append(start)
        return starts

    def expanded(self, pattern: p.Pattern, rest: list[p.Expansion], match: Match) -> list[Match]:
        if not rest:
            return [match]
        first, others = rest[0], rest[1:]
        source, target = match[first.source], match[first.target]
        if not first.is_mixed and (source.key, target.key) != self.ends(first, first.edge):
            return []
        if first.path is not None:
            paths = self.best_paths(first, source.row["id"], target.row["id"])
            bound = [{**match, first.path.variable: Bound("path", path)} for path in paths]
            return [row for one in bound for row in self.expanded(pattern, others, one)]
        if first.edge_variable is None:
            inside = target.identity in self.reach(first, source.identity)
            return self.expanded(pattern, others, match) if inside else []
        found: list[Match] = []
        for (name, _), row in self.edges(first).items():
            pair = (source.row["id"], target.row["id"])
            forward, backward = (row["src"], row["dst"]) == pair, (row["dst"], row["src"]) == pair
            hit = {"out": forward, "in": backward, "both": forward or backward}[first.direction]
            if hit and (source.key, target.key) == self.ends(first, name):
                extended = {**match, first.edge_variable: Bound(f"edge:{name}", row)}
                found += self.expanded(pattern, others, extended)
        return found

    def ends(self, hop: p.Expansion, edge: str) -> tuple[str, str]:
        """The tables of the nodes that an edge joins, as the expansion sees them."""
        type_ = self.catalog.edges[edge]
        source, target = f"node:{type_.source}", f"node:{type_.target}"
        return (target, source) if hop.direction == "in" else (source, target)

    def steps(self, hop: p.Expansion) -> Iterator[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]]:
        """(node, node, edge) of every edge that may be followed."""
        for (name, id_), row in self.edges(hop).items():
            left, right = self.ends(hop, name)
            if hop.direction in ("out", "both"):
                yield (left, row["src"]), (right, row["dst"]), (name, id_)
            if hop.direction in ("in", "both"):
                yield (left, row["dst"]), (right, row["src"]), (name, id_)

    def edges(self, hop: p.Expansion) -> dict[tuple[str, str], Row]:
        """The edges that an expansion may follow; ids are unique within a type."""
        return {(name, row["id"]): row for name in hop.edges for row in self.data.get(f"edge:{name}", ())}

    def best_paths(self, hop: p.Expansion, start: str, end: str) -> list[Row]:
        """Every path without repeated nodes, and the best of them, or all of the fewest hops."""
        steps: list[tuple[str, str, tuple[str, str], float]] = []
        for key, row in self.edges(hop).items():
            weight = 1.0 if hop.path.weight is None else row.get(hop.path.weight)
            if weight is None or weight < 0:
                continue
            if hop.direction in ("out", "both"):
                steps.append((row["src"], row["dst"], key, float(weight)))
            if hop.direction in ("in", "both"):
                steps.append((row["dst"], row["src"], key, float(weight)))
        if start == end and hop.min_hops == 0:
            nothing = ([], [start]) if hop.path.is_every else end
            return [{"id": nothing, "nodes": [start], "edges": [], "length": 0, "cost": 0.0}]
        found = []
        again = hop.walk is not None and any(hop.walk.before in mentioned(one) for one in hop.walk.conditions)
        stack: list[tuple[list[str], list[tuple[str, str]], float]] = [([start], [], 0.0)]
        while stack:
            nodes, edges, cost = stack.pop()
            if nodes[-1] == end and edges and nodes[0] != end:
                found.append((cost, len(edges), nodes, [id_ for _, id_ in edges]))
                if not again:
                    continue
            if len(edges) < hop.max_hops:
                stack += [
                    ([*nodes, far], [*edges, key], cost + weight if edges else weight)
                    for near, far, key, weight in steps
                    if near == nodes[-1]
                    and near != far
                    and (far not in nodes if not again else key not in edges)
                    and (hop.walk is None or self.goes_on(hop, edges[-1:], (self.ends(hop, key[0])[0], near), key))
                ]
        best = sorted(found)[: None if hop.path.is_every else 1]
        return [
            {
                "id": (edges, nodes) if hop.path.is_every else end,
                "nodes": nodes,
                "edges": edges,
                "length": length,
                "cost": cost,
            }
            for cost, length, nodes, edges in best
            if length == best[0][1] and length >= hop.min_hops
        ]

    def goes_on(
        self, hop: p.Expansion, before: list[tuple[str, str]], near: tuple[str, str], edge: tuple[str, str]
    ) -> bool:
        """Whether the conditions along a walk allow an edge, from a node, after another edge or as the first."""
        rows = self.edges(hop)
        match = {hop.walk.edge: Bound("edge", rows[edge])}
        if before:
            key, start = near
            match[hop.walk.before or ""] = Bound("edge", rows[before[0]])
            match[hop.walk.node or " "] = Bound(
                key, next((row for row in self.data[key] if row["id"] == start), {"id": start})
            )
        asked = [one for one in hop.walk.conditions if before or mentioned(one) <= {hop.walk.edge}]
        return all(self.value(one, match) is True for one in asked)

    def walked(self, hop: p.Expansion, start: tuple[str, str]) -> set[tuple[str, str]]:
        """Breadth first over edges, each with the end it is left by."""
        steps = list(self.steps(hop))
        states = {(far, key) for near, far, key in steps if near == start and self.goes_on(hop, [], near, key)}
        seen, distance, hops = set(states), {far: 1 for far, _ in states}, 1
        while states and hops < hop.max_hops:
            hops += 1
            states = {
                (far, key)
                for at, before in states
                for near, far, key in steps
                if near == at and self.goes_on(hop, [before], near, key)
            } - seen
            seen |= states
            for far, _ in states:
                distance.setdefault(far, hops)
        reached = {far for far, d in distance.items() if d >= hop.min_hops and (far != start or d == 1)}
        return reached | ({start} if hop.min_hops == 0 else set())

    def reach(self, expansion: p.Expansion, start: tuple[str, str]) -> set[tuple[str, str]]:
        if expansion.walk is not None:
            return self.walked(expansion, start)
        steps: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for near, far, _ in self.steps(expansion):
            steps.setdefault(near, set()).add(far)
        distance, frontier, hops = {start: 0}, {start}, 0
        while frontier and hops < expansion.max_hops:
            hops += 1
            frontier = {far for near in frontier for far in steps.get(near, ())} - set(distance)
            distance.update(dict.fromkeys(frontier, hops))
        reached = {node for node, d in distance.items() if d >= expansion.min_hops}
        if expansion.min_hops == 1 and start in steps.get(start, ()):
            reached.add(start)
        return reached

    # ------------------------------------------------------------ expressions

    def value(self, e: p.Expression, match: Match) -> Any:
        match e:
            case p.Constant(value, type):
                return constant(value, type)
            case p.Parameter(name, type):
                return rounded(self.parameters.get(name), type)
            case p.Now():
                return self.now
            case p.PropertyRef(variable, column, _):
                return match[variable].row.get(column)
            case p.EntityRef(variable):
                return match[variable].row["id"]
            case p.Unary():
                return self.unary(e, match)
            case p.Binary():
                return self.binary(e, match)
            case p.ListOf(items, type):
                return [in_type(self.value(item, match), PropertyType(type.scalar)) for item in items]
            case p.RecordOf(items, type):
                return {
                    name: in_type(self.value(item, match), field)
                    for (name, field), item in zip(type.fields, items, strict=True)
                }
            case p.FieldOf(record, name, _):
                whole = self.value(record, match)
                return None if whole is None else whole[name]
            case p.FunctionCall(function, arguments, type):
                return call(function, [self.value(one, match) for one in arguments], type)
            case p.Choice(branches, otherwise, type):
                chosen = next((v for c, v in branches if self.value(c, match) is True), otherwise)
                return None if chosen is None else in_type(self.value(chosen, match), type)
            case p.Aggregate():
                return self.aggregate(e, self.members)
            case p.ItemRef(variable, _):
                return match[variable]
            case p.Quantified(kind, item, items, condition, _):
                listed = self.value(items, match)
                if listed is None:
                    return None
                truths = [self.value(condition, {**match, item.variable: one}) for one in listed]
                decided = kind == "any"
                return decided if decided in truths else None if None in truths else not decided
            case p.Exists(block):
                return bool(self.matches(block, match))
            case p.CountOf(block):
                return len(self.matches(block, match))
            case p.TextMatch():
                most = 0 if e.max_edits is None else self.value(e.max_edits, match)
                return text_matches(e, self.value(e.property, match), self.value(e.query, match), most)
            case p.Nearest(property_, query, _):
                return cosine(self.value(property_, match), self.value(query, match))
            case p.Bm25():
                return self.bm25(e, match)
            case p.Rrf(first):
                return self.fused[match[first.property.variable].identity]
        raise AssertionError(e)

    def unary(self, e: p.Unary, match: Match) -> Any:
        value = self.value(e.operand, match)
        if e.op == "is_null":
            return value is None
        if e.op == "is_not_null":
            return value is not None
        if value is None:
            return None
        return (not value) if e.op == "not" else -value

    def binary(self, e: p.Binary, match: Match) -> Any:
        left = self.value(e.left, match)
        right = self.value(e.right, match)
        if e.op == "and":
            return False if left is False or right is False else None if None in (left, right) else True
        if e.op == "or":
            return True if left is True or right is True else None if None in (left, right) else False
        if e.op == "in":
            if left is None or right is None:
                return None if right or right is None else (None if left is None and right else False)
            right, left = alike(right, left)
            if left in [item for item in right if item is not None]:
                return True
            return None if None in right else False
        if left is None or right is None:
            return None
        return operate(e.op, left, right)

    # ------------------------------------------------------------ ranking

    def bm25(self, e: p.Bm25, match: Match) -> float | None:
        query = self.value(e.query, match) or ""
        types = self.types_of[e.property.variable]
        texts = [row.get(e.property.column) for t in types for row in self.data.get(f"node:{t}", ())]
        corpus = [stems(text, e.language) for text in texts if text is not None]
        lengths = [len(split(text)) for text in texts if text is not None]
        text = self.value(e.property, match)
        if text is None:
            return None
        mine, total, hit = stems(text, e.language), 0.0, False
        for word in set(stems(query, e.language)):
            frequency = mine.count(word)
            holding = sum(word in other for other in corpus)
            if frequency:
                hit = True
                idf = math.log(1 + (len(corpus) - holding + 0.5) / (holding + 0.5))
                mean = sum(lengths) / len(lengths)
                total += idf * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * len(split(text)) / mean))
        return f32(total) if hit else None

    def fuse(self, e: p.Rrf, matches: list[Match]) -> list[Match]:
        variable = e.first.property.variable
        entities = {m[variable].identity: m for m in matches}
        k = float(self.value(e.k, {}))
        for arm in (e.first, e.second):
            scored = [(self.value(arm, m), identity) for identity, m in entities.items()]
            sign = 1 if isinstance(arm, p.Nearest) else -1
            best = sorted((sign * s, i[1], i[0]) for s, i in scored if s is not None)
            for rank, (_, id_, key) in enumerate(best):
                self.fused[(key, id_)] = self.fused.get((key, id_), 0.0) + 1.0 / (k + rank + 1)
        return [m for m in matches if m[variable].identity in self.fused]


# ---------------------------------------------------------------- plain functions


def rank(value: Any) -> Any:
    """What records and values are sorted by: records value by value, nulls first."""
    if isinstance(value, list | tuple):
        return [rank(item) for item in value]
    return [(v is not None, 0 if v is None else v) for v in value.values()] if isinstance(value, dict) else value


def as_key(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(as_key, value))
    return tuple(rank(value)) if isinstance(value, dict) else value


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def mock_vector(text: str, dimension: int) -> list[float]:
    """What the provider `mock` makes of a text: the direction of the sum of its words."""
    total = [0.0] * dimension
    for word in text.lower().split():
        drawn = hashlib.shake_256(word.encode()).digest(2 * dimension)
        total = [number + drawn[2 * i] + 256 * drawn[2 * i + 1] - 32_767.5 for i, number in enumerate(total)]
    length = math.sqrt(sum(number * number for number in total))
    return [f32(number / length) for number in total]


def f32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def rounded(value: Any, type: PropertyType) -> Any:
    if isinstance(value, list):
        return [rounded(item, PropertyType(type.scalar)) for item in value]
    return f32(value) if type.scalar is Scalar.F32 and isinstance(value, float) else value


def constant(value: Any, type: PropertyType) -> Any:
    if isinstance(value, tuple):
        return [constant(item, PropertyType(type.scalar)) for item in value]
    if isinstance(value, str) and type.scalar is Scalar.DATE:
        return dt.date.fromisoformat(value)
    if isinstance(value, str) and type.scalar is Scalar.DATETIME:
        return plain(dt.datetime.fromisoformat(value))
    return rounded(value, type)


def alike(items: list[Any], one: Any) -> tuple[list[Any], Any]:
    """A list and a value in one kind of number: fractions, if there is a fraction anywhere."""
    if not any(isinstance(item, float) for item in (*items, one)):
        return items, one
    return [None if item is None else float(item) for item in items], float(one)


def operate(op: str, left: Any, right: Any) -> Any:
    if op == "contains" and isinstance(left, list):
        left, right = alike(left, right)
    elif isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    match op:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return None if right == 0 else float(left) / float(right)
        case "%":
            if right == 0:
                return None
            if isinstance(left, float) or isinstance(right, float):
                return math.fmod(left, right)
            return abs(left) % abs(right) * (1 if left >= 0 else -1)
        case "contains":
            return right in left
        case "starts_with":
            return left.startswith(right)
        case "ends_with":
            return left[len(left) - len(right) :] == right if len(right) <= len(left) else False
    raise AssertionError(op)


def mentioned(e: p.Expression) -> set[str]:
    return {inner.variable for inner in p.walk(e) if isinstance(inner, p.PropertyRef | p.EntityRef)}


def holds_aggregate(expression: p.Expression) -> bool:
    return isinstance(expression, p.Aggregate) or any(map(holds_aggregate, p.children(expression)))


def in_type(value: Any, type: PropertyType) -> Any:
    return float(value) if type.scalar.is_float and not type.is_list and value is not None else value


EPOCH = dt.datetime(1970, 1, 1)
LENGTHS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


def call(function: str, values: list[Any], type: PropertyType) -> Any:
    """Functions of values, by their definition and as slowly as they come."""
    if function == "coalesce":
        return in_type(next((v for v in values if v is not None), None), type)
    if None in values:
        return None
    first = values[0]
    match function:
        case "lower":
            return "".join("i" if c == "İ" else c.lower() for c in first)
        case "upper":
            simple = {"ß": "ẞ"}
            return "".join(simple.get(c, c.upper() if len(c.upper()) == 1 else c) for c in first)
        case "trim":
            return re.sub(r"\A[ \t\r\n]+|[ \t\r\n]+\Z", "", first)
        case "replace":
            return first if values[1] == "" else values[2].join(first.split(values[1]))
        case "substring":
            last = values[1] + values[2] if len(values) > 2 else len(first) + 1
            return "".join(c for place, c in enumerate(first, 1) if values[1] <= place < last)
        case "length" | "size":
            return len(first)
        case "split":
            return None if values[1] == "" else re.split(re.escape(values[1]), first)
        case "join":
            kept = [item for item in first if item is not None]
            return "".join((values[1] if i else "") + item for i, item in enumerate(kept))
        case "text":
            if isinstance(first, bool):
                return "true" if first else "false"
            if isinstance(first, dt.datetime):
                return first.isoformat(timespec="microseconds" if first.microsecond % 1000 else "milliseconds") + "Z"
            return str(first)
        case "integer":
            if not isinstance(first, str):
                return math.trunc(first)
            spelled = re.fullmatch(r"-?[0-9]+", first)
            return int(first) if spelled and -(2**63) <= int(first) < 2**63 else None
        case "float":
            if isinstance(first, str) and not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", first, re.ASCII):
                return None
            return None if math.isinf(float(first)) else float(first)
        case "abs":
            return -first if first < 0 else first
        case "round" | "floor" | "ceil":
            return near(function, first, values[1] if len(values) > 1 else 0)
        case "sqrt":
            return None if first < 0 else float(first) ** 0.5
        case "ln":
            return None if first <= 0 else math.log(first)
        case "power":
            return powered(float(first), float(values[1]))
        case "year" | "month" | "day":
            return getattr(first, function)
        case "week":
            return first.isocalendar()[1]
        case "weekday":
            return first.weekday() + 1
        case "hour":
            return first.hour if isinstance(first, dt.datetime) else 0
        case "date_trunc":
            return truncated(first, values[1])
        case "date_add":
            return later(*values)
        case "duration":
            start, end = (dt.datetime(*one.timetuple()[:6], getattr(one, "microsecond", 0)) for one in values[:2])
            microseconds = [(one - EPOCH) // dt.timedelta(microseconds=1) for one in (start, end)]
            return float(microseconds[1] - microseconds[0]) / float(LENGTHS[values[2]] * 10**6)
    raise AssertionError(function)


def near(function: str, number: Any, digits: int) -> Any:
    if isinstance(number, int):
        return number
    if function != "round":
        return float(math.floor(number)) if function == "floor" else float(math.ceil(number))
    scaled = number * 10.0**digits
    whole = math.trunc(scaled)
    return float(whole + (0 if abs(scaled - whole) < 0.5 else 1 if scaled > 0 else -1)) / 10.0**digits


def powered(base: float, exponent: float) -> float | None:
    try:
        found = base**exponent
    except (ZeroDivisionError, OverflowError):
        return None
    return found if isinstance(found, float) and math.isfinite(found) else None


def truncated(unit: str, time: Any) -> Any:
    units = ["year", "month", "day", "hour", "minute", "second"]
    if unit == "week":
        return truncated("day", time) - dt.timedelta(days=time.isocalendar()[2] - 1)
    kept = [getattr(time, one) for one in units[: units.index(unit) + 1] if hasattr(time, one)]
    return type(time)(*[*kept, 1, 1][: max(3, len(kept))])


def later(time: Any, count: int, unit: str) -> Any:
    if unit not in ("month", "year"):
        return time + dt.timedelta(seconds=LENGTHS[unit]) * count
    month = time.month - 1 + count * (12 if unit == "year" else 1)
    year, month = time.year + month // 12, month % 12 + 1
    day = time.day
    while True:
        try:
            return time.replace(year=year, month=month, day=day)
        except ValueError:
            day -= 1
            if day < 28:
                raise


def down(key: p.OrderKey) -> bool:
    if isinstance(key.expression, p.Nearest):
        return False
    return True if isinstance(key.expression, p.Bm25 | p.Rrf) else key.descending


def compare_keys(first: list[tuple[Any, bool]], second: list[tuple[Any, bool]]) -> int:
    for (a, descending), (b, _) in zip(first, second, strict=True):
        if a == b:
            continue
        less = a is None or (b is not None and a < b)
        return (1 if less else -1) if descending else (-1 if less else 1)
    return 0


def split(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


STOP = {
    *[
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
    ]
}
STOP |= {*["then", "there", "these", "they", "this", "to", "was", "will", "with"]}
STEMMER = snowballstemmer.stemmer("english")


def stems(text: str, language: str, stop: bool = True) -> list[str]:
    if language == "simple":
        return split(text)
    kept = [word for word in split(text) if not (stop and word in STOP)]
    return [STEMMER.stemWord(word) if word.isalpha() else word for word in kept]


def text_matches(e: p.TextMatch, text: str | None, query: str | None, most: int) -> bool:
    if text is None or query is None:
        return False
    if e.kind == "phrase":
        inner, whole = stems(query, e.language, stop=False), stems(text, e.language, stop=False)
        return any(inner and whole[i : i + len(inner)] == inner for i in range(len(whole)))
    if e.kind == "fuzzy":
        asked = [word for word in split(query) if e.language == "simple" or word not in STOP]
        return any(edits(word, other) <= most for word in asked for other in split(text))
    wanted, present = stems(query, e.language), stems(text, e.language)
    found = [word in present for word in wanted]
    return bool(found) and (all(found) if e.kind == "all_words" else any(found))


def edits(a: str, b: str) -> int:
    """Optimal string alignment distance, by the book."""
    table = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def cosine(vector: list[float] | None, query: list[float]) -> float | None:
    if vector is None:
        return None
    lengths = math.sqrt(sum(x * x for x in vector)) * math.sqrt(sum(x * x for x in query))
    if lengths == 0:
        return None
    return f32(1.0 - sum(x * y for x, y in zip(vector, query, strict=True)) / lengths)
