"""Words, matching and BM25: one meaning for every engine.

A word is a maximal run of letters, their marks, digits and underscores (Unicode), compared in lower case. There is no
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
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

K1 = 1.2
B = 0.75

TextKind = Literal["search", "match_text", "fuzzy"]

_CIRCLED = "\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
"""Letters that Unicode counts among the symbols."""
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_COUNTED_WORD = rf"[\p{{L}}\p{{M}}\p{{N}}_{_CIRCLED}]+"
"""The same words for the engine that counts them column by column."""


@cache
def _word() -> re.Pattern[str]:
    """Python's \\w knows letters, digits and the underscore, but no marks."""
    import unicodedata

    marks = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"]
    return re.compile(rf"[\w{''.join(marks)}{_CIRCLED}]+")


def words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    # Letter by letter: a capital sigma is the same letter wherever it stands in its word.
    return [word.replace("Σ", "σ").lower() for word in _word().findall(text)]


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


@lru_cache(maxsize=65_536)
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


@dataclass(frozen=True)
class Totals:
    """How many texts some rows have, and how many words those have together."""

    documents: int = 0
    length: int = 0

    @property
    def nbytes(self) -> int:
        return 256

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.documents + other.documents, self.length + other.length)


def totals(cells: pa.ChunkedArray | pa.Array) -> Totals:
    import pyarrow.compute as pc

    length = pc.sum(pc.count_substring_regex(cells, _COUNTED_WORD)).as_py()
    return Totals(len(cells) - cells.null_count, length or 0)


def holding(cells: pa.ChunkedArray | pa.Array, terms: Iterable[str]) -> Counter[str]:
    """For each of these words the number of texts that have it."""
    wanted = set(terms)
    found: Counter[str] = Counter()
    for text in cells.to_pylist():
        if text is not None:
            found.update(wanted.intersection(words(text)))
    return found


def statistics(total: Totals, holding: Mapping[str, int]) -> Statistics:
    """`holding` has every word of the query, with the number of texts that have it."""
    weights = tuple(
        (term, math.log(1 + (total.documents - count + 0.5) / (count + 0.5))) for term, count in sorted(holding.items())
    )
    return Statistics(weights, total.length / total.documents if total.documents else 0.0)


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
