"""Expressions over rows of bindings, and values as integers that sort and compare as the language says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import Interpreter, as_mask
from omnigraph.expressions.usage import references
from omnigraph.language.query.plan import Aggregate, Binary, CountOf, EntityRef, Exists, Expression
from omnigraph.read.executor.bindings import Bindings, dense_codes
from omnigraph.read.executor.sources import ColumnSource, NodeSource

Precomputed = Callable[[Expression], "pa.Array"]
"""The values of aggregates and blocks, one for each row."""
MAX_SPAN = 2**40


class Evaluator:
    """Values of expressions, given the sources of their variables. `block` gives whether a block has matches for each row, or how
    many."""

    def __init__(
        self,
        sources: Mapping[str, ColumnSource],
        arguments: Arguments,
        block: Callable[[Bindings, Expression], pa.Array],
    ) -> None:
        self.sources = sources
        self.arguments = arguments
        self.block = block

    def column(self, rows: Bindings, variable: str, name: str) -> pa.Array:
        key = (variable, name)
        if key not in rows.memo:
            rows.memo[key] = self.sources[variable].column(name, rows.columns[variable])
        return rows.memo[key]

    def read_together(self, expressions: Sequence[Expression], rows: Bindings) -> None:
        """Read the columns that these expressions need, all of a variable at once."""
        wanted: dict[str, list[str]] = {}
        for variable, name in dict.fromkeys(pair for expression in expressions for pair in references(expression)):
            if name != "id" and (variable, name) not in rows.memo:
                wanted.setdefault(variable, []).append(name)
        for variable, names in wanted.items():
            source = self.sources[variable]
            if len(names) > 1 and isinstance(source, NodeSource):
                for name, cells in source.few_columns(names, rows.columns[variable]).items():
                    rows.memo[variable, name] = cells

    def evaluate(self, expression: Expression, rows: Bindings, precomputed: Precomputed | None = None) -> pa.Array:
        """One value per row. Raises ArithmeticOverflow."""
        return Interpreter(
            self.arguments,
            rows.rows,
            lambda variable, name: self.column(rows, variable, name),
            precomputed or (lambda block: self.block(rows, block)),
        ).evaluate(expression)

    def holds(self, condition: Expression, rows: Bindings, column: tuple[str, str] | None = None) -> np.ndarray:
        """For which rows a condition is true. `column`: the only one that it depends on."""
        if (same := self._compared_nodes(condition, rows)) is not None:
            return same
        if column is not None and (coded := self._by_codes(condition, rows, column)) is not None:
            return coded
        return as_mask(self.evaluate(condition, rows))

    def _compared_nodes(self, condition: Expression, rows: Bindings) -> np.ndarray | None:
        """Nodes of one type are equal if their numbers are."""
        match condition:
            case Binary("=" | "!=" as op, EntityRef(left), EntityRef(right), _):
                first, second = self.sources[left], self.sources[right]
                if isinstance(first, NodeSource) and isinstance(second, NodeSource) and first.types == second.types:
                    near, far = rows.columns[left], rows.columns[right]
                    truth = near == far if op == "=" else near != far
                    return truth & (near >= 0) & (far >= 0)  # type: ignore[no-any-return]  # NumPy's Any
        return None

    def _by_codes(self, condition: Expression, rows: Bindings, column: tuple[str, str]) -> np.ndarray | None:
        """A condition on one column with few distinct values is evaluated once for each of these."""
        variable, name = column
        coded = self.sources[variable].codes(name, rows.rows)
        if coded is None or (variable, name) in rows.memo:
            return None
        numbers = rows.columns[variable]
        if int(numbers.min(initial=0)) < 0:  # A condition may hold for null.
            return None
        values = Interpreter(self.arguments, len(coded.values), lambda *_: coded.values)
        truth = as_mask(values.evaluate(condition))
        if len(truth) == 0:
            return np.zeros(rows.rows, bool)
        kept: np.ndarray = truth[coded.codes[numbers]]
        return kept


# ---------------------------------------------------------------- values as integers


def sort_codes(values: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """(integers that sort as the values do, which values are not null); None if none is."""
    valid = None if values.null_count == 0 else np.asarray(values.is_valid())
    type_ = values.type
    if pa.types.is_string(type_):
        coded = values.dictionary_encode() if not pa.types.is_dictionary(type_) else values
        ranks = np.empty(max(len(coded.dictionary), 1), np.int64)
        ranks[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(len(coded.dictionary))
        return ranks[np.asarray(coded.indices.fill_null(0))], valid
    if pa.types.is_floating(type_):
        numbers = np.asarray(values.cast(pa.float64()).fill_null(0.0)) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64)
        return bits ^ ((bits >> 63) & np.int64(2**63 - 1)), valid
    if pa.types.is_boolean(type_):
        return np.asarray(values.cast(pa.int8()).fill_null(0)).astype(np.int64), valid
    if type_ == pa.uint64():
        return (np.asarray(values.fill_null(0)) ^ np.uint64(2**63)).view(np.int64), valid
    if pa.types.is_date32(type_):
        values = values.cast(pa.int32())
    if pa.types.is_integer(values.type) or pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return np.asarray(values.cast(pa.int64()).fill_null(0)), valid
    if pa.types.is_struct(type_):
        return _record_codes(values), valid
    keys = [_list_key(value) for value in values.to_pylist()]
    ranks_of = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([ranks_of[key] for key in keys], np.int64), valid


def _list_key(value: Any) -> tuple[Any, ...]:
    """What sorts as a value does: nulls in lists last, in records first."""
    if isinstance(value, dict):
        return (0, *((item is not None, _list_key(item)) for item in value.values()))
    if isinstance(value, list):
        return (0, *map(_list_key, value))
    return (1,) if value is None else (0, value)


def _record_codes(values: pa.StructArray) -> np.ndarray:
    """Records sort value by value, nulls first."""
    keys: list[np.ndarray] = []
    for cells in values.flatten():
        codes, valid = sort_codes(cells)
        keys += [codes] if valid is None else [valid, np.where(valid, codes, 0)]
    order, ranks = np.lexsort(keys[::-1]), np.zeros(len(values), np.int64)
    differs = np.zeros(len(values), bool)
    for key in keys:
        differs[1:] |= key[order][1:] != key[order][:-1]
    ranks[order] = np.cumsum(differs)
    return ranks


def group_codes(values: pa.Array) -> np.ndarray:
    """Integers from 0 on that are equal for equal values; 0 for null."""
    if pa.types.is_string(values.type):
        indices = values.dictionary_encode().indices
        return np.asarray(indices.fill_null(-1)).astype(np.int64) + 1
    codes, valid = sort_codes(values)
    if len(codes) == 0:
        return codes
    low, high = int(codes.min()), int(codes.max())
    codes = dense_codes([codes])[0] + 1 if high - low > MAX_SPAN else codes - (low - 1)
    return codes if valid is None else np.where(valid, codes, 0)


def is_covered(expression: Expression) -> bool:
    """Whether an expression can be evaluated here: it has no search in it."""
    from omnigraph.expressions.interpreter import is_interpreted
    from omnigraph.language.query.plan import children

    if isinstance(expression, Exists | CountOf):
        return True
    if isinstance(expression, Aggregate):
        return all(map(is_covered, children(expression)))
    inner = children(expression)
    return all(map(is_covered, inner)) if inner else is_interpreted(expression)
