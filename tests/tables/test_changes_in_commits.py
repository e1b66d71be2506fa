"""Rows that stand in commits: what is known of them is carried from version to version, and is the same as made from nothing."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.tables.adjacency.numbering import Numbering, sorted_ids
from omnigraph.values.inline_rows import Inline, InlineChange, inline_from_json

STORED = [f"n{number:02}" for number in range(20)]


def versions(seed: int) -> list[Inline]:
    """Each is an earlier one with a change more: branches of branches."""
    drawn, found = random.Random(seed), [Inline()]
    for _ in range(40):
        ids = drawn.sample([*STORED, *(f"new{number}" for number in range(30))], drawn.randint(0, 3))
        rows = tuple((id, drawn.choice(STORED)) for id in ids)
        removed = tuple(drawn.sample(STORED, drawn.choice([0, 0, 1])))
        change = InlineChange(("id", "dst") if rows else (), rows, removed, (drawn.randrange(99),))
        found.append(drawn.choice(found[-3:]).with_change(change))
        assert found[-1].digest  # So that the next one goes on from it.
    return found


@pytest.mark.parametrize("seed", range(10))
def test_digest_and_hash_are_those_of_the_changes_whatever_came_before(seed: int) -> None:
    found = versions(seed)
    again = [Inline(version) for version in found]
    assert [version.digest for version in found] == [version.digest for version in again]
    assert [hash(version) for version in found] == [hash(version) for version in again]
    assert found == again
    for one in found:
        for other in found:
            assert (one == other) == (one.digest == other.digest)


@pytest.mark.parametrize("seed", range(10))
def test_numbers_of_any_version_are_those_of_its_own_ids(seed: int) -> None:
    ids = pa.array(STORED, pa.utf8())
    numbering = Numbering(sorted_ids(ids, np.arange(len(ids)), len(ids), ()))
    found = versions(seed)
    for version in [*found, *random.Random(seed).sample(found, len(found))]:
        for place, column in enumerate(("id", "dst")):
            texts = [row[place] for change in version for row in change.rows]
            assert numbering.texts(numbering.of_changes(version, column).tolist()) == texts
    assert len({numbering.find([text])[0] for text in STORED}) == len(STORED)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_read_is_the_same_whatever_was_known_before(seed: int) -> None:
    found = versions(seed)
    for stored in found:
        values, plain = json.loads(f"[{stored.text}]"), Inline(stored)
        for known in found:
            read = inline_from_json(values, known)
            assert read == plain
            assert (read.text, read.places, read.digest) == (plain.text, plain.places, plain.digest)
            assert (read.row_count, read.masked_count, read.size) == (plain.row_count, plain.masked_count, plain.size)
            assert not any(change.removed for change in read), "which rows went is said by the step alone"


def test_a_value_that_only_looks_the_same_is_read() -> None:
    known = Inline([InlineChange(("id", "x"), (("a", 0.0),)), InlineChange(("id", "x"), (("b", 1),))])
    for values in ([("a", -0.0), ("b", 1)], [("a", 0.0), ("b", 1.0)], [("a", 0.0), ("b", True)]):
        stored = Inline([InlineChange(("id", "x"), (row,)) for row in values])
        assert inline_from_json(json.loads(f"[{stored.text}]"), known).text == stored.text
