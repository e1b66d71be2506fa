"""The program as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.testing.failpoints import FilePark

OMNIGRAPH = str(Path(sys.executable).with_name("omnigraph"))
PATIENCE_S = 120


def omnigraph(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([OMNIGRAPH, *arguments], capture_output=True, text=True, env=env, check=False)


def test_query_and_errors(folder: Path) -> None:
    found = omnigraph("query", "near", "--query", "people.gq", "--params-file", "params.json", "--json")
    assert found.returncode == 0
    assert [row["name"] for row in json.loads(found.stdout)["rows"]] == ["Bo", "Cy"]
    failed = omnigraph("query", "--query", "broken.gq")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith("error: broken.gq:3:15: [T6]")


def test_debug_shows_where_it_came_from(folder: Path) -> None:
    failed = omnigraph("show", "./nowhere", "--debug")
    assert failed.returncode == 1
    assert "\nTraceback" in failed.stderr
    assert "GraphNotFound: there is no graph" in failed.stderr


def test_a_defect_is_one_sentence(folder: Path) -> None:
    """A damaged commit is nobody's mistake that the program knows of."""
    for entry in (folder / "people" / "branches" / "main").iterdir():
        entry.write_text('{"format": 1}')
    failed = omnigraph("snapshot")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    assert failed.stderr.startswith("error: ")
    assert "hint: " in failed.stderr


def test_a_reader_may_leave_early(folder: Path) -> None:
    """Also if the last lines are still buffered when the process ends."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [OMNIGRAPH, "export"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    script = omnigraph(_OMNIGRAPH_COMPLETE=f"{shell}_source")
    assert script.returncode == 0
    assert f"_OMNIGRAPH_COMPLETE={shell}_complete" in script.stdout


def test_completion_of_words() -> None:
    found = omnigraph(_OMNIGRAPH_COMPLETE="bash_complete", COMP_WORDS="omnigraph branch me", COMP_CWORD="2")
    assert found.stdout == "plain,merge\n"


# ---------------------------------------------------------------- Ctrl-C


def interrupted(folder: Path, point: str, *arguments: str) -> tuple[int, str]:
    """Start a command, stop it at a point, press Ctrl-C there; its exit code and what it said."""
    park = FilePark(folder / "parked")
    env = {**os.environ, "OMNIGRAPH_FAILPOINTS": f"{point}=park:{folder / 'parked'}"}
    with subprocess.Popen([OMNIGRAPH, *arguments], stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            park.wait_until_reached()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    return process.returncode, said


def state(folder: Path) -> tuple[object, ...]:
    graph = og.open(folder / "people")
    heads = {name: graph.commits(name, limit=1)[0].id for name in (branch.name for branch in graph.branches.list())}
    return heads, [plan.commit_id for plan in graph.recovery.list()]


LOAD = ("load", "--data", "more.jsonl", "--mode", "append", "--engine", "local", "--quiet")


@pytest.mark.parametrize("point", ["load.after_read", "load.after_checks"])
def test_an_interrupted_load_leaves_no_trace(folder: Path, point: str) -> None:
    before = state(folder)
    code, said = interrupted(folder, point, *LOAD, "--branch", "fresh", "--from", "main")
    assert (code, said) == (130, "interrupted: nothing was published\n")
    assert state(folder) == before


@pytest.mark.soak
@pytest.mark.spark
def test_an_interrupted_load_on_spark_leaves_no_trace(folder: Path) -> None:
    before = state(folder)
    arguments = ("load", "--data", "more.jsonl", "--mode", "append", "--quiet")
    code, said = interrupted(folder, "load.after_read", *arguments)
    assert code == 130
    assert said.endswith("interrupted: nothing was published\n")
    assert "Traceback" not in said
    assert state(folder) == before


def test_a_load_interrupted_at_the_last_moment_can_go_on(folder: Path) -> None:
    heads, _ = state(folder)
    code, said = interrupted(folder, "publish.before_create", *LOAD)
    assert code == 130
    assert said.startswith("interrupted: nothing was published")
    after, prepared = state(folder)
    assert after == heads
    for commit in prepared:
        assert f"recovery {commit} --resume" in said


def test_an_interrupted_merge_leaves_no_trace(folder: Path) -> None:
    graph = og.open(folder / "people")
    graph.branches.create("review")
    graph.mutate(folder / "people.gq", {"who": "Bo", "age": 28}, name="set_age", branch="review")
    graph.mutate(folder / "people.gq", {"who": "Zed"}, name="add")
    before = state(folder)
    code, said = interrupted(folder, "merge.before_publish", "branch", "merge", "review", "--quiet")
    assert (code, said) == (130, "interrupted: nothing was published\n")
    assert state(folder) == before


def test_an_interruption_after_the_publish_does_not_deny_it(folder: Path) -> None:
    heads, _ = state(folder)
    code, said = interrupted(folder, "load.after_publish", *LOAD)
    after = state(folder)[0]
    assert after != heads
    assert code == 130
    assert said == (
        f"interrupted: main has moved to commit {after['main']}; "
        "see 'omnigraph log' for whether that was this command\n"
    )


def test_an_interrupted_mutation_leaves_no_trace(folder: Path) -> None:
    before = state(folder)
    params = '{"who": "Zed"}'
    code, said = interrupted(folder, "txn.after_stage", "mutate", "add", "--query", "people.gq", "--params", params)
    assert (code, said) == (130, "interrupted: nothing was published\n")
    assert state(folder) == before


def test_a_load_interrupted_in_the_middle_of_a_task_leaves_no_data(folder: Path) -> None:
    """The task that is at work ends first, and what it wrote goes too."""
    before = set((folder / "people").rglob("data/*"))
    park = FilePark(folder / "parked")
    env = {
        **os.environ,
        "OMNIGRAPH_FAILPOINTS": f"table.staged_data=park:{folder / 'parked'}",
        "OMNIGRAPH_INLINE_ROWS": "0",
    }
    with subprocess.Popen([OMNIGRAPH, *LOAD], stderr=subprocess.PIPE, text=True, env=env) as process:
        park.wait_until_reached()
        process.send_signal(signal.SIGTERM)
        park.release()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (143, "terminated: nothing was published\n")
    assert set((folder / "people").rglob("data/*")) == before
