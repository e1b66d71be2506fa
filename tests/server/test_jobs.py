"""Loads that go on after their request was answered, and loads of Arrow."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from serving import Fixed, people_client, tokens
from starlette.testclient import TestClient

from omnigraph.api.structs import JsonObject
from omnigraph.errors import PolicyDenied, UnreadableInput
from omnigraph.graph.writing import WriteMethods
from omnigraph.load.files import ConfinedPath, find_files
from omnigraph.policy.ask import AccessRequest
from omnigraph.server.jobs import Job, Jobs
from omnigraph.server.logs import RequestLog
from omnigraph.server.registry import Served

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
PATIENCE_S = 60.0
OVER = ("done", "failed", "cancelled")


def lines(*names: str) -> bytes:
    return "".join(json.dumps({"type": "Person", "data": {"name": name}}) + "\n" for name in names).encode()


class WithInbox(Fixed):
    """A source that lets files below a folder be loaded."""

    inbox = ""

    def load(self) -> Served:
        served = super().load()
        return Served(served.graphs, served.verifiers, served.server_gate, load_sources=(self.inbox,))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    place = tmp_path / "inbox"
    place.mkdir()
    return place


@pytest.fixture
def loading(people: Path, inbox: Path) -> Iterator[TestClient]:
    source = WithInbox({"people": people})
    source.inbox = str(inbox)
    with people_client(source) as client:
        yield client


def ended(client: TestClient, job_id: str, **options: Any) -> dict[str, Any]:
    """The job when it is over: its stream of events ends then."""
    answer = client.get(f"jobs/{job_id}/events", **options)
    states = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert states[-1]["state"] in OVER
    job: dict[str, Any] = client.get(f"jobs/{job_id}", **options).json()
    assert job["state"] == states[-1]["state"]
    return job


def test_files_below_an_allowed_address_are_loaded(loading: TestClient, inbox: Path) -> None:
    (inbox / "more.jsonl").write_bytes(lines("J1", "J2"))
    answer = loading.post("jobs/load", json={"sources": [str(inbox / "more.jsonl")], "mode": "append"})
    assert answer.status_code == 202, answer.text
    job_id = answer.json()["job_id"]
    assert answer.headers["location"] == f"/graphs/people/jobs/{job_id}"
    job = ended(loading, job_id)
    assert (job["state"], job["result"]["total_entities"], job["branch"]) == ("done", 2, "main")
    assert loading.get("entity?type=Person&id=J2").status_code == 200
    assert [each["job_id"] for each in loading.get("jobs").json()["jobs"]] == [job_id]
    assert loading.get(f"jobs/{job_id}/rejects").status_code == 404


@pytest.mark.parametrize(
    "source", ["/etc/passwd", "s3://other/x", "{inbox}", "{inbox}/../x", "{inbox}2/x", "{inbox}/%2e%2e/x"]
)
def test_no_other_file_is_reached(loading: TestClient, inbox: Path, source: str) -> None:
    answer = loading.post("jobs/load", json={"sources": [source.format(inbox=inbox)]})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert loading.get("jobs").json()["jobs"] == []


@pytest.mark.parametrize("source", ["link.jsonl", "*.jsonl", "folder", "folder/secret.jsonl", "**/secret.jsonl"])
def test_links_that_lead_out_of_an_allowed_address_are_not_followed(
    loading: TestClient, inbox: Path, tmp_path: Path, source: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonl").write_text("a secret\n")
    (inbox / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (inbox / "folder").symlink_to(outside)
    (inbox / "good.jsonl").write_bytes(lines("Good"))
    job_id = loading.post("jobs/load", json={"sources": [str(inbox / source)], "keep_rejects": True}).json()["job_id"]
    job = ended(loading, job_id)
    assert job["state"] == "failed"
    assert "symbolic link" in job["error"]["error"]
    assert loading.get(f"jobs/{job_id}/rejects").status_code == 404
    assert "a secret" not in json.dumps(job)


def test_links_that_stay_below_an_allowed_address_are_followed(loading: TestClient, inbox: Path) -> None:
    (inbox / "here").mkdir()
    (inbox / "here" / "x.jsonl").write_bytes(lines("Linked"))
    (inbox / "link.jsonl").symlink_to(inbox / "here" / "x.jsonl")
    job_id = loading.post("jobs/load", json={"sources": [str(inbox / "link.jsonl")]}).json()["job_id"]
    assert ended(loading, job_id)["state"] == "done"


def test_a_link_that_is_made_after_the_files_were_found_is_not_followed(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (tmp_path / "secret").write_text("a secret\n")
    (inbox / "x.jsonl").write_bytes(lines("X"))
    (file,) = find_files(ConfinedPath(str(inbox / "*.jsonl"), str(inbox)))
    (inbox / "x.jsonl").unlink()
    (inbox / "x.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(UnreadableInput, match="symbolic link"):
        file.open()


def test_a_form_of_files_is_loaded_and_what_is_wrong_set_aside(loading: TestClient) -> None:
    files = [
        ("file", ("a.jsonl", lines("U1"))),
        ("file", ("b.jsonl", lines("U2") + b'{"type": "Nobody", "data": {}}\n')),
    ]
    answer = loading.post("jobs/load/upload?mode=append&keep_rejects=1", files=files)
    job = ended(loading, answer.json()["job_id"])
    assert (job["state"], job["result"]["total_entities"], job["rejected"]) == ("done", 2, 1), job
    (reject,) = loading.get(f"jobs/{job['job_id']}/rejects").text.splitlines()
    assert "Nobody" in json.loads(reject)["record"]
    refused = loading.post("jobs/load/upload", files=[("file", ("b.jsonl", b"{}\n"))])
    failed = ended(loading, refused.json()["job_id"])
    assert (failed["state"], failed["error"]["code"]) == ("failed", "bad_request")
    assert loading.post("jobs/load/upload", json={}).status_code == 415
    assert loading.post("jobs/load/upload", files=[]).status_code in (400, 415)
    empty = {"content": b"--x\r\n--x--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=x"}}
    assert loading.post("jobs/load/upload?mode=append", **empty).status_code == 400


def test_a_job_is_cancelled_and_publishes_nothing(loading: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work, may_go = threading.Event(), threading.Event()
    load = WriteMethods.load

    def held(self: Any, *arguments: Any, progress: Any, **options: Any) -> Any:
        def tell(status: Any) -> None:
            at_work.set()
            assert may_go.wait(PATIENCE_S)
            progress(status)

        return load(self, *arguments, progress=tell, **options)

    monkeypatch.setattr(WriteMethods, "load", held)
    job_id = loading.post("jobs/load/upload", files=[("file", ("a.jsonl", lines("Gone")))]).json()["job_id"]
    assert at_work.wait(PATIENCE_S)
    assert loading.get(f"jobs/{job_id}").json()["state"] == "running"
    head = loading.get("commits?limit=1").json()
    assert loading.delete(f"jobs/{job_id}").status_code == 200
    may_go.set()
    assert ended(loading, job_id)["state"] == "cancelled"
    assert loading.get("commits?limit=1").json() == head
    assert loading.get("entity?type=Person&id=Gone").status_code == 404


class Roles:
    def check(self, actor: str | None, ask: AccessRequest) -> None:
        if actor not in ("ada", "bo") or (ask.action == "admin"):
            raise PolicyDenied("no", action=ask.action)


def test_a_job_is_its_actors(start: Callable[..., TestClient]) -> None:
    guarded = start(gate=Roles(), verifiers=(tokens(ada="a", bo="b", eve="e"),))
    ada, bo, eve = ({"headers": {"Authorization": f"Bearer {token}"}} for token in "abe")
    files = [("file", ("a.jsonl", lines("Mine")))]
    job_id = guarded.post("jobs/load/upload", files=files, **ada).json()["job_id"]
    assert ended(guarded, job_id, **ada)["actor_id"] == "ada"
    for path in (f"jobs/{job_id}", f"jobs/{job_id}/events", f"jobs/{job_id}/rejects"):
        assert guarded.get(path, **bo).status_code == 404
    assert guarded.delete(f"jobs/{job_id}", **bo).status_code == 404
    assert guarded.get("jobs", **bo).json() == {"jobs": []}
    assert guarded.post("jobs/load/upload", files=files, **eve).status_code == 403
    assert guarded.get("jobs", **eve).status_code == 403


def test_a_form_beyond_the_limit_is_refused(start: Callable[..., TestClient]) -> None:
    from omnigraph.server.settings import Limits, ServerSettings

    small = start(settings=ServerSettings(limits=Limits(load_body_bytes=1_000)))
    answer = small.post("jobs/load/upload", files=[("file", ("a.jsonl", b"x" * 2_000))])
    assert answer.status_code == 413
    assert small.get("jobs").json()["jobs"] == []


# ---------------------------------------------------------------- Arrow


def arrow(**columns: list[Any]) -> bytes:
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_an_arrow_stream_of_one_type_is_loaded(client: TestClient) -> None:
    data = arrow(name=["A1", "A2"], age=[1, None])
    answer = client.post("load/arrow?type=Person&mode=append", content=data, headers=ARROW)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["total_entities"], answer.json()["nodes"]) == (2, [{"name": "Person", "entities_loaded": 2}])
    again = client.post("load/arrow?type=Person&mode=append", content=data, headers=ARROW)
    assert again.json()["key_conflict"]["entity_id"] in ("A1", "A2")
    rows = client.get("entities/Person?filter=name.prefix:A&order=name").json()["rows"]
    assert [(row["name"], row["age"]) for row in rows] == [("A1", 1), ("A2", None), ("Ada", 36)]


@pytest.mark.parametrize(
    ("path", "data", "status"),
    [
        ("load/arrow?type=Person", b"no arrow", 400),
        ("load/arrow?type=Person", b"", 400),
        ("load/arrow", b"", 400),
        ("load/arrow?type=Nobody", arrow(name=["x"]), 400),
        ("load/arrow?type=Person", arrow(shoe=["x"]), 400),
    ],
)
def test_what_is_no_arrow_of_the_type_is_refused(client: TestClient, path: str, data: bytes, status: int) -> None:
    answer = client.post(path, content=data, headers=ARROW)
    assert answer.status_code == status, answer.text


def test_time_is_told_in_seconds(loading: TestClient) -> None:
    started = time.monotonic()
    job_id = loading.post("jobs/load/upload", files=[("file", ("a.jsonl", lines("T1")))]).json()["job_id"]
    assert 0 <= ended(loading, job_id)["seconds"] <= time.monotonic() - started + 1


def test_a_defect_of_a_job_is_in_the_log_alone() -> None:
    stream = io.StringIO()

    async def broken(_job: Job) -> JsonObject:
        raise RuntimeError("a secret place")

    async def ended() -> Job:
        jobs = Jobs(RequestLog(stream=stream))
        job = Job("people", None, "main", "append")
        jobs.start(job, broken)
        await asyncio.gather(*jobs._running)
        jobs.close()
        return job

    job = asyncio.run(ended())
    assert job.state == "failed"
    assert "secret" not in json.dumps(job.to_json())
    assert job.id in stream.getvalue()
    assert "RuntimeError: a secret place" in stream.getvalue()


def form(*files: tuple[str, bytes]) -> dict[str, Any]:
    return {"files": [("file", (name, data)) for name, data in files]}


def test_files_of_a_form_are_one_commit_and_are_loaded_once(client: TestClient) -> None:
    files = form(("City.csv", b"name\nLima\n"), ("x.jsonl", b'{"type": "Person", "data": {"name": "Formed"}}\n'))
    key = {"Idempotency-Key": "form-1"}
    made = client.post("load/files", params={"mode": "merge"}, headers=key, **files)
    assert made.status_code == 200, made.text
    assert [(each["name"], each["entities_loaded"]) for each in made.json()["nodes"]] == [("City", 1), ("Person", 1)]
    assert made.headers["omnigraph-graph-commit"] == made.json()["commit"]["graph_commit_id"]
    again = client.post("load/files", params={"mode": "merge"}, headers=key, **files)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == made.json()


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (form(("City.csv", b"name\n\xff\n")), 400),
        (form(("../../City.csv", b"nome\nX\n")), 400),
        (form(("Nothing.csv", b"name\nX\n")), 400),
        (form(("City.parquet", b"PAR1")), 400),
        (form(("City.csv.gz", gzip.compress(b"name\nX\n"))), 400),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}, 400),
        ({"data": {"a": "b"}, "files": [("f", ("x.jsonl", b"{}"))]}, 400),
        ({"content": b"{}", "headers": {"Content-Type": "application/json"}}, 415),
        ({**form(("City.csv", b"name;x\nX;1\n")), "params": {"delimiter": ";;"}}, 400),
    ],
)
def test_a_form_that_cannot_be_loaded_is_refused_and_names_no_place(
    client: TestClient, options: dict[str, Any], status: int
) -> None:
    answer = client.post("load/files", **options)
    assert answer.status_code == status, answer.text
    assert "/tmp" not in answer.text
    assert "omnigraph-" not in answer.text
