"""The guessed schema as text, each guess with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.pipeline.infer.drafting import DraftEdge, DraftNode, DraftProperty, Drafts
from omnigraph.pipeline.infer.found_tables import FoundTable
from omnigraph.pipeline.infer.relations import other_keys
from omnigraph.records.documents import NUMBER

MAX_OTHERS = 5


def schema_text(drafts: Drafts, tables: list[FoundTable], sample: int | None, others: Sequence[str]) -> str:
    """A `.pg` text. The comments say where each type and property comes from, and why it is as it is."""
    lines = [
        "// Inferred from data. Correct what is wrong, then create the graph with 'omnigraph init --schema', and load with the map",
        "// file that goes with this schema: 'omnigraph load --map-file'.",
        f"// {_sampled(tables, sample)}",
    ]
    if others:
        more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
        lines.append(f"// Ignored, because they are not data: {_inline(', '.join(others[:MAX_OTHERS]))}{more}.")
    lines.append("")
    for node in drafts.nodes:
        lines += [*_node(node), ""]
    for edge in drafts.edges:
        lines += [*_edge(edge), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sampled(tables: list[FoundTable], sample: int | None) -> str:
    cut = [table for table in tables if not table.is_whole]
    if not cut:
        return f"Based on all {sum(table.rows for table in tables if table.contains is None):,} rows."
    unseen = (
        " Members that only later records have are left out." if any(table.id_column == NUMBER for table in cut) else ""
    )
    basis = f"Based on the first {sample:,} rows of {len(cut)} of {len(tables)} tables (--sample), and on all rows of the others: later rows may not fit."
    return basis + unseen


def _node(node: DraftNode) -> Iterator[str]:
    yield f"// {_inline(node.table.origin)}: {_count(node.table.rows)}"
    keys = () if node.key is None else node.key.columns
    if node.key is None:
        ids = "their number is their id" if node.needs_id and node.table.id_column else "each gets a new id"
        yield f"// No key: no column looks like one (--key {node.name}.column); rows have no name of their own, so {ids}."
    others = other_keys(node.table, node.key)[:MAX_OTHERS]
    if others:
        shown = ", ".join(f"'{name}'" for name in others)
        yield f"// No two rows share {_inline(shown)} either (--key {node.name}.column, or @unique)."
    if not node.properties:
        yield f"node {node.name} {{}}"
        return
    yield f"node {node.name} {{"
    for property in node.properties:
        is_key = keys == (property.column.name,)
        reason = f"key: {node.key.reason}; {property.guess.reason}" if is_key and node.key else property.guess.reason
        yield from _property(property, reason, " @key" if is_key else "")
    if len(keys) > 1 and node.key is not None:
        members = [property.name for name in keys for property in node.properties if property.column.name == name]
        yield f"  // {_inline(node.key.reason)}"
        yield f"  @key({', '.join(members)})"
    yield "}"


def _edge(edge: DraftEdge) -> Iterator[str]:
    yield f"// {_inline(edge.table.origin)}: {_inline(edge.reason)}"
    head = f"edge {edge.name}: {edge.source_node.name} -> {edge.target_node.name}"
    if edge.key:
        unique = f"no {edge.source_node.name} has two" if edge.key == ("src",) else "no two rows have the same ends"
        yield f"// Key: {unique}, so a row that is loaded again is the same edge."
        head += f" @key({', '.join(edge.key)})"
    if not edge.properties:
        yield head
        return
    yield head + " {"
    for property in edge.properties:
        yield from _property(property, property.guess.reason, "")
    yield "}"


def _property(property: DraftProperty, reason: str, key: str) -> Iterator[str]:
    column = property.column
    missing = f"; {column.nulls:,} of {_count(column.rows)} without" if column.nulls and column.rows else ""
    yield f"  // {_inline(repr(column.name))}: {_inline(reason)}{missing}{_inline(property.remark)}"
    yield f"  {property.name}: {property.guess.type}{key}"


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _inline(text: str) -> str:
    """Text of a source inside a comment: on one line, and of characters that a file of text can hold."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown[:300]
