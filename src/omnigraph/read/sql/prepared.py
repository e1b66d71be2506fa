"""Compiled queries, cached: one tree per plan and form, one SQL text per set of supplied relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from omnigraph.language.catalog import Catalog
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.sql.compiler import compile_read
from omnigraph.read.sql.key_columns import keys_as_ids
from omnigraph.read.sql.shapes import Keys, RelationalQuery
from omnigraph.relational.sql import to_sql
from omnigraph.relational.trees import exp
from omnigraph.remembered import Remembered

Form = TypeVar("Form")


class PreparedQuery:
    """A compiled query and its SQL texts."""

    def __init__(self, plan: ReadPlan, compiled: ReadPlan, query: RelationalQuery) -> None:
        self.plan = plan
        self.query = query
        self._compiled = compiled
        self._forms: dict[Callable[[ReadPlan], Any], Any] = {}
        self._texts: dict[frozenset[str], str] = {}

    def form(self, make: Callable[[ReadPlan], Form]) -> Form:
        """The plan as one strategy sees it, made once."""
        if make not in self._forms:
            self._forms[make] = make(self._compiled)
        form: Form = self._forms[make]
        return form

    def sql(self, supplied: frozenset[str]) -> str:
        """DuckDB's text if these relations are supplied; expansions not among them are defined in SQL."""
        expansions = frozenset(hop.name for hop in self.query.hops if hop.name in supplied)
        text = self._texts.get(expansions)
        if text is None:
            text = self._texts[expansions] = to_sql(self.query.whole(expansions), "duckdb", copy=False)
        return text

    def uses(self, name: str) -> int:
        """How often the tree, with every expansion defined in SQL, reads a relation."""
        return sum(table.name == name for table in self.query.whole().find_all(exp.Table))


_prepared: Remembered[PreparedQuery] = Remembered(512)


def prepare(plan: ReadPlan, catalog: Catalog, keys: Keys, *, elide: bool = True) -> PreparedQuery:
    """The compiled form of a plan. Plans come back as the same object: the language caches them by text and schema."""

    def compiled_query() -> PreparedQuery:
        compiled = keys_as_ids(plan, catalog) if elide else plan
        return PreparedQuery(plan, compiled, compile_read(compiled, catalog, keys=keys, elide=elide))

    # The cached value holds the plan, so no other plan can get its id.
    return _prepared.get((id(plan), catalog.hash, keys, elide), compiled_query)
