"""In which format the cells of a column are written, when it is not the one that every load reads."""

from __future__ import annotations

import re
import unicodedata
from itertools import product
from typing import TYPE_CHECKING

from omnigraph.records.cell_formats import NUMBERS, YES_NO, NumberFormat, has_time, parsed
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
    import pyarrow.compute as pc

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
    import pyarrow.compute as pc

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
    import pyarrow.compute as pc

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
