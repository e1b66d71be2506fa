"""Row-level expressions over Arrow columns: one value per row, the same as the SQL of the expression gives.

Logic is three-valued. Integers compare exactly, whatever their types; with a float on either side (or anywhere in the list of an
`in`) both sides are F64. Text compares by code points. Nothing is in an empty list, not even null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.functions import Arguments, evaluated, in_type, is_known
from omnigraph.language.query.plan import (
    Binary,
    Choice,
    Constant,
    EntityRef,
    Expression,
    FieldOf,
    FunctionCall,
    ItemRef,
    ListOf,
    Now,
    Parameter,
    PropertyRef,
    Quantified,
    RecordOf,
    Unary,
    children,
)
from omnigraph.values.arrow import are_among, arrow_type
from omnigraph.values.json_text import text_column
from omnigraph.values.types import PropertyType, Scalar

Cells = Any
"""An Arrow array or chunked array with a value per row, or an Arrow scalar for all of them."""

_COMPARE = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}
_KERNELS = {
    "year": "year",
    "month": "month",
    "day": "day",
    "week": "iso_week",
    "length": "utf8_length",
    "size": "list_value_length",
}
"""Functions of one value that Arrow computes as Python does."""


class NotInterpreted(Exception):
    """The expression contains a search, a block or an aggregate."""


def type_of(expression: Expression) -> PropertyType:
    """The type of an expression; a whole entity stands for its id."""
    if isinstance(expression, EntityRef):
        return PropertyType(Scalar.STRING, nullable=expression.is_optional)
    return expression.type


def item_type(type_: PropertyType) -> PropertyType:
    """The type of a list's items."""
    return PropertyType(type_.scalar, enum=type_.enum, fields=type_.fields)


def is_interpreted(expression: Expression) -> bool:
    """Whether an expression can be evaluated here, given its columns."""
    match expression:
        case Constant() | Parameter() | Now() | PropertyRef() | EntityRef():
            return True
        case (
            Unary()
            | Binary()
            | ListOf()
            | RecordOf()
            | FieldOf()
            | FunctionCall()
            | Choice()
            | Quantified()
            | ItemRef()
        ):
            return all(is_interpreted(inner) for inner in children(expression))
    return False


