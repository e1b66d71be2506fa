"""The steps of a read as a readable tree: what each does, how it reaches its rows, how many, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.strategies.strategy import Answer, InputChoice, TreeAnswer

_ACCESS = {
    "metadata": "row counts",
    "lookup": "lookup",
    "search": "search index",
    "scan": "scan",
    "index": "edge index",
    "csr": "adjacency",
    "sql": "join",
    "embedding": "embedding",
    "arrays": "arrays",
}


@dataclass(frozen=True)
class Step:
    """One step of a read. Its rows come from the steps that follow it at a greater depth.

    >>> assert explanation.steps[0].what.startswith("return ")
    """

    depth: int
    what: str
    access: str = ""
    """How it reaches its rows: a lookup by index, a scan, an adjacency in memory, a join of the engine ..."""
    expected: int | None = None
    """Rows estimated in advance."""
    rows: int | None = None
    """Actual rows; for steps that need the engine, only after the query was run."""
    seconds: float | None = None
    """How long it took, after the query was run."""
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """Measurements of a run: when it started, the seconds of the engine and in total, and the rows of the result."""

    started: float
    engine_s: float
    total_s: float
    rows: int


def steps_of(
    plan: ReadPlan, answered: Answer, conditions: dict[str, str], embedded: Sequence[InputChoice], run: Measured | None
) -> tuple[Step, ...]:
    """The tree of one read, root first. `conditions`: the condition on an input, by the name that its choice has."""
    rows, total_s = (None, None) if run is None else (run.rows, run.total_s)
    steps = [Step(0, _returned(plan), rows=rows, seconds=total_s)]
    for what in _above_engine(plan):
        steps.append(Step(len(steps), what))
    depth = len(steps)
    if isinstance(answered, TreeAnswer):
        steps.append(Step(depth, "join and compute", "DuckDB", seconds=None if run is None else run.engine_s))
        depth += 1
    began = None if run is None else run.started
    for choice in (*embedded, *answered.choices):
        seconds = None if began is None else max(choice._at - began, 0.0)
        began = None if began is None else max(choice._at, began)
        condition = conditions.get(choice.what, "")
        what = f"{choice.what}{condition}"
        steps.append(Step(depth, what, _ACCESS[choice.path], choice.expected, choice.rows, seconds, choice.estimate))
    return tuple(steps)


def united_steps(parts: Sequence[Sequence[Step]], run: Measured | None) -> tuple[Step, ...]:
    rows, total_s = (None, None) if run is None else (run.rows, run.total_s)
    inner = [replace(step, depth=step.depth + 1) for part in parts for step in part]
    return (Step(0, "union", rows=rows, seconds=total_s), *inner)


def _returned(plan: ReadPlan) -> str:
    distinct = "distinct " if plan.distinct else ""
    return f"return {distinct}{', '.join(column.name for column in plan.columns)}"


def _above_engine(plan: ReadPlan) -> list[str]:
    steps = []
    if plan.limit is not None or plan.offset is not None:
        steps.append("limit")
    if plan.order:
        steps.append(f"order by {len(plan.order)} key{'s' if len(plan.order) > 1 else ''}")
    if plan.having:
        steps.append("having")
    if plan.grouped:
        steps.append("group and aggregate")
    return steps


# ---------------------------------------------------------------- as text


def tree_text(steps: Sequence[Step], *, is_measured: bool) -> str:
    """The steps with branches drawn, and their numbers in columns."""
    head = ["step", "access", "expected", "rows", *(["ms"] if is_measured else [])]
    lines = [[line, *_numbers(step, is_measured)] for line, step in zip(_drawn(steps), steps, strict=True)]
    widths = [max(len(row[at]) for row in [head, *lines]) for at in range(len(head))]
    texts = []
    for row, note in zip([head, *lines], ["", *(step.note for step in steps)], strict=True):
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        texts.append(("  ".join(cells) + (f"  ({note})" if note else "")).rstrip())
    return "\n".join(texts)


def _numbers(step: Step, is_measured: bool) -> list[str]:
    def number(value: int | None) -> str:
        return "" if value is None else f"{value:,}"

    shown = [step.access, number(step.expected), number(step.rows)]
    return [*shown, "" if step.seconds is None else f"{step.seconds * 1_000:.2f}"] if is_measured else shown


def _drawn(steps: Sequence[Step]) -> list[str]:
    lines = []
    for at, step in enumerate(steps):
        marks = [_goes_on(steps, at, depth) for depth in range(1, step.depth + 1)]
        ahead = "".join("│  " if mark else "   " for mark in marks[:-1])
        lines.append(f"{ahead}{'├─ ' if marks[-1] else '└─ '}{step.what}" if marks else step.what)
    return lines


def _goes_on(steps: Sequence[Step], at: int, depth: int) -> bool:
    """Whether another step of this depth follows before the tree returns above it."""
    for step in steps[at + 1 :]:
        if step.depth < depth:
            return False
        if step.depth == depth:
            return True
    return False
