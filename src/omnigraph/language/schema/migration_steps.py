"""The steps of a schema migration: what changes, what applying it costs, and how dangerous it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, cast, get_args

from omnigraph.language.catalog import Constraint, Language, LiteralValue, Metric
from omnigraph.language.catalog_json import constraint_from_json, constraint_json
from omnigraph.values.types import PropertyType, Scalar

TypeKind = Literal["interface", "node", "edge"]
DropMode = Literal["soft", "hard"]
Effect = Literal["metadata", "rewrite", "validate", "refused"]
"""What applying a step does with rows: nothing, rewrite them, or check them first; or it cannot be applied."""
Tier = Literal["safe", "validated", "destructive"]


@dataclass(frozen=True)
class MigrationCode:
    code: str
    tier: Tier
    meaning: str


_CODES: tuple[tuple[str, Tier, str], ...] = (
    ("OG-DS-102", "destructive", "drop a node type"),
    ("OG-DS-103", "destructive", "drop an edge type"),
    ("OG-DS-104", "destructive", "drop a property"),
    ("OG-DS-105", "destructive", "drop a vector property"),
    ("OG-MF-103", "validated", "add a required property"),
    ("OG-MF-104", "validated", "make a nullable property required"),
    ("OG-MF-105", "validated", "I64 or U64 to F64, where not every number is exact"),
    ("OG-MF-106", "validated", "narrow an enum, String to enum; refused: any other change of a property's type"),
    ("OG-MF-107", "validated", "add @unique to existing rows"),
    ("OG-MF-108", "validated", "add or narrow @range on existing rows"),
    ("OG-MF-109", "validated", "add @check to existing rows"),
    ("OG-MF-112", "validated", "add @key to an edge type, or change its members: its edges get other ids"),
    ("OG-CD-101", "safe", "remove @unique"),
    ("OG-CD-102", "safe", "remove @range"),
    ("OG-CD-103", "safe", "remove @check"),
    ("OG-CD-104", "safe", "remove @index"),
    ("OG-CD-105", "destructive", "remove @key from a node type"),
    ("OG-CD-106", "safe", "remove @key from an edge type: its edges keep their ids"),
    (
        "OG-BC-101",
        "destructive",
        "add @key to a node type, change its members, or change how their values identify an entity",
    ),
    ("OG-ED-101", "destructive", "change the endpoint types of an edge"),
    ("OG-ED-102", "validated", "narrow the cardinality of an edge"),
)

MIGRATION_CODES: dict[str, MigrationCode] = {code: MigrationCode(code, tier, meaning) for code, tier, meaning in _CODES}
"""Every code a step can carry; the documentation prints this table."""


@dataclass(frozen=True)
class _Step:
    """What one step does. Each has a `line` for readers."""

    kind: ClassVar[str]
    """The name of the class, in the words of JSON: `add_type`."""
    effect: Effect = "metadata"
    code: str | None = None

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def tier(self) -> Tier:
        return "safe" if self.code is None else MIGRATION_CODES[self.code].tier


def constraint_text(constraint: Constraint) -> str:
    """`@unique(a, b)`, `@range(age, 0..150)` ..."""
    names = ", ".join(constraint.fields)
    if constraint.kind == "range":
        low = "" if constraint.minimum is None else constraint.minimum
        high = "" if constraint.maximum is None else constraint.maximum
        return f"@range({names}, {low}..{high})"
    if constraint.pattern is not None:
        return f'@check({names}, "{constraint.pattern}")'
    return f"@{constraint.kind}({names})"


@dataclass(frozen=True, kw_only=True)
class AddType(_Step):
    type_kind: TypeKind
    name: str

    def line(self) -> str:
        return f"add {_noun(self.type_kind)} '{self.name}'"


@dataclass(frozen=True, kw_only=True)
class RenameType(_Step):
    type_kind: TypeKind
    from_: str
    to: str

    def line(self) -> str:
        return f"rename {_noun(self.type_kind)} '{self.from_}' -> '{self.to}'"


@dataclass(frozen=True, kw_only=True)
class AddProperty(_Step):
    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropertyType
    default: LiteralValue | None = None

    def line(self) -> str:
        is_filled = self.default is not None and not self.property_type.nullable
        filled = f", {self.default!r} in every row" if is_filled and self.type_kind != "interface" else ""
        target = f"'{self.type_name}.{self.property_name}' ({self.property_type})"
        return f"add property {target} to {self.type_kind} '{self.type_name}'{filled}"


@dataclass(frozen=True, kw_only=True)
class RenameProperty(_Step):
    type_kind: TypeKind
    type_name: str
    from_: str
    to: str

    def line(self) -> str:
        name = self.type_name
        return f"rename property '{name}.{self.from_}' -> '{name}.{self.to}' on {self.type_kind} '{name}'"


@dataclass(frozen=True, kw_only=True)
class _PropertyChange(_Step):
    type_kind: TypeKind
    type_name: str
    property_name: str

    def where(self) -> str:
        return f"'{self.type_name}.{self.property_name}'"

    def on(self) -> str:
        return f"on {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, kw_only=True)
class WidenProperty(_PropertyChange):
    from_: PropertyType
    to: PropertyType

    def line(self) -> str:
        return f"widen property {self.where()} from {self.from_} to {self.to} {self.on()}"


@dataclass(frozen=True, kw_only=True)
class RequireProperty(_PropertyChange):
    def line(self) -> str:
        return f"make property {self.where()} required {self.on()}"


@dataclass(frozen=True, kw_only=True)
class RelaxProperty(_PropertyChange):
    def line(self) -> str:
        return f"make property {self.where()} nullable {self.on()}"


@dataclass(frozen=True, kw_only=True)
class ExtendEnum(_PropertyChange):
    added_values: tuple[str, ...]

    def line(self) -> str:
        if not self.added_values:
            return f"allow every text in {self.where()} {self.on()}"
        return f"extend enum {self.where()} ({', '.join(f'+{value}' for value in self.added_values)}) {self.on()}"


@dataclass(frozen=True, kw_only=True)
class NarrowEnum(_PropertyChange):
    allowed: tuple[str, ...]
    removed_values: tuple[str, ...] = ()
    added_values: tuple[str, ...] = ()

    def line(self) -> str:
        if not self.removed_values:
            return f"allow only {', '.join(self.allowed)} in {self.where()} {self.on()}"
        changes = [*(f"-{value}" for value in self.removed_values), *(f"+{value}" for value in self.added_values)]
        return f"narrow enum {self.where()} ({', '.join(changes)}) {self.on()}"


@dataclass(frozen=True, kw_only=True)
class UpdatePropertyMetadata(_PropertyChange):
    """`changed` names what is new: description, default, metric, language, embed, annotations, declaration (in
    the type itself or in an interface)."""

    changed: tuple[str, ...]
    description: str | None = None
    default: LiteralValue | None = None
    metric: Metric = "cosine"
    language: Language = "english"

    def line(self) -> str:
        return f"update {' and '.join(self.changed)} of property {self.where()} {self.on()}"


@dataclass(frozen=True, kw_only=True)
class UpdateTypeMetadata(_Step):
    type_kind: TypeKind
    name: str
    changed: tuple[str, ...]
    description: str | None = None
    instruction: str | None = None

    def line(self) -> str:
        return f"update {' and '.join(self.changed)} of {_noun(self.type_kind)} '{self.name}'"


@dataclass(frozen=True, kw_only=True)
class ChangeInterfaces(_Step):
    name: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def line(self) -> str:
        changes = [*(f"-{name}" for name in self.removed), *(f"+{name}" for name in self.added)]
        return f"change interfaces of node type '{self.name}' ({', '.join(changes)})"


@dataclass(frozen=True, kw_only=True)
class ChangeCardinality(_Step):
    name: str
    from_: str
    to: str

    def line(self) -> str:
        return f"change cardinality of edge type '{self.name}' from {self.from_} to {self.to}"


@dataclass(frozen=True, kw_only=True)
class AddConstraint(_Step):
    type_kind: TypeKind
    type_name: str
    constraint: Constraint

    def line(self) -> str:
        return f"add constraint {constraint_text(self.constraint)} to {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, kw_only=True)
class RemoveConstraint(_Step):
    type_kind: TypeKind
    type_name: str
    constraint: Constraint

    def line(self) -> str:
        return f"remove constraint {constraint_text(self.constraint)} from {self.type_kind} '{self.type_name}'"


@dataclass(frozen=True, kw_only=True)
class DropProperty(_PropertyChange):
    mode: DropMode

    def line(self) -> str:
        return f"drop property {self.where()} of {self.type_kind} '{self.type_name}' ({self.mode} mode)"


@dataclass(frozen=True, kw_only=True)
class DropType(_Step):
    type_kind: TypeKind
    name: str
    mode: DropMode

    def line(self) -> str:
        return f"drop {_noun(self.type_kind)} '{self.name}' ({self.mode} mode)"


@dataclass(frozen=True, kw_only=True)
class UnsupportedChange(_Step):
    """Makes the whole plan unsupported. `entity` is `node:T`, `edge:E`, `interface:I` or `node:T.p`."""

    effect: Effect = "refused"
    entity: str
    reason: str
    advice: str | None = None

    def line(self) -> str:
        advice = f"; {self.advice}" if self.advice else ""
        return f"unsupported change on {self.entity} [{self.code}, {self.tier}]: {self.reason}{advice}"


MigrationStep = (
    RenameType
    | AddType
    | RenameProperty
    | AddProperty
    | WidenProperty
    | ExtendEnum
    | ChangeInterfaces
    | RelaxProperty
    | RequireProperty
    | NarrowEnum
    | ChangeCardinality
    | RemoveConstraint
    | AddConstraint
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | DropProperty
    | DropType
    | UnsupportedChange
)

STEP_ORDER: tuple[type[_Step], ...] = get_args(MigrationStep)
"""The order of a plan: renames first, then additions, then stricter rules, then drops."""


def _noun(kind: TypeKind) -> str:
    return "interface" if kind == "interface" else f"{kind} type"


# The steps of a schema change as JSON, and back.

_STEPS = {step.kind: step for step in STEP_ORDER}
_CORE = re.compile(
    r"(?P<open>\[)?(?:enum\((?P<enum>[^)]*)\)|Vector\((?P<dimension>\d+)\)|(?P<scalar>\w+))\]?(?P<nullable>\?)?"
)


def step_json(step: MigrationStep) -> dict[str, Any]:
    """Every field of a step that is set, and its kind, effect, tier and code."""
    value: dict[str, Any] = {"kind": step.kind}
    for field in fields(step):
        content = getattr(step, field.name)
        if content is not None and field.name not in ("effect", "code"):
            value[field.name.rstrip("_")] = _content(content)
    value |= {"effect": step.effect, "tier": step.tier}
    return value if step.code is None else value | {"code": step.code}


def _content(content: Any) -> Any:
    if isinstance(content, PropertyType):
        return str(content)
    if isinstance(content, Constraint):
        return constraint_json(content)
    return list(content) if isinstance(content, tuple) else content


def step_from_json(value: Mapping[str, Any]) -> MigrationStep:
    """The step that `step_json` wrote."""
    kind = _STEPS[value["kind"]]
    arguments = {}
    for field in fields(kind):
        name = field.name.rstrip("_")
        if name in value:
            arguments[field.name] = _from_content(value[name], str(field.type))
    return cast(MigrationStep, kind(**arguments))


def _from_content(content: Any, annotation: str) -> Any:
    if annotation == "PropertyType":
        return property_type(content)
    if annotation == "Constraint":
        return constraint_from_json(content)
    return tuple(content) if isinstance(content, list) else content


def property_type(text: str) -> PropertyType:
    """The type that a text like `str(type)` denotes. ValueError for any other text."""
    parsed = _CORE.fullmatch(text)
    if parsed is None:
        raise ValueError(f"{text!r} is not the type of a property")
    scalar = Scalar.VECTOR if parsed["dimension"] else Scalar.STRING if parsed["enum"] else Scalar(parsed["scalar"])
    return PropertyType(
        scalar,
        nullable=parsed["nullable"] is not None,
        is_list=parsed["open"] is not None,
        enum=tuple(parsed["enum"].split(", ")) if parsed["enum"] else (),
        dimension=int(parsed["dimension"]) if parsed["dimension"] else None,
    )
