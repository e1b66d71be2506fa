"""The syntax tree of `.gq`: what was written, with positions, before any name is looked up.

Positions do not take part in equality, so two texts that differ in layout only have equal trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal as OneOf

from omnigraph._internal.frozen import Frozen
from omnigraph.language.parsing.cursor import Position

# The keywords of queries. All but the reserved ones are soft: where they mean nothing, they are names.

RESERVED = ("and", "or", "not", "is", "in", "null", "true", "false")
"""They name no edge and are no bare name where an operator or a value may stand."""

KEYWORDS = (
    *("query", "match", "with", "return", "distinct", "as", "order", "asc", "desc", "limit", "offset"),
    *("insert", "create", "upsert", "update", "set", "where", "delete"),
    *RESERVED,
    *("contains", "starts_with", "ends_with"),
    *("shortest", "path", "paths", "from", "to", "along", "via", "after", "union", "optional", "unnest", "having"),
    *("collect", "median", "percentile", "first", "last", "by", "count", "sum", "avg", "min", "max"),
    *("case", "when", "then", "else", "end", "any", "all", "exists", "now", "date", "datetime"),
    *("search", "all_words", "phrase", "fuzzy", "match_text", "nearest", "bm25", "rrf"),
)


# ---------------------------------------------------------------- expressions

LiteralKind = OneOf["string", "integer", "float", "bool", "null", "date", "datetime"]
ComparisonOp = OneOf["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "ends_with", "in"]
ArithmeticOp = OneOf["+", "-", "*", "/", "%"]
CallName = OneOf["search", "all_words", "phrase", "fuzzy", "match_text", "nearest", "bm25", "rrf"]
AggregateName = OneOf["count", "sum", "avg", "min", "max", "collect", "median", "percentile", "first", "last"]
BlockKind = OneOf["not", "exists", "count"]


class Literal(Frozen):
    kind: LiteralKind
    value: str | int | float | bool | None
    at: Position = field(compare=False, repr=False)


class ListLiteral(Frozen):
    items: tuple[Expr, ...]
    at: Position = field(compare=False, repr=False)


class RecordLiteral(Frozen):
    """`{ name: value, … }`."""

    fields: tuple[Assignment, ...]
    at: Position = field(compare=False, repr=False)


class Variable(Frozen):
    """`$name`, without the `$`: a bound entity or a parameter."""

    name: str
    at: Position = field(compare=False, repr=False)


class PropertyAccess(Frozen):
    variable: str
    name: str
    at: Position = field(compare=False, repr=False)
    name_at: Position = field(compare=False, repr=False)


class Word(Frozen):
    """A bare name: a result column in `order`, a property in a mutation's `where`."""

    name: str
    at: Position = field(compare=False, repr=False)


class NowCall(Frozen):
    at: Position = field(compare=False, repr=False)


class Minus(Frozen):
    operand: Expr
    at: Position = field(compare=False, repr=False)


class Not(Frozen):
    operand: Expr
    at: Position = field(compare=False, repr=False)


class Logical(Frozen):
    """`a and b and c`: two or more operands of one connective."""

    op: OneOf["and", "or"]
    operands: tuple[Expr, ...]
    at: Position = field(compare=False, repr=False)


class Arithmetic(Frozen):
    op: ArithmeticOp
    left: Expr
    right: Expr
    at: Position = field(compare=False, repr=False)


class Comparison(Frozen):
    """`at` is the position of the operator."""

    op: ComparisonOp
    left: Expr
    right: Expr
    at: Position = field(compare=False, repr=False)


class NullTest(Frozen):
    operand: Expr
    negated: bool
    at: Position = field(compare=False, repr=False)


class Call(Frozen):
    function: CallName
    arguments: tuple[Expr, ...]
    at: Position = field(compare=False, repr=False)


class FunctionCall(Frozen):
    """A function of values, such as `lower($p.name)`."""

    function: str
    arguments: tuple[Expr, ...]
    at: Position = field(compare=False, repr=False)


class Duration(Frozen):
    """`30 days`, which can be added to a date or an instant; the unit is in the singular."""

    count: int
    unit: str
    at: Position = field(compare=False, repr=False)


class WhenBranch(Frozen):
    condition: Expr
    value: Expr
    at: Position = field(compare=False, repr=False)


