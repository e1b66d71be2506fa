"""A reader of changes in a process of its own: keeps its copy of the branch and its cursor in one file.

    python feed_consumer.py <graph> <file> <seed> <steps before it is killed, or 0>

A step is a page that was fetched, applied or stored; after the given number the process kills itself.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.api.changes import FeedJson
from omnigraph.changes.feed import FeedPage


class Consumer:
    def __init__(self, graph: og.Graph, file: Path, seed: int, steps: int) -> None:
        self.graph = graph
        self.file = file
        self.random = random.Random(seed)
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self) -> None:
        held = json.loads(self.file.read_text()) if self.file.exists() else self.begin()
        while True:
            page = self.graph.changes(since=held["cursor"], **self.sizes(), max_commits=self.random.randint(1, 3))
            self.apply(held["rows"], page)
            while page.next_page_token is not None:
                page = self.graph.changes(page_token=page.next_page_token, **self.sizes())
                self.apply(held["rows"], page)
            held["cursor"] = page.cursor
            self.store(held)
            if page.caught_up:
                return

    def sizes(self) -> dict[str, int]:
        return {"limit": self.random.randint(1, 4)}

    def begin(self) -> dict[str, Any]:
        out = io.BytesIO()
        self.graph.baseline(out)
        *lines, last = map(json.loads, out.getvalue().splitlines())
        rows = {}
        for line in lines:
            data = dict(line["data"])
            id = data.pop("id")
            ends = {"from": line["from"], "to": line["to"]} if "edge" in line else None
            rows[f"{line.get('type') or line['edge']} {id}"] = {"properties": data, "endpoints": ends}
        held = {"rows": rows, "cursor": last["baseline"]["resume_cursor"]}
        self.store(held)
        return held

    def apply(self, rows: dict[str, Any], page: FeedPage) -> None:
        """What was applied before is applied again without harm."""
        self.step()
        for block in FeedJson.to_json(page)["blocks"]:
            for change in block["changes"]:
                key = f"{change['type']['name']} {change['id']}"
                if change["op"] == "delete":
                    rows.pop(key, None)
                else:
                    after = change["after"]
                    rows[key] = {"properties": after["properties"], "endpoints": after.get("endpoints")}
        self.step()

    def store(self, held: dict[str, Any]) -> None:
        unfinished = self.file.with_suffix(".new")
        unfinished.write_text(json.dumps(held))
        unfinished.replace(self.file)
        self.step()


if __name__ == "__main__":
    Consumer(og.open(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])).run()
