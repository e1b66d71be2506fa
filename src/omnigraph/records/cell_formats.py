"""Converts cells as people write them to the cells that a load reads: yes and no, numbers with separators, dates in other orders.

A format is `yes/no`, an example of a number (`1,234.5`, `1.234,5`, `1 234,5`, `1'234.5`), with the unit before or after it if the
cells have one (`€1,234.5`, `1,234.5 %`), or a pattern of a date or an instant (`%d.%m.%Y %H:%M`, in UTC). A cell that is not in
the format stays as it is, and is refused later like any cell of another type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

YES_NO = "yes/no"
NUMBERS = {"1,234.5": (",", "."), "1.234,5": (".", ","), "1 234,5": (" ", ","), "1'234.5": ("'", ".")}
"""The separator of thousands, and the one before decimals."""
_YES = ("yes", "y", "true", "t", "on", "1")
_NO = ("no", "n", "false", "f", "off", "0")
_SPACES = "[ \u00a0\u202f]"
FIRST_YEAR = 1000
"""A year with fewer digits is an abbreviation."""


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written: `style` is a key of `NUMBERS`. At most one unit, before or after the number, is removed."""

    style: str
    before: str = ""
    after: str = ""

    @staticmethod
    def of(format: str) -> NumberFormat | None:
        """None if the format is not that of a number."""
        for style in NUMBERS:
            before, example, after = format.partition(style)
            before, after = before.strip(), after.strip()
            if example and not (before and after) and not re.search("[0-9]", before + after):
                return NumberFormat(style, before, after)
        return None

    @property
    def pattern(self) -> str:
        """Matches every number in this format. A minus sign is before the unit or before the digits."""
        thousands, decimal = (_SPACES if sign == " " else re.escape(sign) for sign in NUMBERS[self.style])
        before, after = re.escape(self.before), re.escape(self.after)
        start = rf"(-?{before}{_SPACES}*|{before}{_SPACES}*-)" if before else "-?"
        end = rf"{_SPACES}*{after}" if after else ""
        return rf"^{start}([0-9]{{1,3}}({thousands}[0-9]{{3}})+|[0-9]+)({decimal}[0-9]+)?{end}$"

    def read(self, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        """The numbers in the form that every load reads."""
        import pyarrow.compute as pc

        thousands, decimal = NUMBERS[self.style]
        plain = column
        for unit in (self.before, self.after):
            plain = pc.replace_substring(plain, pattern=unit, replacement="") if unit else plain
        between = _SPACES if thousands == " " else f"{_SPACES}|{re.escape(thousands)}"
        plain = pc.replace_substring_regex(plain, pattern=between, replacement="")
        plain = plain if decimal == "." else pc.replace_substring(plain, pattern=decimal, replacement=".")
        return pc.if_else(pc.match_substring_regex(column, self.pattern), plain, column)


def check_format(format: str) -> None:
    """Raises UsageError unless it is a format of cells."""
    if format != YES_NO and NumberFormat.of(format) is None and not re.search("%[dmyYbBHM]", format):
        raise UsageError(
            f"'{format}' is not a format of cells",
            hint=f"give {YES_NO}, a number such as {', '.join(NUMBERS)} or 1,234.5 %, or a pattern such as %d.%m.%Y",
        )


def has_time(format: str) -> bool:
    return "%H" in format or "%I" in format


def read_cells(column: pa.ChunkedArray | pa.Array, format: str) -> pa.ChunkedArray | pa.Array:
    """Cells of text in a format as the cells that every load reads: `true`, `1234.5`, ISO dates and instants."""
    import pyarrow.compute as pc

    if format == YES_NO:
        return _booleans(column)
    if (numbers := NumberFormat.of(format)) is not None:
        return numbers.read(column)
    known = parsed(column, format)
    iso = "%Y-%m-%dT%H:%M:%SZ" if has_time(format) else "%Y-%m-%d"
    return pc.coalesce(pc.strftime(known, format=iso), column)


def parsed(column: pa.ChunkedArray | pa.Array, format: str) -> pa.ChunkedArray | pa.Array:
    """Instants in a pattern; null for cells that do not match, and for days that do not exist."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pc.strptime(column, format=format, unit="s", error_is_null=True).cast(pa.timestamp("s"))
    # The parser takes 31.02. for the third of March, and accepts 26 as a year.
    again = pc.equal(_plain(pc.strftime(known, format=format)), _plain(column))
    is_it = pc.and_(again, pc.greater_equal(pc.year(known), FIRST_YEAR))
    return pc.if_else(pc.fill_null(is_it, False), known, pa.scalar(None, pa.timestamp("s")))


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The cells in lower case, their numbers without leading zeros."""
    import pyarrow.compute as pc

    return pc.utf8_lower(pc.replace_substring_regex(column, pattern=r"\b0+([0-9])", replacement=r"\1"))


def _booleans(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    yes, no = (pc.is_in(lower, value_set=pa.array(words)) for words in (_YES, _NO))
    return pc.if_else(yes, "true", pc.if_else(no, "false", column))
