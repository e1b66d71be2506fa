"""Words, matching and BM25: one definition for every engine.

A word is a maximal run of letters, their marks, digits and underscores (Unicode), in lower case. What is compared is its *term*,
which depends on the property's language: in "simple" the word itself; in "english" its stem, so that `running` is `run`, and stop
words (`the`, `of`, ...) have none. Only words of letters alone are stemmed.

`search` and `match_text`: at least one term of the query is a term of the text. `all_words`: every one is. `phrase`: the query's
words occur consecutively in the text, compared by their terms, with stop words as written. `fuzzy`: some word of the query, other
than a stop word, is within `max_edits` insertions, deletions, replacements or swaps of neighbours of a word of the text, both as
written. A query without terms matches nothing. A missing text matches nothing.

`bm25`: k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)), summed over the query's distinct terms; N and the mean length
(in words) count the rows that have a text. A text with none of the terms has no score (null).
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.language.catalog import Language, Metric
from omnigraph.language.query.plan import TextKind

# Exact vector distances: computed in double precision, rounded once to F32. Smaller is nearer.
#
# cosine: 1 - cosine of the angle. l2: the length of the difference. dot: the inner product, negated.


def distances(cells: pa.ChunkedArray | pa.Array, query: Sequence[float], metric: Metric = "cosine") -> pa.Array:
    """The distance of each vector to the query; null for a missing vector, and for the angle with a zero vector."""
    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    parts = [_distances(chunk, query, metric) for chunk in chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.float32())


def _distances(chunk: pa.Array, query: Sequence[float], metric: Metric) -> pa.Array:
    wanted = np.asarray(query, dtype=np.float64)
    if len(chunk) == 0:
        return pa.array([], pa.float32())
    matrix = _matrix(chunk, len(wanted))
    # Row by row in a fixed order of addition: a row's distance never depends on the other rows.
    with np.errstate(all="ignore"):
        match metric:
            case "cosine":
                lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * float(np.sqrt(np.dot(wanted, wanted)))
                exact = 1.0 - np.einsum("ij,j->i", matrix, wanted) / lengths
            case "l2":
                apart = matrix - wanted
                exact = np.sqrt(np.einsum("ij,ij->i", apart, apart))
            case "dot":
                exact = -np.einsum("ij,j->i", matrix, wanted)
        result = exact.astype(np.float32)
    missing = ~np.isfinite(result) | np.asarray(chunk.is_null())
    return pa.array(result, pa.float32(), mask=missing)


def _matrix(chunk: pa.Array, width: int) -> np.ndarray:
    flat = chunk.values.slice(chunk.offset * width, len(chunk) * width)
    numbers = flat.to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64).reshape(len(chunk), width)


K1 = 1.2
B = 0.75

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)

_CIRCLED = "\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
"""Letters that Unicode classifies as symbols."""
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_COUNTED_WORD = rf"[\p{{L}}\p{{M}}\p{{N}}_{_CIRCLED}]+"
"""The same words in the syntax of Arrow's regular expressions, which count them column by column."""


@cache
def _word() -> re.Pattern[str]:
    """Python's \\w matches letters, digits and the underscore, but no marks."""
    import unicodedata

    marks = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"]
    return re.compile(rf"[\w{''.join(marks)}{_CIRCLED}]+")


def words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    # Letter by letter: a capital sigma is the same letter wherever it is in its word.
    return [word.replace("Σ", "σ").lower() for word in _word().findall(text)]


def terms(text: str, language: Language) -> list[str]:
    """The terms of a text, in order, as often as they occur."""
    if language == "simple":
        return words(text)
    return [_stem(word) for word in words(text) if word not in STOP_WORDS]


def _sequence(text: str, language: Language) -> list[str]:
    """Like `terms`, with stop words: what a phrase is compared by."""
    return words(text) if language == "simple" else [_stem(word) for word in words(text)]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word)) if word.isalpha() else word


@cache
def _stemmer() -> Any:
    """Snowball's English stemmer, as in the text index: `tests/substrate` compares the two."""
    import snowballstemmer

    return snowballstemmer.stemmer("english")


