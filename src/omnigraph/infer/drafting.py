"""From tables to types: nodes with keys and properties, edges between them, and what of each file is which."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.errors import UsageError
from omnigraph.infer.choices import PROPERTY, Choices
from omnigraph.infer.columns import KEY_SCALARS, Guess, SampledColumn
from omnigraph.infer.found_tables import FoundTable, arrays
from omnigraph.infer.relations import (
    MIN_MATCHES,
    MIN_NEAR_MATCHES,
    NEAR_SHARE,
    NEAR_TEXT_SHARE,
    Key,
    Names,
    Reference,
    asked_keys,
    ends_of,
    is_squeezed,
    key_of,
    key_of_two,
    near_references,
    other_keys,
    property_name,
    property_names,
    reference_to,
    references_of,
    singular,
    strength_of,
    type_name,
    type_words,
    without_reference_words,
    words_of,
)
from omnigraph.load.mapping import MappedSource
from omnigraph.records.documents import ITEMS, NUMBER, PARENT, VALUE, Picked
from omnigraph.values.types import PropertyType, Scalar

MIN_REPEATS, MIN_VALUES = 5, 13
"""A text that comes so often, of so many, may be a node; fewer are an enum."""


@dataclass
class DraftProperty:
    name: str
    column: SampledColumn
    guess: Guess
    remark: str = ""
    """What else is to be said of the column."""
    near: str = ""
    """How many of its values are keys, if most of them are."""


@dataclass
class DraftNode:
    name: str
    table: FoundTable
    key: Key | None
    properties: list[DraftProperty] = field(default_factory=list)
    needs_id: bool = False
    """Whether edges refer to it although it has no key: its rows are told apart by their number."""

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that edges refer to: those of the key, or the one that tells rows apart. None when there is none."""
        if self.key is not None:
            return self.key.columns
        return () if self.table.id_column is None else (self.table.id_column,)

    def sources(self) -> list[MappedSource]:
        columns: dict[str, str | tuple[str, ...]] = {
            property.name: property.column.name for property in self.properties
        }
        if self.key is None and self.table.id_column is not None and (self.needs_id or not columns):
            columns["id"] = self.table.id_column
        return _sources(
            self.table, self.name, columns, (), self.properties, distinct=self.table.distinct and self.key is not None
        )


