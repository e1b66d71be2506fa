"""What is shipped for running a server is right: the image, the service, the compose file; and traces."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from serving import ADD, Fixed, make_people
from starlette.testclient import TestClient

from omnigraph.cli.main import cli
from omnigraph.errors import MissingExtra
from omnigraph.server.app import Application
from omnigraph.server.auth import tokens_of
from omnigraph.server.telemetry import Traces, tracer_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "server"


def accepted(words: list[str]) -> None:
    cli.commands["serve"].make_context("serve", words).close()


def test_the_compose_file_gives_flags_that_the_program_takes() -> None:
    service = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"]["omnigraph"]
    accepted(service["command"])
    assert (EXAMPLES / service["build"] / "Dockerfile").exists()


def test_the_service_starts_and_reloads_the_program() -> None:
    text = (EXAMPLES / "omnigraph.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert start is not None
    program, *words = shlex.split(start[1])
    assert program.endswith("/omnigraph-server")
    accepted(words)
    assert "ExecReload=/bin/kill -HUP $MAINPID" in text


def test_the_image_runs_the_server_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert json.loads(text.rpartition("ENTRYPOINT ")[2]) == ["omnigraph-server"]
    assert "USER omnigraph" in text
    for name in re.findall(r"^COPY (?!--from)(.*) \./?\S*$", text, re.MULTILINE):
        assert all((ROOT / each).exists() for each in name.split())


def test_the_example_of_tokens_is_one() -> None:
    known = tokens_of({"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(EXAMPLES / "tokens.yaml")})
    assert known is not None
    assert known.verify("example") is not None


def test_a_request_is_a_span_in_the_trace_that_it_names(tmp_path: Path) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    source = Fixed({"people": make_people(tmp_path / "people")})
    app = Application(source, source.load(), tracer=Traces(provider.get_tracer("test")))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with TestClient(app, base_url="http://localhost") as client:
        made = client.post(
            "/graphs/people/mutate",
            json={"query": ADD, "params": {"name": "Traced"}},
            headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"},
        ).json()
    spans: dict[str, Any] = {span.name: span for span in kept.get_finished_spans()}
    request = spans["POST /graphs/{graph_id}/mutate"]
    assert format(request.context.trace_id, "032x") == trace
    assert request.attributes["graph.commit_id"] == made["commit"]["graph_commit_id"]
    assert request.attributes["http.response.status_code"] == 200
    assert spans["run"].parent.span_id == request.context.span_id


def test_traces_are_kept_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracer_of({}) is None
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match="tracing needs"):
        tracer_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
