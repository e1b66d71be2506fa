"""Texts through a server: a graph of a cluster embeds with the provider that the cluster file names for it, for HTTP and agents."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from omnigraph.cluster.applying import apply
from omnigraph.cluster.config import read_config
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog
from omnigraph.server.startup import ClusterGraphs

CLUSTER = """
version: 1
metadata: { name: notes }
providers: { embedding: { words: { kind: mock }, far: { kind: openai, api_key: "${ABSENT_KEY}" } } }
graphs:
  near: { schema: notes.pg, embedding_provider: words }
  far: { schema: notes.pg, embedding_provider: far }
"""
NEAR = "query near($t: String) { match { $n: Note } return { $n.text as text } order { nearest($n.vec, $t) } limit 1 }"
ADD = 'query add() { insert Note { text: "red fox" } insert Note { text: "blue bird" } }'


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "notes.pg").write_text('node Note { text: String @key  vec: Vector(8) @embed("text") }')
    assert apply(read_config(tmp_path)).converged
    source = ClusterGraphs(str(tmp_path), {})
    app = Application(source, source.load(), None, RequestLog("json", StringIO()))
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


def test_a_served_graph_embeds_with_the_provider_of_its_cluster(client: TestClient) -> None:
    asked: dict[str, Any] = {"query": NEAR, "params": {"t": "a red thing"}}
    call = {"name": "query", "arguments": asked}
    with client:
        assert client.post("/graphs/near/mutate", json={"query": ADD}).status_code == 200
        assert client.post("/graphs/near/query", json=asked).json()["rows"] == [{"text": "red fox"}]
        said = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        headers = {"Accept": "application/json, text/event-stream"}
        told = client.post("/graphs/near/mcp", json=said, headers=headers).json()
        assert told["result"]["structuredContent"]["rows"] == [{"text": "red fox"}]
        refused = client.post("/graphs/far/mutate", json={"query": ADD})
        assert (refused.status_code, refused.json()["problem"]["code"]) == (400, "embedding_refused")
        assert "ABSENT_KEY is not set" in refused.json()["error"]