@dataclass
class DraftEdge:
    name: str
    table: FoundTable
    source_node: DraftNode
    target_node: DraftNode
    ends: tuple[End, End]
    reason: str
    nulls: tuple[str, ...] = ()
    """Texts at its second end that mean that there is no edge."""
    properties: list[DraftProperty] = field(default_factory=list)

    def sources(self) -> list[MappedSource]:
        columns = {"from": _end(self.ends[0]), "to": _end(self.ends[1])}
        columns |= {property.name: property.column.name for property in self.properties}
        skipped = tuple(
            end
            for end, names in (("from", self.ends[0]), ("to", self.ends[1]))
            if any(
                (held := self.table.columns.get(name)) is not None and (held.nulls or held.has_empty) for name in names
            )
            or (end == "to" and (self.nulls or self._may_lack_values))
        )
        nulls = {
            end: words
            for end, names, meant in (("from", self.ends[0], ()), ("to", self.ends[1], self.nulls))
            if (words := tuple(dict.fromkeys([*meant, *self._null_words(names)])))
        }
        return _sources(self.table, self.name, columns, skipped, self.properties, distinct=False, nulls=nulls)

    def make_room_for_stubs(self) -> None:
        """Make the properties of a node optional that rows may refer to without its being there."""
        for node, names in ((self.source_node, self.ends[0]), (self.target_node, self.ends[1])):
            if node.key is None or node.table is self.table or not self._may_name_others(names, node):
                continue
            for property in node.properties:
                type = property.guess.type
                if property.column.name not in node.key.columns and not type.nullable:
                    property.guess = replace(property.guess, type=replace(type, nullable=True))
                    property.remark += "; optional: a stub has its key alone"

    def _may_name_others(self, names: End, node: DraftNode) -> bool:
        """Whether there may be rows whose end is the key of no node."""
        held = self.table.columns.get(names[0])
        if held is None or len(names) > 1 or node.key is None or not (self.table.is_whole and node.table.is_whole):
            return True
        known = node.table.columns[node.key.columns[0]].distinct_set
        return bool(held.distinct_set - known - {"", *self.nulls, *self._null_words(names)})

    @property
    def key(self) -> tuple[str, ...]:
        """What tells its edges apart, if all rows are known: the node that they start from, if its own row names the other end, or
        both ends. () if rows share it."""
        if not self.table.is_whole:
            return ()
        start, end = self.ends
        candidates = {("src",): start} if self.source_node.table is self.table else {}
        return next(
            (key for key, names in (candidates | {("src", "dst"): start + end}).items() if self._is_key(names)), ()
        )

    def _is_key(self, names: Sequence[str]) -> bool:
        """Whether no two rows that are edges share the values of these columns."""
        held = [self.table.columns.get(name) for name in names]
        columns = [column for column in held if column is not None and not column.guess.format]
        if len(columns) < len(names) or any(column.guess.type.is_list for column in columns):
            return False
        absent = {None, "", *self.nulls}
        rows = list(zip(*(column.texts.to_pylist() for column in columns), strict=True))
        edges = [row for row in rows if not absent & set(row)]
        return bool(edges) and len(set(edges)) == len(edges)

    def _null_words(self, names: Sequence[str]) -> list[str]:
        held = [self.table.columns.get(name) for name in names]
        return [word for column in held if column is not None for word in column.null_words]

    @property
    def _may_lack_values(self) -> bool:
        """Whether rows that were not looked at may be nodes without this edge."""
        return self.source_node.table is self.table and not self.table.is_whole


End = tuple[str, ...]
"""The columns that name the node at one end of an edge."""


def _end(columns: End) -> str | tuple[str, ...]:
    return columns[0] if len(columns) == 1 else columns


def _sources(
    table: FoundTable,
    name: str,
    columns: dict[str, str | tuple[str, ...]],
    skip_empty: tuple[str, ...],
    properties: Sequence[DraftProperty],
    *,
    distinct: bool,
    nulls: Mapping[str, tuple[str, ...]] | None = None,
) -> list[MappedSource]:
    separators = {
        property.name: property.column.separator for property in properties if property.column.separator is not None
    }
    formats = {property.name: property.guess.format for property in properties if property.guess.format is not None}
    nulls = {
        **(nulls or {}),
        **{property.name: property.guess.nulls for property in properties if property.guess.nulls},
    }
    picked = Picked(columns, table.where, separators, skip_empty, distinct, formats, nulls)
    return [
        MappedSource(file, name, picked, table.at, table.table, table.delimiter, table.encoding, table.header)
        for file in table.files
    ]


@dataclass
class Drafts:
    nodes: list[DraftNode]
    edges: list[DraftEdge]


def draft(tables: Sequence[FoundTable], keys: Sequence[str], choices: Choices) -> Drafts:
    """The types that the tables seem to hold. UsageError when a key or a choice that was asked for is none."""
    rows = choices.with_value_tables([table for table in tables if table.contains is None])
    requested = asked_keys(rows, keys)
    key_by_table: dict[int, Key] = {}
    for place, table in enumerate(rows):
        key = None if table.ends and not requested.get(place) else key_of(table, requested.get(place), rows)
        if key is not None:
            key_by_table[id(table)] = key
    references, near = {}, {}
    for table in rows:
        likely = references_of(table, rows, key_by_table)
        other = near_references(table, likely, rows, key_by_table)
        references[id(table)], near[id(table)] = choices.chosen(table, likely, other, rows, key_by_table)
    edge_ends = _edge_tables(rows, references, near, key_by_table, set(requested), choices)
    names = Names()
    nodes = {
        id(table): DraftNode(names.claim(type_name(table.label)), table, key_by_table.get(id(table)))
        for table in rows
        if id(table) not in edge_ends
    }
    edges: list[DraftEdge] = []
    for table in rows:
        held = {name: reference for name, reference in references[id(table)].items() if id(reference.target) in nodes}
        if id(table) in nodes:
            edges += _edges_of_node(nodes[id(table)], held, near[id(table)], nodes, names)
        else:
            edges.append(_edge_of_table(table, edge_ends[id(table)], held, nodes, names))
    for node in list(nodes.values()):
        edges += _edges_of_lists(node, list(nodes.values()), choices, names)
    edges += [edge for table in tables if (edge := _containment(table, nodes, names)) is not None]
    if not nodes:
        raise UsageError("there is nothing to infer a schema from", hint="give files with at least a header")
    for edge in edges if choices.has_stubs else ():
        edge.make_room_for_stubs()
    return Drafts(list(nodes.values()), edges)


