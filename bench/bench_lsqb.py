"""The nine questions of LSQB, the Labelled Subgraph Query Benchmark of LDBC, beside DuckDB on native tables.

    python bench/bench_lsqb.py CSV_FOLDER [--catalog]
    python bench/bench_lsqb.py --social FOLDER --graph PATH

The first form reads the benchmark's own files (projected foreign keys); the counts of `sfexample` and `sf0.003` are checked. The second
asks the same of a network of `bench_social.py`. Milliseconds of the processor, warm, and of the clock in parentheses. With --catalog
the questions are asked in Spark SQL instead, over the catalog of graphs (over Spark Connect if SPARK_REMOTE says so): at the head, and,
after `DELETE FROM Likes` and an UPDATE of every message, by VERSION AS OF a tag.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from bench_social import measured, shown

import omnigraph as og

NODES = ["City", "Country", "Forum", "Message", "Person", "Tag", "TagClass"]
EDGES = {
    "CityOf": ("City", "Country", ["City_isPartOf_Country"]),
    "LivesIn": ("Person", "City", ["Person_isLocatedIn_City"]),
    "HasMember": ("Forum", "Person", ["Forum_hasMember_Person"]),
    "ContainerOf": ("Forum", "Message", ["Forum_containerOf_Post"]),
    "ReplyOf": ("Message", "Message", ["Comment_replyOf_Post", "Comment_replyOf_Comment"]),
    "MessageTag": ("Message", "Tag", ["Post_hasTag_Tag", "Comment_hasTag_Tag"]),
    "HasType": ("Tag", "TagClass", ["Tag_hasType_TagClass"]),
    "HasCreator": ("Message", "Person", ["Post_hasCreator_Person", "Comment_hasCreator_Person"]),
    "Likes": ("Person", "Message", ["Person_likes_Post", "Person_likes_Comment"]),
    "HasInterest": ("Person", "Tag", ["Person_hasInterest_Tag"]),
    "Knows": ("Person", "Person", ["Person_knows_Person"]),
}
PUBLISHED = {
    "sfexample": [8, 3, 6, 8, 3, 8, 11, 2, 4],
    "sf0.003": [20608, 281, 0, 3047, 4973, 33201, 7188, 2436, 23669],
}
REPLY = "$m messageTag $t  $c replyOf $m  $c messageTag $u  $t != $u"
FRIENDS = "$a <knows> $b  $b <knows> $c  $c hasInterest $t  $a != $c"
QUESTIONS = [
    "$x cityOf $n  $p livesIn $x  $f hasMember $p  $f containerOf $m  $c replyOf $m  $c messageTag $t  $t hasType $k",
    '$a <knows> $b  $c hasCreator $a  $c replyOf $m  $m hasCreator $b  $m.kind = "post"',
    "$a <knows> $b  $b <knows> $c  $a <knows> $c  $a livesIn $x  $b livesIn $y  $c livesIn $z  $x cityOf $n  $y cityOf $n  $z cityOf $n",
    "$m messageTag $t  $m hasCreator $a  $l likes $m  $c replyOf $m",
    REPLY,
    FRIENDS,
    "$m messageTag $t  $m hasCreator $a  optional { $l likes $m }  optional { $c replyOf $m }",
    f"{REPLY}  not {{ $c messageTag $t }}",
    f"{FRIENDS}  not {{ $a <knows> $c }}",
]
COUNTED = ["k", "m", "n", "m", "m", "t", "m", "m", "t"]
REPLY_SQL = "MessageTag t join ReplyOf r on r.d = t.s join MessageTag u on u.s = r.s where u.d <> t.d"
FRIENDS_SQL = "k a join k b on b.s = a.d join HasInterest i on i.s = b.d where a.s <> b.d"
SQL = [
    "CityOf c join LivesIn l on l.d = c.s join HasMember m on m.d = l.s join ContainerOf o on o.s = m.s join ReplyOf r on r.d = o.d "
    "join MessageTag t on t.s = r.s join HasType h on h.s = t.d",
    "k join HasCreator c on c.d = k.s join ReplyOf r on r.s = c.s join HasCreator p on p.s = r.d and p.d = k.d join Message m "
    "on m.id = r.d where m.kind = 'post'",
    "k a join k b on b.s = a.d join k c on c.s = a.s and c.d = b.d join home x on x.s = a.s join home y on y.s = a.d and y.n = x.n "
    "join home z on z.s = b.d and z.n = x.n",
    "MessageTag t join HasCreator c on c.s = t.s join Likes l on l.d = t.s join ReplyOf r on r.d = t.s",
    REPLY_SQL,
    FRIENDS_SQL,
    "MessageTag t join HasCreator c on c.s = t.s left join Likes l on l.d = t.s left join ReplyOf r on r.d = t.s",
    f"{REPLY_SQL} and not exists (select 1 from MessageTag x where x.s = r.s and x.d = t.d)",
    f"{FRIENDS_SQL} and not exists (select 1 from k x where x.s = a.s and x.d = b.d)",
]


def lsqb_tables(folder: Path) -> dict[str, pa.Table]:
    """The benchmark's files as tables `id`, `kind` and `s`, `d`."""

    def columns(name: str, *names: str) -> pa.Table:
        options = pc.ReadOptions(column_names=list(names), skip_rows=1)
        return pc.read_csv(folder / f"{name}.csv", options, pc.ParseOptions(delimiter="|"))

    tables = {name: columns(name, "id") for name in NODES if name != "Message"}
    kinds = [columns(name, "id").append_column("kind", pa.repeat(name.lower(), rows)) for name, rows in (
        (name, columns(name, "id").num_rows) for name in ("Post", "Comment"))]  # fmt: skip
    tables["Message"] = pa.concat_tables(kinds)
    for name, (_, _, files) in EDGES.items():
        tables[name] = pa.concat_tables([columns(file, "s", "d") for file in files])
    return tables