class CaseExpression(Frozen):
    """`case when … then … else … end`."""

    branches: tuple[WhenBranch, ...]
    otherwise: Expr | None
    at: Position = field(compare=False, repr=False)


class Quantifier(Frozen):
    """`any($item in list where condition)`, or `all`."""

    kind: OneOf["any", "all"]
    variable: str
    items: Expr
    condition: Expr
    at: Position = field(compare=False, repr=False)
    variable_at: Position = field(compare=False, repr=False)


class AggregateCall(Frozen):
    """`argument` is the fraction of `percentile`, and the order of `first` and `last`."""

    function: AggregateName
    operand: Expr
    distinct: bool
    argument: Expr | None
    at: Position = field(compare=False, repr=False)


class Block(Frozen):
    """`not { }`, `exists { }` or `count { }`."""

    kind: BlockKind
    clauses: tuple[Clause, ...]
    at: Position = field(compare=False, repr=False)


Expr = (
    Literal
    | ListLiteral
    | RecordLiteral
    | Variable
    | PropertyAccess
    | Word
    | NowCall
    | Minus
    | Not
    | Logical
    | Arithmetic
    | Comparison
    | NullTest
    | Call
    | FunctionCall
    | Duration
    | CaseExpression
    | Quantifier
    | AggregateCall
    | Block
)

# ---------------------------------------------------------------- patterns


class Assignment(Frozen):
    """`name: value`, in a record, a binding, an insert or an update."""

    name: str
    value: Expr
    at: Position = field(compare=False, repr=False)


class BindingClause(Frozen):
    variable: str
    type_name: str
    properties: tuple[Assignment, ...]
    at: Position = field(compare=False, repr=False)
    type_at: Position = field(compare=False, repr=False)


class Hops(Frozen):
    """`{m,n}`; `maximum` is None for `{m,}`."""

    minimum: int
    maximum: int | None
    at: Position = field(compare=False, repr=False)


class EachHop(Frozen):
    """`via $node after $before where condition`: what holds for each hop of a walk."""

    node: str | None
    before: str | None
    condition: Expr
    at: Position = field(compare=False, repr=False)


class TraversalClause(Frozen):
    source: str
    edge: str
    target: str
    undirected: bool
    edge_variable: str | None
    hops: Hops | None
    at: Position = field(compare=False, repr=False)
    edge_at: Position = field(compare=False, repr=False)
    target_at: Position = field(compare=False, repr=False)
    edge_variable_at: Position = field(compare=False, repr=False)
    per_hop: EachHop | None = None
    others: tuple[Word, ...] = ()
    """The edges after the first of `knows|likes`."""

    @property
    def words(self) -> str:
        """Its edges as they are written."""
        return "|".join((self.edge, *(other.name for other in self.others)))


class FilterClause(Frozen):
    condition: Expr
    at: Position = field(compare=False, repr=False)


class OptionalClause(Frozen):
    """`optional { … }`: its matches, or one row of nulls."""

    clauses: tuple[Clause, ...]
    at: Position = field(compare=False, repr=False)


class UnnestClause(Frozen):
    """`unnest list as $item`: a row for each item."""

    items: Expr
    variable: str
    at: Position = field(compare=False, repr=False)
    variable_at: Position = field(compare=False, repr=False)


class PathClause(Frozen):
    """`shortest path $path from $a to $b along edge{1,6} by weight`, and `shortest paths`: every one."""

    variable: str | None
    traversal: TraversalClause
    weight: str | None
    is_every: bool
    at: Position = field(compare=False, repr=False)
    variable_at: Position = field(compare=False, repr=False)
    weight_at: Position = field(compare=False, repr=False)


Clause = BindingClause | TraversalClause | PathClause | FilterClause | OptionalClause | UnnestClause

# ---------------------------------------------------------------- queries


class TypeExpr(Frozen):
    name: str
    is_list: bool
    dimension: int | None
    nullable: bool
    at: Position = field(compare=False, repr=False)


class ParameterDecl(Frozen):
    name: str
    type: TypeExpr
    default: Expr | None
    at: Position = field(compare=False, repr=False)


class ReturnItem(Frozen):
    expression: Expr
    alias: str | None
    at: Position = field(compare=False, repr=False)


