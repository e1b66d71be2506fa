"""The ways to answer a read in process, in the order in which they are asked.

| strategy | answers | by |
|---|---|---|
| metadata | `count` of a bare binding | the snapshot's row counts |
| direct | reads of a few rows | the rows of reduction, in Python |
| reduction | reads that start from few nodes | indexes and lookups, then the engine over few rows |
| factored | counts and sums over trees | numbers per node, no rows |
| dense | other walks over whole tables | integer edges in memory, then the engine |
| scan | everything | whole tables, then the engine |
"""

from __future__ import annotations

from omnigraph.read.strategies.dense import DENSE
from omnigraph.read.strategies.direct import DIRECT
from omnigraph.read.strategies.factored import FACTORED
from omnigraph.read.strategies.metadata import METADATA
from omnigraph.read.strategies.reduction import REDUCTION
from omnigraph.read.strategies.scan import SCAN
from omnigraph.read.strategies.strategy import Answer, InputChoice, Mode, Read, Strategy

ORDER: tuple[Strategy, ...] = (METADATA, DIRECT, REDUCTION, FACTORED, DENSE, SCAN)


def answer(read: Read) -> Answer:
    """The first answer that a strategy has."""
    for strategy in ORDER:
        read.arguments.deadline.check()
        if read.mode in strategy.modes and (found := strategy.answer(read)) is not None:
            return found
    raise AssertionError("scan answers every read")


__all__ = ["ORDER", "Answer", "InputChoice", "Mode", "Read", "Strategy", "answer"]
