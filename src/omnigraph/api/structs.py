"""Declarations of JSON objects: what is encoded, described and decoded is written down once.

    class TotalsJson(Struct, of="Totals"):
        files: Count
        bytes: Count

From the annotations come `TotalsJson.to_json(totals)`, `TotalsJson.from_json(members)`, its JSON schema for OpenAPI, and the text
`{files, bytes}` of a help page. A member is read from the attribute of its name unless `at` says otherwise. `X | None` is a member
that may be null, and `maybe` one that may be left out; where the value is None, a struct with `nulls` has null, and any other leaves the
member out. Declarations import nothing of what they describe: a help page loads no engine.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from omnigraph.values.arrow import JsonValue, Value

JsonObject: TypeAlias = dict[str, Any]
Schema: TypeAlias = dict[str, Any]


def present(members: Mapping[str, Any]) -> JsonObject:
    """The object without the members that are null."""
    return {name: value for name, value in members.items() if value is not None}


def value_json(value: Value) -> JsonValue:
    """A property's value: dates and instants as ISO text, bytes as base64, integers that a float cannot hold as text."""
    from omnigraph.values.json_values import json_value

    result: JsonValue = json_value(value)
    return result


# Pieces of JSON schemas.

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANY_OBJECT: Schema = {"type": "object"}
MICROSECONDS: Schema = {"type": "integer", "description": "Microseconds since 1970, UTC."}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def enum(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    if isinstance(schema.get("type"), str):
        or_null = {**schema, "type": [schema["type"], "null"]}
        return {**or_null, "enum": [*schema["enum"], None]} if "enum" in schema else or_null
    return {"anyOf": [schema, {"type": "null"}]}


def shape(
    required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, *, closed: bool = False
) -> Schema:
    """An object: members that are always there, and those that may be left out. A closed one has no others."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False} if closed else schema


# The kinds of members.


@dataclasses.dataclass(frozen=True, eq=False)
class As:
    """In `Annotated`: the JSON schema of a kind, where it is not that of its type."""

    schema: Schema


Count: TypeAlias = Annotated[int, As(COUNT)]
Microseconds: TypeAlias = Annotated[int, As(MICROSECONDS)]
EntityKind: TypeAlias = Annotated[str, As(ref("EntityKindOutput"))]
_SCHEMAS: Mapping[object, Schema] = {str: TEXT, int: INTEGER, float: NUMBER, bool: FLAG, Any: ANY_OBJECT}

Reader: TypeAlias = str | Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class _Source:
    """Where a member comes from, how what is read becomes JSON and the reverse, and whether it may be left out."""

    reader: Reader | None = None
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None
    is_optional: bool = False
    leaves_out_empty: bool = False


def at(reader: Reader, encode: Callable[[Any], Any] | None = None, decode: Callable[[Any], Any] | None = None) -> Any:
    """A member that is read from another attribute (`ref.seq`), or by a function of the value."""
    return _Source(reader, encode, decode)


def maybe(
    reader: Reader | None = None, encode: Callable[[Any], Any] | None = None, decode: Callable[[Any], Any] | None = None
) -> Any:
    """A member that is left out when its value is None."""
    return _Source(reader, encode, decode, is_optional=True)


def unless_empty(
    reader: Reader | None = None, encode: Callable[[Any], Any] | None = None, decode: Callable[[Any], Any] | None = None
) -> Any:
    """A member that is left out when its value is None, False, 0 or holds nothing."""
    return _Source(reader, encode, decode, is_optional=True, leaves_out_empty=True)


class Struct:
    """One JSON object. `of` is the class whose values it shows, by its name in `omnigraph.types`. `component` names it in OpenAPI; a struct `in_full` is described
    member by member where it has no such name, any other as some object. `nulls`: members that are None are null. `brief`: a help page
    that has it as a member only names it. `renamed`: members of the base class that have another name here."""

    _of: ClassVar[str] = ""
    _component: ClassVar[str | None] = None
    _in_full: ClassVar[bool] = True
    _nulls: ClassVar[bool] = False
    _brief: ClassVar[bool] = False
    _renamed: ClassVar[Mapping[str, str]] = {}
    _known: ClassVar[tuple[_Member, ...]]

    def __init_subclass__(
        cls,
        of: str | None = None,
        component: str | None = None,
        in_full: bool = True,
        nulls: bool = False,
        brief: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        cls._of = of or cls._of
        cls._component, cls._in_full, cls._nulls, cls._brief = component, in_full, nulls, brief
        cls._renamed = {**cls._renamed, **(renamed or {})}

    @classmethod
    def _members(cls) -> tuple[_Member, ...]:
        """Worked out when they are first used."""
        if "_known" not in cls.__dict__:
            cls._known = tuple(
                _member(cls._renamed.get(name, name), hint, getattr(cls, name, None), name)
                for name, hint in typing.get_type_hints(cls, include_extras=True).items()
                if not name.startswith("_")
            )
        return cls._known

    @classmethod
    def to_json(cls, value: Any, /, **extra: Any) -> JsonObject:
        """The members of a value; `extra` are those that it does not have itself."""
        members: JsonObject = {}
        for member in cls._members():
            item = extra[member.name] if member.name in extra else member.read(value)
            if item or (item is not None and not member.leaves_out_empty):
                members[member.name] = item if member.encode is None else member.encode(item)
            elif cls._nulls and not member.is_optional:
                members[member.name] = None
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any], /, **extra: Any) -> Any:
        """What has these members, as the library has it; `extra` are attributes that they do not tell. What is left out has the default
        of the class, or is None."""
        value_class = getattr(importlib.import_module("omnigraph.types"), cls._of)
        attributes = {member.attribute: member for member in cls._members() if member.name in members}
        for field in dataclasses.fields(value_class):
            if field.name in extra or not field.init:
                continue
            if (member := attributes.get(field.name)) is not None:
                item = members[member.name]
                extra[field.name] = item if member.decode is None else member.decode(item)
            elif field.default is field.default_factory:  # it has neither
                extra[field.name] = None
        return value_class(**extra)

    @classmethod
    def json_schema(cls) -> Schema:
        """Its JSON schema: members that are always there, then those that may be left out."""
        members = cls._members()
        return shape(
            {member.name: member.schema for member in members if not member.is_optional},
            {member.name: member.schema for member in members if member.is_optional},
        )

    @classmethod
    def described(cls) -> str:
        """As a help page shows it: `{name, other?: [{...}]}`."""
        return f"{{{', '.join(member.text(keeps_nulls=cls._nulls) for member in cls._members())}}}"


@dataclasses.dataclass(frozen=True)
class _Member:
    name: str
    hint: Any
    read: Callable[[Any], Any]
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None
    attribute: str
    """Of the class: decoded members are fields of it."""
    is_optional: bool
    is_nullable: bool
    leaves_out_empty: bool

    @property
    def schema(self) -> Schema:
        return _schema(self.hint)

    def text(self, *, keeps_nulls: bool) -> str:
        mark = "?" if self.is_optional or (self.is_nullable and not keeps_nulls) else ""
        detail = _text(self.hint)
        return f"{self.name}{mark}: {detail}" if detail else f"{self.name}{mark}"


def _member(name: str, hint: Any, source: Any, attribute: str) -> _Member:
    source = source if isinstance(source, _Source) else _Source()
    reader = attribute if source.reader is None else source.reader
    return _Member(
        name,
        hint,
        _getter(reader),
        source.encode or _encoder(hint),
        source.decode or _decoder(hint),
        reader if isinstance(reader, str) else attribute,
        source.is_optional,
        type(None) in typing.get_args(hint),
        source.leaves_out_empty,
    )


def _getter(reader: Reader) -> Callable[[Any], Any]:
    if not isinstance(reader, str):
        return reader
    names = reader.split(".")

    def get(value: Any) -> Any:
        for name in names:
            value = value.get(name) if isinstance(value, dict) else getattr(value, name)
        return value

    return get


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...], Schema | None]:
    """What a kind is made of, and the schema that it carries. A kind that may be null is that kind."""
    if typing.get_origin(hint) is Annotated:
        inner, shown = typing.get_args(hint)
        origin, arguments, _ = _parts(inner)
        return origin, arguments, shown.schema
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (inner,) = (part for part in typing.get_args(hint) if part is not type(None))
        return _parts(inner)
    return typing.get_origin(hint) or hint, typing.get_args(hint), None


def _list_of(convert: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _tuple_of(convert: Callable[[Any], Any], values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(convert(value) for value in values)


def _dict_of(convert: Callable[[Any], Any], values: Mapping[str, Any]) -> JsonObject:
    return {name: convert(value) for name, value in values.items()}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _encoder(hint: Any) -> Callable[[Any], Any] | None:
    """What makes JSON of a value; None if it is JSON as it is."""
    kind, arguments, _ = _parts(hint)
    if _is_struct(kind):
        json: Callable[[Any], Any] = kind.to_json
        return json
    if kind is list:
        convert = _encoder(arguments[0])
        return list if convert is None else functools.partial(_list_of, convert)
    if kind is dict:
        convert = _encoder(arguments[1])
        return dict if convert is None else functools.partial(_dict_of, convert)
    return None


def _decoder(hint: Any) -> Callable[[Any], Any] | None:
    kind, arguments, _ = _parts(hint)
    if _is_struct(kind):
        return lambda members: None if members is None else kind.from_json(members)
    if kind is list:
        convert = _decoder(arguments[0])
        return tuple if convert is None else functools.partial(_tuple_of, convert)
    if kind is dict:
        convert = _decoder(arguments[1])
        return None if convert is None else functools.partial(_dict_of, convert)
    return None


def _schema(hint: Any) -> Schema:
    kind, arguments, shown = _parts(hint)
    if shown is not None:
        schema = shown
    elif _is_struct(kind):
        schema = ref(kind._component) if kind._component else kind.json_schema() if kind._in_full else ANY_OBJECT
    elif kind is list:
        schema = array(_schema(arguments[0]))
    elif kind is dict:
        item = _schema(arguments[1])
        is_object = item == ANY_OBJECT or _is_struct(_parts(arguments[1])[0])
        schema = ANY_OBJECT if is_object else {**ANY_OBJECT, "additionalProperties": item}
    elif kind is Literal:
        schema = enum(*arguments)
    else:
        schema = _SCHEMAS[kind]
    return nullable(schema) if type(None) in typing.get_args(hint) else schema


def _text(hint: Any) -> str:
    kind, arguments, _ = _parts(hint)
    if _is_struct(kind):
        return "" if kind._brief else kind.described()
    if kind is list:
        inner = _text(arguments[0])
        return f"[{inner}]" if inner else ""
    if kind is dict:
        inner = _text(arguments[1])
        return f"{{name: {inner}}}" if inner else ""
    return ""