class Interpreter:
    """`column` gives the values of a stored column of a variable, one for each of `rows` rows; `precomputed` those of what depends on
    more than the row, such as blocks and aggregates."""

    def __init__(
        self,
        arguments: Arguments,
        rows: int,
        column: Callable[[str, str], pa.Array | pa.ChunkedArray],
        precomputed: Callable[[Expression], pa.Array] | None = None,
    ) -> None:
        self._arguments = arguments
        self._rows = rows
        self._column = column
        self._precomputed = precomputed

    def evaluate(self, expression: Expression) -> pa.Array:
        """One value per row. Raises ArithmeticOverflow, NotInterpreted."""
        return self._spread(self._cells(expression))

    def _spread(self, cells: Cells) -> pa.Array:
        if isinstance(cells, pa.Scalar):
            return pa.repeat(cells, self._rows)
        return _whole(cells)

    def _cells(self, expression: Expression) -> Cells:
        match expression:
            case Constant() | Parameter() | Now():
                return pa.scalar(self._arguments.value(expression), arrow_type(expression.type))
            case PropertyRef(variable, name, _):
                return self._column(variable, name)
            case EntityRef(variable):
                return self._column(variable, "id")
            case Unary("not", operand, _):
                return pc.invert(self._cells(operand))
            case Unary("is_null", operand, _):
                return pc.is_null(self._cells(operand))
            case Unary("is_not_null", operand, _):
                return pc.is_valid(self._cells(operand))
            case Unary("-", operand, type_):
                return _computed("negate", [self._cells(operand)], type_)
            case Binary():
                return self._binary(expression)
            case ItemRef(variable, _):
                return self._column(variable, "")
            case ListOf(items, type_):
                columns = [self._spread(self._cells(item)).to_pylist() for item in items]
                listed = [[in_type(value, item_type(type_)) for value in row] for row in zip(*columns, strict=True)]
                return pa.array(listed, arrow_type(type_))
            case RecordOf(items, type_):
                cells = [
                    _in_type(self._spread(self._cells(item)), field)
                    for item, (_, field) in zip(items, type_.fields, strict=True)
                ]
                return pa.StructArray.from_arrays(cells, fields=list(arrow_type(type_)))
            case FieldOf(record, name, _):
                # `flatten` hides what a null record holds.
                return self._spread(self._cells(record)).flatten()[[n for n, _ in type_of(record).fields].index(name)]
            case FunctionCall():
                return self._call(expression)
            case Choice():
                return self._choice(expression)
            case Quantified():
                return self._quantified(expression)
        if self._precomputed is None:
            raise NotInterpreted
        return self._precomputed(expression)

    def _binary(self, binary: Binary) -> Cells:
        match binary.op:
            case "in":
                return self._in(binary.left, binary.right)
            case "contains" if type_of(binary.left).is_list:
                return self._member(binary.left, binary.right)
            case "contains" | "starts_with" | "ends_with":
                return self._text(binary.op, self._cells(binary.left), self._cells(binary.right))
        left, right = self._cells(binary.left), self._cells(binary.right)
        match binary.op:
            case "and":
                return pc.and_kleene(left, right)
            case "or":
                return pc.or_kleene(left, right)
            case "/" | "%":
                return _divided(binary.op, left, right, binary.type)
            case "+" | "-" | "*":
                return _computed(_ARITHMETIC[binary.op], [left, right], binary.type)
        meeting = _meeting([type_of(binary.left), type_of(binary.right)])
        return pc.call_function(_COMPARE[binary.op], [_cast(left, meeting), _cast(right, meeting)])

    # ------------------------------------------------------------ functions and choices

    def _call(self, call: FunctionCall) -> pa.Array:
        cells = [self._spread(self._cells(argument)) for argument in call.arguments]
        target = arrow_type(call.type)
        if call.function in _KERNELS:
            return getattr(pc, _KERNELS[call.function])(cells[0]).cast(target)
        if call.function == "weekday":
            return pc.add(pc.day_of_week(cells[0]), 1).cast(target)
        if call.function == "hour":
            return pc.hour(cells[0].cast(pa.timestamp("us"))).cast(target)
        if call.function == "text":
            return text_column(cells[0]).cast(target)
        if call.function == "coalesce" and not call.type.is_list:
            return pc.coalesce(*(_in_type(argument, call.type) for argument in cells))
        rows = zip(*(argument.to_pylist() for argument in cells), strict=True)
        return pa.array([evaluated(call, row) for row in rows], target)

    def _choice(self, choice: Choice) -> pa.Array:
        """Each branch is computed only for the rows that take it."""
        parts, places, rest = [], [], np.arange(self._rows)
        for condition, value in choice.branches:
            holds = as_mask(self._among_rows(rest).evaluate(condition))
            parts.append(_in_type(self._among_rows(rest[holds]).evaluate(value), choice.type))
            places.append(rest[holds])
            rest = rest[~holds]
        if choice.otherwise is None:
            parts.append(pa.nulls(len(rest), arrow_type(choice.type)))
        else:
            parts.append(_in_type(self._among_rows(rest).evaluate(choice.otherwise), choice.type))
        order = np.empty(self._rows, np.int64)
        order[np.concatenate([*places, rest])] = np.arange(self._rows)
        return pa.concat_arrays(parts).take(pa.array(order))

    def _among_rows(self, rows: np.ndarray) -> Interpreter:
        """The same columns with these rows only, some of them possibly repeated."""
        places, precomputed = pa.array(rows), self._precomputed
        return Interpreter(
            self._arguments,
            len(rows),
            lambda variable, name: self._column(variable, name).take(places),
            None if precomputed is None else lambda expression: precomputed(expression).take(places),
        )

    def _quantified(self, quantified: Quantified) -> pa.Array:
        lists = self._spread(self._cells(quantified.items))
        parents = np.asarray(pc.list_parent_indices(lists))
        items, around = pc.list_flatten(lists), self._among_rows(parents)
        item = quantified.item.variable

        def column(variable: str, name: str) -> pa.Array:
            return items if (variable, name) == (item, "") else around._column(variable, name)

        truth = Interpreter(self._arguments, len(parents), column, around._precomputed).evaluate(quantified.condition)
        decisive, unknown = np.zeros(self._rows, bool), np.zeros(self._rows, bool)
        wanted = quantified.kind == "any"
        decisive[parents[np.asarray(pc.fill_null(pc.equal(truth, wanted), False))]] = True
        unknown[parents[np.asarray(pc.is_null(truth))]] = True
        hidden = np.asarray(pc.is_null(lists)) | (unknown & ~decisive)
        return pa.array(decisive if wanted else ~decisive, mask=hidden)

    # ------------------------------------------------------------ lists

    def _in(self, left: Expression, right: Expression) -> Cells:
        if isinstance(right, ListOf) and not is_known(right):
            return self._any_of(left, right.items)
        if not is_known(right):
            return self._nothing_in_empty(self._member(right, left), self._cells(right))
        items = self._arguments.value(right)
        types = [type_of(item) for item in right.items] if isinstance(right, ListOf) else [item_type(type_of(right))]
        return self._among(left, items, types)  # type: ignore[arg-type]  # the value of a list, or None

    def _among(self, left: Expression, items: list[object] | None, types: Sequence[PropertyType]) -> Cells:
        """Membership in a list that is known."""
        if not items:
            return pa.scalar(None if items is None else False, pa.bool_())
        meeting = _meeting([type_of(left), *types])
        cells = _cast(self._spread(self._cells(left)), meeting)
        known = [item for item in items if item is not None]
        among = are_among(cells, pa.array(known, cells.type))
        if len(known) < len(items):
            among = pc.if_else(among, among, pa.scalar(None, pa.bool_()))
        return pc.if_else(pc.is_valid(cells), among, pa.scalar(None, pa.bool_()))

    def _any_of(self, left: Expression, items: Sequence[Expression]) -> Cells:
        """Membership in a list whose items depend on the row."""
        meeting = _meeting([type_of(left), *(type_of(item) for item in items)])
        value = _cast(self._cells(left), meeting)
        conditions = [pc.equal(value, _cast(self._cells(item), meeting)) for item in items]
        result = conditions[0]
        for condition in conditions[1:]:
            result = pc.or_kleene(result, condition)
        return result

    def _member(self, array: Expression, item: Expression) -> pa.Array:
        """Whether the item is in the row's list. Null if either is null."""
        lists, items = self._spread(self._cells(array)), self._spread(self._cells(item))
        meeting = _meeting([item_type(type_of(array)), type_of(item)])
        parents = pc.list_parent_indices(lists)
        equal = pc.equal(_cast(pc.list_flatten(lists), meeting), _cast(items.take(parents), meeting))
        holds = np.zeros(self._rows, bool)
        holds[np.asarray(parents)[np.asarray(pc.fill_null(equal, False))]] = True
        return pa.array(holds, mask=np.asarray(pc.or_(pc.is_null(lists), pc.is_null(items))))

    def _nothing_in_empty(self, contained: pa.Array, lists: Cells) -> pa.Array:
        is_empty = pc.fill_null(pc.equal(pc.list_value_length(self._spread(lists)), 0), False)
        return pc.if_else(is_empty, False, contained)

    # ------------------------------------------------------------ text

    def _text(self, op: Literal["contains", "starts_with", "ends_with"], left: Cells, right: Cells) -> Cells:
        if isinstance(right, pa.Scalar):
            if not right.is_valid:
                return pa.scalar(None, pa.bool_())
            matches = {"contains": pc.match_substring, "starts_with": pc.starts_with, "ends_with": pc.ends_with}[op]
            return matches(left, right.as_py())
        holds: Callable[[str, str], bool] = _HOLDS[op]
        pairs = zip(self._spread(left).to_pylist(), self._spread(right).to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else holds(a, b) for a, b in pairs], pa.bool_())


