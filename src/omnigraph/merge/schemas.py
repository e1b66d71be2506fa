"""Merges the schemas of two branches, before any rows: all snapshots are then read under the merged schema.

No rows are rewritten. The merged schema knows the columns in which either branch stores a property, so a table version that was
written under any of the schemas can be read under the merged one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.changes.equality import aligned, equal_values
from omnigraph.changes.stored_rows import chunk_rows, typed_rows_at
from omnigraph.changes.table_diff import DELETE, INSERT, SAME, ComparedPair
from omnigraph.language.catalog import Catalog, EdgeType, EntityType
from omnigraph.language.projection import wider_entity
from omnigraph.language.schema.merging import SchemaConflict, Side, Strategy, merge_schemas
from omnigraph.merge.bases import Bases, Differences, state_of, type_rows
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class MergedSchema:
    """The merged schema's hash and catalog, which may not be stored yet; or the conflicts."""

    hash: str
    catalog: Catalog
    conflicts: tuple[SchemaConflict, ...] = ()

    def view(self, view: View, base: View | None = None) -> View:
        """A snapshot read under this schema. A type that the snapshot dropped and the merge keeps has the rows of `base`."""
        if view.snapshot.schema == self.hash:
            return view
        tables = {}
        for entity in self.catalog.tables.values():
            holder = view if base is None or entity.id in view.catalog.by_id else base
            state = state_of(holder, entity.id)
            if state is not None:
                tables[entity.table_key] = state
        return view.repository.view(replace(view.snapshot, schema=self.hash, tables=tables))

    def has_rules_beyond(self, catalog: Catalog) -> bool:
        """Whether rows that satisfy the rules of another schema may break one of these."""
        known = catalog.by_id
        return any(
            _rules(self.catalog, entity) != _rules(catalog, known[entity.id])
            for entity in self.catalog.tables.values()
            if entity.id in known
        )


def merged_schema(bases: Bases, ours: View, theirs: View, strategy: Strategy, differences: Differences) -> MergedSchema:
    if ours.snapshot.schema == theirs.snapshot.schema:
        return MergedSchema(ours.snapshot.schema, ours.catalog)
    values = _NewValues(bases, {"ours": ours, "theirs": theirs}, differences)
    merge = merge_schemas(
        [view.catalog for view in bases.views],
        ours.catalog,
        theirs.catalog,
        strategy=strategy,
        has_new_values=values.has,
    )
    if merge.catalog is None:
        return MergedSchema(ours.snapshot.schema, ours.catalog, merge.conflicts)
    for side in (ours, theirs):
        if merge.catalog is side.catalog:
            return MergedSchema(side.snapshot.schema, side.catalog)
    return MergedSchema(ours.repository.hold_catalog(merge.catalog), merge.catalog)


@dataclass(frozen=True)
class _NewValues:
    """What the branches wrote since they diverged, each under its own schema."""

    bases: Bases
    sides: dict[Side, View]
    differences: Differences

    def has(self, side: Side, type_id: int, property_id: int | None) -> bool:
        """Whether a branch inserted entities of a type, or changed them, with a value of a property."""
        return any(
            self._is_written(base, self.sides[side], type_id, property_id)
            for base in self.bases.views
            if type_id in base.catalog.by_id
        )

    def _is_written(self, base: View, view: View, type_id: int, property_id: int | None) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        before, after = type_rows(base, type_id), type_rows(view, type_id)
        assert before is not None, "both have the type"
        assert after is not None, "both have the type"
        rows = self.differences.of(ComparedPair(before, after))
        rows = rows.filter(pc.invert(pc.is_in(rows.column("op"), pa.array([DELETE, SAME], pa.int8()))))
        if property_id is None:
            return bool(rows.num_rows)
        (name,) = (property.name for property in after.entity.properties.values() if property.id == property_id)
        entity = wider_entity(before.entity, after.entity)
        step = chunk_rows(before.table, after.table)
        for start in range(0, rows.num_rows, step):
            chunk = rows.slice(start, step)
            old = typed_rows_at(before, chunk.column("before"), entity)
            new = typed_rows_at(after, chunk.column("after"), entity)
            if _has_other_values(chunk, old, new, name):
                return True
        return False


def _has_other_values(changes: pa.Table, old: pa.Table, new: pa.Table, name: str) -> bool:
    """Whether a value changed, or a new entity has a value."""
    import pyarrow.compute as pc

    inserted = changes.filter(pc.equal(changes.column("op"), INSERT)).column("id").combine_chunks()
    if aligned(new, inserted).column(name).null_count < len(inserted):
        return True
    kept = changes.filter(pc.not_equal(changes.column("op"), INSERT)).column("id").combine_chunks()
    return not equal_values(aligned(old, kept).column(name), aligned(new, kept).column(name)).all()


def _rules(catalog: Catalog, entity: EntityType) -> tuple[object, ...]:
    """The rules for a row of a type, independent of names. They include which properties are floats: a number must stay exact."""
    ids = {name: str(property.id) for name, property in entity.properties.items()}
    types = {property.id: property.type for property in entity.properties.values()}
    values = {(id, type.nullable, type.enum) for id, type in types.items() if type.enum or not type.nullable}
    constraints = {
        (
            constraint.kind,
            frozenset(ids.get(name, name) for name in constraint.fields),
            constraint.minimum,
            constraint.maximum,
            constraint.pattern,
        )
        for constraint in entity.constraints
        if constraint.kind != "index"
    }
    floats = {id for id, type in types.items() if type.scalar.is_float}
    if not isinstance(entity, EdgeType):
        return values, constraints, floats
    return (
        values,
        constraints,
        floats,
        entity.min_out,
        entity.max_out,
        tuple(node.id for _, _, node in catalog.ends(entity)),
    )
