"""Which columns are keys, and which refer to the keys of other tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import UsageError
from omnigraph.infer.columns import KEY_SCALARS, SampledColumn, means_no_reference
from omnigraph.infer.found_tables import FoundTable
from omnigraph.language.schema.properties import EDGE_ENDS, ENTITY_COLUMNS, RESERVED_NAMES
from omnigraph.values.types import Scalar

# Names of types and properties from names of files and columns, which may be anything.

_IRREGULAR = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "movies": "movie",
    "cookies": "cookie",
}
_IRREGULAR |= {word: word for word in ("series", "species", "news", "data")}
_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "ł": "l", "Ł": "L", "đ": "d", "ı": "i"}
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PLURAL_ENDINGS = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"))
MAX_NAME = 60


def words_of(text: str) -> list[str]:
    """The words of a name in any style, in lower case and without accents; what is no letter or digit then divides them."""
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return [word.lower() for word in _WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)))]


def singular(word: str) -> str:
    """The singular of an English plural, as far as its ending tells."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, instead in _PLURAL_ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "as")) and len(word) > 3:
        return word[:-1]
    return word


def type_words(label: str) -> list[str]:
    """The words of a type's name: its last one in the singular, without a number after a plural (`cities15000`)."""
    words = words_of(label)
    if len(words) > 1 and words[-1].isdigit() and singular(words[-2]) != words[-2]:
        words = words[:-1]
    return [*words[:-1], singular(words[-1])] if words else []


class Names:
    """Names that were given, so that none is given twice; those that differ only in case count as the same."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = {name.lower() for name in taken}

    def claim(self, wanted: str) -> str:
        name, count = wanted, 1
        while name.lower() in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name.lower())
        return name


def type_name(label: str) -> str:
    """`port-calls` -> `PortCall`."""
    if re.fullmatch(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", label):
        words = words_of(label)
        return label[: len(label) - len(words[-1])] + singular(words[-1]).capitalize() if words else label
    name = "".join(word.capitalize() for word in type_words(label))[:MAX_NAME]
    return name if name[:1].isalpha() else f"Type{name}"


def property_names() -> Names:
    """Names for the properties of one type, none of which the graph keeps for itself."""
    return Names(RESERVED_NAMES | ENTITY_COLUMNS | EDGE_ENDS)


def property_name(column: str, owner: str) -> str:
    """`Port Name` -> `port_name`; `id` says of what it is the id."""
    if re.fullmatch(r"[a-z][A-Za-z0-9_]*", column) and column != "id" and len(column) <= MAX_NAME:
        return column
    words = words_of(column)
    if words == ["id"]:
        words = [*words_of(owner), "id"]
    name = "_".join(words)[:MAX_NAME]
    if not name:
        return "column"
    return name if name[0].isalpha() else f"n{name}"


_KEY_WORDS = (
    "id",
    "uuid",
    "guid",
    "key",
    "code",
    "number",
    "no",
    "nr",
    "sku",
    "iban",
    "slug",
    "login",
    "email",
    "name",
)
"""The last word of a key's name, the likeliest first."""
_REFERENCE_WORDS = frozenset([*_KEY_WORDS, "ref", "fk", "uid"])
_SELF_WORDS = frozenset(["parent", "manager", "boss", "reply", "previous", "next", "original", "predecessor"])
_ENDS = (("from", "to"), ("src", "dst"), ("source", "target"), ("start", "end"))
_MEASURE_WORDS = frozenset(
    ["timestamp", "time", "date", "at", "on", "when", "lat", "lon", "lng", "latitude", "longitude"]
)
"""The last word of what is measured: numbers of it that no two rows share do so by chance."""
MIN_ROWS_OF_OTHERS = 20
"""In fewer rows many columns are unique by chance."""
MIN_MATCHES = 2
"""So many different values of a column whose name says nothing must be those of a key."""


@dataclass(frozen=True)
class Key:
    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Reference:
    """A column whose values are keys of another table."""

    column: str
    target: FoundTable
    reason: str
    nulls: tuple[str, ...] = ()
    """Texts in it that mean that there is none."""
    is_near: bool = False
    """Whether values of it are keys of no row: the column is then also a property, so that none is lost."""


