"""A graph of hostile values, and every form of expression over it: the table behind the agreement of all evaluators."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = """
node Row {
  name: String @key
  s: String?  z: String?  b: Bool?
  i32: I32?  u32: U32?  i64: I64?  u64: U64?  f32: F32?  f64: F64?
  d: Date?  t: DateTime?
  ls: [String]?  li: [I64]?  lu: [U64]?  lf: [F64]?  ld: [Date]?
}
"""


def f32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


UTC = dt.UTC
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "é",
    "e\u0301",
    "ß",
    "😀",
    "\uffff",
    "a\\b",
    "'",
    '"',
    "`",
    "%",
    "_",
    "\n",
    "\0",
    "NaN",
    "zz",
]
SPELLED = [
    *(
        "0",
        "-0",
        "007",
        "7.",
        ".5",
        "-.5e1",
        "1e3",
        "1E-400",
        "1e400",
        "-1.5",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "0x1f",
        "1_000",
        "nan",
        "inf",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "99999999999999999999999",
        "1e",
        "e1",
        "-",
        ".",
        "٣",
    ),
]
I32S = [0, 1, -1, 7, 2**31 - 1, -(2**31), 16777217]
U32S = [0, 1, 7, 2**31, 2**32 - 1, 16777217]
I64S = [0, 1, -1, 7, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
U64S = [0, 1, 7, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
F64S = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, 7.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**53, 2.0**63]
F32S = [0.0, -0.0, 1.0, f32(0.1), 2.5, 16777216.0, f32(3.4028234663852886e38), 1e-45]
DATES = [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), dt.date(1969, 12, 31)]
TIMES = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    dt.datetime(2024, 2, 29, 12, 0, 0, 1_000),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_000),
    dt.datetime(1, 1, 1),
]
COLUMNS: dict[str, Sequence[Any]] = {
    "s": TEXTS, "z": [*TEXTS[3:], *TEXTS[:3]], "b": [True, False],
    "i32": I32S, "u32": U32S, "i64": I64S, "u64": U64S, "f32": F32S, "f64": F64S,
    "d": DATES, "t": TIMES,
    "ls": [[], [""], ["a", "ab"], ["😀", "\0"]], "li": [[], [0], [7, -1], [-(2**63), 2**63 - 1], [2**53 + 1]],
    "lu": [[], [0, 7], [2**64 - 1]], "lf": [[], [0.0], [-0.0, 2.5], [7.0, 2.0**53]], "ld": [[], DATES[:2], DATES[3:]],
}  # fmt: skip
TYPES = {
    "s": "String", "b": "Bool", "i32": "I32", "u32": "U32", "i64": "I64", "u64": "U64", "f32": "F32", "f64": "F64",
    "d": "Date", "t": "DateTime",
}  # fmt: skip
NUMBERS = ("i32", "u32", "i64", "u64", "f32", "f64")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
NOW = dt.datetime(2024, 2, 29, 12, 0, 0, 1_000, tzinfo=UTC)


def rows() -> list[dict[str, Any]]:
    """Every value of every column, nulls among them, beside ever other values of the other columns."""
    cycles = {name: itertools.cycle([*values, None]) for name, values in COLUMNS.items()}
    return [{"name": f"r{place:02}", **{name: next(cycle) for name, cycle in cycles.items()}} for place in range(48)]


@dataclass(frozen=True, eq=False)
class Form:
    """An expression, and the parameters it uses: name -> (declared type, bound value)."""

    text: str
    parameters: tuple[tuple[str, str, Any], ...] = ()


def forms() -> list[Form]:
    return [
        *_comparisons(),
        *_between_columns(),
        *_memberships(),
        *_texts(),
        *_logic(),
        *_arithmetic(),
        *_functions(),
        *_choices(),
    ]


class _Parameters:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, type: str, value: Any) -> tuple[str, tuple[tuple[str, str, Any], ...]]:
        self.count += 1
        name = f"p{self.count}"
        return f"${name}", ((name, type, value),)


_parameter = _Parameters()


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        case dt.datetime():
            return f'datetime("{value.isoformat(timespec="milliseconds")}Z")'
        case dt.date():
            return f'date("{value.isoformat()}")'
    return repr(value)


def _comparisons() -> Iterator[Form]:
    """Each column with literals and parameters of its own type, and numbers with parameters of every numeric type."""
    for name, type in TYPES.items():
        operators = ("=", "!=") if name == "b" else COMPARISONS
        for op, value in itertools.product(operators, [*COLUMNS[name], None]):
            yield Form(f"$p.{name} {op} {_literal(value)}")
            text, parameters = _parameter(f"{type}?", value)
            yield Form(f"{text} {op} $p.{name}", parameters)
    for name, other in itertools.permutations(NUMBERS, 2):
        for place, value in enumerate(COLUMNS[other]):
            text, parameters = _parameter(TYPES[other], value)
            yield Form(f"$p.{name} {COMPARISONS[place % 6]} {text}", parameters)
            yield Form(f"$p.{name} {COMPARISONS[(place + 3) % 6]} {text}", parameters)
    for name, value in itertools.product(("i32", "u32", "i64", "u64"), (2.5, -0.0, 7.0, 1e300, -1e300)):
        for op in COMPARISONS:
            yield Form(f"$p.{name} {op} {value!r}")
    for op in COMPARISONS:
        yield Form(f"$p.t {op} now()")


def _between_columns() -> Iterator[Form]:
    for first, second in itertools.product(NUMBERS, NUMBERS):
        yield from (Form(f"$p.{first} {op} $p.{second}") for op in ("=", "<", ">="))
    for op in COMPARISONS:
        yield Form(f"$p.s {op} $p.z")
        yield Form(f"$p.name {op} $p.s")
    for name in COLUMNS:
        yield Form(f"$p.{name} is null")
        yield Form(f"not $p.{name} is not null")


def _memberships() -> Iterator[Form]:
    lists = {"s": "ls", "i32": "li", "u32": "lu", "i64": "li", "u64": "lu", "f32": "lf", "f64": "lf", "d": "ld"}
    for name, type in TYPES.items():
        values = list(COLUMNS[name])
        if name != "b":
            yield Form(f"$p.{name} in [{', '.join(map(_literal, values[1::2]))}]")
            yield Form(f"not $p.{name} in [{', '.join(map(_literal, values[::2]))}]")
            yield Form(f"$p.{name} in [{_literal(values[0])}, null]")
            yield Form(f"not $p.{name} in [{_literal(values[0])}, $p.{name}, null]")
            yield Form(f"$p.{name} in [$p.{name}, {_literal(values[1])}]")
        yield Form(f"$p.{name} in []")
        for given in ([], values[::2], values[1:], None):
            text, parameters = _parameter(f"[{type}]?", given)
            yield Form(f"$p.{name} in {text}", parameters)
            yield Form(f"not $p.{name} in {text}", parameters)
        text, parameters = _parameter(f"[{type}]", values)
        yield Form(f"$p.{name} in {text}", parameters)
        if name in lists:
            yield Form(f"$p.{name} in $p.{lists[name]}")
            yield Form(f"not $p.{name} in $p.{lists[name]}")
            yield Form(f"$p.{lists[name]} contains $p.{name}")
            yield Form(f"$p.{lists[name]} contains {_literal(values[1])}")
    for name, items in itertools.product(NUMBERS, ("0.5, 7, 16777216", "-0.0, 2.5, 0", "1, 2.5, null")):
        yield Form(f"$p.{name} in [{items}]")
    for name in ("li", "lu", "lf"):
        yield from (Form(f"$p.{name} contains {item}") for item in ("2.5", "7", "7.0", "-0.0", "null"))
    yield from (Form(f"$p.{name} in [0.5, 7, 9007199254740992]") for name in ("i64", "u64", "f64"))
    many = ", ".join(str(value) for value in range(100))
    yield from (Form(f"$p.{name} in [{many}]") for name in NUMBERS)
    yield from (Form(f"not $p.{name} in [{many}, 0.5, null]") for name in NUMBERS)
    yield Form(f"$p.s in [{', '.join(_literal(text) for text in TEXTS * 4)}]")
    yield Form(f"$p.d in [{', '.join(_literal(day) for day in DATES * 20)}]")
    yield Form(f"$p.t in [{', '.join(_literal(time) for time in TIMES * 20)}, null]")


def _texts() -> Iterator[Form]:
    for op, value in itertools.product(("contains", "starts_with"), TEXTS):
        yield Form(f"$p.s {op} {_literal(value)}")
        text, parameters = _parameter("String?", value)
        yield Form(f"not $p.z {op} {text}", parameters)
    for op in ("contains", "starts_with"):
        yield Form(f"$p.s {op} $p.z")
        yield Form(f"$p.name {op} $p.s")
        text, parameters = _parameter("String?", None)
        yield Form(f"$p.s {op} {text}", parameters)
        yield Form(f'"abc" {op} $p.s')


def _logic() -> Iterator[Form]:
    atoms = ["$p.b", "$p.i32 > 0", "$p.s = null", "$p.f64 is null", "not $p.b", "true", "$p.d < $p.d"]
    for first, second in itertools.product(atoms, atoms):
        yield Form(f"({first}) and ({second})")
        yield Form(f"({first}) or ({second})")
        yield Form(f"not (({first}) or not ({second}))")
    yield Form("$p.i32 = 1 and ($p.s contains $p.z or $p.i64 > 0) and $p.f64 != 0.0")
    yield Form("($p.i32 = 1 and $p.s contains $p.z) or ($p.u64 > 5 and $p.d is not null)")
    yield Form(" and ".join(f"$p.i64 != {number}" for number in range(70)))
    yield Form(" or ".join(f"$p.u32 = {number}" for number in range(70)))


def _arithmetic() -> Iterator[Form]:
    for first, second in itertools.product(("i32", "u32"), ("i32", "u32")):
        operators = ("+", "-", "*", "/", "%") if "i32" in (first, second) else ("+", "-", "/", "%")
        yield from (Form(f"$p.{first} {op} $p.{second}") for op in operators)
    for first, second in itertools.product(NUMBERS, ("i32", "f32", "f64")):
        yield Form(f"$p.{first} / $p.{second}")
        if second != "i32":
            yield from (Form(f"$p.{first} {op} 0.5 > $p.{second}") for op in ("+", "-", "*"))
    for name in ("i32", "u32", "i64"):
        yield from (Form(f"$p.{name} % {number}") for number in (7, -7, -1, 0, 1))
        yield Form(f"$p.{name} % $p.i32")
        yield Form(f"7 % $p.{name}")
    for name in ("f32", "f64"):
        yield from (Form(f"$p.{name} % {number}") for number in ("2.5", "0.0", "-1.0"))
        yield Form(f"-$p.{name}")
    yield from (Form(f"-$p.{name} < 0") for name in ("i32", "u32", "f32", "f64"))
    yield Form("($p.i32 + 1) * 2 - $p.u32 % 5 >= 3 / 2")


def _functions() -> Iterator[Form]:
    for name in ("lower", "upper", "trim", "length"):
        yield from (Form(f"{name}($p.{column})") for column in ("s", "z", "name"))
        yield from (Form(f"{name}({_literal(text)})") for text in (" a\tB ", "STRASSE ß", "ǅ İ Σς", "\n x"))
    for start, count in itertools.product((-1, 0, 1, 2, 9, -(2**63), 2**63 - 1), (-1, 0, 1, 3, 2**63 - 1)):
        yield Form(f'substring("a😀bé", {start}, {count})')
        yield Form(f"substring($p.s, {start}, {count})")
    yield from (Form(f'substring("a😀bé", {start})') for start in (-3, 0, 1, 2, 4, 5))
    yield Form("substring($p.z, $p.i32, $p.u32)")
    yield Form("substring($p.z, $p.i64)")
    for text in ("", "a", "\\E", ".", "b", "'", "\n"):
        yield Form(f"split($p.s, {_literal(text)})")
        yield Form(f"replace($p.s, {_literal(text)}, {_literal('<' + text + '>')})")
        yield Form(f"$p.z ends_with {_literal(text)}")
    yield from (Form(text) for text in ("$p.s ends_with $p.z", "not $p.z ends_with $p.s", 'split("a.b..c", ".")'))
    yield from (Form(f"join($p.ls, {_literal(text)})") for text in ("", ", ", "\\"))
    yield Form("join(split($p.name, $p.s), $p.z)")
    yield Form("replace($p.name, $p.s, $p.z)")
    for name in NUMBERS:
        yield from (Form(f"{function}($p.{name})") for function in ("floor", "ceil", "round", "sqrt"))
        yield Form(f"ln($p.{name}) > 0")
        if name not in ("i64", "u64"):
            yield Form(f"abs($p.{name})")
    yield from (Form(f"text($p.{name})") for name in (*NUMBERS, "b", "d", "t"))
    yield from (
        Form(f"text({number!r})")
        for number in (1e7, 12345678.9, 1e15, 1e16, 1.5e22, 0.00012, 1e-4, -1.25e-7, 0.001, -1e-10)
    )
    yield Form('text(datetime("2024-03-31T12:30:45.678901Z"))')
    for name in ("integer", "float"):
        yield from (Form(f"{name}(text($p.{column}))") for column in NUMBERS)
        yield from (Form(f"{name}($p.{column})") for column in ("s", "i32", "u32"))
        yield from (Form(f"{name}({_literal(text)})") for text in SPELLED)
        yield from (Form(f"{name}({number!r})") for number in (2.5, -2.5, -0.0, 0.99, 1e15, 7))
    for number in (0.5, 1.5, 2.5, -0.5, -2.5, 0.49999999999999994, 2.675, -1.005, 1e15 + 0.5):
        yield from (Form(f"{function}({number!r})") for function in ("round", "floor", "ceil", "abs"))
        yield from (Form(f"round({number!r}, {digits})") for digits in (1, 2, 3))
    for base, exponent in ((2, 10), (2.0, -1), (0, -1), (-8, 0.5), (10, 400), (-2, 3), (9, 0.5), (0, 0)):
        yield Form(f"power({base}, {exponent})")
    yield Form("power($p.i32, 2)")
    for column in ("d", "t"):
        yield from (Form(f"{function}($p.{column})") for function in ("year", "month", "day", "week"))
        yield from (Form(f'date_trunc("{unit}", $p.{column})') for unit in ("year", "month", "week", "day"))
    yield from (Form(f'date_trunc("{unit}", $p.t)') for unit in ("hour", "minute", "second"))
    for day in ("2024-01-31", "2024-02-29", "1999-12-31", "2021-01-03", "2020-12-28"):
        for unit, count in itertools.product(("day", "week", "month", "year"), (0, 1, -1, 13, -13)):
            yield Form(f'date_add(date("{day}"), {count}, "{unit}")')
        yield from (Form(f'{function}(date("{day}"))') for function in ("week", "year", "month", "day"))
    for unit, count in itertools.product(("second", "minute", "hour", "day", "week", "month", "year"), (1, -1, 100)):
        yield Form(f'date_add(datetime("2024-03-31T12:30:45.678901Z"), {count}, "{unit}s")')
    yield from (Form(f"$p.t {op} now() {sign} 30 {unit}") for op, sign, unit in (
        ("<", "-", "days"), (">=", "+", "months"), ("=", "-", "seconds"), ("<", "+", "years")))  # fmt: skip
    yield Form("case when year($p.d) < 9000 then $p.d + 1 month end")
    yield Form("case when year($p.t) > 1000 then $p.t - 90 minutes end")
    yield from (Form(f'duration($p.t, now(), "{unit}")') for unit in ("second", "minute", "hour", "day", "week"))
    yield Form('duration($p.d, $p.t, "days")')
    yield Form('join([$p.s, "+", $p.z], "")')
    yield from (
        Form(text)
        for text in ("[$p.i32, $p.u32, 1]", "[$p.s, null, $p.z]", "[$p.f32, $p.i32]", "[$p.d, $p.d]", "[now()]")
    )
    yield Form("{a: $p.i32, b: $p.u32, c: $p.u64, d: $p.f32, e: $p.t, f: $p.s, g: $p.b, h: null}")
    yield Form("case when $p.b then {a: $p.d, b: 1} end")
    yield Form("size([$p.i32, 1.5, null])")
    yield from (Form(f"size($p.{name})") for name in ("ls", "li", "lu", "lf", "ld"))


def _choices() -> Iterator[Form]:
    for name in TYPES:
        yield Form(f"coalesce($p.{name}, {_literal(COLUMNS[name][0])})")
        yield Form(f"coalesce(null, $p.{name}, null)")
        yield Form(f"case when $p.b then $p.{name} end")
        yield Form(f"case when $p.b then $p.{name} when $p.i32 > 0 then {_literal(COLUMNS[name][1])} else null end")
    yield from (Form(f"coalesce($p.{first}, $p.{second})") for first, second in (
        ("i32", "i64"), ("i32", "f64"), ("f32", "i32"), ("u32", "i32"), ("s", "z")))  # fmt: skip
    yield Form("case when $p.u64 < 100 then $p.u64 + 1 else -1 end")
    yield Form("case when $p.i64 < 100 and $p.i64 > -100 then $p.i64 * $p.i64 else 0.5 end")
    yield Form("case when $p.b then [1, 2] else $p.li end")
    yield Form('case when $p.s = "a" then 1 when $p.s != "a" then 2 else 3 end > 1')
    for kind in ("any", "all"):
        yield Form(f'{kind}($x in $p.ls where $x = "a")')
        yield Form(f"{kind}($x in $p.ls where $x = $p.s)")
        yield Form(f"not {kind}($x in $p.li where $x > $p.i32)")
        yield Form(f"{kind}($x in $p.lf where $x * 2 < 6)")
        yield Form(f"{kind}($x in $p.li where any($y in $p.lu where $x = $y))")
        yield Form(f'{kind}($x in split($p.name, "r") where length($x) > 1)')
        yield Form(f"{kind}($x in [1, 2, 3] where $x = $p.i32)")
        yield Form(f"{kind}($x in [] where true)")
        text, parameters = _parameter("[String]?", None)
        yield Form(f'{kind}($x in {text} where $x = "a")', parameters)


OVERFLOWS = [
    "abs($p.i64)", "$p.d + 1 year", 'date_add($p.t, -1, "hour")', 'date_add($p.t, $p.i64, "day")',
    "$p.i64 + 1", "$p.i64 - 1", "$p.i64 * 2", "-$p.i64", "$p.u64 - 1", "$p.u64 + 0", "-$p.u64", "$p.u64 % 7",
    "$p.i64 * $p.i64 > 0",
]  # fmt: skip


def same(first: Any, second: Any) -> bool:
    """Equal, and of one type; a float by its value, an instant with or without its zone."""
    if isinstance(first, dt.datetime) and isinstance(second, dt.datetime):
        return first.replace(tzinfo=None) == second.replace(tzinfo=None)
    if isinstance(first, float) and isinstance(second, float):
        return first == second or (math.isnan(first) and math.isnan(second))
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return list(first) == list(second) and all(map(same, first.values(), second.values()))
    return type(first) is type(second) and first == second
