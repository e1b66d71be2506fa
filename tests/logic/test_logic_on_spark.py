"""Logic cases on Spark: the same rows in the same order as in process. A sample in every run, all of them in the soak."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from logic.runner import NOW, LogicFile, files, run_case
from read.graphs import commit, new_graph, replace_some

from omnigraph._internal.deadlines import Deadline
from omnigraph.errors import ArithmeticOverflow, QueryTimeout
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.execution import run_read
from omnigraph.read.result import Result
from omnigraph.snapshot import View

ODD = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.nullInEmptyListBehavior": "true",
}
"""Settings of a user's session that would change what a query means."""
FILES = files()
EVERY = 5
"""One case in so many is run each time."""


@pytest.fixture(scope="module")
def odd(spark: Any) -> Iterator[Any]:
    """The session of a user with odd settings. Queries leave it as it is."""
    session = spark.newSession()
    for name, setting in ODD.items():
        session.conf.set(name, setting)
    yield session
    assert {name: session.conf.get(name) for name in ODD} == ODD


def _check(file: LogicFile, spark: Any, folder: Any, every: int, first: int) -> int:
    repository = new_graph(str(folder / file.path.stem), file.schema)
    half = len(file.records) // 2
    commit(repository, file.records[:half])
    replace_some(repository)
    view = commit(repository, file.records[half:], first_number=half)

    def engine(view: View, plan: ReadPlan, parameters: Mapping[str, object]) -> Result:
        from omnigraph.spark.queries import run_read_on_spark

        return run_read_on_spark(view, plan, parameters, spark, now=NOW)

    chosen = [one for place, one in enumerate(file.cases) if place % every == first or "{8,9}" in one.query]
    for case in chosen:
        assert run_case(view, case, engine) == case.rows, case.name
    return len(chosen)


@pytest.mark.spark
@pytest.mark.parametrize(("number", "file"), list(enumerate(FILES)), ids=[file.path.stem for file in FILES])
def test_a_sample_of_cases(number: int, file: LogicFile, odd: Any, tmp_path: Any) -> None:
    assert _check(file, odd, tmp_path, EVERY, number % min(EVERY, len(file.cases))) > 0


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=[file.path.stem for file in FILES])
def test_every_case(file: LogicFile, odd: Any, tmp_path: Any) -> None:
    assert _check(file, odd, tmp_path, 1, 0) == len(file.cases)


@pytest.mark.spark
def test_whole_numbers_are_exact_or_refused_as_in_process(odd: Any, tmp_path: Any) -> None:
    schema = "node A { name: String @key  i32: I32  i64: I64  u64: U64 }"
    numbers = [(2**31 - 1, 2**62, 2**63), (2**31 - 1, 2**62 - 1, 2**63 - 1)]
    records = [
        {"type": "A", "data": {"name": f"a{place}", "i32": i32, "i64": i64, "u64": u64}}
        for place, (i32, i64, u64) in enumerate(numbers)
    ]
    view = commit(new_graph(str(tmp_path / "g"), schema), records)
    from omnigraph.spark.queries import run_read_on_spark

    def on_both(text: str) -> tuple[pa.Table, pa.Table]:
        plan = compile_query(f"query q() {{ {text} }}", view.catalog)
        assert isinstance(plan, ReadPlan)
        return run_read(view, plan, {}).to_arrow(), run_read_on_spark(view, plan, {}, odd).to_arrow()

    sums = "sum($a.i32) as i32, sum($a.i64) as i64, sum($a.u64) as u64"
    here, there = on_both(f"match {{ $a: A }} return {{ {sums} }}")
    assert here == there
    assert here.to_pylist() == [{"i32": 2**32 - 2, "i64": 2**63 - 1, "u64": 2**64 - 1}]
    for text in OVERFLOWS:
        plan = compile_query(f"query q() {{ {text} }}", view.catalog)
        assert isinstance(plan, ReadPlan)
        for run in (lambda plan: run_read(view, plan, {}), lambda plan: run_read_on_spark(view, plan, {}, odd)):
            with pytest.raises(ArithmeticOverflow):
                run(plan)
    assert odd.conf.get("spark.sql.constraintPropagation.enabled") == "true"


FRAMES = (
    "match { $a: A  $a knows $b } return { $a.name as name, $b.n as n, $b.n + 1 as more } order { n desc, name } limit 7",
    "match { $a: A } return { $a.n as n, count($a) as many, collect($a.name) as names, avg($a.n) as mean } order { n }",
    "match { $a: A  $a knows{1,3} $b } return { count($b) as n }",
    "match { $a: A } with { $a, $a.n as n } order { n, $a.name } limit 9 match { $a knows $b } return { n, $b.name as to }",
    "match { $a: A } return { $a.name as v } union match { $a: A  $a knows $b } return { $b.name as v } order { v desc }",
    "match { $a: A } return { $a, $a.at as at } order { $a.name }",
)


