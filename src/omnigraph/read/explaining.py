"""What a read would do: its relational form, and how each input is read, with the estimates behind the choice."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.predicates import Predicate
from omnigraph.indexing.adjacency import adjacency_rows
from omnigraph.language.query.plan import ReadPlan, TextQuery
from omnigraph.read.execution import evaluate, given_rows, instant, result_table, run_read
from omnigraph.read.result import Result, Timing
from omnigraph.read.search.texts import with_vectors
from omnigraph.read.sql.shapes import RelationalQuery
from omnigraph.read.steps import Measured, Step, steps_of, tree_text, united_steps
from omnigraph.read.strategies import answer
from omnigraph.read.strategies.strategy import InputChoice, Mode, Read, ResultAnswer, hop_name
from omnigraph.relational.sql import to_sql
from omnigraph.snapshot import View


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
    """How a read would run, or how it ran; printed, it is a readable tree. `sql` is what its engine runs.

    >>> explanation = g.explain(Path("people.gq"), {"of": "Ada"}, name="friends")
    >>> assert explanation.commit == g.head().id
    """

    commit: str
    keys: str
    inputs: tuple[InputColumns, ...]
    choices: tuple[InputChoice, ...]
    sql: str
    steps: tuple[Step, ...]
    timing: Timing | None = None
    """How long it took, if it was run."""

    def __repr__(self) -> str:
        return f"<Explanation: {len(self.inputs)} inputs at {self.commit}>"

    def __str__(self) -> str:
        joined = "" if self.keys == "nothing" else f", joined on {self.keys}"
        return f"commit {self.commit}{joined}\n{tree_text(self.steps, is_measured=self.timing is not None)}"


def explain(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    *,
    mode: Mode = "auto",
    now: dt.datetime | None = None,
    analyze: bool = False,
    deadline: Deadline = NEVER,
) -> Explanation:
    """Choose as `run_read` would, which reads inputs, and report the choices; with `analyze`, run the rest too."""
    started = time.perf_counter()
    arguments = with_vectors(view, plan, Arguments(parameters, instant(now), deadline, view.memory))
    embedded = tuple(_embedded(view, text) for text in plan.texts if text.name not in parameters)
    if plan.union is not None:
        return _explain_union(view, plan, arguments, mode, embedded, analyze=analyze)
    start_rows = given_rows(plan, partial(_run, view, arguments, mode), {})
    read = Read(view, plan, arguments, mode, start_rows)
    answered = answer(read)
    run = timing = None
    if analyze:
        read_ended = time.perf_counter()
        evaluated = evaluate(answered, read.arguments)
        engine_ended = time.perf_counter()
        final = result_table(view, answered, evaluated)
        timing = Timing(read_ended - started, engine_ended - read_ended, time.perf_counter() - started)
        run = Measured(started, timing.engine_s, timing.total_s, final.num_rows)
    commit = view.snapshot.commit.id
    answered = replace(answered, choices=_with_adjacency(view, plan, answered.choices))
    choices = (*embedded, *answered.choices)
    is_counted = any(choice.path == "metadata" for choice in answered.choices)
    if is_counted:
        steps = steps_of(plan, answered, {}, embedded, run)
        return Explanation(commit, "nothing", (), choices, "", steps, timing)
    before = None
    if plan.pattern.start_rows is not None:
        stage, known = plan.pattern.start_rows.read, arguments.parameters
        before = explain(view, stage, known, mode=mode, now=arguments.now, analyze=analyze, deadline=deadline)
    if isinstance(answered, ResultAnswer):
        query, expansions, keys = read.prepared().query, [], "numbers"
    else:
        query = answered.prepared.query
        expansions = [hop.name for hop in query.hops if hop.name in answered.relations]
        keys = "ids" if query.keys == "id" else "ordinals"
    sql = to_sql(query.whole(expansions), "duckdb", copy=False, pretty=True)
    steps = steps_of(plan, answered, _conditions(query, read.arguments), embedded, run)
    explained = Explanation(commit, keys, _columns(query, read.arguments), choices, sql, steps, timing)
    return explained if before is None else _after(before, explained)


def _run(view: View, arguments: Arguments, mode: Mode, plan: ReadPlan) -> Result:
    return run_read(view, plan, arguments.parameters, mode=mode, now=arguments.now, deadline=arguments.deadline)


def _after(before: Explanation, explained: Explanation) -> Explanation:
    """With the stage before it, whose rows it starts from."""
    deepest = max(step.depth for step in explained.steps)
    stage = tuple(replace(step, depth=step.depth + deepest) for step in before.steps)
    return replace(
        explained,
        inputs=(*before.inputs, *explained.inputs),
        choices=(*before.choices, *explained.choices),
        sql=f"{before.sql}\nTHEN\n{explained.sql}",
        steps=(*explained.steps, *stage),
    )


def _explain_union(
    view: View,
    plan: ReadPlan,
    arguments: Arguments,
    mode: Mode,
    embedded: tuple[InputChoice, ...],
    *,
    analyze: bool,
) -> Explanation:
    assert plan.union is not None, "only a union is explained part by part"
    started = time.perf_counter()
    parts = [
        explain(
            view,
            part,
            arguments.parameters,
            mode=mode,
            now=arguments.now,
            analyze=analyze,
            deadline=arguments.deadline,
        )
        for part in plan.union.parts
    ]
    inputs = tuple(input_ for part in parts for input_ in part.inputs)
    choices = (*embedded, *(choice for part in parts for choice in part.choices))
    run = timing = None
    if analyze:
        result = run_read(view, plan, arguments.parameters, mode=mode, now=arguments.now, deadline=arguments.deadline)
        timing = result.timing
        run = Measured(started, timing.engine_s, timing.total_s, len(result))
    steps = united_steps([part.steps for part in parts], run)
    sql = "\nUNION\n".join(part.sql for part in parts)
    return Explanation(parts[0].commit, parts[0].keys, inputs, choices, sql, steps, timing)


def _conditions(query: RelationalQuery, arguments: Arguments) -> dict[str, str]:
    """The condition on each input, by the name that its choice has."""
    conditions = {}
    for node in query.inputs:
        text = Predicate(node.filters, arguments).filter
        conditions[f"${node.variable}"] = f": {' | '.join(node.types)}" + (f" where {text}" if text else "")
    for hop in query.hops:
        text = Predicate(hop.filters, arguments).filter
        conditions[hop_name(hop.expansion)] = f" where {text}" if text else ""
    return conditions


def _embedded(view: View, text: TextQuery) -> InputChoice:
    model = view.repository.filling().settings.embedder(text.model).provider.model
    return InputChoice(f"text for {text.owner}.{text.property}", "embedding", None, f"with {model}")


def _with_adjacency(view: View, plan: ReadPlan, choices: Sequence[InputChoice]) -> tuple[InputChoice, ...]:
    """The choices, saying of which edges the adjacency is not stored."""
    tables = {hop_name(hop): [f"edge:{name}" for name in hop.edges] for hop in plan.pattern.expansions}
    noted = []
    for choice in choices:
        keys = tables.get(choice.what, ()) if choice.path == "csr" else ()
        is_missing = any(adjacency_rows(view, key) == 0 for key in keys)
        noted.append(replace(choice, estimate=f"{choice.estimate}, not stored") if is_missing else choice)
    return tuple(noted)


def _columns(query: RelationalQuery, arguments: Arguments) -> tuple[InputColumns, ...]:
    texts = []
    for node in query.inputs:
        columns = ("id", *(c.stored for c in node.columns), *(c.expression.property.column for c in node.computed))
        tables = tuple(f"node:{name}" for name in node.types)
        unique = tuple(dict.fromkeys(columns))
        texts.append(InputColumns(node.name, tables, unique, Predicate(node.filters, arguments).filter))
    for hop in query.hops:
        bound = ("id",) if hop.expansion.reads_edges else ()
        columns = tuple(dict.fromkeys(("src", "dst", *bound, *(column.stored for column in hop.columns))))
        texts.append(InputColumns(hop.edges, hop.table_keys, columns, Predicate(hop.filters, arguments).filter))
    return tuple(texts)