def lsqb_graph(place: str, tables: dict[str, pa.Table]) -> og.Graph:
    kind = "  kind: enum(post, comment)"
    nodes = [f"node {name} {{ key: I64 @key{kind if name == 'Message' else ''} }}" for name in NODES]
    edges = [f"edge {name}: {near} -> {far}" for name, (near, far, _) in EDGES.items()]
    graph = og.init(place, schema="\n".join(nodes + edges))
    folder = Path(tempfile.mkdtemp())
    names = {"id": "key", "s": "from", "d": "to"}
    for name, table in tables.items():
        ends = [
            c.cast(pa.string()) if n in ("s", "d") else c
            for n, c in zip(table.column_names, table.columns, strict=True)
        ]
        pq.write_table(pa.table(ends, [names.get(n, n) for n in table.column_names]), folder / f"{name}.parquet")
    graph.load(str(folder), mode="append", engine="local")
    return graph


VIEWS = {
    "k": "select s, d from Knows union select d, s from Knows",
    "home": "select l.s, c.d n from LivesIn l join CityOf c on c.s = l.d",
}


def counts_in_spark(spark: Any, graph: str, version: str = "") -> list[int]:
    """The answers in Spark SQL, of a graph in a catalog (`og.people`). `version`: such as "VERSION AS OF 'v1'"."""
    views = {name: f"select src s, dst d from {graph}.{name} {version}" for name in EDGES}
    views["Message"] = f"select id, kind from {graph}.Message {version}"
    for name, text in (views | VIEWS).items():
        spark.sql(f"create or replace temp view {name} as {text}")
    return [spark.sql(f"select count(*) from {text}").collect()[0][0] for text in SQL]


def ask_catalog(folder: Path) -> None:
    from omnigraph.spark.sessions import spark_session

    root, published = Path(tempfile.mkdtemp()), PUBLISHED[folder.name]
    graph = lsqb_graph(str(root / "lsqb"), lsqb_tables(folder))
    graph.tags.create("v1")
    spark = spark_session()
    og.spark.catalog(spark, str(root))
    print(type(spark).__module__)
    found = {"head": counts_in_spark(spark, "og.lsqb")}
    spark.sql("DELETE FROM og.lsqb.Likes")
    spark.sql("UPDATE og.lsqb.Message SET kind = 'comment'")
    found |= {"as of v1": counts_in_spark(spark, "og.lsqb", "VERSION AS OF 'v1'")}
    for place, counts in found.items():
        print(f"{place:10}", counts, "equal" if counts == published else f"NOT EQUAL to {published}")
    print(f"{'head after':10}", counts_in_spark(spark, "og.lsqb"))
    spark.stop()
    if any(counts != published for counts in found.values()):
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--social", type=Path)
    parser.add_argument("--graph")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", type=int, action="append")
    parser.add_argument("--catalog", action="store_true")
    options = parser.parse_args()
    if options.catalog:
        ask_catalog(options.folder)
        return
    engine = duckdb.connect(config={"threads": 2})
    if options.social is not None:
        graph = og.open(options.graph)
        for name in EDGES:
            engine.execute(
                f'create table {name} as select "from"::bigint s, "to"::bigint d from \'{options.social}/{name}.parquet\''
            )
        engine.execute(f"create table Message as select messageId id, kind from '{options.social}/Message.parquet'")
    else:
        tables = lsqb_tables(options.folder)
        graph = lsqb_graph(f"{tempfile.mkdtemp()}/graph", tables)
        for name, table in tables.items():
            engine.register("arrow", table)
            engine.execute(f"create table {name} as from arrow")
            engine.unregister("arrow")
    for name, query in VIEWS.items():
        engine.execute(f"create table {name} as {query}")
    published = PUBLISHED.get(options.folder.name) if options.folder else None
    print(f"{'':12}{'count':>14}{'ours':>20}{'DuckDB':>20}  ratio")
    ratios = []
    for number, (pattern, counted, sql) in enumerate(zip(QUESTIONS, COUNTED, SQL, strict=True), 1):
        if options.only and number not in options.only:
            continue
        text = f"query q() {{ match {{ {pattern} }} return {{ count(${counted}) as n }} }}"
        ask = partial(graph.query, text)
        peer = partial(lambda sql: engine.execute(f"select count(*) from {sql}").fetchall(), sql)
        count, expected = ask().rows[0]["n"], peer()[0][0]
        if count != expected or (published and count != published[number - 1]):
            raise SystemExit(f"question {number}: {count}, DuckDB {expected}, published {published}")
        own, theirs = ([measured(run) for _ in range(options.repeat)] for run in (ask, peer))
        ratio = statistics.median(c for c, _ in own) / statistics.median(c for c, _ in theirs)
        ratios.append(ratio)
        print(f"question {number:3}{count:14,}{shown(own)}{shown(theirs)}{ratio:8.2f}", flush=True)
    print(f"median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
