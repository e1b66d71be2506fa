"""Changes for people: `<op> <kind> <Type> <id>`, then the properties that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.output import cell, counted, line, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph import Commit, Entity, EntityChange, JsonValue, Receipt, TypeChanges

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
            lines.append(f"  + {name}: {_shown(new)}")
        elif change.op == "delete":
            lines.append(f"  - {name}: {_shown(old)}")
        elif old != new:
            lines.append(f"  {name}: {_shown(old)} -> {_shown(new)}")
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
    from omnigraph.wire.values import value_json

    return {} if entity is None else {name: value_json(value) for name, value in entity.items() if name != "id"}


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "<absent>"
    text = "<null>" if value is None else line(cell(value))
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"
