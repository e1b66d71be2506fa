"""The ways to answer a read in process, in the order in which they are tried.

| strategy | answers | by |
|---|---|---|
| metadata | `count` of a bare binding | the snapshot's row counts |
| keyed | reads from a key along a few edges | node numbers, from what is held, a few rows in Python |
| seeded | other reads that begin at a few nodes, if their numbers are at hand | the executor (`read.executor`) |
| direct | other reads of few rows | the rows of reduction, joined and computed with as in the executor |
| reduction | what is not computed so, from few nodes | indexes and lookups, then the engine over few rows |
| arrays | everything else that the executor covers | the executor |
| dense | walks over whole tables that it does not cover, or whose rows do not fit | integer edges in memory, then the engine |
| scan | everything | whole tables, then the engine |

Milliseconds of the processor on the graph of `bench/bench_social.py` with 3,000 people and 100,000 messages, with seeded and arrays
and without them: messages of friends before a date 6 and 45, people within two hops who wrote from two countries 11 and 186, people of a
name within three hops 6 and 142, friends who answered posts of a class 10 and 46. All shortest paths between two of 30,000 people take
2.4 in the executor, and 3,000 as SQL. `keyed` answers the short reads of `bench/bench_reads.py` in 0.10 to 0.17 ms, and the executor in
0.23 to 0.45. `direct` answers two hops from a key in 1.9 ms without numbers, and the engine over the same rows in 13. On the graph
of that benchmark with 300,000 edges, `dense` takes 125 ms for two hops (3 million rows), 30 for one hop by two properties and 18 for what
is within two hops; `scan` takes 285, 87 and 99.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.read.strategies.strategy import Answer, Read, Strategy


def order() -> Iterator[Strategy]:
    """The strategies in order. Those that need a tree are imported only if the first ones have no answer."""
    from omnigraph.read.strategies.keyed import KEYED
    from omnigraph.read.strategies.metadata import METADATA

    yield from (METADATA, KEYED)
    from omnigraph.read.strategies.arrays import ARRAYS, SEEDED

    yield SEEDED
    from omnigraph.read.strategies.dense import DENSE
    from omnigraph.read.strategies.direct import DIRECT
    from omnigraph.read.strategies.reduction import REDUCTION
    from omnigraph.read.strategies.scan import SCAN

    yield from (DIRECT, REDUCTION, ARRAYS, DENSE, SCAN)


def answer(read: Read) -> Answer:
    """The first answer that a strategy has. What may have more matches than any engine could list is left to the engine only if no
    other strategy has an answer, and refused if it does have so many."""
    from omnigraph.read.strategies.strategy import TreeAnswer

    last: TreeAnswer | None = None
    for strategy in order():
        read.arguments.deadline.check()
        if read.mode not in strategy.modes or (answered := strategy.answer(read)) is None:
            continue
        if not isinstance(answered, TreeAnswer):
            return answered
        from omnigraph.read.executor.sizes import may_be_endless, refuse_endless

        if not may_be_endless(read.view, read.plan.pattern):
            return answered
        last = answered
    assert last is not None, "scan answers every read"
    refuse_endless(read.view, read.plan.pattern, read.arguments)
    return last
