"""Files that are there before they are needed.

To make a file takes some file systems longer than to write and to sync it. Who creates one object in a folder after the other has the
next file made by a thread, while it waits for the sync of this one. Such a file has no name, so whoever dies leaves none behind; a
file system that knows no files without names has no spares.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from queue import SimpleQueue

MAX_SPARES = 64


class SpareFiles:
    """At most one file for each of the folders that were written to last. Thread-safe: one thread makes them, and whoever takes one is
    the only one who has it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a process that was forked: its parent writes to these files, and the thread is the parent's."""
        for handle in getattr(self, "_spares", {}).values():
            os.close(handle)
        self._spares: OrderedDict[str, int] = OrderedDict()
        self._wanted: SimpleQueue[str] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, folder: str) -> int | None:
        """The handle of a file in the file system of this folder, for the caller to link and to close; None if there is none."""
        return self._spares.pop(folder, None)

    def prepare(self, folder: str) -> None:
        """Have one made, if the system knows such files."""
        if not hasattr(os, "O_TMPFILE"):
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._make, args=(self._wanted,), name="omnigraph-spares", daemon=True
            )
            self._thread.start()
        self._wanted.put(folder)

    def _make(self, wanted: SimpleQueue[str]) -> None:
        while True:
            folder = wanted.get()
            if folder in self._spares:
                continue
            try:
                self._spares[folder] = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o666)
            except OSError:
                continue
            if len(self._spares) > MAX_SPARES:
                os.close(self._spares.popitem(last=False)[1])


spare_files = SpareFiles()
os.register_at_fork(after_in_child=spare_files.forget)


def link_spare(handle: int, path: str) -> bool:
    """Give a file without a name this one. FileExistsError if it is taken; False when such a file cannot have it."""
    try:
        # With a handle of a folder, which an absolute path does not need, the link in /proc is followed.
        os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True