def _edge_tables(
    tables: Sequence[FoundTable],
    references: dict[int, dict[str, Reference]],
    near: dict[int, dict[str, Reference]],
    keys: dict[int, Key],
    requested: set[int],
    choices: Choices,
) -> dict[int, tuple[str, str]]:
    """Tables whose rows are edges, with the columns of their ends."""
    referred = {
        id(reference.target)
        for table in tables
        for reference in references[id(table)].values()
        if reference.target is not table
    }
    edges: dict[int, tuple[str, str]] = {}
    for place, table in enumerate(tables):
        if place in requested or choices.is_node(table):
            continue
        ends = ends_of(
            table,
            references[id(table)],
            near[id(table)],
            keys.get(id(table)),
            is_referred_to=id(table) in referred,
        )
        if choices.is_edge(table):
            ends = ends or _first_two(table, references[id(table)])
        if ends is not None and not any(references[id(table)][end].target is table for end in ends):
            edges[id(table)] = ends
    # An end must be a node.
    return {
        table: ends
        for table, ends in edges.items()
        if not any(id(references[table][end].target) in edges for end in ends)
    }


def _first_two(table: FoundTable, references: dict[str, Reference]) -> tuple[str, str]:
    if len(references) < 2:
        raise UsageError(
            f"{type_name(table.label)} cannot be an edge: {len(references)} of its columns refer to others",
            hint=f"choose={{'{type_name(table.label)}.column': 'Type'}} says which column refers to which type",
        )
    first, second, *_ = references
    return first, second


def _edges_of_node(
    node: DraftNode,
    references: dict[str, Reference],
    near: dict[str, Reference],
    nodes: dict[int, DraftNode],
    names: Names,
) -> list[DraftEdge]:
    """The node's own properties, and an edge for every column that refers to a node."""
    table = node.table
    if (references or table.composite_references) and not node.id_columns and NUMBER not in table.columns:
        table.id_column = NUMBER
    keys = () if node.key is None else node.key.columns
    edges: list[DraftEdge] = []
    for name, reference in references.items():
        if not node.id_columns:
            continue
        node.needs_id = True
        target = nodes[id(reference.target)]
        wanted = type_name(f"{node.name} {' '.join(_edge_words(name, target))}")
        ends = (node.id_columns, (name,))
        reason = f"'{name}': {reference.reason} (--choose {node.name}.{name}=property)"
        edges.append(DraftEdge(names.claim(wanted), table, node, target, ends, reason, reference.nulls))
    edges += _edges_of_several_columns(node, nodes, names)
    kept = {name for name, reference in references.items() if reference.is_near}
    gone = {name for edge in edges for name in edge.ends[1]} - set(keys) - kept
    node.properties = _properties(table, gone, node.name, keys)
    for property in node.properties:
        name = property.column.name
        if name in near:
            property.remark = property.remark.partition("; each value comes")[0]
            choice = f"--choose {node.name}.{name}={type_name(near[name].target.label)}, or --missing skip"
            property.remark += f"; {near[name].reason} ({choice}: an edge)"
            property.near = near[name].reason
    return edges


