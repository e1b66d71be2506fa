"""The rows of a pattern. Each part of it that is bound is a table of numbers; the expansion that follows the fewest edges is taken
next, until one table is left. Degrees are exact, so nothing is guessed but the size of walks of several hops."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import type_of
from omnigraph.expressions.predicates import Predicate, conjuncts
from omnigraph.expressions.usage import blocks, references, variables
from omnigraph.language.query.plan import ROWS, Binding, CountOf, Exists, Expansion, Expression, Given, Pattern, Unnest
from omnigraph.read.executor.bindings import (
    MEASURE,
    NO_COLUMNS,
    WEIGHT,
    Bindings,
    Matches,
    Measure,
    Needs,
    NotCovered,
    are_among,
    are_members,
    concat,
    cross,
    first_of_each,
    keys_of,
)
from omnigraph.read.executor.counting import FOLLOWED_COST, MatchCounts, Subtree, subtree
from omnigraph.read.executor.paths import PathFinder
from omnigraph.read.executor.sources import ColumnSource, EdgeSource, NodeSource, StageSource, ValueSource
from omnigraph.read.executor.values import Evaluator
from omnigraph.read.executor.walks import WAYS, HopWalk
from omnigraph.read.inputs.adjacency import GraphArrays, whole
from omnigraph.read.result import result_cells
from omnigraph.read.strategies.strategy import InputChoice, Path, hop_name
from omnigraph.snapshot import View
from omnigraph.tables.ascending import distinct
from omnigraph.values.literals import canonical_text
from omnigraph.values.types import PropertyType, Scalar

FEW_IDS = 64
MAX_SCANNED = 65_536
"""A condition on a column of a longer table is not evaluated before its rows are reached from elsewhere."""
MAX_COUNT = 2**63 - 1
PIECE_EDGES = 1_000_000
"""More edges than this are followed piece by piece."""
NEEDS_ALL = Needs()
PLANNED_EDGES = 2_048
"""Before more edges than this are followed at once, what follows is considered too."""
GROUPED_SHARE, MIN_GROUPED = 4, 1_024
"""Rows of which nothing but their number matters are grouped if there can be at most this many times as many groups, and some."""
BYTES_PER_NUMBER = 8
BYTES_PER_ROW = 64
"""For deciding how many rows fit: a few columns of numbers, and what is made of them on the way."""
EQUAL_SHARE, OTHER_SHARE = 0.01, 0.3
"""How much of a table a condition is expected to keep."""


@dataclass(frozen=True)
class PendingCondition:
    expression: Expression
    variables: frozenset[str]
    has_blocks: bool
    column: tuple[str, str] | None
    """The only column that it depends on."""


ConditionsOf = dict[int, tuple[Pattern, tuple[PendingCondition, ...]]]
"""The conditions of the patterns of a plan, which are the same for every read of it: by the `id` of the pattern, which is kept with
them so that no other one gets it."""


@dataclass(frozen=True)
class Move:
    """An expansion that may come next, from the part that has its near end."""

    hop: Expansion
    is_forward: bool
    cost: int

    @property
    def near(self) -> str:
        return self.hop.source if self.is_forward else self.hop.target

    @property
    def far(self) -> str:
        return self.hop.target if self.is_forward else self.hop.source


class PatternMatcher:
    """The matches of one read. `most`: more rows than this raise NotCovered. `needs`: those of its result."""

    def __init__(
        self,
        view: View,
        arguments: Arguments,
        start_rows: pa.Table | None = None,
        needs: Needs = NEEDS_ALL,
        conditions: ConditionsOf | None = None,
    ) -> None:
        self.view, self.arguments, self.start_rows, self.needs = view, arguments, start_rows, needs
        self.compact = GraphArrays(view, arguments.deadline)
        self.sources: dict[str, ColumnSource] = {}
        self.values = Evaluator(self.sources, arguments, self._block)
        self.choices: list[InputChoice] = []
        self._conditions = {} if conditions is None else conditions
        self.most = arguments.memory.array_bytes // BYTES_PER_ROW
        self.taken = 0

    def note(self, what: str, path: Path, rows: int, how: str = "", expected: int | None = None) -> None:
        self.choices.append(InputChoice(what, path, rows, how, expected))

    def reserve(self, rows: int, columns: int) -> None:
        """Account for rows before they are made."""
        self.arguments.deadline.check()
        size = rows * (columns + 2) * BYTES_PER_NUMBER
        if rows > self.most:
            raise NotCovered
        try:
            self.arguments.memory.take(size)
        except ResourceExhausted as error:
            raise NotCovered from error
        self.taken += size

    def release(self, down_to: int = 0) -> None:
        self.arguments.memory.give_back(self.taken - down_to)
        self.taken = down_to

    def merge_notes(self, first: int) -> None:
        """Add up what was noted of the same step for several pieces."""
        merged: dict[tuple[str, Path], InputChoice] = {}
        for choice in self.choices[first:]:
            known = merged.get((choice.what, choice.path))
            if known is not None:
                rows, expected = (
                    None if sum_ is None or count is None else sum_ + count
                    for sum_, count in ((known.rows, choice.rows), (known.expected, choice.expected))
                )
                choice = replace(choice, rows=rows, expected=expected)
            merged[choice.what, choice.path] = choice
        self.choices[first:] = merged.values()

    def conditions(self, pattern: Pattern) -> tuple[PendingCondition, ...]:
        """What must hold in the rows of a pattern, one by one."""
        if id(pattern) not in self._conditions:
            self._conditions[id(pattern)] = pattern, tuple(map(_condition, conjuncts(pattern.filters)))
        return self._conditions[id(pattern)][1]

    def match(self, pattern: Pattern, parts: Sequence[Bindings] = ()) -> Bindings:
        """The rows of a pattern. `parts` bind its outer variables."""
        for binding in pattern.bindings:
            self.sources[binding.variable] = NodeSource(self.compact, binding.types)
        if pattern.start_rows is not None:
            parts = [self._stage_rows(pattern, pattern.start_rows)]
        needs, self.needs = self.needs, NEEDS_ALL  # Blocks need all of theirs.
        rows = _Joining(self, pattern, parts, needs).run()
        for unnest in pattern.unnests:
            rows = self._unnest(rows, unnest)
        for optional in pattern.optionals:
            rows = self._weighted(rows, optional) if needs.is_count else self._optional(rows, optional)
        bound = _bound_before(pattern)
        late = [condition for condition in self.conditions(pattern) if not condition.variables <= bound]
        return self.filter(rows, late)

    def _stage_rows(self, pattern: Pattern, stage: Given) -> Bindings:
        """The rows of the stage before, with the numbers of its entities. An expansion has no match for a row without its end."""
        rows, columns = self.start_rows, dict[str, np.ndarray]()
        assert rows is not None, "a stage was run"
        self.reserve(rows.num_rows, rows.num_columns)
        shown = [projection for projection in stage.read.projections if not projection.name.startswith("$")]
        cells = [whole(rows.column(f"c{place}")) for place in range(len(shown))]
        typed = [result_cells(values, type_of(column.expression)) for values, column in zip(cells, shown, strict=True)]
        self.sources[ROWS] = StageSource({column.name: values for column, values in zip(shown, typed, strict=True)})
        for place, name in enumerate(stage.entities):
            source = self.sources[name]
            if not isinstance(source, NodeSource) or not source.is_single:
                raise NotCovered
            ids = whole(rows.column(f"v{place}")).dictionary_encode()
            numbers = np.append(self.compact.nodes(source.types[0]).numbers(ids.dictionary), np.int32(-1))
            columns[name] = numbers[np.asarray(ids.indices.fill_null(len(ids.dictionary)))]
        part = Bindings(rows.num_rows, columns).adding(**{ROWS: np.arange(rows.num_rows)})
        followed = {end for hop in pattern.expansions for end in (hop.source, hop.target)}
        for name in followed.intersection(stage.optional):
            part = part.take(part.columns[name] >= 0)
        self.note("stage", "arrays", part.rows)
        return part

    def filter(self, rows: Bindings, conditions: Sequence[PendingCondition]) -> Bindings:
        for condition in sorted(conditions, key=lambda c: c.has_blocks):
            if rows.rows == 0:
                break
            kept = self.values.holds(condition.expression, rows, condition.column)
            if condition.has_blocks:
                self.note(
                    " ".join(sorted(f"${name}" for name in condition.variables)), "arrays", int(kept.sum()), "block"
                )
            if not kept.all():
                rows = rows.take(kept)
        return rows

    # ------------------------------------------------------------ blocks

    def _block(self, rows: Bindings, expression: Expression) -> pa.Array:
        """Whether a block has matches for each row, or how many."""
        if not isinstance(expression, Exists | CountOf):
            raise NotCovered
        pattern, saved = expression.block, dict(self.sources)
        if isinstance(expression, Exists) and (hop := self._edge_between(pattern)) is not None:
            return pa.array(self._are_connected(rows, hop))
        if isinstance(expression, Exists) and not pattern.unnests and not pattern.optionals:
            self.needs = Needs(variables=frozenset(pattern.outer), is_set=True)
        inner = self.match(pattern, self._outer(rows, pattern))
        self.sources.clear()
        self.sources.update(saved)
        names = list(pattern.outer)
        if not names:
            counts = np.full(rows.rows, inner.rows)
        else:
            wanted, keys = keys_of([[part.columns[name] for name in names] for part in (rows, inner)])
            if isinstance(expression, Exists):
                return pa.array(are_among(wanted, keys))
            keys = np.sort(keys)
            counts = np.searchsorted(keys, wanted, "right") - np.searchsorted(keys, wanted, "left")
        return pa.array(counts > 0 if isinstance(expression, Exists) else counts.astype(np.int64))

    def _edge_between(self, pattern: Pattern) -> Expansion | None:
        """The only expansion of a block that asks for nothing but an edge between two outer variables."""
        if len(pattern.expansions) != 1 or pattern.bindings or pattern.filters or pattern.unnests or pattern.optionals:
            return None
        (hop,) = pattern.expansions
        ends = [self.sources[name] for name in (hop.source, hop.target)]
        is_plain = hop.is_step and not hop.reads_edges
        return hop if is_plain and all(isinstance(end, NodeSource) and end.is_single for end in ends) else None

    def _are_connected(self, rows: Bindings, hop: Expansion) -> np.ndarray:
        """For which rows there is an edge between two variables that are bound."""
        near, far = rows.columns[hop.source], rows.columns[hop.target]
        present = np.flatnonzero((near >= 0) & (far >= 0))
        kept = np.zeros(rows.rows, bool)
        kept[present] = HopWalk(self.compact, hop, True, self.arguments).neighbours.connects(
            near[present], far[present]
        )
        return kept

    def _outer(self, rows: Bindings, pattern: Pattern) -> list[Bindings]:
        """What a block knows of its outer variables: the numbers of each, if the block's expansions connect them; else the
        combinations that occur."""
        names = list(pattern.outer)
        if len(names) == 1 or _are_connected(pattern, names):
            sets = [distinct(rows.columns[name]) for name in names]
            return [
                Bindings(len(s), {name: s}, is_set=True)
                for name, s in zip(names, (s[np.searchsorted(s, 0) :] for s in sets), strict=True)
            ]
        if not names:
            return []
        known = rows.only(names)
        present = np.logical_and.reduce([numbers >= 0 for numbers in known.columns.values()])
        known = known.take(present)
        _, first = first_of_each(keys_of([[known.columns[name] for name in names]])[0])
        return [known.take(first)]

    def _optional(self, rows: Bindings, pattern: Pattern) -> Bindings:
        """Every row with its matches in the block, or once with nothing."""
        inner = self.match(pattern, self._outer(rows, pattern))
        names = list(pattern.outer)
        if names:
            matches = Matches(*keys_of([[part.columns[name] for name in names] for part in (rows, inner)]))
            self.reserve(rows.rows + matches.total, len(rows.columns) + len(inner.columns))
            left, right = matches.pairs()
        else:
            self.reserve(rows.rows * (inner.rows + 1), len(rows.columns) + len(inner.columns))
            left, right = np.repeat(np.arange(rows.rows), inner.rows), np.tile(np.arange(inner.rows), rows.rows)
        alone = np.ones(rows.rows, bool)
        alone[left] = False
        missing = np.flatnonzero(alone)
        nothing = np.full(len(missing), -1)
        matched = inner.take(right)
        self.note(f"optional {' '.join(f'${name}' for name in names)}", "arrays", len(left), f"{len(missing)} without")
        return rows.take(np.concatenate([left, missing])).adding(
            **{
                name: np.concatenate([numbers, nothing])
                for name, numbers in matched.columns.items()
                if name not in rows.columns
            }
        )

    def _weighted(self, rows: Bindings, pattern: Pattern) -> Bindings:
        """Every row with how many rows an optional edge would make of it."""
        (hop,), (name,) = pattern.expansions, pattern.outer
        source, is_forward = self.sources[name], hop.source == name
        if not isinstance(source, NodeSource) or not source.is_single:
            raise NotCovered
        self.reserve(rows.rows, 1)
        walk = HopWalk(self.compact, hop, is_forward, self.arguments)
        counts = walk.neighbours.exact_counts(rows.columns[name])
        self.note(f"optional ${name}", "csr", int(counts.sum()), f"{int((counts == 0).sum())} without")
        far = hop.target if is_forward else hop.source
        return rows.adding(**{f"{WEIGHT}{far}": np.maximum(counts, 1)})

    def _unnest(self, rows: Bindings, unnest: Unnest) -> Bindings:
        lists = self.values.evaluate(unnest.items, rows)
        parents, items = np.asarray(pc.list_parent_indices(lists)), pc.list_flatten(lists)
        self.reserve(len(items), len(rows.columns) + 1)
        self.sources[unnest.variable] = ValueSource(items)
        self.note(f"unnest ${unnest.variable}", "arrays", len(items))
        return rows.take(parents).adding(**{unnest.variable: np.arange(len(items))})


def _condition(expression: Expression) -> PendingCondition:
    columns, has_blocks = {*references(expression)}, bool(blocks(expression))
    column = columns.pop() if len(columns) == 1 and not has_blocks else None
    return PendingCondition(expression, frozenset(variables(expression)), has_blocks, column)


def _bound_before(pattern: Pattern) -> set[str]:
    """What is bound before unnests and optional blocks."""
    bound = {binding.variable for binding in pattern.bindings} | set(pattern.outer)
    bound |= set() if pattern.start_rows is None else {ROWS}
    for hop in pattern.expansions:
        bound |= {hop.edge_variable} if hop.edge_variable is not None else set()
        bound |= {hop.path.variable} if hop.path is not None else set()
    return bound


def _are_connected(pattern: Pattern, names: Sequence[str]) -> bool:
    if not names:
        return False
    reached = {names[0]}
    for _ in pattern.expansions:
        for hop in pattern.expansions:
            if {hop.source, hop.target} & reached:
                reached |= {hop.source, hop.target}
    return reached.issuperset(names)


class _Joining:
    """The bindings, expansions and conditions of one pattern."""

    def __init__(self, matcher: PatternMatcher, pattern: Pattern, parts: Sequence[Bindings], needs: Needs) -> None:
        self.matcher, self.pattern, self.needs = matcher, pattern, needs
        self.compact, self.view, self.arguments = matcher.compact, matcher.view, matcher.arguments
        self.parts = list(parts)
        self.pending = list(pattern.expansions)
        bound = _bound_before(pattern)
        self.conditions = [c for c in matcher.conditions(pattern) if c.variables <= bound]
        bound_before = () if pattern.start_rows is None else pattern.start_rows.entities
        self.unbound = {b.variable: b for b in pattern.bindings if b.variable not in bound_before}
        self.reach: dict[tuple[object, ...], tuple[float, int]] = {}
        self.walks: dict[tuple[int, bool], HopWalk] = {}
        self.factors = (f"{WEIGHT}{number}" for number in itertools.count())

    def run(self) -> Bindings:
        fixed = [condition for condition in self.conditions if not condition.variables]
        self.conditions = [condition for condition in self.conditions if condition.variables]
        is_possible = self.matcher.filter(NO_COLUMNS, fixed).rows == 1
        self.parts = [self._filtered(part) for part in self.parts]
        for binding in list(self.unbound.values()):
            if self._is_selective(binding):
                self._seed(binding)
        rows = self._matches()
        return rows if is_possible else rows.take(_none())

    def _matches(self) -> Bindings:
        while self.pending or self.unbound:
            move = self._next()
            if move is None:
                self._seed(self._start())
            elif len(pieces := self._pieces(move)) > 1:
                return self._in_pieces(pieces)
            else:
                self._follow(move)
        if self.needs.is_count:
            if not self._needed():
                return self._counted([self._without(part, set()) for part in self.parts])
            self.parts = [self._pruned(part, set(), is_last=True) for part in self.parts]
        rows = NO_COLUMNS
        for part in sorted(self.parts, key=lambda part: part.rows):  # Nothing times much is nothing.
            self.matcher.reserve(rows.rows * part.rows, len(rows.columns) + len(part.columns))
            rows = self._filtered(cross(rows, part))
        return self._with_one_weight(rows) if self.needs.is_count else rows

    def _with_one_weight(self, rows: Bindings) -> Bindings:
        """The rows with what their result needs of them, and one weight for each measure."""
        rows = self._measured(rows, rows.columns)
        columns = {name: rows.columns[name] for name in rows.columns if name in self._needed()}
        for measure in ("", *(measure.name for measure in self.needs.measures)):
            weights = rows.weights(measure)
            name = f"{WEIGHT}{MEASURE}{measure}" if measure else WEIGHT
            columns[name] = np.ones(rows.rows, np.int64) if weights is None else weights
        return Bindings(rows.rows, columns)

    def _counted(self, parts: Sequence[Bindings]) -> Bindings:
        """One row that stands for every combination of the rows of all parts."""
        columns, totals = {}, [part.grouped((), WEIGHT, self.needs.measures).columns for part in parts]
        for measure in ("", *(measure.name for measure in self.needs.measures)):
            name = f"{WEIGHT}{MEASURE}{measure}" if measure else WEIGHT
            total = math.prod(int(part[name][0]) for part in totals)
            if abs(total) > MAX_COUNT and not measure:
                hint = "connect its variables by edges"
                raise ResourceExhausted("the pattern has more than 2^63 matches", hint=hint)
            if abs(total) > MAX_COUNT:
                raise NotCovered
            columns[name] = np.array([total])
        return Bindings(1, columns)

    # ------------------------------------------------------------ pieces

    def _pieces(self, move: Move) -> list[Bindings]:
        """The part that an expansion starts from, cut so that no piece follows many edges."""
        part = self._part(move.near)
        assert part is not None, "a move begins at what is bound"
        is_whole = move.cost <= PIECE_EDGES or not move.hop.is_step or move.far in part.columns
        is_whole = is_whole or self._subtree(move, part) is not None
        if is_whole or any(hop.path is not None for hop in self.pending):
            return []
        rows, numbers = self._local(part, move.near, move.hop, move.is_forward)
        if rows is not None:
            return []
        piece_of = np.cumsum(self._walk(move.hop, move.is_forward).neighbours.counts(numbers)) // PIECE_EDGES
        cuts = np.flatnonzero(np.diff(piece_of)) + 1
        return [part.take(places) for places in np.split(np.arange(part.rows), cuts)]

    def _in_pieces(self, pieces: list[Bindings]) -> Bindings:
        """The matches of each piece, one after the other, so that only what they leave is held."""
        cut = self._part(next(iter(pieces[0].columns)))
        others, noted, results = [part for part in self.parts if part is not cut], len(self.matcher.choices), []
        for piece in pieces:
            taken, rest = self.matcher.taken, copy.copy(self)
            rest.parts, rest.pending, rest.unbound = [*others, piece], [*self.pending], {**self.unbound}
            results.append(rest._matches())
            self.matcher.release(down_to=taken)
            self.matcher.reserve(results[-1].rows, len(results[-1].columns))
        self.conditions = rest.conditions
        self.matcher.merge_notes(noted)
        return concat(results)

    # ------------------------------------------------------------ conditions

    def _filtered(self, part: Bindings) -> Bindings:
        """The part's rows for which the conditions hold that can be evaluated by now."""
        ready = [condition for condition in self.conditions if condition.variables <= part.columns.keys()]
        if not ready:
            return part
        self.conditions = [c for c in self.conditions if not c.variables <= part.columns.keys()]
        return self.matcher.filter(part, ready)

    # ------------------------------------------------------------ seeds

    def _own(self, variable: str) -> list[PendingCondition]:
        return [c for c in self.conditions if c.variables == {variable} and not c.has_blocks]

    def _named(self, binding: Binding) -> tuple[str, PropertyType, tuple[object, ...]] | None:
        """The id or key that conditions fix, with its values."""
        if len(binding.types) > 1:
            return None
        own = tuple(condition.expression for condition in self._own(binding.variable))
        fixed = Predicate(own, self.arguments).fixed if own else {}
        entity = self.view.catalog.nodes[binding.types[0]]
        if "id" in fixed:
            return "id", PropertyType(Scalar.STRING), fixed["id"]
        if len(entity.key) == 1 and entity.key[0] in fixed:
            return entity.key[0], entity.properties[entity.key[0]].type, fixed[entity.key[0]]
        return None

    def _is_selective(self, binding: Binding) -> bool:
        if self._named(binding) is not None:
            return True
        own = tuple(condition.expression for condition in self._own(binding.variable))
        rows = sum(self.view.rows(f"node:{name}") for name in binding.types)
        return rows <= MAX_SCANNED and bool(Predicate(own, self.arguments).fixed)

    def _start(self) -> Binding:
        """Where to begin if nothing is bound that leads further: at the variable that is expected to have the fewest nodes."""

        def expected(binding: Binding) -> float:
            own = tuple(condition.expression for condition in self._own(binding.variable))
            rows = sum(self.view.rows(f"node:{name}") for name in binding.types)
            fixed = len(Predicate(own, self.arguments).fixed)
            return rows * EQUAL_SHARE**fixed * OTHER_SHARE ** (len(own) - fixed)

        hops = [{hop.source, hop.target} for hop in self.pending]
        touched = set().union(*hops)
        choices = [b for b in self.unbound.values() if b.variable in touched or not self.pending]
        inner = [binding for binding in choices if binding.variable not in self.needs.countable]
        return min(inner or choices, key=lambda b: (expected(b), -sum(b.variable in ends for ends in hops)))

    def _seed(self, binding: Binding) -> None:
        variable, named = binding.variable, self._named(binding)
        source = self.matcher.sources[variable]
        assert isinstance(source, NodeSource)
        del self.unbound[variable]
        if named is not None:
            column, type_, values = named
            numbers = self._numbers(binding.types[0], [canonical_text(value, type_) for value in values])
            own = tuple(condition.expression for condition in self._own(variable))
            rest = Predicate(own, self.arguments).apart_from(column).conditions
            self.conditions = [c for c in self.conditions if c.expression not in own or c.expression in rest]
            self.matcher.note(f"${variable}", "lookup", len(numbers), f"{len(values)} ids", len(values))
        else:
            numbers = source.living
            self.matcher.reserve(len(numbers), 1)
        part = self._filtered(Bindings(len(numbers), {variable: numbers}, is_set=True))
        if named is None:
            self.matcher.note(f"${variable}", "scan", part.rows, "", len(numbers))
        self.parts.append(part)

    def _numbers(self, type_name: str, ids: list[str]) -> np.ndarray:
        """The numbers of ids, ascending."""
        nodes = self.compact.nodes(type_name)
        if len(ids) <= FEW_IDS:
            return np.unique(nodes.find(ids))
        numbers = np.unique(nodes.numbers(pa.array(ids, pa.utf8())))
        return numbers[np.searchsorted(numbers, 0) :]

    # ------------------------------------------------------------ expansions

    def _part(self, variable: str) -> Bindings | None:
        return next((part for part in self.parts if variable in part.columns), None)

    def _walk(self, hop: Expansion, is_forward: bool) -> HopWalk:
        key = (id(hop), is_forward)
        if key not in self.walks:
            per_edge = hop.edge_variable in self.needs.countable
            self.walks[key] = HopWalk(self.compact, hop, is_forward, self.arguments, per_edge)
        return self.walks[key]

    def _next(self) -> Move | None:
        """The expansion that follows the fewest edges."""
        moves: list[Move] = []
        for hop in self.pending:
            ends = [self._part(hop.source), self._part(hop.target)]
            possible = [self._move(hop, place == 0, part) for place, part in enumerate(ends) if part is not None]
            if possible and ends[0] is ends[1]:
                return min(possible, key=lambda move: move.cost)
            moves += possible
        cheapest = min(moves, key=lambda move: move.cost, default=None)
        if cheapest is None or cheapest.cost <= PLANNED_EDGES:
            return cheapest
        return min(moves, key=self._expected_work)

    def _expected_work(self, move: Move) -> float:
        """How many edges are expected to be followed in all if this expansion comes next and then, of each step, the one that multiplies
        the rows least."""
        part = self._part(move.near)
        assert part is not None, "a move begins at what is bound"
        bound, rows = {*part.columns, move.far}, move.cost * self._kept(move.far)
        pending = [hop for hop in self.pending if hop is not move.hop]
        work = float(move.cost)
        while pending:
            growth, hop = min(
                ((self._growth(hop, bound), hop) for hop in pending if {hop.source, hop.target} & bound),
                key=lambda pair: pair[0],
                default=(0.0, None),
            )
            if hop is None:
                break
            pending.remove(hop)
            rows *= growth
            work += rows
            bound |= {hop.source, hop.target}
        return work

    def _growth(self, hop: Expansion, bound: set[str]) -> float:
        """By how much an expansion is expected to multiply the rows."""
        is_forward = hop.source in bound
        reached, far = self._reach_of(hop, is_forward)
        if {hop.source, hop.target} <= bound:
            return reached / far
        return reached * self._kept(hop.target if is_forward else hop.source)

    def _reach_of(self, hop: Expansion, is_forward: bool) -> tuple[float, int]:
        """(how many nodes one node is expected to reach, how many there are)."""
        key = (hop.edges, hop.direction, hop.max_hops, is_forward)
        if key not in self.reach:
            edge = self.view.catalog.edges[hop.edge]
            ends = (edge.target, edge.source) if (hop.direction == "in") == is_forward else (edge.source, edge.target)
            near, far = (max(self.view.rows(f"node:{name}"), 1) for name in ends)
            degree = sum(self.view.rows(f"edge:{name}") for name in hop.edges) * len(WAYS[hop.direction]) / near
            self.reach[key] = min(degree ** min(hop.max_hops, 6), far), far
        return self.reach[key]

    def _kept(self, variable: str) -> float:
        """Which share of a variable's nodes its own conditions, and what is bound elsewhere, are expected to keep."""
        binding = next((b for b in self.pattern.bindings if b.variable == variable), None)
        part = self._part(variable)
        if binding is not None and part is not None:
            return min(part.rows / max(sum(self.view.rows(f"node:{name}") for name in binding.types), 1), 1.0)
        return OTHER_SHARE ** len(self._own(variable))

    def _move(self, hop: Expansion, is_forward: bool, part: Bindings) -> Move:
        near, walk = hop.source if is_forward else hop.target, self._walk(hop, is_forward)
        key = (near, hop.edges, walk.direction, hop.min_hops, hop.max_hops, hop.path is None)
        if key not in part.costs:
            if hop.is_step and self._is_whole(part, near):
                cost = walk.neighbours.edge_count
            else:
                cost = walk.cost(self._local(part, near, hop, is_forward)[1])
            part.costs[key] = cost if hop.path is None else cost * 4
        return Move(hop, is_forward, part.costs[key])

    def _is_whole(self, part: Bindings, variable: str) -> bool:
        """Whether a part has every node of a variable's type once, in order."""
        source = self.matcher.sources[variable]
        return part.is_set and isinstance(source, NodeSource) and source.is_single and part.rows == source.size

    def _end_type(self, hop: Expansion, is_source: bool) -> str:
        edge = self.view.catalog.edges[hop.edge]
        ends = (edge.target, edge.source) if hop.direction == "in" else (edge.source, edge.target)
        return ends[0] if is_source else ends[1]

    def _local(
        self, part: Bindings, variable: str, hop: Expansion, is_source: bool
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(rows whose node has the edge's type, None for all; their numbers within that type)."""
        numbers, source = part.columns[variable], self.matcher.sources[variable]
        if not isinstance(source, NodeSource):
            raise NotCovered
        if source.is_single:
            return None, numbers
        type_name = self._end_type(hop, is_source)
        offset = source.offset(type_name)
        if offset is None:
            return np.zeros(0, np.int64), numbers[:0]
        rows = np.flatnonzero(source.kinds(numbers) == source.types.index(type_name))
        return rows, (numbers[rows] - offset).astype(np.int32)

    def _follow(self, move: Move) -> None:
        hop, part = move.hop, self._part(move.near)
        assert part is not None, "a move begins at what is bound"
        self.pending.remove(hop)
        if hop.path is not None:
            self._follow_path(hop)
            return
        tree = self._subtree(move, part)
        part = self._pruned(part, {hop.source, hop.target})
        other = self._part(move.far)  # The part itself if the expansion closes a cycle.
        rows, numbers = self._local(part, move.near, hop, move.is_forward)
        if tree is not None:
            self._count(move, tree, part, rows, numbers)
            return
        if other is part and hop.is_step and hop.edge_variable is None:
            self.parts[self.parts.index(part)] = self._filtered(self._connected(move, part, rows, numbers))
            return
        self.matcher.reserve(0, 0)
        new: dict[str, np.ndarray] = {}
        if hop.edge_variable is not None and hop.edge_variable not in self.needs.countable:
            owners, reached, new[hop.edge_variable] = self._edges(hop, move.is_forward, numbers)
        else:
            owners, reached = self._walk(hop, move.is_forward).pairs(numbers, self.matcher.most)
        if rows is not None:
            owners = rows[owners]
        self.matcher.note(hop_name(hop), "csr", len(owners), "", move.cost)
        reached = self._global(move.far, hop, not move.is_forward, reached)
        if other is part:
            kept = part.columns[move.far][owners] == reached
            owners, new = owners[kept], {name: column[kept] for name, column in new.items()}
            joined = part.take(owners).adding(**new)
        else:
            self.matcher.reserve(len(owners), len(part.columns) + len(new) + 1)
            kept = self._without(part, {move.far})
            joined = kept.take(owners).adding(**{move.far: reached}, **new)
            joined = joined.once() if self.needs.is_set else joined
        self.unbound.pop(move.far, None)
        self.parts = [p for p in self.parts if p is not part and p is not other]
        if other is not None and other is not part:
            joined = self._joined(joined, other, move.far)
        self.parts.append(self._filtered(joined))
        if self.needs.variables is not None:
            self._pruned(self.parts[-1], set())

    def _needed(self) -> set[str]:
        """The variables that results, conditions and expansions will need."""
        assert self.needs.variables is not None, "only asked if something may be left out"
        ends = {end for hop in self.pending for end in (hop.source, hop.target)}
        return ends.union(self.needs.variables, *(condition.variables for condition in self.conditions))

    def _without(self, part: Bindings, ends: set[str]) -> Bindings:
        """The part without the variables that nothing needs any more but their measures, which become factors."""
        if self.needs.variables is None:
            return part
        kept = self._needed() | ends
        gone = [name for name in part.columns if name not in kept and not name.startswith(WEIGHT)]
        part = self._measured(part, gone)
        return part.only([name for name in part.columns if name not in gone]) if gone else part

    def _measured(self, part: Bindings, names: Collection[str]) -> Bindings:
        """The part with the measures of these variables as factors."""
        measures = [measure for measure in self.needs.measures if measure.operand.variable in names]
        factors = [f"{WEIGHT}{measure.operand.variable}{MEASURE}{measure.name}" for measure in measures]
        values = [self._values(measure, part) for measure in measures]
        return part.adding(**dict(zip(factors, values, strict=True))) if measures else part

    def _pruned(self, part: Bindings, ends: set[str], *, is_last: bool = False) -> Bindings:
        """The same with equal rows together, where that is worth it."""
        pruned = self._without(part, ends)
        names = [name for name in pruned.columns if not name.startswith(WEIGHT)]
        if self.needs.is_set and pruned is not part:
            pruned = pruned.once()
        elif self.needs.is_count and not pruned.is_set and (pruned is not part or is_last):
            sizes = [self.matcher.sources[name] for name in names]
            most = math.prod(source.size if isinstance(source, NodeSource) else part.rows for source in sizes)
            if most <= GROUPED_SHARE * part.rows + MIN_GROUPED:
                pruned = pruned.grouped(names, next(self.factors), self.needs.measures)
        self.parts[self.parts.index(part)] = pruned
        return pruned

    # ------------------------------------------------------------ what is only counted

    def _subtree(self, move: Move, part: Bindings) -> Subtree | None:
        """What hangs on the far end of an expansion, if it is counted node by node rather than followed."""
        if not self.needs.countable or self._part(move.far) is not None:
            return None
        tree = subtree(move.far, [hop for hop in self.pending if hop is not move.hop], self.needs.countable)
        if tree is None or not move.hop.is_step or any(self._part(name) is not None for name in tree.variables):
            return None
        measured = {measure.operand.variable for measure in self.needs.measures}
        if not tree.hops and move.far not in measured and not self._own(move.far):
            return tree
        types = {binding.variable: binding.types for binding in self.unbound.values()}
        nodes = [sum(self.view.rows(f"node:{kind}") for kind in types[name]) for name in tree.variables]
        edges = [sum(self.view.rows(f"edge:{kind}") for kind in hop.edges) for hop in (move.hop, *tree.followed)]
        return tree if move.cost * FOLLOWED_COST >= sum(nodes) + sum(edges) else None

    def _count(self, move: Move, tree: Subtree, part: Bindings, rows: np.ndarray | None, numbers: np.ndarray) -> None:
        """The part's rows with how many matches of a tree each has."""
        near = part if rows is None else part.take(rows)
        chosen = None if rows is None and self._is_whole(part, move.near) else numbers
        known: dict[str, Bindings | None] = {}

        def nodes(variable: str) -> Bindings | None:
            if variable not in known:
                source, own = self.matcher.sources[variable], self._own(variable)
                assert isinstance(source, NodeSource), "a variable that is only counted is a node"
                self.matcher.reserve(source.size, 1)
                whole = Bindings(len(source.living), {variable: source.living}, is_set=True)
                known[variable] = self.matcher.filter(whole, own) if own else None
            return known[variable]

        def size(variable: str) -> int:
            source = self.matcher.sources[variable]
            assert isinstance(source, NodeSource), "as above"
            return source.size

        counts = MatchCounts(size, nodes, self._values, self._walk)
        walk, factor = self._walk(move.hop, move.is_forward), f"{WEIGHT}{move.far}"
        matches = counts.seen_from(walk, chosen, tree)
        new = {factor: matches} | {
            f"{factor}{MEASURE}{measure.name}": counts.seen_from(walk, chosen, tree, measure)
            for measure in self.needs.measures
            if measure.operand.variable in tree.variables
        }
        self.pending = [hop for hop in self.pending if hop not in tree.followed]
        for name in tree.variables:
            self.unbound.pop(name, None)
        self.conditions = [c for c in self.conditions if c.variables.isdisjoint(tree.variables)]
        counted = near.adding(**new)
        if self._needed():  # Otherwise what has no match adds nothing.
            counted = counted.keeping(matches > 0)
        self.parts[self.parts.index(part)] = counted
        self.matcher.note(hop_name(move.hop), "csr", counted.rows, "counted", move.cost)
        for hop in tree.followed:
            self.matcher.note(
                hop_name(hop), "csr", sum(self.view.rows(f"edge:{name}") for name in hop.edges), "counted"
            )
        self._pruned(counted, set())

    def _values(self, measure: Measure, rows: Bindings | None) -> np.ndarray:
        """What a measure adds up, for nodes of its variable; for all of them if no rows are given."""
        variable, operand = measure.operand.variable, measure.operand
        if rows is None:
            source = self.matcher.sources[variable]
            assert isinstance(source, NodeSource), "measures are of nodes"
            rows = Bindings(source.size, {variable: np.arange(source.size, dtype=np.int32)})
        cells = self.matcher.values.column(rows, variable, operand.column)
        if not measure.is_sum:
            return np.asarray(pc.is_valid(cells)).astype(np.int64)
        return np.asarray(pc.fill_null(cells.cast(pa.int64()), 0))

    def _connected(self, move: Move, part: Bindings, rows: np.ndarray | None, numbers: np.ndarray) -> Bindings:
        """The part's rows with an edge to their far end, which is bound too."""
        part = part if rows is None else part.take(rows)
        far, ends = self._local(part, move.far, move.hop, not move.is_forward)
        part, numbers = (part, numbers) if far is None else (part.take(far), numbers[far])
        part = part.take(self._walk(move.hop, move.is_forward).neighbours.connects(numbers, ends))
        self.matcher.note(hop_name(move.hop), "csr", part.rows, "", move.cost)
        return part

    def _joined(self, left: Bindings, right: Bindings, on: str) -> Bindings:
        if right.is_set:
            left = left.take(are_members(left.columns[on], right.columns[on]))
            weights = {name: numbers for name, numbers in right.columns.items() if name != on}
            places = right.columns[on].searchsorted(left.columns[on]) if weights else None
            return left.adding(**{name: numbers[places] for name, numbers in weights.items()})
        matches = Matches(left.columns[on], right.columns[on])
        self.matcher.reserve(matches.total, len(left.columns) + len(right.columns))
        first, second = matches.pairs()
        more = right.take(second).columns
        return left.take(first).adding(**{name: column for name, column in more.items() if name != on})

    def _global(self, variable: str, hop: Expansion, is_source: bool, numbers: np.ndarray) -> np.ndarray:
        """Numbers within the edge's type as numbers of the variable."""
        source = self.matcher.sources[variable]
        if not isinstance(source, NodeSource):
            raise NotCovered
        if source.is_single:
            return numbers
        offset = source.offset(self._end_type(hop, is_source))
        if offset is None:
            raise NotCovered
        return numbers + offset

    def _edges(
        self, hop: Expansion, is_forward: bool, numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(position in `numbers`, neighbour, edge) of every edge; a self-loop that is followed in both directions is one edge."""
        source = self._edge_source(hop)
        assert hop.edge_variable is not None
        self.matcher.sources[hop.edge_variable] = source
        if source.edges is None:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        walk = self._walk(hop, is_forward)
        ways = WAYS[walk.direction]
        if sum(int(source.edges.counts(way, numbers).sum()) for way in ways) > self.matcher.most:
            raise NotCovered
        parts = [source.edges.expand(way, numbers) for way in ways]
        if len(parts) == 1:
            return parts[0]
        owners, targets, edges = parts[1]
        others = numbers[owners] != targets
        parts[1] = (owners[others], targets[others], edges[others])
        owners, targets, edges = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return owners, targets, edges

    def _edge_source(self, hop: Expansion) -> EdgeSource:
        has_table = self.view.table(f"edge:{hop.edge}") is not None
        edges = self.compact.numbered_edges(hop.edge) if has_table else None
        if has_table and edges is None:
            raise NotCovered
        return EdgeSource(self.compact, hop.edge, edges)

    # ------------------------------------------------------------ paths

    def _follow_path(self, hop: Expansion) -> None:
        assert hop.path is not None
        nodes = NodeSource(self.compact, (self._end_type(hop, True),))
        ends = [self.matcher.sources[name] for name in (hop.source, hop.target)]
        if not all(isinstance(end, NodeSource) and end.is_single for end in ends):
            raise NotCovered
        forward, backward, reserve = self._walk(hop, True), self._walk(hop, False), self.matcher.reserve
        finder = PathFinder(forward, backward, nodes, self._edge_source(hop), reserve, self.matcher.most)
        source, target = self._part(hop.source), self._part(hop.target)
        free = None
        if source is not None and target is not None:
            rows = source if source is target else cross(source, target)
            if source is not target:
                reserve(source.rows * target.rows, len(rows.columns))
            near, far = rows.columns[hop.source], rows.columns[hop.target]
            numbers, first = first_of_each(near.astype(np.int64) * forward.neighbours.width + far)
            paths = finder.between(near[first], far[first])
        else:
            known = source or target
            assert known is not None, "a move begins at what is bound"
            rows, bound, free = known, *((hop.source, hop.target) if source else (hop.target, hop.source))
            numbers, first = first_of_each(rows.columns[bound])
            paths = finder.onwards(rows.columns[bound][first], is_forward=source is not None)
        matches = Matches(numbers, paths.ends.owners)
        reserve(matches.total, len(rows.columns) + 2)
        left, right = matches.pairs()
        rows = rows.take(left).adding(**{hop.path.variable: right})
        if free is not None:
            self.unbound.pop(free, None)
            rows = rows.adding(**{free: paths.ends.reached[right]})
        self.matcher.sources[hop.path.variable] = paths
        self.matcher.note(hop_name(hop), "csr", rows.rows)
        self.parts = [part for part in self.parts if part is not source and part is not target]
        self.parts.append(self._filtered(rows))


def _none() -> np.ndarray:
    return np.zeros(0, np.int64)
