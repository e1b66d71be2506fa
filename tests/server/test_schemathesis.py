"""Requests that schemathesis makes up from the OpenAPI document: no defect, and no answer that the document does not have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server_processes import running
from serving import QUERIES, make_people

from omnigraph.server.openapi import openapi

LEFT_OUT = (
    # A request that fits the document may still be refused: a query that is none, a branch that is not there.
    "positive_data_acceptance,"
    # The path of a merge is also that of a branch called "merge", which can be deleted.
    "allow_header_conformance,"
    # Both follow links between operations, which the document does not have.
    "use_after_free,ensure_resource_availability"
)


def document(folder: Path) -> Path:
    """The document for one graph: its id is not made up."""
    made = json.loads(json.dumps(openapi()))
    for operations in made["paths"].values():
        for operation in operations.values():
            operation["parameters"] = [each for each in operation.get("parameters", []) if each["name"] != "graph_id"]
    made["paths"] = {path.replace("{graph_id}", "people"): each for path, each in made["paths"].items()}
    place = folder / "openapi.json"
    place.write_text(json.dumps(made))
    return place


def run(folder: Path, *options: str) -> None:
    make_people(folder / "people")
    (folder / "people.gq").write_text(QUERIES)
    with running(folder, str(folder / "people"), "--queries", str(folder / "people.gq")) as server:
        token = re.search(r"#token=(\S+)", server.log.read_text())
        assert token is not None
        command = [str(Path(sys.executable).parent / "schemathesis"), "run", str(document(folder)), "--url", server.url]
        command += ["-H", f"Authorization: Bearer {token[1]}", "--exclude-checks", LEFT_OUT, "--warnings", "off"]
        environment = {
            **os.environ,
            "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        }
        ran = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stdout[-8_000:] + ran.stderr[-2_000:]
        assert server.process.poll() is None
        log = server.log.read_text()
        assert " defect " not in log
        assert log.count(" request ") > 100


def test_a_short_run_meets_no_defect_and_no_answer_outside_the_document(tmp_path: Path) -> None:
    run(tmp_path, "--seed", "17", "--max-examples", "2", "--phases", "coverage,fuzzing", "--no-shrink")


@pytest.mark.soak
def test_twenty_minutes_meet_no_defect_and_no_answer_outside_the_document(tmp_path: Path) -> None:
    seconds = os.environ.get("OMNIGRAPH_SCHEMATHESIS_SECONDS", "1200")
    run(tmp_path, "--max-time", seconds, "--phases", "coverage,fuzzing,stateful")
