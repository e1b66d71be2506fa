"""Candidate rows of a search, found through its indexes, so that functions are computed for few rows.

Text indexes give every row that can match; the others are dropped when the function itself is computed. A vector index searches
only the most promising part of a large table, which is what `@index` on a vector asks for: there `nearest` may miss a row. Its
order is exact among the rows it finds, and the same on every engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UsageError
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.predicates import Predicate, conjuncts
from omnigraph.language.catalog import Language
from omnigraph.language.query.plan import Bm25, Nearest, TextMatch
from omnigraph.language.query.search import MAX_EDITS
from omnigraph.read.inputs.scans import scan_table
from omnigraph.read.search import text, text as vectors
from omnigraph.read.sql.shapes import NodeInput
from omnigraph.snapshot import View
from omnigraph.tables.addresses import ROW_ID
from omnigraph.tables.indexes import IndexSpec, coverage
from omnigraph.tables.searching import find_nearest, find_text
from omnigraph.tables.table import Table

MIN_TEXT_ROWS = 10_000
"""Smaller tables are scanned."""
TEXT_SHARE = 8
"""Words that more than one row in this many has are not looked up."""
DOT_ABOVE = "\u0307"
"""In lower case, a capital I with a dot is an i and this mark, at which the index splits the lower-case word."""
EXACT_BYTES = 64 * 1024 * 1024
"""Up to this many bytes of vectors are compared one by one."""
MIN_FUSED = 1_024
"""At least this many of the nearest rows take part in a fusion, whatever the limit; beyond that, the next power of two times
this."""
SURPLUS = 16
"""Extra rows fetched beyond those wanted, to see whether rows at the same distance were cut off."""


@dataclass(frozen=True)
class Candidates:
    """The rows (with the requested columns), and how they were found."""

    rows: pa.Table
    how: str


def find_candidates(
    table: Table, node: NodeInput, columns: Sequence[str], arguments: Arguments, *, forced: bool = False
) -> Candidates | None:
    """None if the table is to be scanned. `forced` uses every index there is, whatever the sizes."""
    return _Finder(table, node, columns, arguments, forced).find()


def words_of(arguments: Arguments, search: TextMatch | Bm25) -> list[str]:
    """The distinct words of a search function's query that are looked up; the index turns them into terms."""
    query = arguments.value(search.query)
    if not isinstance(query, str):
        return []
    keeps_all = search.language == "simple" or (isinstance(search, TextMatch) and search.kind == "phrase")
    return [word for word in dict.fromkeys(text.words(query)) if keeps_all or word not in text.STOP_WORDS]


def find_words(
    table: Table,
    column: str,
    words: Sequence[str],
    language: Language,
    columns: Sequence[str],
    *,
    every: bool,
    filter: str | None,
    forced: bool = False,
) -> pa.Table | None:
    """The rows that have every (or any) word; None if no index covers the column, the table is small, or there are too many."""
    if not words or any(DOT_ABOVE in word for word in words):
        return None
    if not (forced or table.rows >= MIN_TEXT_ROWS) or not _covered(table, IndexSpec(column, "INVERTED", language)):
        return None
    limit = table.rows + 1 if forced else table.rows // TEXT_SHARE
    rows = find_text(table, column, words, columns, every=every, filter=filter, limit=limit)
    return None if rows.num_rows >= limit else rows


def _covered(table: Table, spec: IndexSpec) -> bool:
    """Whether the index covers at least half of the rows."""
    state = coverage(table, [spec])[spec.name]
    return state.covered_rows > 0 and state.covered_rows >= state.pending_rows


class _Finder:
    def __init__(
        self, table: Table, node: NodeInput, columns: Sequence[str], arguments: Arguments, forced: bool
    ) -> None:
        self.table = table
        self.node = node
        self.columns = columns
        self.arguments = arguments
        self.forced = forced
        self.predicate = Predicate(node.filters, arguments)

    def find(self) -> Candidates | None:
        for condition in conjuncts(self.node.filters):
            if isinstance(condition, TextMatch) and condition.kind != "fuzzy":
                rows = self._words(condition, every=condition.kind in ("all_words", "phrase"))
                if rows is not None:
                    return Candidates(rows.drop_columns([ROW_ID]), f"text index of {condition.property.column}")
        ranked = self.node.ranked
        if ranked is None:
            return None
        pieces = []
        for arm in ranked.arms:
            rows = self._words(arm, every=False) if isinstance(arm, Bm25) else self._nearest(arm)
            if rows is None:
                return None
            pieces.append(rows)
        named = " and ".join(dict.fromkeys(_named(arm) for arm in ranked.arms))
        return Candidates(_union(pieces).drop_columns([ROW_ID]), named)

    def _words(self, search: TextMatch | Bm25, *, every: bool) -> pa.Table | None:
        words = words_of(self.arguments, search)
        return find_words(
            self.table,
            search.property.column,
            words,
            search.language,
            self.columns,
            every=every,
            filter=self.predicate.filter,
            forced=self.forced,
        )

    def _nearest(self, arm: Nearest) -> pa.Table | None:
        """The nearest rows; None unless the search itself can apply every condition, and no ties are cut off."""
        query = self.arguments.value(arm.query)
        depth = self._depth()
        column = arm.property.column
        if depth is None or not isinstance(query, list) or not self._is_large(column):
            return None
        if not _covered(self.table, IndexSpec(column, "IVF_FLAT", arm.metric)):
            return None
        limit = depth * 2 + SURPLUS
        wanted = [float(number) for number in query]
        rows = find_nearest(
            self.table,
            column,
            wanted,
            list(dict.fromkeys([*self.columns, column])),
            metric=arm.metric,
            filter=self.predicate.filter,
            limit=limit,
        )
        distances = sorted(
            distance
            for distance in vectors.distances(rows.column(column), wanted, arm.metric).to_pylist()
            if distance is not None
        )
        if rows.num_rows >= limit and (len(distances) < limit or distances[depth - 1] == distances[-1]):
            return None
        return rows.select([*self.columns, ROW_ID])

    def _depth(self) -> int | None:
        ranked = self.node.ranked
        if ranked is None or ranked.depth is None:
            return None
        if self.predicate.remaining:
            return None
        depth = sum(self.arguments.number(cut) for cut in ranked.depth)
        if depth > 0 and len(ranked.arms) > 1:
            # The same rows for every page of a query: ranks are counted among them.
            return MIN_FUSED << max(0, (depth - 1) // MIN_FUSED).bit_length()
        return depth if depth > 0 else None

    def _is_large(self, column: str) -> bool:
        dimension = self.table.schema.field(column).type.list_size
        return self.forced or self.table.rows * dimension * 4 > EXACT_BYTES


def _named(arm: Nearest | Bm25) -> str:
    kind = "text index" if isinstance(arm, Bm25) else "vector index"
    return f"{kind} of {arm.property.column}"


def _union(pieces: Sequence[pa.Table]) -> pa.Table:
    """Each row once."""
    if len(pieces) == 1:
        return pieces[0]
    rows = pa.concat_tables(pieces)
    first: dict[int, int] = {}
    for place, row in enumerate(rows.column(ROW_ID).to_pylist()):
        first.setdefault(row, place)
    return rows.take(list(first.values()))


# Search functions row by row, authoritative for every engine. An index only saves work, except that a
# vector index may miss rows (`candidates`).


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
