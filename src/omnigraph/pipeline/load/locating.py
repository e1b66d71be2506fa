"""Finding a record again by what a rule said of it: only when a load is refused, so the sources are simply read again.

Fresh ids depend on the source and the line alone, so a second reading gives every record the id it had.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.pipeline.load.checks import Finding
from omnigraph.pipeline.load.inputs import Split
from omnigraph.pipeline.load.reading import SplitReader
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import Target


@dataclass(frozen=True)
class LocateTask:
    """`wanted`: (table key, column, value) of the records to find."""

    target: Target
    splits: tuple[Split, ...]
    wanted: frozenset[tuple[str, str, str]]


Places = dict[tuple[str, str, str], tuple[int, int]]
"""(table key, column, value) -> split and line. Of several records the last one: it is the one too many."""


def locate_in_bundle(task: LocateTask) -> Places:
    import pyarrow as pa
    import pyarrow.compute as pc

    values: dict[tuple[str, str], list[str]] = {}
    for key, column, value in task.wanted:
        values.setdefault((key, column), []).append(value)
    found: Places = {}
    for split in task.splits:
        for typed in SplitReader(task.target, split).read():
            for (key, column), wanted in values.items():
                if key != typed.key:
                    continue
                held = typed.rows.column(column)
                mask = pc.is_in(held, value_set=pa.array(wanted, pa.string())).combine_chunks()
                hits = zip(held.filter(mask).to_pylist(), typed.lines.filter(mask).to_pylist(), strict=True)
                for value, line in hits:
                    place = (split.index, line)
                    found[key, column, value] = max(found.get((key, column, value), place), place)
    return found


def locate(
    findings: list[Finding], target: Target, bundles: list[tuple[Split, ...]], runner: Runner
) -> list[tuple[int, int] | None]:
    """Split and line of each finding's record."""
    keys = [sought(finding) for finding in findings]
    tasks = [LocateTask(target, bundle, frozenset(keys)) for bundle in bundles]
    places: Places = {}
    for found in runner.map("find the records", locate_in_bundle, tasks):
        for key, place in found.items():
            places[key] = max(places.get(key, place), place)
    return [places.get(key) for key in keys]


def sought(finding: Finding) -> tuple[str, str, str]:
    """A unique value's second holder, a cardinality's source, otherwise the entity itself."""
    violation = finding.violation
    if finding.kind == "cardinality":
        return finding.key, "src", violation["id"]
    other = violation.get("other")
    return finding.key, "id", violation["id"] if other is None else other
