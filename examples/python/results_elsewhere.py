"""One result in other tools: Arrow, DuckDB, Polars, pandas and NetworkX.

python examples/python/results_elsewhere.py FOLDER        # needs omnigraph[pandas,polars,networkx]
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import networkx
import polars
import pyarrow as pa

import omnigraph as og

SCHEMA = "node City { name: String @key  people: I64 }  edge Road: City -> City { km: F64 }"
CITIES = {"Aachen": 260_000, "Bonn": 330_000, "Cologne": 1_090_000}
ROADS = [("Aachen", "Cologne", 70.0), ("Cologne", "Bonn", 30.0), ("Aachen", "Bonn", 91.0)]


def main(folder: Path) -> None:
    graph = og.init(folder / "cities", SCHEMA)
    with graph.transaction() as tx:
        tx.insert_many("City", [{"name": name, "people": people} for name, people in CITIES.items()])
        tx.insert_many("Road", [{"from": start, "to": end, "km": km} for start, end, km in ROADS])
    cities = graph.query("query q() { match { $c: City } return { $c.name as name, $c.people as people } }")
    table: pa.Table = pa.table(cities)
    frame: polars.DataFrame = cities.to_polars()
    print(table.num_rows, frame["people"].sum(), cities.to_pandas()["people"].max())
    print(duckdb.sql("select name from cities order by people desc limit 1").fetchall())

    roads = graph.query("query q() { match { $a: City  $a $r:road $b } return { $a, $b, $r.km as km } }").to_networkx()
    print(networkx.shortest_path_length(roads, ("City", "Aachen"), ("City", "Bonn"), weight="km"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
