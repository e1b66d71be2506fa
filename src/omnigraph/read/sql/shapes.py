"""The relational form of a read: one SQL tree over named inputs, which DuckDB and Spark both run.

Names in the tree are neutral (n0, e0, x0; columns k, t, c0 …), because both engines fold the case of names and a schema does not.
`n` relations are nodes, `e` relations edges, `x` relations the pairs that an expansion reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.sql import Known
from omnigraph.language.query.plan import (
    UNBOUNDED,
    Bm25,
    Constant,
    Expansion,
    Expression,
    Nearest,
    Parameter,
    ResultColumn,
    TextMatch,
)
from omnigraph.relational.sql import exp
from omnigraph.values.types import PropertyType

Keys = Literal["id", "ordinal"]
"""What joins compare: ids as stored, or ordinals, the positions of ids in their sorted order (compact, same order)."""

KEY = "k"
"""The key of an entity, in every `n` relation."""
TYPE = "t"
MARK = "/"
"""Between a key and its type where edges of one hop join different node types: their ends are then such texts."""
"""The type of an entity, in an `n` relation, or in an `e` or `x` relation with the edges themselves, over several types."""
SOURCE, TARGET, EDGE = "s", "d", "k"
"""Columns of an `x` relation: both ends as the expansion sees them; with an edge variable also the edge's id."""


GIVEN = "g"
"""The relation of the rows that an earlier stage gives: their number, k, their values, c0 …, and the ids of its entities, v0 …"""


@dataclass(frozen=True)
class InputColumn:
    """A column of an input: the name that the tree uses, and the stored one."""

    alias: str
    stored: str


@dataclass(frozen=True)
class Computed:
    """A column that is computed row by row from a text or a vector (see `search`)."""

    alias: str
    expression: TextMatch | Nearest | Bm25


@dataclass(frozen=True)
class Ranked:
    """The query keeps a row only if one of these functions ranks it."""

    arms: tuple[Nearest | Bm25, ...]
    depth: tuple[Constant | Parameter, ...] | None
    """How many rows of each are wanted at most (limit + offset); None if joins or groups come in between."""


@dataclass(frozen=True)
class NodeInput:
    """The nodes that a variable ranges over: columns k, t (several types only), `columns`, `computed`.

    `filters` involve no other variable. The tree applies them too, so applying them early is only an optimisation.
    """

    name: str
    variable: str
    place: str
    """The variable's name in the whole query: two blocks may use the same name for different variables."""
    types: tuple[str, ...]
    columns: tuple[InputColumn, ...]
    computed: tuple[Computed, ...]
    filters: tuple[Expression, ...]
    ranked: Ranked | None = None


@dataclass(frozen=True)
class Along:
    """Conditions along a walk. Those of `each` are over the columns of the edges; those of `between` over an edge `h`, the node `v`
    from which it starts, and what was reached before it, `l`, which has the columns of its last edge if the walk is `by_edge`."""

    per_hop: tuple[exp.Expression, ...]
    between: tuple[exp.Expression, ...]
    node: str | None
    """The input of the nodes `v`."""
    node_key: exp.Expression
    """What the ends of edges say of a node `v`."""
    by_edge: bool


@dataclass(frozen=True)
class HopInput:
    """An expansion. `name` is its `x` relation; `edges` the relation over the edge tables: src, dst, (id, (t,)) `columns`. If edges
    join different node types, src and dst have the types with the ids.

    `source` and `target` name the node inputs at its ends; None if an end is known by its id alone.
    """

    name: str
    edges: str
    expansion: Expansion
    columns: tuple[InputColumn, ...]
    filters: tuple[Expression, ...]
    source: str | None
    target: str | None
    places: tuple[str, str]
    """The variables at its ends, by their names in the whole query."""
    block: str
    """The pattern it belongs to. It does not restrict variables of the surrounding patterns."""
    along: Along | None = None

    def narrows(self, place: str) -> bool:
        """Whether the nodes that this expansion reaches limit a variable. They do not if its block only tests the variable."""
        return place.startswith(f"{self.block}.")

    @property
    def table_keys(self) -> tuple[str, ...]:
        return tuple(f"edge:{name}" for name in self.expansion.edges)

    @property
    def table_key(self) -> str:
        """The table of an expansion that follows one type."""
        (key,) = self.table_keys
        return key

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of an `x` relation that say which edge a row is: ids are unique within a type."""
        return (EDGE, TYPE) if self.expansion.others else (EDGE,)


Definition = Callable[[], Sequence[tuple[str, "exp.Query"]]]
"""The queries that define an expansion's relation, in order. Built on demand: many hops are many queries."""


@dataclass(frozen=True)
class OutputColumn:
    """One result column: the column of the tree that holds its value, or the key (and type) columns of a whole entity."""

    column: ResultColumn
    value: str
    type: PropertyType | None
    types: tuple[str, ...] = ()
    """The types of the node whose key `value` is."""
    type_column: str | None = None
    is_key: bool = False
    """Whether `value` holds keys, which are ids unless the query is compiled over ordinals."""

    @property
    def is_entity(self) -> bool:
        return self.type is None


@dataclass(frozen=True)
class RelationalQuery:
    """`tree` reads the `n` and `x` relations; `definitions` say how each expansion follows from `n` and `e` relations.

    `placeholders` are the parameters of the tree, with the values of the query that they stand for.
    """

    tree: exp.Select
    inputs: tuple[NodeInput, ...]
    hops: tuple[HopInput, ...]
    definitions: Mapping[str, Definition]
    outputs: tuple[OutputColumn, ...]
    placeholders: Mapping[str, Known]
    keys: Keys
    block: str
    """The outermost pattern."""

    def whole(self, supplied: Collection[str] = ()) -> exp.Select:
        """The tree with every expansion defined in SQL, except those whose relation is `supplied`.

        It reads the `n` relations, and the `e` relations of the expansions it defines.
        """
        tree = self.tree.copy()
        existing = tree.args.get("with_")
        ctes = [] if existing is None else list(existing.expressions)
        wanted = [hop.name for hop in self.hops if hop.name not in supplied]
        first = [common(name, query) for hop in wanted for name, query in self.definitions[hop]()]
        recursive = any(hop.expansion.max_hops == UNBOUNDED for hop in self.hops if hop.name in wanted)
        tree.set("with_", exp.With(expressions=[*first, *ctes], recursive=recursive) if first or ctes else None)
        return tree

    def placed(self, arguments: Arguments) -> dict[str, object]:
        """The values of the tree's parameters."""
        return {place: arguments.value(known) for place, known in self.placeholders.items()}


def marked(key: exp.Expression, kind: exp.Expression) -> exp.Expression:
    """A key with its type, as it stands at the ends of edges that join different node types."""
    return exp.DPipe(this=exp.DPipe(this=key, expression=exp.Literal.string(MARK)), expression=kind)


def common(name: str, query: exp.Query) -> exp.CTE:
    """`name AS (query)` in a WITH clause."""
    return exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
