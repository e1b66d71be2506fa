"""Many processes that all send every write, again and again: each is one commit, on disk and on S3 with lost answers."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from children import Child
from s3_server import S3Server

import omnigraph as og

SCHEMA = "node Event { n: I64 }"
DISTURB_EVERY = 4
"""Answers between two disturbances."""


class Crowd:
    """Processes that make the same writes. What they said is kept when they are killed."""

    def __init__(self, uri: str, options: dict[str, str], writes: int, folder: Path, s3: S3Server | None) -> None:
        self.s3 = s3
        self.arguments = (uri, json.dumps(options))
        self.rest = (str(writes), str(folder))
        self.seeds = 0
        self.answers: list[tuple[int, str, bool]] = []
        self.started: list[Child] = []
        for number in range(0, writes, 4):
            (folder / f"{number}.jsonl").write_text(f'{{"type": "Event", "data": {{"n": {number}}}}}\n')

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody of it outlives a test that failed: the server is the next test's too."""
        for process in self.started:
            process.kill()
            process.close()

    def start(self, answers: int | None = None) -> Child:
        """With `answers`: it gives so many, and dies with the next one under way."""
        self.seeds += 1
        program = Path(__file__).parent / "retrying_writer.py"
        process = Child(
            program, *self.arguments, str(self.seeds), *self.rest, *([] if answers is None else [str(answers)])
        )
        self.started.append(process)
        return process

    def listen(self, process: Child, answers: int | None = None) -> None:
        """To this many answers, or to all."""
        while (answers is None or answers > 0) and (line := process.stdout.readline()).endswith("\n"):
            number, commit, repeated = json.loads(line)
            self.answers.append((number, commit, repeated))
            if self.s3 is not None and len(self.answers) % DISTURB_EVERY == 0:
                lose_answers(self.s3)
            answers = None if answers is None else answers - 1

    def end(self, process: Child, *, kill: bool = False) -> None:
        if kill:
            process.kill()
        self.listen(process)
        process.close()
        assert (process.wait() == 0) != kill


def run(
    uri: str,
    options: dict[str, str],
    folder: Path,
    *,
    processes: int,
    writes: int,
    kills: int,
    s3: S3Server | None = None,
) -> None:
    graph = og.init(uri, SCHEMA, storage_options=options or None, durability="process")
    chance = random.Random(7)
    with Crowd(uri, options, writes, folder, s3) as crowd:
        team = [crowd.start() for _ in range(processes)]
        for _ in range(kills):
            answers = 1 + int(chance.random() * writes)
            victim = crowd.start(answers)
            crowd.listen(victim, answers)
            crowd.end(victim, kill=True)
        for process in team:
            crowd.end(process)
    if s3 is not None:
        s3.reset()
    by_number: dict[int, set[str]] = {}
    for number, commit, _ in crowd.answers:
        by_number.setdefault(number, set()).add(commit)
    assert sorted(by_number) == list(range(writes))
    assert all(len(commits) == 1 for commits in by_number.values()), by_number
    fresh = Counter(number for number, _, repeated in crowd.answers if not repeated)
    assert max(fresh.values()) == 1
    assert graph.head().ref.seq == writes
    rows = graph.query("query q() { match { $e: Event } return { $e.n as n } }").rows
    assert sorted(row["n"] for row in rows) == list(range(writes))


def test_processes_that_retry_everything_make_one_commit_a_key(tmp_path: Path) -> None:
    run(str(tmp_path / "graph"), {}, tmp_path, processes=3, writes=12, kills=1)


@pytest.mark.s3
def test_processes_that_retry_everything_on_s3_with_lost_answers(s3: S3Server, tmp_path: Path) -> None:
    uri = f"s3://{s3.new_bucket()}/graph"
    run(uri, s3.options, tmp_path, processes=3, writes=12, kills=1, s3=s3)


@pytest.mark.soak
@pytest.mark.parametrize("place", ["disk", "s3"])
def test_eight_processes_that_retry_everything(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if place == "disk":
        run(str(tmp_path / "graph"), {}, tmp_path, processes=8, writes=100, kills=8)
        return
    s3: S3Server = request.getfixturevalue("s3")
    uri = f"s3://{s3.new_bucket()}/graph"
    run(uri, s3.options, tmp_path, processes=8, writes=100, kills=8, s3=s3)


def lose_answers(s3: S3Server) -> None:
    """The next answers to creates of entries get lost, more of them than a client asks again; so do some reads, and some
    creates are not made at all."""
    s3.fault("answer_lost", method="PUT", key="graph/branches/*", times=7)
    s3.fault("refused", method="PUT", key="graph/branches/*", times=3)
    s3.fault("answer_lost", method="GET", key="graph/branches/*", times=6)
