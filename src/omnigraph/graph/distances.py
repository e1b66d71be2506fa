"""How far apart two revisions are, in commits."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.history import Entry, History


@dataclass(frozen=True)
class Distance:
    """How many commits one revision has that another does not have, and the reverse.

    >>> assert g.distance("main", "main~1") == og.Distance(ahead=1, behind=0)
    """

    ahead: int
    behind: int


def distance_between(history: History, a: Entry, b: Entry) -> Distance:
    """The commits that only the head of `a` reaches, and those that only the head of `b` does."""
    lineage = history.lineage
    return Distance(
        lineage.missed(a, [lineage.reached(b.ancestry)]),
        lineage.missed(b, [lineage.reached(a.ancestry)]),
    )