def _edges_of_several_columns(node: DraftNode, nodes: dict[int, DraftNode], names: Names) -> list[DraftEdge]:
    """Edges to nodes whose key has several members, as the source declares them."""
    edges = []
    for label, columns in node.table.composite_references:
        of_file = [
            other for other in nodes.values() if other.table.label == label and other.table.file == node.table.file
        ]
        target = next(
            (other for other in of_file if other.key is not None and set(other.key.columns) == set(columns)), None
        )
        if target is None or target.key is None or not node.id_columns:
            continue
        ends = (node.id_columns, tuple(columns[member] for member in target.key.columns))
        shown = ", ".join(f"'{name}'" for name in ends[1])
        edges.append(
            DraftEdge(
                names.claim(type_name(f"{node.name} {label}")),
                node.table,
                node,
                target,
                ends,
                f"{shown}: declared by the source",
            )
        )
    return edges


def _edges_of_lists(node: DraftNode, nodes: Sequence[DraftNode], choices: Choices, names: Names) -> list[DraftEdge]:
    """An edge for each item of a list in JSON, if the items are keys. The list stays a property too: it has their order."""
    table, edges = node.table, []
    for property in node.properties if table.is_document and not table.distinct and node.id_columns else ():
        name, type = property.column.name, property.guess.type
        choice = choices.of_column(table, name)
        if not type.is_list or type.scalar not in KEY_SCALARS or choice == PROPERTY:
            continue
        rows = _rows_of_items(node, property.column)
        items = rows.columns[VALUE]
        fit = [(other, reference) for other in nodes if (reference := _of_items(items, name, rows, other)) is not None]
        fit = [(other, reference) for other, reference in fit if choice in (None, other.name)]
        if not fit and choice is not None:
            raise UsageError(f"the items of {node.name}.{name} are no keys of '{choice}'", hint="property, or a type")
        if not fit:
            continue
        target, reference = min(fit, key=lambda pair: (pair[1].is_near, pair[0] is node))
        if reference.is_near and choice is None and not choices.takes_near:
            choose = f"--choose {node.name}.{name}={target.name}, or --missing skip"
            property.remark += f"; {reference.reason} ({choose}: an edge)"
            property.near = reference.reason
            continue
        node.needs_id = target.needs_id = True
        reason = f"items of '{name}': {reference.reason} (--choose {node.name}.{name}=property)"
        wanted = type_name(f"{node.name} {' '.join(_edge_words(singular(name.split('.')[-1]), target))}")
        ends = ((PARENT * (name.count(".") + 1) + node.id_columns[0],), (VALUE,))
        edges.append(DraftEdge(names.claim(wanted), rows, node, target, ends, reason))
    return edges


def _rows_of_items(node: DraftNode, column: SampledColumn) -> FoundTable:
    """A row for each item of a list, with the id of the record around it."""
    table, depth = node.table, column.name.count(".") + 1
    lists = [json.loads(cell) if cell else [] for cell in column.values.to_pylist()]
    cells = {VALUE: [str(item) for items in lists for item in items]}
    if (held := table.columns.get(node.id_columns[0])) is not None:
        above = zip(held.values.to_pylist(), lists, strict=True)
        cells[PARENT * depth + held.name] = [id for id, items in above for _ in items]
    at = tuple(f"{place}.{column.name}{ITEMS}".removeprefix(".") for place in table.at or ("",))
    return replace(table, columns=arrays(cells), rows=len(cells[VALUE]), at=at, left_out=set())


def _of_items(items: SampledColumn, name: str, rows: FoundTable, target: DraftNode) -> Reference | None:
    """The items as references to a type, if most of them are its keys, and if it is no accident."""
    if target.key is None or len(target.key.columns) != 1 or not target.table.is_whole or not len(items.distinct):
        return None
    key = target.table.columns[target.key.columns[0]]
    reference = reference_to(name, items, target.table, target.key)
    matched = len(items.distinct_set & key.distinct_set)
    strength = strength_of(singular(name.split(".")[-1]), items, rows, target.table, key.name)
    if strength > 1 and matched / len(items.distinct) >= NEAR_SHARE:
        return reference
    is_text = key.guess.type.scalar is Scalar.STRING
    least = MIN_NEAR_MATCHES if reference.is_near else MIN_MATCHES
    return reference if is_text and matched >= least and matched / len(items.distinct) >= NEAR_TEXT_SHARE else None


