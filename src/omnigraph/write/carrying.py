"""Converts a write that lost the race to a schema change into one under the new schema.

Types and properties are matched by their stable ids, so neither renames nor additions are an obstacle. A property that the write
sets must still exist, its values must still fit it, and its rows must obey the rules of the new schema. Otherwise the write ends
with a conflict on `schema`.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.errors import ExpectedVersionMismatch, InputError, OmnigraphError, ValueViolation
from omnigraph.history import SCHEMA, PublishPlan, Snapshot
from omnigraph.language.catalog import Catalog, EdgeType, EntityType
from omnigraph.language.projection import project
from omnigraph.language.schema.stored_columns import is_readable
from omnigraph.views import Repository
from omnigraph.write.delta import Delta, NewRows


class Carrying:
    """Converts a write from the schema of its plan to that of a newer snapshot."""

    def __init__(self, repository: Repository, plan: PublishPlan, snapshot: Snapshot) -> None:
        self.before = repository.catalog(plan.schema)
        self.after = repository.catalog(snapshot.schema)
        self.expected, self.snapshot = plan.base, snapshot

    def mismatch(self, reason: str) -> ExpectedVersionMismatch:
        return ExpectedVersionMismatch(SCHEMA, self.expected.seq, self.snapshot.commit.ref.seq, reason=reason)

    def key(self, key: str) -> str:
        """The current key of a table."""
        return self._now(self.before.tables[key]).table_key

    def _now(self, entity: EntityType) -> EntityType:
        now = self.after.by_id.get(entity.id)
        if now is None:
            raise self.mismatch(f"{entity.name} was dropped")
        return now

    def plan(self, plan: PublishPlan) -> PublishPlan:
        """The plan with the current keys of its tables. Conflict if a change depends on the exact state of a table that has
        changed."""
        changes = []
        for change in plan.changes:
            key = self.key(change.key)
            state = self.snapshot.table(key)
            if change.mode == "strict" and change.base != state:
                versions = (side.generation if side else 0 for side in (change.base, state))
                raise ExpectedVersionMismatch(key, *versions)
            changes.append(replace(change, key=key))
        known = {key: self.key(key) for key in plan.reads if self.before.tables[key].id in self.after.by_id}
        return replace(
            plan,
            schema=self.snapshot.schema,
            changes=tuple(changes),
            reads=tuple(known.values()),
            read_states={known[key]: state for key, state in plan.read_states.items() if key in known},
        )

    def delta(self, delta: Delta) -> Delta:
        """The change of one table, with rows of the current type."""
        entity = self._now(delta.entity)
        self.check_values(delta.entity, delta.assigned)
        try:
            rows = project(delta.rows, delta.entity, entity)
        except ValueError as error:
            raise self.mismatch(f"values of {entity.name} do not fit it any more: {error}") from None
        return replace(delta, entity=entity, new=NewRows.of_table(rows))

    def check_values(self, before: EntityType, names: frozenset[str]) -> None:
        """Conflict unless every property that the write sets still exists, and reads what the write stores, and ids follow from the
        same key."""
        entity = self._now(before)
        if entity.key_ids not in ((), before.key_ids):
            raise self.mismatch(f"{before.name} has another key")
        known = {property.id: property for property in entity.properties.values()}
        for name in sorted(names):
            now = known.get(before.properties[name].id)
            if now is None:
                raise self.mismatch(f"{before.name}.{name} was dropped")
            if not is_readable(before.properties[name], now):
                raise self.mismatch(f"{before.name}.{name} has a narrower type")

    def refused(self, error: InputError) -> OmnigraphError:
        """Why the rows cannot be written: the change of the schema, if they obeyed the rules that they were checked against."""
        entity = next(
            (candidate for candidate in self.after.tables.values() if candidate.name == error.type_name), None
        )
        if isinstance(error, ValueViolation) or (entity is not None and self._has_new_rules(entity)):
            return self.mismatch(error.message)
        return error

    def _has_new_rules(self, entity: EntityType) -> bool:
        before = self.before.by_id.get(entity.id)
        return before is None or _rules(self.before, before) != _rules(self.after, entity)


def _rules(catalog: Catalog, entity: EntityType) -> tuple[object, ...]:
    """The rules of a type beyond its values, independent of names."""
    ids = {name: property.id for name, property in entity.properties.items()}
    unique = {
        frozenset(str(ids.get(name, name)) for name in constraint.fields)
        for constraint in entity.constraints_of("unique")
    }
    if not isinstance(entity, EdgeType):
        return (unique,)
    return unique, entity.min_out, entity.max_out, tuple(node.id for _, _, node in catalog.ends(entity))
