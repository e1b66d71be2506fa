"""A writer that never stops until it is told to. `python optimize_stream.py <graph> <name>` stops at a line of input and prints
what it wrote."""

from __future__ import annotations

import json
import sys
import threading

import omnigraph as og
from omnigraph.errors import Conflict


def stream(uri: str, name: str, model: dict[str, int], stop: threading.Event) -> None:
    """One row after the other, some of them updated and some deleted again; the model gets what was acknowledged."""
    graph = og.open(uri, durability="process")
    number = 0
    while not stop.is_set():
        title = f"{name}{number}"
        with graph.transaction() as tx:
            tx.insert("Note", title=title, text=f"word{title}", stars=0)
        model[title] = 0
        if number % 3 == 1:
            _until_it_fits(lambda title=title: _update(graph, title))
            model[title] = 1
        if number % 5 == 2:
            _until_it_fits(lambda title=title: _delete(graph, title))
            del model[title]
        number += 1


def _update(graph: og.Graph, title: str) -> None:
    with graph.transaction() as tx:
        tx.update("Note", title, stars=1)


def _delete(graph: og.Graph, title: str) -> None:
    with graph.transaction() as tx:
        tx.delete("Note", title)


def _until_it_fits(write) -> None:  # type: ignore[no-untyped-def]  # a lambda with a bound title
    while True:
        try:
            return write()
        except Conflict:
            continue


def decoded(told: str) -> dict[str, int]:
    written: dict[str, int] = json.loads(told)
    return written


def main() -> None:
    stop, model = threading.Event(), {}
    writer = threading.Thread(target=stream, args=(sys.argv[1], sys.argv[2], model, stop))
    print("writing", flush=True)
    writer.start()
    sys.stdin.readline()
    stop.set()
    writer.join()
    print(json.dumps(model))


if __name__ == "__main__":
    main()