def _edge_words(column: str, target: DraftNode) -> list[str]:
    words = words_of(column)
    key = words_of(target.id_columns[0]) if len(target.id_columns) == 1 else []
    if words == key or is_squeezed(column, type_words(target.name)):
        return words_of(target.name)
    if key and len(words) > len(key) and words[-len(key) :] == key:
        words = words[: -len(key)]
    while len(words) > 1 and words[-1] in ("id", "key", "code", "ref", "fk", "uuid", "login", "no", "number"):
        words = words[:-1]
    return words or words_of(target.name)


def _properties(table: FoundTable, gone: set[str], owner: str, keys: Sequence[str] = ()) -> list[DraftProperty]:
    names = property_names()
    properties = []
    for name, column in table.columns.items():
        if name in gone or name in table.left_out:
            continue
        guess = column.guess
        if name in keys:
            guess = Guess(PropertyType(guess.type.scalar), guess.reason)
        wanted = property_name(table.names.get(name, name), owner)
        chosen = names.claim(wanted)
        remark = (
            "" if chosen == wanted else f"; '{wanted}' is a name that the graph or another column has, so '{chosen}'"
        )
        count = len(column.distinct)
        if (
            1 < count <= len(column.present) / MIN_REPEATS
            and count >= MIN_VALUES
            and (guess.type.scalar is Scalar.STRING or (guess.type.scalar in KEY_SCALARS and _names_an_id(name)))
            and not guess.type.is_list
        ):
            remark += (
                f"; each value comes {len(column.present) / count:,.0f} times (--choose {owner}.{name}=node: a node)"
            )
        is_text = guess.type.scalar is Scalar.STRING and not guess.type.is_list and name not in keys
        for word, count in column.words_kept().items() if is_text and not guess.nulls else ():
            remark += f"; {count:,} of {column.rows:,} are {word!r} (--null {word}: null)"
        properties.append(DraftProperty(chosen, column, guess, remark))
    return properties


def _names_an_id(column: str) -> bool:
    words = words_of(column)
    return len(words) > 1 and without_reference_words(words) != words


def _edge_of_table(
    table: FoundTable,
    ends: tuple[str, str],
    references: dict[str, Reference],
    nodes: dict[int, DraftNode],
    names: Names,
) -> DraftEdge:
    source, target = (nodes[id(references[end].target)] for end in ends)
    name = type_name(table.label)
    if name in {node.name for node in nodes.values()}:
        name = type_name(f"{source.name} {table.label}")
    name = names.claim(name)
    near = "".join(f"; '{end}': {references[end].reason}" for end in ends if references[end].is_near)
    reason = (
        f"every row has keys of {source.name} in '{ends[0]}' and of {target.name} in '{ends[1]}'{near} "
        f"(--choose {type_name(table.label)}=node)"
    )
    edge = DraftEdge(name, table, source, target, ((ends[0],), (ends[1],)), reason)
    edge.properties = _properties(table, set(ends), name)
    for node in (source, target):
        node.needs_id = True
    return edge


def _containment(table: FoundTable, nodes: dict[int, DraftNode], names: Names) -> DraftEdge | None:
    if table.contains is None:
        return None
    by_place = {(other.table.file, place): other for other in nodes.values() for place in other.table.at or ("",)}
    source, target = (by_place.get((table.file, place)) for place in table.contains)
    if source is None or target is None or not source.id_columns or not target.id_columns:
        return None
    source.needs_id = target.needs_id = True
    ends = (tuple(PARENT * table.depth + name for name in source.id_columns), target.id_columns)
    reason = f"each {target.name} is in a list of {source.name}"
    return DraftEdge(names.claim(type_name(f"{source.name} {table.label}")), table, source, target, ends, reason)


