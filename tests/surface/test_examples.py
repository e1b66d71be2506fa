"""The example programs run as they stand. Their types are checked by `make lint`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def run(name: str, *arguments: Path) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_library_is_filled_reviewed_and_looked_back_at(tmp_path: Path) -> None:
    assert run("library_loans.py", tmp_path) == [
        "wrote 3 nodes and 1 edge",
        "Frankenstein 2026-07-01",
        "update Book L1: 1 -> 4",
        "fast_forward",
        "stock was [{'title': 'Frankenstein', 'copies': 2}, {'title': 'The Last Man', 'copies': 1}], "
        "is [{'title': 'Frankenstein', 'copies': 2}, {'title': 'The Last Man', 'copies': 4}]",
    ]


def test_a_reader_of_changes_has_the_graph(tmp_path: Path) -> None:
    import omnigraph as og

    graph = og.init(tmp_path / "graph", "node P { n: String @key  x: I32? }  edge E: P -> P", durability="process")
    with graph.transaction() as tx:
        tx.insert("P", n="a")
        tx.insert("P", n="b")
        tx.insert("E", id="e", from_="a", to="b")
    copy = tmp_path / "copy.json"
    assert run("change_reader.py", tmp_path / "graph", copy) == ["began with 3 entities"]
    with graph.transaction() as tx:
        tx.update("P", "a", x=1)
        tx.delete("P", "b")
    assert run("change_reader.py", tmp_path / "graph", copy) == ["took 3 changes"]
    assert run("change_reader.py", tmp_path / "graph", copy) == ["took 0 changes"]
    assert json.loads(copy.read_text())["entities"] == {"P a": {"id": "a", "n": "a", "x": 1}}


def test_results_go_elsewhere(tmp_path: Path) -> None:
    assert run("results_elsewhere.py", tmp_path) == ["3 1680000 1090000", "[('Cologne',)]", "91.0"]


def test_every_example_is_run() -> None:
    source = Path(__file__).read_text()
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if path.name not in source] == []
