"""Loads as OpenLineage events, through the client's own file transport."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import Write, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import lineage
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all, raising


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own settings."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED", "OPENLINEAGE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    file = tmp_path / "events.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(file))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_load_tells_what_it_read_and_wrote(graph: og.Graph, write: Write, events: Any) -> None:
    path = write("people.jsonl", person("a", age=1), person("b"), knows("a", "b"))
    receipt = graph.load(path, mode="append", engine="local")
    started, ended = events()
    assert (started["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert started["run"]["runId"] == ended["run"]["runId"]
    assert started["job"] == ended["job"]
    assert (ended["job"]["namespace"], ended["job"]["name"]) == ("omnigraph", "load.graph.main")
    assert [(each["namespace"], each["name"]) for each in ended["inputs"]] == [("file", path)]
    assert started["outputs"] == []
    outputs = {each["name"].removeprefix(f"{graph.uri}/"): each for each in ended["outputs"]}
    assert sorted(outputs) == ["Knows", "Person"]
    assert outputs["Person"]["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert receipt.commit is not None
    assert outputs["Person"]["facets"]["version"]["datasetVersion"] == receipt.commit.id
    columns = {each["name"]: each["type"] for each in outputs["Knows"]["facets"]["schema"]["fields"]}
    assert columns["src"] == "string"


def test_a_load_that_fails_or_is_interrupted_says_so(graph: og.Graph, write: Write, events: Any) -> None:
    with pytest.raises(errors.RejectedRecords):
        graph.load(write("bad.jsonl", person("a", age=200)), mode="append", engine="local")
    arm(Failpoint.LOAD_AFTER_READ, raising(KeyboardInterrupt()))
    try:
        with pytest.raises(KeyboardInterrupt):
            graph.load(write("good.jsonl", person("a")), mode="append", engine="local")
    finally:
        disarm_all()
    _, failed, _, aborted = events()
    assert (failed["eventType"], aborted["eventType"]) == ("FAIL", "ABORT")
    assert "1 record was rejected" in failed["run"]["facets"]["errorMessage"]["message"]


def test_a_dry_run_has_no_lineage(graph: og.Graph, write: Write, events: Any) -> None:
    graph.load(write("people.jsonl", person("a")), mode="append", engine="local", dry_run=True)
    assert events() == []


def test_lineage_that_cannot_be_sent_does_not_stop_the_load(
    graph: og.Graph, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "none" / "events"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    with pytest.warns(RuntimeWarning, match="the lineage of the load was not sent"):
        receipt = graph.load(write("people.jsonl", person("a")), mode="append", engine="local")
    assert receipt.total.inserted == 1


def test_nobody_asked_means_no_client_is_made(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not lineage.is_wanted()
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}\n")
    assert lineage.is_wanted()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not lineage.is_wanted()


@pytest.mark.parametrize(
    ("place", "options", "name"),
    [
        ("s3://lake/in/people", {}, ("s3://lake", "in/people")),
        ("gs://lake/", {}, ("gs://lake", "/")),
        ("/data/people", {}, ("file", "/data/people")),
        (
            "jdbc:postgresql://db:5432/crm?user=u&password=secret",
            {"dbtable": "people"},
            ("postgresql://db:5432", "crm.people"),
        ),
        ("jdbc:sqlserver://db;password=secret", {"dbtable": "t"}, ("sqlserver:/", "db.t")),
    ],
)
def test_names_of_datasets(place: str, options: dict[str, str], name: tuple[str, str]) -> None:
    assert lineage.dataset_name(place, options) == name