def asked_keys(tables: Sequence[FoundTable], keys: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """`Port.code`, `Port.a,b` or `code`, as given by the user: the columns, by the table's place. UsageError when there is none."""
    by_table: dict[int, tuple[str, ...]] = {}
    for key in keys:
        label, dot, names = key.rpartition(".")
        wanted = [name.strip() for name in names.split(",")]
        hits = 0
        for place, table in enumerate(tables):
            if dot and label not in (table.label, type_name(table.label)):
                continue
            columns = [_column_called(table, name) for name in wanted]
            if all(column is not None for column in columns):
                by_table[place] = tuple(str(column) for column in columns)
                hits += 1
        if not hits:
            labels = ", ".join(type_name(table.label) for table in tables)
            raise UsageError(f"no table has the key '{key}'", hint=f"key=['TYPE.column']; the types are: {labels}")
    return by_table


def _column_called(table: FoundTable, name: str) -> str | None:
    if name in table.columns:
        return name
    return next((column for column in table.columns if property_name(column, table.label) == name), None)


def key_of(table: FoundTable, requested: tuple[str, ...] | None, tables: Sequence[FoundTable]) -> Key | None:
    """The key of a table: asked for, declared, or the likeliest column without a value twice."""
    if requested is not None:
        _refuse_unfit(table, requested)
        return Key(requested, "asked for with --key")
    if table.key and _is_key(table, table.key):
        return Key(table.key, table.known_by)
    if table.distinct:  # No other column is known to have a value once.
        return None
    ranked = sorted(
        (_key_rank(name, table.label, is_first=place == 0 and table.rows > 1), place, name)
        for place, (name, column) in enumerate(table.columns.items())
        if name not in table.left_out and _can_be_key(column) and not _is_measure(name, column)
    )
    if not ranked:
        return None
    best, what = (
        ranked[0],
        f"all {table.rows:,} values {'' if table.is_whole else 'of the sample '}are present and unique",
    )
    if best[0] >= _FIRST_RANK:
        referred = {name: _referring(table, name, tables) for _, _, name in ranked}
        chosen = max(ranked, key=lambda candidate: (len(referred[candidate[2]]), -candidate[0], -candidate[1]))
        if referred[chosen[2]]:
            return Key((chosen[2],), f"{what}, and '{referred[chosen[2]][0]}' refers to it")
        if best[0] == _LAST_RANK:
            return None
    return Key((best[2],), what if table.rows > 1 else "the only row has a value")


def _referring(table: FoundTable, name: str, tables: Sequence[FoundTable]) -> list[str]:
    """Columns of other tables that seem to refer to this column."""
    values = table.columns[name].distinct_set
    return [
        f"{other.file} {other_name}"
        for other in tables
        if other is not table
        for other_name, column in other.columns.items()
        if len(column.distinct) >= MIN_MATCHES and column.distinct_set <= values
        if strength_of(other_name, column, other, table, name)
    ]


def _can_be_key(column: SampledColumn) -> bool:
    type = column.guess.type
    is_plain = column.guess.format is None and not column.guess.nulls
    return column.is_unique and is_plain and type.scalar in KEY_SCALARS and not type.is_list and not type.enum


def _is_measure(name: str, column: SampledColumn) -> bool:
    return column.guess.type.scalar is not Scalar.STRING and not _MEASURE_WORDS.isdisjoint(words_of(name)[-1:])


def other_keys(table: FoundTable, key: Key | None) -> list[str]:
    """Columns beside the key that no two rows share; of few rows that means nothing."""
    if table.rows < MIN_ROWS_OF_OTHERS:
        return []
    taken = () if key is None else key.columns
    return [
        name
        for name, column in table.columns.items()
        if name not in taken and name not in table.left_out and name not in table.references and _can_be_key(column)
    ]


MAX_TRIED, TRIED_ROWS = 8, 2_000
"""So many columns are tried in pairs, and so many rows first."""


def key_of_two(table: FoundTable) -> tuple[str, str] | None:
    """Two columns, at least one a text, that no two rows share; of few rows that means nothing."""
    fit = {
        name: column
        for name, column in table.columns.items()
        if name not in table.left_out and column.guess.type.scalar in KEY_SCALARS and not column.guess.nulls
        if not (
            column.guess.type.is_list or column.guess.format or column.nulls or column.has_empty or column.is_unique
        )
    }
    if table.rows < MIN_ROWS_OF_OTHERS or table.distinct:
        return None
    for first, second in combinations(list(fit)[:MAX_TRIED], 2):
        columns = fit[first], fit[second]
        is_text = Scalar.STRING in {column.guess.type.scalar for column in columns}
        if not is_text or len(columns[0].distinct) * len(columns[1].distinct) < table.rows:
            continue
        rows = pa.table([column.texts for column in columns], names=["first", "second"])
        if all(_are_unique(part) for part in (rows.slice(0, TRIED_ROWS), rows)):
            return first, second
    return None


def _are_unique(rows: pa.Table) -> bool:
    return bool(rows.group_by(rows.column_names).aggregate([]).num_rows == rows.num_rows)


def _is_key(table: FoundTable, columns: tuple[str, ...]) -> bool:
    """Whether no row lacks it and no two rows share it."""
    held = [table.columns[name] for name in columns]
    if len(held) == 1:
        return _can_be_key(held[0])
    if any(column.guess.format or column.guess.nulls for column in held):
        return False
    if any(column.nulls or column.has_empty or column.guess.type.is_list for column in held) or not table.rows:
        return False
    rows = list(zip(*(column.texts.to_pylist() for column in held), strict=True))
    return len(set(rows)) == len(rows)


def _refuse_unfit(table: FoundTable, columns: tuple[str, ...]) -> None:
    if table.rows and not _is_key(table, columns):
        shown = ", ".join(columns)
        held = table.columns[columns[0]]
        raise UsageError(
            f"'{shown}' of {table.origin} cannot be a key: {held.nulls:,} of {held.rows:,} rows have no value, and there are "
            f"{len(held.distinct):,} different ones",
            hint="choose columns in which every row has a value, and no two rows the same",
        )


_FIRST_RANK, _NAME_RANK, _LAST_RANK = 100, 200, 300
"""Of a first column, of a name, and of any other column, which is a key only when others refer to it."""


def _key_rank(name: str, label: str, *, is_first: bool) -> int:
    """How much the name of a column speaks for a key; the less the better."""
    words = words_of(name)
    if words and words[-1] in _KEY_WORDS and words[:-1] in ([], type_words(label), type_words(label)[-1:]):
        return _NAME_RANK if words[-1] == "name" else _KEY_WORDS.index(words[-1])
    if words and words[-1] in ("id", "uuid", "guid"):
        return _FIRST_RANK - 1
    return _FIRST_RANK if is_first else _LAST_RANK


# ---------------------------------------------------------------- references


def references_of(table: FoundTable, tables: Sequence[FoundTable], keys: dict[int, Key]) -> dict[str, Reference]:
    """The columns of a table that refer to others, or to itself."""
    own = keys.get(id(table))
    references: dict[str, Reference] = {}
    for name, column in table.columns.items():
        is_end = name in (table.ends or ())
        if (name in table.left_out and not is_end) or not len(column.distinct) or column.guess.type.is_list:
            continue
        reference = _declared(table, name, column, tables, keys) or _guessed(table, name, column, tables, keys, own)
        if reference is not None:
            references[name] = reference
    return references


NEAR_SHARE, NEAR_TEXT_SHARE = 0.5, 0.8
"""So many of the values are keys in a near-reference: if its name speaks for it, and if only its texts do."""
MIN_NEAR_MATCHES = 10
"""So many different ones, if only its texts do."""
MAX_EXCEPTIONS = 3


def near_references(
    table: FoundTable, references: Collection[str], tables: Sequence[FoundTable], keys: dict[int, Key]
) -> dict[str, Reference]:
    """The other columns of a table most of whose values are keys of another, or of its own."""
    own = keys.get(id(table))
    near: dict[str, tuple[float, Reference]] = {}
    for name, column in table.columns.items():
        if name in references or name in table.left_out or (own is not None and name in own.columns):
            continue
        for target in tables:
            key = keys.get(id(target))
            if key is None or len(key.columns) != 1 or not target.is_whole or not len(column.present):
                continue
            strength = strength_of(name, column, table, target, key.columns[0])
            share = _share(column, target, key.columns[0]) if strength else 0.0
            if share >= (NEAR_SHARE if strength > 1 else NEAR_TEXT_SHARE) and share > near.get(name, (0.0,))[0]:
                reference = reference_to(name, column, target, key)
                matched = len(column.distinct_set & target.columns[key.columns[0]].distinct_set)
                if strength > 1 or matched >= MIN_NEAR_MATCHES:
                    near[name] = (share, reference)
    return {name: reference for name, (_, reference) in near.items()}


def reference_to(name: str, column: SampledColumn, target: FoundTable, key: Key) -> Reference:
    """A reference that need not hold for every value: its reason has the share and the first exceptions."""
    known = target.columns[key.columns[0]].distinct_set
    others = [text for text in column.distinct.to_pylist() if text not in known]
    share = _share(column, target, key.columns[0])
    shown = ", ".join(map(repr, others[:MAX_EXCEPTIONS])) + (", ..." if len(others) > MAX_EXCEPTIONS else "")
    reason = f"{share:.1%} of {len(column.present):,} values are keys of {type_name(target.label)}"
    return Reference(name, target, f"{reason}, not {shown}" if others else reason, is_near=bool(others))


def _share(column: SampledColumn, target: FoundTable, key: str) -> float:
    """How many of the values are keys. Few are tried first: most columns refer to nothing."""
    keys = target.columns[key]
    first = column.distinct.slice(0, 200).to_pylist()
    if not any(text in keys.distinct_set for text in first) or not len(column.texts):
        return 0.0
    return float(pc.mean(pc.cast(pc.is_in(column.texts, value_set=keys.distinct), "float64")).as_py())


@dataclass(frozen=True)
class _Match:
    """How the values of a column meet the keys of a table. `nulls`: those that mean no value. `unknown`: those that may be keys of
    rows which were not looked at."""

    matched: int
    nulls: Mapping[str, int]
    rows: int
    unknown: int = 0

    def reason(self, target: FoundTable) -> str:
        name = type_name(target.label)
        if self.unknown:
            whole = self.matched + self.unknown
            return (
                f"{self.matched:,} of {whole:,} different values are keys of the {target.rows:,} sampled rows of {name}"
            )
        none = "".join(f", {word!r} means none ({count:,} of {self.rows:,})" for word, count in self.nulls.items())
        return f"all {self.matched:,} different values are keys of {name}{none}"


def _match(column: SampledColumn, target: FoundTable, keys: dict[int, Key], *, is_likely: bool) -> _Match | None:
    """None when values stand in the way. `is_likely`: something else speaks for a reference, so that of a table that was looked
    at in part only some values need be known."""
    key = keys.get(id(target))
    if key is None or len(key.columns) != 1:
        return None
    others = column.distinct_set - target.columns[key.columns[0]].distinct_set
    nulls = column.counts(sorted(filter(means_no_reference, others)))
    matched, unknown = len(column.distinct) - len(others), len(others) - len(nulls)
    is_fit = not unknown or (is_likely and not target.is_whole)
    return _Match(matched, nulls, column.rows, unknown) if matched and is_fit else None


def _declared(
    table: FoundTable, name: str, column: SampledColumn, tables: Sequence[FoundTable], keys: dict[int, Key]
) -> Reference | None:
    label = table.references.get(name)
    called = [other for other in tables if other.label == label]
    target = next((other for other in called if other.file == table.file), called[0] if called else None)
    if target is None or (match := _match(column, target, keys, is_likely=True)) is None:
        return None
    return Reference(name, target, table.known_by, tuple(match.nulls))


def _guessed(
    table: FoundTable,
    name: str,
    column: SampledColumn,
    tables: Sequence[FoundTable],
    keys: dict[int, Key],
    own: Key | None,
) -> Reference | None:
    is_key = own is not None and name in own.columns
    best: tuple[int, FoundTable, _Match] | None = None
    for target in tables:
        key = keys.get(id(target))
        if key is None or (target is table and is_key):
            continue
        strength = strength_of(name, column, table, target, key.columns[0])
        if not strength or (is_key and not _continues(name, column, table, target, key.columns[0], strength)):
            continue
        match = _match(column, target, keys, is_likely=strength >= 2)
        if match and (best is None or strength > best[0]):
            best = (strength, target, match)
    if best is None:
        return None
    _, target, match = best
    return Reference(name, target, match.reason(target), tuple(match.nulls))


def _continues(
    name: str, column: SampledColumn, table: FoundTable, target: FoundTable, key: str, strength: int
) -> bool:
    """Whether a key refers to the key of another table, whose rows it says more of. Of two tables with the same key one does: not
    the one that the key is named after, nor the one that has more rows."""
    if strength < 3 or _is_named_after(name, table):
        return False
    others = target.columns[key].distinct
    return (
        strength > 3
        or len(others) > len(column.distinct)
        or (len(others) == len(column.distinct) and target.file < table.file)
    )


def without_reference_words(words: list[str]) -> list[str]:
    """`customer_id` -> `customer`."""
    while len(words) > 1 and words[-1] in _REFERENCE_WORDS:
        words = words[:-1]
    return words


def is_squeezed(name: str, type: list[str]) -> bool:
    """`countrycode` for a type `Country`."""
    whole, start = "".join(words_of(name)), "".join(type)
    return bool(start) and whole.startswith(start) and whole.removeprefix(start) in _REFERENCE_WORDS


def _is_named_after(name: str, target: FoundTable) -> bool:
    words, wanted = without_reference_words(words_of(name)), type_words(target.label)
    if is_squeezed(name, wanted):
        return True
    return bool(wanted) and words[-len(wanted) :] == wanted


def strength_of(name: str, column: SampledColumn, table: FoundTable, target: FoundTable, key: str) -> int:
    """How much speaks for a reference beside its values: 4 that it names the type, 3 that it is named as the key is, 2 that it is
    an end, 1 that so many texts are no accident."""
    if _is_named_after(name, target):
        return 4
    key_words = words_of(key)
    is_telling = bool(key_words) and (len(key_words) > 1 or key_words[0] not in _REFERENCE_WORDS)
    if is_telling and words_of(name)[-len(key_words) :] == key_words and target is not table:
        return 3
    if any(name.lower() in pair for pair in _ENDS) or (target is table and _SELF_WORDS & set(words_of(name))):
        return 2
    is_text = not any(text.lstrip("-").isdigit() for text in column.distinct.slice(0, 1000).to_pylist())
    return 1 if is_text and target is not table and len(column.distinct) >= MIN_MATCHES else 0


def ends_of(
    table: FoundTable,
    references: dict[str, Reference],
    near: Collection[str],
    key: Key | None,
    *,
    is_referred_to: bool,
) -> tuple[str, str] | None:
    """The two columns that are the ends, when the rows of a table are edges. `near`: columns that seem to refer to others too."""
    if table.ends is not None:
        return table.ends if all(end in references for end in table.ends) else None
    complete = [
        name
        for name, reference in references.items()
        if not table.columns[name].nulls and not table.columns[name].has_empty and not reference.nulls
    ]
    lower = {name.lower(): name for name in complete}
    for first, second in _ENDS:
        if first in lower and second in lower:
            return lower[first], lower[second]
    if is_referred_to or len(complete) != 2 or {*references, *near} != set(complete):
        return None
    if table.key and set(table.key) == set(complete):
        return complete[0], complete[1]
    has_own_key = key is not None and key.columns[0] not in complete
    return None if has_own_key or table.key else (complete[0], complete[1])
