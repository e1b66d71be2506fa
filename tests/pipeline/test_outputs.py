"""Where an export goes: what is there is kept, what appears is complete, and what is not a file is not replaced by one."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from s3_server import S3Server

import omnigraph as og
from omnigraph import errors
from omnigraph.storage.options import open_store

SCHEMA = """
node Person { name: String @key }
node City { name: String @key }
edge Knows: Person -> Person
"""
LINES = b'{"type":"Person","data":{"id":"Ada","name":"Ada"}}\n{"type":"Person","data":{"id":"Bo","name":"Bo"}}\n'


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("people") / "graph", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada")
        tx.insert("Person", name="Bo")
    return graph


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------- what is there already


def test_a_file_that_exists_is_kept_unless_forced(people: og.Graph, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    out.chmod(0o640)
    with pytest.raises(errors.AlreadyExists) as caught:
        people.export(out, engine="local")
    assert (caught.value.message, caught.value.hint) == (
        f"'{out}' exists",
        "replace it with overwrite=True, or write to another name",
    )
    assert out.read_text() == "precious"
    assert people.export(out, overwrite=True, engine="local") == 2
    assert out.read_bytes() == LINES
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert names(tmp_path) == ["out.jsonl"]


def test_one_existing_file_of_a_folder_refuses_all_of_them(people: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "Person.csv").write_text("precious")
    with pytest.raises(errors.AlreadyExists, match=r"Person\.csv' exists"):
        people.export(tmp_path / "out", format="csv", engine="local")
    assert names(tmp_path / "out") == ["Person.csv"]
    people.export(tmp_path / "out", format="csv", overwrite=True, engine="local")
    assert names(tmp_path / "out") == ["City.csv", "Knows.csv", "Person.csv"]


def test_a_link_is_followed_and_stays(people: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.jsonl").write_text("precious")
    link, dangling = tmp_path / "link.jsonl", tmp_path / "dangling.jsonl"
    link.symlink_to("data/real.jsonl")
    dangling.symlink_to("data/new.jsonl")
    with pytest.raises(errors.AlreadyExists):
        people.export(link, engine="local")
    people.export(link, overwrite=True, engine="local")
    people.export(dangling, engine="local")
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert not (tmp_path / "data" / "real.jsonl").is_symlink()
    assert (tmp_path / "data" / "real.jsonl").read_bytes() == LINES == (tmp_path / "data" / "new.jsonl").read_bytes()


def test_a_file_that_appears_meanwhile_is_kept(
    people: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    sync = os.fsync

    def somebody_is_faster(handle: int) -> None:
        out.write_text("precious")
        sync(handle)

    monkeypatch.setattr(os, "fsync", somebody_is_faster)
    with pytest.raises(errors.AlreadyExists):
        people.export(out, engine="local")
    assert out.read_text() == "precious"
    assert names(tmp_path) == ["out.jsonl"]


def test_a_file_system_without_hard_links_will_do(
    people: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    people.export(tmp_path / "out.jsonl", engine="local")
    assert names(tmp_path) == ["out.jsonl"]


# ---------------------------------------------------------------- what is not a file


def test_a_pipe_is_written_into(people: og.Graph, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()))
    reader.start()
    people.export(fifo, overwrite=True, engine="local")
    reader.join()
    assert received == [LINES]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_device_is_written_into(people: og.Graph) -> None:
    people.export("/dev/null", overwrite=True, engine="local")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(errors.StoragePermanent, match="cannot write 'full' in /dev: No space left on device"):
        people.export("/dev/full", engine="local")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_socket_is_refused(people: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(errors.UsageError, match="'socket' is a socket"):
            people.export("socket", overwrite=True, engine="local")
    assert stat.S_ISSOCK(os.stat("socket").st_mode)


STDOUT = """
import sys, omnigraph as og
og.open(sys.argv[1]).export(sys.argv[2], types=["Person"], format=sys.argv[3], engine="local")
"""


@pytest.mark.parametrize("target", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_standard_output_may_be_a_pipe_or_a_file_with_something_in_it(
    people: og.Graph, target: str, format: str, tmp_path: Path
) -> None:
    expected = LINES if format == "jsonl" else b'"id","name"\r\n"Ada","Ada"\r\n"Bo","Bo"\r\n'
    command = [sys.executable, "-c", STDOUT, people.uri, target, format]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == expected
    with (tmp_path / "out").open("wb") as out:
        out.write(b"first\n")
        out.flush()
        subprocess.run(command, stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"first\n" + expected


def test_the_command_prints_nothing_into_the_export(people: og.Graph, tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("omnigraph"), "export", people.uri, "--out"]
    run = subprocess.run([*command, "/dev/stdout"], capture_output=True, check=True)
    assert run.stdout == LINES
    run = subprocess.run([*command, tmp_path / "o.jsonl"], capture_output=True, check=True)
    assert run.stdout.decode() == f"exported 2 entities to {tmp_path / 'o.jsonl'}\n"


# ---------------------------------------------------------------- file or folder


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_one_type_goes_to_a_file_of_that_name(people: og.Graph, format: str, tmp_path: Path) -> None:
    out = tmp_path / f"one.{format}"
    assert people.export(out, format=format, types=["Person"], engine="local") == 2  # type: ignore[arg-type]
    assert out.is_file()
    table = pv.read_csv(out) if format == "csv" else pq.read_table(out)
    assert table.column("name").to_pylist() == ["Ada", "Bo"]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_types_without_rows_have_their_columns(people: og.Graph, format: str, tmp_path: Path) -> None:
    people.export(tmp_path / "out", format=format, engine="local")  # type: ignore[arg-type]
    out = tmp_path / "out" / f"Knows.{format}"
    table = pv.read_csv(out) if format == "csv" else pq.read_table(out)
    assert (table.column_names, table.num_rows) == (["id", "from", "to"], 0)


def test_a_folder_is_a_folder_whatever_its_name(people: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    people.export(tmp_path / "folder.csv", format="csv", types=["Person"], engine="local")
    people.export(f"{tmp_path}/new.csv/", format="csv", types=["Person"], engine="local")
    people.export(tmp_path, engine="local")
    assert names(tmp_path / "folder.csv") == names(tmp_path / "new.csv") == ["Person.csv"]
    assert (tmp_path / "graph.jsonl").read_bytes() == LINES


@pytest.mark.parametrize("target", ["all.csv", "-", "/dev/null"])
def test_several_types_do_not_fit_into_one_file(people: og.Graph, target: str, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError) as caught:
        people.export(str(tmp_path / target) if target == "all.csv" else target, format="csv", engine="local")
    assert caught.value.message == "a csv file has one type, and 3 are exported"
    assert names(tmp_path) == []


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_one_type_goes_to_a_stream(people: og.Graph, format: str) -> None:
    out = io.BytesIO()
    people.export(out, format=format, types=["Person"], engine="local")  # type: ignore[arg-type]
    source = io.BytesIO(out.getvalue())
    table = pv.read_csv(source) if format == "csv" else pq.read_table(source)
    assert table.num_rows == 2


# ---------------------------------------------------------------- what goes wrong


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """No file may grow beyond 10 bytes: what a full disk does, in the middle of a write."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_a_write_that_fails_half_way_leaves_nothing(people: og.Graph, format: str, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl" if format == "jsonl" else tmp_path
    with pytest.raises(errors.StoragePermanent, match=r"cannot write .*: File too large"), small_files():
        people.export(target, format=format, engine="local")  # type: ignore[arg-type]
    assert names(tmp_path) == []


