"""The typed logical plan of a query: what both engines consume.

A read is a *pattern* (entities bound to variables, expansions along edges, filters) followed by projection, grouping,
order and a cut. A mutation is a list of statements. Every expression carries its type; every name is resolved: properties
are real columns (`id`, `src`, `dst` included), edges are catalog types, directions are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Literal as OneOf, TypeVar

from omnigraph._internal.frozen import Frozen
from omnigraph.language.catalog import Language, Metric
from omnigraph.values.literals import Constant as Constant
from omnigraph.values.types import PropertyType, Scalar

Derived = TypeVar("Derived")

# ---------------------------------------------------------------- expressions

JsonValue = str | int | float | bool | None | list["JsonValue"]

BinaryOp = OneOf[
    "and", "or", "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "contains", "starts_with", "ends_with", "in"
]  # fmt: skip
UnaryOp = OneOf["not", "-", "is_null", "is_not_null"]
AggregateFunction = OneOf["count", "sum", "avg", "min", "max", "collect", "median", "percentile", "first", "last"]

BOOL = PropertyType(Scalar.BOOL)
NULLABLE_BOOL = PropertyType(Scalar.BOOL, nullable=True)


class Parameter(Frozen):
    name: str
    type: PropertyType


class Now(Frozen):
    """`now()`: one instant for the whole query."""

    type: PropertyType = field(default_factory=lambda: PropertyType(Scalar.DATETIME))


class PropertyRef(Frozen):
    """A column of a bound entity. `column` is the physical name: a property, `id`, `src` or `dst`.

    In a mutation's `where`, and in what it inserts for each row of a `match`, the variable is "" (the row at hand).
    """

    variable: str
    column: str
    type: PropertyType


class EntityRef(Frozen):
    """A whole bound entity: an object in `return`, its id in `count`, `=` and `order`. `is_optional`: it may be null."""

    variable: str
    is_optional: bool = False


class Unary(Frozen):
    op: UnaryOp
    operand: Expression
    type: PropertyType


class Binary(Frozen):
    """Logic is three-valued. Arithmetic on whole numbers is I64, with any float F64; `/` always gives F64, and `/` and
    `%` by zero give null. `contains`: a list and an item, or a String and a part. The right side of `in` is a ListOf, or
    any expression of a list type.
    """

    op: BinaryOp
    left: Expression
    right: Expression
    type: PropertyType


class ListOf(Frozen):
    """A list of expressions."""

    items: tuple[Expression, ...]
    type: PropertyType


class RecordOf(Frozen):
    """Values under the names of the type's fields, in their order."""

    items: tuple[Expression, ...]
    type: PropertyType


class FieldOf(Frozen):
    """The value of a record under a name."""

    record: Expression
    name: str
    type: PropertyType


class FunctionCall(Frozen):
    """A function of values (`language.query.functions`). Null when an argument is, except for `coalesce`, whose arguments are
    taken in the type of the call."""

    function: str
    arguments: tuple[Expression, ...]
    type: PropertyType


class Choice(Frozen):
    """The value of the first branch whose condition is true, in the type of the whole; else `otherwise` (None: null)."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    type: PropertyType


class ItemRef(Frozen):
    """An item of a list, by the variable that stands for it."""

    variable: str
    type: PropertyType


class Quantified(Frozen):
    """Whether the condition holds for any item of the list, or for all: three-valued, like `or` and `and` over the items. For an
    empty list `any` is false and `all` is true; null if the list is null."""

    kind: OneOf["any", "all"]
    item: ItemRef
    items: Expression
    condition: Expression
    type: PropertyType


TextKind = OneOf["search", "match_text", "all_words", "phrase", "fuzzy"]


class TextMatch(Frozen):
    """Whether the text matches the query's words. `search` and `match_text` (the same): any of them; `all_words`: all; `phrase`:
    in this order, one after the other; `fuzzy`: any of them with up to `max_edits` edits."""

    kind: TextKind
    property: PropertyRef
    query: Expression
    max_edits: Expression | None = None
    language: Language = "english"
    type: PropertyType = BOOL


class Nearest(Frozen):
    """Vector distance (smaller is better). `query` is a vector; if a text was written, the vector computed from it
    (`ReadPlan.texts`)."""

    property: PropertyRef
    query: Expression
    metric: Metric = "cosine"
    type: PropertyType = field(default_factory=lambda: PropertyType(Scalar.F32, nullable=True))


class Bm25(Frozen):
    """Full-text score (larger is better)."""

    property: PropertyRef
    query: Expression
    language: Language = "english"
    type: PropertyType = field(default_factory=lambda: PropertyType(Scalar.F32, nullable=True))


class Rrf(Frozen):
    """Reciprocal rank fusion: the sum over both arms of 1 / (k + rank + 1), ranks from 0."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expression
    type: PropertyType = field(default_factory=lambda: PropertyType(Scalar.F64, nullable=True))


