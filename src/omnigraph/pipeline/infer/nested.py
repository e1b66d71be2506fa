"""Tables of nested JSON: lists of objects, and objects that come again under a key, are types of their own; other objects are
flattened into the record around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from omnigraph.pipeline.infer.found_tables import FoundTable, arrays, stem_of
from omnigraph.pipeline.infer.naming import singular
from omnigraph.pipeline.load.files import InputFile
from omnigraph.pipeline.load.text import UTF_8, open_text
from omnigraph.records.documents import ITEMS, NUMBER, PARENT, Cells, documents, records_at
from omnigraph.records.typed import Reject

OBJECT_KEYS = ("id", "login", "key", "uuid", "code", "slug", "username", "email", "number", "name", "title")
"""Members by which an object says which one it is."""
_SURE_KEYS = ("id", "login", "uuid")
"""Those that are keys even if no object comes again."""


@dataclass
class _NestedRecords:
    """Records at one place of the documents, and the lists and objects in them that are records of their own."""

    path: str
    records: list[Cells]
    lists: list[str] = field(default_factory=list)
    objects: dict[str, str] = field(default_factory=dict)
    """Dotted name of an object -> the name of its key."""
    list_keys: dict[str, str] = field(default_factory=dict)
    """Name of a list in which the same objects come again -> the name of their key."""

    @property
    def inner(self) -> list[str]:
        return [*(f"{name}{ITEMS}" for name in self.lists), *self.objects]


def tables_of_documents(file: InputFile, name: str, sample: int | None) -> list[FoundTable]:
    """The types that a file of JSON seems to hold; what refers to what stands in `references`."""
    rejects: list[Reject] = []
    with open_text(file, UTF_8) as stream:
        read = documents(stream, rejects)
        read_records = list(read if sample is None else islice(read, sample))
        is_whole = next(read, None) is None
    values = [value for _, value in read_records if isinstance(value, Mapping)]
    places = _places(read_records, values)
    root = places[""]
    is_wrapper = len(values) == 1 and bool(root.lists) and len(read_records) == 1
    labels = {path: _label(path, name) for path in places}
    merged = _alike(places)
    tables = [
        _table(name, labels, places, merged, path, is_whole)
        for path in places
        if merged[path] == path and not (is_wrapper and path == "")
    ]
    return [*tables, *_containments(name, places, merged, labels, is_whole, is_wrapper=is_wrapper)]


def _places(documents: list[tuple[int, object]], values: list[Mapping[str, Any]]) -> dict[str, _NestedRecords]:
    """Every place with records, from the outside to the inside."""
    places: dict[str, _NestedRecords] = {}
    waiting = [("", values)]
    while waiting:
        path, raw = waiting.pop(0)
        records = [cells for line, document in documents for cells in records_at(document, line, path)]
        place = places[path] = _NestedRecords(path, records)
        for member, items in _members(raw):
            below = f"{path}.{member}" if path else member
            objects = [item for item in items if isinstance(item, Mapping)]
            inside = [inner for item in items if isinstance(item, list) for inner in item]
            if any(inside) and all(isinstance(inner, Mapping) for inner in inside) and _all(items, list):
                place.lists.append(member)
                if (key := _key_of(inside)) is not None and _comes_again(inside, key):
                    place.list_keys[member] = key
                waiting.append((below + ITEMS, inside))
            elif objects and (key := _key_of(objects)) is not None and _all(items, Mapping):
                place.objects[member] = key
                waiting.append((below, objects))
    return places


def _members(raw: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """The members of records, and under dotted names those of the objects in them that are no records of their own."""
    for member in dict.fromkeys(name for value in raw for name in value):
        if "." in member or member.endswith(ITEMS) or not member:
            continue
        items = [value.get(member) for value in raw]
        yield member, items
        objects = [item for item in items if isinstance(item, Mapping)]
        if objects and _all(items, Mapping) and _key_of(objects) is None:
            empty: Mapping[str, Any] = {}
            inner = [item if isinstance(item, Mapping) else empty for item in items]
            yield from ((f"{member}.{name}", value) for name, value in _members(inner))


def _all(items: list[Any], kind: type) -> bool:
    return all(item is None or isinstance(item, kind) for item in items)


def _key_of(objects: list[Mapping[str, Any]]) -> str | None:
    """The member that tells objects apart, when the same object comes again under it."""
    for key in OBJECT_KEYS:
        values = [object.get(key) for object in objects]
        if not all(isinstance(value, str | int) and not isinstance(value, bool) and value != "" for value in values):
            continue
        by_key: dict[str, Mapping[str, Any]] = {}
        if all(by_key.setdefault(str(value), object) == object for value, object in zip(values, objects, strict=True)):
            is_one_of_many = 1 < len(by_key) <= len(objects) / 2 and len(objects[0]) > 1
            return key if key in _SURE_KEYS or is_one_of_many else None
    return None


def _comes_again(objects: list[Mapping[str, Any]], key: str) -> bool:
    return len({str(object.get(key)) for object in objects}) < len(objects)


def _alike(places: dict[str, _NestedRecords]) -> dict[str, str]:
    """Objects of the same members and key are of one type: the place that stands for each place."""
    keys = {path: key for path in places if (key := _declared_key(places, path)) is not None}
    shapes: dict[tuple[object, ...], str] = {}
    merged = {path: path for path in places}
    for path, key in keys.items():
        own = {name for record in places[path].records for name in record if not name.startswith(PARENT)}
        shape = (key, frozenset(own), tuple(places[path].inner))
        first = shapes.setdefault(shape, path)
        if first != path and _agree(places[first].records + places[path].records, key, own):
            merged[path] = first
    return merged


def _agree(records: list[Cells], key: str, names: set[str]) -> bool:
    seen: dict[str | None, dict[str, str | None]] = {}
    for record in records:
        own = {name: record.get(name) for name in names if name != NUMBER}
        if seen.setdefault(record.get(key), own) != own:
            return False
    return True


def _joined(path: str, member: str) -> str:
    return f"{path}.{member}" if path else member


def _label(path: str, file: str) -> str:
    last = path.split(".")[-1].removesuffix(ITEMS)
    return singular(last) if last else stem_of(file)


def _table(
    file: str,
    labels: dict[str, str],
    places: dict[str, _NestedRecords],
    merged: dict[str, str],
    path: str,
    is_whole: bool,
) -> FoundTable:
    at = tuple(place for place, stands in merged.items() if stands == path)
    place = places[path]
    records = [record for place in at for record in places[place].records]
    key = _declared_key(places, path)
    if key is not None:
        records = list({record.get(key): record for record in reversed(records)}.values())[::-1]
    inside = tuple(f"{member}." for member in place.objects)
    names = dict.fromkeys(
        name
        for record in records
        for name in record
        if name != NUMBER and not name.startswith((PARENT, *inside)) and name not in (*place.lists, *place.objects)
    )
    # Where an object is missing, its own name stands for it.
    for name in list(names):
        is_object = any(other.startswith(f"{name}.") for other in names)
        if is_object and all(record.get(name) is None for record in records):
            names.pop(name)
    columns = arrays({name: [record.get(name) for record in records] for name in names})
    table = FoundTable(file, labels[path], columns, len(records), is_whole, at=at if at != ("",) else ())
    table.known_by = "equal objects come again, with it in common"
    if key is not None:
        table.key, table.distinct = (key,), True
    table.id_column = NUMBER
    for member, of_object in place.objects.items():
        column = f"{member}.{of_object}"
        table.columns[column] = arrays({column: [record.get(column) for record in records]})[column]
        table.references[column] = labels[merged[_joined(path, member)]]
    return table


def _declared_key(places: dict[str, _NestedRecords], path: str) -> str | None:
    """The key of objects that lie in records, as a member or in a list, and are shared by them."""
    for above, place in places.items():
        for member, key in place.objects.items():
            if _joined(above, member) == path:
                return key
        for member, key in place.list_keys.items():
            if _joined(above, member) + ITEMS == path:
                return key
    return None


def _containments(
    file: str,
    places: dict[str, _NestedRecords],
    merged: dict[str, str],
    labels: dict[str, str],
    is_whole: bool,
    *,
    is_wrapper: bool,
) -> list[FoundTable]:
    """Edges from records to the records in their lists. The ends are found out later: a record may have a key, or its number."""
    tables = []
    for path, place in places.items():
        if is_wrapper and path == "":
            continue
        for member in place.lists:
            below = _joined(path, member) + ITEMS
            records = places[below].records
            table = FoundTable(file, member.split(".")[-1], {}, len(records), is_whole, at=(below,))
            table.contains, table.depth = (merged[path], below), member.count(".") + 1
            tables.append(table)
    return tables
