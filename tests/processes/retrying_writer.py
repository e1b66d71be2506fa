"""A process that makes the same writes as every other one, each under its key, all of them twice, in an order of its own.

    python retrying_writer.py URI OPTIONS SEED WRITES FOLDER [ANSWERS]

Rows have no keys of their own: a write that is made twice leaves two. Prints a line for each answer: the number of the write,
the commit, and whether it was there before. With ANSWERS it gives that many and keeps the next one to itself until its input ends:
it can be killed with a write under way, however late the signal comes.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import omnigraph as og
from omnigraph.errors import OmnigraphError

ADD = "query add($n: I64) { insert Event { n: $n } }"
MAX_TRIES = 200
Answer = TypeVar("Answer")


def write(graph: og.Graph, number: int, folder: Path) -> tuple[str, bool]:
    """A mutation, a transaction or a load, by its number."""
    match number % 4:
        case 0:
            data = folder / f"{number}.jsonl"
            loaded = graph.load(data, mode="append", once=f"load {number}", engine="local")
            assert loaded.commit is not None
            return loaded.commit.id, loaded.repeated
        case 1:
            with graph.transaction(once=f"transaction {number}") as tx:
                tx.insert("Event", n=number)
            receipt = tx.receipt
        case _:
            receipt = graph.mutate(ADD, {"n": number}, once=f"request {number}")
    assert receipt.commit is not None
    return receipt.commit.id, receipt.repeated


def insist(action: Callable[[], Answer]) -> Answer:
    """Until there is an answer, whatever the store says meanwhile."""
    for _ in range(MAX_TRIES):
        try:
            return action()
        except OmnigraphError as error:
            if not error.retry and error.outcome == "not_committed":
                raise
    raise AssertionError(f"no answer in {MAX_TRIES} tries")


def main(uri: str, options: str, seed: str, writes: str, folder: str, answers: str = "") -> None:
    graph = insist(lambda: og.open(uri, storage_options=json.loads(options) or None, durability="process"))
    chance = random.Random(int(seed))
    left = int(answers) if answers else None
    for _ in range(2):
        numbers = list(range(int(writes)))
        chance.shuffle(numbers)
        for number in numbers:
            answer = insist(lambda number=number: write(graph, number, Path(folder)))  # type: ignore[misc]
            if left == 0:
                sys.stdin.read()
            left = None if left is None else left - 1
            print(json.dumps([number, *answer]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
