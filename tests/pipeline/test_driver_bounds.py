"""What comes back to the driver, and what one task holds: every place in the sources where rows or results are gathered, and every function
that tasks run, each with its bound. A new one fails here until it is in one of the tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import omnigraph

ROOT = Path(omnigraph.__file__).parent
GATHERING = {
    "collect",
    "toArrow",
    "toLocalIterator",
    "toPandas",
    "map_frame",
    "exchange",
    "exchange_in_order",
    "run_checks",
}
TASKS_OF = {"map": (1,), "map_frame": (1,), "Exchange": (1, 4), "mapInArrow": (0,)}
"""Which arguments of what is called are functions that tasks run."""

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
    "evolve/apply.py Validation._broken": "violations, as load/checks.py bounds them",
    "load/assembly.py LoadStaging._count_duplicates": "the same",
    "load/assembly.py LoadStaging._run": "the same",
    "maintenance/verify/rows.py _check_rules": "the same",
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
    "load/missing.py find_missing": "the ids that edges name and no node has (missing skip and stub)",
    "spark/queries.py _run": "the result of a query, unless it is asked for as a DataFrame",
}
"""What still grows with the rows. Nothing may be added here."""


NO_TASKS = {
    "spark/runner.py SparkRunner._joined _cutting": "a task's own function, which is below",
    "spark/runner.py SparkRunner._joined _joining": "the same",
    "spark/runner.py SparkRunner.map _mapped": "the same",
    "spark/runner.py SparkRunner.map_frame _over_batches": "the same",
    "spark/start_training.py use abs": "the same",
    "tables/adjacency/edges.py stored_ends lambda": "2,200,000 edges in threads of a task",
    "tasks/runner.py InProcess.exchange_in_order lambda": "the same",
    "tasks/runner.py LocalRunner.exchange lambda": "the same",
    "tasks/runner.py OnSpark.map function": "the same",
    "load/job.py LoadJob._read_frame lambda": "the frame of a load in this process",
}
ROWS = "1,048,576 rows of some columns, or 384 MiB of whole ones"
PART = "a part of 4,000,000 edges or 2,000,000 nodes"
PIECES = "a range or a bucket of about as many keys"
BOUNDED_TASKS = {
    "algorithms/components.py _Stars.run cut": PART,
    "algorithms/components.py _Stars.run join": PART,
    "algorithms/components.py count_triangles cut": "2,000,000 pairs of neighbours at once",
    "algorithms/components.py count_triangles join": "the same",
    "algorithms/numbering.py number _cut_far": PART,
    "algorithms/numbering.py number _cut_ids": ROWS,
    "algorithms/numbering.py number _cut_near": ROWS,
    "algorithms/numbering.py number _join_far": PART,
    "algorithms/numbering.py number _join_near": PART,
    "algorithms/numbering.py number _sample": ROWS,
    "algorithms/numbering.py number _sorted": PIECES,
    "algorithms/on_tasks.py _distances put": PART,
    "algorithms/on_tasks.py _pagerank put": PART,
    "algorithms/parts.py Parts._link cut": PART,
    "algorithms/parts.py Parts._link join": PART,
    "algorithms/parts.py Parts.start put": PART,
    "algorithms/parts.py Parts.step cut": PART,
    "algorithms/parts.py Parts.step join": PART,
    "algorithms/parts.py Parts.to_owners cut": PART,
    "algorithms/parts.py Parts.to_owners join": PART,
    "algorithms/parts.py write_labels answer": PART,
    "algorithms/parts.py write_labels ask": PART,
    "algorithms/parts.py write_labels take": PART,
    "algorithms/parts.py write_labels tell": PART,
    "algorithms/parts.py write_values put": PART,
    "algorithms/result.py RowFiles.frame read": "a batch of a file",
    "changes/table_diff.py differing _differing": "64 MiB of rows of each side",
    "changes/table_diff.py in_buckets cut_ids": ROWS,
    "changes/table_diff.py in_buckets join": "262,144 ids of each side, if no id is there more than once",
    "changes/table_diff.py in_buckets sample_ids": ROWS,
    "changes/table_diff.py unshared_rows unshared_ids": ROWS,
    "export/ranges.py PartFiles.write write_part": "the rows of one file",
    "export/ranges.py SparkEncoder._encoded encode_range": ROWS,
    "load/assembly.py LoadStaging._index_all build_segment": "16,000,000 values; Lance spills what it sorts",
    "load/assembly.py LoadStaging._remove remove_rows": "the deleted rows of one fragment",
    "load/checks.py _in_buckets _BucketChecks": "12,000,000 values, also where a node has a tenth of all edges",
    "load/checks.py _in_buckets cut": ROWS,
    "load/checks.py run_checks run_check": "12,000,000 values",
    "load/checks.py with_edges edges_at": "the ids of 4,194,304 nodes, and those of 16,777,216 edges that are found",
    "load/job.py LoadJob._read read_bundle": ROWS,
    "load/job.py LoadJob._read_frame task": "rows of a partition, written as soon as they are 1,048,576 or 384 MiB",
    "load/locate.py locations locate_in_bundle": ROWS,
    "load/missing.py without_missing skip_edges": ROWS,
    "load/record_starts.py _starts scan_piece": "a block of a file",
    "load/record_starts.py with_record_starts scan_piece": "the same",
    "load/replaced_rows.py find_replaced compare": "1,048,576 rows or 256 MiB of each side",
    "load/written.py merge_small_fragments pack_fragments": ROWS,
    "maintenance/cleanup.py Cleaner._delete delete_batch": "1,000 objects",
    "maintenance/optimize.py _built _build_segment": "16,000,000 values; Lance spills what it sorts",
    "maintenance/optimize.py _do _write_group": ROWS,
    "maintenance/repair/commits.py renumbered _later_rows": PIECES,
    "maintenance/repair/commits.py renumbered cut": ROWS,
    "maintenance/repair/commits.py renumbered renumber": "one fragment",
    "maintenance/replication.py copy_all copy_objects": "64 objects or 256 MiB, in blocks",
    "maintenance/verify/files.py _check_contents check_contents": "512 files, in blocks",
    "maintenance/verify/files.py verify_files read_versions": "128 versions of a table",
    "maintenance/verify/job.py Verification._check check_objects": "256 objects",
    "maintenance/verify/job.py Verification._take_chain read_range": "256 entries of a branch",
    "maintenance/verify/rows.py _check_indexes check_index": "a sample of values",
    "maintenance/verify/rows.py _read_all read_rows": "1,048,576 rows, in batches",
    "merge/type_merge.py _decided decide": "64 MiB of rows of each branch",
    "spark/diff_frames.py _ids _reading_ids": ROWS,
    "spark/diff_frames.py diff_frame _with_content": "a batch of Spark's",
    "spark/diff_frames.py type_diff_frame _with_content": "the same",
    "spark/frames.py table_frame read": "1,048,576 rows, in batches of 65,536",
}
GROWING_TASKS = {
    "algorithms/on_tasks.py stored_numbers _write_edges": "the numbers of stored adjacency: as indexing/adjacency.py",
    "algorithms/on_tasks.py stored_numbers _write_ids": "the same",
    "indexing/adjacency.py _run_tasks write": "12,000,000 edges and the ids of their node types; or all ids of one node type",
    "maintenance/cleanup.py Cleaner._listed list_folder": "about 150 bytes for each object of one type",
}
"""What a single task holds that still grows with the graph. Nothing may be added here."""


def places(node: ast.AST, scope: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.AST]]:
    """Every node below one, with the class and the function that it is in."""
    for child in ast.iter_child_nodes(node):
        yield ".".join(scope), child
        yield from places(child, (*scope, child.name) if isinstance(child, ast.FunctionDef | ast.ClassDef) else scope)


def sources() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def is_map(node: ast.AST) -> bool:
    """`runner.map(stage, function, tasks)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "map"
        and len(node.args) == 3
    )


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def gathering_places() -> Iterator[str]:
    for module, tree in sources():
        for scope, node in places(tree):
            is_named = isinstance(node, ast.Attribute) and node.attr in GATHERING
            is_called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run_checks"
            if is_map(node) or is_named or is_called:
                yield f"{module} {scope}"


def task_functions() -> Iterator[str]:
    """What a task does, where it is handed on: the function of a map, what an exchange cuts and joins, what Spark maps over batches."""
    for module, tree in sources():
        for scope, node in places(tree):
            if (
                isinstance(node, ast.Call)
                and (name := name_of(node.func)) in TASKS_OF
                and (name != "map" or is_map(node))
            ):
                for place in TASKS_OF[name]:
                    function = node.args[place]
                    while isinstance(function, ast.Call):  # partial(function, …), or what makes one
                        function = function.args[0] if name_of(function.func) == "partial" else function.func
                    yield f"{module} {scope} {name_of(function) or 'lambda'}"


def test_every_place_that_gathers_results_has_a_bound() -> None:
    assert set(gathering_places()) == {*NOT_ROWS, *BOUNDED, *SETS_OF_ROWS, *ROW_SIZED}


def test_no_place_is_listed_twice() -> None:
    for tables in ((NOT_ROWS, BOUNDED, SETS_OF_ROWS, ROW_SIZED), (NO_TASKS, BOUNDED_TASKS, GROWING_TASKS)):
        assert len(set().union(*tables)) == sum(map(len, tables))


def test_every_task_has_a_bound() -> None:
    assert set(task_functions()) == {*NO_TASKS, *BOUNDED_TASKS, *GROWING_TASKS}
