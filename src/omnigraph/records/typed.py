"""What reading a source gives: typed rows of one table with the line of each, and refused records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import InputError
from omnigraph.language.arrow import arrow_schema
from omnigraph.language.catalog import EntityType

if TYPE_CHECKING:
    import pyarrow as pa

ENCODING_HINT = "pass the file's encoding, for example --encoding latin-1"
MAX_RECORD_SHOWN = 2_000
"""How many characters of a refused record a report keeps."""


DELETE_FLAG = "_delete"
"""The column, or the member of a record, that says whether the entity is to be deleted."""
DELETE_FLAG_HINT = f"'{DELETE_FLAG}' is for the modes merge and patch"


@dataclass(frozen=True)
class RecordForm:
    """What the records of a source are: whole entities, parts of them (columns that are left out stay as they are), or only names
    of entities. `has_flag`: a record may say by DELETE_FLAG that it only names an entity to be deleted."""

    kind: Literal["whole", "partial", "name"]
    has_flag: bool = False


WHOLE = RecordForm("whole")


@dataclass(frozen=True)
class TypedRows:
    """Rows of one table. `lines` has the line (or row number) of each in its source; `explicit_ids`: how many ids the source
    gave.

    Required columns may have nulls: that is a rule of the data, checked with the other rules. `has_value`: for every column but
    the id, which rows give a value (or a null) there; None if all rows do, everywhere.
    """

    key: str
    rows: pa.Table
    lines: pa.Int64Array
    explicit_ids: int
    has_value: pa.Table | None = None


@dataclass(frozen=True)
class NamedRows:
    """Entities of one table that are to be deleted, by id."""

    key: str
    ids: pa.StringArray
    lines: pa.Int64Array


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
    """The table's schema with every column nullable: rows have it before their rules are checked."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in arrow_schema(entity)])
