"""What `make test` tries does not depend on which tests ran before in the same process."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st


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
