"""Finding a record again by what a rule said of it: only when a load is refused, so the sources are simply read again.

Fresh ids depend on the source and the line alone, so a second reading gives every record the id it had.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.pipeline.load.inputs import Split
from omnigraph.pipeline.load.reading import SplitReader
from omnigraph.pipeline.load.refusals import Finding
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import Target
from omnigraph.records.typed import NamedRows, RecordForm
from omnigraph.rules.check import Record


@dataclass(frozen=True)
class LocateTask:
    """Records to find in some splits."""

    target: Target
    splits: tuple[Split, ...]
    wanted: frozenset[Record]
    form: RecordForm


Locations = dict[Record, tuple[int, int]]
"""Record -> split and line. Of several records the last one: it is the one too many."""


def locate_in_bundle(task: LocateTask) -> Locations:
    import pyarrow as pa
    import pyarrow.compute as pc

    values: dict[tuple[str, str], list[str]] = {}
    for key, column, value in task.wanted:
        values.setdefault((key, column), []).append(value)
    places: Locations = {}
    for split in task.splits:
        for typed in SplitReader(task.target, split, task.form).read():
            for (key, column), wanted in values.items():
                if key != typed.key or (isinstance(typed, NamedRows) and column != "id"):
                    continue
                held = typed.ids if isinstance(typed, NamedRows) else typed.rows.column(column).combine_chunks()
                mask = pc.is_in(held, value_set=pa.array(wanted, pa.string()))
                hits = zip(held.filter(mask).to_pylist(), typed.lines.filter(mask).to_pylist(), strict=True)
                for value, line in hits:
                    place = (split.index, line)
                    places[key, column, value] = max(places.get((key, column, value), place), place)
    return places


def locate(
    findings: list[Finding], target: Target, bundles: list[tuple[Split, ...]], runner: Runner, form: RecordForm
) -> list[tuple[int, int] | None]:
    """Split and line of each finding's record; None when the input has none that is to blame."""
    records = [finding.check.records(finding.violation) for finding in findings]
    wanted = frozenset(record for candidates in records for record in candidates)
    if not wanted:
        return [None] * len(findings)
    places: Locations = {}
    for in_bundle in runner.map(
        "find the records", locate_in_bundle, [LocateTask(target, each, wanted, form) for each in bundles]
    ):
        for record, place in in_bundle.items():
            places[record] = max(places.get(record, place), place)
    return [next((places[record] for record in candidates if record in places), None) for candidates in records]
