"""Small graphs of hostile values, from a seed: the ends of every range and beyond, odd text, nothing, too much.

Not every value is one that a graph takes: that is for the product to say. A graph keeps what was accepted.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import omnigraph as og
from omnigraph.errors import OmnigraphError

SCALARS = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
KINDS = {
    **{f"one_{scalar}": f"{scalar}?" for scalar in SCALARS},
    **{f"many_{scalar}": f"[{scalar}]?" for scalar in SCALARS},
    "vector": "Vector(2)?",
    "blob": "Blob?",
    "word": "enum(plain, null, true)?",
    "select": 'String? @default("from")',
    "stars": "I64 @default(-9223372036854775808)",
    "born": 'Date? @default("0001-01-01")',
    "seen": 'DateTime @default("9999-12-31T23:59:59.999999Z")',
    "ratio": "F32? @default(0.1)",
}
_ALL = "  ".join(f"{name}: {type}" for name, type in KINDS.items())

SCHEMA = f"""
node Loose {{ {_ALL} }}
node Text {{ key: String @key  {_ALL} }}
node Pair {{ a: String  b: Date  c: F64  @key(c, a, b) }}
node Day {{ day: Date @key }}
node Moment {{ at: DateTime @key }}
node Small {{ key: F32 @key }}
node Wide {{ key: U64 @key }}
node Flag {{ key: Bool @key }}
edge Links: Text -> Text {{ {_ALL} }}
edge Text: Pair -> Moment {{ note: String? }}
edge Dated: Day -> Pair
"""

TEXTS = [
    "", " ", "a", "A", "é", "e\u0301", "😀", "\0", "\x01", "\x7f", "\x85", "\u2028", "\ufeff", "\ufeffx", "\\", "\\\\", "\\n", "\\u0000",
    '"', '""', "'", "''", "`", ",", ";", "\n", "\r", "\r\n", "\n\n", "\t", "a\nb", 'a"b', "a,b", "null", "NULL", "None", "NaN", "true",
    "0", "-0", "1e5", "00", "[]", "{}", '["a"]', "=1+1", "2020-01-01", "19723", "base64:", "base64:AA==", "--", "/*", "%", "_", "$x", "{x}",
    "x" * 300, "\ud800", "a\udfff", "id", "from",
]  # fmt: skip
INTEGERS = [
    0,
    -1,
    1,
    *(sign * 2**bits + step for bits in (31, 32, 53, 63, 64) for sign in (-1, 1) for step in (-1, 0, 1)),
]
FLOATS = [
    0.0, -0.0, 0.1, 1e16, 123456.789, 5e-324, 1.401298464324817e-45, 3.4028234663852886e38, 3.4028235e38, 1e39, 1.7976931348623157e308,
    1e-7, 1e21, 2.0**53, math.nan, math.inf, -math.inf, 7, 2**70, "1",
]  # fmt: skip
DAYS = [dt.date.min, dt.date.max, dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), 0, -719162, 2932897, "2024-02-29", "2023-02-29", "0000-01-01"]  # fmt: skip
INSTANTS = [
    dt.datetime.min, dt.datetime.max, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2024, 1, 1, 0, 0, 0, 1),
    dt.datetime(2024, 1, 1, 0, 0, 0, 1000), dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-12))), 0, -1, 253402300800000,
    "2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00.123456Z", "2024-06-30T23:59:60Z", "2024-01-01 00:00", "noon",
]  # fmt: skip

POOLS: dict[str, list[Any]] = {
    "String": TEXTS,
    "Bool": [True, False, 1, "true"],
    "F32": FLOATS,
    "F64": FLOATS,
    "Date": DAYS,
    "DateTime": INSTANTS,
    **{scalar: [*INTEGERS, "5", "-5", True, 1.0] for scalar in ("I32", "I64", "U32", "U64")},
}


class HostileGraph:
    """One graph. `taken`: ids of nodes with properties in the graphs that share its commit, which it leaves alone."""

    def __init__(self, source: random.Random, taken: set[str]) -> None:
        self.random = source
        self.taken = taken
        self.refused = 0

    def new_text(self) -> str:
        text: str = self.random.choice(TEXTS)
        while text in self.taken:
            text += self.random.choice(TEXTS) or str(len(self.taken))
        self.taken.add(text)
        return text

    def value(self, type: str) -> Any:
        """A null only where one is allowed: that is a rule of the whole commit, not of the value."""
        pick = self.random.choice
        base = type.partition("@")[0].strip().rstrip("?")
        if base.startswith("["):
            scalar = base.strip("[]")
            items = [pick(POOLS[scalar]) for _ in range(self.random.choice((0, 0, 1, 2)))]
            return pick([items, items, None, [*items, None], "[]"])
        if base.startswith("Vector"):
            return pick([None, [0.5, -0.0], [1, 2], [1.0], [math.nan, 0.0], [1e39, 0.0], [3.4028235e38, 1e-45], []])
        if base.startswith("enum"):
            return pick([None, "plain", "null", "true"])
        if base == "Blob":
            return pick([None, b"", b"\x00\xff", b"base64:", "base64:", "base64:AA==", "base64:A", "x"])
        return pick([*POOLS[base], None] if "?" in type else POOLS[base])

    def properties(self) -> dict[str, Any]:
        """Few of them at a time, so that one refused value does not take the others with it."""
        return {name: self.value(KINDS[name]) for name in self.random.sample(list(KINDS), k=self.random.randint(0, 2))}

    def fill(self, transaction: og.Transaction) -> int:
        """How many entities were accepted."""
        accepted: dict[str, list[str]] = {}

        def insert(type_name: str, values: dict[str, Any]) -> None:
            try:
                accepted.setdefault(type_name, []).append(transaction.upsert(type_name, values))
            except OmnigraphError:
                self.refused += 1

        pick, value = self.random.choice, self.value
        for _ in range(2):
            insert("Loose", {"id": self.new_text(), **self.properties()} if pick((True, False)) else self.properties())
            insert("Text", {"key": self.new_text(), **self.properties()})
        insert("Pair", {"a": value("String"), "b": value("Date"), "c": value("F64")})
        insert(
            *pick([("Day", {"day": value("Date")}), ("Wide", {"key": value("U64")}), ("Flag", {"key": value("Bool")})])
        )
        insert(*pick([("Moment", {"at": value("DateTime")}), ("Small", {"key": value("F32")})]))
        for edge, source, target in (("Links", "Text", "Text"), ("Text", "Pair", "Moment"), ("Dated", "Day", "Pair")):
            if accepted.get(source) and accepted.get(target):
                given = self.properties() if edge == "Links" else {"note": value("String")} if edge == "Text" else {}
                insert(edge, {**given, "from": pick(accepted[source]), "to": pick(accepted[target])})
        return sum(map(len, accepted.values()))
