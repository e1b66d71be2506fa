"""The ways to answer a read in process, in the order in which they are asked.

| strategy | answers | by | ms with it | ms without |
|---|---|---|---|---|
| metadata | `count` of a bare binding | the snapshot's row counts | 0.01 | 5.4 |
| keyed | reads from a key along a few edges | numbers, from what is held | 0.1 to 0.3 | 0.3 to 1.1 |
| direct | reads of a few rows | the rows of reduction, in Python | 0.3 to 1.1 | 3.1 to 6.8 |
| reduction | reads that start from few nodes | indexes and lookups, then the engine over few rows | 3.1 to 6.8 | 0.5 to 10.5 |
| factored | counts and sums over trees | numbers per node, no rows | 0.6 to 27 | 11 to 830 |
| dense | other walks over whole tables | integer edges in memory, then the engine | 11 to 110 | 390 to 760 |
| scan | everything | whole tables, then the engine | | |

Measured with the graph and the queries of `bench/bench_reads.py` (100,000 nodes, 1,000,000 edges), each strategy taken out of
the order by itself (reduction together with direct, which works on its rows).
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.read.strategies.keyed import KEYED
from omnigraph.read.strategies.metadata import METADATA
from omnigraph.read.strategies.strategy import Answer, InputChoice, Mode, Read, Strategy


def order() -> Iterator[Strategy]:
    """The strategies in their order. Those that need a tree are loaded when the first two have no answer."""
    yield METADATA
    yield KEYED
    from omnigraph.read.strategies.dense import DENSE
    from omnigraph.read.strategies.direct import DIRECT
    from omnigraph.read.strategies.factored import FACTORED
    from omnigraph.read.strategies.reduction import REDUCTION
    from omnigraph.read.strategies.scan import SCAN

    yield from (DIRECT, REDUCTION, FACTORED, DENSE, SCAN)


def answer(read: Read) -> Answer:
    """The first answer that a strategy has."""
    for strategy in order():
        read.arguments.deadline.check()
        if read.mode in strategy.modes and (answered := strategy.answer(read)) is not None:
            return answered
    raise AssertionError("scan answers every read")


__all__ = ["Answer", "InputChoice", "Mode", "Read", "Strategy", "answer", "order"]
