"""What the user says about tables and columns, instead of what is guessed: `Flight=node`, `Flight.dest=Airport`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.errors import UsageError
from omnigraph.infer.columns import KEY_SCALARS
from omnigraph.infer.found_tables import FoundTable
from omnigraph.infer.relations import (
    Key,
    Reference,
    property_name,
    reference_to,
    type_name,
    without_reference_words,
    words_of,
)

NODE, EDGE, PROPERTY = "node", "edge", "property"
_IS_OF_VALUES = "each of its values is a node, as asked for with --choose"
"""How the key of a table of values is known."""


@dataclass(frozen=True)
class Choices:
    """`by_name`: `Type` is a `node` or an `edge`; `Type.column` a `property`, a `node` for each of its values, or a reference to a type.
    `takes_near`: references need not hold for every value. `has_stubs`: the nodes that others lack are made, with their key alone."""

    by_name: Mapping[str, str] = field(default_factory=dict)
    takes_near: bool = False
    has_stubs: bool = False

    def check(self, tables: Sequence[FoundTable]) -> None:
        """UsageError for a type or a column that there is not."""
        for name, choice in self.by_name.items():
            label, dot, column = name.partition(".")
            of_label = [table for table in tables if label in (table.label, type_name(table.label))]
            if not of_label:
                labels = ", ".join(type_name(table.label) for table in tables if table.contains is None)
                raise UsageError(f"there is no type '{label}' to choose for", hint=f"the types are: {labels}")
            if dot and not any(_column(table, column) for table in of_label):
                raise UsageError(
                    f"{label} has no column '{column}'", hint=f"the columns are: {', '.join(of_label[0].columns)}"
                )
            if not dot and choice not in (NODE, EDGE):
                raise UsageError(f"'{name}={choice}' chooses nothing", hint=f"{name}=node or {name}=edge")

    def is_node(self, table: FoundTable) -> bool:
        return self._of(table) == NODE

    def is_edge(self, table: FoundTable) -> bool:
        return self._of(table) == EDGE

    def _of(self, table: FoundTable) -> str | None:
        return self.by_name.get(table.label) or self.by_name.get(type_name(table.label))

    def of_column(self, table: FoundTable, column: str) -> str | None:
        return self._of_columns(table).get(column)

    def _of_columns(self, table: FoundTable) -> dict[str, str]:
        """What is said of each column."""
        chosen: dict[str, str] = {}
        if table.known_by == _IS_OF_VALUES:
            return chosen
        for name, choice in self.by_name.items():
            label, dot, column = name.partition(".")
            held = _column(table, column) if dot and label in (table.label, type_name(table.label)) else None
            if held is not None:
                chosen[held] = choice
        return chosen

    def with_value_tables(self, tables: Sequence[FoundTable]) -> list[FoundTable]:
        """With a table of the different values of each column whose values are to be nodes."""
        more = []
        for table in tables:
            for name, choice in self._of_columns(table).items():
                if choice != NODE:
                    continue
                column = table.columns[name]
                type = column.guess.type
                if type.scalar not in KEY_SCALARS or type.is_list or column.guess.format:
                    raise UsageError(
                        f"the values of {type_name(table.label)}.{name} are {type}, which cannot be a key",
                        hint="choose a column of texts or whole numbers",
                    )
                values = column.with_values(column.present.unique())
                more.append(
                    replace(
                        table,
                        label=value_label(name, table),
                        columns={name: values},
                        rows=values.rows,
                        key=(name,),
                        known_by=_IS_OF_VALUES,
                        references={},
                        composite_references=[],
                        ends=None,
                        distinct=True,
                        id_column=None,
                        left_out=set(),
                    )
                )
        return [*tables, *more]

    def chosen(
        self,
        table: FoundTable,
        references: dict[str, Reference],
        near: dict[str, Reference],
        tables: Sequence[FoundTable],
        keys: Mapping[int, Key],
    ) -> tuple[dict[str, Reference], dict[str, Reference]]:
        """The references of a table, and those that are only near."""
        taken = {**references, **(near if self.takes_near else {})}
        for name, choice in self._of_columns(table).items():
            if choice == PROPERTY:
                taken.pop(name, None)
                near = {other: reference for other, reference in near.items() if other != name}
                continue
            is_list = table.columns[name].guess.type.is_list
            if is_list and table.is_document:  # Each of its items refers to a type.
                continue
            if choice == NODE:
                choice = type_name(value_label(name, table))
            targets = [
                other
                for other in tables
                if choice in (other.label, type_name(other.label)) and other is not table and id(other) in keys
            ]
            target = targets[-1] if targets else None
            if choice == type_name(table.label) and id(table) in keys and target is None:
                target = table
            if target is None or is_list or len(keys[id(target)].columns) != 1:
                labels = ", ".join(type_name(other.label) for other in tables if id(other) in keys)
                raise UsageError(
                    f"{type_name(table.label)}.{name} cannot refer to '{choice}'",
                    hint=f"property, node, or a type with a key of one column: {labels}",
                )
            taken[name] = reference_to(name, table.columns[name], target, keys[id(target)])
        ordered = {name: taken[name] for name in table.columns if name in taken}
        return ordered, {name: reference for name, reference in near.items() if name not in taken}


def value_label(column: str, table: FoundTable) -> str:
    """What the nodes of a column's values are called: `userId` holds users."""
    return " ".join(without_reference_words(words_of(property_name(column, table.label))))


def _column(table: FoundTable, name: str) -> str | None:
    if name in table.columns:
        return name
    return next((column for column in table.columns if property_name(column, table.label) == name), None)
