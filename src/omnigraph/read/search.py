"""Search functions row by row: the truth for every engine. An index may only save work, never change a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.language.plan import Bm25, Nearest, TextMatch
from omnigraph.read import text, vectors
from omnigraph.read.pushdown import Values
from omnigraph.read.shapes import NodeInput
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa


def add_computed(view: View, node: NodeInput, rows: pa.Table, values: Values) -> dict[str, pa.Array]:
    """The computed columns of a node input, for these rows."""
    computed: dict[str, pa.Array] = {}
    for one in node.computed:
        cells = rows.column(one.expression.property.column)
        computed[one.alias] = compute(view, node.types, one.expression, cells, values)
    return computed


def compute(
    view: View, types: tuple[str, ...], expression: TextMatch | Nearest | Bm25, cells: pa.ChunkedArray, values: Values
) -> pa.Array:
    """One search function over one column."""
    _, query = values.of(expression.query)
    match expression:
        case Nearest():
            return vectors.distances(cells, vector_query(query))
        case TextMatch():
            return text.matches(cells, expression.kind, text_query(query), expression.max_edits)
        case Bm25():
            statistics = corpus(view, types, expression.property.column, text_query(query))
            return text.scores(cells, statistics)


def vector_query(query: object) -> list[float]:
    if isinstance(query, list):
        return [float(number) for number in query]
    raise UsageError(
        "nearest was given a text, and no embedding provider is set up", hint="pass the vector itself as a parameter"
    )


def text_query(query: object) -> str:
    return query if isinstance(query, str) else ""


def corpus(view: View, types: tuple[str, ...], column: str, query: str) -> text.Statistics:
    """Statistics over every row of the types, whatever the query filters: a score does not depend on the filters."""
    terms = text.words(query)
    counts = text.Counts()
    for type_name in types:
        table = view.table(f"node:{type_name}")
        if table is not None:
            for batch in table.scan([column]):
                counts.add(batch.column(0), terms)
    return counts.statistics(terms)
