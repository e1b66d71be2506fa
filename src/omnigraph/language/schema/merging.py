"""The three-way merge of schemas: what both branches declare, by stable ids, or the contradictions between them.

A declaration that one branch changed is taken from it; what both changed is merged value by value. Sets (the words of an enum,
implemented interfaces, annotations) gain what either branch added and lose what either removed. What one branch dropped is
dropped, unless the other changed it or gave it values meanwhile. If there are several bases, because merges crossed, a branch has
kept a value if one of them has it. A pure function of catalogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.errors import SchemaError
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.language.projection import wider_entity
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.declarations import ConstraintGroup, Declared, Values, declarations, to_catalog
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.printer import format_schema
from omnigraph.language.schema.stable_ids import FIRST_DERIVED_ID, ids_of
from omnigraph.language.schema.syntax import ConstraintSyntax, PropertySyntax
from omnigraph.values.types import WIDER_SCALARS

Side = Literal["ours", "theirs"]
Strategy = Literal["fail", "ours", "theirs"]
"""Which branch wins where both changed the same thing differently: neither (a conflict), the target, or the source."""

SchemaConflictKind = Literal["divergent_change", "drop_vs_change", "drop_vs_values", "name_clash", "broken_schema"]

HasNewValues = Callable[[Side, int, int | None], bool]
"""Whether a branch changed entities of a type (by id) in a property (None: in anything) since the base."""

_SETS = frozenset({"interfaces", "annotations"})
_NO_STRATEGY = frozenset({"type", "ends", "@key"})
"""Values that no strategy decides: what one branch stored may not fit the other's declaration."""
_MISSING: Any = object()


@dataclass(frozen=True)
class SchemaLine:
    """A line of a branch's schema.

    >>> statement = og.types.SchemaLine("age: I32?", 2)
    >>> assert str(statement) == "line 2: age: I32?"
    """

    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True)
class SchemaConflict:
    """One declaration that two branches changed in contradicting ways. `ours` is the line of the target's schema, `theirs` that
    of the source's; None if it has no such declaration any more.

    >>> conflict = og.types.SchemaConflict("divergent_change", "node:Person.age", "both changed it", statement, None)
    >>> assert conflict.to_json()["ours"] == {"text": "age: I32?", "line": 2}
    """

    kind: SchemaConflictKind
    entity: str
    """`node:Person`, `node:Person.age`, `edge:Knows`, `interface:Named`, or `schema`."""
    message: str
    ours: SchemaLine | None = None
    theirs: SchemaLine | None = None
    is_settled_by_strategy: bool = False
    """Whether a strategy decides it. Not if entities of one branch may not fit the other's declaration."""

    def to_json(self) -> dict[str, object]:
        """{kind, entity, message, ours?, theirs?}, the last two as {text, line}."""
        sides = {"ours": self.ours, "theirs": self.theirs}
        texts = {side: {"text": place.text, "line": place.line} for side, place in sides.items() if place is not None}
        return {"kind": self.kind, "entity": self.entity, "message": self.message, **texts}


@dataclass(frozen=True)
class SchemaMerge:
    """The merged schema, or why there is none."""

    catalog: Catalog | None
    conflicts: tuple[SchemaConflict, ...] = ()


def merge_schemas(
    bases: Sequence[Catalog],
    ours: Catalog,
    theirs: Catalog,
    *,
    strategy: Strategy = "fail",
    has_new_values: HasNewValues = lambda _side, _type, _property: False,
) -> SchemaMerge:
    """Merge two schemas: one of the two catalogs if the other adds nothing to it, otherwise a new one with printed text."""
    for side, other in ((ours, theirs), (theirs, ours)):
        if any(base.hash == side.hash for base in bases) and not _loses(side, other):
            return SchemaMerge(other)
    return _Merge(bases, ours, theirs, strategy, has_new_values).run()


