"""The result of a read: Arrow inside; rows, data frames, graphs and JSON on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import load_extra, pa, pc
from omnigraph.errors import ArithmeticOverflow, UsageError
from omnigraph.history.values import Commit
from omnigraph.language.query.plan import EntityRef, Expansion, PropertyRef, ReadPlan, ResultColumn
from omnigraph.values.arrow import Entity, JsonValue, Value, arrow_type, python_values, with_zone, zoned
from omnigraph.values.json_values import DAYS, MICROSECONDS, json_value
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import igraph
    import networkx
    import pandas
    import polars


# A result as a graph: the nodes that it holds whole, and the edges that its pattern matched between them.

NodeName = tuple[str, str]
"""Type and id: ids are unique within a type only."""


@dataclass(frozen=True)
class Link:
    """A hop between two node columns; `properties` maps columns to the edge's own properties."""

    edge: str
    source: str
    target: str
    properties: dict[str, str]


@dataclass
class ResultGraph:
    nodes: dict[NodeName, Entity] = field(default_factory=dict)
    edges: list[tuple[NodeName, NodeName, dict[str, Value]]] = field(default_factory=list)

    def to_networkx(self) -> networkx.MultiDiGraph:
        graph = load_extra("networkx", "to_networkx").MultiDiGraph()
        graph.add_nodes_from(self.nodes.items())
        graph.add_edges_from(self.edges)
        return graph

    def to_igraph(self) -> igraph.Graph:
        graph = load_extra("igraph", "to_igraph").Graph(directed=True)
        places = {name: place for place, name in enumerate(self.nodes)}
        vertices: list[dict[str, Value]] = [{"type": name[0], **entity} for name, entity in self.nodes.items()]
        graph.add_vertices(len(vertices), attributes=_columns(vertices))
        ends = [(places[source], places[target]) for source, target, _ in self.edges]
        graph.add_edges(ends, attributes=_columns([attributes for _, _, attributes in self.edges]))
        return graph


def _columns(rows: Sequence[dict[str, Value]]) -> dict[str, list[Value]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def result_graph(plan: ReadPlan, rows: Sequence[dict[str, Value]]) -> ResultGraph:
    """Raises UsageError if the query returns no whole node."""
    columns = {
        projection.expression.variable: column.name
        for projection, column in zip(plan.projections, plan.columns, strict=True)
        if isinstance(projection.expression, EntityRef)
    }
    if not columns:
        raise UsageError("this result holds no nodes", hint="return whole nodes, for example return { $a, $b }")
    patterns = (plan.pattern, *plan.pattern.optionals)
    types = {
        binding.variable: binding.interface or " | ".join(binding.types)
        for pattern in patterns
        for binding in pattern.bindings
        if binding.variable in columns
    }
    hops = [hop for pattern in patterns for hop in pattern.expansions]
    links = [_link(plan, hop) for hop in hops if _is_edge(hop, columns)]
    graph = ResultGraph()
    seen: set[str] = set()
    for row in rows:
        names: dict[str, NodeName] = {}
        for variable, column in columns.items():
            entity = row[column]
            if entity is None:  # an optional block had no match
                continue
            assert isinstance(entity, dict), "a whole node"
            names[variable] = (types[variable], str(entity["id"]))
            graph.nodes.setdefault(names[variable], entity)
        for link in links:
            if link.source not in names or link.target not in names:
                continue
            attributes = {name: row[column] for column, name in link.properties.items()} | {"type": link.edge}
            edge = (names[link.source], names[link.target], attributes)
            if (text := repr(edge)) not in seen:
                seen.add(text)
                graph.edges.append(edge)
    return graph


def _is_edge(hop: Expansion, columns: dict[str, str]) -> bool:
    """Whether a hop is a single edge between nodes that are in the result."""
    return hop.min_hops == hop.max_hops == 1 and hop.source in columns and hop.target in columns


_ENDS = {"src": "from", "dst": "to"}


def _link(plan: ReadPlan, hop: Expansion) -> Link:
    source, target = (hop.target, hop.source) if hop.direction == "in" else (hop.source, hop.target)
    properties = {
        column.name: _ENDS.get(projection.expression.column, projection.expression.column)
        for projection, column in zip(plan.projections, plan.columns, strict=True)
        if isinstance(projection.expression, PropertyRef) and projection.expression.variable == hop.edge_variable
    }
    return Link("|".join(hop.edges), source, target, properties)


TABLE_ROWS = 50
"""How many rows of a result a notebook shows."""


@dataclass(frozen=True)
class Timing:
    """Seconds spent on reading and reducing the inputs, on the relational part, and in total.

    >>> assert 0 <= result.timing.engine_s <= result.timing.total_s
    """

    inputs_s: float
    engine_s: float
    total_s: float


@dataclass(frozen=True)
class Values:
    """Columns of a few rows as Python values, as stored in a column of their type. Converted to Arrow only on demand."""

    names: tuple[str, ...]
    types: tuple[PropertyType, ...]
    columns: Sequence[Sequence[object]]

    @property
    def num_rows(self) -> int:
        return len(self.columns[0])

    @cached_property
    def table(self) -> pa.Table:
        cells = [pa.array(column, arrow_type(type_)) for type_, column in zip(self.types, self.columns, strict=True)]
        return pa.table(cells, names=list(self.names))

    def rows(self) -> list[dict[str, Value]]:
        """Rows with the values that users see."""
        columns = [
            [with_zone(value) for value in column] if type_.scalar is Scalar.DATETIME else column
            for type_, column in zip(self.types, self.columns, strict=True)
        ]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]