# The guessed schema as text, each guess with its reason.

MAX_OTHERS = 5


def schema_text(drafts: Drafts, tables: list[FoundTable], sample: int | None, others: Sequence[str]) -> str:
    """A `.pg` text. The comments say where each type and property comes from, and why it is as it is."""
    lines = [
        "// Inferred from data. Correct what is wrong, then create the graph with 'omnigraph init --schema', and load with the map",
        "// file that goes with this schema: 'omnigraph load --map-file'.",
        f"// {_sampled(tables, sample)}",
    ]
    if others:
        more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
        lines.append(f"// Ignored, because they are not data: {_inline(', '.join(others[:MAX_OTHERS]))}{more}.")
    lines.append("")
    for node in drafts.nodes:
        lines += [*_node(node), ""]
    for edge in drafts.edges:
        lines += [*_edge(edge), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sampled(tables: list[FoundTable], sample: int | None) -> str:
    cut = [table for table in tables if not table.is_whole]
    if not cut:
        return f"Based on all {sum(table.rows for table in tables if table.contains is None):,} rows."
    unseen = " Members that only later records have are left out." if any(table.is_document for table in cut) else ""
    basis = f"Based on the first {sample:,} rows of {len(cut)} of {len(tables)} tables (--sample), and on all rows of the others: later rows may not fit."
    return basis + unseen


def _node(node: DraftNode) -> Iterator[str]:
    yield f"// {_inline(node.table.origin)}: {_count(node.table.rows)}"
    keys = () if node.key is None else node.key.columns
    if node.key is None:
        ids = "their number is their id" if node.needs_id and node.table.id_column else "each gets a new id"
        yield f"// No key: no column looks like one (--key {node.name}.column); rows have no name of their own, so {ids}."
        if together := key_of_two(node.table):
            names = f"'{together[0]}' and '{together[1]}'"
            yield f"// No two rows share both {_inline(names)} (--key {node.name}.{','.join(together)})."
    others = other_keys(node.table, node.key)[:MAX_OTHERS]
    if others:
        shown = ", ".join(f"'{name}'" for name in others)
        yield f"// No two rows share {_inline(shown)} either (--key {node.name}.column, or @unique)."
    if not node.properties:
        yield f"node {node.name} {{}}"
        return
    yield f"node {node.name} {{"
    for property in node.properties:
        is_key = keys == (property.column.name,)
        reason = f"key: {node.key.reason}; {property.guess.reason}" if is_key and node.key else property.guess.reason
        yield from _property(property, reason, " @key" if is_key else "")
    if len(keys) > 1 and node.key is not None:
        members = [property.name for name in keys for property in node.properties if property.column.name == name]
        yield f"  // {_inline(node.key.reason)}"
        yield f"  @key({', '.join(members)})"
    yield "}"


def _edge(edge: DraftEdge) -> Iterator[str]:
    yield f"// {_inline(edge.table.origin)}: {_inline(edge.reason)}"
    head = f"edge {edge.name}: {edge.source_node.name} -> {edge.target_node.name}"
    if edge.key:
        unique = f"no {edge.source_node.name} has two" if edge.key == ("src",) else "no two rows have the same ends"
        yield f"// Key: {unique}, so a row that is loaded again is the same edge."
        head += f" @key({', '.join(edge.key)})"
    if not edge.properties:
        yield head
        return
    yield head + " {"
    for property in edge.properties:
        yield from _property(property, property.guess.reason, "")
    yield "}"


def _property(property: DraftProperty, reason: str, key: str) -> Iterator[str]:
    column = property.column
    missing = f"; {column.nulls:,} of {_count(column.rows)} without" if column.nulls and column.rows else ""
    yield f"  // {_inline(repr(column.name))}: {_inline(reason)}{missing}{_inline(property.remark)}"
    yield f"  {property.name}: {property.guess.type}{key}"


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _inline(text: str) -> str:
    """Text of a source inside a comment: on one line, and of characters that a file of text can hold."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown[:300]
