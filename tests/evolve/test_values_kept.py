"""A schema change loses no value: what a row holds in an older column of a property is read wherever the row goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, SchemaChangeRefused, ValuesLost
from omnigraph.tables import growing, staging
from omnigraph.tables.layout import Layout, LayoutColumn, VersionColumns
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

ROWS = 100
BOUNDS = ("0", "1", "3", "64")
KINDS = ("node", "edge")
WIDER = {"I32": "I64", "F32": "F64"}


def schema(kind: str, *properties: str) -> str:
    """A type T with these properties. Edges join the nodes of N."""
    declared = "  ".join(properties)
    if kind == "node":
        return f"node T {{ k: String @key  {declared} }}"
    return f"node N {{ k: String @key }} edge T: N -> N {{ k: String  {declared} }}"


def put(g: og.Graph, rows: list[dict[str, Any]], branch: str = "main") -> None:
    """Upsert rows of T."""
    with g.transaction(branch) as tx:
        for row in rows:
            if "T" in g.schema.catalog.edges:
                tx.upsert("N", k="n")
                tx.upsert("T", {"id": row["k"], "from": "n", "to": "n", **row})
            else:
                tx.upsert("T", row)


def values(g: og.Graph, name: str, revision: str = "main") -> dict[str, Any]:
    """The values of a property that are not null, by the key of the row."""
    rows = g.sql(f'SELECT k, {name} AS v FROM "T" WHERE {name} IS NOT NULL', revision=revision).rows
    return {row["k"]: row["v"] for row in rows}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("narrow", WIDER)
@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_keeps_values_that_were_written_before_their_property_was_widened(
    kind: str, narrow: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INLINE_BOUND, bound)
    g = og.init("memory://", schema=schema(kind))
    put(g, [{"k": f"a{i}"} for i in range(ROWS)])
    g.schema.apply(schema(kind, f"q: {narrow}?"))
    g.branches.create("b")
    put(g, [{"k": f"b{i}", "q": i} for i in range(ROWS)], "b")
    g.schema.apply(schema(kind, f"q: {WIDER[narrow]}?"), branch="b")
    put(g, [{"k": "a1", "q": 5}])
    g.branches.merge("b")
    assert values(g, "q") == {"a1": 5} | {f"b{i}": i for i in range(ROWS)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_property_with_a_default_that_a_branch_adds_before_the_first_row_is_readable_after_a_merge(kind: str) -> None:
    g = og.init("memory://", schema=schema(kind))
    g.branches.create("b")
    g.schema.apply(schema(kind, "z: I32 @default(7)"), branch="b")
    put(g, [{"k": f"b{i}", "z": i} for i in range(ROWS)], "b")
    put(g, [{"k": "a"}])
    g.branches.merge("main", "b")
    assert values(g, "z", "b") == {"a": 7} | {f"b{i}": i for i in range(ROWS)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_becomes_a_list_with_its_property(kind: str, tmp_path: Path) -> None:
    g = og.init("memory://", schema=schema(kind))
    put(g, [{"k": "a"}])
    g.schema.apply(schema(kind, "z: I32 @default(7)"))
    put(g, [{"k": "b", "z": 1}])
    g.schema.apply(schema(kind, "z: [I32]"))
    assert values(g, "z") == {"a": [7], "b": [1]}
    assert g.maintenance.verify(deep=True).is_whole
    g.export(tmp_path / "rows.jsonl")
    assert '"z":[7]' in (tmp_path / "rows.jsonl").read_text().replace(" ", "")
    g.maintenance.optimize()
    assert values(g, "z") == {"a": [7], "b": [1]}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_property_that_becomes_nullable_keeps_its_default_in_older_rows(
    kind: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INLINE_BOUND, bound)
    g = og.init("memory://", schema=schema(kind))
    older = {f"a{i}": 7 for i in range(ROWS)}
    put(g, [{"k": key} for key in older])
    g.schema.apply(schema(kind, "z: I32 @default(7)"))
    g.tags.create("older", "main")
    with g.transaction() as tx:
        for key in older:
            tx.delete("T", key)
    deletion = g.show("main").id
    put(g, [{"k": "b", "z": 1}])
    g.schema.apply(schema(kind, "z: I32?"))
    put(g, [{"k": "c", "z": None}])
    g.revert(deletion)
    expected = {**older, "b": 1}
    assert values(g, "z") == expected
    found = g.query(ALL_Z[kind].replace("}", " $t.z = 7 }", 1)).rows
    assert [row["z"] for row in found] == [7] * ROWS
    g.maintenance.optimize()
    assert values(g, "z") == expected
    older_state = g.query(ALL_Z[kind], revision="older", schema_of="main").rows
    assert [row["z"] for row in older_state] == [7] * ROWS


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_a_later_commit_deleted_keeps_its_default_in_the_state_that_has_it(
    kind: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INLINE_BOUND, bound)
    g = og.init("memory://", schema=schema(kind))
    for _ in range(2):  # The second time replaces the first fragment.
        put(g, [{"k": f"a{i}"} for i in range(ROWS)])
    g.schema.apply(schema(kind, "z: I32 @default(7)"))
    put(g, [{"k": f"b{i}", "z": 1} for i in range(ROWS)])
    g.tags.create("older", "main")
    all_rows = """query q() { match { $x: N  $y: N  $x $t:t $y } return { $t.k as k, $t.z as z } }"""
    if kind == "node":
        all_rows = ALL_Z[kind].replace("return {", "return { $t.k as k,")
    assert len(g.query(all_rows.replace(", $t.z as z", ""), revision="older").rows) == 2 * ROWS  # Numbers these rows.
    with g.transaction() as tx:
        tx.delete("T", "a1")
    expected = {f"a{i}": 7 for i in range(ROWS)} | {f"b{i}": 1 for i in range(ROWS)}
    older = {row["k"]: row["z"] for row in g.query(all_rows, revision="older").rows}
    newer = {row["k"]: row["z"] for row in g.query(all_rows).rows}
    assert newer == {key: value for key, value in expected.items() if key != "a1"}
    assert older == expected
    stored = g._repository.resolve("main").table(f"{kind}:T")
    assert stored is not None
    read = stored.read_stored(["k", "z"], [fragment.id for fragment in stored.fragments]).to_pylist()
    assert {row["k"]: row["z"] for row in read} == expected


ALL_Z = {
    "node": "query q() { match { $t: T } return { $t.z as z } }",
    "edge": "query q() { match { $a $t:t $b } return { $t.z as z } }",
}


def test_a_branch_that_makes_a_property_nullable_leaves_its_default_in_the_older_rows_of_the_other() -> None:
    g = og.init("memory://", schema=schema("node"))
    put(g, [{"k": f"a{i}"} for i in range(ROWS)])
    g.schema.apply(schema("node", "z: I32 @default(7)"))
    g.branches.create("b")
    g.maintenance.optimize(branch="b")
    g.schema.apply(schema("node", "z: I32?"), branch="b")
    put(g, [{"k": "b", "z": None}], "b")
    put(g, [{"k": "a1", "z": 8}])
    g.branches.merge("b")
    assert values(g, "z") == {f"a{i}": 7 for i in range(ROWS)} | {"a1": 8}


def test_the_columns_of_a_property_that_only_the_other_branch_had_come_along() -> None:
    g = og.init("memory://", schema=schema("node"))
    put(g, [{"k": f"a{i}"} for i in range(ROWS)])
    g.branches.create("b")
    g.schema.apply(schema("node", "q: I32?"), branch="b")
    put(g, [{"k": f"b{i}", "q": i} for i in range(ROWS)], "b")
    g.tags.create("with-q", "b")
    g.schema.apply(schema("node"), branch="b")
    g.branches.create("c")
    for branch in ("main", "c"):
        put(g, [{"k": branch}], branch)
    g.branches.merge("b", "c")
    g.branches.merge("c")  # The fragments are adopted a second time.
    rows = g.query("query q() { match { $t: T } return { $t.q as q } }", revision="main", schema_of="with-q").rows
    assert sorted(row["q"] for row in rows if row["q"] is not None) == list(range(ROWS))


def test_a_list_of_numbers_becomes_a_list_of_wider_ones_that_are_exact() -> None:
    g = og.init("memory://", schema=schema("node", "q: [I64]?"))
    put(g, [{"k": "a", "q": [1, 2]}, {"k": "b", "q": [2**53 + 1, 3]}])
    with pytest.raises(SchemaChangeRefused, match="9007199254740993"):
        g.schema.apply(schema("node", "q: [F64]?"))
    put(g, [{"k": "b", "q": [-(2**53)]}])
    g.schema.apply(schema("node", "q: [F64]?"))
    assert values(g, "q") == {"a": [1.0, 2.0], "b": [float(-(2**53))]}


def fold(g: og.Graph, kind: str) -> None:
    for commit in range(9):
        put(g, [{"k": f"{commit}-{i}"} for i in range(ROWS)])


REWRITES: dict[str, Callable[[og.Graph, str], Any]] = {
    "nothing": lambda g, kind: None,
    "a fold": fold,
    "an update of another property": lambda g, kind: put(g, [{"k": f"a{i}", "r": 1} for i in range(ROWS)]),
    "optimize": lambda g, kind: g.maintenance.optimize(),
}


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_dropped_property_comes_back_with_its_values(kind: str, rewrite: str) -> None:
    whole, without = schema(kind, "q: I32?", "r: I32?"), schema(kind, "r: I32?")
    expected = {f"a{i}": i for i in range(ROWS)}

    def dropped() -> og.Graph:
        g = og.init("memory://", schema=whole)
        put(g, [{"k": key, "q": value} for key, value in expected.items()])
        g.branches.create("b")
        g.schema.apply(without)
        return g

    reverted = dropped()
    drop = reverted.show("main").id
    REWRITES[rewrite](reverted, kind)
    reverted.revert(drop)
    assert values(reverted, "q") == expected
    if rewrite == "an update of another property":
        assert values(reverted, "r") == dict.fromkeys(expected, 1)

    for source, target, strategy in (("b", "main", "theirs"), ("main", "b", "ours")):
        merged = dropped()
        put(merged, [{"k": "new", "q": 5}], "b")
        REWRITES[rewrite](merged, kind)
        merged.branches.merge(source, target, strategy=strategy)  # type: ignore[arg-type]  # each is a strategy
        assert values(merged, "q", target) == expected | {"new": 5}


# ---------------------------------------------------------------- loads


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_load_keeps_its_values_when_another_writer_widens_their_property(
    kind: str, resumed: bool, tmp_path: Path
) -> None:
    g = og.init(str(tmp_path / "g"), schema=schema(kind), durability="process")
    put(g, [{"k": f"a{i}"} for i in range(ROWS)])
    g.schema.apply(schema(kind, "q: I32?"))
    lines = [
        {"type": "T", "data": {"k": f"b{i}", "q": i}}
        if kind == "node"
        else {"edge": "T", "from": "n", "to": "n", "data": {"k": f"b{i}", "q": i}}
        for i in range(ROWS)
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    other = og.open(str(tmp_path / "g"), durability="process")

    def meanwhile() -> None:
        disarm_all()
        other.schema.apply(schema(kind, "q: I64?"))
        put(other, [{"k": "c", "q": 5}])
        if resumed:
            raise KeyboardInterrupt

    arm(Failpoint.LOAD_BEFORE_PUBLISH, meanwhile)
    with pytest.raises(KeyboardInterrupt) if resumed else nullcontext():
        g.load(source, mode="append", engine="local")
    if resumed:
        (prepared,) = g.recovery.list()
        g.recovery.resume(prepared.commit_id)
    assert values(g, "q") == {f"b{i}": i for i in range(ROWS)} | {"c": 5}


def test_a_load_of_wider_values_than_a_reset_left_room_for_is_refused(tmp_path: Path) -> None:
    g = og.init(str(tmp_path / "g"), schema=schema("node", "q: I32?"), durability="process")
    put(g, [{"k": "a", "q": 1}])
    g.schema.apply(schema("node", "q: I64?"))
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f'{{"type": "T", "data": {{"k": "b{i}", "q": {i}}}}}\n' for i in range(ROWS)))

    def meanwhile() -> None:
        disarm_all()
        g.reset("main", "main~1")

    arm(Failpoint.LOAD_BEFORE_PUBLISH, meanwhile)
    with pytest.raises(ExpectedVersionMismatch, match="narrower"):
        g.load(source, mode="append", engine="local")


# ---------------------------------------------------------------- what is refused, and what is found


def merge_as_before(g: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge in which a version gets only the newest column of each property."""
    put(g, [{"k": f"a{i}"} for i in range(ROWS)])
    g.schema.apply(schema("node", "q: I32?"))
    g.branches.create("b")
    put(g, [{"k": f"b{i}", "q": i} for i in range(ROWS)], "b")
    g.schema.apply(schema("node", "q: I64?"), branch="b")
    put(g, [{"k": "a1", "q": 5}])

    def newest_alone(layout: Layout, stored: pa.Schema) -> pa.Schema:
        new = [field.with_nullable(True) for field in layout.written_schema if field.name not in stored.names]
        return pa.schema([*stored, *new])

    with monkeypatch.context() as patch:
        patch.setattr(Layout, "grown_schema", newest_alone)
        patch.setattr(staging, "_fields_of", lambda texts: [])
        g.branches.merge("b")


