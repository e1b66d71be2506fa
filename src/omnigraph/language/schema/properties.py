"""One property: its type and its annotations, checked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph.language.catalog import (
    Annotation,
    Constraint,
    ConstraintKind,
    Embed,
    Family,
    Language,
    LiteralValue,
    Metric,
    Property,
)
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.schema.rules import SchemaText
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    DeclarationKind,
    NameSyntax,
    PropertySyntax,
    TypeSyntax,
)
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

# Types while they are compiled: checked, but without stable ids yet.


@dataclass(frozen=True)
class PropertyDraft:
    """`property.id` is 0 until ids are given. `constraints` are those of its own annotations."""

    property: Property
    place: Position
    constraints: tuple[Constraint, ...] = ()
    rename_from: NameSyntax | None = None


@dataclass
class TypeDraft:
    kind: DeclarationKind
    name: str
    place: Position
    properties: dict[str, PropertyDraft] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()
    rename_from: NameSyntax | None = None
    implements: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    family: Family | None = None
    min_out: int = 0
    max_out: int | None = None
    id: int = 0
    property_ids: dict[str, int] = field(default_factory=dict)
    table_id: str = ""


MAX_DIMENSION = 2**31 - 1
METRICS: tuple[Metric, ...] = ("cosine", "l2", "dot")
LANGUAGES: tuple[Language, ...] = ("english", "simple")
RESERVED_NAMES = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "_delete"}
)
ENTITY_COLUMNS = frozenset({"id", "src", "dst"})
EDGE_ENDS = frozenset({"from", "to"})


def compile_property(syntax: PropertySyntax, kind: DeclarationKind, owner: str, source: SchemaText) -> PropertyDraft:
    """The property, from its declaration alone; what depends on other properties is checked later."""
    return _PropertyRules(syntax, kind, owner, source).compile()


def shape(type: PropertyType) -> str | None:
    """ "list", "vector" or "blob" for types that few annotations apply to, None for plain values."""
    if type.is_list:
        return "list"
    if type.scalar is Scalar.VECTOR:
        return "vector"
    return "blob" if type.scalar is Scalar.BLOB else None


class _PropertyRules:
    def __init__(self, syntax: PropertySyntax, kind: DeclarationKind, owner: str, source: SchemaText) -> None:
        self.syntax = syntax
        self.kind = kind
        self.owner = owner
        self.source = source
        self.target = f"{owner}.{syntax.name}"

    def compile(self) -> PropertyDraft:
        self._check_name()
        type = self._type(self.syntax.type)
        constraints: list[Constraint] = []
        kept: list[Annotation] = []
        description: str | None = None
        default: LiteralValue | None = None
        embed: Embed | None = None
        metric: Metric | None = None
        language: Language | None = None
        rename: NameSyntax | None = None
        for annotation in self.syntax.annotations:
            match annotation.name:
                case "key" | "unique" | "index":
                    constraint = annotation
                    if annotation.name == "index" and annotation.options:
                        language, constraint = self._language(annotation, type), replace(annotation, options=())
                    constraints.append(self._constraint(annotation.name, constraint, type, constraints))
                case "range":
                    raise self.source.error("S402", annotation.place)
                case "check":
                    raise self.source.error("S403", annotation.place)
                case "card":
                    raise self.source.error("S008", annotation.place)
                case "instruction":
                    raise self.source.error("S303", annotation.place, target=self.target)
                case "description":
                    self._once(annotation, description)
                    description = text_argument(annotation, self.target, self.source)
                case "default":
                    self._once(annotation, default)
                    default = self._default(annotation, type)
                case "embed":
                    self._once(annotation, embed)
                    embed = self._embed(annotation, type)
                case "metric":
                    self._once(annotation, metric)
                    metric = self._metric(annotation, type)
                case "rename_from":
                    self._once(annotation, rename)
                    rename = rename_argument(annotation, self.target, self.source)
                case _:
                    kept.append(plain_annotation(annotation))
        compiled = Property(
            self.syntax.name,
            type,
            0,
            default=default,
            description=description,
            embed=embed,
            metric=metric or "cosine",
            language=language or "english",
            annotations=tuple(kept),
        )
        return PropertyDraft(compiled, self.syntax.place, tuple(constraints), rename)

    def _check_name(self) -> None:
        name = self.syntax.name
        if name in RESERVED_NAMES:
            raise self.source.error("S111", self.syntax.place, name=name, owner=self.owner)
        if name in ENTITY_COLUMNS or (self.kind == "edge" and name in EDGE_ENDS):
            if name == "id":
                what, kind, advice = (
                    "identity",
                    "node and edge",
                    "mark the property that identifies it with @key, or choose a name such as code",
                )
            elif name in EDGE_ENDS:
                what, kind, advice = "ends", "edge", "choose another name; from and to are the ids of an edge's nodes"
            else:
                what, kind, advice = (
                    "ends",
                    "edge",
                    "choose another name; queries read an edge's ends as from and to",
                )
            raise self.source.error("S112", self.syntax.place, name=name, owner=self.owner, what=what, kind=kind, advice=advice)  # fmt: skip

    def _type(self, type: TypeSyntax) -> PropertyType:
        if type.base == "enum":
            if not type.values:
                raise self.source.error("S204", type.place)
            twice = next((value for index, value in enumerate(type.values) if value in type.values[:index]), None)
            if twice is not None:
                raise self.source.error("S205", type.place, found=twice)
            return PropertyType(Scalar.STRING, type.nullable, enum=tuple(sorted(type.values)))
        if type.dimension is not None:
            if type.dimension == 0:
                raise self.source.error("S201", type.place)
            if type.dimension > MAX_DIMENSION:
                raise self.source.error("S202", type.place, found=type.dimension, maximum=MAX_DIMENSION)
            return PropertyType(Scalar.VECTOR, type.nullable, dimension=type.dimension)
        if type.is_list and type.base == "Blob":
            raise self.source.error("S203", type.place)
        return PropertyType(Scalar(type.base), type.nullable, type.is_list)

    def _once(self, annotation: AnnotationSyntax, seen: object) -> None:
        if seen is not None:
            raise self.source.error("S301", annotation.place, target=self.target, name=annotation.name)

    def _constraint(
        self, kind: ConstraintKind, annotation: AnnotationSyntax, type: PropertyType, seen: list[Constraint]
    ) -> Constraint:
        if any(constraint.kind == kind for constraint in seen):
            raise self.source.error("S305", annotation.place, target=self.target, name=kind)
        check_member(kind, self.syntax.name, type, self.owner, annotation, self.source)
        return Constraint(kind, (self.syntax.name,))

    def _embed(self, annotation: AnnotationSyntax, type: PropertyType) -> Embed:
        if self.kind == "edge":
            advice = "put the vector on a node type"
            raise self.source.error("S308", annotation.place, name="embed", target=self.target, advice=advice)
        if type.scalar is not Scalar.VECTOR:
            raise self.source.error("S501", annotation.place, target=self.target)
        argument = annotation.argument
        if argument is None or not isinstance(argument.value, str) or not argument.value.strip():
            raise self.source.error("S502", annotation.place, target=self.target)
        model: str | None = None
        for option in annotation.options:
            if option.name != "model":
                raise self.source.error("S505", option.place, target=self.target, option=option.name)
            if model is not None or not isinstance(option.value, str) or not option.value.strip():
                raise self.source.error("S506", option.place, target=self.target)
            model = option.value
        return Embed(argument.value, model)

    def _metric(self, annotation: AnnotationSyntax, type: PropertyType) -> Metric:
        if type.scalar is not Scalar.VECTOR:
            raise self.source.error("S507", annotation.place, target=self.target)
        argument = annotation.argument
        if argument is None or annotation.options or argument.value not in METRICS:
            raise self.source.error("S508", annotation.place, target=self.target)
        return METRICS[METRICS.index(argument.value)]

    def _language(self, annotation: AnnotationSyntax, type: PropertyType) -> Language:
        (option, *others) = annotation.options
        if annotation.argument is not None or others or option.name != "language" or option.value not in LANGUAGES:
            raise self.source.error("S509", option.place, target=self.target)
        if type.scalar is not Scalar.STRING or type.is_list or type.enum:
            raise self.source.error("S510", option.place, target=self.target)
        return LANGUAGES[LANGUAGES.index(option.value)]

    def _default(self, annotation: AnnotationSyntax, type: PropertyType) -> LiteralValue:
        bad_shape = shape(type)
        if bad_shape is not None:
            raise self.source.error("S601", annotation.place, target=self.target, shape=bad_shape)
        argument = annotation.argument
        if argument is None or annotation.options:
            raise self.source.error("S603", annotation.place, target=self.target)
        value = typed_literal(argument, type)
        if value is None:
            expected, advice = _expectation(type)
            raise self.source.error(
                "S602", argument.place, target=self.target, expected=expected, found=_shown(argument), advice=advice
            )
        return value


def check_member(
    kind: ConstraintKind, name: str, type: PropertyType, owner: str, where: AnnotationSyntax, source: SchemaText
) -> None:
    """Refuses a property whose type is not allowed in @key, @unique or @index."""
    bad_shape = shape(type)
    target = f"{owner}.{name}"
    if kind == "key":
        if bad_shape is not None:
            raise source.error("S407", where.place, target=target, shape=bad_shape)
        if type.nullable:
            raise source.error("S406", where.place, target=target)
    elif bad_shape is not None and not (kind == "index" and bad_shape == "vector"):
        advice = {
            "list": "put the items into nodes of their own, or remove it",
            "vector": "remove it; @index on a vector serves nearest()",
            "blob": "store a checksum of the Blob as a String and use that",
        }[bad_shape]
        raise source.error("S409", where.place, name=kind, target=target, shape=bad_shape, advice=advice)


def text_argument(annotation: AnnotationSyntax, target: str, source: SchemaText) -> str:
    """The value of @description or @instruction."""
    argument = annotation.argument
    if argument is None or argument.is_word or annotation.options or not isinstance(argument.value, str) or not argument.value.strip():  # fmt: skip
        raise source.error("S302", annotation.place, name=annotation.name, target=target)
    return argument.value


def rename_argument(annotation: AnnotationSyntax, target: str, source: SchemaText) -> NameSyntax:
    argument = annotation.argument
    if argument is None or annotation.options or not isinstance(argument.value, str) or not argument.value.strip():
        raise source.error("S701", annotation.place, target=target)
    return NameSyntax(argument.value, annotation.place)


def plain_annotation(annotation: AnnotationSyntax) -> Annotation:
    """An annotation without behaviour, as the catalog keeps it."""
    value = None if annotation.argument is None else annotation.argument.value
    return Annotation(annotation.name, value, tuple((option.name, option.value) for option in annotation.options))


# ---------------------------------------------------------------- defaults


def typed_literal(argument: ArgumentSyntax, type: PropertyType) -> LiteralValue | None:
    """The literal as a value of the type, or None if it is not one."""
    value = argument.value
    if type.enum:
        return value if isinstance(value, str) and value in type.enum else None
    if argument.is_word:
        return None
    is_text = type.scalar in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME)
    if isinstance(value, str) != is_text:
        return None
    try:
        typed = typed_value(value, type)
    except Unfit:
        return None
    # Dates stay as they were written.
    return typed if isinstance(typed, str | int | float) else value


def _expectation(type: PropertyType) -> tuple[str, str]:
    """What a default of this type must be, and how to write it."""
    if type.enum:
        return f"one of {', '.join(type.enum)}", "write the value as the enum declares it"
    if type.scalar.is_integer:
        low, high = INTEGER_RANGES[type.scalar]
        return f"a whole number from {low} to {high}", "write a number that fits the type"
    if type.scalar.is_float:
        return f"a number that fits {type.scalar}", "write a number such as 0.5"
    return {
        Scalar.STRING: ("a string", "write the text in double quotes"),
        Scalar.BOOL: ("true or false", "write @default(true) or @default(false)"),
        Scalar.DATE: ("a date", 'write @default("2026-01-31")'),
        Scalar.DATETIME: ("a date and time", 'write @default("2026-01-31T12:00:00Z")'),
    }[type.scalar]


def _shown(argument: ArgumentSyntax) -> str:
    if argument.is_word or not isinstance(argument.value, str):
        text = str(argument.value)
        return text.lower() if isinstance(argument.value, bool) else text
    return f'"{argument.value}"' if len(argument.value) <= 40 else f'"{argument.value[:37]}…"'
