"""Tables of nested JSON: lists of objects, and objects that come again under a key, are types of their own; other objects are
flattened into the record around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.infer.columns import KEY_SCALARS, SampledColumn
from omnigraph.infer.found_tables import FoundTable, arrays, stem_of
from omnigraph.infer.relations import singular, words_of
from omnigraph.load.files import InputFile
from omnigraph.load.text import UTF_8, open_text
from omnigraph.records.documents import ITEMS, MAX_DEPTH, MEMBERS, NUMBER, PARENT, VALUE, Cells, Place, documents
from omnigraph.records.rows import Reject
from omnigraph.values.types import Scalar

OBJECT_KEYS = ("id", "login", "key", "uuid", "code", "slug", "username", "email", "number", "name", "title")
"""Members by which an object says which one it is."""
_SURE_KEYS = ("id", "login", "uuid")
"""Those that are keys even if no object comes again."""
_IDENTITIES = (*_SURE_KEYS, "username", "email", "slug")
"""Those that are keys even if the objects differ in other members."""

MAX_TYPES = 200
MAX_COLUMNS = 2_000
"""What one file may hold of kinds of records, and one kind of members."""
MAX_FLAT_MEMBERS = 200
"""An object with more names of plain values, over all records, is a table of them."""
MAX_ROLES = 20
"""Objects in an object of every record that have more names than this are rows: `home` and `work` are not."""
MIN_KEYED, MIN_KEYED_UNLIKE = 3, 50
"""Objects in the one object of a file are rows from so many on, if they are alike; and if they are not."""


@dataclass
class _NestedRecords:
    """Records at one place of the documents, and the lists and objects in them that are records of their own."""

    path: str
    records: list[Cells]
    lists: dict[str, str] = field(default_factory=dict)
    """Dotted name of a list of records, or of an object whose members are records -> the suffix of its place."""
    objects: dict[str, str] = field(default_factory=dict)
    """Dotted name of an object -> the name of its key."""
    differing: dict[str, frozenset[str]] = field(default_factory=dict)
    """Dotted name of an object -> members in which equal ones differ: they are properties of the record around it."""
    list_keys: dict[str, str] = field(default_factory=dict)
    """Name of a list in which the same objects come again -> the name of their key."""

    @property
    def inner(self) -> list[str]:
        return [*(f"{name}{suffix}" for name, suffix in self.lists.items()), *self.objects]


def tables_of_documents(file: InputFile, name: str, sample: int | None) -> list[FoundTable]:
    """The types that a file of JSON seems to hold; what refers to what stands in `references`. UsageError if there are too many."""
    rejects: list[Reject] = []
    with open_text(file, UTF_8) as stream:
        read = documents(stream, rejects)
        read_records = list(read if sample is None else islice(read, sample))
        is_whole = next(read, None) is None
    values = [value for _, value in read_records if isinstance(value, Mapping)]
    is_keyed = len(values) == len(read_records) == 1 and _is_keyed(values)
    if is_keyed and sample is not None and len(values[0]) > sample:
        read_records, is_whole = [(1, dict(islice(values[0].items(), sample)))], False
    places = _places(read_records, values, MEMBERS if is_keyed else "", name)
    is_wrapper = len(values) == 1 and len(read_records) == 1 and not is_keyed and bool(places[""].lists)
    labels = {path: _label(path, name) for path in places}
    merged = _alike(places)
    tables = [
        _table(name, labels, places, merged, path, is_whole)
        for path in places
        if merged[path] == path and not (is_wrapper and path == "")
    ]
    return [*tables, *_containments(name, places, merged, labels, is_whole, is_wrapper=is_wrapper)]


def _places(
    documents: list[tuple[int, object]], values: list[Mapping[str, Any]], start: str, file: str
) -> dict[str, _NestedRecords]:
    """Every place with records, from the outside to the inside."""
    places: dict[str, _NestedRecords] = {}
    has_values = start == MEMBERS and not any(isinstance(inner, Mapping) for inner in values[0].values())
    waiting: list[tuple[str, list[Any], bool, frozenset[str]]] = [
        (start, list(values[0].values()) if start == MEMBERS else values, has_values, frozenset())
    ]
    while waiting:
        path, raw, has_values, not_own = waiting.pop(0)
        at = Place(path, has_values=has_values)
        records = [cells for line, document in documents for cells in at.records(document, line)]
        for cells in records if not_own else ():
            for name in not_own:
                cells.pop(name, None)
        place = places[path] = _NestedRecords(path, records)
        if len(places) > MAX_TYPES:
            raise _too_many(f"{MAX_TYPES} kinds of objects", file)
        for member, inner in _members([value for value in raw if isinstance(value, Mapping)], file):
            below = _joined(path, member)
            if isinstance(inner, _Shared):
                place.objects[member] = inner.key
                place.differing[member] = inner.differing
                waiting.append((below, inner.objects, False, inner.differing))
            else:
                place.lists[member] = inner.suffix
                if (key := inner.key) is not None:
                    place.list_keys[member] = key
                waiting.append((below + inner.suffix, inner.items, inner.has_values, frozenset()))
    return places


@dataclass(frozen=True)
class _Shared:
    """Objects that are records of their own, the member that tells them apart, and those in which equal ones differ."""

    objects: list[Any]
    key: str
    differing: frozenset[str]


@dataclass(frozen=True)
class _Items:
    """Records in lists, or under the names of an object's members."""

    items: list[Any]
    suffix: str
    key: str | None = None
    has_values: bool = False


