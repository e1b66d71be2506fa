"""One Blob of one entity: size, tag, and its bytes by range, in the library and on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import NotFound, UsageError
from omnigraph.read import entities

SCHEMA = "node Photo { name: String @key  image: Blob?  note: String? }  edge Shows: Photo -> Photo { map: Blob? }"
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g", SCHEMA, durability="process")
    with made.transaction() as tx:
        tx.insert("Photo", name="sea", image=CONTENT)
        tx.insert("Photo", name="none")
        tx.insert("Photo", name="empty", image=b"")
        tx.insert("Shows", id="s", from_="sea", to="none", map=b"here")
    return made


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, None, CONTENT),
        (0, 1, CONTENT[:1]),
        (255, 258, CONTENT[255 : 255 + 258]),
        (len(CONTENT) - 3, 100, CONTENT[-3:]),
        (len(CONTENT), None, b""),
        (len(CONTENT) + 9, 5, b""),
        (7, 0, b""),
    ],
)
def test_a_range_of_a_blob_is_that_slice(graph: og.Graph, offset: int, length: int | None, expected: bytes) -> None:
    assert graph.blob("Photo", "sea", "image").read(offset, length) == expected


def test_pieces_are_bounded(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entities, "PIECE_BYTES", 1_000)
    pieces = list(graph.blob("Photo", "sea", "image").pieces(10, 2_500))
    assert [len(piece) for piece in pieces] == [1_000, 1_000, 500]
    assert b"".join(pieces) == CONTENT[10:2_510]


def test_a_blob_is_that_of_its_revision(graph: og.Graph) -> None:
    before = graph.blob("Photo", "sea", "image")
    with graph.transaction() as tx:
        tx.update("Photo", "sea", image=b"grey")
    now, then = graph.blob("Photo", "sea", "image"), graph.blob("Photo", "sea", "image", revision="main~1")
    assert (now.size, now.read(), now.commit) == (4, b"grey", graph.head())
    assert (then.read(), then.etag) == (CONTENT, before.etag)
    assert now.etag != then.etag


def test_tags_tell_entities_and_properties_apart(graph: og.Graph) -> None:
    tags = {graph.blob("Photo", name, "image").etag for name in ("sea", "empty")}
    assert len({*tags, graph.blob("Shows", "s", "map").etag}) == 3
    assert all(len(tag) == 32 for tag in tags)


def test_an_edge_has_blobs_too_by_its_name_or_its_kind_and_name(graph: og.Graph) -> None:
    assert graph.blob("Shows", "s", "map").read() == graph.blob("edge:Shows", "s", "map").read() == b"here"


def test_an_empty_blob_is_there(graph: og.Graph) -> None:
    empty = graph.blob("Photo", "empty", "image")
    assert (empty.size, empty.read(), list(empty.pieces())) == (0, b"", [])


@pytest.mark.parametrize(("id", "said"), [("none", "has no image"), ("nobody", "there is no Photo 'nobody'")])
def test_what_is_not_there_is_not_found(graph: og.Graph, id: str, said: str) -> None:
    with pytest.raises(NotFound, match=said):
        graph.blob("Photo", id, "image")


@pytest.mark.parametrize(("type", "property"), [("Photo", "note"), ("Photo", "size"), ("Photo", "id"), ("Film", "x")])
def test_what_is_no_blob_is_a_mistake_of_the_call(graph: og.Graph, type: str, property: str) -> None:
    with pytest.raises(UsageError):
        graph.blob(type, "sea", property)


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, -1)])
def test_a_range_does_not_begin_before_the_first_byte(graph: og.Graph, offset: int, length: int | None) -> None:
    with pytest.raises(UsageError, match="at least 0"):
        graph.blob("Photo", "sea", "image").read(offset, length)


def test_the_command_line_gives_bytes_and_their_size(
    graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    from omnigraph.cli.main import run

    where = ["--store", graph.uri]
    assert run(["blob", "get", "Photo", "sea", "image", *where]) == 0
    assert capsysbinary.readouterr().out == CONTENT
    assert run(["blob", "get", "Photo", "sea", "image", *where, "--offset", "256", "--length", "10"]) == 0
    assert capsysbinary.readouterr().out == CONTENT[:10]
    assert run(["blob", "stat", "Photo", "sea", "image", *where, "--json"]) == 0
    found = graph.blob("Photo", "sea", "image")
    told = json.load(io.BytesIO(capsysbinary.readouterr().out))
    assert told == {"size": len(CONTENT), "etag": found.etag, "graph_commit_id": graph.head().id}
    assert run(["blob", "get", "Photo", "nobody", "image", *where]) == 1
