"""Files that are made before they are needed: the order of what makes a write durable, refusals, and forks."""

from __future__ import annotations

import errno
import os
import time
import warnings
from pathlib import Path

import pytest

from omnigraph.errors import ObjectExists, StorageError, StorageTransient
from omnigraph.storage.local import LocalStore, spare_files

pytestmark = pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="no files without names here")


def store_with_spare(root: Path) -> LocalStore:
    store = LocalStore(root)
    store.create("a/1", b"one")
    store.create("a/2", b"two")
    wait_for_spare(root / "a")
    return store


def wait_for_spare(folder: Path) -> None:
    until = time.monotonic() + 10
    while str(folder) not in spare_files._spares:
        assert time.monotonic() < until, "no spare was made"
        time.sleep(0.001)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_create_from_a_spare_syncs_the_file_names_it_and_syncs_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_with_spare(tmp_path)
    calls: list[str] = []
    fsync, link = os.fsync, os.link

    def traced_fsync(handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        calls.append("folder synced" if path == str(tmp_path / "a") else f"file of {os.fstat(handle).st_size} synced")
        fsync(handle)

    def traced_link(source: str, target: str, **options: object) -> None:
        assert source.startswith("/proc/self/fd/"), "not from a spare"
        calls.append("named")
        link(source, target, **options)  # type: ignore[arg-type]  # those of os.link

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "link", traced_link)
    store.create("a/3", b"three")
    assert calls == ["file of 5 synced", "named", "file of 5 synced", "folder synced"]
    assert store.get("a/3") == b"three"
    assert names(tmp_path / "a") == ["1", "2", "3"]


def test_a_spare_takes_no_name_that_is_taken(tmp_path: Path) -> None:
    store = store_with_spare(tmp_path)
    with pytest.raises(ObjectExists):
        store.create("a/2", b"other")
    assert store.get("a/2") == b"two"
    assert names(tmp_path / "a") == ["1", "2"]


def test_one_spare_serves_one_create(tmp_path: Path) -> None:
    store = store_with_spare(tmp_path)
    for number in range(3, 40):
        store.create(f"a/{number}", f"number {number}".encode() * (40 - number))
        if number % 3 == 0:
            wait_for_spare(tmp_path / "a")
    for number in range(3, 40):
        assert store.get(f"a/{number}") == f"number {number}".encode() * (40 - number)


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOENT, errno.EPERM])
def test_where_a_spare_cannot_be_linked_the_file_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store, link = store_with_spare(tmp_path), os.link

    def refusing(source: str, target: str, **options: object) -> None:
        if source.startswith("/proc/"):
            raise OSError(number, os.strerror(number))
        link(source, target)

    monkeypatch.setattr(os, "link", refusing)
    store.create("a/3", b"three")
    assert store.get("a/3") == b"three"
    assert names(tmp_path / "a") == ["1", "2", "3"]


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    store = store_with_spare(tmp_path)
    store.delete_many(["a/1", "a/2"])
    assert not (tmp_path / "a").exists()
    store.create("a/3", b"three")
    assert store.get("a/3") == b"three"


def test_a_failed_sync_of_a_spare_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_with_spare(tmp_path)

    def broken(handle: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageError) as raised:
        store.create("a/3", b"three")
    assert not isinstance(raised.value, StorageTransient | ObjectExists)
    assert names(tmp_path / "a") == ["1", "2"]


def test_a_forked_process_leaves_the_spares_of_its_parent_alone(tmp_path: Path) -> None:
    store = store_with_spare(tmp_path)
    handle = spare_files._spares[str(tmp_path / "a")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lance, if another test has loaded it, warns of forks.
        child = os.fork()
    if child == 0:
        try:
            store.create("a/child", b"of the child")
            os._exit(0 if os.fstat(handle).st_nlink else 1)
        except OSError:
            os._exit(0)  # The handle is closed here, or another file's.
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.fstat(handle).st_size == 0
    store.create("a/parent", b"of the parent")
    assert (store.get("a/child"), store.get("a/parent")) == (b"of the child", b"of the parent")
