"""The types of a snapshot as relations that DuckDB scans by itself: column by column, batch by batch, any number of times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from omnigraph.language.catalog import EdgeType
from omnigraph.read.sql_query import unambiguous
from omnigraph.snapshot import View
from omnigraph.tables.lance_errors import translated

if TYPE_CHECKING:
    from omnigraph.tables.table import Table

_ENDS = {"src": "from", "dst": "to"}
_WORD = re.compile(r"\w+")


class TypeRelation(pads.Dataset):  # type: ignore[misc]  # pyarrow publishes no types
    """The entities of one type: `id`, for an edge `from` and `to`, and its properties, through the schema of the snapshot.

    DuckDB recognises an Arrow dataset by its class, and asks it for the columns that a query needs and the rows that satisfy its
    conditions. Conditions are applied here, not in storage, because the values of older rows depend on the schema.
    """

    def __init__(self, view: View, key: str) -> None:
        self._view = view
        self._key = key
        stored = view.schema(key)
        ends = _ENDS if _is_edge(view, key) else {}
        self._stored = {ends.get(name, name): name for name in stored.names}
        self._schema = pa.schema([stored.field(column).with_name(name) for name, column in self._stored.items()])
        self.failure: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def count_rows(self, **_options: Any) -> int:
        return self._view.rows(self._key)

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, batch_size: int | None = None, **_options: Any
    ) -> pads.Scanner:
        wanted = list(self._schema.names) if columns is None else list(columns)
        # A condition does not list its columns; every word in it that names a column may be one.
        words = set() if filter is None else set(_WORD.findall(str(filter)))
        read = [name for name in self._schema.names if name in wanted or name in words] or ["id"]
        schema = pa.schema([self._schema.field(name) for name in read])
        return pads.Scanner.from_batches(self._batches(read, schema), schema=schema, columns=wanted, filter=filter)

    def _batches(self, names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            table: Table | None = self._view.table(self._key)
            if table is None:
                return
            with translated(table.path):
                for batch in table.scan([self._stored[name] for name in names]):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except BaseException as error:
            self.failure = error
            raise


def relations(view: View) -> dict[str, TypeRelation]:
    """A relation for every type of a snapshot, nodes first, under the type's name."""
    keys = sorted(view.catalog.tables, key=lambda key: _is_edge(view, key))
    names = unambiguous(view.entity(key).name for key in keys)
    return {name: TypeRelation(view, key) for name, key in zip(names, keys, strict=True)}


def _is_edge(view: View, key: str) -> bool:
    return isinstance(view.entity(key), EdgeType)
