"""What comes back to the driver, and what one task holds: every place in the sources where rows or results are gathered, with its
bound. A new place fails here until it is in one of the tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import omnigraph

ROOT = Path(omnigraph.__file__).parent
GATHERING = {"collect", "toArrow", "toLocalIterator", "toPandas", "map_frame", "exchange", "exchange_in_order"}

NOT_ROWS = {
    "spark/runner.py freeze_loaded_modules": "Python's garbage collector",
    "spark/start_training.py use": "two rows, to warm a session up",
    "spark/runner.py SparkRunner.map": "hands on what its callers below bound",
    "spark/runner.py SparkRunner.exchange": "the same",
    "spark/runner.py SparkRunner.exchange_in_order": "the same, one bucket at a time",
    "spark/runner.py SparkRunner.map_frame": "the same",
    "spark/runner.py _collected": "the same",
    "tasks/runner.py LocalRunner.exchange": "the same, in process: pieces are in files",
    "tasks/runner.py OnSpark.map": "the same",
    "tasks/runner.py OnSpark.exchange_in_order": "the same",
    "tasks/runner.py InProcess.exchange_in_order": "the same: pieces are in files",
    "storage/objects.py _start_client": "the objects of an empty store in memory",
    "tables/adjacency/edges.py stored_ends": "threads of one process: 2,200,000 edges",
}
BOUNDED = {
    "changes/table_diff.py in_buckets": "one id in 1,024 of the rows that differ; then a bucket of them at a time",
    "changes/table_diff.py differing": "addresses of a chunk of rows",
    "maintenance/cleanup.py Cleaner._listed": "the objects of a graph: about 150 bytes each",
    "maintenance/cleanup.py Cleaner._delete": "a count for each batch of objects",
    "maintenance/optimize.py _do": "file names of a group of fragments",
    "maintenance/optimize.py _built": "the description of an index segment; a task sorts 16,000,000 values",
    "maintenance/replication.py copy_all": "a count for each batch of objects",
    "algorithms/components.py _Stars.run": "counts; labels are in files",
    "algorithms/numbering.py number": "a sample of ids, then counts; numbers are in files",
    "algorithms/on_tasks.py _pagerank": "sums; ranks are in files",
    "algorithms/on_tasks.py _distances": "counts; distances are in files",
    "algorithms/parts.py write_values": "file names",
    "algorithms/parts.py write_labels": "file names",
    "algorithms/parts.py Parts._link": "counts; edges are in files",
    "algorithms/parts.py Parts.to_owners": "counts; values are in files",
    "algorithms/parts.py Parts.start": "sums; values are in files",
    "algorithms/parts.py Parts.step": "sums; values are in files",
    "algorithms/on_tasks.py stored_numbers": "file names",
    "algorithms/components.py count_triangles": "a count for each bucket",
    "export/ranges.py PartFiles.write": "a count for each file; a task holds the bytes of one file",
    "load/assembly.py LoadStaging._index_all": "the description of an index segment; a task sorts 16,000,000 values",
    "load/checks.py _in_buckets": "violations, 100 for each bucket; a task holds 12,000,000 rows of the columns checked",
    "load/checks.py run_checks": "violations, 100 for each check; 65,536 pairs of replaced rows of each task, more are in files",
    "load/assembly.py LoadStaging._remove": "the name of a deletion file for each fragment",
    "load/job.py LoadJob._read": "file names and counts, 100 rejected records of each split",
    "load/job.py LoadJob._read_frame": "file names and counts, 100 rejected rows of each partition",
    "load/locate.py locations": "the places of the records that broke a rule, which are 100 for each check",
    "load/written.py merge_small_fragments": "file names",
    "load/record_starts.py with_record_starts": "an offset for each piece of a file",
    "load/record_starts.py _starts": "one offset",
    "maintenance/repair/commits.py renumbered": "file names; ids that are there twice",
    "maintenance/verify/files.py verify_files": "findings, and counts for each version",
    "maintenance/verify/files.py _check_contents": "findings",
    "maintenance/verify/job.py Verification._take_chain": "the entries of a range of commits",
    "maintenance/verify/job.py Verification._check": "findings",
    "maintenance/verify/rows.py _read_all": "findings",
    "maintenance/verify/rows.py _check_indexes": "findings",
    "indexing/adjacency.py _run_tasks": "a file name; a task holds 12,000,000 edges, or the ids of one type",
}
SETS_OF_ROWS = {
    "load/replaced_rows.py find_replaced": "rows that are replaced, and those of them that keep their values",
    "load/checks.py with_edges": "edges of deleted nodes",
    "merge/type_merge.py _decided": "the decisions of a merge",
}
"""Sets of addresses: four bytes for each row in them, and at most a bit for each row of the table."""
ROW_SIZED = {
    "changes/table_diff.py unshared_rows": "the ids of rows in fragments that two versions do not share",
    "export/ranges.py SparkEncoder._encoded": "every byte of an export into one file, a range at a time; into a folder, tasks write the files",
    "load/inputs.py Frame.to_arrow": "all rows of a Spark DataFrame that is loaded in process (engine local)",
    "load/missing.py without_missing": "the edges that name missing nodes, if they are set aside in a file",
    "spark/queries.py _run": "the result of a query, unless it is asked for as a DataFrame",
}
"""What still grows with the rows. Nothing may be added here."""


def gathering_places() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ".map(" in text or any(name in text for name in GATHERING):
            yield from _places(path.relative_to(ROOT).as_posix(), ast.parse(text), ())


def _places(module: str, node: ast.AST, scope: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = (*scope, node.name)
    named = isinstance(node, ast.Attribute) and node.attr in GATHERING
    # `runner.map(stage, function, tasks)`.
    is_map = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "map"
    if named or (is_map and isinstance(node, ast.Call) and len(node.args) == 3):
        yield f"{module} {'.'.join(scope)}"
    for child in ast.iter_child_nodes(node):
        yield from _places(module, child, scope)


def test_every_place_that_gathers_results_has_a_bound() -> None:
    assert set(gathering_places()) == {*NOT_ROWS, *BOUNDED, *SETS_OF_ROWS, *ROW_SIZED}


def test_no_place_is_listed_twice() -> None:
    tables = (NOT_ROWS, BOUNDED, SETS_OF_ROWS, ROW_SIZED)
    assert len(set().union(*tables)) == sum(map(len, tables))
