"""Numbers of ids, beside the plainest way to find a text in a list."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.tables.adjacency import numbering
from omnigraph.tables.adjacency.numbering import SortedIds, sorted_ids

KINDS = {
    "short": lambda numbers: str(numbers.randrange(4_000)),
    "of any length": lambda numbers: "".join(numbers.choices("ab", k=numbers.randrange(14))),
    "with zero bytes": lambda numbers: "".join(numbers.choices("a\0", k=numbers.randrange(9))),
    "long, told apart by their beginning": lambda numbers: f"{numbers.randrange(4_000):08d}-and-more",
    "long, told apart by their end": lambda numbers: f"the same beginning {numbers.randrange(4_000)}",
    "with a common beginning": lambda numbers: f"é/{numbers.randrange(4_000):05d}",
}


def made(kind: str, numbers: random.Random, count: int) -> list[str]:
    return [KINDS[kind](numbers) for _ in range(count)]


def ids_of(texts: set[str]) -> SortedIds:
    ids = pa.array(sorted(texts), pa.utf8())
    return sorted_ids(ids, np.arange(len(ids)), len(ids), ())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("many", [1, numbering.MANY])
def test_ids_are_found_and_others_are_not(
    kind: str, in_order: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbering, "MANY", many)
    numbers = random.Random(f"{kind} {in_order}")
    for count in (1, 30, 2_000):
        known = set(made(kind, numbers, count))
        ordered = sorted(known, key=str.encode)
        base = ids_of(known)
        wanted = [*numbers.choices(ordered, k=300), *made(kind, numbers, 300), *made("of any length", numbers, 20)]
        wanted.sort(key=str.encode) if in_order else numbers.shuffle(wanted)
        places = {text: place for place, text in enumerate(ordered)}
        expected = [places.get(text, -1) for text in wanted]
        assert base.find_many(pa.array(wanted, pa.utf8())).tolist() == expected
        assert base.find(wanted) == expected
        inside = [text for text in wanted if text.startswith(base.header.shared)]
        assert base.find_many(pa.array(inside, pa.utf8())).tolist() == [places.get(text, -1) for text in inside]


def test_ids_told_apart_by_their_first_bytes_are_not_hashed_as_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    base = ids_of({str(number) for number in range(1_000)})
    monkeypatch.setattr(numbering, "MANY", 1_000)
    monkeypatch.setattr(SortedIds, "texts", property(lambda _: pytest.fail("texts were read")))
    assert base.find_many(pa.array(["7", "x", "70"])).tolist() == [667, -1, 668]
