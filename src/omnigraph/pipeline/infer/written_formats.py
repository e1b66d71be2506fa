"""In which format the cells of a column are written, when it is not the one that every load reads."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from omnigraph.records.cell_formats import NUMBERS, YES_NO, has_time, number_pattern, parsed
from omnigraph.values.types import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

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


def boolean_format(words: frozenset[str]) -> str | None:
    """`words` are the different values of a column."""
    lower = frozenset(word.lower() for word in words)
    return YES_NO if lower in _PAIRS or (lower and lower <= _TRUE_FALSE) else None


def number_format(texts: pa.Array) -> tuple[str, Scalar] | None:
    """The format that every text has, of which one at least is no plain number; and the type of these numbers."""
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(texts, "^-?0[0-9]")).as_py():  # A code.
        return None
    for format, (_, decimal) in NUMBERS.items():
        if pc.all(pc.match_substring_regex(texts, number_pattern(format))).as_py():
            has_decimals = pc.any(pc.match_substring(texts, pattern=decimal)).as_py()
            return format, Scalar.F64 if has_decimals else Scalar.I64
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
