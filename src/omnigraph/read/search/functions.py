"""Search functions row by row, authoritative for every engine. An index only saves work, except that a
vector index may miss rows (`candidates`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph.deadlines import NEVER, Deadline
from omnigraph.errors import UsageError
from omnigraph.expressions.arguments import Arguments
from omnigraph.language.catalog import Language
from omnigraph.language.query.plan import Bm25, Nearest, TextMatch
from omnigraph.language.query.search import MAX_EDITS
from omnigraph.read.inputs.scans import scan_table
from omnigraph.read.search import text, vectors
from omnigraph.read.search.candidates import find_words
from omnigraph.read.sql.shapes import NodeInput
from omnigraph.tables import Table
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa


class Computing:
    """The search functions of one input, ready to be applied batch by batch."""

    def __init__(self, view: View, node: NodeInput, arguments: Arguments) -> None:
        self._functions = [
            (
                computed.alias,
                computed.expression.property.column,
                _function(view, node.types, computed.expression, arguments),
            )
            for computed in node.computed
        ]

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The computed columns for these rows."""
        return {alias: function(rows.column(stored)) for alias, stored, function in self._functions}


def _function(
    view: View, types: tuple[str, ...], expression: TextMatch | Nearest | Bm25, arguments: Arguments
) -> Callable[[pa.ChunkedArray], pa.Array]:
    query = arguments.value(expression.query)
    match expression:
        case Nearest():
            wanted = vector_query(query)
            return lambda cells: vectors.distances(cells, wanted, expression.metric)
        case TextMatch():
            edits = 0 if expression.max_edits is None else edit_count(arguments.value(expression.max_edits))
            return lambda cells: text.matches(cells, expression.kind, text_query(query), expression.language, edits)
        case Bm25():
            statistics = corpus(
                view, types, expression.property.column, text_query(query), expression.language, arguments.deadline
            )
            return lambda cells: text.scores(cells, statistics)


def vector_query(query: object) -> list[float]:
    if isinstance(query, list):
        return [float(number) for number in query]
    raise UsageError("nearest was given null", hint="pass a vector or a text to look for")


def text_query(query: object) -> str:
    return query if isinstance(query, str) else ""


def edit_count(value: object) -> int:
    if type(value) is int and 0 <= value <= MAX_EDITS:
        return value
    raise UsageError(f"fuzzy was given {value} as its number of edits", hint="0, 1 or 2")


def corpus(
    view: View, types: tuple[str, ...], column: str, query: str, language: Language, deadline: Deadline = NEVER
) -> text.Statistics:
    """Statistics over every row of the types, whatever the query filters: a score does not depend on the filters."""
    terms = list(dict.fromkeys(text.terms(query, language)))
    total, holding = text.TextTotals(), Counter(dict.fromkeys(terms, 0))
    for type_name in types:
        table = view.table(f"node:{type_name}")
        if table is not None:
            total += _totals(view, table, column)
            rows = find_words(table, column, text.words(query), language, [column], every=False, filter=None)
            batches = scan_table(table, [column], None, deadline) if rows is None else rows.to_batches()
            for batch in batches:
                holding.update(text.holding(batch.column(column), terms, language))
    return text.statistics(total, holding, language)


def _totals(view: View, table: Table, column: str) -> text.TextTotals:
    """Counted fragment by fragment: a fragment's totals never change."""
    fragments = [
        view.repository.tables.runtime.cache.get(
            ("totals", view.repository.tables.root, table.path, fragment.content, column),
            lambda fragment=fragment: text.totals(table.read([column], fragments=[fragment.id]).column(0)),  # type: ignore[misc]
        )
        for fragment in table.fragments
    ]
    return sum(fragments, start=text.TextTotals())
