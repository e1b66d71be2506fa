"""Rows of a pattern as the rows of a result: groups, order, cut, columns.

Order is refined key by key: a key is read only for rows that tie so far and may be within the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import as_mask
from omnigraph.expressions.usage import blocks, variables
from omnigraph.language.query.plan import Aggregate, EntityRef, Expression, PropertyRef, ReadPlan, is_aggregated, walk
from omnigraph.read.entities import objects
from omnigraph.read.executor.bindings import (
    MAX_EXACT,
    WEIGHT,
    Bindings,
    Measure,
    NotCovered,
    dense_codes,
    first_of_each,
    totals,
)
from omnigraph.read.executor.matching import PatternMatcher
from omnigraph.read.executor.sources import NodeSource, RelationSource
from omnigraph.read.executor.values import group_codes, sort_codes
from omnigraph.read.result import result_cells
from omnigraph.values.arrow import arrow_type

Codes = tuple["np.ndarray", "np.ndarray | None"]
SortKey = Callable[["np.ndarray"], Codes]
"""Sort codes of the rows at the given positions, and which of them are not null."""


@dataclass(frozen=True)
class OrderBy:
    key: SortKey
    descending: bool = False


def ordered(rows: int, keys: Sequence[OrderBy], cut: int | None) -> np.ndarray:
    """Positions of the rows in order, at least the first `cut` of them."""
    places, groups = np.arange(rows), np.zeros(rows, np.int64)
    for key in keys:
        if cut is not None and len(places) > cut:
            # Rows behind the cut matter only if they tie with one before it.
            inside = groups <= groups[cut - 1] if cut else np.zeros(len(groups), bool)
            places, groups = places[inside], groups[inside]
        if len(places) < 2:
            break
        sizes = np.bincount(groups)
        tied = np.flatnonzero(sizes[groups] > 1)
        if len(tied) == 0:
            break
        codes = _oriented(*key.key(places[tied]), key.descending)
        if cut is not None and len(sizes) == 1:
            kept = _smallest(codes, cut)
            if kept is not None:
                places, groups, tied = places[kept], groups[kept], np.arange(len(kept))
                codes = [code[kept] for code in codes]
        order = np.lexsort((*reversed(codes), groups[tied]))
        places[tied] = places[tied][order]
        differs = np.zeros(len(places), bool)
        differs[1:] = groups[1:] != groups[:-1]
        for code in codes:
            changed = np.zeros(len(places), bool)
            changed[tied[1:]] = code[order][1:] != code[order][:-1]
            differs |= changed
        groups = np.cumsum(differs)
    return places


def _oriented(codes: np.ndarray, valid: np.ndarray | None, descending: bool) -> list[np.ndarray]:
    """Keys that sort ascending: nulls first, or last if descending."""
    if valid is None:
        return [~codes if descending else codes]
    return [~valid, ~codes] if descending else [valid, codes]


def _smallest(codes: list[np.ndarray], cut: int) -> np.ndarray | None:
    """Positions of the rows that may be among the first `cut`; None if that is not known cheaply."""
    if len(codes) > 1 or len(codes[0]) < 4 * cut + 64 or cut == 0:
        return None
    bound = np.partition(codes[0], cut - 1)[cut - 1]
    return np.flatnonzero(codes[0] <= bound)


def counts_matches(aggregate: Aggregate) -> bool:
    """Whether an aggregate is how many rows a group has."""
    operand, is_count = aggregate.operand, aggregate.function == "count" and not aggregate.distinct
    return is_count and isinstance(operand, EntityRef) and not operand.is_optional


def measures_of(aggregate: Aggregate) -> list[Measure]:
    """What an additive aggregate is made from, besides the number of matches: their sum, and how many of them have a value."""
    operand = aggregate.operand
    if not isinstance(operand, PropertyRef):
        return []
    present = [Measure(operand, is_sum=False)] if operand.type.nullable else []
    return present if aggregate.function == "count" else [Measure(operand, is_sum=True), *present]


def page(plan: ReadPlan, arguments: Arguments) -> tuple[int, int | None]:
    """Where the rows of a result begin and end among all rows in order."""
    offset = 0 if plan.offset is None else max(arguments.number(plan.offset), 0)
    return offset, None if plan.limit is None else offset + max(arguments.number(plan.limit), 0)


def combined(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Several columns of codes from 0 on as one."""
    whole: np.ndarray | None = None
    for codes in columns:
        if whole is None:
            whole = codes
            continue
        size = int(codes.max(initial=0)) + 1
        if (int(whole.max(initial=0)) + 1) * size >= 2**62:
            whole, codes = dense_codes([whole])[0], dense_codes([codes])[0]
            size = int(codes.max(initial=0)) + 1
        whole = whole.astype(np.int64) * size + codes
    assert whole is not None, "there is a column"
    return whole


