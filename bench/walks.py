"""The functions of OmniGraph that six operations pass through: how many, and with --list, which, in the order of first entry.

python bench/walks.py [--list] [operation ...]
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
TWO_HOPS = """
query near($who: String) {
    match { $a: Person { name: $who } $a knows $b $b knows $c }
    return { $c.name as name, $c.age as age }
}
"""
HOME = str(Path(og.__file__).parent)


class Walk:
    """The functions that were called, in the order of their first call, and how often any was called. The bodies of modules
    and classes, which are run when something is imported, are no functions."""

    def __init__(self, operation: Callable[[], object]) -> None:
        self.functions: dict[str, None] = {}
        self.calls = 0
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        try:
            operation()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(HOME):
            self.calls += 1
            module = code.co_filename[len(HOME) + 1 : -len(".py")].replace("/", ".")
            self.functions.setdefault(f"{module}:{code.co_qualname}")

    @property
    def modules(self) -> int:
        return len({function.partition(":")[0] for function in self.functions})


class Operations:
    """The operations on a small graph. Each was done once before it is looked at, except opening."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "people.jsonl"
        people = ({"type": "Person", "data": {"name": f"n{number}", "age": number}} for number in range(50))
        self.file.write_text("".join(json.dumps(person) + "\n" for person in people), encoding="utf-8")
        self.graph = og.init(folder / "graph", schema=SCHEMA)
        with self.graph.transaction() as tx:
            tx.insert_many("Person", [{"name": name, "age": 3} for name in "abcdefgh"])
            tx.insert_many("Knows", [{"from": a, "to": b} for a, b in zip("abcdefg", "bcdefgh", strict=True)])
        self.insert_edge()
        self.two_hop_query()
        self.graph.branches.create("side")

    def insert_edge(self) -> None:
        with self.graph.transaction() as tx:
            tx.insert("Knows", from_="a", to="c")

    def load(self) -> None:
        self.graph.load(self.file, mode="append", engine="local")

    def two_hop_query(self) -> None:
        assert self.graph.query(TWO_HOPS, {"who": "a"}).rows

    def part_ways(self) -> None:
        with self.graph.transaction("side") as tx:
            tx.update("Person", "a", age=9)
            tx.insert("Person", name="z")
        with self.graph.transaction() as tx:
            tx.update("Person", "b", age=8)

    def merge(self) -> None:
        assert self.graph.branches.merge("side").outcome == "merged"

    def diff(self) -> None:
        assert list(self.graph.diff("main~3", "main"))

    def open(self) -> None:
        assert og.open(self.graph.uri).query(TWO_HOPS, {"who": "a"}).rows


def main(words: list[str]) -> None:
    wanted = [word for word in words if word != "--list"]
    with tempfile.TemporaryDirectory() as folder:
        operations = Operations(Path(folder))
        walks: dict[str, Callable[[], None]] = {
            "insert edge": operations.insert_edge,
            "load": operations.load,
            "two-hop query": operations.two_hop_query,
            "merge": operations.merge,
            "diff": operations.diff,
            "open and first query": operations.open,
        }
        for name, operation in walks.items():
            if name == "merge":
                operations.part_ways()
            walk = Walk(operation)
            if not wanted or name in wanted:
                print(f"{name:22} {len(walk.functions):4} functions {walk.calls:6} calls {walk.modules:4} modules")
                if "--list" in words:
                    print("".join(f"    {function}\n" for function in walk.functions))


if __name__ == "__main__":
    main(sys.argv[1:])
