"""A schema and a map of columns for files of data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.infer.choices import Choices
from omnigraph.infer.columns import separator_of_lists
from omnigraph.infer.drafting import DraftEdge, DraftNode, draft, schema_text
from omnigraph.infer.found_tables import FoundTable, found_tables, joined_parts
from omnigraph.infer.layouts import FILES as KUZU_FILES, Kuzu, from_neo4j, separate_headers
from omnigraph.load.files import InputFile, find_files
from omnigraph.load.mapping import ColumnMap
from omnigraph.tasks.progress import Progress, Silent, waiting_for

SAMPLE_ROWS = 100_000
_DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".db", ".sqlite", ".sqlite3", ".duckdb")


@dataclass(frozen=True)
class InferredSchema:
    """A schema guessed from data, with the map under which a load takes the data into it.

    >>> guessed = og.infer_schema("Person.csv")
    >>> assert "name: String @key" in guessed.schema
    >>> assert guessed.map["sources"][0]["type"] == "Person"
    """

    schema: str
    """The `.pg` text; its comments give the reason for each guess."""
    map: Mapping[str, Any]
    """For `load(map=...)`, or as JSON for `--map-file`."""
    files: tuple[str, ...]
    """The files that were looked at: what to load."""
    near_references: tuple[str, ...] = ()
    """The columns most of whose values are keys of a type, with how many; they are no edges, for `missing` was "refuse"."""

    def map_json(self) -> str:
        """The map as a map file has it."""
        return json.dumps(self.map, ensure_ascii=False, indent=2) + "\n"


def infer(
    paths: Sequence[str],
    *,
    keys: Sequence[str] = (),
    nulls: Sequence[str] = (),
    choices: Choices | None = None,
    sample: int = SAMPLE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> InferredSchema:
    """`keys`: `Type.column`, or a column of any type. `nulls`: texts that mean null in every column. `sample`: rows of each table
    that are looked at, 0 for all."""
    if sample < 0:
        raise UsageError("a sample has no negative number of rows", hint="sample=0 looks at all of them")
    data, cypher, others = _files(paths, options)
    data, headers = separate_headers(data)
    kuzu = Kuzu.of(cypher.get("schema.cypher", ""), cypher.get("copy.cypher", ""))
    progress = progress or Silent()
    tables = joined_parts(found_tables(data, sample or None, {**headers, **kuzu.headers(data)}, progress))
    tables = [table for table in from_neo4j(kuzu.declared(tables)) if table.columns or table.contains]
    for table in tables:
        table.columns = {name: column.without_words(nulls) for name, column in table.columns.items()}
        for column in () if table.is_document or table.table else table.columns.values():
            column.separator = separator_of_lists(column) or column.separator
    with waiting_for("looking for keys and references", progress):
        return _inferred(tables, keys, choices or Choices(), sample, data, others)


def _inferred(
    tables: list[FoundTable],
    keys: Sequence[str],
    choices: Choices,
    sample: int,
    data: list[InputFile],
    others: list[str],
) -> InferredSchema:
    choices.check(tables)
    drafts = draft(tables, keys, choices)
    text = schema_text(drafts, tables, sample or None, others)
    types: list[DraftNode | DraftEdge] = [*drafts.nodes, *drafts.edges]
    sources = tuple(source for type in types for source in type.sources())
    files = tuple(file.address for file in data if any(source.is_of(file.address) for source in sources))
    near = tuple(
        f"{node.name}.{property.name}: {property.near}"
        for node in drafts.nodes
        for property in node.properties
        if property.near
    )
    return InferredSchema(text, ColumnMap(sources=sources).to_json(), files, near)


def _files(
    paths: Sequence[str], options: Mapping[str, str] | None
) -> tuple[list[InputFile], dict[str, str], list[str]]:
    """The files with data, what a folder of Kuzu says of them, and the other files, which are left alone."""
    data: dict[str, InputFile] = {}
    cypher: dict[str, str] = {}
    others: list[str] = []
    for path in paths:
        for file in find_files(path, options):
            name = file.address.rsplit("/", 1)[-1].lower()
            if name in KUZU_FILES:
                with file.open() as stream:
                    cypher[name] = stream.read().decode("utf-8", "replace")
            elif file.suffix in _DATA or file.name == path:
                data.setdefault(file.address, file)
            else:
                others.append(file.address.rsplit("/", 1)[-1])
    if not data:
        raise UsageError(
            f"there is no data in {', '.join(paths)}",
            hint="give CSV, JSON or Parquet files, or an SQLite or DuckDB file",
        )
    return list(data.values()), cypher, others
