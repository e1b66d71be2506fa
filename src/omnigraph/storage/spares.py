"""Spare files, created before they are needed.

Some file systems take longer to create a file than to write and sync it. While a store that creates one object after the other in
a folder waits for a sync, a thread creates the file for the next object. It has no name yet, so a process that dies leaves
nothing behind; on file systems without unnamed files there are no spares.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from queue import SimpleQueue

MAX_SPARES = 64


class SpareFiles:
    """At most one file for each of the folders that were written to last. Thread-safe: one thread makes them, and each is taken
    only once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start empty in a forked process: the files and the thread belong to its parent."""
        for handle in getattr(self, "_spares", {}).values():
            os.close(handle)
        self._spares: OrderedDict[str, int] = OrderedDict()
        self._wanted: SimpleQueue[str] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, folder: str) -> int | None:
        """The handle of a spare file for this folder, for the caller to link and close; None if there is none."""
        return self._spares.pop(folder, None)

    def prepare(self, folder: str) -> None:
        """Have a spare made, if the system supports unnamed files."""
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
    """Give an unnamed file this name. FileExistsError if it is taken; False if it cannot be given."""
    try:
        # Passing src_dir_fd, which an absolute path does not need, makes Python follow the link in /proc.
        os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True