@pytest.mark.spark
def test_a_query_is_a_frame_with_the_same_rows_and_collects_nothing(odd: Any, tmp_path: Any) -> None:
    from omnigraph.spark.queries import read_frame

    nodes = [
        {"type": "A", "data": {"name": f"a{place}", "n": place % 4, "at": f"2026-01-{place + 1:02}T00:00:00Z"}}
        for place in range(20)
    ]
    edges = [{"edge": "Knows", "from": f"a{place}", "to": f"a{place * 7 % 20}"} for place in range(20)]
    schema = "node A { name: String @key  n: I64  at: DateTime }\nedge Knows: A -> A"
    view = commit(new_graph(str(tmp_path / "g"), schema), [*nodes, *edges])
    for text in FRAMES:
        plan = compile_query(f"query q() {{ {text} }}", view.catalog)
        assert isinstance(plan, ReadPlan)
        frame = read_frame(view, plan, {}, odd)
        expected = run_read(view, plan, {}).rows
        rows = [
            {name: value["id"] if isinstance(value, dict) else value for name, value in row.items()} for row in expected
        ]
        collected = frame.toArrow().to_pylist()
        assert collected == rows, text
    store = odd.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None).length()
    plan = compile_query("query q() { match { $a: A  $a knows $b } return { $a.name as v, $b.n as n } }", view.catalog)
    assert isinstance(plan, ReadPlan)
    frame = read_frame(view, plan, {}, odd)
    assert store.jobsList(None).length() == jobs
    mine = odd.createDataFrame([("a1", "mine")], "v string, whose string")
    assert [row.whose for row in frame.join(mine, "v").collect()] == ["mine"]


@pytest.mark.spark
def test_a_read_whose_time_is_over_is_cancelled_and_the_session_goes_on(spark: Any, tmp_path: Any) -> None:
    from omnigraph.spark.queries import run_read_on_spark

    people = [{"type": "P", "data": {"name": f"p{n}", "age": n}} for n in range(300)]
    view = commit(new_graph(str(tmp_path / "g"), "node P { name: String @key  age: I64 }"), people)
    long = "$a: P $b: P $c: P $d: P $a.age + $b.age + $c.age + $d.age = -1"
    plans = [
        compile_query(f"query q() {{ match {{ {pattern} }} return {{ count($a) as n }} }}", view.catalog)
        for pattern in (long, "$a: P")
    ]
    assert all(isinstance(plan, ReadPlan) for plan in plans)
    own_group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    with pytest.raises(QueryTimeout):
        run_read_on_spark(view, plans[0], {}, spark, deadline=Deadline(3.0))  # type: ignore[arg-type]  # reads
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == own_group
    assert run_read_on_spark(view, plans[1], {}, spark).rows == [{"n": 300}]  # type: ignore[arg-type]  # a read


OVERFLOWS = [
    "match { $a: A } return { $a.i64 * 4 as x }",
    "match { $a: A } return { $a.u64 - 1 as x }",
    "match { $a: A $b: A } return { sum($a.i64) as s }",
    "match { $a: A $b: A } return { $a.i32 as i, sum($a.u64) as s }",
]


JVM_FULL = """
import sys
from read.graphs import commit, new_graph, query
from omnigraph.errors import PipelineFailed
from omnigraph.language.query.mutations import compile_query
from omnigraph.spark.queries import run_read_on_spark
from omnigraph.spark.sessions import spark_session
view = commit(new_graph(sys.argv[1], "node A { name: String @key }"), [{"type": "A", "data": {"name": "a"}}])
spark = spark_session(memory="512m")
plan = compile_query("query q() { match { $a: A } return { $a.name as n } }", view.catalog)
assert run_read_on_spark(view, plan, {}, spark).rows == [{"n": "a"}]
try:
    spark._jvm.java.util.ArrayList(2_000_000_000)
except Exception:
    pass
try:
    run_read_on_spark(view, plan, {}, spark)
except PipelineFailed as error:
    print("said:", error.message)
"""


@pytest.mark.soak
@pytest.mark.spark
def test_a_jvm_without_memory_ends_instead_of_leaving_us_waiting(tmp_path: Any) -> None:
    tests = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    run = [sys.executable, "-c", JVM_FULL, str(tmp_path / "g")]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "said: the work on Spark stopped" in done.stdout, done.stderr[-2000:]
