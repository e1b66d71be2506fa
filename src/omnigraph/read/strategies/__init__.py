"""The ways to answer a read in process, in the order in which they are tried.

| strategy | answers | by | ms with it | ms without |
|---|---|---|---|---|
| metadata | `count` of a bare binding | the snapshot's row counts | 0.1 | 5.6 |
| keyed | reads from a key along a few edges | node numbers, from what is held | 0.3 to 0.9 | 0.7 to 1.7 |
| direct | other reads of a few rows | the rows of reduction, in Python | 1.5 to 2.0 | 3.7 to 7.4 |
| reduction | other reads that start from few nodes | indexes and lookups, then the engine over few rows | 3.7 to 8.9 | 1.4 to 38
|
| factored | counts and sums over trees | numbers per node, no rows | 0.4 to 3.5 | 10 to 41 |
| dense | other walks over whole tables | integer edges in memory, then the engine | 9 to 33 | 35 to 230 |
| scan | everything | whole tables, then the engine | | |

Measured with the graph and the queries of `bench/bench_reads.py` (50,000 nodes, 500,000 edges) and a few more, through `g.query`,
leaving out one strategy at a time (reduction together with direct, which works on its rows). Reduction loses on a group from a
key, which factored would answer from numbers in memory; reduction needs none in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.read.strategies.keyed import KEYED
from omnigraph.read.strategies.metadata import METADATA
from omnigraph.read.strategies.strategy import Answer, InputChoice, Mode, Read, Strategy


def order() -> Iterator[Strategy]:
    """The strategies in order. Those that need a tree are imported only if the first two have no answer."""
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
