"""Tables fit the terminal and obey nothing that stands in the data."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from omnigraph.cli.output import cell, fitted, line, print_table


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_widest_column_gives_way(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table([{"id": "x" * 10, "text": "long " * 20, "n": 7}], ["id", "text", "n"], 80)
    header, row = shown(capsys)
    assert row.startswith("x" * 10 + "  long long")
    assert row.endswith("…  7")
    assert len(row) == 40
    assert header.split() == ["id", "text", "n"]


def test_cells_wrap_when_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table([{"text": "abcdefghij" * 3}], ["text"], 80, wrap=True)
    assert shown(capsys)[1:] == ["abcdefghijabcdefghij", "abcdefghij"]


def test_a_column_has_a_most(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    print_table([{"text": "a" * 100}], ["text"], 30)
    assert shown(capsys)[1] == "a" * 29 + "…"


def test_too_many_columns_become_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    columns = [f"column{i}" for i in range(20)]
    print_table([dict.fromkeys(columns, "value")], columns, 80)
    assert shown(capsys) == [f"{name:<8}  value" for name in columns]


def test_a_pipe_is_not_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table([{"a": "x" * 300, "b": "y"}], ["a", "b"], 400)
    assert shown(capsys)[1] == "x" * 300 + "  y"


def test_wide_characters_count_double(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_table([{"city": "東京", "n": 1}, {"city": "Rome", "n": 22}], ["city", "n"], 80)
    assert shown(capsys) == ["city   n", "東京   1", "Rome  22"]


def test_ids_and_times_shrink_last(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = [{"id": "0" * 26, "at": "2026-01-01 00:00:00Z", "text": word * 3} for word in ("some words", "other words ")]
    print_table(rows, ["id", "at", "text"], 80)
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"{'0' * 26}  2026-01-01 00:00:00Z  other wor…"


def test_control_characters_are_shown_not_obeyed() -> None:
    assert line("a\x1b[31mred\nb\tc") == "a\\x1b[31mred\\nb\\tc"
    assert line("plain é 東") == "plain é 東"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (False, "false"), (3, "3"), ([1, "a"], '[1, "a"]'), ({"a": None}, '{"a": null}')],
)
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(8, 300))
def test_fitted_keeps_what_is_narrow(widths: list[int], room: int) -> None:
    result = fitted(widths, room)
    assert sum(result) <= max(room, 0) or sum(widths) <= room
    cut = [new for new, old in zip(result, widths, strict=True) if new < old]
    assert all(new >= max(cut) - 1 for new in cut)
    if cut:
        assert all(old <= max(cut) + 1 for new, old in zip(result, widths, strict=True) if new == old)
