r"""Body constraints of a type, the patterns of `@check`, and all checks that need all of its properties at once.

A pattern is one regular expression that must mean the same in every engine that runs it. It searches anywhere in the value. It runs
as RE2 in process and as Python in the pipeline, so it may use only what both have: no lookaround, no backreference, nothing that one
of them reads differently.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from omnigraph.language.catalog import Constraint, ConstraintKind, Property
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.schema.properties import PropertyDraft, TypeDraft, check_member
from omnigraph.language.schema.rules import SchemaText
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    ConstraintSyntax,
    MemberSyntax,
    PropertySyntax,
    RangeSyntax,
)
from omnigraph.values.types import Scalar

_MAX_REPEAT = 1000
"""RE2 refuses larger counts."""

_GROUPS = (
    ("(?=", "lookahead"),
    ("(?!", "lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?>", "an atomic group"),
    ("(?P=", "a backreference"),
    ("(?(", "a conditional group"),
    ("(?#", "a comment group"),
    ("(?P>", "recursion"),
)
_TOKEN = re.compile(
    r"""(?P<escape>\\.)|(?P<group>\((?:\?(?:<[=!]|P[=>]|[=!>(\#]|[A-Za-z-]+[:)])?)?)|(?P<quantifier>(?:[*+?]|\{\d*,?\d*\})[+?]?)|(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_FLAGS = re.compile(r"\(\?([A-Za-z]*)(?:-([A-Za-z]*))?[:)]")


@dataclass(frozen=True)
class PatternFault:
    """Why a pattern is refused: a `feature` that not all engines have, or the `reason` why it is not valid."""

    feature: str | None
    reason: str


def pattern_fault(pattern: str) -> PatternFault | None:
    """What is wrong with a pattern; None if every engine can run it."""
    feature = _unshared_feature(pattern)
    if feature is not None:
        return PatternFault(feature, f"uses {feature}")
    try:
        _compile(pattern)
    except (re.error, OverflowError) as error:
        return PatternFault(None, str(error))
    except RecursionError:
        return PatternFault(None, "groups are nested too deeply")
    except FutureWarning:
        return PatternFault("a set operation inside [...]", "uses a set operation inside [...]")
    return None


@lru_cache(maxsize=1024)
def python_pattern(pattern: str) -> re.Pattern[str]:
    r"""The pattern as Python runs it, meaning what RE2 means: `\d \w \s \b` are ASCII, `$` is the very end."""
    return _compile(pattern)


def _compile(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        return re.compile(_with_strict_end(pattern), re.ASCII)


def _with_strict_end(pattern: str) -> str:
    """Python's `$` also matches before a final newline; RE2's does not."""
    if any("m" in match.group(1) for match in _FLAGS.finditer(pattern)):
        return pattern
    pieces: list[str] = []
    for kind, text, in_class in _scan(pattern):
        pieces.append(r"\Z" if kind == "other" and text == "$" and not in_class else text)
    return "".join(pieces)


def _unshared_feature(pattern: str) -> str | None:
    for kind, text, in_class in _scan(pattern):
        feature = None
        if kind == "escape":
            feature = _escape_feature(text[1], in_class)
        elif in_class:
            feature = "a set inside a set" if text == "[" else None
        elif kind == "group":
            feature = _group_feature(text)
        elif kind == "quantifier":
            feature = _quantifier_feature(text)
        if feature is not None:
            return feature
    return None


def _scan(pattern: str) -> list[tuple[str, str, bool]]:
    """The kind, the text, and whether it is inside [...], for each piece; the brackets themselves count as outside."""
    pieces: list[tuple[str, str, bool]] = []
    position = 0
    while position < len(pattern):
        if pattern[position] == "[":
            end = _class_end(pattern, position)
            pieces.append(("other", "[", False))
            pieces.extend(_class_pieces(pattern[position + 1 : end]))
            if end < len(pattern):
                pieces.append(("other", "]", False))
            position = end + 1
            continue
        match = _TOKEN.match(pattern, position)
        if match is None:  # a lone backslash at the end
            pieces.append(("other", pattern[position], False))
            position += 1
            continue
        pieces.append((str(match.lastgroup), match.group(), False))
        position = match.end()
    return pieces


def _class_end(pattern: str, start: int) -> int:
    position = start + 1
    if pattern.startswith("^", position):
        position += 1
    first = True
    while position < len(pattern):
        if pattern[position] == "]" and not first:
            return position
        position += 2 if pattern[position] == "\\" else 1
        first = False
    return len(pattern)


def _class_pieces(body: str) -> list[tuple[str, str, bool]]:
    return [("escape" if len(piece) == 2 else "other", piece, True) for piece in re.findall(r"\\.|.", body, re.DOTALL)]


def _escape_feature(letter: str, in_class: bool) -> str | None:
    if letter.isdigit():
        return "an octal escape" if letter == "0" or in_class else "a backreference"
    if letter == "Z":
        return r"\Z (write $)"
    if letter in "uUN":
        return f"\\{letter} (write the character itself)"
    return None


def _group_feature(text: str) -> str | None:
    for start, feature in _GROUPS:
        if text.startswith(start):
            return feature
    flags = _FLAGS.fullmatch(text)
    if flags:
        unknown = (set(flags.group(1)) | set(flags.group(2) or "")) - set("ims")
        if unknown:
            return f"the flag {min(unknown)}"
    return None


def _quantifier_feature(text: str) -> str | None:
    if len(text) > 1 and text.endswith("+"):
        return "a possessive quantifier"
    if text.startswith("{,"):
        return "a repeat without a minimum (write {0,n})"
    for count in re.findall(r"\d+", text):
        if len(count) > 4 or int(count) > _MAX_REPEAT:
            return f"a repeat of more than {_MAX_REPEAT}"
    return None


def compile_constraints(draft: TypeDraft, members: Sequence[MemberSyntax], source: SchemaText) -> None:
    """Fills `draft.constraints` from property annotations and body constraints, in the order they are written."""
    rules = _ConstraintRules(draft, source)
    for position, member in enumerate(members):
        if isinstance(member, PropertySyntax):
            rules.take(draft.properties[member.name].constraints, member.place)
        else:
            rules.take((rules.compile(member, members[:position]),), member.place)
    own = {member.name for member in members if isinstance(member, PropertySyntax)}
    for name, property in draft.properties.items():
        if name not in own:
            rules.take(property.constraints, draft.place)
    draft.constraints = tuple(rules.constraints)
    for property in draft.properties.values():
        rules.check_embed(property)
        rules.check_default(property)


def did_you_mean(name: str, known: Sequence[str], otherwise: str) -> str:
    """Advice for an unknown name: the closest known one, or else a general sentence."""
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else otherwise


class _ConstraintRules:
    def __init__(self, draft: TypeDraft, source: SchemaText) -> None:
        self.draft = draft
        self.source = source
        self.constraints: list[Constraint] = []
        self.properties: Mapping[str, Property] = {name: p.property for name, p in draft.properties.items()}

    def take(self, constraints: Sequence[Constraint], place: Position) -> None:
        for constraint in constraints:
            if constraint.kind == "key" and any(known.kind == "key" for known in self.constraints):
                raise self.source.error("S408", place, kind=self.draft.kind, owner=self.draft.name)
            if constraint not in self.constraints:
                self.constraints.append(constraint)

    def compile(self, syntax: ConstraintSyntax, before: Sequence[MemberSyntax]) -> Constraint:
        if self.draft.kind == "edge" and syntax.kind in ("range", "check"):
            raise self.source.error("S412", syntax.place, name=syntax.kind, owner=self.draft.name)
        if syntax.kind == "range":
            return self._range(syntax)
        if syntax.kind == "check":
            return self._check(syntax)
        return self._members(syntax.kind, syntax, before)

    def _members(self, kind: ConstraintKind, syntax: ConstraintSyntax, before: Sequence[MemberSyntax]) -> Constraint:
        names: list[str] = []
        for argument in syntax.arguments:
            if isinstance(argument, RangeSyntax) or not argument.is_word:
                last = before[-1] if before else None
                if isinstance(last, PropertySyntax):
                    target = f"{self.draft.name}.{last.name}"
                    raise self.source.error("S304", syntax.place, name=kind, target=target, property=last.name)
                raise self.source.error("S401", argument.place, name=kind)
            name = str(argument.value)
            if name in names:
                raise self.source.error("S416", argument.place, name=kind, owner=self.draft.name, property=name)
            names.append(name)
            if not (self.draft.kind == "edge" and name in ("src", "dst")):
                type = self._property(kind, name, argument.place).type
                where = AnnotationSyntax(kind, place=argument.place)
                check_member(kind, name, type, self.draft.name, where, self.source)
        if not names:
            raise self.source.error("S401", syntax.place, name=kind)
        return Constraint(kind, tuple(names))

    def _property(self, kind: str, name: str, place: Position) -> Property:
        property = self.properties.get(name)
        if property is None:
            owner = self.draft.name
            advice = did_you_mean(name, list(self.properties), f"declare the property '{name}', or name one of {owner}")
            raise self.source.error("S405", place, name=kind, owner=owner, property=name, advice=advice)
        return property

    def _range(self, syntax: ConstraintSyntax) -> Constraint:
        match syntax.arguments:
            case (ArgumentSyntax(value=str(name), is_word=True), RangeSyntax() as bounds):
                pass
            case _:
                raise self.source.error("S402", syntax.place)
        property = self._property("range", name, syntax.arguments[0].place)
        target = f"{self.draft.name}.{name}"
        if not property.type.scalar.is_numeric or property.type.is_list:
            raise self.source.error("S410", syntax.place, target=target, type=_without_null(property))
        low, high = bounds.minimum, bounds.maximum
        if low is not None and high is not None and low > high:
            raise self.source.error("S413", bounds.place, target=target, minimum=low, maximum=high)
        return Constraint("range", (name,), low, high)

    def _check(self, syntax: ConstraintSyntax) -> Constraint:
        match syntax.arguments:
            case (ArgumentSyntax(value=str(name), is_word=True), ArgumentSyntax(value=str(pattern), is_word=False)):
                pass
            case _:
                raise self.source.error("S403", syntax.place)
        property = self._property("check", name, syntax.arguments[0].place)
        target = f"{self.draft.name}.{name}"
        if property.type.scalar is not Scalar.STRING or property.type.is_list:
            raise self.source.error("S411", syntax.place, target=target, type=_without_null(property))
        fault = pattern_fault(pattern)
        if fault is not None:
            place = syntax.arguments[1].place
            if fault.feature is not None:
                raise self.source.error("S415", place, target=target, feature=fault.feature)
            raise self.source.error("S414", place, target=target, reason=fault.reason)
        return Constraint("check", (name,), pattern=pattern)

    def check_embed(self, draft: PropertyDraft) -> None:
        embed = draft.property.embed
        if embed is None or self.draft.kind == "interface":
            return
        target = f"{self.draft.name}.{draft.property.name}"
        wanted = self.properties.get(embed.source)
        if wanted is None:
            raise self.source.error("S503", draft.place, target=target, source=embed.source)
        if wanted.type.scalar is not Scalar.STRING or wanted.type.is_list:
            raise self.source.error("S504", draft.place, source=f"{self.draft.name}.{embed.source}")

    def check_default(self, draft: PropertyDraft) -> None:
        value, name = draft.property.default, draft.property.name
        if value is None:
            return
        for constraint in self.constraints:
            if constraint.fields == (name,) and _breaks(value, constraint):
                target = f"{self.draft.name}.{name}"
                raise self.source.error("S604", draft.place, target=target, rule=f"@{constraint.kind}")


def _breaks(value: object, constraint: Constraint) -> bool:
    if constraint.kind == "check" and isinstance(value, str):
        return python_pattern(constraint.pattern or "").search(value) is None
    if constraint.kind == "range" and isinstance(value, int | float):
        low, high = constraint.minimum, constraint.maximum
        return (low is not None and value < low) or (high is not None and value > high)
    return False


def _without_null(property: Property) -> str:
    return str(property.type).removesuffix("?")
