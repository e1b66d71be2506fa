"""A load that ends before its plan is prepared leaves no files; from then on it keeps all of them."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline.conftest import Write, content, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import checks, inputs
from omnigraph.tasks import runner
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all, raising

pytestmark = pytest.mark.usefixtures("staged_loads")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm_all()


@pytest.fixture
def loaded(graph: og.Graph, write: Write) -> og.Graph:
    """A graph whose tables are there already."""
    first = [person("a"), person("b"), {"type": "Note", "data": {"text": "x"}}, knows("a", "b", id="e1")]
    graph.load(write("first.jsonl", *first), mode="append", engine="local")
    return graph


def files(graph: og.Graph) -> set[str]:
    """All but the few bytes that Lance notes of each version, which nothing ever reads."""
    root = Path(graph.uri)
    found = (path for path in root.rglob("*") if path.is_file() and path.parent.name != "_transactions")
    return {str(path.relative_to(root)) for path in found}


SECOND = [person("b", age=2), person("c"), knows("a", "c", id="e2")]


@pytest.mark.parametrize("point", [Failpoint.LOAD_AFTER_READ, Failpoint.LOAD_AFTER_STAGE, Failpoint.LOAD_AFTER_CHECKS])
@pytest.mark.parametrize("splits", ["one split", "many splits"])
def test_an_interrupted_load_leaves_no_files(
    point: Failpoint, splits: str, loaded: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    if splits == "many splits":
        monkeypatch.setattr(inputs, "MIN_SPLIT_BYTES", 500)
        monkeypatch.setattr(inputs, "MAX_SPLIT_BYTES", 500)
    before = files(loaded)
    records = [*SECOND, *(person(f"p{number}") for number in range(200))]
    arm(point, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        loaded.load(write("second.jsonl", *records), mode="merge", engine="local")
    assert files(loaded) == before
    assert loaded.load(write("second.jsonl", *records), mode="merge", engine="local").commit is not None


def test_an_interrupted_load_of_a_data_frame_leaves_no_files(loaded: og.Graph) -> None:
    before = files(loaded)
    arm(Failpoint.LOAD_AFTER_READ, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        loaded.load({"Person": pa.table({"email": ["x", "y"]})}, mode="append", engine="local")
    assert files(loaded) == before


def test_a_dry_run_leaves_nothing_of_types_that_had_no_rows(
    graph: og.Graph, write: Write, engine: dict[str, Any]
) -> None:
    before = {str(path) for path in Path(graph.uri).rglob("*")}
    tried = graph.load(write("first.jsonl", *SECOND, person("a")), mode="append", dry_run=True, **engine)
    assert tried.total.inserted == 4
    refused = graph.load(write("second.jsonl", person("a", age=200)), mode="append", dry_run=True, **engine)
    assert len(refused.refusals) == 1
    assert {str(path) for path in Path(graph.uri).rglob("*")} - before <= {f"{graph.uri}/staging"}


REFUSED: dict[str, tuple[str, list[Any], type[errors.OmnigraphError]]] = {
    "a record that cannot be read": ("append", [person("c"), person("d", age="x")], errors.RejectedRecords),
    "a key that is there": ("append", [person("c"), person("a")], errors.KeyConflict),
    "an end that is missing": ("merge", [person("c"), knows("c", "z")], errors.EndpointMissing),
    "too many edges": ("append", [knows("a", "a"), knows("a", "b", id="e9")], errors.InputError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_load_leaves_no_files(
    case: str, loaded: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    mode, records, kind = REFUSED[case]
    before = files(loaded)
    with pytest.raises(kind):
        loaded.load(write("second.jsonl", *records), mode=mode, **engine)  # type: ignore[arg-type]
    assert files(loaded) == before


def test_a_file_that_cannot_be_read_leaves_no_files_of_the_others(
    loaded: og.Graph, write: Write, tmp_path: Path
) -> None:
    before = files(loaded)
    (tmp_path / "Person.csv").write_text("emial\nx\n")
    with pytest.raises(errors.UnreadableInput):
        loaded.load([write("second.jsonl", *SECOND), tmp_path / "Person.csv"], mode="merge", engine="local")
    assert files(loaded) == before


def test_a_load_that_changes_nothing_leaves_no_files(loaded: og.Graph, write: Write) -> None:
    before = files(loaded)
    assert loaded.load(write("same.jsonl", person("a"), person("b")), mode="merge", engine="local").commit is None
    assert files(loaded) == before


def test_only_the_load_s_own_files_go(loaded: og.Graph, write: Write, tmp_path: Path) -> None:
    other = og.open(loaded.uri, durability="process")

    def meanwhile() -> None:
        disarm_all()
        other.load(write("other.jsonl", person("z"), knows("b", "z", id="e3")), mode="append", engine="local")
        raise KeyboardInterrupt

    arm(Failpoint.LOAD_AFTER_STAGE, meanwhile)
    with pytest.raises(KeyboardInterrupt):
        loaded.load(write("second.jsonl", *SECOND), mode="merge", engine="local")
    assert {record["data"]["id"] for record in content(loaded, tmp_path)} >= {"z", "e3", "a", "b", "e1"}
    assert og.open(loaded.uri, verify="full")


def test_what_a_prepared_plan_names_is_kept(loaded: og.Graph, write: Write, tmp_path: Path) -> None:
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        loaded.load(write("second.jsonl", *SECOND), mode="merge", engine="local")
    (prepared,) = loaded.recovery.list()
    loaded.recovery.resume(prepared.commit_id)
    assert {record["data"]["id"] for record in content(loaded, tmp_path)} >= {"c", "e2"}


def test_what_may_have_been_published_is_kept(loaded: og.Graph, write: Write) -> None:
    before = files(loaded)
    arm(Failpoint.PUBLISH_BEFORE_CREATE, raising(errors.OutcomeUnknown("the store does not answer", commit_id="x")))
    with pytest.raises(errors.OutcomeUnknown):
        loaded.load(write("second.jsonl", *SECOND), mode="merge", engine="local")
    assert any("/data/" in file for file in files(loaded) - before)
    assert len(loaded.recovery.list()) == 1


def test_what_somebody_else_resumed_is_kept_though_the_load_itself_was_refused(
    loaded: og.Graph, write: Write, tmp_path: Path
) -> None:
    """Whoever lists the prepared loads may publish one the moment before its own load gives it up."""
    other = og.open(loaded.uri, durability="process")

    def be_first() -> None:
        disarm_all()
        other.load(write("other.jsonl", person("c", age=7)), mode="append", engine="local")
        arm(Failpoint.RECOVERY_BEFORE_REMOVE, resume)

    def resume() -> None:
        disarm_all()
        other.mutate('query gone() { delete Person where email = "c" }')
        (prepared,) = other.recovery.list()
        other.recovery.resume(prepared.commit_id)

    arm(Failpoint.LOAD_BEFORE_PUBLISH, be_first)
    with pytest.raises(errors.KeyConflict):
        loaded.load(write("second.jsonl", *SECOND[1:]), mode="append", engine="local")
    assert loaded.recovery.list() == []
    fresh = og.open(loaded.uri, verify="full")
    assert {record["data"]["id"] for record in content(fresh, tmp_path)} >= {"a", "b", "c", "e1", "e2"}


def test_small_fragments_go_when_they_were_packed(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MIN_SPLIT_BYTES", 500)
    monkeypatch.setattr(inputs, "MAX_SPLIT_BYTES", 500)
    graph.load(write("p.jsonl", *(person(f"p{number}") for number in range(300))), mode="append", engine="local")
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    named = {f"{table.path}/data/{file}" for fragment in table.fragments for file in fragment.files}
    assert {file for file in files(graph) if "/data/" in file} == named
    assert table.rows == 300


@contextlib.contextmanager
def small_files(most_bytes: int) -> Iterator[None]:
    """No file may grow beyond this: what a full disk does, in the middle of a write."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_refuses_the_load_and_leaves_no_files(loaded: og.Graph, write: Write) -> None:
    before = files(loaded)
    source = write("many.jsonl", *(person(f"p{number}", handle=f"{number:0100}") for number in range(2_000)))
    with pytest.raises(errors.StoragePermanent, match="could not be written") as caught, small_files(20_000):
        loaded.load(source, mode="append", engine="local")
    assert caught.value.hint == "free some space on the disk and write again"
    assert files(loaded) == before


def test_a_full_disk_for_temporary_files_refuses_the_load(
    loaded: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "BUCKET_ROWS", 1)
    monkeypatch.setattr(runner, "_PIECE", FullDisk())
    before = files(loaded)
    with pytest.raises(
        errors.StoragePermanent, match=r"cannot write 'a temporary file' in .*: No space left on device"
    ):
        loaded.load(write("second.jsonl", *SECOND), mode="merge", engine="local")
    assert files(loaded) == before


class FullDisk:
    """In the place of what writes the first bytes of a piece."""

    def pack(self, *_values: int) -> bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