_HOLDS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": str.__contains__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}

# ---------------------------------------------------------------- numbers


def _meeting(types: Iterable[PropertyType]) -> pa.DataType | None:
    """The type in which values of these types are compared; None if no conversion is needed."""
    scalars = {type_.scalar for type_ in types}
    if len(scalars) > 1 and any(scalar.is_float for scalar in scalars):
        return pa.float64()
    if len(scalars) > 1 and Scalar.U64 in scalars:
        return pa.decimal128(20, 0)
    return pa.int64() if len(scalars) > 1 else None


def _cast(cells: Any, type_: pa.DataType | None) -> Any:
    """Every conversion here is to a type that holds the values, or to the nearest F64."""
    return cells if type_ is None or cells.type == type_ else pc.cast(cells, type_, safe=False)


def _in_type(cells: pa.Array, type_: PropertyType) -> pa.Array:
    """Values in the wider type that several values share."""
    target = arrow_type(type_)
    if cells.type == target:
        return cells
    try:
        return cells.cast(target, safe=not type_.scalar.is_float)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow from error


def _computed(function: str, operands: list[Cells], type_: PropertyType) -> Cells:
    """Arithmetic in the type of the result."""
    target = arrow_type(type_)
    try:
        converted = [pc.cast(operand, target, safe=type_.scalar.is_integer) for operand in operands]
        return pc.call_function(f"{function}_checked", converted)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow from error


def _divided(op: Literal["/", "%"], left: Cells, right: Cells, type_: PropertyType) -> Cells:
    """Division by zero gives null."""
    target = arrow_type(type_)
    try:
        dividend, divisor = (pc.cast(side, target, safe=type_.scalar.is_integer) for side in (left, right))
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow from error
    divisor = pc.if_else(pc.equal(divisor, pa.scalar(0, target)), pa.scalar(None, target), divisor)
    if op == "/":
        return pc.divide(dividend, divisor)
    if type_.scalar.is_integer:
        # The remainder of a division by -1 is that by 1, which does not overflow.
        divisor = pc.if_else(pc.equal(divisor, pa.scalar(-1, target)), pa.scalar(1, target), divisor)
    return pc.remainder(dividend, divisor)


def _whole(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(cells, pa.ChunkedArray):
        return cells
    return (
        cells.chunk(0)
        if cells.num_chunks == 1
        else pa.concat_arrays(cells.chunks)
        if cells.num_chunks
        else pa.array([], cells.type)
    )


def satisfying(
    rows: pa.Table,
    conditions: Iterable[Expression],
    arguments: Arguments,
    names: Mapping[str, str] | None = None,
) -> pa.Table:
    """The rows for which all conditions hold. Each condition is evaluated only for the rows that satisfy the previous ones.

    `names`: the table's names of stored columns, if they differ. Raises as `evaluate` does.
    """
    for condition in conditions:
        table = rows

        def column(_: str, name: str, table: pa.Table = table) -> pa.ChunkedArray:
            return table.column(name if names is None else names[name])

        rows = table.filter(Interpreter(arguments, table.num_rows, column).evaluate(condition))
    return rows


def as_mask(truth: pa.Array) -> np.ndarray:
    """Which rows are true: neither false nor null."""
    return np.asarray(pc.fill_null(truth, False))
