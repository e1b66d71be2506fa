"""An entry that another process wrote is read on top of the one that is known, and is the same as read from nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.history.chain import key_of
from omnigraph.history.encoding import decode_entry, encode_entry

SCHEMA = "node Person { name: String @key  age: F64? }  edge Knows: Person -> Person"


def write(graph: og.Graph, drawn: random.Random) -> None:
    name, other = (f"p{drawn.randrange(12)}" for _ in range(2))
    with graph.transaction(actor=drawn.choice(["ada", None])) as tx:
        match drawn.randrange(4):
            case 0:
                tx.delete("Person", name)
            case 1:
                tx.upsert("Person", name=name)
                tx.upsert("Person", name=other)
                tx.insert("Knows", from_=name, to=other)
            case _:
                tx.upsert("Person", name=name, age=drawn.choice([0.0, -0.0, 1, None]))


@pytest.mark.parametrize("seed", range(4))
def test_an_entry_is_the_same_after_any_other(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    graphs = [og.init(tmp_path / "graph", schema=SCHEMA, durability="process")]
    graphs += [og.open(tmp_path / "graph", durability="process") for _ in range(2)]
    for _ in range(90):
        writer, reader = drawn.sample(graphs, 2)
        write(writer, drawn)
        chain = reader._repository.history.chain
        head = chain.newest("main")
        assert head is not None
        data = chain.store.get(key_of("main", head.position))
        plain = decode_entry(data, "")
        assert head == plain
        assert encode_entry(head) == data
        assert head.tail == plain.tail
        assert {key: state.inline.places for key, state in head.head.tables.items()} == {
            key: state.inline.places for key, state in plain.head.tables.items()
        }
