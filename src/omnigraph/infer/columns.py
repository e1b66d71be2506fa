"""What the values of one column are: their type, and whether they are unique. What is guessed was tried as a load would."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from omnigraph._internal.lazy_imports import pa, pc, pt
from omnigraph.records.documents import NUMBERS, YES_NO, NumberFormat, has_time, parsed, read_cells
from omnigraph.values.columns import Doubtful, arrow_column, cell_value, plain_values, text_column
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.types import PropertyType, Scalar

# In which format the cells of a column are written, when it is not the one that every load reads.

_PAIRS = (frozenset(["yes", "no"]), frozenset(["y", "n"]), frozenset(["t", "f"]), frozenset(["on", "off"]))
_TRUE_FALSE = frozenset(["true", "false"])
_DATES = (
    ("[0-9]{1,2}[.][0-9]{1,2}[.][0-9]{4}", ("%d.%m.%Y",)),
    ("[0-9]{1,2}[.][0-9]{1,2}[.][0-9]{2}", ("%d.%m.%y",)),
    ("[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}", ("%d/%m/%Y", "%m/%d/%Y")),
    ("[0-9]{1,2}/[0-9]{1,2}/[0-9]{2}", ("%d/%m/%y", "%m/%d/%y")),
    ("[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    ("[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}", ("%Y/%m/%d",)),
    ("[0-9]{4}[.][0-9]{1,2}[.][0-9]{1,2}", ("%Y.%m.%d",)),
    ("[0-9]{1,2} [A-Za-z]+ [0-9]{4}", ("%d %b %Y", "%d %B %Y")),
    ("[0-9]{1,2}-[A-Za-z]{3}-[0-9]{4}", ("%d-%b-%Y",)),
    ("[A-Za-z]+ [0-9]{1,2}, [0-9]{4}", ("%b %d, %Y", "%B %d, %Y")),
    ("[A-Za-z]+ [0-9]{1,2} [0-9]{4}", ("%b %d %Y", "%B %d %Y")),
)
_TIMES = (
    ("", ("",)),
    ("[ T][0-9]{1,2}:[0-9]{2}", (" %H:%M", "T%H:%M")),
    ("[ T][0-9]{1,2}:[0-9]{2}:[0-9]{2}", (" %H:%M:%S", "T%H:%M:%S")),
    (" [0-9]{1,2}:[0-9]{2} ?[AaPp][Mm]", (" %I:%M %p", " %I:%M%p")),
)
"""Written texts, and the patterns that may be meant by them."""


PERCENT = "%"
_CURRENCIES = frozenset(
    (
        *("AED", "ARS", "AUD", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP"),
        *("HKD", "HUF", "IDR", "ILS", "INR", "JPY", "KES", "KRW", "MXN", "MYR", "NGN", "NOK", "NZD", "PEN"),
        *("PHP", "PLN", "RON", "RUB", "SAR", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "USD", "VND", "ZAR"),
        *("kr", "zł", "Kč", "Ft"),
    )
)
"""Written as letters. Any three would take codes such as `LHR 123` for money."""


def boolean_format(words: frozenset[str]) -> str | None:
    """`words` are the different values of a column."""
    lower = frozenset(word.lower() for word in words)
    return YES_NO if lower in _PAIRS or (lower and lower <= _TRUE_FALSE) else None


def number_format(texts: pa.Array) -> tuple[str, Scalar] | None:
    """The format that every text has, of which one at least is no plain number; and the type of these numbers."""
    if pc.any(pc.match_substring_regex(texts, "^-?0[0-9]")).as_py():  # A code.
        return None
    for style, (_, decimal) in NUMBERS.items():
        if pc.all(pc.match_substring_regex(texts, NumberFormat(style).pattern)).as_py():
            has_decimals = pc.any(pc.match_substring(texts, pattern=decimal)).as_py()
            return style, Scalar.F64 if has_decimals else Scalar.I64
    return None


def units_of(texts: pa.Array) -> list[str]:
    """What is written beside the digits of numbers, in all texts together: currencies or `%`. Empty if it is anything else, or if a text
    has no digits."""
    if not pc.all(pc.match_substring_regex(texts, "[0-9]")).as_py():
        return []
    remainders = pc.replace_substring_regex(texts, pattern="[-0-9.,' \u00a0\u202f]", replacement="")
    units = sorted(remainders.unique().to_pylist())
    return units if all(unit == PERCENT or is_currency(unit) for unit in units) else []


def is_currency(unit: str) -> bool:
    """`€`, `US$`, `CHF`."""
    has_sign = (
        bool(unit) and unicodedata.category(unit[-1]) == "Sc" and re.fullmatch("[A-Z]{0,2}", unit[:-1]) is not None
    )
    return has_sign or unit in _CURRENCIES


def format_with_unit(texts: pa.Array, unit: str) -> str | None:
    """The format that every text has: numbers with this unit on the same side."""
    if pc.any(pc.match_substring_regex(texts, "^[^0-9]*0[0-9]")).as_py():  # A code.
        return None
    for style, (_, decimal) in NUMBERS.items():
        for format in (f"{unit}{style}", f"{style} {unit}"):
            numbers = NumberFormat.of(format)
            assert numbers is not None
            if not pc.all(pc.match_substring_regex(texts, numbers.pattern)).as_py():
                continue
            # Of money, three digits behind a point or a comma are thousands: "€ 1.234" is not one euro.
            three_digits = rf"{re.escape(decimal)}[0-9]{{3}}[^0-9]*$"
            if unit == PERCENT or not pc.any(pc.match_substring_regex(texts, three_digits)).as_py():
                return format
    return None


def date_formats(texts: pa.Array) -> list[str]:
    """The patterns in which every text is a day or an instant. Several: days and months cannot be told apart."""
    first = str(texts[0])
    for (day, dates), (time, times) in product(_DATES, _TIMES):
        if re.fullmatch(day + time, first):
            patterns = [date + at for date, at in product(dates, times)]
            return [pattern for pattern in patterns if not parsed(texts, pattern).null_count]
    return []


def scalar_of_date(format: str) -> Scalar:
    return Scalar.DATETIME if has_time(format) else Scalar.DATE


MAX_ENUM_VALUES = 12
MIN_ROWS_PER_ENUM_VALUE = 5
"""So often must a word of an enum come on average."""
MAX_ENUM_LENGTH = 40
MOSTLY = 0.8
"""A type that so many of the values have is worth a word when the others stand in its way."""
_INTEGER = r"^(0|-?[1-9][0-9]{0,19})$"
_DIGITS = r"^[0-9]+$"
_NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
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
_FIRST_DATE = 3
"""From there on the kinds are those of dates."""
_DECLARED = "declared by the source"
_NO_VALUE = frozenset(["n/a", "#n/a", "null", "nan", "-", "--", "?", "na", "none", "nil", "."])
"""Words that people write among numbers and dates where there is no value. In texts each of them can be a name: Nan is a city."""
_NO_REFERENCE = frozenset(["n/a", "N/A", "#N/A", "null", "NULL", "-", "--", "?"])
"""Words that mean it among the keys of other rows, of which they are none."""
KEY_SCALARS = (Scalar.STRING, Scalar.I64, Scalar.U64)


@dataclass(frozen=True)
class Guess:
    """A type and the reason for it. `format`: how the cells are written; `nulls`: texts among them that mean null."""

    type: PropertyType
    reason: str
    format: str | None = None
    nulls: tuple[str, ...] = ()


class SampledColumn:
    """The sampled values of a column. `is_text`: cells, whose type is what they spell; else the type of Arrow is known.

    `declared` is what the source itself says of cells; `is_words`, that they are texts and no numbers, though maybe dates.
    `null_words` are texts that the user takes for null; the values have nulls instead.
    """

    def __init__(
        self,
        name: str,
        values: pa.Array,
        *,
        is_text: bool,
        separator: str | None = None,
        declared: Scalar | None = None,
        is_words: bool = False,
        null_words: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.values = values
        self.is_text = is_text
        self.separator = separator
        self.declared = declared
        self.is_words = is_words
        self.null_words = dict(null_words or {})

    def with_values(self, values: pa.Array) -> SampledColumn:
        return SampledColumn(
            self.name,
            values,
            is_text=self.is_text,
            separator=self.separator,
            declared=self.declared,
            is_words=self.is_words,
            null_words=self.null_words,
        )

    def without_words(self, words: Collection[str]) -> SampledColumn:
        """With null instead of these texts, each of which is counted."""
        counts = self.counts(words) if pa.types.is_string(self.values.type) else {}
        if not counts:
            return self
        column = self.with_values(_with_nulls(self.values, counts))
        column.null_words |= counts
        return column

    def counts(self, words: Collection[str]) -> dict[str, int]:
        """How often each of these texts is a value, without those that never are."""
        held = [word for word in words if word in self.distinct_set]
        return {} if not held else _counts(self.texts, held)

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
        if self.null_words:
            reason = f"{guess.reason}; {taken_for_null(self.null_words, self.rows)}, as asked for with --null"
            guess = replace(guess, reason=reason, nulls=(*self.null_words, *guess.nulls))
        nullable = bool(self.nulls or guess.nulls) or not self.rows
        return replace(guess, type=_with(guess.type, nullable=nullable))

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
            scalar = self.declared or Scalar.STRING
            return Guess(
                PropertyType(scalar), "no value in the sample, so text" if self.declared is None else _DECLARED
            )
        if (guess := self._of_declaration()) is not None:
            return guess
        if self.distinct_set == {""}:
            return Guess(PropertyType(Scalar.STRING), "every value is an empty text")
        if _matches(self.distinct, _DIGITS) and not _matches(self.distinct, _INTEGER):
            return self._words("digits with leading zeros are codes, so text")
        for pattern, scalars in _TEXT_KINDS[_FIRST_DATE if self.is_words else 0 :]:
            if _matches(self.distinct, pattern):
                for scalar in scalars:
                    if self.fits(PropertyType(scalar)):
                        return Guess(PropertyType(scalar), f"{count:,} of {count:,} values are {scalar}")
                return Guess(PropertyType(Scalar.STRING), f"not every value fits {scalars[-1]}, so text")
        return self._formatted() or self._list_of_text() or self._without_null_words() or self._words(self._nearly())

    def _of_declaration(self) -> Guess | None:
        """What the source says, if the values agree."""
        if self.declared is Scalar.STRING:
            return self._words("")
        if self.declared is None:
            return None
        if self.fits(PropertyType(self.declared)):
            return Guess(PropertyType(self.declared), _DECLARED)
        is_boolean = self.declared is Scalar.BOOL and self.distinct_set <= {"0", "1"}
        return Guess(PropertyType(Scalar.BOOL), _DECLARED, YES_NO) if is_boolean else None

    def _formatted(self) -> Guess | None:
        """Yes and no, numbers with separators, dates in other orders."""
        texts, example = self.distinct, _shown(self.texts[0].as_py())
        if boolean_format(self.distinct_set) is not None and not self.is_words:
            return Guess(PropertyType(Scalar.BOOL), f"{' and '.join(sorted(self.distinct_set))}", YES_NO)
        if not self.is_words and (number := number_format(texts)) is not None:
            format, scalar = number
            if not self.with_values(read_cells(texts, format)).fits(PropertyType(scalar)):
                return None
            return Guess(PropertyType(scalar), f"numbers written like {format}, such as {example}", format)
        if not self.is_words and (units := units_of(texts)):
            return self._with_unit(units, example)
        patterns = date_formats(texts)
        if len(patterns) > 1:
            reason = (
                f"dates such as {example}: nothing tells days from months, so text; say it in the map, as 'formats'"
            )
            return Guess(PropertyType(Scalar.STRING), reason)
        if patterns:
            return Guess(
                PropertyType(scalar_of_date(patterns[0])), f"dates like {patterns[0]}, such as {example}", patterns[0]
            )
        return None

    def _with_unit(self, units: list[str], example: str) -> Guess | None:
        """Money and percentages: the number before or after the sign, as it is written. F64 even if all are whole: the next need not be."""
        if len(units) > 1:
            return Guess(PropertyType(Scalar.STRING), f"amounts in different units ({', '.join(units)}), so text")
        (unit,) = units
        format = format_with_unit(self.distinct, unit)
        if format is None or not self.with_values(read_cells(self.distinct, format)).fits(PropertyType(Scalar.F64)):
            return None
        if unit == PERCENT:
            reason = f"percentages, such as {example}: the number before the sign, not a fraction"
        else:
            reason = f"amounts of money, all in {unit}, such as {example}: only the number is kept"
        return Guess(PropertyType(Scalar.F64), reason, format)

    def words_kept(self) -> dict[str, int]:
        """Words in a text that mean null among numbers, with their counts."""
        words = [word for word in self.distinct_set if word.strip().lower() in _NO_VALUE] if self.is_text else []
        return self.counts(sorted(words))

    def _without_null_words(self) -> Guess | None:
        """What the other values are, when some are words for none: numbers or dates. In texts a word stays what it is."""
        held = sorted(word for word in self.distinct_set if word.strip().lower() in _NO_VALUE)
        if not held or len(held) == len(self.distinct):
            return None
        counts = self.counts(held)
        plain = self.with_values(_with_nulls(self.values, counts))
        plain.null_words = {}
        rest = plain.guess
        if rest.type.scalar is Scalar.STRING:
            return None
        return replace(rest, reason=f"{rest.reason}; {taken_for_null(counts, self.rows)}", nulls=(*counts, *rest.nulls))

    def _nearly(self) -> str:
        """Why a column is text although most of it looks like something else."""
        count = len(self.texts)
        for pattern, scalars in () if self.is_words else _TEXT_KINDS:
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
        inner = SampledColumn(self.name, pa.array(items, pa.string()), is_text=True, declared=self.declared).guess
        scalar = inner.type.scalar if inner.format is None and not inner.nulls else Scalar.STRING
        return Guess(PropertyType(scalar, is_list=True), f"items separated by '{self.separator}'")

    # ------------------------------------------------------------ columns of Arrow

    def _of_arrow(self) -> Guess:
        kind = self.values.type
        is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
        scalar = _scalar_of(kind.value_type if is_list else kind)
        if scalar is not None and self.fits(PropertyType(scalar, is_list=is_list)):
            if scalar is Scalar.STRING and not is_list:
                return self._words("")
            return Guess(PropertyType(scalar, is_list=is_list), f"a column of {kind}")
        return Guess(PropertyType(Scalar.STRING), f"a column of {kind}, as text")


LIST_SEPARATORS = ("|", ";")
MIN_LISTS, MIN_REPEATED_ITEMS = 0.2, 5
"""So many cells have a separator, and so often comes an item on average, if the cells are lists."""


def separator_of_lists(column: SampledColumn) -> str | None:
    """What divides the cells of a text into items that come again and again, such as genres; None if nothing does."""
    if not column.is_text or column.separator is not None or column.declared is not None or not len(column.texts):
        return None
    for separator in LIST_SEPARATORS:
        cells = column.texts
        if (pc.mean(pc.match_substring(cells, separator).cast("float64")).as_py() or 0.0) < MIN_LISTS:
            continue
        items = pc.list_flatten(pc.split_pattern(cells, separator))
        different = items.unique()
        is_plain = _matches(different, r"^[^\s|;]([^|;]*[^\s|;])?$")
        if is_plain and len(different) * MIN_REPEATED_ITEMS <= len(items) and len(different) < len(column.distinct):
            return separator
    return None


def means_no_reference(word: str) -> bool:
    return word.strip() in _NO_REFERENCE


def taken_for_null(counts: Mapping[str, int], rows: int) -> str:
    """The words, and how often each comes."""
    (first, count), *others = counts.items()
    more = "".join(f", {number:,} are {_shown(word)}" for word, number in others)
    return f"{count:,} of {rows:,} are {_shown(first)}{more}, which {'is' if not others else 'are'} taken for null"


def _counts(texts: pa.Array, words: list[str]) -> dict[str, int]:
    held = texts.filter(pc.is_in(texts, value_set=pa.array(words, pa.string())))
    counted = {entry["values"]: entry["counts"] for entry in pc.value_counts(held).to_pylist()}
    return {word: counted[word] for word in words}


def _with_nulls(values: pa.Array, words: Collection[str]) -> pa.Array:
    is_null = pc.is_in(values, value_set=pa.array(list(words), pa.string()))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), values)


def _with(type: PropertyType, *, nullable: bool) -> PropertyType:
    return PropertyType(type.scalar, nullable, type.is_list, type.enum, type.dimension)


def _matches(texts: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _shown(text: str) -> str:
    cut = text if len(text) <= 30 else text[:30] + "..."
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def _scalar_of(kind: pa.DataType) -> Scalar | None:
    """The scalar that holds every value of an Arrow type."""
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
