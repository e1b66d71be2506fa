"""Running a mutation's statements in a transaction, in order; each sees the effects of those before it."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.language.catalog import EntityType, NodeType
from omnigraph.language.query.plan import (
    DeleteEdges,
    DeleteNodes,
    Expression,
    InsertEdge,
    InsertNode,
    MutationPlan,
    UpdateNodes,
)
from omnigraph.write.matching import Matcher
from omnigraph.write.transaction import Transaction


def run_mutation(transaction: Transaction, plan: MutationPlan, parameters: Mapping[str, object]) -> None:
    """`parameters` are bound values. Nothing is published: the transaction decides when."""
    matcher = transaction.matcher(parameters)
    catalog = transaction.view.catalog
    for statement in plan.statements:
        match statement:
            case InsertNode(name, values):
                node = catalog.nodes[name]
                row = {key: matcher.value(expression) for key, expression in values}
                if node.key:
                    transaction.upsert(name, row)
                else:
                    transaction.insert(name, row)
            case InsertEdge(name, source, target, values):
                row = {key: matcher.value(expression) for key, expression in values}
                transaction.insert_edge(name, matcher.value(source), matcher.value(target), row)
            case UpdateNodes(name, values, where):
                _update(transaction, catalog.nodes[name], values, where, matcher)
            case DeleteNodes(name, where):
                _delete(transaction, catalog.nodes[name], where, matcher)
            case DeleteEdges(name, where):
                _delete(transaction, catalog.edges[name], where, matcher)


def _update(
    transaction: Transaction,
    node: NodeType,
    values: tuple[tuple[str, Expression], ...],
    where: Expression,
    matcher: Matcher,
) -> None:
    committed, own = transaction.matches(node, where, matcher)
    for rows, is_pending in ((committed, False), (own, True)):
        for row, assigned in zip(rows, matcher.assigned(node.table_key, values, rows), strict=True):
            transaction.apply_update(node, row, assigned, is_pending=is_pending)


def _delete(transaction: Transaction, entity: EntityType, where: Expression, matcher: Matcher) -> None:
    committed, own = transaction.matches(entity, where, matcher)
    transaction.apply_delete(entity, committed, own)
