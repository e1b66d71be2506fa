"""Typed rows as fragments of their tables: gathered per table, completed and looked up where records name rows of the branch,
checked against the rules about values, written when there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InputError
from omnigraph.language.catalog import EntityType
from omnigraph.pipeline.load.arranging import ArrangedRows, arranged
from omnigraph.pipeline.load.known_rows import MAX_HELD_RECORDS, complete, find_places
from omnigraph.pipeline.load.written import WrittenFiles
from omnigraph.pipeline.target import TableVersions, Target
from omnigraph.pipeline.task_settings import AS_FOUND_GOOD, TaskSettings
from omnigraph.records.encoding import record_lines
from omnigraph.records.tabular import shown_row
from omnigraph.records.typed import NamedRows, Reject, TypedRows
from omnigraph.rules.values import first_errors
from omnigraph.tables.staging import ROWS_PER_FRAGMENT

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_HELD_BYTES = 384 * 1024 * 1024
"""Typed rows a task holds before it writes some."""


@dataclass
class TypeReport:
    rows: int = 0
    explicit_ids: int = 0
    id_ranges: list[tuple[str, str] | None] = field(default_factory=list)
    """The first and the last of the ids that the load made, for rows that were written together; None if they do not ascend."""
    fragments: list[str] = field(default_factory=list)
    removed: list[np.ndarray[Any, Any]] = field(default_factory=list)
    """Addresses of rows that are to go, in the version that the load stands on."""
    absent: list[str] = field(default_factory=list)
    """Ids that were to go and are not in that version."""

    @property
    def ids_may_clash(self) -> bool:
        """Whether some rows may have equal ids, or ids of rows that were there before. Made ids are new, and those of a source
        ascend: if they do, and no two ranges overlap, then no two are equal."""
        ranges = sorted(ids for ids in self.id_ranges if ids is not None)
        overlap = any(last >= first for (_, last), (first, _) in pairwise(ranges))
        return self.explicit_ids > 0 or None in self.id_ranges or overlap


class FragmentWriter:
    """Gathers typed rows per table, checks their values, writes fragments of a good size."""

    def __init__(
        self,
        target: Target,
        versions: TableVersions,
        written: WrittenFiles | None = None,
        settings: TaskSettings = AS_FOUND_GOOD,
    ) -> None:
        self._max_held_bytes = settings.held_bytes(MAX_HELD_BYTES)
        self.target = target
        self.versions = versions
        self.written = written
        self.types: dict[str, TypeReport] = {}
        self.rejects: dict[int, list[Reject]] = {}
        self._held: dict[str, list[tuple[int, TypedRows]]] = {}
        self._sizes: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._parts: dict[str, list[tuple[int, TypedRows]]] = {}
        self._named: dict[str, list[NamedRows]] = {}

    def add(self, split: int, rows: TypedRows | NamedRows) -> None:
        if self.written is not None:
            self.written.refuse_when_stopped()
        if isinstance(rows, NamedRows):
            named = self._named.setdefault(rows.key, [])
            named.append(rows)
            if sum(len(part.ids) for part in named) >= MAX_HELD_RECORDS:
                self._find(rows.key)
        elif rows.has_value is not None:
            parts = self._parts.setdefault(rows.key, [])
            parts.append((split, rows))
            if sum(part.rows.num_rows for _, part in parts) >= MAX_HELD_RECORDS:
                self._complete(rows.key)
        else:
            embedded = self._embedded(rows)
            self._keep(split, self._within_rules(split, embedded, embedded.rows))

    def _find(self, key: str) -> None:
        """Look up the rows that are to go."""
        import pyarrow as pa

        ids = pa.chunked_array([part.ids for part in self._named.pop(key)], pa.string())
        places = find_places(self.target, self.versions[key], ids)
        report = self.types.setdefault(key, TypeReport())
        report.removed.append(places.addresses[places.known])
        report.absent += ids.filter(pa.array(~places.known)).to_pylist()

    def _complete(self, key: str) -> None:
        """Look up the rows that parts of rows belong to."""
        import pyarrow as pa

        parts = self._parts.pop(key)
        ids = pa.chunked_array([chunk for _, part in parts for chunk in part.rows.column("id").chunks], pa.string())
        places, start = find_places(self.target, self.versions[key], ids), 0
        entity = self.target.catalog.tables[key]
        for split, typed in parts:
            count = typed.rows.num_rows
            whole = complete(self.target, self.versions[key], typed, places.of(start, count))
            self._reject(split, entity, whole.errors, typed.rows, typed.lines)
            self._keep(split, self._within_rules(split, whole.rows, whole.source_rows))
            start += count

    def _keep(self, split: int, kept: TypedRows) -> None:
        if not kept.rows.num_rows:
            return
        key = kept.key
        self._held.setdefault(key, []).append((split, kept))
        self._counts[key] = self._counts.get(key, 0) + kept.rows.num_rows
        self._sizes[key] = self._sizes.get(key, 0) + kept.rows.nbytes
        if self._counts[key] >= ROWS_PER_FRAGMENT:
            self._write(key)
        elif sum(self._sizes.values()) >= self._max_held_bytes:
            self._write(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> None:
        for key in list(self._named):
            self._find(key)
        for key in list(self._parts):
            self._complete(key)
        for key in list(self._held):
            self._write(key)

    def _embedded(self, typed: TypedRows) -> TypedRows:
        entity = self.target.catalog.tables[typed.key]
        return replace(typed, rows=self.target.filling.filled(entity, typed.rows)) if entity.embedded else typed

    def _within_rules(self, split: int, typed: TypedRows, source_rows: pa.Table) -> TypedRows:
        """The rows without those that break a rule about values; these are rejected, as `source_rows` gives them."""
        entity = self.target.catalog.tables[typed.key]
        broken = first_errors(entity, typed.rows)
        if not broken:
            return typed
        import pyarrow as pa

        self._reject(split, entity, broken, source_rows, typed.lines)
        keep = [row not in broken for row in range(typed.rows.num_rows)]
        mask = pa.array(keep, pa.bool_())
        return TypedRows(typed.key, typed.rows.filter(mask), typed.lines.filter(mask), typed.explicit_ids)

    def _reject(
        self,
        split: int,
        entity: EntityType,
        errors: Mapping[int, InputError],
        source_rows: pa.Table,
        lines: pa.Int64Array,
    ) -> None:
        """Refuse the rows at these places, each as the text of a record."""
        import pyarrow as pa

        rows = sorted(errors)
        refused = source_rows.take(pa.array(rows, pa.int64())).combine_chunks()
        texts = [text for batch in refused.to_batches() for text in record_lines(entity, batch).to_pylist()]
        for place, text in enumerate(texts):
            if text is None:  # Part of an edge, without its ends.
                cells = refused.slice(place, 1).to_pylist()[0]
                texts[place] = shown_row({name: cell for name, cell in cells.items() if cell is not None})
        numbers = lines.take(pa.array(rows, pa.int64())).to_pylist()
        self.rejects.setdefault(split, []).extend(
            Reject.of(line, errors[row], text.rstrip("\n"))
            for row, line, text in zip(rows, numbers, texts, strict=True)
        )

    def _write(self, key: str) -> None:
        held = self._held.pop(key)
        self._sizes.pop(key), self._counts.pop(key)
        self._store(key, arranged(self.target.catalog.tables[key], held))

    def _store(self, key: str, held: ArrangedRows) -> None:
        self._report(key, held)
        self._write_fragments(key, held.rows)

    def _report(self, key: str, held: ArrangedRows) -> None:
        report = self.types.setdefault(key, TypeReport())
        report.rows += held.rows.num_rows
        report.explicit_ids += held.explicit_ids
        entity = self.target.catalog.tables[key]
        if not held.explicit_ids and not entity.key:
            report.id_ranges.append(held.id_range())

    def _write_fragments(self, key: str, rows: pa.Table) -> None:
        table = self.target.writable(self.versions[key])
        fragments = self.target.tables.write_fragments(table, rows)
        if self.written is not None:
            self.written.note_fragments(table.path, fragments)
        self.types[key].fragments += fragments


class HeldRows(FragmentWriter):
    """Holds rows instead of writing them, and does not look up those that are to go, while no table has more than `max_rows`."""

    def __init__(
        self,
        target: Target,
        versions: TableVersions,
        written: WrittenFiles | None = None,
        settings: TaskSettings = AS_FOUND_GOOD,
        *,
        max_rows: int,
    ) -> None:
        super().__init__(target, versions, written, settings)
        self.max_rows = max_rows
        self.is_small = True
        self.rows: list[tuple[str, pa.Table]] = []
        self.partial_rows: list[tuple[int, TypedRows]] = []
        """Parts of rows, as they were read."""
        self._counts_of_all: Counter[str] = Counter()

    @property
    def named(self) -> dict[str, list[str]]:
        """The ids of rows that are to go, by table."""
        return {key: [id for part in parts for id in part.ids.to_pylist()] for key, parts in self._named.items()}

    def add(self, split: int, rows: TypedRows | NamedRows) -> None:
        super().add(split, rows)
        if not self.is_small:
            return
        self._counts_of_all[rows.key] += len(rows.ids) if isinstance(rows, NamedRows) else rows.rows.num_rows
        if isinstance(rows, TypedRows) and rows.has_value is not None:
            self.partial_rows.append((split, rows))
        if self._counts_of_all[rows.key] > self.max_rows:
            self.write()

    def write(self) -> None:
        """Write what is held, and from now on everything at once."""
        if self.is_small:
            self.is_small = False
            for key in list(self._named):
                self._find(key)
            for key, rows in self.rows:
                self._write_fragments(key, rows)

    def _find(self, key: str) -> None:
        if not self.is_small:
            super()._find(key)

    def _store(self, key: str, held: ArrangedRows) -> None:
        self._report(key, held)
        if self.is_small:
            self.rows.append((key, held.rows))
        else:
            self._write_fragments(key, held.rows)
