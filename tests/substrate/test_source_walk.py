"""What the source may never call: Lance's own clean-up, restore and branches, and any commit that is not detached."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph

SOURCE = Path(omnigraph.__file__).parent

FORBIDDEN = {
    "cleanup_old_versions", "restore", "checkout_version", "checkout_branch", "create_branch", "delete_branch",
    "checkout_latest", "merge_insert", "optimize_indices", "compact_files", "create_index", "create_scalar_index",
    "add_columns", "drop_columns", "alter_columns", "commit_batch", "execute", "insert", "update", "delete", "merge",
    "shallow_clone", "migrate_manifest_paths_v2", "prewarm_index", "enable_auto_cleanup",
}  # fmt: skip
"""Methods of a Lance dataset that move it or delete its files. Those whose names others use too are looked for on a
dataset only."""
COMMON = {
    "execute", "insert", "update", "delete", "merge", "restore", "create_branch", "delete_branch", "add_columns", "drop_columns",
}  # fmt: skip
COMMITS = {"LanceDataset.commit", "lance.LanceDataset.commit"}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def faults(text: str, *, in_tables: bool) -> list[str]:
    """What a source text does that it must not."""
    tree = ast.parse(text)
    found = [f"imports {name}" for name in imports(tree) if name.split(".")[0] == "lance" and not in_tables]
    for call in calls(tree):
        if not isinstance(call.func, ast.Attribute):
            continue
        owner, method = ast.unparse(call.func.value), call.func.attr
        if method in FORBIDDEN - COMMON or (method in COMMON and owner.split(".")[-1] in ("dataset", "_dataset")):
            found.append(f"{call.lineno}: {owner}.{method}")
        if f"{owner}.{method}" in COMMITS:
            detached = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}.get("detached")
            if detached != "True":
                found.append(f"{call.lineno}: a commit that is not detached")
        written = {
            *(f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in call.keywords),
            *(ast.unparse(argument) for argument in call.args),
        }
        is_in_memory = any(argument.startswith("f'memory://") for argument in written)
        if method == "write_dataset" and not (is_in_memory or {"mode='create'", "schema.empty_table()"} <= written):
            found.append(f"{call.lineno}: write_dataset of anything but an empty new table, or one in memory")
    return found


def test_the_source_keeps_to_detached_versions_and_lance_to_one_room() -> None:
    wrong = {}
    for file in sorted(SOURCE.rglob("*.py")):
        relative = file.relative_to(SOURCE)
        if found := faults(file.read_text(), in_tables=relative.parts[0] == "tables"):
            wrong[str(relative)] = found
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    [
        "table.dataset.cleanup_old_versions()",
        "self.dataset.restore()",
        "dataset.delete('x')",
        "ds.merge_insert('id')",
        "LanceDataset.commit(base, operation, read_version=1)",
        "LanceDataset.commit(base, operation, detached=False)",
        "lance.write_dataset(rows, uri)",
        "lance.write_dataset(rows, f'{uri}/memory://')",
        "lance.write_dataset(schema.empty_table(), uri, mode='overwrite')",
        "dataset.create_branch('x')",
    ],
)
def test_the_walk_notices(text: str) -> None:
    assert faults(text, in_tables=True)


def test_the_walk_notices_an_import() -> None:
    assert faults("from lance.fragment import write_fragments", in_tables=False)
    assert faults("import lance", in_tables=False)
    assert not faults("import lance", in_tables=True)