def _loses(kept: Catalog, other: Catalog) -> bool:
    """Whether the other schema lacks something of this one that may have values, or records fewer drops."""
    others = other.by_id
    return not (
        ids_of(kept) <= ids_of(other)
        and {*kept.retired} <= {*other.retired}
        and {*kept.hard_dropped} <= {*other.hard_dropped}
        and not any(_narrows(entity, others.get(entity.id, entity)) for entity in kept.tables.values())
    )


def _narrows(kept: EntityType, other: EntityType) -> bool:
    """Whether some values of a type may not fit the other schema's declaration."""
    return wider_entity(kept, other) is not other


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether every value of `narrow` is one of `wide`; both are (scalar, is_list, dimension)."""
    (scalar, is_list, _), (own_scalar, own_is_list, _) = wide, narrow
    return (scalar is own_scalar or scalar in WIDER_SCALARS.get(own_scalar, ())) and (is_list or not own_is_list)


class _Merge:
    def __init__(
        self,
        bases: Sequence[Catalog],
        ours: Catalog,
        theirs: Catalog,
        strategy: Strategy,
        has_new_values: HasNewValues,
    ) -> None:
        self.catalogs: Mapping[Side, Catalog] = {"ours": ours, "theirs": theirs}
        self.bases = [declarations(base) for base in bases]
        self.sides: dict[Side, dict[int, Declared]] = {"ours": declarations(ours), "theirs": declarations(theirs)}
        self.strategy = strategy
        self.has_new_values = has_new_values
        self.conflicts: list[SchemaConflict] = []
        self.divergences: dict[_Where, list[str]] = {}
        """What the branches declare differently, and the names of the values that differ."""

    def run(self) -> SchemaMerge:
        types: dict[int, Declared] = {}
        for id in dict.fromkeys([*self.sides["ours"], *self.sides["theirs"]]):
            merged = self._type(id)
            if merged is not None:
                types[id] = merged
        self._declare_members(types)
        # Members of an edge between interfaces are declared as the first of them, which is one that both branches have.
        types = dict(sorted(types.items(), key=lambda item: self._place(*item)))
        for where, names in self.divergences.items():
            did = "changed" if where.had_base else "added"
            message = f"both branches {did} {self._entity(where)}, with a different {' and '.join(names)}"
            self._conflict("divergent_change", where, message, is_settled=not _NO_STRATEGY & set(names))
        self._check_names(types)
        self._check_uses(types)
        if self.conflicts:
            return SchemaMerge(
                None, tuple(sorted(self.conflicts, key=lambda conflict: (conflict.entity, conflict.message)))
            )
        return self._compiled(types)

    def _declare_members(self, types: dict[int, Declared]) -> None:
        """Declare a member of an edge between interfaces that only one branch has as a member that both have: what the other branch
        changed holds for it too."""
        ours, theirs = self.sides["ours"], self.sides["theirs"]
        for id, member in types.items():
            side, family = ours if id in ours else theirs, member.values.get("family")
            if family is None or (id in ours and id in theirs):
                continue
            shared = [
                other
                for other, declared in side.items()
                if declared.values.get("family") == family and other in types and other in ours and other in theirs
            ]
            if not shared:
                continue
            before, after = side[shared[0]], types[shared[0]]
            known = {values["name"]: (property_id, values) for property_id, values in member.properties.items()}
            properties: dict[int, Values] = {}
            for property_id, values in after.properties.items():
                old = before.properties.get(property_id, {}).get("name")
                if old in known:
                    own_id, own = known[old]
                    columns = tuple(dict.fromkeys([*own["columns"], *values["columns"]]))
                    fill = own["value in older entities"]
                    properties[own_id] = {**values, "columns": columns, "value in older entities": fill}
            declared = {name: value for name, value in after.values.items() if name not in ("name", "ends", "table")}
            types[id] = Declared(member.kind, {**member.values, **declared}, {}, properties)

    def _place(self, id: int, type: Declared) -> tuple[int, bool]:
        is_shared = all(id in side for side in self.sides.values())
        return ("interface", "node", "edge").index(type.kind), not is_shared and type.values.get("family") is not None

    def _compiled(self, types: Mapping[int, Declared]) -> SchemaMerge:
        ours, theirs = self.catalogs["ours"], self.catalogs["theirs"]
        used = {*ours.retired, *theirs.retired, *ids_of(ours), *ids_of(theirs)}
        retired = [id for id in used if id >= FIRST_DERIVED_ID]
        hard_dropped = {*ours.hard_dropped, *theirs.hard_dropped}
        draft = to_catalog(types, max(ours.next_id, theirs.next_id), retired, hard_dropped)
        try:
            catalog = compile_schema(format_schema(draft), None, previous=draft)
        except SchemaError as error:
            message = f"the two schemas do not fit together: {error.message}"
            return SchemaMerge(None, (SchemaConflict("broken_schema", "schema", message),))
        for side in (ours, theirs):
            known = (side.hash, side.retired, side.hard_dropped)
            if known == (catalog.hash, catalog.retired, catalog.hard_dropped):
                return SchemaMerge(side)
        return SchemaMerge(catalog)

    # ------------------------------------------------------------ types

    def _type(self, id: int) -> Declared | None:
        bases = [base[id] for base in self.bases if id in base]
        ours, theirs = self.sides["ours"].get(id), self.sides["theirs"].get(id)
        if ours is None or theirs is None:
            return self._one_sided(id, bases, ours, theirs)
        where = _Where(id, None, bool(bases))
        values = self._values(where, [base.values for base in bases], ours.values, theirs.values)
        properties: dict[int, Values] = {}
        for property_id in dict.fromkeys([*ours.properties, *theirs.properties]):
            merged = self._property(id, property_id, bases, ours, theirs)
            if merged is not None:
                properties[property_id] = merged
        constraints = self._constraints(id, bases, ours, theirs, properties)
        return Declared(ours.kind, values, constraints, properties)

    def _one_sided(
        self, id: int, bases: Sequence[Declared], ours: Declared | None, theirs: Declared | None
    ) -> Declared | None:
        """A type that only one branch has: it added it, or the other dropped it."""
        holder: Side = "ours" if ours is not None else "theirs"
        declared = ours or theirs
        assert declared is not None, "one of the branches has it"
        is_kept = self._is_kept(_Where(id, None, bool(bases)), holder, is_changed=declared not in bases)
        return declared if is_kept else None

    def _is_kept(self, where: _Where, holder: Side, *, is_changed: bool) -> bool:
        """Whether something that only one branch has is kept. If that branch changed it or gave it new values, this conflicts
        with the other's drop."""
        id = where.type_id if where.property_id is None else where.property_id
        is_hard = id in self.catalogs["theirs" if holder == "ours" else "ours"].hard_dropped
        if not where.had_base and not is_hard:
            return True
        has_values = self.has_new_values(holder, where.type_id, where.property_id)
        if not is_changed and not has_values:
            return False
        if is_hard:
            advice = "drop it there too, or declare another property instead"
            message = f"one branch dropped {self._entity(where)} for good and the other still uses it: {advice}"
            self._conflict("drop_vs_change" if is_changed else "drop_vs_values", where, message)
            return False
        if self.strategy != "fail":
            return self.strategy == holder
        kind: SchemaConflictKind = "drop_vs_change" if is_changed else "drop_vs_values"
        did = "changed its declaration" if is_changed else "gave it new values"
        message = f"one branch dropped {self._entity(where)} and the other {did}"
        self._conflict(kind, where, message, is_settled=True)
        return True

    # ------------------------------------------------------------ properties

    def _property(
        self, type_id: int, id: int, bases: Sequence[Declared], ours: Declared, theirs: Declared
    ) -> Values | None:
        known = [base for base in bases if id in base.properties]
        where = _Where(type_id, id, bool(known))
        if id in ours.properties and id in theirs.properties:
            before = [base.properties[id] for base in known]
            return self._values(where, before, ours.properties[id], theirs.properties[id])
        holder: Side = "ours" if id in ours.properties else "theirs"
        declared = ours if holder == "ours" else theirs
        is_changed = all(base.about(id) != declared.about(id) for base in known)
        return declared.properties[id] if self._is_kept(where, holder, is_changed=is_changed) else None

    def _constraints(
        self,
        type_id: int,
        bases: Sequence[Declared],
        ours: Declared,
        theirs: Declared,
        properties: Mapping[int, Values],
    ) -> dict[ConstraintGroup, Any]:
        merged: dict[ConstraintGroup, Any] = {}
        for group in dict.fromkeys([*ours.constraints, *theirs.constraints]):
            value = self._constraint(type_id, group, bases, ours, theirs)
            members = value if group[0] == "key" and value is not _MISSING else group[1]
            if value is not _MISSING and all(isinstance(member, str) or member in properties for member in members):
                merged[group] = value
        return merged

    def _constraint(
        self, type_id: int, group: ConstraintGroup, bases: Sequence[Declared], ours: Declared, theirs: Declared
    ) -> Any:
        """A constraint is dropped with its properties: if one branch dropped one of these, the other branch's constraint is used."""
        for side, other in ((ours, theirs), (theirs, ours)):
            if any(isinstance(field, int) and field not in side.properties for field in group[1]):
                return other.constraints.get(group, _MISSING)
        return self._picked(
            _Where(type_id, None, bool(bases), group),
            f"@{group[0]}",
            [base.constraints.get(group, _MISSING) for base in bases] or [_MISSING],
            ours.constraints.get(group, _MISSING),
            theirs.constraints.get(group, _MISSING),
        )

    # ------------------------------------------------------------ values

    def _values(self, where: _Where, bases: Sequence[Values], ours: Values, theirs: Values) -> dict[str, Any]:
        merged = {
            name: self._value(where, name, [base[name] for base in bases], ours[name], theirs[name])
            for name in ours
            if name != "name" or ours.get("family") is None
        }
        return {"name": ours["name"], **merged}

    def _value(self, where: _Where, name: str, bases: Sequence[Any], ours: Any, theirs: Any) -> Any:
        if name in _SETS or (name == "words" and ours and theirs and all(bases)):
            merged = _merged_sets(bases, ours, theirs)
            if merged or name != "words":
                return merged
        if name == "table" and ours != theirs:
            return ours  # Both added the type, with different columns: their rows are rewritten.
        if name == "type" and ours != theirs:
            return self._type_of_values(where, bases, ours, theirs)
        if name == "columns":
            return tuple(dict.fromkeys([*ours, *theirs]))  # What either branch stored is read.
        if name == "value in older entities" and any(base is not None for base in bases) and None in (ours, theirs):
            return theirs if ours is None else ours  # Where the one branch has no older entities, the other may.
        return self._picked(where, name, bases, ours, theirs)

    def _type_of_values(self, where: _Where, bases: Sequence[Any], ours: Any, theirs: Any) -> Any:
        """The type of a property. Types only become wider; one that a reset or a revert made narrower again may not fit the other
        side's values."""
        picked = self._picked(where, "type", bases, ours, theirs)
        is_decided = "type" not in self.divergences.get(where, ())
        if is_decided and not all(_holds(picked, side) for side in (ours, theirs)):
            message = f"one side made {self._entity(where)} narrower, and values of the other may not fit"
            self._conflict("divergent_change", where, message)
        return picked

    def _picked(self, where: _Where, name: str, bases: Sequence[Any], ours: Any, theirs: Any) -> Any:
        """The value of the branch that changed it."""
        kept = {"ours": ours in bases, "theirs": theirs in bases}
        if ours == theirs or kept["theirs"] > kept["ours"]:
            return ours
        if kept["ours"] > kept["theirs"]:
            return theirs
        if self.strategy != "fail" and name not in _NO_STRATEGY:
            return ours if self.strategy == "ours" else theirs
        self.divergences.setdefault(where, []).append(name)
        return ours

    # ------------------------------------------------------------ the whole

    def _check_names(self, types: Mapping[int, Declared]) -> None:
        """Finds types of a kind, and properties of a type, with the same name: a strategy cannot choose between them."""
        self._check_unique(
            (_Where(id, None), _namespace(type.kind), str(type.values["name"])) for id, type in types.items()
        )
        for id, merged in types.items():
            self._check_unique(
                (_Where(id, property_id), "property", str(values["name"]))
                for property_id, values in merged.properties.items()
            )

    def _check_unique(self, names: Iterator[tuple[_Where, str, str]]) -> None:
        seen: dict[tuple[str, str], _Where] = {}
        for where, space, name in names:
            # Case is ignored for edges in queries, and for properties in SQL.
            key = (space, name if space == "type" else name.lower())
            first = seen.setdefault(key, where)
            if first is not where:
                entity = self._entity(where)
                message = f"the branches have different things named {entity}: rename one of them"
                ours, theirs = self._statement("ours", first), self._statement("theirs", where)
                self.conflicts.append(SchemaConflict("name_clash", entity, message, ours, theirs))

    def _check_uses(self, types: Mapping[int, Declared]) -> None:
        """Finds types that one branch dropped and the other still uses."""
        for id, type in types.items():
            for used in (*type.values.get("ends", ()), *type.values.get("interfaces", ())):
                if used not in types:
                    where, gone = _Where(id, None), _Where(used, None)
                    message = f"one branch dropped {self._entity(gone)}, which {self._entity(where)} of the other uses"
                    self._conflict("drop_vs_change", where, message)

    # ------------------------------------------------------------ words

    def _conflict(self, kind: SchemaConflictKind, where: _Where, message: str, *, is_settled: bool = False) -> None:
        ours, theirs = self._statement("ours", where), self._statement("theirs", where)
        self.conflicts.append(SchemaConflict(kind, self._entity(where), message, ours, theirs, is_settled))

    def _entity(self, where: _Where) -> str:
        """Its name in ours if ours has it, otherwise in theirs or in a base."""
        for types in (*self.sides.values(), *self.bases):
            declared = types.get(where.type_id)
            if declared is not None and (where.property_id is None or where.property_id in declared.properties):
                name = f"{declared.kind}:{declared.values['name']}"
                return name if where.property_id is None else f"{name}.{declared.properties[where.property_id]['name']}"
        raise AssertionError("what is named is declared somewhere")

    def _statement(self, side: Side, where: _Where) -> SchemaLine | None:
        declared = self.sides[side].get(where.type_id)
        if declared is None or (where.property_id is not None and where.property_id not in declared.properties):
            return None
        return _statement(self.catalogs[side].source, declared, where)


