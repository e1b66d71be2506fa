"""Stored queries: the queries of `.gq` files by name, compiled against a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog

if TYPE_CHECKING:
    from omnigraph.language.query.plan import QueryPlan


@dataclass(frozen=True)
class StoredQuery:
    """One query of a file, with its plan under the schema that it was checked against."""

    name: str
    text: str
    file: str
    plan: QueryPlan

    @property
    def is_mutation(self) -> bool:
        from omnigraph.language.query.plan import MutationPlan

        return isinstance(self.plan, MutationPlan)


def compile_stored(sources: Mapping[str, str], catalog: Catalog) -> dict[str, StoredQuery]:
    """Compile the queries of `texts` (by file name), sorted by name. QueryError for the first mistake; UsageError if two files
    have a query of the same name.
    """
    if not sources:
        return {}
    from omnigraph.language.query.mutations import compile_queries

    queries: dict[str, StoredQuery] = {}
    for file, text in sources.items():
        for name, plan in compile_queries(text, catalog, file).items():
            if name in queries:
                raise UsageError(
                    f"two queries are called '{name}': in {queries[name].file} and in {file}", hint="rename one of them"
                )
            queries[name] = StoredQuery(name, text, file, plan)
    return dict(sorted(queries.items()))


def read_query_files(place: Path) -> dict[str, str]:
    """The text of a `.gq` file, or of all in a folder, by file name. UsageError if one cannot be read."""
    try:
        if place.is_dir():
            files = sorted(place.rglob("*.gq"))
        elif place.is_file():
            files = [place]
        else:
            raise UsageError(f"{place} does not exist", hint="name a .gq file or a folder of them")
        return {file.relative_to(place).as_posix() if file != place else file.name: _text(file) for file in files}
    except OSError as error:
        raise UsageError(f"cannot read {error.filename or place}: {error.strerror}") from None


def find_query(place: Path, name: str) -> Path:
    """The file that has the query of a name. UsageError if no file has it, or several do."""
    from omnigraph.language.query.expressions import suggestion
    from omnigraph.language.query.mutations import query_names

    texts = read_query_files(place)
    names = {file: query_names(text, file) for file, text in texts.items()}
    holding = [file for file, queries in names.items() if name in queries]
    if len(holding) > 1:
        raise UsageError(
            f"two queries are called '{name}': in {holding[0]} and in {holding[1]}", hint="rename one of them"
        )
    if not holding:
        known = sorted(query for queries in names.values() for query in queries)
        raise UsageError(
            f"no query in {place} is called '{name}'",
            hint=suggestion(name, known) or f"its queries: {', '.join(known) or 'none'}",
        )
    return place / holding[0] if place.is_dir() else place


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {file}: {error}") from None