def test_a_merge_that_would_lose_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    g = og.init("memory://", schema=schema("node"))
    with pytest.raises(ValuesLost, match="q__"):
        merge_as_before(g, monkeypatch)
    assert values(g, "q") == {"a1": 5}
    g.branches.merge("b")
    assert len(values(g, "q")) == ROWS + 1


def only_newest(columns: VersionColumns, name: str) -> list[tuple[str, pa.DataType]]:
    return [column for column in columns.layout.by_name[name].stored[:1] if column[0] in columns.stored]


def never_filled(columns: VersionColumns, column: LayoutColumn) -> object:
    return None


REWRITING: dict[str, Callable[[og.Graph], object]] = {
    "compaction": lambda g: g.maintenance.optimize(),
    "a fold": lambda g: [put(g, [{"k": f"c{i}"}]) for i in range(9)],
}


@pytest.mark.parametrize("defect", [("_present", only_newest, "q"), ("_fill", never_filled, "z")], ids=["older column", "default"])  # fmt: skip
@pytest.mark.parametrize("rewriting", REWRITING)
def test_rows_that_are_rewritten_with_fewer_values_than_are_stored_are_refused(
    rewriting: str, defect: tuple[str, Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INLINE_BOUND, "0")
    g = og.init("memory://", schema=schema("node", "q: I32?"))
    put(g, [{"k": "a", "q": 5}])
    g.schema.apply(schema("node", "q: I64?", "z: I32 @default(7)"))
    put(g, [{"k": "b", "q": 1, "z": 1}])
    q, z = values(g, "q"), values(g, "z")
    with monkeypatch.context() as patch:
        patch.setattr(VersionColumns, *defect[:2])
        with pytest.raises(ValuesLost, match=defect[2]):
            REWRITING[rewriting](og.open(g.uri))
    found = values(g, "q"), values(g, "z")
    assert {key: value for key, value in found[0].items() if key in q} == q
    assert {key: value for key, value in found[1].items() if key in z} == z
    REWRITING[rewriting](g)
    assert values(g, "q").items() >= q.items()
    assert values(g, "z").items() >= z.items()


@pytest.mark.parametrize("since", ["nothing", "an update", "optimize"])
def test_values_that_a_merge_lost_are_found_and_brought_back(
    since: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = og.init(str(tmp_path / "g"), schema=schema("node"), durability="process")
    with monkeypatch.context() as patch:
        patch.setattr(growing, "check_values_kept", lambda *arguments: None)
        merge_as_before(g, patch)
    merge, expected = g.show("main").id, {"a1": 5} | {f"b{i}": i for i in range(ROWS)}
    assert values(g, "q") == {"a1": 5}
    if since == "an update":
        put(g, [{"k": "b0", "q": 1_000}])
        expected["b0"] = 1_000
    elif since == "optimize":
        g.maintenance.optimize()
    (finding,) = g.maintenance.verify(deep=True).findings
    lost = len(expected) - len(values(g, "q"))
    assert (finding.kind, finding.commits, finding.rows, finding.types) == ("lost_values", (merge,), lost, ("T",))
    (step,) = g.maintenance.repair(deep=True).steps
    assert (step.kind, step.commit) == ("restore_values", None)
    assert len(values(g, "q")) < len(expected)
    repaired = g.maintenance.repair(deep=True, dry_run=False)
    assert repaired.is_whole
    assert values(g, "q") == expected
    assert g.maintenance.repair(deep=True).steps == ()


def test_a_compaction_does_not_take_back_a_property_that_came_back_meanwhile() -> None:
    g = og.init("memory://", schema=schema("node", "q: I32?"))
    put(g, [{"k": f"a{i}", "q": i} for i in range(ROWS)])
    put(g, [{"k": f"b{i}", "q": i} for i in range(ROWS)])
    g.schema.apply(schema("node"))
    drop, other = g.show("main").id, og.open(g.uri)

    def meanwhile() -> None:
        disarm_all()
        other.revert(drop)

    arm(Failpoint.OPTIMIZE_BEFORE_PUBLISH, meanwhile)
    g.maintenance.optimize()
    assert len(values(g, "q")) == 2 * ROWS
