"""From tables to types: nodes with keys and properties, edges between them, and what of each file is which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.errors import UsageError
from omnigraph.pipeline.infer.choices import Choices
from omnigraph.pipeline.infer.columns import Guess, SampledColumn
from omnigraph.pipeline.infer.found_tables import FoundTable
from omnigraph.pipeline.infer.naming import Names, property_name, property_names, type_name, words_of
from omnigraph.pipeline.infer.relations import (
    Key,
    Reference,
    asked_keys,
    ends_of,
    key_of,
    near_references,
    references_of,
)
from omnigraph.pipeline.load.mapping import MappedSource
from omnigraph.records.documents import NUMBER, PARENT
from omnigraph.records.picking import Picked
from omnigraph.values.types import PropertyType, Scalar

MIN_REPEATS, MIN_VALUES = 20, 13
"""A text that comes so often, of so many, may be a node; fewer are an enum."""


@dataclass
class DraftProperty:
    name: str
    column: SampledColumn
    guess: Guess
    remark: str = ""
    """What else is to be said of the column."""


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
    edges += [edge for table in tables if (edge := _containment(table, nodes, names)) is not None]
    if not nodes:
        raise UsageError("there is nothing to infer a schema from", hint="give files with at least a header")
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
            hint=f"--choose {type_name(table.label)}.column=Type says which column refers to which type",
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


def _edge_words(column: str, target: DraftNode) -> list[str]:
    words = words_of(column)
    key = words_of(target.id_columns[0]) if len(target.id_columns) == 1 else []
    if words == key:
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
            and guess.type.scalar is Scalar.STRING
        ):
            remark += (
                f"; each value comes {len(column.present) / count:,.0f} times (--choose {owner}.{name}=node: a node)"
            )
        properties.append(DraftProperty(chosen, column, guess, remark))
    return properties


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
