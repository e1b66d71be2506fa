"""A graph on Azure, through Azurite: what S3 is tested for in many places, here once each."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from azure_server import AzureServer

import omnigraph as og
from omnigraph.errors import ObjectExists, StorageDenied, StoragePermanent
from omnigraph.storage.options import open_store

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
COUNT = "query q() { match { $p: Person } return { count($p) as people } }"

WRITER = """
import json, sys
import omnigraph as og

graph = og.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
for number in range(int(sys.argv[4])):
    with graph.transaction() as tx:
        tx.insert("Person", name=f"{sys.argv[3]}-{number}")
"""


@pytest.fixture
def address(azure: AzureServer) -> str:
    return f"az://{azure.new_container()}/some/graph"


def test_one_of_many_racing_creates_wins(azure: AzureServer, address: str) -> None:
    store = open_store(address, storage_options=azure.options)
    for round in range(5):
        winners: list[int] = []

        def race(number: int, key: str = f"entry-{round}", winners: list[int] = winners) -> None:
            try:
                store.create(key, str(number).encode())
            except ObjectExists:
                return
            winners.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(number).encode() for number in winners] == [store.get(f"entry-{round}")]


def test_an_edge_costs_one_request_whatever_came_before(azure: AzureServer, address: str) -> None:
    graph = og.init(address, schema=SCHEMA, storage_options=azure.options)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada")
    with graph.transaction() as tx:
        tx.insert("Knows", from_="Ada", to="Ada")
    for _ in range(3):
        azure.reset()
        with graph.transaction() as tx:
            tx.insert("Knows", from_="Ada", to="Ada")
        assert [request.method for request in azure.requests()] == ["PUT"]


def test_processes_that_write_at_once_lose_nothing(azure: AzureServer, address: str) -> None:
    graph = og.init(address, schema=SCHEMA, storage_options=azure.options)
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, address, json.dumps(azure.options), name, "4"])
        for name in ("ada", "bo", "cy")
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
    assert graph.query(COUNT).rows == [{"people": 12}]
    assert len(graph.commits()) == 13


@pytest.mark.parametrize(
    ("change", "error"),
    [({"account_key": "d3Jvbmc="}, StorageDenied), ({}, StoragePermanent)],
    ids=["wrong key", "no such container"],
)
def test_a_store_that_cannot_be_used_says_so(
    azure: AzureServer, change: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        og.init("az://never-made/graph", schema=SCHEMA, storage_options=azure.options | change)


@pytest.mark.spark
def test_a_load_on_spark_reaches_the_graph_and_its_files(
    azure: AzureServer, address: str, spark: Any, tmp_path: Path
) -> None:
    graph = og.init(address, schema=SCHEMA, storage_options=azure.options)
    rows = "".join(json.dumps({"type": "Person", "data": {"name": f"p{n}"}}) + "\n" for n in range(100))
    open_store(f"{address}-files", storage_options=azure.options).put("people.jsonl", rows.encode())
    receipt = graph.load(f"{address}-files/people.jsonl", mode="append", engine=spark)
    assert receipt.total_entities == 100
    assert graph.query(COUNT).rows == [{"people": 100}]