def matches(
    cells: pa.ChunkedArray | pa.Array, kind: TextKind, query: str, language: Language, max_edits: int = 0
) -> pa.Array:
    """One truth value per text, never null."""
    is_match = _matcher(kind, query, language, max_edits)
    return pa.array([text is not None and is_match(text) for text in cells.to_pylist()], pa.bool_())


def _matcher(kind: TextKind, query: str, language: Language, max_edits: int) -> Callable[[str], bool]:
    if kind == "phrase":
        phrase = _sequence(query, language)
        return lambda text: bool(phrase) and _follow(_sequence(text, language), phrase)
    if kind == "fuzzy":
        written = [word for word in words(query) if language == "simple" or word not in STOP_WORDS]
        return lambda text: any(within_edits(word, other, max_edits) for word in written for other in set(words(text)))
    wanted = set(terms(query, language))
    if kind == "all_words":
        return lambda text: bool(wanted) and wanted.issubset(terms(text, language))
    return lambda text: not wanted.isdisjoint(terms(text, language))


def _follow(sequence: Sequence[str], phrase: Sequence[str]) -> bool:
    size = len(phrase)
    return any(sequence[start : start + size] == phrase for start in range(len(sequence) - size + 1))


@lru_cache(maxsize=65_536)
def within_edits(first: str, second: str, most: int) -> bool:
    """Whether the distance (insert, delete, replace, swap neighbours) is at most `most`. Only positions that so few edits can
    reach are compared, so the work is linear in the length of the words, not quadratic."""
    if abs(len(first) - len(second)) > most:
        return False
    far = most + 1
    before: dict[int, int] = {}
    previous = {j: j for j in range(min(len(second), most) + 1)}
    for i, a in enumerate(first, start=1):
        current: dict[int, int] = {}
        for j in range(max(0, i - most), min(len(second), i + most) + 1):
            cost = previous.get(j, far) + 1
            if j:
                b = second[j - 1]
                cost = min(cost, current.get(j - 1, far) + 1, previous.get(j - 1, far) + (a != b))
                if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                    cost = min(cost, before.get(j - 2, far) + 1)
            current[j] = cost
        if min(current.values()) > most:
            return False
        before, previous = previous, current
    return previous.get(len(second), far) <= most


@dataclass(frozen=True)
class Statistics:
    """What BM25 needs to know about the whole column."""

    weights: tuple[tuple[str, float], ...]
    """The query's distinct terms with their idf."""
    mean_length: float
    language: Language


@dataclass(frozen=True)
class TextTotals:
    """The number of texts in some rows, and of the words in these."""

    documents: int = 0
    length: int = 0

    @property
    def nbytes(self) -> int:
        return 256

    def __add__(self, other: TextTotals) -> TextTotals:
        return TextTotals(self.documents + other.documents, self.length + other.length)


def totals(cells: pa.ChunkedArray | pa.Array) -> TextTotals:
    length = pc.sum(pc.count_substring_regex(cells, _COUNTED_WORD)).as_py()
    return TextTotals(len(cells) - cells.null_count, length or 0)


def holding(cells: pa.ChunkedArray | pa.Array, wanted: Iterable[str], language: Language) -> Counter[str]:
    """For each of these terms the number of texts that have it."""
    sought = set(wanted)
    counts: Counter[str] = Counter()
    for text in cells.to_pylist():
        if text is not None:
            counts.update(sought.intersection(terms(text, language)))
    return counts


def statistics(total: TextTotals, holding: Mapping[str, int], language: Language) -> Statistics:
    """`holding` has every term of the query, with the number of texts that have it."""
    weights = tuple(
        (term, math.log(1 + (total.documents - count + 0.5) / (count + 0.5))) for term, count in sorted(holding.items())
    )
    return Statistics(weights, total.length / total.documents if total.documents else 0.0, language)


def scores(cells: pa.ChunkedArray | pa.Array, statistics: Statistics) -> pa.Array:
    """The BM25 score of each text, as F32; null without a match."""
    return pa.array([score(text, statistics) for text in cells.to_pylist()], pa.float32())


def score(text: str | None, statistics: Statistics) -> float | None:
    if text is None:
        return None
    own, length = terms(text, statistics.language), len(words(text)) / (statistics.mean_length or 1.0)
    total, hit = 0.0, False
    for term, weight in statistics.weights:
        frequency = own.count(term)
        if frequency:
            hit = True
            total += weight * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length))
    return total if hit else None