class ResultTable:
    """The result of a read, given its rows."""

    def __init__(self, matcher: PatternMatcher, plan: ReadPlan) -> None:
        self.matcher, self.plan = matcher, plan
        self.values, self.sources = matcher.values, matcher.sources
        self.offset, self._cut = page(plan, matcher.arguments)

    def table(self, rows: Bindings) -> pa.Table:
        if self.plan.grouped or self.plan.distinct:
            return self._grouped(rows)
        keys = [self._row_key(rows, key.expression, key.descending) for key in self.plan.order]
        keys += [self._row_key(rows, EntityRef(name), False) for name in self.plan.tie_break]
        kept = rows.take(self._page(ordered(rows.rows, list(_split(keys)), self._cut)))
        self.values.read_together([p.expression for p in self.plan.projections], kept)
        return self._named(self._shown(p.expression, kept) for p in self.plan.projections)

    def _page(self, places: np.ndarray) -> np.ndarray:
        return places[self.offset : self._cut]

    def _named(self, columns: Iterable[pa.Array]) -> pa.Table:
        """The result of these columns, each of which counts as memory of the read as soon as it is there."""
        with self.matcher.arguments.memory.counted(columns) as counted:
            return pa.table(list(counted), names=[column.name for column in self.plan.columns])

    def _shown(self, expression: Expression, rows: Bindings) -> pa.Array:
        """A column of the result."""
        if isinstance(expression, EntityRef):
            source, numbers = self.sources[expression.variable], rows.columns[expression.variable]
            if not isinstance(source, NodeSource | RelationSource):
                raise NotCovered
            ids = self.values.column(rows, expression.variable, "id")
            return objects(self.matcher.view, source.types, ids, source.type_names(numbers))
        return result_cells(self.values.evaluate(expression, rows), expression.type)

    # ------------------------------------------------------------ order of rows

    def _row_key(self, rows: Bindings, expression: Expression, descending: bool) -> list[OrderBy]:
        """Sort keys of an expression; an entity of several types sorts by id, then by type."""
        if isinstance(expression, EntityRef) or (isinstance(expression, PropertyRef) and expression.column == "id"):
            return self._id_keys(rows, expression.variable, descending)

        def codes(places: np.ndarray) -> Codes:
            part = rows if len(places) == rows.rows and _is_all(places) else rows.take(places)
            return sort_codes(self.values.evaluate(expression, part))

        return [OrderBy(codes, descending)]

    def _id_keys(self, rows: Bindings, variable: str, descending: bool) -> list[OrderBy]:
        source = self.sources[variable]

        def by_id(places: np.ndarray) -> Codes:
            numbers = rows.columns[variable][places]
            valid = None if len(numbers) == 0 or int(numbers.min()) >= 0 else numbers >= 0
            keys = source.order_keys(numbers)
            return sort_codes(source.column("id", numbers)) if keys is None else (keys, valid)

        def by_type(places: np.ndarray) -> Codes:
            assert isinstance(source, NodeSource)
            return source.kinds(rows.columns[variable][places]), None

        keys = [OrderBy(by_id, descending)]
        several = isinstance(source, NodeSource) and not source.is_single
        return [*keys, OrderBy(by_type)] if several else keys

    # ------------------------------------------------------------ groups

    def _grouped(self, rows: Bindings) -> pa.Table:
        plan = self.plan
        groups = Groups(self, rows, [p.expression for p in plan.projections if not is_aggregated(p.expression)])
        for condition in plan.having:
            groups = groups.keeping(as_mask(groups.evaluate(condition)))
        shown = [projection.expression for projection in plan.projections]
        keys = [groups.sort_key(key.expression, key.descending) for key in plan.order]
        keys += [groups.sort_key(expression, False) for expression in shown if not is_aggregated(expression)]
        places = self._page(ordered(groups.count, list(_split(keys)), self._cut))
        kept = groups.at(places)
        return self._named(
            self._shown(expression, kept.first)
            if isinstance(expression, EntityRef)
            else result_cells(kept.evaluate(expression), expression.type)
            for expression in shown
        )


