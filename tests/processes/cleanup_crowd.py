"""Processes around one graph: writers, a loader, a merger, a copier, a pinned reader, a cleaner. `python cleanup_crowd.py <role> <uri> ...`.

Each one writes what it was told to a file of its own, a line at a time, before it goes on: what stands there was acknowledged.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from processes.short_times import shorten

import omnigraph as og
from omnigraph.errors import HistoryGap, OmnigraphError

SCHEMA = "node Person { name: String @key  note: String? }\nedge Knows: Person -> Person"
NAMES = "query q() { match { $p: Person } return { $p.name as name } }"
LOADED_ROWS = 400


class Book:
    """What was acknowledged. A line that is there is whole."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # for as long as the process lives

    def note(self, **line: Any) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def write(graph: og.Graph, book: Book, name: str, count: int) -> None:
    """Inserts, and now and then deletes, one after the other. What is refused is tried again; what is unknown is not counted."""
    for number in range(count):
        inserted, deleted = f"{name}-{number}", f"{name}-{number - 3}"
        deletes = number >= 3 and number % 4 == 0
        if deletes:
            book.note(deleting=deleted)
        while True:
            try:
                with graph.transaction() as tx:
                    tx.insert("Person", name=inserted, note="x" * 200)
                    if deletes:
                        tx.delete("Person", deleted)
                break
            except OmnigraphError as error:
                book.note(refused=error.code)
                # A gap is met by who stood still for longer than the grace period, which is seconds here.
                if not error.retry and error.code not in ("expected_version_mismatch", "history_gap"):
                    raise
        book.note(inserted=inserted)
        if deletes:
            book.note(deleted=deleted)


def load(graph: og.Graph, book: Book, name: str, count: int, engine: str) -> None:
    for number in range(count):
        file = Path(f"{book._file.name}.{number}.jsonl")
        names = [f"{name}-{os.getpid()}-{number}-{row}" for row in range(LOADED_ROWS)]
        file.write_text("".join(json.dumps({"type": "Person", "data": {"name": each}}) + "\n" for each in names))
        book.note(loading=number)
        try:
            graph.load(file, mode="append", engine=engine)
        except OmnigraphError as error:
            book.note(refused=error.code)
            continue
        for each in names:
            book.note(inserted=each)


def merge(graph: og.Graph, book: Book, name: str, stop: Path) -> None:
    """Makes a branch, merges it into main and main into it, twice, and deletes it."""
    number = 0
    while not stop.exists():
        number += 1
        branch = f"{name}-{os.getpid()}-{number}"
        try:
            graph.branches.create(branch)
            for turn in range(2):
                inserted = f"{branch}-{turn}"
                with graph.transaction(branch) as tx:
                    tx.insert("Person", name=inserted)
                graph.branches.merge(branch)
                book.note(inserted=inserted)
                graph.branches.merge("main", into=branch)
            graph.branches.delete(branch, force=True)
        except OmnigraphError as error:
            book.note(refused=error.code, message=error.message)
            if not error.retry and error.code != "history_gap":
                raise


def copy(graph: og.Graph, book: Book, folder: str, options: dict[str, str] | None, stop: Path) -> None:
    """Pushes again and again; a copy that a cleanup left behind, or that lacks a branch which was merged, is made anew."""
    number, target = 0, ""
    while not stop.exists():
        try:
            if not target:
                number += 1
                target = f"{folder}/copy-{os.getpid()}-{number}"
                og.clone(graph.uri, target, storage_options=options, durability="process")
                book.note(cloned=target)
            else:
                graph.push(target)
                book.note(pushed=target)
        except OmnigraphError as error:
            book.note(refused=error.code, message=error.message)
            if not error.retry and error.code not in ("history_gap", "not_fast_forward"):
                raise
            target = ""


def read(graph: og.Graph, book: Book, stop: Path) -> None:
    """Pins a commit a little below the head and reads it again and again: always the same, until it is gone."""
    while not stop.exists():
        expected: set[str] | None = None
        try:
            commit = graph.commits(limit=4)[-1].id
            for _ in range(20):
                found = {row["name"] for row in graph.query(NAMES, revision=commit).rows}
                assert expected in (None, found), "a commit has changed"
                expected = found
                book.note(read=len(found))
        except HistoryGap as gap:
            book.note(gap=int(gap.details()["watermark"]))


def clean(graph: og.Graph, book: Book, stop: Path) -> None:
    while not stop.exists():
        try:
            report = graph.maintenance.cleanup(older_than=0)
            book.note(files=report.files, bytes=report.bytes)
        except HistoryGap as gap:
            # It stood still for longer than the grace period, which is seconds here, while another one cleaned up.
            book.note(gap=int(gap.details()["watermark"]))
        except OmnigraphError as error:
            book.note(refused=error.code, message=error.message)
            if not error.retry:
                raise


def main() -> None:
    role, uri, options, folder, name, count, engine = sys.argv[1:]
    shorten()
    graph = og.open(uri, storage_options=json.loads(options) or None)
    book, stop = Book(f"{folder}/{name}.book"), Path(folder) / "stop"
    match role:
        case "write":
            write(graph, book, name, int(count))
        case "load":
            load(graph, book, name, int(count), engine)
        case "merge":
            merge(graph, book, name, stop)
        case "copy":
            copy(graph, book, folder, json.loads(options) or None, stop)
        case "read":
            read(graph, book, stop)
        case "clean":
            clean(graph, book, stop)


if __name__ == "__main__":
    main()
