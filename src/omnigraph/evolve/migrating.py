"""Mutations that run with a schema change, in the same commit.

They are compiled and run under the new schema with the properties and types that it drops beside it, so that what is new can be
filled with what goes. What they write has the new schema alone, and is checked by its rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from omnigraph.errors import UsageError
from omnigraph.history.plan import TableChange
from omnigraph.history.values import Entry, Snapshot
from omnigraph.language.catalog import Catalog, EntityType, Property, dropped_names, stored_columns
from omnigraph.language.catalog_json import catalog_hash
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import compile_queries
from omnigraph.language.query.plan import InsertMatches, MutationPlan
from omnigraph.language.schema.stored_columns import is_readable
from omnigraph.read.execution import matched_rows
from omnigraph.snapshot import Repository, View
from omnigraph.write.constraints import check_deltas, stage_versions, write_rows
from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import run_mutation
from omnigraph.write.rekeying import rekey, rekeyed_edges
from omnigraph.write.transaction import WriteTransaction


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
    reading = repository.view(under(view, both, repository.cache_catalog(both)))
    writing = repository.view(under(view, after, repository.cache_catalog(after)))
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


# What a schema change means for queries: which of them it would break, and which old states can be asked through its names.


@dataclass(frozen=True)
class BrokenQuery:
    """A query that a schema allows and another does not.

    >>> broken = g.schema.broken_queries(SCHEMA.replace("age: I32?", "years: I32?"), "people.gq")[0]
    >>> assert (broken.file, "age" in broken.error) == ("people.gq", True)
    """

    file: str
    query: str
    error: str

    def __str__(self) -> str:
        return f"{self.file}: query {self.query}: {self.error}"


def broken_queries(before: Catalog, after: Catalog, folder: Path) -> tuple[BrokenQuery, ...]:
    """The queries of every .gq file below a folder (or of one file) that are right before a change and wrong after it."""
    broken = []
    for file in _files(folder):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {file}: {error}") from None
        name = file.name if folder.is_file() else file.relative_to(folder).as_posix()
        known = {query.name: query.error for query in lint_queries(text, before, str(file)).queries}
        for query in lint_queries(text, after, str(file)).queries:
            if query.error is not None and known.get(query.name) is None:
                broken.append(BrokenQuery(name, query.name, query.error.message))
    return tuple(broken)


def _files(folder: Path) -> list[Path]:
    try:
        if folder.exists():
            return [folder] if folder.is_file() else sorted(folder.rglob("*.gq"))
        problem = f"{folder} does not exist"
    except (OSError, ValueError) as error:  # no system has such a path, or it may not be looked into
        problem = f"cannot read {str(folder)[:200]}: {error.strerror if isinstance(error, OSError) else error}"
    raise UsageError(problem, hint="name a folder of .gq files, or one of them")


def seen_through(old: View, schema_of: View) -> View:
    """An old state as a newer schema sees it: renamed, widened, with nulls and fills for what it did not have.

    UsageError where that is not total: a property that the newer schema requires, and that entities of the old state may lack;
    and for what was dropped for good before that state.
    """
    catalog = schema_of.catalog
    _refuse_dropped(old.catalog, catalog)
    before = {entity.id: entity for entity in old.catalog.tables.values()}
    for entity in catalog.tables.values():
        known = (
            {property.id: property for property in before[entity.id].properties.values()} if entity.id in before else {}
        )
        has_rows = entity.id in before and old.rows(before[entity.id].table_key) > 0
        for property in entity.properties.values() if has_rows else ():
            had = known.get(property.id)
            if had is not None and not is_readable(had, property):
                raise UsageError(
                    f"{entity.name}.{property.name} is {had.type} in that state, and not every value is {property.type}",
                    hint="ask with the schema of that state: leave the other schema out",
                )
            if property.is_required and (property.fill is None if had is None else not had.is_required):
                raise UsageError(
                    f"{entity.name}.{property.name} is required now, and entities of that state may lack it",
                    hint="ask with the schema of that state: leave the newer schema out",
                )
    return old.repository.view(under(old, catalog, schema_of.snapshot.schema))


def _refuse_dropped(state: Catalog, requested: Catalog) -> None:
    names = dropped_names(requested, state)
    if names:
        raise UsageError(
            f"{names[0]} was dropped for good before that state: its values are not read any more",
            hint="ask with the schema of that state, or for a commit before the drop",
        )
