"""What reading a source gives: typed rows of one table with the place of each, and records that were refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InputError
from omnigraph.language.arrow import arrow_schema
from omnigraph.language.catalog import EntityType

if TYPE_CHECKING:
    import pyarrow as pa

ENCODING_HINT = "pass the file's encoding, for example --encoding latin-1"
MAX_RECORD_SHOWN = 2_000
"""Characters of a refused record that are kept in a report."""


@dataclass(frozen=True)
class TypedRows:
    """Rows of one table. `lines` has the line (or row number) of each in its source; `explicit_ids`: how many ids
    the source gave itself.

    Nulls may stand in required columns: that is a rule of the data, checked with the other rules.
    """

    key: str
    rows: pa.Table
    lines: pa.Int64Array
    explicit_ids: int


@dataclass(frozen=True)
class Reject:
    """A record that may not be written, and why. `line` counts from 1 in its source (0: the source has no lines)."""

    line: int
    code: str
    reason: str
    record: str
    hint: str | None = None
    type_name: str | None = None
    property: str | None = None

    @classmethod
    def of(cls, line: int, error: InputError, record: str) -> Reject:
        shown = record[:MAX_RECORD_SHOWN]
        return cls(line, error.code, error.message, shown, error.hint, error.type_name, error.property)

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def open_schema(entity: EntityType) -> pa.Schema:
    """The table's schema with every column nullable: what rows have before their rules are checked."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in arrow_schema(entity)])
