"""Every command as text and as JSON, and every way it can fail: see `transcripts/`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.transcript import UPDATE, RunCli, play

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, run_cli: RunCli, folder: Path) -> None:
    actual = play(path, run_cli, str(folder))
    if UPDATE:
        path.write_text(actual, encoding="utf-8")
    assert actual == path.read_text(encoding="utf-8")