def test_a_disk_that_is_full_is_told_at_the_last_moment(
    people: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.StoragePermanent) as caught:
        people.export(tmp_path / "out.jsonl", engine="local")
    assert caught.value.message == f"cannot write 'out.jsonl' in {tmp_path}: No space left on device"
    assert caught.value.hint == "free some space on the disk and write again"
    assert names(tmp_path) == []


def test_paths_that_cannot_be_written_are_typed_errors(people: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = [
        (tmp_path / "file" / "out.jsonl", errors.StoragePermanent, "Not a directory"),
        (tmp_path / ("x" * 300), errors.StoragePermanent, "File name too long"),
        ("a\0b", errors.UsageError, "'target' contains a NUL character"),
        ("", errors.UsageError, "cannot export to ''"),
        (7, errors.UsageError, "'target' must be"),
        (f"{people.uri}/out.jsonl", errors.UsageError, "inside the graph's own folder"),
        ("ftp://host/x.jsonl", errors.UsageError, "unknown scheme"),
    ]
    for target, kind, message in cases:
        with pytest.raises(kind, match=message):
            people.export(target, engine="local")  # type: ignore[arg-type]


def test_a_name_as_long_as_the_disk_allows_can_be_written(people: og.Graph, tmp_path: Path) -> None:
    people.export(tmp_path / ("x" * 249 + ".jsonl"), engine="local")
    assert len(names(tmp_path)[0]) == 255


@pytest.mark.s3
def test_objects_in_a_store_are_kept_too(people: og.Graph, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)
    address = f"s3://{s3.new_bucket()}/out"
    people.export(f"{address}/people.jsonl", engine="local")
    with pytest.raises(errors.AlreadyExists, match=r"people\.jsonl' exists"):
        people.export(f"{address}/people.jsonl", engine="local")
    people.export(f"{address}/people.jsonl", overwrite=True, engine="local")
    people.export(f"{address}/one.csv", format="csv", types=["Person"], engine="local")
    people.export(f"{address}/all", format="csv", engine="local")
    assert [info.key for info in open_store(address).list("")] == [
        "all/City.csv", "all/Knows.csv", "all/Person.csv", "one.csv", "people.jsonl",
    ]  # fmt: skip
    assert open_store(address).get("people.jsonl") == LINES
