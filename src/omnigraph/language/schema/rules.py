"""Every rule a `.pg` text can break: one code, one message, one piece of advice each.

`RULES` is the only place that has these texts; the documentation prints the same table.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import SchemaError
from omnigraph.language.parsing.cursor import Position


@dataclass(frozen=True)
class SchemaRule:
    """`message` and `advice` are format templates over the same named fields."""

    code: str
    message: str
    advice: str


_TABLE = (
    # text
    ("S001", "expected {expected}, found {found}", "{advice}"),
    ("S002", "unexpected character {found}", "{advice}"),
    ("S003", "string is not closed", 'end the string with "; write a quote inside it as \\"'),
    ("S004", "unknown escape {found} in a string", 'the escapes are \\" \\\\ \\n \\r \\t; write a backslash as \\\\'),
    ("S005", "comment is not closed", "end the comment with */"),
    ("S006", "unknown type {found}", "the types are {types}, Vector(N), enum(a, b) and [T]; a type name cannot be a property's type"),
    ("S007", "annotations of {owner} must come before 'implements'", "write `node {name} @annotation(...) implements ... {{`"),
    ("S008", "@card must directly follow the endpoint types of an edge", "write `edge Name: From -> To @card(0..1)` and put other annotations after it"),
    ("S009", "number {found} is too large", "whole numbers must fit 64 bits, and decimal numbers must be finite"),
    ("S010", "the text is not valid Unicode", "save the file as UTF-8"),
    ("S011", "a signed number is allowed only in a range or in @default, found {found}", "remove the sign"),
    ("S012", "interfaces take no annotations (interface {name})", "put the annotation on the node types that implement it, or write a // comment"),
    ("S013", "interfaces contain properties only (interface {name})", "put @{kind} on the property, or into the node types that implement the interface"),
    # names
    ("S101", "duplicate node type: {name}", "the first is on line {line}; rename one, or put both into one declaration"),
    ("S102", "duplicate edge type: {name}", "the first is on line {line}; rename one, or put both into one declaration"),
    ("S103", "duplicate interface: {name}", "the first is on line {line}; rename one, or put both into one declaration"),
    ("S104", "duplicate property: {owner}.{name}", "the first is on line {line}; remove one"),
    ("S105", "edge {edge} references unknown source type: {name}", "{advice}"),
    ("S106", "edge {edge} references unknown target type: {name}", "{advice}"),
    ("S107", "edge name collision after case folding: '{name}' conflicts with '{other}'", "queries ignore the case of edge names; rename one of the two"),
    ("S108", "node {node} implements unknown interface '{name}'", "{advice}"),
    ("S109", "node {node} property '{name}' has type {type} but interface {interface} declares it as {declared}", "give the property the same type everywhere, or another name"),
    ("S110", "node {node} implements '{name}' more than once", "name each interface once"),
    ("S111", "property name '{name}' is reserved ({owner}.{name})", "choose another name; storage and loads use this one"),
    ("S112", "property name '{name}' is taken by the {what} of every {kind} ({owner}.{name})", "{advice}"),
    ("S113", "cardinality min ({minimum}) exceeds max ({maximum})", "write the smaller number first, or leave the maximum open: @card({minimum}..)"),
    ("S114", "cardinality bound {found} is too large", "bounds go up to 4294967295; leave the maximum open for no limit"),
    ("S115", "interface {name} has the same name as a node type", "queries match both by name; rename one of the two"),
    ("S116", "property {owner}.{name} differs from '{other}' only in case", "engines that ignore case would confuse them; rename one of the two"),
    ("S117", "edge {edge} goes from {source} to {target}, and {rule} cannot be checked across the types of {interface}", "{advice}"),
    ("S118", "edge {edge} goes from {source} to {target}, and no node type implements {interface}", "declare `node Name implements {interface} {{ }}`"),
    # types
    ("S201", "Vector dimension must be greater than zero", "write the number of components, such as Vector(384)"),
    ("S202", "Vector dimension {found} exceeds maximum supported {maximum}", "choose a smaller dimension"),
    ("S203", "list of Blob is not supported", "put each Blob into a node of its own and connect it with an edge"),
    ("S204", "enum type must include at least one value", "write the values, such as enum(open, closed)"),
    ("S205", "enum type cannot include duplicate values", "'{found}' appears twice; remove one"),
    ("S206", "list of {found} is not supported", "lists hold String, Bool, numbers, Date or DateTime"),
    # annotations
    ("S301", "{target} declares @{name} multiple times", "keep one"),
    ("S302", "@{name} on {target} requires a non-empty value", 'write @{name}("...")'),
    ("S303", "@instruction is only supported on node and edge types (property {target})", "use @description for a property"),
    ("S304", "@{name} on {target} does not accept a value", "write @{name} alone, or put @{name}({property}) on a line of its own"),
    ("S305", "property {target} declares @{name} multiple times", "keep one"),
    ("S306", "@{name} is only supported on node properties or as body constraint (node {owner})", "move it behind a property or write it inside the braces"),
    ("S307", "@{name} is not supported on edges (edge {owner})", "{advice}"),
    ("S308", "@{name} is not supported on edge properties (edge {target})", "{advice}"),
    ("S309", "@default is only supported on properties ({kind} {owner})", "put @default behind the property it belongs to"),
    # constraints
    ("S401", "@{name} constraint requires at least one property name", "write @{name}(property)"),
    ("S402", "@range requires property name and bounds: @range(prop, min..max)", "either bound may be left out, as in @range(age, 0..)"),
    ("S403", '@check requires property name and pattern: @check(prop, "regex")', "write the pattern in double quotes, with each backslash doubled"),
    ("S404", "unknown constraint: @{name}", "{advice}"),
    ("S405", "@{name} on {owner} references unknown property '{property}'", "{advice}"),
    ("S406", "@key property {target} cannot be nullable", "remove the ? behind its type"),
    ("S407", "@key is not supported on {shape} property {target}", "use a String, number, Bool, Date or DateTime as key"),
    ("S408", "{kind} type {owner} has multiple @key constraints; only one is supported", "for a key of several properties write @key(a, b) once"),
    ("S409", "@{name} is not supported on {shape} property {target}", "{advice}"),
    ("S410", "@range on {target} requires a numeric type, got {type}", "remove the constraint, or make the property I32, I64, U32, U64, F32 or F64"),
    ("S411", "@check on {target} requires String type, got {type}", "remove the constraint, or make the property a String"),
    ("S412", "@{name} constraint is not supported on edges (edge {owner})", "edges take @key, @unique and @index; put the rule on a node type"),
    ("S413", "@range on {target} has min ({minimum}) above max ({maximum})", "write the smaller bound first"),
    ("S414", "@check on {target} has an invalid pattern: {reason}", "correct the regular expression"),
    ("S415", "@check on {target} uses {feature}, which patterns here do not have", "write the pattern without it; several @check constraints on one property must all hold"),
    ("S416", "@{name} on {owner} names '{property}' more than once", "name each property once"),
    # embeddings
    ("S501", "@embed is only supported on vector properties ({target})", "make the property a Vector(N)"),
    ("S502", "@embed on {target} requires a source property name", 'write @embed("property")'),
    ("S503", "@embed on {target} references unknown source property {source}", "name a String property of the same node type"),
    ("S504", "@embed source property {source} must be String", "embed a String property; lists and other types cannot be embedded"),
    ("S505", "@embed on {target} has unknown argument '{option}=' (only 'model' is supported)", 'write @embed("property", model="name")'),
    ("S506", "@embed on {target} requires model to be a non-empty string", 'write model="provider/name"'),
    # vectors
    ("S507", "@metric is only supported on vector properties ({target})", "remove it, or make the property a Vector(N)"),
    ("S509", "@index on {target} takes one option, language, which is english or simple", 'write @index(language: "simple"), or @index alone for english'),
    ("S510", "the language of @index belongs to a text ({target})", "remove it, or make the property a String"),
    ("S508", "@metric on {target} must be one of cosine, l2, dot", 'write @metric("cosine"), which is also the default'),
    # defaults
    ("S601", "@default is not supported on {shape} property {target}", "make the property nullable instead"),
    ("S602", "@default on {target} must be {expected}, got {found}", "{advice}"),
    ("S603", "@default on {target} requires exactly one value", "write @default(value)"),
    ("S604", "@default on {target} breaks {rule}", "choose a default that the constraint allows"),
    # renames
    ("S701", "@rename_from on {target} requires exactly one non-empty name", 'write @rename_from("old name")'),
    ("S702", "@rename_from on {target} names unknown {kind} '{old}'", "name the {kind} as the current schema has it, or remove @rename_from"),
    ("S703", "@rename_from on {target} names '{old}', which is {actual}", "a {kind} can only be renamed from a {kind}"),
    ("S704", "@rename_from on {target} names '{old}', which {reason}", "remove @rename_from, or remove the other use of '{old}'"),
)  # fmt: skip

RULES: dict[str, SchemaRule] = {code: SchemaRule(code, message, advice) for code, message, advice in _TABLE}


@dataclass(frozen=True)
class SchemaText:
    """A `.pg` text and where it came from; makes errors that show their position."""

    text: str
    file: str | None = None

    def line(self, number: int) -> str:
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""

    def position(self, offset: int) -> Position:
        before = self.text[:offset]
        return Position(before.count("\n") + 1, offset - before.rfind("\n"))

    def error(self, code: str, place: Position, **fields: object) -> SchemaError:
        rule = RULES[code]
        return SchemaError(
            rule.message.format(**fields),
            rule=code,
            line=place.line,
            column=place.column,
            source_line=self.line(place.line),
            file=self.file,
            hint=rule.advice.format(**fields),
        )
