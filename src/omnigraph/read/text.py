"""Words, matching and BM25: one meaning for every engine.

A word is a maximal run of letters, digits and underscores (Unicode), compared in case-folded form. There is no
stemming and there are no stop words, so what matches can be told from the text alone.

`search` and `match_text`: every word of the query is a word of the text. `fuzzy`: every word of the query is within
`max_edits` insertions, deletions, replacements or swaps of neighbours of some word of the text. A query without words
matches nothing. A missing text matches nothing.

`bm25`: k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)), summed over the query's distinct words; N and the
mean length count the rows that have a text. A text with none of the words has no score (null).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

K1 = 1.2
B = 0.75

_WORD = re.compile(r"\w+")
TextKind = Literal["search", "match_text", "fuzzy"]


def words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def matches(cells: pa.ChunkedArray | pa.Array, kind: TextKind, query: str, max_edits: int) -> pa.Array:
    """One truth value per text, never null."""
    import pyarrow as pa

    wanted = list(dict.fromkeys(words(query)))
    return pa.array([_matches(text, kind, wanted, max_edits) for text in cells.to_pylist()], pa.bool_())


def _matches(text: str | None, kind: TextKind, wanted: Sequence[str], max_edits: int) -> bool:
    if text is None or not wanted:
        return False
    present = set(words(text))
    if kind != "fuzzy":
        return all(word in present for word in wanted)
    return all(word in present or any(within_edits(word, other, max_edits) for other in present) for word in wanted)


def within_edits(first: str, second: str, most: int) -> bool:
    """Is the distance (insert, delete, replace, swap neighbours) at most `most`?"""
    if abs(len(first) - len(second)) > most:
        return False
    before: list[int] = []
    previous = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        current = [i]
        for j, b in enumerate(second, start=1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > most:
            return False
        before, previous = previous, current
    return previous[-1] <= most


@dataclass(frozen=True)
class Statistics:
    """What BM25 needs to know of the whole column."""

    weights: tuple[tuple[str, float], ...]
    """The query's distinct words with their idf."""
    mean_length: float


@dataclass
class Counts:
    """Gathers statistics batch by batch; sums from several places may be added."""

    documents: int = 0
    length: int = 0
    holding: dict[str, int] = field(default_factory=dict)

    def add(self, cells: pa.ChunkedArray | pa.Array, terms: Iterable[str]) -> None:
        wanted = set(terms)
        for text in cells.to_pylist():
            if text is None:
                continue
            found = words(text)
            self.documents += 1
            self.length += len(found)
            for term in wanted.intersection(found):
                self.holding[term] = self.holding.get(term, 0) + 1

    def statistics(self, terms: Iterable[str]) -> Statistics:
        total = self.documents
        weights = tuple(
            (term, math.log(1 + (total - self.holding.get(term, 0) + 0.5) / (self.holding.get(term, 0) + 0.5)))
            for term in sorted(set(terms))
        )
        return Statistics(weights, self.length / total if total else 0.0)


def scores(cells: pa.ChunkedArray | pa.Array, statistics: Statistics) -> pa.Array:
    """The BM25 score of each text, as F32; null without a match."""
    import pyarrow as pa

    return pa.array([score(text, statistics) for text in cells.to_pylist()], pa.float32())


def score(text: str | None, statistics: Statistics) -> float | None:
    if text is None:
        return None
    found = words(text)
    total, hit = 0.0, False
    for term, weight in statistics.weights:
        frequency = found.count(term)
        if frequency:
            hit = True
            length = len(found) / statistics.mean_length
            total += weight * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length))
    return total if hit else None
