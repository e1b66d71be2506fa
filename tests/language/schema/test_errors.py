"""Every rule of the schema language, broken once or more.

`errors/<code>-<what>.pg` holds a text and, in its first line, the exact message it must give; `<name>.previous.pg` is the
schema it is compiled against, if any. `snapshots/<name>.txt` is the whole rendered error. To write the snapshots anew, run
the tests with OMNIGRAPH_UPDATE_SNAPSHOTS=1 and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.errors import SchemaError
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.rules import RULES

HERE = Path(__file__).parent
CASES = sorted(path for path in (HERE / "errors").glob("S*.pg") if not path.name.endswith(".previous.pg"))


def compile_case(path: Path) -> SchemaError:
    earlier = path.with_suffix(".previous.pg")
    previous = compile_schema(earlier.read_text("utf-8")) if earlier.exists() else None
    with pytest.raises(SchemaError) as caught:
        compile_schema(path.read_text("utf-8"), "case.pg", previous)
    return caught.value


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_broken_rule_gives_its_code_its_message_and_its_place(path: Path) -> None:
    error = compile_case(path)
    text = path.read_text("utf-8")
    assert error.message == text.split("\n", 1)[0].removeprefix("// ")
    assert error.rule == path.name.split("-", 1)[0]
    assert error.hint
    lines = text.split("\n")
    assert 1 < error.line <= len(lines)
    assert error.source_line == lines[error.line - 1]
    assert 1 <= error.column <= len(error.source_line) + 1

    snapshot = HERE / "snapshots" / f"{path.stem}.txt"
    if os.environ.get("OMNIGRAPH_UPDATE_SNAPSHOTS"):
        snapshot.write_text(error.render() + "\n", "utf-8")
    assert error.render() + "\n" == snapshot.read_text("utf-8")


def test_every_rule_has_a_case() -> None:
    shown = {path.name.split("-", 1)[0] for path in CASES} | {"S010"}
    assert shown == set(RULES)


def test_every_snapshot_has_a_case() -> None:
    assert {path.stem for path in (HERE / "snapshots").glob("*.txt")} == {path.stem for path in CASES}


def test_text_that_is_not_unicode_is_refused_with_its_place() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema('node A {}\n// \ud800 "')
    assert (caught.value.rule, caught.value.line, caught.value.column) == ("S010", 2, 4)
    caught.value.render().encode()


def test_windows_line_ends_do_not_show_in_the_marked_line() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("node A {\r\n  p: Text\r\n}\r\n")
    assert (caught.value.line, caught.value.column, caught.value.source_line) == (2, 6, "  p: Text")


def test_an_error_as_json_carries_rule_and_place() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("node A {}\nnode A {}", "people.pg")
    assert caught.value.to_json() == {
        "code": "schema_error",
        "message": "duplicate node type: A",
        "retry": False,
        "hint": "the first is on line 1; rename one, or put both into one declaration",
        "details": {"rule": "S101", "file": "people.pg", "line": 2, "column": 6},
    }


@pytest.mark.parametrize(
    "text", ["node A { p: Vector(%s) }", "node A { p: I64 @default(-%s) }", "node A { p: I32 @range(p, %s..) }"]
)
def test_a_number_of_five_thousand_digits_is_refused(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(text % ("9" * 5000))
    assert caught.value.rule == "S009"


def test_leading_zeros_do_not_make_a_number_too_large() -> None:
    assert compile_schema(f"node A {{ p: Vector({'0' * 4999}7) }}").nodes["A"].properties["p"].type.dimension == 7
