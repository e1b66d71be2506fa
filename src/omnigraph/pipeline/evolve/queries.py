"""What a schema change means for queries: which of them it would break, and which old states can be asked through its names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog, dropped_names
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.schema.stored_columns import is_readable
from omnigraph.pipeline.evolve.migrating import under
from omnigraph.views import View


@dataclass(frozen=True)
class BrokenQuery:
    """A query that a schema allows and another does not.

    >>> broken = g.broken_queries(SCHEMA.replace("age: I32?", "years: I32?"), "people.gq")[0]
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