def _members(raw: Sequence[Mapping[str, Any]], file: str) -> Iterator[tuple[str, _Shared | _Items]]:
    """The members of records that are records of their own; under dotted names those of the objects that are not."""
    waiting: list[tuple[str, Sequence[Mapping[str, Any]]]] = [("", raw)]
    count = 0
    while waiting:
        prefix, objects = waiting.pop(0)
        names = dict.fromkeys(name for value in objects for name in value)
        count += len(names)
        if count > MAX_COLUMNS:
            raise _too_many(f"{MAX_COLUMNS:,} different members of one kind of object", file)
        for name in names:
            if "." in name or name.endswith((ITEMS, MEMBERS)) or not name:
                continue
            items = [item for value in objects if (item := value.get(name)) is not None]
            inner = _records_in(items)
            if inner is not None:
                yield prefix + name, inner
            elif items and all(isinstance(item, Mapping) for item in items) and prefix.count(".") < MAX_DEPTH:
                waiting.append((f"{prefix}{name}.", items))


def _records_in(items: list[Any]) -> _Shared | _Items | None:
    """What the values of one member hold, if it is records; None if they are plain, or objects to be flattened."""
    if items and all(isinstance(item, list) for item in items):
        inside = [inner for item in items for inner in item]
        if any(inside) and all(isinstance(inner, Mapping) for inner in inside):
            key, _ = _key_of(inside) or (None, None)
            return _Items(inside, ITEMS, key if key is not None and _comes_again(inside, key) else None)
    if items and all(isinstance(item, Mapping) for item in items):
        if _is_keyed(items):
            inside = [inner for item in items for inner in item.values()]
            return _Items(inside, MEMBERS, has_values=not any(isinstance(inner, Mapping) for inner in inside))
        if (identity := _key_of(items) or _partial_key_of(items)) is not None:
            return _Shared(items, *identity)
    return None


