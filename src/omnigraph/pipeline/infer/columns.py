"""What the values of one column are: their type, and whether they are unique. What is guessed was tried as a load would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.values.columns import Doubtful, arrow_column, plain_values, text_column
from omnigraph.values.csv_cells import cell_value
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ENUM_VALUES = 12
MIN_ROWS_PER_ENUM_VALUE = 5
"""So often must a word of an enum come on average."""
MAX_ENUM_LENGTH = 40
MOSTLY = 0.8
"""A type that so many of the values have is worth a word when the others stand in its way."""
_INTEGER = r"^(0|-?[1-9][0-9]{0,19})$"
_DIGITS = r"^[0-9]+$"
_NUMBER = r"^-?(0|[1-9][0-9]*)?(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_DATE = r"^\d{4}-\d\d-\d\d$"
_INSTANT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|z|[+-]\d\d:?\d\d)?$"
_ENUM = r"^[A-Za-z0-9_-]+$"

_TEXT_KINDS: tuple[tuple[str, tuple[Scalar, ...]], ...] = (
    ("^(true|false)$", (Scalar.BOOL,)),
    (_INTEGER, (Scalar.I64, Scalar.U64)),
    (_NUMBER, (Scalar.F64,)),
    (_DATE, (Scalar.DATE,)),
    (_INSTANT, (Scalar.DATETIME,)),
)
KEY_SCALARS = (Scalar.STRING, Scalar.I64, Scalar.U64)


@dataclass(frozen=True)
class Guess:
    """A type and the reason for it."""

    type: PropertyType
    reason: str


class Column:
    """The sampled values of a column. `is_text`: cells, whose type is what they spell; else the type of Arrow is known."""

    def __init__(self, name: str, values: pa.Array, *, is_text: bool, separator: str | None = None) -> None:
        self.name = name
        self.values = values
        self.is_text = is_text
        self.separator = separator

    @cached_property
    def present(self) -> pa.Array:
        """The values without nulls."""
        return self.values.drop_null()

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def nulls(self) -> int:
        return int(self.values.null_count)

    @cached_property
    def texts(self) -> pa.Array:
        """The values that are there as ids are written: text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            return self.present if pa.types.is_string(self.present.type) else pc.cast(self.present, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.array([json.dumps(value, default=str) for value in self.present.to_pylist()], pa.string())

    @cached_property
    def distinct(self) -> pa.Array:
        return self.texts.unique()

    @cached_property
    def distinct_set(self) -> frozenset[str]:
        return frozenset(self.distinct.to_pylist())

    @property
    def has_empty(self) -> bool:
        return "" in self.distinct_set

    @property
    def is_unique(self) -> bool:
        """No value is missing, empty, or there twice."""
        return bool(self.rows) and not self.nulls and len(self.distinct) == self.rows and not self.has_empty

    @cached_property
    def guess(self) -> Guess:
        guess = self._listed() if self.separator else self._of_text() if self.is_text else self._of_arrow()
        nullable = bool(self.nulls) or not self.rows
        return Guess(_with(guess.type, nullable=nullable), guess.reason)

    def fits(self, type: PropertyType) -> bool:
        """Whether a load takes every value as one of this type."""
        try:
            (text_column if self.is_text else arrow_column)(self.present, type)
            if type.scalar is not Scalar.STRING and not type.is_list:
                return True
        except Doubtful:
            pass
        cells = self.present.to_pylist() if self.is_text else plain_values(self.present)
        try:
            for cell in cells:
                typed_value(cell_value(cell, type) if self.is_text else cell, type)
        except Unfit:
            return False
        return True

    # ------------------------------------------------------------ cells of text

    def _of_text(self) -> Guess:
        count = len(self.present)
        if not count:
            return Guess(PropertyType(Scalar.STRING), "no value in the sample, so text")
        if _matches(self.distinct, _DIGITS) and not _matches(self.distinct, _INTEGER):
            return self._words("digits with leading zeros are codes, so text")
        for pattern, scalars in _TEXT_KINDS:
            if _matches(self.distinct, pattern):
                for scalar in scalars:
                    if self.fits(PropertyType(scalar)):
                        return Guess(PropertyType(scalar), f"{count:,} of {count:,} values are {scalar}")
                return Guess(PropertyType(Scalar.STRING), f"not every value fits {scalars[-1]}, so text")
        return self._list_of_text() or self._words(self._nearly())

    def _nearly(self) -> str:
        """Why a column is text although most of it looks like something else."""
        import pyarrow.compute as pc

        count = len(self.texts)
        for pattern, scalars in _TEXT_KINDS:
            mask = pc.match_substring_regex(self.texts, pattern)
            hits = pc.sum(mask).as_py() or 0
            if hits >= MOSTLY * count:
                others = self.texts.filter(pc.invert(mask))
                return f"text: {len(others):,} of {count:,} values are not {scalars[0]}, such as {_shown(others[0].as_py())}"
        return ""

    def _words(self, reason: str) -> Guess:
        """Text, or an enum when the same few words come again and again."""
        distinct, count = len(self.distinct), len(self.present)
        few = distinct <= MAX_ENUM_VALUES and count >= distinct * MIN_ROWS_PER_ENUM_VALUE and distinct > 1
        if few and not reason and _matches(self.distinct, _ENUM):
            words = tuple(sorted(self.distinct.to_pylist()))
            enum = PropertyType(Scalar.STRING, enum=words)
            if max(map(len, words)) <= MAX_ENUM_LENGTH and self.fits(enum):
                return Guess(enum, f"{distinct} different words in {count:,} values")
        return Guess(PropertyType(Scalar.STRING), reason or f"text, {distinct:,} different in {count:,} values")

    def _list_of_text(self) -> Guess | None:
        """JSON arrays of one kind of value in the cells."""
        if not _matches(self.distinct, r"(?s)^\s*\[.*\]\s*$"):
            return None
        for scalar in (Scalar.BOOL, Scalar.I64, Scalar.F64, Scalar.DATE, Scalar.DATETIME, Scalar.STRING):
            if self.fits(PropertyType(scalar, is_list=True)):
                count = len(self.present)
                return Guess(PropertyType(scalar, is_list=True), f"{count:,} of {count:,} values are lists of {scalar}")
        return None

    def _listed(self) -> Guess:
        """Items between separators."""
        items = [item for cell in self.present.to_pylist() for item in cell.split(self.separator)]
        import pyarrow as pa

        inner = Column(self.name, pa.array(items, pa.string()), is_text=True).guess.type
        return Guess(PropertyType(inner.scalar, is_list=True), f"items separated by '{self.separator}'")

    # ------------------------------------------------------------ columns of Arrow

    def _of_arrow(self) -> Guess:
        import pyarrow.types as pt

        kind = self.values.type
        is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
        scalar = _scalar_of(kind.value_type if is_list else kind)
        if scalar is not None and self.fits(PropertyType(scalar, is_list=is_list)):
            if scalar is Scalar.STRING and not is_list:
                return self._words("")
            return Guess(PropertyType(scalar, is_list=is_list), f"a column of {kind}")
        return Guess(PropertyType(Scalar.STRING), f"a column of {kind}, as text")


def _with(type: PropertyType, *, nullable: bool) -> PropertyType:
    return PropertyType(type.scalar, nullable, type.is_list, type.enum, type.dimension)


def _matches(texts: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _shown(text: str) -> str:
    cut = text if len(text) <= 30 else text[:30] + "..."
    return json.dumps(cut, ensure_ascii=True)


def _scalar_of(kind: pa.DataType) -> Scalar | None:
    """The scalar that holds every value of an Arrow type."""
    import pyarrow.types as pt

    if pt.is_dictionary(kind):
        return _scalar_of(kind.value_type)
    if pt.is_boolean(kind):
        return Scalar.BOOL
    if pt.is_integer(kind):
        return Scalar.U64 if pt.is_uint64(kind) else Scalar.I64
    if pt.is_floating(kind) or pt.is_decimal(kind):
        return Scalar.F64
    if pt.is_date(kind):
        return Scalar.DATE
    if pt.is_timestamp(kind):
        return Scalar.DATETIME
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return Scalar.STRING
    return Scalar.BLOB if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) else None
