"""Runs the statements of a mutation in a transaction, in order; each sees the effects of those before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omnigraph.expressions.functions import Arguments
from omnigraph.language.catalog import EntityType, NodeType
from omnigraph.language.query.plan import (
    DeleteEdges,
    DeleteNodes,
    Expression,
    InsertEdge,
    InsertMatches,
    InsertNode,
    MutationPlan,
    ReadPlan,
    UpdateNodes,
)
from omnigraph.snapshot import View
from omnigraph.write.pending import Matcher, Row
from omnigraph.write.transaction import WriteTransaction

Reading = Callable[[View, ReadPlan, Arguments], Sequence[Row]]
"""Runs the `match` of an insert; returns its rows, by column."""


def run_mutation(
    transaction: WriteTransaction, plan: MutationPlan, parameters: Mapping[str, object], reading: Reading
) -> None:
    """Run all statements. `parameters` are bound values. Nothing is published yet."""
    matcher = transaction.matcher(parameters)
    catalog = transaction.view.catalog
    for statement in plan.statements:
        match statement:
            case InsertNode() | InsertEdge():
                _insert(transaction, statement, matcher)
            case InsertMatches(insert, rows):
                # All rows are matched before the first insert: an insert does not match what it inserts.
                for row in reading(transaction.preview(rows.reads), rows, matcher.arguments):
                    _insert(transaction, insert, matcher, row)
            case UpdateNodes(name, values, where):
                _update(transaction, catalog.nodes[name], values, where, matcher)
            case DeleteNodes(name, where):
                _delete(transaction, catalog.nodes[name], where, matcher)
            case DeleteEdges(name, where):
                _delete(transaction, catalog.edges[name], where, matcher)


def adds_only(plan: MutationPlan) -> bool:
    """Whether the mutation reads no row of the branch."""
    return all(isinstance(statement, InsertNode | InsertEdge) for statement in plan.statements)


def _insert(
    transaction: WriteTransaction, insert: InsertNode | InsertEdge, matcher: Matcher, matched: Row | None = None
) -> None:
    values = {name: matcher.value(expression, matched) for name, expression in insert.values}
    if isinstance(insert, InsertEdge):
        ends = matcher.value(insert.source, matched), matcher.value(insert.target, matched)
        transaction.insert_edge(insert.type_name, *ends, values, strict=insert.strict)
    elif insert.strict:
        transaction.insert(insert.type_name, values)
    else:
        transaction.upsert(insert.type_name, values)


def _update(
    transaction: WriteTransaction,
    node: NodeType,
    values: tuple[tuple[str, Expression], ...],
    where: Expression,
    matcher: Matcher,
) -> None:
    committed, own = transaction.matches(node, where, matcher)
    for rows, is_pending in ((committed, False), (own, True)):
        for row, assigned in zip(rows, matcher.assigned(node.table_key, values, rows), strict=True):
            transaction.apply_update(node, row, assigned, is_pending=is_pending)


def _delete(transaction: WriteTransaction, entity: EntityType, where: Expression, matcher: Matcher) -> None:
    committed, own = transaction.matches(entity, where, matcher)
    transaction.apply_delete(entity, committed, own)
