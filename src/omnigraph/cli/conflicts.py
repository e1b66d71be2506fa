"""Conflicts at the terminal: a table of base, ours and theirs; decisions from a file, or from prompts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import click

from omnigraph.cli.options import Decorator, together
from omnigraph.cli.output import Output, cell, counted, line, time_text
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph import Resolution
    from omnigraph.types import (
        Commit,
        Entity,
        EntityChange,
        JsonValue,
        MergeConflict,
        MergeResult,
        PropertyConflict,
        Receipt,
        SchemaConflict,
        TypeChanges,
    )


# Changes for people: `<op> <kind> <Type> <id>`, then the properties that differ.

_COLOURS = {"insert": "green", "update": "yellow", "delete": "red"}
_ABSENT = object()
MAX_VALUE = 100


def change_text(change: EntityChange) -> str:
    """A change in colour, which is removed if the output is not a terminal."""
    before, after = _shown_values(change.before), _shown_values(change.after)
    head = f"{change.op} {change.kind} {change.type_name} {line(change.id)}"
    lines = [click.style(head, fg=_COLOURS[change.op])]
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if change.op == "insert":
            lines.append(f"  + {name}: {_shown_value(new)}")
        elif change.op == "delete":
            lines.append(f"  - {name}: {_shown_value(old)}")
        elif old != new:
            lines.append(f"  {name}: {_shown_value(old)} -> {_shown_value(new)}")
    return "\n".join(lines)


def receipt_text(receipt: Receipt) -> str:
    """`2 nodes, 0 edges (1 inserted, 1 replaced)`."""
    nodes, edges = counted(receipt.affected_nodes, "node", "nodes"), counted(receipt.affected_edges, "edge", "edges")
    words = ("inserted", "replaced", "updated", "deleted")
    done = ", ".join(f"{count} {word}" for word in words if (count := getattr(receipt.total, word)))
    return f"{nodes}, {edges}" + (f" ({done})" if done else "")


def count_text(counts: Counter[str]) -> str:
    """`3 changes: 2 inserts, 1 delete`."""
    total = sum(counts.values())
    if not total:
        return "no changes"
    parts = [_plural(counts[op], op) for op in _COLOURS if counts[op]]
    return f"{_plural(total, 'change')}: {', '.join(parts)}"


def stat_lines(counts: Iterable[TypeChanges]) -> list[str]:
    """A line for each type: `Person  +2 ~1 -0`."""
    listed = list(counts)
    width = max((len(changes.type_name) for changes in listed), default=0)
    return [
        f"{changes.type_name.ljust(width)}  +{changes.inserts} ~{changes.updates} -{changes.deletes}"
        for changes in listed
    ]


def stat_total(counts: Iterable[TypeChanges]) -> str:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(insert=count.inserts, update=count.updates, delete=count.deletes)
    return count_text(total)


def commit_words(commit: Commit, labels: Mapping[str, Sequence[str]]) -> list[str]:
    """A commit on one line: id, names that point to it, time, branch, kind, actor, message."""
    names = labels.get(commit.id)
    words = [commit.id, f"({', '.join(names)})" if names else "", time_text(commit.at), commit.ref.branch, commit.kind]
    return [line(word) for word in (*words, commit.actor, commit.message) if word]


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _shown_values(entity: Entity | None) -> dict[str, JsonValue]:
    from omnigraph.api.structs import value_json

    return {} if entity is None else {name: value_json(value) for name, value in entity.items() if name != "id"}


def _shown_value(value: Any) -> str:
    if value is _ABSENT:
        return "<absent>"
    text = "<null>" if value is None else line(cell(value))
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


Take: TypeAlias = Literal["ours", "theirs", "base"]
FORM = "[{type_name, entity_id, take}] or [{type_name, entity_id, properties: {name: take or {value}}}]"
_SIDES: Mapping[str, Take] = {"o": "ours", "t": "theirs", "b": "base"}


resolution_options = together(
    click.option(
        "--resolutions",
        metavar="FILE",
        help="What becomes of entities in conflict: JSON, [{type_name, entity_id, take, seen?, value?}], where take is ours, "
        "theirs, base, delete or value; or properties instead of take: {name: ours|theirs|base, or {value: ...}}. seen is "
        "the digest of the conflict that it was decided about (--dry-run --json).",
    ),
    click.option(
        "--interactive", is_flag=True, help="Ask about each entity in conflict, whole or property by property."
    ),
)


def strategy_options(strategy: str, by: str) -> Decorator:
    """`--strategy`, `--by` and `--dry-run`; the arguments are the help of the first two."""
    sides = click.Choice(["fail", "ours", "theirs"])
    return together(
        click.option("--strategy", type=sides, default="fail", show_default=True, help=strategy),
        click.option("--by", type=click.Choice(["row", "property"]), default="row", show_default=True, help=by),
        click.option("--dry-run", is_flag=True, help="Show the outcome and the conflicts; publish nothing."),
    )


def decisions(
    out: Output, file: str | None, interactive: bool, expected: Callable[[], MergeResult]
) -> tuple[list[Resolution], MergeResult | None]:
    """The decisions, and the result of the dry run that they are about, which `expected` computes."""
    if file is not None and interactive:
        raise UsageError("--resolutions and --interactive exclude each other")
    if file is not None:
        return _from_file(file, expected)
    if not interactive:
        return [], None
    result = expected()
    return [_resolution(out, conflict) for conflict in result.conflicts], result


def _from_file(file: str, expected: Callable[[], MergeResult]) -> tuple[list[Resolution], MergeResult | None]:
    from omnigraph import Resolution

    try:
        with open(file, encoding="utf-8") as text:
            members = json.load(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read '{file}' as JSON: {error}") from error
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise UsageError(f"'{file}' must contain a list of decisions", hint=FORM)
    if all("seen" in member for member in members):
        return [Resolution.from_json(member) for member in members], None
    result = expected()
    conflicts = {(conflict.type_name, conflict.entity_id): conflict for conflict in result.conflicts}
    return [_decided(member, conflicts, Resolution.from_json) for member in members], result


def _decided(
    members: Mapping[str, Any],
    conflicts: Mapping[tuple[str, str | None], MergeConflict],
    from_json: Callable[[object], Resolution],
) -> Resolution:
    conflict = conflicts.get((members.get("type_name", ""), members.get("entity_id")))
    if conflict is None:
        named = f"{members.get('type_name')} '{members.get('entity_id')}'"
        raise UsageError(f"{named} is not in conflict", hint="see --dry-run")
    if "properties" not in members:
        return from_json({"entity_kind": conflict.entity_kind, "seen": conflict.digest, **members})
    choices = members["properties"]
    if not isinstance(choices, dict) or set(members) - {"type_name", "entity_id", "properties"}:
        raise UsageError(f"the decision about {conflict.type_name} '{conflict.entity_id}' is not valid", hint=FORM)
    takes = {name: choice for name, choice in choices.items() if not isinstance(choice, dict)}
    values = {name: choice.get("value") for name, choice in choices.items() if isinstance(choice, dict)}
    return conflict.resolve_properties(takes, values)


def _resolution(out: Output, conflict: MergeConflict) -> Resolution:
    print(conflict.message)
    print_conflicts(out, [conflict], ())
    answer = _choice("[o]urs, [t]heirs, [b]ase, [d]elete, or [p]roperty by property", "otbdp")
    if answer == "d":
        return conflict.resolve("delete")
    if answer != "p":
        return conflict.resolve(_SIDES[answer])
    takes: dict[str, Take] = {}
    values: dict[str, Any] = {}
    for property in conflict.properties:
        answer = _choice(f"{property.name}: [o]urs, [t]heirs, [b]ase, or a [v]alue", "otbv")
        if answer == "v":
            values[property.name] = _json(str(click.prompt(f"{property.name} (JSON)", err=True)))
        else:
            takes[property.name] = _SIDES[answer]
    return conflict.resolve_properties(takes, values)


def _choice(question: str, letters: str) -> str:
    return str(click.prompt(question, type=click.Choice(list(letters)), show_choices=False, err=True))


def _json(text: str) -> Any:
    """A value that was typed as JSON; text need not be quoted."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def print_conflicts(
    out: Output, conflicts: Sequence[MergeConflict], schema_conflicts: Sequence[SchemaConflict]
) -> None:
    """Print a line for each property in conflict, and the message where it says more. For schemas, what each branch declares."""
    if schema_conflicts:
        declared = [
            {
                "kind": schema_conflict.kind,
                "entity": schema_conflict.entity,
                "ours": str(schema_conflict.ours or "-"),
                "theirs": str(schema_conflict.theirs or "-"),
            }
            for schema_conflict in schema_conflicts
        ]
        out.table(declared, ["kind", "entity", "ours", "theirs"], value=declared)
        return
    rows = [
        {
            "kind": conflict.kind,
            "type": conflict.type_name,
            "id": conflict.entity_id,
            "property": "" if property is None else property.name,
            **{side: "" if property is None else _shown(property, side) for side in ("base", "ours", "theirs")},
            "message": "" if conflict.is_divergence else conflict.message,
        }
        for conflict in conflicts
        for property in conflict.properties or (None,)
    ]
    columns = ["kind", "type", "id", "property", "base", "ours", "theirs"]
    out.table(rows, [*columns, *(["message"] if any(row["message"] for row in rows) else [])], value=rows)


def _shown(property: PropertyConflict, side: str) -> Any:
    """The value of one side; "-" if there is no such entity."""
    value = property.to_json().get(side, "-")
    return "null" if value is None else value


def show_conflicts(out: Output, result: MergeResult, value: object, sentence: str) -> NoReturn:
    """Print what a dry run found, and exit with code 1."""
    count = len(result.conflicts) + len(result.schema_conflicts)
    out.done(value, f"{sentence}: {counted(count, 'conflict', 'conflicts')}")
    if not out.as_json:
        print_conflicts(out, result.conflicts, result.schema_conflicts)
        print(f"hint: {result.hint}", file=sys.stderr)
    raise click.exceptions.Exit(1)