def _split(keys: Sequence[Sequence[OrderBy]]) -> Iterator[OrderBy]:
    for several in keys:
        yield from several


def _is_unique(numbers: np.ndarray) -> bool:
    """Whether no number occurs twice."""
    return len(numbers) < 2 or bool((numbers[1:] > numbers[:-1]).all()) or bool(np.bincount(numbers + 1).max() <= 1)


def _is_all(places: np.ndarray) -> bool:
    return len(places) == 0 or bool(
        places[0] == 0 and places[-1] == len(places) - 1 and (places[1:] > places[:-1]).all()
    )


class Groups:
    """Groups of rows: `numbers` has the group of each row, `first` a row of each group that is left, `total` how many there were
    before any was left out."""

    def __init__(self, output: ResultTable, rows: Bindings, keys: Sequence[Expression]) -> None:
        self.output, self.rows = output, rows
        self.values = output.values
        keys = self._telling(keys)
        if any(isinstance(key, EntityRef) and _is_unique(rows.columns[key.variable]) for key in keys):
            self.numbers = first = np.arange(rows.rows)
        elif keys:
            self.numbers, first = first_of_each(combined(map(self._key_codes, keys)))
        else:
            self.numbers, first = np.zeros(rows.rows, np.int64), np.zeros(1, np.int64)
        self.count = self.total = len(first)
        self.first = rows.take(first) if keys or rows.rows else Bindings(1, {})
        self.chosen: np.ndarray | None = None
        self._aggregates: dict[Aggregate, pa.Array] = {}

    def _telling(self, keys: Sequence[Expression]) -> list[Expression]:
        """The keys that tell the groups apart: what else is said of a node adds nothing to the node itself."""
        named = set[str]()
        for key in keys:
            if isinstance(key, EntityRef | PropertyRef):
                source = self.output.sources[key.variable]
                if isinstance(source, NodeSource) and (isinstance(key, EntityRef) or source.is_key(key.column)):
                    named.add(key.variable)
        if not named:
            return list(keys)
        rest = [key for key in keys if not variables(key) <= named or blocks(key)]
        return [*(EntityRef(name) for name in sorted(named)), *rest]

    def keeping(self, mask: np.ndarray) -> Groups:
        """The groups that a mask keeps."""
        return self.at(np.flatnonzero(mask))

    def at(self, places: np.ndarray) -> Groups:
        """The groups at these positions."""
        part = object.__new__(Groups)
        part.__dict__.update(self.__dict__)
        part.first = self.first.take(places) if self.first.columns else Bindings(len(places), {})
        part.count = len(places)
        part.chosen = places if self.chosen is None else self.chosen[places]
        return part

    def _key_codes(self, key: Expression) -> np.ndarray:
        rows = self.rows
        if isinstance(key, EntityRef) or (isinstance(key, PropertyRef) and key.column == "id"):
            numbers = rows.columns[key.variable]
            if not isinstance(self.output.sources[key.variable], NodeSource):
                return group_codes(self.values.evaluate(key, rows))
            return np.asarray(numbers + 1)
        if isinstance(key, PropertyRef):
            coded = self.output.sources[key.variable].codes(key.column, rows.rows)
            numbers = rows.columns[key.variable]
            if coded is not None and (len(numbers) == 0 or int(numbers.min()) >= 0):
                return np.asarray(coded.codes[numbers])
        return group_codes(self.values.evaluate(key, rows))

    # ------------------------------------------------------------ values

    def evaluate(self, expression: Expression) -> pa.Array:
        """One value for each group."""
        return self.values.evaluate(expression, self.first, self._precomputed)

    def _precomputed(self, expression: Expression) -> pa.Array:
        if not isinstance(expression, Aggregate):
            return self.values.block(self.first, expression)
        if expression not in self._aggregates:
            self._aggregates[expression] = self._aggregate(expression)
        whole = self._aggregates[expression]
        return whole if self.chosen is None else whole.take(pa.array(self.chosen))

    def sort_key(self, expression: Expression, descending: bool) -> list[OrderBy]:
        if not any(isinstance(inner, Aggregate) for inner in walk(expression)):
            return self.output._row_key(self.first, expression, descending)

        def codes(places: np.ndarray) -> Codes:
            return sort_codes(self.at(places).evaluate(expression))

        return [OrderBy(codes, descending)]

    # ------------------------------------------------------------ aggregates

    def _aggregate(self, aggregate: Aggregate) -> pa.Array:
        operand, function = aggregate.operand, aggregate.function
        if WEIGHT in self.rows.columns:  # Then all aggregates are additive.
            return self._added(aggregate)
        if counts_matches(aggregate):
            return pa.array(np.bincount(self.numbers, minlength=self.total))
        if function == "count" and isinstance(operand, EntityRef):
            numbers = self.rows.columns[operand.variable]
            present = np.flatnonzero(numbers >= 0) if operand.is_optional else slice(None)
            if aggregate.distinct:
                return self._count_distinct(numbers[present], self.numbers[present])
            return pa.array(np.bincount(self.numbers[present], minlength=self.total))
        if isinstance(operand, EntityRef):
            raise NotCovered
        values = self.values.evaluate(operand, self.rows)
        valid = np.asarray(values.is_valid()) if values.null_count else None
        numbers = self.numbers if valid is None else self.numbers[valid]
        if function == "count":
            if aggregate.distinct:
                codes = group_codes(values)
                return self._count_distinct(codes if valid is None else codes[valid], numbers)
            return pa.array(np.bincount(numbers, minlength=self.total))
        if function in ("sum", "avg"):
            present = values if valid is None else values.drop_null()
            if aggregate.distinct:
                first = self._first_of_values(group_codes(present), numbers)
                present, numbers = present.take(pa.array(first)), numbers[first]
            return self._sum(aggregate, present, numbers)
        return self._sorted(aggregate, values)

    def _added(self, aggregate: Aggregate) -> pa.Array:
        measures = measures_of(aggregate)
        sums = [totals(self.numbers, self.rows.weights(m.name), self.total) for m in measures if m.is_sum]
        present = next((measure.name for measure in measures if not measure.is_sum), "")
        counts = totals(self.numbers, self.rows.weights(present), self.total)
        if not sums:
            return pa.array(counts)
        if aggregate.function == "sum":
            return pa.array(sums[0], arrow_type(aggregate.type), mask=counts == 0)
        return pa.array(sums[0].astype(np.float64) / np.maximum(counts, 1), mask=counts == 0)

    def _count_distinct(self, codes: np.ndarray, numbers: np.ndarray) -> pa.Array:
        return pa.array(np.bincount(numbers[self._first_of_values(codes, numbers)], minlength=self.total))

    def _first_of_values(self, codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The position of a row for each value of each group."""
        if self.total * (int(codes.max(initial=0)) + 1) >= 2**62:
            codes = dense_codes([codes])[0]
        return first_of_each(numbers * (int(codes.max(initial=0)) + 1) + codes)[1]

    def _sum(self, aggregate: Aggregate, values: pa.Array, numbers: np.ndarray) -> pa.Array:
        counts = np.bincount(numbers, minlength=self.total)
        if pa.types.is_floating(values.type):
            totals = np.bincount(numbers, weights=np.asarray(values.cast(pa.float64())), minlength=self.total)
        else:
            if values.type == pa.uint64() or not pa.types.is_integer(values.type):
                raise NotCovered
            whole = np.asarray(values.cast(pa.int64()))
            largest = max(abs(int(whole.max(initial=0))), abs(int(whole.min(initial=0))))
            if largest * len(whole) < MAX_EXACT:
                totals = np.bincount(numbers, weights=whole, minlength=self.total).astype(np.int64)
            elif largest * len(whole) < 2**62:
                totals = np.zeros(self.total, np.int64)
                np.add.at(totals, numbers, whole)
            else:
                raise NotCovered
        empty = counts == 0
        if aggregate.function == "sum":
            return pa.array(totals, arrow_type(aggregate.type), mask=empty)
        return pa.array(totals.astype(np.float64) / np.maximum(counts, 1), mask=empty)

    def _sorted(self, aggregate: Aggregate, values: pa.Array) -> pa.Array:
        """Aggregates that depend on the order of the values."""
        function = aggregate.function
        codes, valid = sort_codes(values)
        keys, kept = [codes], valid
        if function in ("first", "last"):
            assert aggregate.argument is not None, "checked"
            by, known = sort_codes(self.values.evaluate(aggregate.argument, self.rows))
            keys.append(by)
            kept = known if kept is None else kept if known is None else kept & known
        places = np.arange(len(codes)) if kept is None else np.flatnonzero(kept)
        order = places[np.lexsort((*(key[places] for key in keys), self.numbers[places]))]
        numbers = self.numbers[order]
        if function == "collect":
            if aggregate.distinct:
                fresh = np.ones(len(order), bool)
                fresh[1:] = (numbers[1:] != numbers[:-1]) | (codes[order][1:] != codes[order][:-1])
                order, numbers = order[fresh], numbers[fresh]
            bounds = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=self.total))])
            items = values.take(pa.array(order))
            return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), items, type=arrow_type(aggregate.type))
        begins = np.searchsorted(numbers, np.arange(self.total), "left")
        ends = np.searchsorted(numbers, np.arange(self.total), "right")
        empty = begins == ends
        if function in ("median", "percentile"):
            return self._percentile(aggregate, values, order, begins, ends, empty)
        at = np.where(empty, 0, begins if function in ("min", "first") else ends - 1)
        picked = np.where(empty, 0, order[at]) if len(order) else np.zeros(self.total, np.int64)
        return values.take(pa.array(picked, mask=empty))

    def _percentile(
        self,
        aggregate: Aggregate,
        values: pa.Array,
        order: np.ndarray,
        begins: np.ndarray,
        ends: np.ndarray,
        empty: np.ndarray,
    ) -> pa.Array:
        share = 0.5 if aggregate.argument is None else self.values.arguments.value(aggregate.argument)
        if not isinstance(share, float | int) or not 0 <= share <= 1:
            raise NotCovered
        numbers = np.asarray(values.take(pa.array(order)).cast(pa.float64(), safe=False))
        places = (ends - begins - 1) * float(share)
        low, high = np.floor(places).astype(np.int64), np.ceil(places).astype(np.int64)
        low, high = (np.where(empty, 0, begins + side) for side in (low, high))
        if len(numbers) == 0:
            return pa.nulls(self.total, pa.float64())
        below, above = numbers[low], numbers[high]
        return pa.array(below + (above - below) * (places - np.floor(places)), mask=empty)
