"""A count reads no vectors: 200,000 rows of Vector(3072) are counted in little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from read.graphs import new_graph

from omnigraph.history.chain import MAIN
from omnigraph.history.history import new_ulid
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import TableState
from omnigraph.write.publishing import publish

ROWS, WIDTH, CHUNK = 200_000, 3_072, 5_000
SCHEMA = f"node Doc {{ slug: String @key  year: I32  vec: Vector({WIDTH}) }}"

COUNT = """
import re, sys
def peak_mb():  # not getrusage: its peak is carried over from the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
sys.path.insert(0, sys.argv[2])
from read.graphs import query
from omnigraph.snapshot import Repository
import duckdb, lance, numpy, pandas
view = Repository.open(sys.argv[1]).head()[1]
view.table("node:Doc")
duckdb.sql("select 1").fetchall()
idle = peak_mb()
rows = query(view, "query q() {{ match {{ $d: Doc $d.year >= 0 }} return {{ count($d) as n, avg($d.year) as y }} }}").rows
assert rows[0]["n"] == {rows}, rows
print(peak_mb() - idle)
"""


@pytest.mark.soak
def test_a_count_over_wide_vectors_stays_small(tmp_path: Path) -> None:
    repository = new_graph(str(tmp_path / "graph"), SCHEMA)
    entry, view = repository.head()
    schema = view.schema("node:Doc")

    def batches() -> object:
        for start in range(0, ROWS, CHUNK):
            ids = pa.array([f"d{number}" for number in range(start, start + CHUNK)])
            flat = np.zeros(CHUNK * WIDTH, np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=schema.field("vec").type)
            years = pa.array(np.arange(CHUNK, dtype=np.int32))
            yield pa.record_batch([ids, ids, years, vectors], schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    staged = repository.tables.stage(view.table_or_new("node:Doc"), rows=reader)
    state = TableState(staged.path, staged.version, 1, staged.rows)
    publish(
        repository.history,
        PublishPlan(
            commit_id=new_ulid(), branch=MAIN, incarnation=entry.incarnation, base=view.snapshot.commit.ref,
            schema=view.snapshot.schema, changes=(TableChange("node:Doc", "strict", None, state),),
        )
    )  # fmt: skip
    script = COUNT.format(rows=ROWS)
    tests = str(Path(__file__).parents[1])
    answer = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "graph"), tests], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) < 300
    print(f"{answer.stdout.strip()} MB more than idle")
