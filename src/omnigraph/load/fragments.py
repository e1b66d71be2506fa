"""Typed rows as fragments of their tables: gathered per table, completed and looked up where records name rows of the branch,
checked against the rules about values, written when there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import InputError
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.language.projection import arrow_schema
from omnigraph.load.keyed_rows import LOOKED_UP_SHARE, MAX_HELD_RECORDS, complete, find_places
from omnigraph.load.written import WrittenFiles
from omnigraph.metering import Threads
from omnigraph.records.encoding import record_lines
from omnigraph.records.rows import WHOLE, NamedRows, RecordForm, Reject, TypedRows
from omnigraph.records.tabular import shown_row
from omnigraph.rules.values import first_errors
from omnigraph.tables.addresses import RowSet
from omnigraph.tables.ascending import stable_order
from omnigraph.tables.staging import ROWS_PER_FRAGMENT
from omnigraph.tasks.engines import DEFAULT_SETTINGS, TaskSettings
from omnigraph.tasks.target import TableVersions, Target

# In which order the rows of a fragment are written: the edges of a node side by side, and ids that the load made ascending.
#
# Made ids say nothing about their rows, so they are handed out again after the rows were sorted: an ascending column takes less
# than half the room, and an id is found in it without an index of every row.

EDGES_PER_SOURCE = 3
"""Fewer on average, and it is not worth while to lay the edges of a node side by side."""
MIN_ORDERED_ROWS = 262_144
"""So many edges are ordered by source all the same, unless that takes ids out of their order: an ascending column needs no index."""


@dataclass(frozen=True)
class ArrangedRows:
    """Rows as they are written, and where each of them came from."""

    rows: pa.Table
    explicit_ids: int
    _held: Sequence[tuple[int, TypedRows]]
    _order: np.ndarray | None

    def id_range(self) -> tuple[str, str] | None:
        """The first and the last id; None if they do not ascend."""
        ids = self.rows.column("id")
        return (ids[0].as_py(), ids[-1].as_py()) if _ascend(ids) else None

    def origins(self, places: np.ndarray) -> list[tuple[int, int]]:
        """The split and the line that the rows at these places came from."""
        original = places if self._order is None else self._order[places]
        ends = np.cumsum([typed.rows.num_rows for _, typed in self._held])
        owners = np.searchsorted(ends, original, "right")
        firsts = ends - [typed.rows.num_rows for _, typed in self._held]
        return [
            (self._held[owner][0], self._held[owner][1].lines[int(place - firsts[owner])].as_py())
            for owner, place in zip(owners.tolist(), original.tolist(), strict=True)
        ]


def sort_for_storage(entity: EntityType, held: Sequence[tuple[int, TypedRows]]) -> ArrangedRows:
    """The same whenever the same rows are read again."""
    explicit_ids = sum(typed.explicit_ids for _, typed in held)
    are_made = not explicit_ids and not entity.key
    if are_made:
        held = sorted(held, key=lambda item: str(item[1].rows.column("id")[0]))
    schema = arrow_schema(entity)
    joined = pa.concat_tables([typed.rows for _, typed in held])
    rows = pa.Table.from_arrays([joined.column(name) for name in schema.names], schema=schema)
    order = _by_ends(rows, may_lose_ids=are_made) if isinstance(entity, EdgeType) else None
    if order is None:
        return ArrangedRows(rows, explicit_ids, held, None)
    columns = {"src": order.src, "dst": order.dst} | ({"id": _ascending(rows.column("id"))} if are_made else {})
    others = rows.drop_columns(list(columns)).combine_chunks().take(pa.array(order.places))
    cells = [columns[name] if name in columns else others.column(name) for name in rows.column_names]
    return ArrangedRows(pa.Table.from_arrays(cells, schema=rows.schema), explicit_ids, held, order.places)


def _ascending(ids: pa.ChunkedArray) -> pa.Array:
    """They were made line after line, so those of one source ascend already."""
    whole = pa.concat_arrays(ids.chunks)
    return whole if _ascend(whole) else whole.take(pc.sort_indices(whole))


def _ascend(ids: pa.Array | pa.ChunkedArray) -> bool:
    """Whether each is greater than the one before it."""
    return len(ids) < 2 or bool(pc.all(pc.less(ids[:-1], ids[1:])).as_py())


@dataclass(frozen=True)
class _Order:
    """The places of edges by source and target, and their ends in that order."""

    places: np.ndarray
    src: pa.Array
    dst: pa.Array


def _by_ends(edges: pa.Table, *, may_lose_ids: bool) -> _Order | None:
    """The order by source and target, or by source alone where few sources of many edges have several; None where few of few do, and
    where it would take ids that were given out of their order (unless the edges `may_lose_ids`). A hop reads one place instead of one
    for each edge, the columns take less room, their indexes are built in less time, and the stored adjacency needs no order of its own:
    that is worth more than the sorting."""
    with Threads(2) as pool:
        near, far = pool.map(_coded, (edges.column("src"), edges.column("dst")))
    if len(near.dictionary) * EDGES_PER_SOURCE > edges.num_rows:
        if edges.num_rows < MIN_ORDERED_ROWS or not (may_lose_ids or not _ascend(edges.column("id"))):
            return None
        src = _ranked(near)
        places = stable_order(src.ranks)
        return _Order(places, src.taken(places), far.dictionary.take(far.indices.take(pa.array(places))))
    src, dst = _ranked(near), _ranked(far)
    order = stable_order(dst.ranks)
    places = order[stable_order(src.ranks[order])]
    return _Order(places, src.taken(places), dst.taken(places))


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    return pa.concat_arrays(column.chunks).dictionary_encode()


@dataclass(frozen=True)
class _Ranked:
    """A column as places among its sorted values."""

    ranks: np.ndarray
    values: pa.Array

    def taken(self, places: np.ndarray) -> pa.Array:
        return self.values.take(pa.array(self.ranks[places]))


def _ranked(coded: pa.DictionaryArray) -> _Ranked:
    order = pc.sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return _Ranked(ranks[coded.indices.to_numpy()], coded.dictionary.take(order))


MAX_HELD_BYTES = 384 * 1024 * 1024
"""Typed rows a task holds before it writes some."""


@dataclass
class TypeReport:
    rows: int = 0
    explicit_ids: int = 0
    id_ranges: list[tuple[str, str] | None] = field(default_factory=list)
    """The first and the last of the ids that the load made, for rows that were written together; None if they do not ascend."""
    fragments: list[str] = field(default_factory=list)
    removed: RowSet = field(default_factory=RowSet)
    """Rows that are to go, in the version that the load stands on."""
    absent: int = 0
    """How many ids were to go and are not in that version."""
    absent_ids: list[str] = field(default_factory=list)
    """These ids, unless every record names a row that is to go."""

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
        settings: TaskSettings = DEFAULT_SETTINGS,
        form: RecordForm = WHOLE,
    ) -> None:
        self.form = form
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
            if self._is_enough((len(part.ids), part.ids.nbytes) for part in named):
                self._find(rows.key)
        elif rows.has_value is not None:
            parts = self._parts.setdefault(rows.key, [])
            parts.append((split, rows))
            if self._is_enough((part.rows.num_rows, part.rows.nbytes) for _, part in parts):
                self._complete(rows.key)
        else:
            embedded = self._embedded(rows)
            self._keep(split, self._within_rules(split, embedded, embedded.rows))

    def _is_enough(self, sizes: Iterable[tuple[int, int]]) -> bool:
        """Whether records, of these numbers and bytes, are looked up before more are read."""
        counts, held_bytes = zip(*sizes, strict=True)
        is_long: bool = sum(counts) >= MAX_HELD_RECORDS
        return is_long or sum(held_bytes) >= self._max_held_bytes // LOOKED_UP_SHARE

    def _find(self, key: str) -> None:
        """Look up the rows that are to go."""
        ids = pa.chunked_array([part.ids for part in self._named.pop(key)], pa.string())
        places = find_places(self.target, self.versions[key], ids)
        report = self.types.setdefault(key, TypeReport())
        report.removed.add(places.addresses[places.known])
        absent = ids.filter(pa.array(~places.known))
        report.absent += len(absent)
        if self.form.kind != "name":
            report.absent_ids += absent.to_pylist()

    def _complete(self, key: str) -> None:
        """Look up the rows that parts of rows belong to."""
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
        self._store(key, sort_for_storage(self.target.catalog.tables[key], held))

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
        settings: TaskSettings = DEFAULT_SETTINGS,
        form: RecordForm = WHOLE,
        *,
        max_rows: int,
    ) -> None:
        super().__init__(target, versions, written, settings, form)
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
