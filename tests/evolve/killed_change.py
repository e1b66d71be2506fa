"""`python killed_change.py <graph>` changes the schema of a graph, in a process that a failpoint may end."""

from __future__ import annotations

import sys

import omnigraph as og

BEFORE = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
AFTER = 'node Human @rename_from("Person") { name: String @key  years: I64 @rename_from("age") }\nedge Knows: Human -> Human'

if __name__ == "__main__":
    og.open(sys.argv[1]).schema.apply(AFTER)
