"""Facts of Lance that the design stands on. One that turns red after an upgrade says which part of the design to look at."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction
from lance.schema import LanceSchema

SCHEMA = pa.schema([("id", pa.string()), ("age", pa.int64()), ("text", pa.string()), ("v", pa.list_(pa.float32(), 8))])
N = 200
VECTORS = np.random.default_rng(0).random((N, 8), dtype=np.float32)


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    values = [[f"p{n}" for n in numbers], list(numbers), [f"hello doc{n}" for n in numbers], list(VECTORS[start:stop])]
    return pa.table(dict(zip(SCHEMA.names, values, strict=True)), schema=SCHEMA)


def commit(base: Any, operation: Any) -> Any:
    return LanceDataset.commit(base, operation, read_version=base.version, detached=True)


def append(base: Any, table: pa.Table) -> Any:
    return commit(base, LanceOperation.Append(write_fragments(table, base, mode="append")))


def ages(dataset: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["age"])["age"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


@pytest.fixture
def empty(uri: str) -> Any:
    return lance.write_dataset(SCHEMA.empty_table(), uri, enable_stable_row_ids=True)


@pytest.fixture
def filled(empty: Any) -> Any:
    return append(append(empty, rows(0, 100)), rows(100, N))


def reopened(dataset: Any) -> Any:
    return lance.dataset(dataset.uri, version=dataset.version)


# ---------------------------------------------------------------- detached versions


def test_detached_versions_chain_and_the_own_head_never_moves(uri: str, filled: Any) -> None:
    assert filled.count_rows() == N
    assert lance.dataset(uri).version == 1
    assert lance.dataset(uri).count_rows() == 0
    assert reopened(filled).count_rows() == N


def test_detached_versions_have_the_high_bit_and_a_file_named_after_them(uri: str, filled: Any) -> None:
    assert filled.version >= 2**63
    assert os.path.exists(f"{uri}/_versions/d{filled.version}.manifest")


def test_two_detached_versions_of_one_base_do_not_meet(filled: Any) -> None:
    left, right = append(filled, rows(0, 1)), append(filled, rows(0, 2))
    assert (left.count_rows(), right.count_rows()) == (N + 1, N + 2)
    assert left.version != right.version


def test_an_upsert_of_a_few_rows_commits_detached(filled: Any) -> None:
    merge = filled.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = merge.execute_uncommitted(rows(0, 2))
    changed = LanceDataset.commit(filled, transaction, detached=True)
    assert changed.count_rows() == N


def test_deletes_by_filter_commit_detached(filled: Any) -> None:
    changed, gone = [], []
    for fragment in filled.get_fragments():
        left = fragment.delete("age < 5")
        gone.append(fragment.fragment_id) if left is None else changed.append(left)
    after = commit(filled, LanceOperation.Delete(changed, gone, "age < 5"))
    assert (after.count_rows(), filled.count_rows()) == (N - 5, N)


@pytest.mark.parametrize("by_offset", [True, False])
def test_deletes_by_address_join_new_rows_in_one_update(filled: Any, by_offset: bool) -> None:
    fragment = filled.get_fragments()[1]
    first = fragment.fragment_id << 32
    if by_offset:
        changed = fragment.delete_rows([0, 7])
    else:
        changed = fragment.delete(f"_rowaddr IN ({first}, {first + 7})")
    assert changed.deletion_file.num_deleted_rows == 2
    assert filled.count_rows() == N
    new = write_fragments(rows(0, 2), filled, mode="append")
    operation = LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[changed], new_fragments=new, fields_modified=[]
    )
    after = reopened(commit(filled, operation))
    assert ages(after) == sorted([*(set(range(N)) - {100, 107}), 0, 1])


def test_delete_rows_of_a_whole_fragment_leaves_none(filled: Any) -> None:
    assert filled.get_fragments()[0].delete_rows(list(range(100))) is None


def test_a_deletion_file_is_named_by_fragment_version_and_id(uri: str, filled: Any) -> None:
    changed = filled.get_fragments()[0].delete_rows([3])
    described = changed.to_json()["deletion_file"]
    name = f"{changed.id}-{described['read_version']}-{described['id']}.arrow"
    assert described["file_type"] == "array"
    assert os.listdir(f"{uri}/_deletions") == [name]


def test_a_tag_may_name_a_detached_version(uri: str, filled: Any) -> None:
    lance.dataset(uri).tags.create("main", filled.version)
    assert lance.dataset(uri, version="main").count_rows() == N


def test_the_own_cleanup_deletes_the_data_of_detached_versions(uri: str, filled: Any) -> None:
    lance.dataset(uri).tags.create("main", filled.version)
    lance.dataset(uri).cleanup_old_versions(
        older_than=timedelta(microseconds=1), delete_unverified=True, error_if_tagged_old_versions=False
    )
    with pytest.raises((OSError, ValueError)):
        lance.dataset(uri, version=filled.version).to_table()


# ---------------------------------------------------------------- indexes


def build(dataset: Any, column: str, kind: str, fragments: list[int], name: str) -> Any:
    options = {"num_partitions": 2} if kind == "IVF_FLAT" else {}
    segment = dataset.create_index_uncommitted(column, kind, name=name, fragment_ids=fragments, **options)
    return segment if kind == "IVF_FLAT" else dataset.merge_existing_index_segments([segment])


QUERIES: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "BTREE": ("id", lambda d: d.to_table(filter="id = 'p77'", columns=["id"])["id"].to_pylist()),
    "INVERTED": ("text", lambda d: d.to_table(full_text_query="doc77", columns=["id"])["id"].to_pylist()),
    "IVF_FLAT": (
        "v",
        lambda d: d.to_table(nearest={"column": "v", "q": VECTORS[77], "k": 1}, columns=["id"])["id"].to_pylist(),
    ),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_index_segments_commit_detached_and_are_used(filled: Any, kind: str) -> None:
    column, query = QUERIES[kind]
    every = [fragment.fragment_id for fragment in filled.get_fragments()]
    indexed = reopened(commit(filled, LanceOperation.CreateIndex([build(filled, column, kind, every, "x")], [])))
    assert query(indexed) == ["p77"]
    assert [entry.name for entry in indexed.describe_indices()] == ["x"]
    assert indexed.stats.index_stats("x")["num_unindexed_rows"] == 0
    if kind == "BTREE":
        assert "ScalarIndexQuery" in indexed.scanner(filter="id = 'p77'").explain_plan()


@pytest.mark.parametrize("kind", QUERIES)
def test_an_index_grows_by_a_segment_built_under_another_name(empty: Any, kind: str) -> None:
    column, query = QUERIES[kind]
    first = append(empty, rows(0, 50))
    indexed = commit(first, LanceOperation.CreateIndex([build(first, column, kind, [0], "x")], []))
    longer = append(indexed, rows(50, N))
    newest = max(fragment.fragment_id for fragment in longer.get_fragments())
    tail = dataclasses.replace(build(longer, column, kind, [newest], "x.next"), name="x")
    grown = reopened(commit(longer, LanceOperation.CreateIndex([tail], [])))
    (entry,) = grown.describe_indices()
    assert sorted(part for segment in entry.segments for part in segment.fragment_ids) == [0, newest]
    assert query(grown) == ["p77"]
    assert grown.stats.index_stats("x")["num_unindexed_rows"] == 0


def test_an_inverted_segment_is_unusable_until_it_was_merged(empty: Any) -> None:
    first = append(empty, rows(0, 50))
    indexed = commit(first, LanceOperation.CreateIndex([build(first, "text", "INVERTED", [0], "x")], []))
    longer = append(indexed, rows(50, N))
    raw = longer.create_index_uncommitted("text", "INVERTED", name="x.next", fragment_ids=[1])
    broken = commit(longer, LanceOperation.CreateIndex([dataclasses.replace(raw, name="x")], []))
    try:
        found = reopened(broken).to_table(full_text_query="doc77", columns=["id"])["id"].to_pylist()
    except (OSError, ValueError, RuntimeError):
        found = []
    assert found != ["p77"], "segments need no merge any more: the second step in tables/indexes.py can go"


def test_a_new_segment_replaces_named_old_ones(filled: Any) -> None:
    every = [fragment.fragment_id for fragment in filled.get_fragments()]
    indexed = commit(filled, LanceOperation.CreateIndex([build(filled, "id", "BTREE", every, "x")], []))
    (entry,) = indexed.describe_indices()
    from lance.dataset import Index

    old = [
        Index(
            uuid=str(segment.uuid),
            name="x",
            fields=list(entry.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for segment in entry.segments
    ]
    new = dataclasses.replace(build(indexed, "id", "BTREE", every, "x.next"), name="x")
    (after,) = reopened(commit(indexed, LanceOperation.CreateIndex([new], old))).describe_indices()
    assert [str(segment.uuid) for segment in after.segments] == [str(new.uuid)]


# ---------------------------------------------------------------- fragments


def renewed(fragment: Any) -> Any:
    value = fragment.to_json()
    value.update(id=0, row_id_meta=None, created_at_version_meta=None, last_updated_at_version_meta=None)
    return FragmentMetadata.from_json(json.dumps(value))


def test_data_files_written_once_join_several_versions(empty: Any) -> None:
    base = append(empty, rows(0, 5))
    written = [json.dumps(fragment.to_json()) for fragment in write_fragments(rows(5, 7), base, mode="append")]
    for version in (base, append(base, rows(7, 9)), append(append(base, rows(7, 8)), rows(8, 9))):
        loaded = [FragmentMetadata.from_json(text) for text in written]
        after = reopened(commit(version, LanceOperation.Append(loaded)))
        after.validate()
        assert ages(after) == sorted([*ages(version), 5, 6])


def test_fragments_of_another_line_are_adopted_without_a_copy(uri: str, empty: Any) -> None:
    base = append(empty, rows(0, 5))
    main, branch = append(base, rows(10, 13)), append(append(base, rows(20, 24)), rows(30, 32))
    known = {file.path for fragment in base.get_fragments() for file in fragment.metadata.files}
    new = [each.metadata for each in branch.get_fragments() if each.metadata.files[0].path not in known]
    files = len(os.listdir(f"{uri}/data"))
    merged = commit(main, LanceOperation.Append([renewed(fragment) for fragment in new]))
    merged.validate()
    row_ids = merged.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(row_ids)) == merged.count_rows() == 14
    assert len(os.listdir(f"{uri}/data")) == files


def test_small_fragments_and_new_rows_fold_in_one_update(empty: Any) -> None:
    first = append(empty, rows(0, 50))
    indexed = commit(first, LanceOperation.CreateIndex([build(first, "id", "BTREE", [0], "x")], []))
    longer = append(append(indexed, rows(50, 60)), rows(60, 70))
    small = [fragment.fragment_id for fragment in longer.get_fragments()][1:]
    folded = pa.concat_tables([*(longer.get_fragment(each).to_table() for each in small), rows(70, 75)])
    operation = LanceOperation.Update(
        removed_fragment_ids=small,
        updated_fragments=[],
        new_fragments=write_fragments(folded, longer, mode="append"),
        fields_modified=[],
    )
    after = reopened(commit(longer, operation))
    after.validate()
    assert ages(after) == list(range(75))
    assert len(after.get_fragments()) == 2
    (entry,) = after.describe_indices()
    assert [list(segment.fragment_ids) for segment in entry.segments] == [[0]]


def test_compaction_commits_detached_with_ids_of_our_own(filled: Any) -> None:
    longer = append(filled, rows(0, 5))
    next_id = max(fragment.fragment_id for fragment in longer.get_fragments()) + 1
    groups = []

    def load(fragments: list[dict[str, Any]]) -> list[Any]:
        return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in fragments]

    for task in Compaction.plan(longer, options={"target_rows_per_fragment": 1_000_000}).tasks:
        result = json.loads(task.execute(longer).json())
        for fragment in result["new_fragments"]:
            fragment["id"], next_id = next_id, next_id + 1
        groups.append(LanceOperation.RewriteGroup(load(result["original_fragments"]), load(result["new_fragments"])))
    after = reopened(commit(longer, LanceOperation.Rewrite(groups, [])))
    assert after.count_rows() == longer.count_rows()
    assert len(after.get_fragments()) < len(longer.get_fragments())


# ---------------------------------------------------------------- schema changes and the rest


def test_schema_changes_write_no_data_file(uri: str, filled: Any) -> None:
    before = set(os.listdir(f"{uri}/data"))
    fragments = [fragment.metadata for fragment in filled.get_fragments()]
    wider = commit(
        filled, LanceOperation.Merge(fragments, LanceSchema.from_pyarrow(SCHEMA.append(pa.field("city", pa.string()))))
    )
    assert reopened(wider).to_table()["city"].null_count == N
    narrower = commit(filled, LanceOperation.Project(pa.schema([SCHEMA.field("id"), SCHEMA.field("age")])))
    assert reopened(narrower).schema.names == ["id", "age"]
    names = pa.schema([SCHEMA.field("id"), pa.field("years", pa.int64()), SCHEMA.field("text"), SCHEMA.field("v")])
    renamed = commit(filled, LanceOperation.Project(names))
    assert sorted(reopened(renamed).to_table()["years"].to_pylist()) == list(range(N))
    assert set(os.listdir(f"{uri}/data")) == before


def test_an_overwrite_with_another_schema_leaves_the_old_version(uri: str, filled: Any) -> None:
    new = pa.table({"id": ["k"], "score": [0.5]})
    written = write_fragments(new, uri, mode="overwrite", schema=new.schema)
    other = commit(filled, LanceOperation.Overwrite(new.schema, written))
    assert (reopened(other).count_rows(), reopened(filled).count_rows()) == (1, N)


def test_duckdb_scans_a_detached_version_in_place(filled: Any) -> None:
    import duckdb

    people = reopened(filled)
    with duckdb.connect() as connection:
        connection.register("people", people)
        assert connection.execute("select count(*), max(age) from people where age < 50").fetchall() == [(50, 49)]


def test_a_manifest_grows_with_the_number_of_fragments(uri: str, empty: Any) -> None:
    sizes = []
    dataset = empty
    for number in range(40):
        dataset = append(dataset, rows(number, number + 1))
        sizes.append(os.path.getsize(f"{uri}/_versions/d{dataset.version}.manifest"))
    assert sizes[-1] > sizes[0] + 39 * 40, "a tail of fragments costs nothing any more: folding could be rarer"


@pytest.mark.soak
def test_merge_insert_ends_at_half_a_million_keys(tmp_path: Path) -> None:
    count = 1_000_000
    table = pa.table({"id": [f"e{n}" for n in range(count)], "w": np.arange(count)})
    dataset = lance.write_dataset(table.slice(0, 0), str(tmp_path / "big.lance"), enable_stable_row_ids=True)
    dataset = append(dataset, table)
    segment = build(dataset, "id", "BTREE", [fragment.fragment_id for fragment in dataset.get_fragments()], "x")
    dataset = commit(dataset, LanceOperation.CreateIndex([segment], []))
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises((OSError, RuntimeError)):
        merge.execute_uncommitted(table.take(pa.array(range(0, count, 2))))


def test_the_stemmer_of_a_text_index_is_ours(tmp_path: Path) -> None:
    """Words of one stem of ours are words of one stem of the index: what it proposes is never too little."""
    from lance.query import MatchQuery

    from omnigraph.read.search import text
    from omnigraph.tables.indexes import WORDS

    endings = (
        "",
        "s",
        "es",
        "ed",
        "ing",
        "er",
        "ly",
        "ness",
        "ation",
        "ational",
        "ism",
        "al",
        "ally",
        "ies",
        "y",
        "eed",
    )
    stems = (
        "run add ebb err odd egg hop hope intern nation commun gener past skate die sky news inn proceed graph relat"
    )
    words = sorted({f"{stem}{ending}" for stem in stems.split() for ending in endings})
    dataset = lance.write_dataset(pa.table({"word": words}), str(tmp_path / "words"))
    dataset.create_scalar_index("word", "INVERTED", **WORDS, stem=True, language="English", with_position=False)
    groups: dict[str, set[str]] = {}
    for word in words:
        groups.setdefault(text._stem(word), set()).add(word)
    assert max(map(len, groups.values())) > 5
    for group in groups.values():
        found = lance.dataset(str(tmp_path / "words")).scanner(
            columns=["word"],
            full_text_query=MatchQuery(min(group), "word"),
            limit=len(words),
            disable_scoring_autoprojection=True,
        )
        assert group == set(found.to_table().column("word").to_pylist())
