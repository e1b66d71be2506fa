"""Which checks a write needs: one function from its changes to the checks, for every kind of writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from omnigraph.language.catalog import Catalog, EdgeType, EntityType
from omnigraph.rules.cardinality import CardinalityCheck
from omnigraph.rules.check import Check
from omnigraph.rules.endpoints import DanglingCheck, EndpointCheck, ends_of
from omnigraph.rules.keys import KeyCheck
from omnigraph.rules.values import UniqueCheck, ValueCheck, has_value_rules


class Change(NamedTuple):
    """What a write does to one type. `inserts`: adds rows whose ids must be free. `replaces`: puts rows with any id, in place of
    the existing row if there is one. `deletes`: removes rows without replacing them."""

    inserts: bool = False
    replaces: bool = False
    deletes: bool = False

    @property
    def puts(self) -> bool:
        return self.inserts or self.replaces


def checks_of(catalog: Catalog, entity: EntityType, change: Change) -> Iterator[Check]:
    """The checks that a change of one type needs."""
    if change.puts:
        if has_value_rules(entity):
            yield ValueCheck(entity)
        yield KeyCheck(entity, change.inserts)
        yield from (UniqueCheck(entity, constraint.fields) for constraint in entity.constraints_of("unique"))
    if isinstance(entity, EdgeType):
        if change.puts:
            yield from (EndpointCheck(entity, end, node) for end, node in ends_of(entity))
        loses = bool(entity.min_out) and (change.replaces or change.deletes)
        if loses or (change.puts and (entity.min_out or entity.max_out is not None)):
            yield CardinalityCheck(entity, gains=change.puts, loses=loses)
        return
    for edge in catalog.edges_of(entity.name):
        if change.deletes:
            yield from (DanglingCheck(edge, end, node) for end, node in ends_of(edge) if node == entity.name)
        if change.puts and edge.min_out and edge.source == entity.name:
            yield CardinalityCheck(edge, sources=True)


def plan_checks(catalog: Catalog, changes: Mapping[str, Change]) -> list[Check]:
    """The checks of a write, in the order in which they run and report violations: by rule, nodes before edges, by name of the
    type. `changes` by table."""
    checks: list[Check] = []
    counted: dict[str, CardinalityCheck] = {}
    for table, change in changes.items():
        for check in checks_of(catalog, catalog.tables[table], change):
            if isinstance(check, CardinalityCheck):
                counted[check.table] = _joined(counted.get(check.table), check)
            else:
                checks.append(check)
    # The sort is stable, so a type's own constraints keep their order.
    return sorted(
        [*checks, *counted.values()], key=lambda check: (check.rank, check.table.startswith("edge:"), check.table)
    )


class CheckPlan:
    """The checks of a kind of write, and what follows from them. Made once for all such writes."""

    def __init__(self, catalog: Catalog, changes: Mapping[str, Change]) -> None:
        self.checks = tuple(plan_checks(catalog, changes))
        self.repeated = tuple(check for check in self.checks if check.others)
        """Checks that other writers can break: they run again on another snapshot."""
        self.reads = tables_read(self.checks)
        self.needs_more_rows = any(check.needs_more_rows for check in self.checks)


def _joined(first: CardinalityCheck | None, second: CardinalityCheck) -> CardinalityCheck:
    if first is None:
        return second
    return replace(
        first,
        gains=first.gains or second.gains,
        loses=first.loses or second.loses,
        sources=first.sources or second.sources,
    )


def tables_read(checks: Iterable[Check]) -> tuple[str, ...]:
    """The tables whose rows the checks rely on: if one of them changes, the write is checked again."""
    return tuple(sorted({need.table for check in checks for need in check.others}))
