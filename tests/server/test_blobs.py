"""Blobs over HTTP: ranges, tags and conditions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Fixed, people_client
from starlette.testclient import TestClient

import omnigraph as og

BYTES = bytes(range(256)) * 4
PLACE = {"entity": "node", "type": "Photo", "id": "a/b c", "property": "image"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    place = tmp_path_factory.mktemp("photos") / "people"
    graph = og.init(place, "node Photo { name: String @key  image: Blob? }")
    with graph.transaction() as tx:
        tx.insert("Photo", name="a/b c", image=BYTES)
        tx.insert("Photo", name="none")
    with people_client(Fixed({"people": place}, queries="")) as client:
        yield client


def test_a_blob_is_its_bytes_with_size_tag_and_witness(photos: TestClient) -> None:
    answer = photos.get("blob", params=PLACE)
    assert (answer.status_code, answer.content) == (200, BYTES)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(BYTES))
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"].startswith('"')
    commit = photos.get("snapshot").json()["graph_commit_id"]
    assert answer.headers["omnigraph-snapshot-id"] != commit
    assert photos.get("blob", params={**PLACE, "snapshot": commit}).headers["etag"] == answer.headers["etag"]


def test_head_tells_the_same_without_bytes_and_without_ranges(photos: TestClient) -> None:
    whole, asked = photos.get("blob", params=PLACE), photos.head("blob", params=PLACE, headers={"Range": "bytes=0-1"})
    assert (asked.status_code, asked.content) == (200, b"")
    for name in ("content-length", "etag", "accept-ranges", "omnigraph-snapshot-id", "content-type"):
        assert asked.headers[name] == whole.headers[name]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-0", 0, 0), ("bytes=5-9", 5, 9), ("bytes=1000-", 1000, 1023), ("bytes=-4", 1020, 1023), ("bytes=1020-9999", 1020, 1023), ("bytes=-9999", 0, 1023)],
)  # fmt: skip
def test_one_range_is_a_part(photos: TestClient, asked: str, start: int, end: int) -> None:
    answer = photos.get("blob", params=PLACE, headers={"Range": asked})
    assert (answer.status_code, answer.content) == (206, BYTES[start : end + 1])
    assert answer.headers["content-range"] == f"bytes {start}-{end}/1024"
    assert answer.headers["content-length"] == str(end - start + 1)


@pytest.mark.parametrize("asked", ["bytes=0-1,3-4", "items=0-1", "bytes=5-1", "bytes=-", "bytes=a-b", "0-1"])
def test_what_is_no_single_range_is_the_whole(photos: TestClient, asked: str) -> None:
    answer = photos.get("blob", params=PLACE, headers={"Range": asked})
    assert (answer.status_code, len(answer.content)) == (200, 1024)


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=5000-6000", "bytes=-0"])
def test_a_range_beyond_the_end_is_refused_with_the_length(photos: TestClient, asked: str) -> None:
    answer = photos.get("blob", params=PLACE, headers={"Range": asked})
    assert (answer.status_code, answer.json()["code"]) == (416, "bad_request")
    assert answer.headers["content-range"] == "bytes */1024"
    assert answer.json()["blob_range"]["length"] == 1024


def test_conditions_are_judged_in_their_order(photos: TestClient) -> None:
    tag = photos.get("blob", params=PLACE).headers["etag"]

    def status(**headers: str) -> int:
        return photos.get(
            "blob", params=PLACE, headers={k.replace("_", "-"): v for k, v in headers.items()}
        ).status_code

    assert status(If_Match=tag) == status(If_Match="*") == status(If_Match=f'"x", {tag}') == 200
    assert status(If_Match='"other"') == status(If_Match=f"W/{tag}") == 412
    assert status(If_Match='"other"', If_None_Match=tag) == 412
    assert status(If_None_Match=tag) == status(If_None_Match=f"W/{tag}") == status(If_None_Match="*") == 304
    assert status(If_None_Match='"other"') == 200
    assert status(Range="bytes=0-1", If_Range=tag) == 206
    assert status(Range="bytes=0-1", If_Range=f"W/{tag}") == status(Range="bytes=0-1", If_Range='"other"') == 200
    refused = photos.get("blob", params=PLACE, headers={"If-Match": '"other"'})
    assert refused.json()["code"] == "conflict"
    same = photos.get("blob", params=PLACE, headers={"If-None-Match": tag})
    assert (same.content, same.headers["etag"]) == (b"", tag)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"id": "nobody"}, 404),
        ({"id": "none"}, 404),
        ({"property": "name"}, 400),
        ({"property": "nothing"}, 400),
        ({"type": "Nothing"}, 400),
        ({"entity": "edge"}, 400),
        ({"entity": "thing"}, 400),
        ({"branch": "no"}, 404),
        ({"branch": "main", "snapshot": "x"}, 400),
    ],
)
def test_what_is_no_blob_is_refused(photos: TestClient, change: dict[str, str], status: int) -> None:
    assert photos.get("blob", params={**PLACE, **change}).status_code == status


@pytest.mark.parametrize("name", PLACE)
def test_every_part_of_the_place_is_required(photos: TestClient, name: str) -> None:
    answer = photos.get("blob", params={key: value for key, value in PLACE.items() if key != name})
    assert answer.status_code == 400
