"""Which columns are keys, and which refer to the keys of other tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.errors import UsageError
from omnigraph.pipeline.infer.columns import KEY_SCALARS, SampledColumn, means_no_reference
from omnigraph.pipeline.infer.found_tables import FoundTable
from omnigraph.pipeline.infer.naming import property_name, type_name, type_words, words_of

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
            raise UsageError(f"no table has the key '{key}'", hint=f"--key TYPE.column; the types are: {labels}")
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
        if name not in table.left_out and _can_be_key(column)
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
        if _strength(other_name, column, other, table, name)
    ]


def _can_be_key(column: SampledColumn) -> bool:
    type = column.guess.type
    is_plain = column.guess.format is None and not column.guess.nulls
    return column.is_unique and is_plain and type.scalar in KEY_SCALARS and not type.is_list and not type.enum


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
            strength = _strength(name, column, table, target, key.columns[0])
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
    import pyarrow.compute as pc

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
        strength = _strength(name, column, table, target, key.columns[0])
        match = _match(column, target, keys, is_likely=strength >= 2)
        if match and strength and not (is_key and strength < 3) and (best is None or strength > best[0]):
            best = (strength, target, match)
    if best is None:
        return None
    _, target, match = best
    return Reference(name, target, match.reason(target), tuple(match.nulls))


def _strength(name: str, column: SampledColumn, table: FoundTable, target: FoundTable, key: str) -> int:
    """How much speaks for a reference beside its values: 3 its name, 2 that it is an end, 1 that so many texts are no accident."""
    words = words_of(name)
    while len(words) > 1 and words[-1] in _REFERENCE_WORDS:
        words = words[:-1]
    wanted = type_words(target.label)
    if wanted and words[-len(wanted) :] == wanted:
        return 3
    key_words = words_of(key)
    is_telling = bool(key_words) and (len(key_words) > 1 or key_words[0] not in _REFERENCE_WORDS)
    if is_telling and words_of(name)[-len(key_words) :] == key_words and target is not table:
        return 3
    if any(name.lower() in pair for pair in _ENDS) or (target is table and _SELF_WORDS & set(words)):
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
