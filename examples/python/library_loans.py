"""A small library: write, ask, branch, merge and look back.

python examples/python/library_loans.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import omnigraph as og

SCHEMA = """
node Book { isbn: String @key  title: String  copies: I32  @range(copies, 0..) }
node Reader { name: String @key }
edge Borrowed: Reader -> Book { on: Date }
"""

QUERIES = """
query loans($reader: String) {
  match { $r: Reader { name: $reader }  $r $loan:borrowed $b }
  return { $b.title as title, $loan.on as borrowed_on }
  order { borrowed_on }
}
query stock() { match { $b: Book } return { $b.title as title, $b.copies as copies } order { title } }
query buy($isbn: String, $copies: I32) { update Book set { copies: $copies } where isbn = $isbn }
"""


def fill(graph: og.Graph) -> og.types.Receipt:
    with graph.transaction(actor="ada", message="opening day") as tx:
        tx.insert("Book", isbn="F1", title="Frankenstein", copies=2)
        tx.insert("Book", isbn="L1", title="The Last Man", copies=1)
        tx.insert("Reader", name="Bo")
        tx.insert("Borrowed", from_="Bo", to="F1", on="2026-07-01")
    return tx.receipt


def review(graph: og.Graph) -> og.types.MergeResult:
    """A change on a branch, seen before it is merged."""
    graph.branches.create("purchases")
    graph.mutate(QUERIES, {"isbn": "L1", "copies": 4}, name="buy", branch="purchases", actor="cy")
    for change in graph.diff("main", "purchases"):
        before, after = change.before or {}, change.after or {}
        print(f"{change.op} {change.type_name} {change.id}: {before.get('copies')!r} -> {after.get('copies')!r}")
    return graph.branches.merge("purchases", delete_branch=True, actor="ada")


def main(folder: Path) -> None:
    with og.init(folder / "library", SCHEMA) as graph:
        receipt = fill(graph)
        print(f"wrote {receipt.affected_nodes} nodes and {receipt.affected_edges} edge")
        for row in graph.query(QUERIES, {"reader": "Bo"}, name="loans"):
            print(row["title"], row["borrowed_on"])
        print(review(graph).outcome)
        now = graph.query(QUERIES, name="stock").rows
        before = graph.query(QUERIES, name="stock", revision="main~1").rows
        print(f"stock was {before}, is {now}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
