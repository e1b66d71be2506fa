"""`@check` patterns: what every engine has, and that Python and DuckDB agree on it."""

from __future__ import annotations

import duckdb
import pytest

from omnigraph.language.schema.constraints import pattern_fault, python_pattern

GOOD = [
    "", "a", "^[^@]+@[^@]+$", r"\d{3}-\d{4}", r"(?i)abc", r"(?P<x>a)\w*", "[]a]", "[^]a]", r"[\]\\-]", r"a{2,}?", r"(?:a|b)*?", r"\bx\b",
    r"\$", "[$]", "^a$|^b$", r"\x41", "é+", "(?s)a.b", "(?m)^a$", "(?i:a)b", "a{1000}", "{", "a|", "[(?=]", r"\(?=", "x{a}", r"[\w.+-]+",
]  # fmt: skip


@pytest.mark.parametrize("pattern", GOOD)
def test_a_good_pattern_means_the_same_in_both_engines(pattern: str) -> None:
    assert pattern_fault(pattern) is None
    values = [
        "",
        "a",
        "b",
        "ab",
        "aab",
        "a\n",
        "A",
        "ABC",
        "a@b.c",
        "123-4567",
        "$",
        "x y",
        "a\nb",
        "é",
        "٣",
        "]",
        "(?=",
        "(=",
        "{",
        "x{a}",
        "-",
    ]
    connection = duckdb.connect()
    for value in values:
        (expected,) = connection.execute("select regexp_matches(?, ?)", [value, pattern]).fetchone() or (None,)
        assert (python_pattern(pattern).search(value) is not None) is expected, value


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        ("a(?=b)", "lookahead"),
        ("a(?!b)", "lookahead"),
        ("(?<=a)b", "lookbehind"),
        ("(?<!a)b", "lookbehind"),
        (r"(a)\1", "a backreference"),
        ("(?P<x>a)(?P=x)", "a backreference"),
        ("(?>a)", "an atomic group"),
        ("(a)?(?(1)b)", "a conditional group"),
        ("(?#x)a", "a comment group"),
        ("a*+", "a possessive quantifier"),
        ("a{2}+", "a possessive quantifier"),
        ("a{,3}", "a repeat without a minimum (write {0,n})"),
        ("a{1001}", "a repeat of more than 1000"),
        ("a{5,99999999999999999999}", "a repeat of more than 1000"),
        ("(?x)a b", "the flag x"),
        ("(?i-u:a)", "the flag u"),
        (r"a\Z", r"\Z (write $)"),
        (r"\u0041", r"\u (write the character itself)"),
        (r"\0", "an octal escape"),
        (r"[\1]", "an octal escape"),
        ("[[:alpha:]]", "a set inside a set"),
        ("[a[b]]", "a set inside a set"),
        ("[a&&b]", "a set operation inside [...]"),
        ("[a--b]", "a set operation inside [...]"),
    ],
)
def test_what_the_engines_do_not_share_is_named(pattern: str, feature: str) -> None:
    fault = pattern_fault(pattern)
    assert fault is not None
    assert fault.feature == feature


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "*", "a**", "\\", r"\p{L}", r"\z", "(?P<1>a)", "(?<n>a)", "[b-a]", "(?q)"]
)
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    assert pattern_fault(pattern) is not None
