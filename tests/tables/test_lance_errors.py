"""What goes wrong below a table reaches the caller as one of our storage errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Damaged, StorageDenied, StorageError, StoragePermanent, StorageTransient
from omnigraph.tables.lance_errors import translated

CASES = [
    (OSError("LanceError(IO): Generic S3 error: error sending request for url (http://x)"), StorageTransient),
    (OSError("operation timed out"), StorageTransient),
    (OSError("Generic S3 error: 403 Forbidden"), StorageDenied),
    (OSError("Generic S3 error: server returned status code: 503"), StorageTransient),
    (OSError("Not found: nodes/Person-1/data/01403ab.lance"), StoragePermanent),
    (OSError("Not found: nodes/Person-1/_deletions/503-403-1.arrow"), StoragePermanent),
    (PermissionError(13, "Permission denied"), StorageDenied),
    (OSError("No space left on device (os error 28)"), StoragePermanent),
]


@pytest.mark.parametrize(("error", "kind"), CASES, ids=lambda case: str(case)[:30])
def test_words_decide_the_kind(error: OSError, kind: type[StorageError]) -> None:
    with pytest.raises(kind) as caught, translated("nodes/Person-1"):
        raise error
    assert caught.value.key == "nodes/Person-1"
    assert caught.value.hint


def test_a_table_whose_files_are_gone_is_damaged(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "g"), "node Person { name: String @key }", durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="ada")
    shutil.rmtree(tmp_path / "g" / "nodes")
    again = og.open(str(tmp_path / "g"))
    with pytest.raises(Damaged, match="it is missing"):
        again.query("query q() { match { $p: Person } return { $p.name } }")


@pytest.mark.s3
@pytest.mark.usefixtures("stores_every_commit")
def test_a_store_that_refuses_leaves_nothing_visible(s3: object, tmp_path: Path) -> None:
    server: object = s3
    options = {**server.options, "client_max_retries": "0", "client_retry_timeout": "1"}  # type: ignore[attr-defined]
    uri = f"s3://{server.new_bucket()}/refused"  # type: ignore[attr-defined]
    graph = og.init(uri, "node Person { name: String @key }", storage_options=options)
    with graph.transaction() as tx:
        tx.insert("Person", name="ada")
    head = graph.commits(limit=1)[0].id
    server.fault("refused", method="PUT", key="*refused/*data/*", times=50)  # type: ignore[attr-defined]
    with pytest.raises(StorageError), graph.transaction() as tx:
        tx.insert("Person", name="bo")
    assert graph.commits(limit=1)[0].id == head
