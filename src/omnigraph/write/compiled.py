"""The rules of one type as SQL text, compiled once, with the cheap questions that spare running them.

A rule has one meaning, its SQL. What stands beside it here only tells that a set of rows cannot possibly break it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from omnigraph.language.catalog import Constraint, EdgeType, EntityType
from omnigraph.relational import rules
from omnigraph.relational.sql import to_sql

if TYPE_CHECKING:
    import pyarrow as pa

End = Literal["src", "dst"]
TYPES_KEPT = 1_024


@dataclass(frozen=True)
class UniqueRule:
    """Over relations `new` and `old`; `columns` are what both need."""

    constraint: Constraint
    columns: tuple[str, ...]
    in_batch: str
    against: str


class CompiledRules:
    """Texts are made when they are first asked for. Relations: `new` rows, `old` rows, `nodes`, `edges`."""

    def __init__(self, entity: EntityType) -> None:
        self.entity = entity

    @cached_property
    def values(self) -> str | None:
        query = rules.value_violations(self.entity, "new")
        return None if query is None else to_sql(query, "duckdb")

    @cached_property
    def duplicate_ids(self) -> str:
        return to_sql(rules.duplicate_ids("new"), "duckdb")

    @cached_property
    def unique(self) -> tuple[UniqueRule, ...]:
        return tuple(
            UniqueRule(
                constraint,
                tuple(dict.fromkeys(("id", *constraint.fields))),
                to_sql(rules.unique_in_batch(constraint, "new"), "duckdb"),
                to_sql(rules.unique_against(constraint, "new", "old"), "duckdb"),
            )
            for constraint in rules.unique_constraints(self.entity)
        )

    @cached_property
    def endpoints(self) -> dict[End, str]:
        ends: tuple[End, ...] = ("src", "dst")
        return {end: to_sql(rules.missing_endpoints(end, "new", "nodes"), "duckdb") for end in ends}

    @cached_property
    def cardinality(self) -> str | None:
        assert isinstance(self.entity, EdgeType)
        query = rules.cardinality(self.entity, "new", "edges")
        return None if query is None else to_sql(query, "duckdb")

    @cached_property
    def _conditions(self) -> tuple[tuple[str, bool], ...]:
        """(property, whether its null is what is wrong), for each check of one row."""
        return tuple((check.property, check.rule == "required") for check in rules.value_checks(self.entity))

    def may_break_values(self, rows: pa.Table) -> bool:
        """A required null, or a value where another check looks at one (a null satisfies those)."""
        return any(
            rows.column(name).null_count > 0 if required else rows.column(name).null_count < rows.num_rows
            for name, required in self._conditions
        )

    def may_break_cardinality(self, edges: int) -> bool:
        """`edges`: how many the touched sources have together."""
        assert isinstance(self.entity, EdgeType)
        return self.entity.min_out > 0 or (self.entity.max_out is not None and edges > self.entity.max_out)


_compiled: OrderedDict[Hashable, CompiledRules] = OrderedDict()
_lock = threading.Lock()


def compiled_rules(entity: EntityType) -> CompiledRules:
    """The rules of a type, made once for all types that say the same."""
    key = _meaning(entity)
    with _lock:
        found = _compiled.get(key)
        if found is None:
            found = _compiled[key] = CompiledRules(entity)
            while len(_compiled) > TYPES_KEPT:
                _compiled.popitem(last=False)
        else:
            _compiled.move_to_end(key)
        return found


def _meaning(entity: EntityType) -> Hashable:
    """All of a type that its rules look at."""
    properties = tuple((name, property.type) for name, property in entity.properties.items())
    ends = (entity.source, entity.target, entity.min_out, entity.max_out) if isinstance(entity, EdgeType) else ()
    return entity.table_key, properties, entity.constraints, ends
