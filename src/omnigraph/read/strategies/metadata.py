"""`count($p)` over a bare binding: every snapshot has its row counts. Nothing is read, nothing compiled."""

from __future__ import annotations

from omnigraph._internal.lazy_imports import pa
from omnigraph.language.query.plan import Aggregate, EntityRef, ReadPlan
from omnigraph.read.strategies.strategy import InputChoice, Read, ResultAnswer, Strategy


def _answer(read: Read) -> ResultAnswer | None:
    if not _is_bare_count(read.plan):
        return None
    binding = read.plan.pattern.bindings[0]
    total = sum(read.view.rows(f"node:{type_name}") for type_name in binding.types)
    table = pa.table({column.name: pa.array([total], pa.int64()) for column in read.plan.projections})
    return ResultAnswer((InputChoice(f"${binding.variable}", "metadata", total),), table)


def _is_bare_count(plan: ReadPlan) -> bool:
    pattern = plan.pattern
    bare = len(pattern.bindings) == 1 and not pattern.expansions and not pattern.filters
    bare = bare and not (pattern.start_rows or pattern.unnests or pattern.optionals)
    counted = all(
        isinstance(column.expression, Aggregate) and isinstance(column.expression.operand, EntityRef)
        for column in plan.projections
    )
    return bare and counted and not plan.having and plan.limit is None and plan.offset is None


METADATA = Strategy("metadata", frozenset({"auto"}), _answer)
