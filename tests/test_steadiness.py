"""What `make test` does is the same each time: which tests share a process, and which examples they try."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st


def tried() -> list[str]:
    seen: list[str] = []

    @given(st.text())
    def look(text: str) -> None:
        seen.append(text)

    look()
    return seen


@pytest.mark.skipif(bool(os.environ.get("OMNIGRAPH_EXPLORE")), reason="exploring is never the same twice")
def test_the_same_examples_are_tried_whatever_was_loaded_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tried()
    (tmp_path / "loaded_meanwhile.py").write_text("WORDS = " + repr([f"word {number}" for number in range(50)]))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("loaded_meanwhile")
    assert tried() == before


def test_a_file_stays_together_in_one_worker(request: pytest.FixtureRequest) -> None:
    """Dealt out one by one, tests would have other neighbours in every run, and two workers would both start Spark."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("for make test, where workers get groups of tests")
    assert request.node.nodeid.endswith(f"@tests/{Path(__file__).name}")
