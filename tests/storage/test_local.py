"""What is special on local disk: durability, temporary files, the operating system's errors."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from omnigraph.errors import (
    ObjectExists,
    ObjectMissing,
    StorageDenied,
    StorageError,
    StoragePermanent,
    StorageTransient,
)
from omnigraph.storage.local import LocalStore
from omnigraph.storage.options import open_store
from omnigraph.storage.store import ObjectInfo
from omnigraph.storage.syncing import sync_files


class Trace:
    """The calls that make a write durable, in order, each with the path it was about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        fsync, link, replace = os.fsync, os.link, os.replace

        def traced_fsync(handle: int) -> None:
            self.calls.append(("fsync", os.readlink(f"/proc/self/fd/{handle}")))
            fsync(handle)

        def traced_link(source: str, target: str) -> None:
            self.calls.append(("link", target))
            link(source, target)

        def traced_replace(source: str, target: str) -> None:
            self.calls.append(("replace", target))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", traced_fsync)
        monkeypatch.setattr(os, "link", traced_link)
        monkeypatch.setattr(os, "replace", traced_replace)


@pytest.mark.parametrize(("write", "naming"), [("create", "link"), ("put", "replace")])
def test_a_write_syncs_the_file_then_names_it_then_syncs_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, naming: str
) -> None:
    root = tmp_path / "new" / "graph"
    trace = Trace(monkeypatch)
    getattr(LocalStore(root), write)("branches/main/1", b"x")

    (first, temporary), second, *folders = trace.calls
    assert first == "fsync"
    assert Path(temporary).name.startswith(".tmp-")
    assert Path(temporary).parent == root / "branches/main"
    assert second == (naming, str(root / "branches/main/1"))
    # Up to the root, and on to the folders that got a new entry when the root was made.
    assert sorted(folders) == sorted(
        ("fsync", str(folder))
        for folder in (root / "branches/main", root / "branches", root, root.parent, root.parent.parent)
    )


def folders_synced(trace: Trace, root: Path) -> set[str]:
    """Of the writes since the last look, relative to the root."""
    paths = [Path(path) for name, path in trace.calls if name == "fsync"]
    trace.calls.clear()
    return {str(path.relative_to(root)) for path in paths if path.is_dir()}


def test_the_name_of_a_folder_is_made_durable_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each process: the one that made the folder may not have come to it yet."""
    (tmp_path / "a/b").mkdir(parents=True)
    trace = Trace(monkeypatch)
    LocalStore(tmp_path).create("a/b/1", b"")
    assert folders_synced(trace, tmp_path) == {"a/b", "a", "."}
    LocalStore(tmp_path).create("a/b/2", b"")
    sync_files([tmp_path / "a/b/2"], root=tmp_path)
    assert folders_synced(trace, tmp_path) == {"a/b"}
    LocalStore(tmp_path).create("a/3", b"")
    LocalStore(tmp_path / "a").create("b/4", b"")
    assert folders_synced(trace, tmp_path) == {"a/b", "a"}


def test_a_folder_that_was_made_again_has_a_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the file system gives it the number of the old one, as it likes to do."""
    store = LocalStore(tmp_path)
    store.create("a/b/1", b"")
    shutil.rmtree(tmp_path / "a/b")
    (tmp_path / "a/b").mkdir()
    trace = Trace(monkeypatch)
    store.create("a/b/1", b"")
    assert folders_synced(trace, tmp_path) == {"a/b", "a"}


def test_a_failed_sync_of_a_folder_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    real = os.fsync

    def broken(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}") == str(tmp_path):
            raise OSError(errno.EIO, "broken")
        real(handle)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StoragePermanent):
        store.create("a/1", b"")
    monkeypatch.setattr(os, "fsync", real)
    trace = Trace(monkeypatch)
    store.create("a/2", b"")
    assert folders_synced(trace, tmp_path) == {"a", "."}


def test_files_to_sync_first_are_durable_before_the_object_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.put("tables/t/1", b"rows")
    trace = Trace(monkeypatch)
    store.create("a", b"", sync_first=[str(tmp_path / "tables/t/1")])
    synced_before = {path for call, path in trace.calls[: trace.calls.index(("link", str(tmp_path / "a")))]}
    assert {str(tmp_path / "tables/t/1"), str(tmp_path / "tables/t")} <= synced_before


