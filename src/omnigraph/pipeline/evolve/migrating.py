"""Mutations that run with a schema change, in the same commit.

They are compiled and run under the new schema with the properties that it drops beside it, so that what is new can be filled
with what goes. What they write has the new schema alone, and is checked by its rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.errors import UsageError
from omnigraph.history import Entry, Snapshot, TableChange
from omnigraph.language.catalog import Catalog, EntityType, Property, stored_columns
from omnigraph.language.query.compiler import compile_queries
from omnigraph.language.query.plan import MutationPlan
from omnigraph.views import View
from omnigraph.write import GroupCommitter, Transaction, run_mutation
from omnigraph.write.constraints import check_deltas
from omnigraph.write.staging import stage_versions, write_rows


@dataclass(frozen=True)
class Migration:
    """The text of mutations without parameters, which run in their order."""

    text: str
    file: str | None = None


@dataclass(frozen=True)
class Migrated:
    """The snapshot with the new schema, and tables as the mutations left them; the files that must be durable."""

    snapshot: Snapshot
    unsynced: tuple[str, ...] = ()


def moved(snapshot: Snapshot, before: Catalog, after: Catalog) -> dict[str, TableChange]:
    """Tables whose type has another name in the schema after a change, or is gone, by key."""
    keys = {entity.id: key for key, entity in after.tables.items()}
    changes: dict[str, TableChange] = {}
    for key, entity in before.tables.items():
        state = snapshot.table(key)
        if state is not None and keys.get(entity.id) != key:
            changes[key] = TableChange(key, "strict", state, None)
    for key, entity in before.tables.items():
        now, state = keys.get(entity.id), snapshot.table(key)
        if state is not None and now is not None and now != key:
            changes[now] = TableChange(now, "strict", snapshot.table(now), state)
    return changes


def under(view: View, after: Catalog, digest: str) -> Snapshot:
    """The snapshot of a view with its tables under the names of another schema."""
    tables = dict(view.snapshot.tables)
    for key, change in moved(view.snapshot, view.catalog, after).items():
        if change.state is None:
            tables.pop(key)
        else:
            tables[key] = change.state
    return replace(view.snapshot, schema=digest, tables=tables)


def migrate(view: View, entry: Entry, after: Catalog, migration: Migration) -> Migrated:
    """Run the mutations; their rows are staged, and nothing is visible yet."""
    repository = view.repository
    both = _with_dropped(view.catalog, after)
    reading = repository.view(under(view, after, repository.hold_catalog(both)))
    writing = repository.view(under(view, after, repository.hold_catalog(after)))
    transaction = Transaction(repository, GroupCommitter(repository), entry.branch, at=(entry, reading))
    for plan in _mutations(both, migration):
        run_mutation(transaction, plan, {})
    deltas = {
        key: replace(delta, entity=after.tables[key]) for key, delta in transaction.deltas(writing.schema).items()
    }
    addresses = check_deltas(writing, deltas)
    staged = stage_versions(writing, deltas, addresses, write_rows(writing, deltas))
    tables = dict(writing.snapshot.tables)
    tables.update({change.key: change.state for change, _ in staged if change.state is not None})
    unsynced = repository.tables.unsynced(version for _, version in staged)
    return Migrated(replace(writing.snapshot, tables=tables), unsynced)


def check_migration(before: Catalog, after: Catalog, migration: Migration) -> None:
    """Raise what keeps the mutations from running with the change from one schema to the other. Rows are not looked at."""
    _mutations(_with_dropped(before, after), migration)


def _mutations(catalog: Catalog, migration: Migration) -> list[MutationPlan]:
    plans = []
    for plan in compile_queries(migration.text, catalog, migration.file).values():
        if not isinstance(plan, MutationPlan):
            raise UsageError(f"'{plan.name}' is a read", hint="a migration consists of mutations")
        if plan.parameters:
            raise UsageError(f"'{plan.name}' has parameters", hint="write the values into the migration")
        plans.append(plan)
    return plans


def _with_dropped(before: Catalog, after: Catalog) -> Catalog:
    """The new schema, in which nothing is required yet, with the properties that it drops."""
    known = {entity.id: entity for entity in before.tables.values()}

    def properties(entity: EntityType) -> dict[str, Property]:
        kept = {property.id for property in entity.properties.values()}
        found = {name: _nullable(property) for name, property in entity.properties.items()}
        for name, property in known[entity.id].properties.items() if entity.id in known else ():
            if property.id not in kept and name not in found:
                found[name] = replace(_nullable(property), columns=stored_columns(property))
        return found

    nodes = {
        name: replace(node, properties=properties(node) | {key: node.properties[key] for key in node.key})
        for name, node in after.nodes.items()
    }
    edges = {name: replace(edge, properties=properties(edge)) for name, edge in after.edges.items()}
    return replace(after, nodes=nodes, edges=edges)


def _nullable(property: Property) -> Property:
    return replace(property, type=replace(property.type, nullable=True))