def result_cells(cells: pa.Array | pa.ChunkedArray, type_: PropertyType | None) -> pa.Array | pa.ChunkedArray:
    """Computed values in the type of their column (None: an id). Raises ArithmeticOverflow for values that it does not hold."""
    target = pa.utf8() if type_ is None else arrow_type(type_)
    try:
        cells = cells if cells.type == target else cells.cast(target)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow from error
    if type_ is not None and type_.scalar in _RANGES:
        _check_range(cells, type_.scalar)
    return cells


_RANGES = {Scalar.DATE: DAYS, Scalar.DATETIME: MICROSECONDS}


def _check_range(cells: pa.Array | pa.ChunkedArray, scalar: Scalar) -> None:
    """Computed dates and timestamps may leave the supported range of years."""
    flat = pc.list_flatten(cells) if pa.types.is_list(cells.type) else cells
    extremes = pc.min_max(flat.cast(pa.int32() if scalar is Scalar.DATE else pa.int64())).as_py()
    first, last = _RANGES[scalar]
    if extremes["min"] is not None and not (first <= extremes["min"] and extremes["max"] <= last):
        raise ArithmeticOverflow


class Rows:
    """Rows in every format: Python values, Arrow, data frames, JSON, and a table in a notebook."""

    _content: pa.Table | Values

    @property
    def _table(self) -> pa.Table:
        content = self._content
        return content.table if isinstance(content, Values) else content

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self._content.num_rows)

    @cached_property
    def rows(self) -> list[dict[str, Value]]:
        """Rows as Python values: int, float, str, bool, date, datetime (UTC), list, dict for a whole entity."""
        if isinstance(self._content, Values):
            return self._content.rows()
        lists = [python_values(column) for column in self._table.columns]
        names = self._table.column_names
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return iter(self.rows)

    def _repr_html_(self) -> str:
        """In a notebook: a table of the first rows."""
        from html import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self._table.column_names)
        shown = self._table.slice(0, TABLE_ROWS)
        lists = [python_values(column) for column in shown.columns]
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>"
            for row in zip(*lists, strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{self._count_text()}</p>"

    def __str__(self) -> str:
        """A table of the first rows, as text."""
        shown = self._table.slice(0, TABLE_ROWS)
        columns = [
            [name, *(_cell(value).replace("\n", " ") for value in python_values(column))]
            for name, column in zip(shown.column_names, shown.columns, strict=True)
        ]
        widths = [max(map(len, column)) for column in columns]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*columns, strict=True)]
        return "\n".join([*lines, f"({self._count_text()})"])

    def _count_text(self) -> str:
        if len(self) > TABLE_ROWS:
            return f"{TABLE_ROWS} of {len(self)} rows"
        return "1 row" if len(self) == 1 else f"{len(self)} rows"

    # ------------------------------------------------------------ in other forms

    def to_arrow(self) -> pa.Table:
        """An Arrow table; timestamps are in UTC, whole entities are structs.

        >>> assert result.to_arrow().column_names == ["name", "age"]
        """
        return zoned(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow stream that other libraries accept."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame; timestamps have the time zone UTC.

        >>> assert result.to_pandas()["age"].max() == 54
        """
        load_extra("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """A Polars DataFrame; timestamps have the time zone UTC.

        >>> assert result.to_polars()["age"].max() == 54
        """
        frame: polars.DataFrame = load_extra("polars", "to_polars").DataFrame(self)
        return frame

    def to_json(self) -> list[dict[str, JsonValue]]:
        """Rows as JSON values: integers beyond 2^53 - 1, NaN and infinities as text, dates and timestamps as ISO text.

        >>> born = g.query('query q() { match { $p: Person { name: "Ada" } } return { $p.born as born } }')
        >>> assert born.to_json() == [{"born": "1815-12-10T06:30:00.000Z"}]
        """
        return [{name: json_value(value) for name, value in row.items()} for row in self.rows]

    def _json_pieces(self, cells: int) -> Iterator[list[dict[str, JsonValue]]]:
        """The rows of `to_json`, about so many cells at a time. What was yielded is not held."""
        names = self._table.column_names
        step = max(cells // max(len(names), 1), 1)
        for start in range(0, self.num_rows, step):
            lists = [map(json_value, python_values(column)) for column in self._table.slice(start, step).columns]
            yield [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


@dataclass(frozen=True)
class Result(Rows):
    """The rows of a query, the commit they were read from, and how long it took.

    It has a length, iterates over its rows, is displayed as a table in a notebook and by `print`, and is an Arrow stream:
    `pyarrow.table(result)`, `polars.DataFrame(result)` and `duckdb.sql("from result")` accept it directly.

    >>> result = g.query(Path("people.gq"), name="everyone")
    >>> assert len(result) == 4
    >>> for row in result:
    ...     print(row["name"], row["age"])
    """

    _content: pa.Table | Values
    _plan: ReadPlan
    commit: Commit
    timing: Timing

    @property
    def query_name(self) -> str:
        """The name of the query in its text."""
        return self._plan.name

    @property
    def commit_id(self) -> str:
        """The id of the commit that was read.

        >>> assert result.commit_id == result.commit.id
        """
        return self.commit.id

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """Name and kind of each column."""
        return self._plan.columns

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"<Result of {self.query_name}: {len(self)} rows of ({names}) at {self.commit.id}>"

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The nodes that the query returns whole, and the edges it matched between them, as a NetworkX graph.

        A node is named `(type, id)` and has its properties; an edge has its `type` and what the query returns of it.
        Parallel edges become one, unless the query distinguishes them, for example by `$e.id`.

        >>> friends = g.query("query q() { match { $a: Person  $a knows $b } return { $a, $b } }")
        >>> assert friends.to_networkx().has_edge(("Person", "Ada"), ("Person", "Bo"))
        """

        return result_graph(self._plan, self.rows).to_networkx()

    def to_igraph(self) -> igraph.Graph:
        """Like `to_networkx`, as a directed igraph graph; `type` and `id` are attributes of its vertices.

        >>> assert sorted(friends.to_igraph().vs["id"]) == ["Ada", "Bo", "Cy", "Dee"]
        """

        return result_graph(self._plan, self.rows).to_igraph()


def _cell(value: Value) -> str:
    shown = json_value(value)
    return "" if shown is None else shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