def _is_keyed(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the members of objects are rows, whose names are their keys: objects that are alike, or very many plain values."""
    names = {name for object in objects for name in object}
    values = [value for object in objects for value in object.values() if value is not None]
    inner = [value for value in values if isinstance(value, Mapping)]
    if not inner:
        return len(names) > MAX_FLAT_MEMBERS and not any(isinstance(value, list) for value in values)
    if len(inner) < len(values) or len(names) < (MIN_KEYED if len(objects) == 1 else MAX_ROLES + 1):
        return False
    members = {name for value in inner for name in value}
    return len(names) >= MIN_KEYED_UNLIKE or 0 < len(members) * len(inner) <= 2 * sum(map(len, inner))


def _too_many(what: str, file: str) -> UsageError:
    return UsageError(
        f"{file} has more than {what}, which is no table",
        hint="a load with a map takes what you need of it: 'at' and 'columns' of a map file",
    )


def _key_of(objects: list[Mapping[str, Any]]) -> tuple[str, frozenset[str]] | None:
    """The member that tells objects apart, if those that share it are equal and some come again; no members differ."""
    for key in _candidates(objects[0]):
        count = _count_of(objects, key)
        if count is None or _differing(objects, key):
            continue
        is_text = isinstance(objects[0][key], str)
        most = len(objects) - 1 if key in OBJECT_KEYS else len(objects) // 2
        comes_again = 1 < count <= most and (len(objects[0]) > 1 or is_text)
        return (key, frozenset()) if key in _SURE_KEYS or comes_again else None
    return None


def _partial_key_of(objects: list[Mapping[str, Any]]) -> tuple[str, frozenset[str]] | None:
    """The member that identifies objects which come again, and the plain members in which they differ, such as the date of a
    commit in its author."""
    for key in _IDENTITIES:
        count = _count_of(objects, key)
        if count is None or not 1 < count <= len(objects) // 2:
            continue
        differing = _differing(objects, key)
        if not any(isinstance(object.get(name), Mapping | list) for object in objects for name in differing):
            return key, frozenset(differing)
    return None


def _candidates(object: Mapping[str, Any]) -> list[str]:
    """Members that may tell objects apart: `id`, then such as `author_id`."""
    endings = {name: words[-1] for name in object if len(words := words_of(name)) > 1}
    return [*OBJECT_KEYS, *(name for key in OBJECT_KEYS for name, word in endings.items() if word == key)]


def _count_of(objects: list[Mapping[str, Any]], key: str) -> int | None:
    """How many values a member has; None if it cannot tell objects apart: one has none, or it is no text or whole number."""
    values = [object.get(key) for object in objects]
    if not all(isinstance(value, str | int) and not isinstance(value, bool) and value != "" for value in values):
        return None
    return len({str(value) for value in values})


def _differing(objects: list[Mapping[str, Any]], key: str) -> set[str]:
    """Members that differ among objects with the same key."""
    by_key: dict[str, Mapping[str, Any]] = {}
    differing: set[str] = set()
    for object in objects:
        first = by_key.setdefault(str(object[key]), object)
        if first is not object and first != object:
            differing |= {name for name in {**first, **object} if first.get(name) != object.get(name)}
    return differing


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
    last = path.split(".")[-1].removesuffix(ITEMS).removesuffix(MEMBERS)
    stem = stem_of(file)
    if last and not last[0].isalpha():
        return stem if last in stem else f"{stem} {last}"
    return singular(last) if last else stem


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
    inside = tuple(f"{member}." for member in (*place.objects, *place.lists))
    differing = {f"{member}.{name}" for member, names in place.differing.items() for name in names}
    names = dict.fromkeys(
        name
        for record in records
        for name in record
        if name in differing
        or (name != NUMBER and not name.startswith((PARENT, *inside)) and name not in (*place.lists, *place.objects))
    )
    # Where an object is missing, its own name stands for it.
    for name in list(names):
        is_object = any(other.startswith(f"{name}.") for other in names)
        if is_object and all(record.get(name) is None for record in records):
            names.pop(name)
    columns = arrays({name: [record.get(name) for record in records] for name in names})
    table = FoundTable(file, labels[path], columns, len(records), is_whole, at=at if at != ("",) else ())
    table.is_document = True
    table.known_by = "equal objects come again, with it in common"
    if key is not None:
        table.key, table.distinct = (key,), True
    table.id_column = NUMBER
    _name_member_column(table)
    for member, of_object in place.objects.items():
        column = f"{member}.{of_object}"
        table.columns[column] = arrays({column: [record.get(column) for record in records]})[column]
        table.references[column] = labels[merged[_joined(path, member)]]
    return table


def _name_member_column(table: FoundTable) -> None:
    """Of records that are members of an object: their name is a property, and the key if it is there once; unless a column repeats it."""
    names = table.columns.get(MEMBERS)
    if names is None:
        return
    same = next(
        (
            name
            for name, column in table.columns.items()
            if name != MEMBERS and len(column.distinct) == table.rows and column.texts.equals(names.texts)
        ),
        None,
    )
    table.names[VALUE] = "value"
    table.names[MEMBERS] = "key" if "key" not in table.columns else f"{table.label} key"
    table.key = (same or MEMBERS,)
    table.known_by = "the names of an object's members"
    if same is not None:
        table.left_out.add(MEMBERS)
    elif names.guess.type.scalar not in KEY_SCALARS or names.guess.format:
        table.columns[MEMBERS] = SampledColumn(MEMBERS, names.values, is_text=True, declared=Scalar.STRING)


def _declared_key(places: dict[str, _NestedRecords], path: str) -> str | None:
    """The key of objects that lie in records, as a member or in a list, and are shared by them."""
    for above, place in places.items():
        for member, key in place.objects.items():
            if _joined(above, member) == path:
                return key
        for member, key in place.list_keys.items():
            if _joined(above, member) + place.lists[member] == path:
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
        for member, suffix in place.lists.items():
            below = _joined(path, member) + suffix
            records = places[below].records
            table = FoundTable(file, member.split(".")[-1], {}, len(records), is_whole, at=(below,))
            table.contains, table.depth = (merged[path], below), member.count(".") + 1
            tables.append(table)
    return tables
