"""Every way in which a property changes while two branches diverge, and every operation on the result, against plain values.

A *history* is the life of one property (its declarations, one after the other), which of these changes happened before the
branches parted and which on each of them, and how rows were written before and after them. It is built by calls of the library.
Every *case* is one operation on the result. Afterwards every entity of every branch concerned has the values of the model, and
still has them after another property was updated and after the table was compacted.

A case is a program: what it does is text that is run, and a case that fails prints it.

PYTHONPATH=tests python tests/evolve/evolution_cases.py 0 500 [--processes 2] [--programs FOLDER]
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evolve.evolution_laboratory import MODES, History, Laboratory, Mismatch

from omnigraph.errors import OmnigraphError
from omnigraph.testing.failpoints import disarm_all
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

ABSENT = ""
LIVES = (
    # Added.
    (ABSENT, "q: I32?"),
    (ABSENT, "q: I32 = 7"),
    (ABSENT, "q: I32? = 7"),
    (ABSENT, "q: I32"),
    # Widened.
    ("q: I32?", "q: I64?"),
    ("q: F32?", "q: F64?"),
    ("q: I32?", "q: F64?"),
    ("q: U32?", "q: U64?"),
    ("q: I32?", "q: I64?", "q: F64?"),
    ("q: I32", "q: I64"),
    ("q: I32?", "q: [I32]?"),
    ("q: String?", "q: [String]?"),
    ("q: [I32]?", "q: [I64]?"),
    ("q: [I64]?", "q: [F64]?"),
    (ABSENT, "q: I32?", "q: I64?"),
    (ABSENT, "q: F32?", "q: F64?"),
    (ABSENT, "q: I32?", "q: F64?"),
    (ABSENT, "q: I32?", "q: I64?", "q: [F64]?"),
    (ABSENT, "q: I32?", "q: [I32]?"),
    (ABSENT, "q: F32?", "q: [F64]?"),
    (ABSENT, "q: [I32]?", "q: [I64]?"),
    (ABSENT, "q: I32 = 7", "q: I64 = 7"),
    (ABSENT, "q: F32 = 0.1", "q: F64 = 0.1"),
    (ABSENT, "q: I32 = 7", "q: F64 = 7"),
    (ABSENT, "q: I32 = 7", "q: [I32]"),
    ("q: I32 = 7", "q: [I32]"),
    # Required or not, and another default.
    ("q: I32?", "q: I32"),
    ("q: I32 = 7", "q: I32?"),
    ("q: I32 = 7", "q: I32 = 8"),
    (ABSENT, "q: I32?", "q: I32"),
    (ABSENT, "q: I32 = 7", "q: I32?"),
    (ABSENT, "q: I32 = 7", "q: I32? = 7"),
    (ABSENT, "q: I32 = 7", "q: I32 = 8"),
    (ABSENT, "q: I32 = 7", "q: I32"),
    (ABSENT, "q: I32 = 7", "q: I32?", "q: I32"),
    (ABSENT, "q: I32 = 7", "q: I32?", "q: I64?"),
    (ABSENT, "q: I32 = 7", "q: I64 = 7", "q: I64?"),
    (ABSENT, "q: I32 = 7", "q: I64?"),
    # Renamed.
    ("q: I32?", "r: I32?"),
    (ABSENT, "q: I32?", "r: I32?"),
    (ABSENT, "q: I32?", "r: I64?"),
    (ABSENT, "q: I32 = 7", "r: I32 = 7"),
    (ABSENT, "q: I32?", "r: I32?", "r: I64?"),
    # Dropped, and declared again.
    ("q: I32?", ABSENT),
    ("q: I32", ABSENT),
    (ABSENT, "q: I32?", ABSENT),
    (ABSENT, "q: I32 = 7", ABSENT),
    (ABSENT, "q: I32?", "q: I64?", ABSENT),
    ("q: I32?", ABSENT, "q: I32?"),
    (ABSENT, "q: I32?", ABSENT, "q: I64?"),
)  # fmt: skip
"""Declarations of the property, one after the other."""

BOUNDS = (3, 1, 0, 3, 1, 3, 64, 0)


@cache
def _outlines() -> list[tuple[tuple[str, ...], tuple[int, int, int], bool]]:
    outlines = []
    for life, is_edge in itertools.product(LIVES, (False, True)):
        steps = len(life) - 1
        for before in range(steps + 1):
            for main, work in itertools.product(range(steps - before + 1), repeat=2):
                outlines.append((life, (before, main, work), is_edge))
    random.Random(0).shuffle(outlines)
    return outlines


def history(number: int) -> History:
    """The numbered history: as many as there are outlines have all of them once, and each turn writes other rows."""
    life, changes, is_edge = _outlines()[number % len(_outlines())]
    chance = random.Random(number)
    weights = (2, 2, 4, 3, 2, 2, 1)
    early, late, *others = chance.choices(MODES, weights, k=6)
    modes = ((early, late), (others[0], others[1]), (others[2], others[3]))
    bound, is_work_first, may_have_index = chance.choice(BOUNDS), chance.random() < 0.5, chance.random() < 0.3
    is_indexed = may_have_index and not any("[" in form for form in life)
    return History(life, changes, modes, is_edge, bound, number % 8 == 0, is_work_first, is_indexed)


# ---------------------------------------------------------------- running


@dataclass(frozen=True)
class Failure:
    number: int
    operation: str
    history: History
    error: str
    program: str

    @property
    def kind(self) -> str:
        """The operation, whatever commit or change it was about."""
        return re.sub(r" ?\d+|,", "", self.operation)

    def __str__(self) -> str:
        return f"history {self.number}, {self.operation}: {self.error.splitlines()[0]}"


def run(history: History, number: int = 0, only: str | None = None) -> Iterator[Failure | None]:
    """The cases of a history, and what failed in each."""
    previous = os.environ.get(INLINE_BOUND)
    folder = Path(tempfile.mkdtemp(prefix="evolution-"))
    try:
        try:
            laboratory = Laboratory(history, folder)
        except Exception as error:
            yield Failure(number, "build", history, _said(error), "")
            return
        built = len(laboratory.text)
        for name, operate in laboratory.operations():
            if only is not None and name != only:
                continue
            laboratory.text = laboratory.text[:built]
            try:
                operate()
            except Exception as error:
                yield Failure(number, name, history, _said(error), laboratory.program())
            else:
                yield None
        laboratory.graph.close()
    finally:
        disarm_all()
        shutil.rmtree(folder, ignore_errors=True)
        if previous is None:
            os.environ.pop(INLINE_BOUND, None)
        else:
            os.environ[INLINE_BOUND] = previous


def _said(error: Exception) -> str:
    kind = "" if isinstance(error, Mismatch | OmnigraphError) else "RAW "
    return f"{kind}{type(error).__name__}: {error}"[:600]


def smaller(failure: Failure) -> Failure:
    """The same operation failing on a history with less in it."""
    best = failure
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in _smaller(best.history):
            for found in run(candidate, failure.number, best.operation):
                if found is not None and found.error.split(":")[0] == best.error.split(":")[0]:
                    best, shrunk = found, True
            if shrunk:
                break
    return best


def _smaller(history: History) -> Iterator[History]:
    for line, place in itertools.product(range(3), range(2)):
        if history.modes[line][place] != "none":
            modes = [list(each) for each in history.modes]
            for mode in ("none", "inline", "stored"):
                if MODES.index(mode) < MODES.index(history.modes[line][place]):
                    modes[line][place] = mode
                    yield replace(history, modes=tuple(tuple(each) for each in modes))
    before, main, work = history.changes
    if main:
        yield replace(history, changes=(before, main - 1, work))
    if work:
        yield replace(history, changes=(before, main, work - 1))
    if history.is_edge:
        yield replace(history, is_edge=False)
    if history.on_disk:
        yield replace(history, on_disk=False)
    if history.bound != 3:
        yield replace(history, bound=3)


def _run_numbered(number: int) -> tuple[int, list[Failure]]:
    found = list(run(history(number), number))
    return len(found), [each for each in found if each is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a range of histories.")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--programs", type=Path, help="a folder for a small program of each kind of failure")
    options = parser.parse_args()
    started, cases, failures = time.monotonic(), 0, list[Failure]()
    numbers = range(options.first, options.last)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for done, (count, failed) in enumerate(pool.imap_unordered(_run_numbered, numbers), 1):
            cases += count
            failures += failed
            for failure in failed:
                print(failure, flush=True)
            if done % 10 == 0:
                print(f"{done} histories, {cases} cases, {len(failures)} failed, {time.monotonic() - started:.0f} s", flush=True)  # fmt: skip
    print(f"{len(numbers)} histories, {cases} cases, {len(failures)} failed, {time.monotonic() - started:.0f} s")
    if options.programs is not None:
        options.programs.mkdir(parents=True, exist_ok=True)
        kinds = {(each.kind, each.history.life): each for each in failures}
        for (kind, _), failure in kinds.items():
            least = smaller(failure)
            text = f"# {least}\n# {least.history}\n{least.program}"
            (options.programs / f"{kind.replace(' ', '-')}-{failure.number}.py").write_text(text)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
