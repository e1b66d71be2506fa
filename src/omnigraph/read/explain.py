"""What a read would do: its relational form, and how each input is reached, with the estimates behind the choice."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.expressions.arguments import Arguments
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.query.plan import ReadPlan, TextQuery
from omnigraph.read.execution import instant
from omnigraph.read.inputs.adjacency import despite_lost_segments
from omnigraph.read.search.texts import with_vectors
from omnigraph.read.sql.shapes import RelationalQuery
from omnigraph.read.strategies import InputChoice, Mode, Read, answer
from omnigraph.relational.sql import to_sql
from omnigraph.views import View


@dataclass(frozen=True)
class InputColumns:
    """What is read of one input: the table (or tables), the stored columns, and the filter the scan applies.

    >>> assert ("edge:Knows",) in [columns.tables for columns in explanation.inputs]
    """

    name: str
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    filter: str | None


@dataclass(frozen=True)
class Explanation:
    """How a read would run; printed, it is text for people.

    >>> explanation = g.explain("people.gq", {"of": "Ada"}, name="friends")
    >>> assert explanation.commit == g.commit().id
    """

    commit: str
    keys: str
    inputs: tuple[InputColumns, ...]
    choices: tuple[InputChoice, ...]
    sql: str

    def __repr__(self) -> str:
        return f"<Explanation: {len(self.inputs)} inputs at {self.commit}>"

    def __str__(self) -> str:
        lines = [f"commit {self.commit}, joined on {self.keys}"]
        for choice in self.choices:
            rows = "" if choice.rows is None else f", {choice.rows} rows"
            why = f" ({choice.estimate})" if choice.estimate else ""
            lines.append(f"  {choice.what}: {choice.path}{rows}{why}")
        for input_ in self.inputs:
            condition = "" if input_.filter is None else f" where {input_.filter}"
            lines.append(f"  {input_.name} = {' + '.join(input_.tables)} ({', '.join(input_.columns)}){condition}")
        return "\n".join([*lines, self.sql])


def explain(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    *,
    mode: Mode = "auto",
    now: dt.datetime | None = None,
) -> Explanation:
    """Choose as `run_read` would (inputs are read for that, the tree is not run) and say what was chosen."""
    arguments = with_vectors(view, plan, Arguments(parameters, instant(now)))
    embedded = tuple(_embedded(view, text) for text in plan.texts if text.name not in parameters)
    if plan.union is not None:
        parts = [explain(view, part, arguments.parameters, mode=mode, now=arguments.now) for part in plan.union.parts]
        inputs = tuple(input_ for part in parts for input_ in part.inputs)
        choices = (*embedded, *(choice for part in parts for choice in part.choices))
        return Explanation(
            parts[0].commit, parts[0].keys, inputs, choices, "\nUNION\n".join(part.sql for part in parts)
        )
    read = Read(view, plan, arguments, mode)
    answered = despite_lost_segments(view, lambda: answer(Read(view, plan, arguments, mode)))
    commit = view.snapshot.commit.id
    choices = (*embedded, *answered.choices)
    if answered.prepared is None:
        return Explanation(commit, "nothing", (), choices, "")
    query = answered.prepared.query
    expansions = [hop.name for hop in query.hops if hop.name in answered.relations]
    sql = to_sql(query.whole(expansions), "duckdb", copy=False, pretty=True)
    keys = "ids" if query.keys == "id" else "ordinals"
    return Explanation(commit, keys, _columns(query, read.arguments), choices, sql)


def _embedded(view: View, text: TextQuery) -> InputChoice:
    model = view.repository.filling().settings.embedder(text.model).provider.model
    return InputChoice(f"text for {text.owner}.{text.property}", "embedding", None, f"with {model}")


def _columns(query: RelationalQuery, arguments: Arguments) -> tuple[InputColumns, ...]:
    found = []
    for node in query.inputs:
        columns = ("id", *(c.stored for c in node.columns), *(c.expression.property.column for c in node.computed))
        tables = tuple(f"node:{name}" for name in node.types)
        unique = tuple(dict.fromkeys(columns))
        found.append(InputColumns(node.name, tables, unique, Predicate(node.filters, arguments).filter))
    for hop in query.hops:
        bound = ("id",) if hop.expansion.reads_edges else ()
        columns = tuple(dict.fromkeys(("src", "dst", *bound, *(column.stored for column in hop.columns))))
        found.append(InputColumns(hop.edges, (hop.table_key,), columns, Predicate(hop.filters, arguments).filter))
    return tuple(found)
