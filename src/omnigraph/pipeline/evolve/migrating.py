"""Mutations that run with a schema change, in the same commit.

They are compiled and run under the new schema with the properties and types that it drops beside it, so that what is new can be
filled with what goes. What they write has the new schema alone, and is checked by its rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from omnigraph.errors import UsageError
from omnigraph.history import Entry, Snapshot, TableChange
from omnigraph.language.catalog import Catalog, EntityType, Property, stored_columns
from omnigraph.language.catalog_json import catalog_hash
from omnigraph.language.query.compiler import compile_queries
from omnigraph.language.query.plan import InsertMatches, MutationPlan
from omnigraph.read import matched_rows
from omnigraph.views import Repository, View
from omnigraph.write import GroupCommitter, WriteTransaction, run_mutation
from omnigraph.write.constraints import check_deltas
from omnigraph.write.rekeying import rekey, rekeyed_edges
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


def with_keys(repository: Repository, done: Migrated, before: Catalog) -> Migrated:
    """The same, with the ids of keys that the schema before did not have. No two edges have the same key."""
    view = repository.view(done.snapshot)
    rekeyed = {edge.table_key: rekey(view, edge) for edge in rekeyed_edges(before, view.catalog)}
    tables = {key: table for key, table in rekeyed.items() if table is not None}
    states = {**done.snapshot.tables, **{key: table.state for key, table in tables.items()}}
    unsynced = repository.tables.unsynced(table.staged for table in tables.values())
    return Migrated(replace(done.snapshot, tables=states), (*done.unsynced, *unsynced))


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
    reading = repository.view(under(view, both, repository.hold_catalog(both)))
    writing = repository.view(under(view, after, repository.hold_catalog(after)))
    transaction = WriteTransaction(repository, GroupCommitter(repository), entry.branch, at=(entry, reading))
    for plan in _mutations(after, both, migration):
        transaction.run(partial(run_mutation, plan=plan, parameters={}, reading=matched_rows))
    # A node that goes takes its edges with it, those of a type that is dropped anyway too.
    changed = transaction.deltas(lambda key: (writing if key in after.tables else reading).schema(key))
    deltas = {key: replace(delta, entity=after.tables[key]) for key, delta in changed.items() if key in after.tables}
    addresses = check_deltas(writing, deltas)
    staged = stage_versions(writing, deltas, addresses, write_rows(writing, deltas))
    tables = dict(writing.snapshot.tables)
    tables.update({change.key: change.state for change, _ in staged if change.state is not None})
    unsynced = repository.tables.unsynced(version for _, versions in staged for version in versions)
    return Migrated(replace(writing.snapshot, tables=tables), unsynced)


def check_migration(before: Catalog, after: Catalog, migration: Migration) -> None:
    """Raise what keeps the mutations from running with the change from one schema to the other. Rows are not looked at."""
    _mutations(after, _with_dropped(before, after), migration)


def _mutations(after: Catalog, both: Catalog, migration: Migration) -> list[MutationPlan]:
    plans = []
    for plan in compile_queries(migration.text, both, migration.file).values():
        if not isinstance(plan, MutationPlan):
            raise UsageError(f"'{plan.name}' is a read", hint="a migration consists of mutations")
        if plan.parameters:
            raise UsageError(f"'{plan.name}' has parameters", hint="write the values into the migration")
        for statement in plan.statements:
            insert = statement.insert if isinstance(statement, InsertMatches) else statement
            if insert.type_name not in after.nodes and insert.type_name not in after.edges:
                raise UsageError(
                    f"'{plan.name}' writes {insert.type_name}, which the change drops",
                    hint="what is dropped can be read in a `match`, and goes with the commit by itself",
                )
        plans.append(plan)
    return plans


def _with_dropped(before: Catalog, after: Catalog) -> Catalog:
    """The new schema, in which nothing is required yet, with the properties and types that it drops."""
    known = {entity.id: entity for entity in before.tables.values()}
    kept = {entity.id: entity.name for entity in after.tables.values()}
    words = {name.lower() for name in after.edges}

    def properties(entity: EntityType) -> dict[str, Property]:
        ids = {property.id for property in entity.properties.values()}
        properties = {name: _nullable(property) for name, property in entity.properties.items()}
        for name, property in known[entity.id].properties.items() if entity.id in known else ():
            if property.id not in ids and name not in properties:
                properties[name] = replace(_nullable(property), columns=stored_columns(property))
        return properties

    dropped = {
        node.name: replace(node, implements=())
        for node in before.nodes.values()
        if node.id not in kept and node.name not in after.nodes and node.name not in after.interfaces
    }
    nodes = {
        name: replace(node, properties=properties(node) | {key: node.properties[key] for key in node.key})
        for name, node in after.nodes.items()
    } | dropped
    edges = {
        name: replace(
            edge,
            properties=properties(edge) | {key: edge.properties[key] for key in edge.key if key in edge.properties},
        )
        for name, edge in after.edges.items()
    }
    for edge in before.edges.values():
        source, target = (kept.get(before.nodes[end].id, end) for end in (edge.source, edge.target))
        if edge.id not in kept and edge.name.lower() not in words and {source, target} <= nodes.keys():
            edges[edge.name] = replace(edge, source=source, target=target, min_out=0)
    both = replace(after, nodes=nodes, edges=edges, is_evolved=True)
    return replace(both, hash=catalog_hash(both))


def _nullable(property: Property) -> Property:
    return replace(property, type=replace(property.type, nullable=True))