class OrderItem(Frozen):
    expression: Expr
    direction: OneOf["asc", "desc"] | None
    at: Position = field(compare=False, repr=False)


class ReadBody(Frozen):
    clauses: tuple[Clause, ...]
    items: tuple[ReturnItem, ...]
    distinct: bool
    having: tuple[Expr, ...]
    order: tuple[OrderItem, ...]
    limit: Literal | Variable | None
    offset: Literal | Variable | None
    others: tuple[ReadBody, ...] = ()
    """The parts of a union after the first. Order, limit and offset of the whole are in the first part."""
    keeps_all: bool = False
    """`union all`: equal rows stay."""
    before: ReadBody | None = None
    """The stage from whose rows it goes on, and so do the other parts of its union: a read whose items `with` carries on. Only with
    one may there be no clauses."""


InsertVerb = OneOf["insert", "create", "upsert"]


class InsertStatement(Frozen):
    """`clauses` are those of its `match`; without any, it inserts once."""

    verb: InsertVerb
    type_name: str
    assignments: tuple[Assignment, ...]
    clauses: tuple[Clause, ...]
    at: Position = field(compare=False, repr=False)
    type_at: Position = field(compare=False, repr=False)


class UpdateStatement(Frozen):
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Expr
    at: Position = field(compare=False, repr=False)
    type_at: Position = field(compare=False, repr=False)


class DeleteStatement(Frozen):
    type_name: str
    where: Expr
    at: Position = field(compare=False, repr=False)
    type_at: Position = field(compare=False, repr=False)


StatementSyntax = InsertStatement | UpdateStatement | DeleteStatement


class MutationBody(Frozen):
    statements: tuple[StatementSyntax, ...]


class QueryDecl(Frozen):
    name: str
    parameters: tuple[ParameterDecl, ...]
    description: str | None
    instruction: str | None
    body: ReadBody | MutationBody
    at: Position = field(compare=False, repr=False)


class QueryFile(Frozen):
    queries: tuple[QueryDecl, ...]


# ---------------------------------------------------------------- walking

Node = (
    Expr
    | WhenBranch
    | Clause
    | EachHop
    | Assignment
    | ReturnItem
    | OrderItem
    | ReadBody
    | MutationBody
    | StatementSyntax
)

_PARTS: dict[type, tuple[str, ...]] = {
    ListLiteral: ("items",),
    RecordLiteral: ("fields",),
    Minus: ("operand",),
    Not: ("operand",),
    Logical: ("operands",),
    Arithmetic: ("left", "right"),
    Comparison: ("left", "right"),
    NullTest: ("operand",),
    Call: ("arguments",),
    FunctionCall: ("arguments",),
    WhenBranch: ("condition", "value"),
    CaseExpression: ("branches", "otherwise"),
    Quantifier: ("items", "condition"),
    AggregateCall: ("operand", "argument"),
    Block: ("clauses",),
    Assignment: ("value",),
    BindingClause: ("properties",),
    FilterClause: ("condition",),
    EachHop: ("condition",),
    TraversalClause: ("per_hop",),
    PathClause: ("traversal",),
    OptionalClause: ("clauses",),
    UnnestClause: ("items",),
    ReturnItem: ("expression",),
    OrderItem: ("expression",),
    ReadBody: ("before", "clauses", "items", "having", "others", "order", "limit", "offset"),
    MutationBody: ("statements",),
    InsertStatement: ("assignments", "clauses"),
    UpdateStatement: ("assignments", "where"),
    DeleteStatement: ("where",),
}


def children(node: Node) -> list[Node]:
    """The direct children of a node, in text order."""
    nodes: list[Node] = []
    for part in _PARTS.get(type(node), ()):
        value = getattr(node, part)
        if isinstance(value, tuple):
            nodes.extend(value)
        elif value is not None:
            nodes.append(value)
    return nodes


def walk(node: Node) -> Iterator[tuple[Node, int]]:
    """A node and all its descendants, with their depths, parents first. Not recursive."""
    stack: list[tuple[Node, int]] = [(node, 1)]
    while stack:
        current, depth = stack.pop()
        yield current, depth
        stack.extend((child, depth + 1) for child in reversed(children(current)))
