"""An error of a create is not proof that nothing was created: the client may have sent the request twice, and a disk may fail after
the object has its name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from s3_server import S3Server

import omnigraph as og
from omnigraph.errors import OutcomeUnknown, StorageDenied

SCHEMA = "node P { name: String @key }"
REFUSALS = ((403, "AccessDenied"), (400, "ExpiredToken"), (404, "NoSuchBucket"))


def lose_then_refuse(s3: S3Server, key: str, status: int, code: str) -> None:
    """The first request is applied and its answer lost; the next one is refused."""
    s3.fault("answer_lost", method="PUT", key=key)
    s3.fault("refused", method="PUT", key=key, status=status, code=code)


def names(graph: og.Graph) -> set[str]:
    return {row["name"] for row in graph.query("query q() { match { $p: P } return { $p.name as name } }").rows}


@pytest.mark.s3
@pytest.mark.parametrize(("status", "code"), REFUSALS)
def test_a_repeated_request_that_is_refused_is_read_back(s3: S3Server, status: int, code: str) -> None:
    uri, options = f"s3://{s3.new_bucket()}/graph", dict(s3.options)
    lose_then_refuse(s3, "*graph.json", status, code)
    graph = og.init(uri, SCHEMA, storage_options=options)
    lose_then_refuse(s3, "*/branches/main/*", status, code)
    with graph.transaction() as tx:
        tx.insert("P", name="a")
    assert names(og.open(uri, storage_options=options)) == {"a"}
    lose_then_refuse(s3, "*/branches/side/*", status, code)
    graph.branches.create("side")
    lose_then_refuse(s3, "*/tags/*", status, code)
    graph.tags.create("v1")
    assert graph.branches.exists("side")
    assert [tag.name for tag in graph.tags.list()] == ["v1"]
    assert len(graph.commits()) == 2


@pytest.mark.s3
def test_a_refusal_is_no_proof_if_an_earlier_request_was_not_answered(s3: S3Server) -> None:
    """The first one may still arrive: nobody can know."""
    options = dict(s3.options)
    graph = og.init(f"s3://{s3.new_bucket()}/graph", SCHEMA, storage_options=options)
    s3.fault("refused", method="PUT", key="*/branches/main/*", status=503)
    s3.fault("refused", method="PUT", key="*/branches/main/*", status=403, times=2)
    with pytest.raises(OutcomeUnknown), graph.transaction() as tx:
        tx.insert("P", name="a")


@pytest.mark.s3
def test_a_single_refused_request_is_proof(s3: S3Server) -> None:
    graph = og.init(f"s3://{s3.new_bucket()}/graph", SCHEMA, storage_options=dict(s3.options))
    s3.fault("refused", method="PUT", key="*/branches/main/*", status=403)
    with pytest.raises(StorageDenied) as caught, graph.transaction() as tx:
        tx.insert("P", name="a")
    assert caught.value.outcome == "not_committed"
    assert names(graph) == set()


def test_a_disk_that_fails_after_the_commit_has_its_name_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    folder, real = tmp_path / "graph" / "branches" / "main", os.fsync
    entries = len(list(folder.iterdir()))

    def fails_once_it_is_there(handle: int) -> None:
        if len([file for file in folder.iterdir() if file.suffix == ".json"]) > entries:
            raise OSError(errno.EIO, "Input/output error")
        real(handle)

    monkeypatch.setattr(os, "fsync", fails_once_it_is_there)
    with pytest.raises(OutcomeUnknown, match="is visible") as caught, graph.transaction() as tx:
        tx.insert("P", name="a")
    monkeypatch.setattr(os, "fsync", real)
    assert og.open(tmp_path / "graph").head().id == caught.value.commit_id