@dataclass(frozen=True)
class _Where:
    """What is merged: a type, one of its properties, or a group of its constraints."""

    type_id: int
    property_id: int | None
    had_base: bool = False
    constraints: ConstraintGroup | None = None


def _namespace(kind: str) -> str:
    return "edge" if kind == "edge" else "type"


def _merged_sets(bases: Sequence[frozenset[Any]], ours: frozenset[Any], theirs: frozenset[Any]) -> frozenset[Any]:
    """The set with what either side added and without what either removed."""
    base: frozenset[Any] = frozenset().union(*bases)
    return (ours & theirs) | ((ours | theirs) - base)


def _statement(source: str, declared: Declared, where: _Where) -> SchemaLine | None:
    """The line of a schema's text that declares something; for an inherited property, that of the type."""
    for declaration in parse_schema(source).declarations:
        kind = type(declaration).__name__.removesuffix("Syntax").lower()
        if (kind, declaration.name) != (declared.kind, declared.values["name"]):
            continue
        place = declaration.place
        for member in declaration.members:
            if _is_about(member, declared, where):
                place = member.place
        return SchemaLine(source.splitlines()[place.line - 1].strip(), place.line)
    return None


def _is_about(member: PropertySyntax | ConstraintSyntax, declared: Declared, where: _Where) -> bool:
    if isinstance(member, PropertySyntax):
        ids = (where.property_id,) if where.constraints is None else where.constraints[1]
        return member.name in [declared.properties[id]["name"] for id in ids if isinstance(id, int)]
    return where.constraints is not None and member.kind == where.constraints[0]
