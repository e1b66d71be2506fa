"""Functions that the engines spell or define differently: one neutral name in a tree, one SQL text per engine.

A neutral call is replaced by its engine's text when the tree becomes SQL. `a`, `b` and `c` in a text stand for the arguments; the
parameter `item` of a lambda is renamed to the argument `c`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

# Syntax trees of SQL. sqlglot is imported when the first one is built: commands that only look, and short reads and writes,
# build none.

if TYPE_CHECKING:
    from sqlglot import exp as exp
else:

    class _Expressions:
        def __getattr__(self, name: str) -> object:
            from sqlglot import exp as loaded

            value = getattr(loaded, name)
            setattr(self, name, value)
            return value

    exp = _Expressions()


Dialect = Literal["duckdb", "spark"]

_PREFIX = "OG_"
_ARGUMENTS = ("a", "b", "c")

_UPPER_LETTER = (
    "CASE WHEN letter = 'ß' THEN 'ẞ' WHEN length(upper(letter)) = 1 THEN upper(letter) "
    "WHEN length(initcap(letter)) = 1 THEN initcap(letter) ELSE letter END"
)
_LOWER_LETTER = "CASE WHEN letter = 'İ' THEN 'i' WHEN length(lower(letter)) = 1 THEN lower(letter) ELSE letter END"
_LETTERS = "regexp_extract_all(a, '(?s).', 0)"
_PLACE = "least(greatest({}, -2147483648), 2147483647)"
_START, _COUNT = _PLACE.format("b"), _PLACE.format("c")
_FIRST = f"greatest({_START}, 1)"
_LENGTH = f"greatest({_COUNT} + least({_START} - 1, 0), 0)"
_QUOTED = r"concat('\\Q', replace(nullif(b, ''), '\\E', '\\E\\\\E\\Q'), '\\E')"
_ADDED = {
    "year": ("to_years(CAST(b AS INT))", "make_ym_interval(CAST(b AS INT), 0)"),
    "month": ("to_months(CAST(b AS INT))", "make_ym_interval(0, CAST(b AS INT))"),
    "week": ("to_days(CAST(7 * b AS INT))", "make_dt_interval(CAST(7 * b AS INT), 0, 0, 0)"),
    "day": ("to_days(CAST(b AS INT))", "make_dt_interval(CAST(b AS INT), 0, 0, 0)"),
    "hour": ("to_hours(b)", "make_dt_interval(0, CAST(b AS INT), 0, 0)"),
    "minute": ("to_minutes(b)", "make_dt_interval(0, 0, CAST(b AS INT), 0)"),
    "second": ("to_seconds(b)", "make_dt_interval(0, 0, 0, b)"),
}

_SIZE = "abs(a)"
_DIGITS = "CAST(CAST(CAST(a AS STRING) AS DECIMAL(38, 20)) AS STRING)"
_SMALLEST = "element_at(array({}), CAST(abs(a) / 4.9E-324 AS INT))".format(
    ", ".join(f"'{k * 5e-324!r}'" for k in range(1, 21))
)
_INSTANT_TEXT = "CASE WHEN {micros} % 1000 = 0 THEN {short} ELSE {long} END"


def _spelled(pattern: str, type_: str) -> tuple[str, str]:
    """The number that a text spells."""
    number = f"TRY_CAST(a AS {type_})"
    finite = f"CASE WHEN abs({number}) < CAST('inf' AS DOUBLE) THEN {number} END" if type_ == "DOUBLE" else number
    duck, spark = f"regexp_full_match(a, '{pattern}')", "a RLIKE '^(?:{})\\\\z'".format(pattern.replace("\\", "\\\\"))
    return f"CASE WHEN {duck} THEN {finite} END", f"CASE WHEN {spark} THEN {finite} END"


def _percentile(values: str, size: str, item: str) -> str:
    """Linear interpolation between the two nearest values, with the same steps, so the same digits, on both engines."""
    place = f"(({size.format(values)} - 1) * b)"
    low, high = (item.format(f"({values})", f"CAST({side}({place}) AS INT)") for side in ("floor", "ceil"))
    return f"{low} + ({high} - {low}) * ({place} - floor({place}))"


TEXTS: dict[str, tuple[str, str]] = {
    "upper": ("upper(a)", f"array_join(transform({_LETTERS}, letter -> {_UPPER_LETTER}), '')"),
    "lower": ("lower(a)", f"array_join(transform({_LETTERS}, letter -> {_LOWER_LETTER}), '')"),
    "trim": ("trim(a, ' ' || chr(9) || chr(10) || chr(13))", r"trim(BOTH ' \t\n\r' FROM a)"),
    # `greatest` and `least` skip null.
    "substring": (
        f"CASE WHEN b IS NOT NULL AND c IS NOT NULL THEN substring(a, {_FIRST}, {_LENGTH}) END",
        f"CASE WHEN b IS NOT NULL AND c IS NOT NULL THEN substring(a, CAST({_FIRST} AS INT), CAST({_LENGTH} AS INT)) END",
    ),
    "substring_from": (
        f"CASE WHEN b IS NOT NULL THEN substring(a, {_FIRST}) END",
        f"CASE WHEN b IS NOT NULL THEN substring(a, CAST({_FIRST} AS INT)) END",
    ),
    "length": ("length(a)", "CAST(length(a) AS BIGINT)"),
    "split": ("CASE WHEN b <> '' THEN string_split(a, b) END", f"split(a, {_QUOTED}, -1)"),
    "join": ("substring(list_reduce(list_filter(a, lambda text_: text_ IS NOT NULL), lambda left_, right_: left_ || b || right_, ''), length(b) + 1)", "array_join(a, b)"),
    "float_text": (
        "CAST(a AS VARCHAR)",
        # Java writes an exponent from 1e7 up and below 1e-3, and the others from 1e16 up and below 1e-4. Of the smallest numbers
        # it writes two digits where one is enough.
        f"CASE WHEN {_SIZE} <= 1e-322 AND a <> 0 THEN concat(CASE WHEN a < 0 THEN '-' ELSE '' END, {_SMALLEST}) WHEN {_SIZE} >= 1e16 OR ({_SIZE} < 1e-4 AND a <> 0) THEN "
        r"regexp_replace(regexp_replace(regexp_replace(replace(CAST(a AS STRING), '.0E', 'E'), 'E(-?)(\\d)$', 'E$10$2'), 'E(-?)(\\d)', 'e$1$2'), 'e(?!-)', 'e+') "
        f"WHEN {_SIZE} >= 1e7 OR ({_SIZE} < 1e-3 AND a <> 0) THEN "
        rf"regexp_replace(regexp_replace({_DIGITS}, '0+$', ''), '\\.$', '.0') ELSE CAST(a AS STRING) END",
    ),
    "instant_text": (
        _INSTANT_TEXT.format(
            micros="epoch_us(a)",
            short="strftime(a, '%Y-%m-%dT%H:%M:%S.%gZ')",
            long="strftime(a, '%Y-%m-%dT%H:%M:%S.%fZ')",
        ),
        _INSTANT_TEXT.format(
            micros="unix_micros(CAST(a AS TIMESTAMP))",
            short="date_format(a, \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\")",
            long="date_format(a, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")",
        ),
    ),
    "integer": _spelled("-?[0-9]+", "BIGINT"),
    "float": _spelled(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", "DOUBLE"),
    "trunc": ("trunc(a)", "CASE WHEN a < 0 THEN ceil(a) ELSE floor(a) END"),
    "ends_with": ("suffix(a, b)", "endswith(a, b)"),
    "round": ("round(a)", "round(a)"),
    "floor": ("floor(a)", "CASE WHEN abs(a) < 4503599627370496 THEN CAST(floor(a) AS DOUBLE) ELSE a END"),
    "ceil": ("ceil(a)", "CASE WHEN abs(a) < 4503599627370496 THEN CAST(ceil(a) AS DOUBLE) ELSE a END"),
    "sqrt": ("sqrt(CASE WHEN a >= 0 THEN a END)",) * 2,
    "ln": ("ln(CASE WHEN a > 0 THEN a END)",) * 2,
    "power": (
        "nullif(nullif(nullif(power(a, b), CAST('inf' AS DOUBLE)), CAST('-inf' AS DOUBLE)), CAST('nan' AS DOUBLE))",
        "nullif(nullif(nullif(power(a, b), CAST('inf' AS DOUBLE)), CAST('-inf' AS DOUBLE)), CAST('nan' AS DOUBLE))",
    ),
    "year": ("year(a)", "CAST(year(a) AS BIGINT)"),
    "month": ("month(a)", "CAST(month(a) AS BIGINT)"),
    "day": ("day(a)", "CAST(day(a) AS BIGINT)"),
    "week": ("week(a)", "CAST(weekofyear(a) AS BIGINT)"),
    "weekday": ("isodow(a)", "CAST(weekday(a) + 1 AS BIGINT)"),
    "hour": ("hour(a)", "CAST(hour(a) AS BIGINT)"),
    "microseconds": ("epoch_us(CAST(a AS TIMESTAMP))", "unix_micros(CAST(a AS TIMESTAMP))"),
    "any": (
        "CASE WHEN a IS NULL THEN NULL ELSE CASE list_max(list_transform(a, lambda item: CASE b WHEN TRUE THEN 2 "
        "WHEN FALSE THEN 0 ELSE 1 END)) WHEN 2 THEN TRUE WHEN 1 THEN NULL ELSE FALSE END END",
        "exists(a, item -> b)",
    ),
    "all": (
        "CASE WHEN a IS NULL THEN NULL ELSE CASE list_max(list_transform(a, lambda item: CASE b WHEN FALSE THEN 2 "
        "WHEN TRUE THEN 0 ELSE 1 END)) WHEN 2 THEN FALSE WHEN 1 THEN NULL ELSE TRUE END END",
        "forall(a, item -> b)",
    ),
    "collect": (
        "coalesce(list(a ORDER BY a) FILTER (WHERE a IS NOT NULL), [])",
        "array_sort(collect_list(a))",
    ),
    "collect_distinct": (
        "coalesce(list(DISTINCT a ORDER BY a) FILTER (WHERE a IS NOT NULL), [])",
        "array_sort(collect_set(a))",
    ),
    "each_item": ("list_transform(a, lambda item: b)", "transform(a, item -> b)"),
    "collect_records": (
        "list_transform(coalesce(list({'k': b, 'v': a} ORDER BY {'k': b, 'v': a}) FILTER (WHERE a IS NOT NULL), []), lambda pair: pair.v)",
        "transform(array_sort(collect_list(struct(b AS k, a AS v)) FILTER (WHERE a IS NOT NULL)), pair -> pair.v)",
    ),
    "collect_distinct_records": (
        "list_transform(coalesce(list(DISTINCT {'k': b, 'v': a} ORDER BY {'k': b, 'v': a}) FILTER (WHERE a IS NOT NULL), []), lambda pair: pair.v)",
        "transform(array_sort(collect_set(struct(b AS k, a AS v)) FILTER (WHERE a IS NOT NULL)), pair -> pair.v)",
    ),
    "percentile": (
        _percentile("list(a ORDER BY a) FILTER (WHERE a IS NOT NULL)", "len({})", "{}[{} + 1]"),
        _percentile("array_sort(collect_list(a))", "size({})", "get({}, {})"),
    ),
    "first": (
        "first(a ORDER BY b, c) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)",
        "min_by(a, struct(b, c)) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)",
    ),
    "last": (
        "first(a ORDER BY b DESC, c DESC) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)",
        "max_by(a, struct(b, c)) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)",
    ),
    "append": ("list_append(a, b)", "array_append(a, b)"),
    "size": ("len(a)", "CAST(size(a) AS BIGINT)"),
    **{f"truncated_{unit}": (f"date_trunc('{unit}', a)", f"date_trunc('{unit}', a)") for unit in _ADDED},
    **{f"added_{unit}": (f"a + {first}", f"a + {second}") for unit, (first, second) in _ADDED.items()},
}  # fmt: skip


def neutral(name: str, *arguments: exp.Expression) -> exp.Expression:
    """A call that each engine gets in its own syntax."""
    assert name in TEXTS, name
    return exp.Anonymous(this=_PREFIX + name, expressions=list(arguments))


def in_words_of(tree: exp.Expr, dialect: Dialect, *, copy: bool) -> exp.Expr:
    """The tree with its neutral calls in an engine's syntax. Without `copy` the original must not be used again."""

    def replaced(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Anonymous) or not str(node.this).startswith(_PREFIX):
            return node
        arguments = dict(zip(_ARGUMENTS, node.expressions, strict=False))
        pattern = _pattern(str(node.this).removeprefix(_PREFIX), dialect).copy()
        for inner in list(pattern.find_all(exp.Lambda)):
            if "c" in arguments and inner.expressions[0].name == "item":
                inner.set("expressions", [arguments["c"].copy()])
        for place in list(pattern.find_all(exp.Column)):
            if place.name in arguments:
                place.replace(exp.Paren(this=arguments[place.name].transform(replaced)))
        return exp.Paren(this=pattern)

    return tree.transform(replaced, copy=copy)


@cache
def _pattern(name: str, dialect: Dialect) -> exp.Expr:
    from sqlglot import parse_one

    return exp.Paren(this=parse_one(TEXTS[name][0 if dialect == "duckdb" else 1], dialect=dialect))


# Pieces of SQL trees (sqlglot), and their text in either dialect.


def column(name: str, table: str | None = None) -> exp.Column:
    """A quoted column, so that camelCase and SQL keywords are ordinary names."""
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True) if table else None
    )


def table(name: str, alias: str | None = None) -> exp.Table:
    tree = exp.Table(this=exp.to_identifier(name, quoted=True))
    if alias is not None and alias != name:
        tree.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return tree


def named(expression: exp.Expression, alias: str) -> exp.Expression:
    return exp.Alias(this=expression, alias=exp.to_identifier(alias, quoted=True))


def to_sql(tree: exp.Expr, dialect: Dialect, *, copy: bool = True, pretty: bool = False) -> str:
    """The tree's SQL. Without `copy` the tree must not be used again."""
    return in_words_of(tree, dialect, copy=copy).sql(dialect=dialect, identify=True, copy=False, pretty=pretty)