class Aggregate(Frozen):
    """A value of a group of rows; rows in which the operand is null are ignored, and with `distinct` (of `count`, `sum`, `avg` and
    `collect`) each value is taken once. `collect` gives the values in ascending order; records are
    compared value by value, nulls first.
    `median` and `percentile` interpolate linearly between the two nearest values. `first` and `last` give the value at the
    smallest and at the largest `argument`; rows in which that is null are ignored, and among equal ones the smallest, or largest,
    value is taken. For `percentile` the argument is a number from 0 to 1.
    """

    function: AggregateFunction
    operand: Expression
    distinct: bool
    type: PropertyType
    argument: Expression | None = None


class Exists(Frozen):
    """Whether the block has at least one match for the outer row. `not { }` is Unary("not", Exists(...))."""

    block: Pattern
    type: PropertyType = BOOL


class CountOf(Frozen):
    """How many matches (rows of the block's pattern) the outer row has."""

    block: Pattern
    type: PropertyType = field(default_factory=lambda: PropertyType(Scalar.I64))


Ranking = Nearest | Bm25 | Rrf
Expression = (
    Constant
    | Parameter
    | Now
    | PropertyRef
    | EntityRef
    | Unary
    | Binary
    | ListOf
    | RecordOf
    | FieldOf
    | FunctionCall
    | Choice
    | ItemRef
    | Quantified
    | TextMatch
    | Nearest
    | Bm25
    | Rrf
    | Aggregate
    | Exists
    | CountOf
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct subexpressions; a block has none (its pattern is another scope)."""
    match expression:
        case Unary(_, operand, _):
            return (operand,)
        case Aggregate():
            return (expression.operand,) if expression.argument is None else (expression.operand, expression.argument)
        case Binary(_, left, right, _):
            return (left, right)
        case ListOf(items, _) | RecordOf(items, _) | FunctionCall(_, items, _):
            return items
        case FieldOf():
            return (expression.record,)
        case Choice(branches, otherwise, _):
            inside = tuple(part for branch in branches for part in branch)
            return inside if otherwise is None else (*inside, otherwise)
        case Quantified():
            return (expression.items, expression.condition)
        case TextMatch(_, property_, query, max_edits):
            return (property_, query) if max_edits is None else (property_, query, max_edits)
        case Nearest() | Bm25():
            return (expression.property, expression.query)
        case Rrf(first, second, k, _):
            return (first, second, k)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its subexpressions, without the inside of blocks."""
    stack = [expression]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def is_aggregated(expression: Expression) -> bool:
    """Whether there is an aggregate in it."""
    return any(isinstance(inner, Aggregate) for inner in walk(expression))


# ---------------------------------------------------------------- patterns


class Binding(Frozen):
    """A node variable and the node types it ranges over, sorted by name: one, implementers of `interface`, or those that edges of
    several types reach."""

    variable: str
    types: tuple[str, ...]
    interface: str | None = None


Direction = OneOf["out", "in", "both"]


UNBOUNDED = 2**31 - 1
"""The maximum number of hops of `{m,}`, which means no limit."""


class Path(Frozen):
    """One path for each pair of ends: of fewest hops or, with a `weight`, of the smallest sum of that property of its edges,
    then of fewest hops; among several, the one whose ids are the smallest, compared from the start. An edge without a weight, or
    with a negative one, is not followed. Its columns are `nodes` and `edges` (ids), `length` and `cost`.

    `is_every`: all paths of fewest hops, each of which is its edges.
    """

    variable: str
    weight: str | None
    is_every: bool = False


class Walk(Frozen):
    """What must hold along the hops of an expansion: conditions on the variable `edge`, for each edge; those that mention `node` or
    `before` too, for each edge but the first, where `node` is the node it starts from and `before` the edge that led there.

    With `before` a walk may pass a node again, by another edge; its distance is that of the shortest walk that satisfies the
    conditions. They mention no other variable.
    """

    edge: str
    node: str | None
    before: str | None
    conditions: tuple[Expression, ...]


class Expansion(Frozen):
    """From `source` along `edge` to `target`.

    Without `edge_variable` the result is a *set*: per source each target once, breadth first with a visited set, at a
    distance of min_hops to max_hops (UNBOUNDED: whatever it is); the source itself is at distance 0. With `edge_variable` there is one row per edge (and one hop).
    `direction` is seen from `source`: "out" follows src -> dst, "in" dst -> src, "both" either.
    Both ends may be the same variable, or variables that are bound elsewhere already: then the expansion closes a cycle.
    In a block, an outer variable may range over several types; the expansion holds only for those of its rows whose type
    is the edge's own endpoint type (ids are unique within a type only).
    """

    source: str
    target: str
    edge: str
    direction: Direction
    min_hops: int = 1
    max_hops: int = 1
    edge_variable: str | None = None
    path: Path | None = None
    walk: Walk | None = None
    others: tuple[str, ...] = ()
    """Further edge types, whose edges it follows too."""
    is_mixed: bool = False
    """Whether its edge types join different node types. An end may then have several types."""

    @property
    def edges(self) -> tuple[str, ...]:
        """All edge types that it follows."""
        return (self.edge, *self.others)

    @property
    def is_searched(self) -> bool:
        """Whether it needs more of each edge than its ends to be followed."""
        return self.path is not None or self.walk is not None

    @property
    def is_step(self) -> bool:
        """Whether it is exactly one hop."""
        return self.min_hops == self.max_hops == 1

    @property
    def reads_edges(self) -> bool:
        """Whether the edges themselves are needed, not only the pairs that they connect."""
        return self.edge_variable is not None or self.is_searched


class Unnest(Frozen):
    """A row for each item of a list, which is the column "item" of the variable; an empty list and null give no row."""

    variable: str
    items: Expression


ROWS = "*"
"""The variable whose columns are the values that a stage carries on. Its id is the number of the row."""


class Given(Frozen):
    """The rows of an earlier stage, from which a pattern goes on: a column `$name` with the ids of each of the `entities`, which the
    pattern binds too, and the columns of the variable ROWS. Those of `optional` may be null."""

    read: ReadPlan
    entities: tuple[str, ...]
    optional: tuple[str, ...] = ()


class Pattern(Frozen):
    """Bindings (in order of first mention), expansions (in text order) and filters, all of which must hold.

    `outer` names the variables that a block takes from the pattern around it; they have no binding here. `unnests` multiply the
    rows by the items of lists. Each of `optionals`, in text order, is a block whose variables are visible here too: every row is
    joined with its matches or, if there are none, with one row in which those variables are null. Filters may mention them.
    """

    bindings: tuple[Binding, ...]
    expansions: tuple[Expansion, ...]
    filters: tuple[Expression, ...]
    outer: tuple[str, ...] = ()
    unnests: tuple[Unnest, ...] = ()
    optionals: tuple[Pattern, ...] = ()
    start_rows: Given | None = None


# ---------------------------------------------------------------- reads

ColumnKind = OneOf["string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list", "object"]


class ResultColumn(Frozen):
    """The description of one column of a result.

    >>> assert [(column.name, column.kind) for column in result.columns] == [("name", "string"), ("age", "int")]
    """

    name: str
    kind: ColumnKind
    nullable: bool
    item_kind: ColumnKind | None = None
    vector_dim: int | None = None


class Projection(Frozen):
    name: str
    expression: Expression


class OrderKey(Frozen):
    """Nulls first ascending, last descending. A Ranking key is best first whatever its direction.

    In a distinct read the expression equals that of one of the projections; in a grouped one each group has one value of it.
    """

    expression: Expression
    descending: bool = False


class DeclaredParameter(Frozen):
    """A parameter of a query. `default` is the value it has when a call leaves it out; without one it must be given."""

    name: str
    type: PropertyType
    default: Constant | None = None


class Union(Frozen):
    """The rows of all parts, equal ones once unless it `keeps_all`. The parts have neither order nor cut."""

    parts: tuple[ReadPlan, ...]
    keeps_all: bool


class TextQuery(Frozen):
    """A text that `nearest` searches for. It is embedded once, before the plan is run, and its vector is passed as the parameter
    `name`, which no query can declare."""

    name: str
    text: Constant | Parameter
    owner: str
    property: str
    dimension: int
    model: str | None


class ReadPlan(Frozen):
    """A read. `order` holds the user's keys; `tie_break` the variables whose ids complete the total order (empty in a
    grouped or distinct read, where the projections complete it); rows of a stage keep its order.

    `grouped`: some projection has an aggregate in it; then the projections without one are the group key, which completes
    the order, and outside their aggregates the others mention nothing else. `having` keeps the groups for which all its
    conditions are true. With a `union` the pattern is empty, the projections are columns of the variable "", and the order
    is completed by all of them. `limit` and `offset` are integer constants or parameters.
    """

    name: str
    parameters: tuple[DeclaredParameter, ...]
    pattern: Pattern
    projections: tuple[Projection, ...]
    columns: tuple[ResultColumn, ...]
    grouped: bool
    distinct: bool
    order: tuple[OrderKey, ...]
    tie_break: tuple[str, ...]
    limit: Constant | Parameter | None
    offset: Constant | Parameter | None
    reads: tuple[str, ...]
    """Table keys the query may inspect, sorted."""
    having: tuple[Expression, ...] = ()
    union: Union | None = None
    texts: tuple[TextQuery, ...] = ()
    """The texts to embed; a union has those of its parts."""
    description: str | None = None
    instruction: str | None = None
    _derived: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def derived(self, key: object, make: Callable[[], Derived]) -> Derived:
        """What was made of this plan under a key, made on first use: forms, trees, SQL. It is kept as long as the plan, and so as
        long as the plan's text is (`mutations.compile_query`)."""
        if key not in self._derived:
            self._derived[key] = make()
        value: Derived = self._derived[key]
        return value


# ---------------------------------------------------------------- mutations


class InsertNode(Frozen):
    """`strict`: an id that exists is refused; otherwise the whole entity is replaced. Properties left out are null; each @default
    is among the values. `id` may be among them when the type has no key.
    """

    type_name: str
    values: tuple[tuple[str, Expression], ...]
    strict: bool


class InsertEdge(Frozen):
    """The same for an edge."""

    type_name: str
    source: Expression
    target: Expression
    values: tuple[tuple[str, Expression], ...]
    strict: bool


class InsertMatches(Frozen):
    """An insert for each row of a read. The values refer to the row as columns of the variable ""."""

    insert: InsertNode | InsertEdge
    rows: ReadPlan


class UpdateNodes(Frozen):
    type_name: str
    values: tuple[tuple[str, Expression], ...]
    where: Expression


class DeleteNodes(Frozen):
    """Deletes the nodes and every incident edge."""

    type_name: str
    where: Expression


class DeleteEdges(Frozen):
    type_name: str
    where: Expression


Statement = InsertNode | InsertEdge | InsertMatches | UpdateNodes | DeleteNodes | DeleteEdges


class MutationPlan(Frozen):
    name: str
    parameters: tuple[DeclaredParameter, ...]
    statements: tuple[Statement, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    description: str | None = None
    instruction: str | None = None


QueryPlan = ReadPlan | MutationPlan
