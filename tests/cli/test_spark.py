"""The same commands on Spark: one session serves all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.transcript import RunCli

pytestmark = pytest.mark.spark


def test_commands_on_spark(run_cli: RunCli, folder: Path) -> None:
    loaded = run_cli(
        [
            "load",
            "--data",
            "more.jsonl",
            "--mode",
            "append",
            "--branch",
            "more",
            "--from",
            "main",
            "--engine",
            "spark",
            "--json",
        ]
    )
    assert loaded.code == 0, loaded.err
    assert json.loads(loaded.out)["total_entities"] == 2
    asked = ["query", "near", "--query", "people.gq", "--params", '{"who": "Dee"}', "--branch", "more", "--json"]
    assert json.loads(run_cli([*asked, "--engine", "spark"]).out) == json.loads(run_cli(asked).out)
    compared = ["diff", "main", "more", "--json"]
    assert run_cli([*compared, "--engine", "spark"]).out == run_cli(compared).out
    merged = json.loads(run_cli(["branch", "merge", "more", "--engine", "spark", "--json"]).out)
    assert merged["outcome"] == "fast_forward"
    rejected = run_cli(["load", "--data", "bad.jsonl", "--mode", "append", "--engine", "spark", "--quiet"])
    assert rejected.code == 1
    assert "bad.jsonl:3: unknown node type 'Persn'" in rejected.err
    exported = run_cli(["export", "--out", "there.jsonl", "--engine", "spark", "--quiet"])
    assert exported.code == 0, exported.err
    assert (folder / "there.jsonl").read_text() == run_cli(["export"]).out
