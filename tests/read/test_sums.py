"""`sum` of whole numbers: exact in every mode, grouped or not, and an error beyond 64 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from read.graphs import commit, new_graph, query

from omnigraph.errors import ArithmeticOverflow
from omnigraph.read.strategies.strategy import Mode
from omnigraph.snapshot import View

SCHEMA = """
node Team { name: String @key }
node Account { name: String @key  i32: I32?  u32: U32?  i64: I64?  u64: U64?  f64: F64? }
edge Of: Account -> Team
"""
MODES: tuple[Mode, ...] = get_args(Mode)
TYPES = {"i32": pa.int64(), "u32": pa.int64(), "i64": pa.int64(), "u64": pa.uint64()}


def account(name: str, team: str, **data: Any) -> list[dict[str, Any]]:
    return [
        {"type": "Account", "data": {"name": name, **data}},
        {"edge": "Of", "from": name, "to": team, "id": name},
    ]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Sums whose last digit a double does not hold. Team a: the largest sums. Team b: nothing. Team c: negative."""
    records = [
        *({"type": "Team", "data": {"name": name}} for name in "abc"),
        *account("a1", "a", i32=2**31 - 1, u32=2**32 - 1, i64=2**62, u64=2**63),
        *account("a2", "a", i32=2**31 - 1, u32=2**32 - 1, i64=2**62 - 1, u64=2**63 - 1),
        *account("b1", "b"),
        *account("c1", "c", i32=-(2**31), i64=-(2**53), f64=0.5),
        *account("c2", "c", i32=-(2**31), i64=-1, f64=1.0),
    ]
    return commit(new_graph(str(tmp_path_factory.mktemp("sums") / "g"), SCHEMA), records)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("column", "sums"),
    [
        ("i32", [2**32 - 2, None, -(2**32)]),
        ("u32", [2**33 - 2, None, None]),
        ("i64", [2**63 - 1, None, -(2**53) - 1]),
        ("u64", [2**64 - 1, None, None]),
    ],
)
def test_sums_by_group_are_exact(view: View, mode: Mode, column: str, sums: list[int | None]) -> None:
    for hop in ("$p of $t", "$p $e:of $t"):
        text = f"query q() {{ match {{ {hop} }} return {{ $t.name as t, sum($p.{column}) as s }} order {{ t }} }}"
        found = query(view, text, mode=mode).to_arrow()
        assert found.column("s").to_pylist() == sums
        assert found.column("s").type == TYPES[column]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("column", TYPES)
def test_sums_of_everything_are_exact(view: View, mode: Mode, column: str) -> None:
    table = view.table("node:Account")
    assert table is not None
    total = sum(value for value in table.read([column]).column(column).to_pylist() if value is not None)
    for pattern in ("$p: Account", "$p of $t"):
        found = query(view, f"query q() {{ match {{ {pattern} }} return {{ sum($p.{column}) as s }} }}", mode=mode)
        assert found.rows == [{"s": total}]
        assert found.to_arrow().column("s").type == TYPES[column]
        assert found.columns[0].kind == "bigint"


@pytest.mark.parametrize("mode", MODES)
def test_sums_of_fractions_stay_fractions(view: View, mode: Mode) -> None:
    found = query(view, "query q() { match { $p: Account } return { sum($p.f64) as s, avg($p.i32) as a } }", mode=mode)
    assert found.to_arrow().schema.types == [pa.float64(), pa.float64()]
    assert found.rows == [{"s": 1.5, "a": -0.5}]


OVERFLOWS = [
    "match { $p of $t $q of $t } return { sum($p.i64) as s }",
    "match { $p of $t $q of $t } return { $t.name as t, sum($p.i64) as s }",
    "match { $p of $t $q of $t } return { sum($p.u64) as s }",
    "match { $p of $t $q of $t } return { $t.name as t, sum($p.u64) as s }",
    "match { $p: Account } return { $p.u64 - 1 as x }",
    "match { $p: Account  $p.i64 is not null } return { sum($p.i64 * 2) as s }",
    "match { $p: Account  $p.u64 - 1 > 0 } return { $p.name }",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", OVERFLOWS)
def test_beyond_64_bits_is_an_error_that_says_so(view: View, mode: Mode, text: str) -> None:
    with pytest.raises(ArithmeticOverflow) as error:
        query(view, f"query q() {{ {text} }}", mode=mode)
    assert error.value.message == "the query computes a number beyond the range of its type"
    assert "64 bits" in (error.value.hint or "")


def test_an_empty_graph_sums_to_null(tmp_path: Path) -> None:
    _, empty = new_graph(str(tmp_path / "g"), SCHEMA).head()
    for mode in MODES:
        found = query(
            empty, "query q() { match { $p of $t } return { sum($p.u64) as u, sum($p.i32) as i } }", mode=mode
        )
        assert found.rows == [{"u": None, "i": None}]