@pytest.mark.parametrize("number", [errno.EIO, errno.EINTR, errno.ENOSPC])
def test_a_file_that_cannot_be_synced_first_is_never_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The system forgets what it could not write: the second sync would succeed. So the error is none to retry."""
    store = LocalStore(tmp_path)
    store.put("t", b"rows")
    real = os.fsync

    def fails_for_the_table(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}") == str(tmp_path / "t"):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fails_for_the_table)
    with pytest.raises(StoragePermanent):
        store.create("b", b"", sync_first=[str(tmp_path / "t")])
    assert [info.key for info in store.list("")] == ["t"]


def test_process_durability_syncs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace(monkeypatch)
    store = open_store(str(tmp_path), durability="process")
    store.create("a/1", b"x")
    store.put("a/2", b"x")
    store.delete("a/1")
    sync_files([tmp_path / "a/2"], durability="process")
    assert [name for name, _ in trace.calls] == ["link", "replace"]


def test_sync_files_syncs_each_file_and_each_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / name for name in ("t/data/1", "t/data/2", "t/_versions/3")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    trace = Trace(monkeypatch)
    sync_files(files)
    own = [*map(str, files), str(tmp_path / "t/_versions"), str(tmp_path / "t/data")]
    assert sorted(path for _, path in trace.calls) == sorted(own)

    trace.calls.clear()
    sync_files(files, root=tmp_path)
    assert sorted(path for _, path in trace.calls) == sorted([*own, str(tmp_path / "t"), str(tmp_path)])


def test_sync_files_tells_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match="gone"):
        sync_files([tmp_path / "gone"])


def test_temporary_files_are_never_listed_and_do_not_make_a_folder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "branches/dead").mkdir(parents=True)
    (tmp_path / "branches/dead/.tmp-0123").write_bytes(b"half")
    store.put("branches/main/1", b"")
    assert [info.key for info in store.list("")] == ["branches/main/1"]
    assert [info.key for info in store.list("branches", limit=5)] == ["branches/main/1"]
    assert store.list_folders("branches") == ["main"]
    assert store.delete_prefix("branches") == 1


def test_a_delete_takes_the_folders_it_emptied_but_not_the_root(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b/c", b"")
    store.put("a/d", b"")
    store.delete("a/b/c")
    assert os.listdir(tmp_path / "a") == ["d"]
    store.delete("a/d")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_goes_away_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times another process removes the parent between the two steps of making `a/b`."""
    mkdir, left = os.mkdir, 3

    def mkdir_after_a_delete(path: str, mode: int = 0o777) -> None:
        nonlocal left
        if Path(path).name == "b" and left:
            left -= 1
            os.rmdir(Path(path).parent)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir_after_a_delete)
    LocalStore(tmp_path).create("a/b/c", b"1")
    assert left == 0
    assert LocalStore(tmp_path).get("a/b/c") == b"1"


def test_no_temporary_file_is_left_by_a_lost_race_or_a_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"1")
    with pytest.raises(ObjectExists):
        store.create("a", b"2")
    monkeypatch.setattr(os, "replace", _failing(errno.ENOSPC))
    with pytest.raises(StoragePermanent):
        store.put("b", b"2")
    assert os.listdir(tmp_path) == ["a"]


def test_a_limited_listing_looks_at_no_more_files_than_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2000):
        (tmp_path / f"{number:06}").touch()
    looked: list[str] = []
    stat = os.stat

    def counted(path: str, **options: object) -> os.stat_result:
        looked.append(path)
        return stat(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", counted)
    assert [info.key for info in LocalStore(tmp_path).list("", limit=3)] == ["000000", "000001", "000002"]
    assert len(looked) == 3


def test_a_file_url_is_its_path(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/with%20space")
    store.put("a", b"1")
    assert store.uri == str(tmp_path / "with space")
    assert (tmp_path / "with space" / "a").read_bytes() == b"1"


def test_opening_and_reading_make_no_folder(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "graph"))
    assert store.list("") == []
    store.delete("a")
    assert not (tmp_path / "graph").exists()


def test_a_file_in_place_of_a_folder_is_a_lasting_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "branches").write_bytes(b"")
    with pytest.raises(StoragePermanent, match="branches/main/1") as raised:
        LocalStore(tmp_path).create("branches/main/1", b"")
    assert "choose another path" in (raised.value.hint or "")


@pytest.mark.parametrize("write", ["create", "put"])
def test_a_folder_in_place_of_an_object_is_a_lasting_error(tmp_path: Path, write: str) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(StoragePermanent):
        getattr(LocalStore(tmp_path), write)("a", b"")


def _failing(number: int) -> object:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoragePermanent),
        (errno.EDQUOT, StoragePermanent),
        (errno.EIO, StoragePermanent),
        (errno.EACCES, StorageDenied),
        (errno.EROFS, StorageDenied),
        (errno.EPERM, StoragePermanent),
        (errno.ENOTSUP, StoragePermanent),
        (errno.ESTALE, StorageTransient),
        (errno.EMFILE, StorageTransient),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
def test_errors_of_the_system_keep_their_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[StorageError]
) -> None:
    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "link", _failing(number))
    with pytest.raises(expected) as raised:
        store.create("a", b"")
    assert raised.value.key == "a"
    assert str(tmp_path) in raised.value.message
    assert raised.value.hint


def test_a_disk_without_hard_links_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", _failing(errno.EPERM))
    with pytest.raises(StoragePermanent) as raised:
        LocalStore(tmp_path).create("a", b"")
    assert "hard links" in (raised.value.hint or "")


def test_writers_and_a_pruning_deleter_do_not_trip_over_each_other(tmp_path: Path) -> None:
    """A delete takes the empty folder away; a create that needs it meanwhile makes it again."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(_create_and_delete, str(tmp_path), worker, 300) for worker in range(2)]
        assert [each.result() for each in running] == [300, 300]
    assert LocalStore(tmp_path).list("") == []


def _create_and_delete(root: str, worker: int, times: int) -> int:
    store = LocalStore(root, durability="process")
    for number in range(times):
        store.create(f"a/b/{worker}-{number}", b"")
        store.delete(f"a/b/{worker}-{number}")
    return times


def test_a_limited_listing_shows_what_is_there_although_a_file_goes_away_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the folder was read, and before the file is looked at."""
    store = LocalStore(str(tmp_path))
    for name in "abc":
        store.put(f"x/{name}", b"")
    look = LocalStore._info

    def too_late(self: LocalStore, key: str) -> ObjectInfo:
        store.delete("x/a")
        return look(self, key)

    monkeypatch.setattr(LocalStore, "_info", too_late)
    assert [info.key for info in store.list("x", limit=1)] == ["x/b"]
    assert [info.key for info in store.list("x", limit=5)] == ["x/b", "x/c"]
