"""Folders into which queries spill are gone with their process, also when it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.relational.duck import SPILL_LOCK, SPILL_PREFIX, sweep_spills

SPILLS = """
import sys
from omnigraph.relational import duck

with duck.queries(64 * 2**20).connections.borrow() as connection:
    reader = connection.sql("SELECT range AS n, md5(range::TEXT) AS text FROM range(2_000_000) ORDER BY text").to_arrow_reader(1_000)
    reader.read_next_batch()
    print("spilled", flush=True)
    sys.stdin.read()
"""
OPENS = "from omnigraph.relational import duck; duck.SMALL.open()"


def environment(folder: Path) -> dict[str, str]:
    return {"TMPDIR": str(folder), "PYTHONPATH": ":".join(sys.path)}


def spilling(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has spilled and waits, and its folder."""
    before, program = set(folder.iterdir()), [sys.executable, "-c", SPILLS]
    process = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(folder)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "spilled\n"
    (own,) = set(folder.iterdir()) - before
    assert sum(file.stat().st_size for file in own.rglob("*")) > 2**20
    return process, own


def test_what_a_killed_process_spilled_is_removed_by_the_next_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    killed, left = spilling(tmp_path)
    living, kept = spilling(tmp_path)
    killed.kill()
    killed.communicate()
    assert left.exists()
    subprocess.run([sys.executable, "-c", OPENS], env=environment(tmp_path), check=True)
    assert list(tmp_path.iterdir()) == [kept]
    living.communicate("")
    assert living.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_only_folders_with_a_lock_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder in (elsewhere, tmp_path / f"{SPILL_PREFIX}old", tmp_path / "other", tmp_path / f"{SPILL_PREFIX}ended"):
        folder.mkdir()
        (folder / "data").write_bytes(b"x")
    for name in ("elsewhere", "other", f"{SPILL_PREFIX}ended"):
        (tmp_path / name / SPILL_LOCK).touch()
    (tmp_path / f"{SPILL_PREFIX}link").symlink_to(elsewhere)
    sweep_spills(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "elsewhere",
        "other",
        f"{SPILL_PREFIX}old",
        f"{SPILL_PREFIX}link",
    }
    assert (elsewhere / "data").exists()


@pytest.mark.parametrize("held", [True, False])
def test_a_lock_tells_who_lives(tmp_path: Path, held: bool) -> None:
    process, folder = spilling(tmp_path)
    if not held:
        process.kill()
        process.communicate()
    sweep_spills(tmp_path)
    assert folder.exists() == held
    if held:
        process.communicate("")
