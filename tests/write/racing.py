"""The writes that race each other. `python racing.py <graph> <name>` runs one and prints how it ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import omnigraph as og
from omnigraph.errors import OmnigraphError

HELD = ("Ada", "Bob", "Cy")
"""People who are there before the race."""


@dataclass(frozen=True)
class Writing:
    """`run(graph, message, who)`; `effect` is what it does to the set of people."""

    run: Callable[[og.Graph, str, str], object]
    effect: Callable[[set[str]], set[str]]


def in_transaction(statements: Callable[[og.Transaction, str], object]) -> Callable[[og.Graph, str, str], object]:
    def run(graph: og.Graph, message: str, who: str) -> None:
        with graph.transaction(message=message) as tx:
            statements(tx, who)

    return run


WRITES = {
    "insert same": Writing(
        in_transaction(lambda tx, _: tx.insert("Person", name="Dee")), lambda people: people | {"Dee"}
    ),
    "disjoint": Writing(in_transaction(lambda tx, _: tx.insert("Person", name="Eve")), lambda people: people | {"Eve"}),
    "upsert": Writing(
        in_transaction(lambda tx, who: tx.upsert("Person", name="Dee", age=int(who))), lambda people: people | {"Dee"}
    ),
    "update": Writing(in_transaction(lambda tx, who: tx.update("Person", "Ada", age=int(who))), lambda people: people),
    "delete node": Writing(in_transaction(lambda tx, _: tx.delete("Person", "Ada")), lambda people: people - {"Ada"}),
    "insert edge": Writing(
        in_transaction(lambda tx, who: tx.insert("Knows", id=f"e{who}", from_="Cy", to="Ada")), lambda people: people
    ),
}


def main() -> None:
    graph = og.open(sys.argv[1], durability="process")
    try:
        WRITES[sys.argv[2]].run(graph, sys.argv[2], "1")
        print("ok")
    except OmnigraphError as error:
        print(error.code)


if __name__ == "__main__":
    main()
