"""A reader of changes that keeps its own copy of a graph, and its place in the feed, in one file.

python examples/python/change_reader.py GRAPH COPY.json
"""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph as og


@dataclass
class Copy:
    """The entities by type and id, and the cursor after which the feed goes on."""

    cursor: str
    entities: dict[str, og.types.Entity] = field(default_factory=dict)

    def take(self, change: og.types.EntityChange) -> None:
        """Harmless when the change was taken before: delivery is at least once."""
        name = f"{change.type_name} {change.id}"
        if change.after is None:
            self.entities.pop(name, None)
        else:
            self.entities[name] = change.after


def begin(graph: og.Graph) -> Copy:
    """Everything that is there now, and the cursor that goes on from it."""
    lines = io.BytesIO()
    copy = Copy(graph.baseline(lines).resume_cursor)
    for line in lines.getvalue().splitlines()[:-1]:
        record = json.loads(line)
        type_name, data = record.get("type") or record["edge"], record["data"]
        ends = {end: record[end] for end in ("from", "to") if "edge" in record}
        copy.entities[f"{type_name} {data['id']}"] = {**data, **ends}
    return copy


def follow(graph: og.Graph, copy: Copy) -> int:
    """Take what was committed since; how many changes."""
    taken = 0
    page = graph.changes(since=copy.cursor)
    while True:
        for block in page.blocks:
            for change in block.changes:
                copy.take(change)
                taken += 1
        if page.next_page_token is None:
            assert page.cursor is not None, "the last page of a poll has the cursor"
            copy.cursor = page.cursor
            return taken
        page = graph.changes(page_token=page.next_page_token)


def main(uri: str, file: Path) -> None:
    graph = og.open(uri)
    if file.exists():
        held = json.loads(file.read_text())
        copy = Copy(held["cursor"], held["entities"])
        print(f"took {follow(graph, copy)} changes")
    else:
        copy = begin(graph)
        print(f"began with {len(copy.entities)} entities")
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps({"cursor": copy.cursor, "entities": copy.entities}, default=str))
    unfinished.replace(file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
