"""Pictures: what they show, always drawn the same, and never more than text of what stands in the data."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

import omnigraph as og
from omnigraph.errors import AlreadyExists, NotFound, UsageError
from omnigraph.pictures.picture import Picture, PictureEdge, PictureNode, placed

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String?  taste: Vector(2)? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
HOSTILE = '"]; <script>alert(1)</script> --> & \\" \n\x1b[31m ]] # ; end'


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("pictures") / "g", SCHEMA, durability="process")
    with made.transaction() as tx:
        tx.insert("City", name="Rome")
        for name in ("Ada", "Bo", "Cy", "Dee"):
            tx.insert("Person", name=name, age=len(name))
        tx.insert("Person", name="Eve", bio=HOSTILE)
        for source, target in (
            ("Ada", "Bo"),
            ("Ada", "Bo"),
            ("Bo", "Cy"),
            ("Cy", "Ada"),
            ("Cy", "Dee"),
            ("Eve", "Eve"),
        ):
            tx.insert("Knows", **{"from": source, "to": target})
        tx.insert("LivesIn", **{"from": "Bo", "to": "Rome"})
    return made


def shown(picture: Picture) -> tuple[list[tuple[str, str | None]], list[tuple[str | None, str, str | None]]]:
    nodes = [(node.type_name, node.id) for node in picture.nodes]
    return nodes, [(nodes[edge.source][1], edge.label, nodes[edge.target][1]) for edge in picture.edges]


def test_the_schema(graph: og.Graph) -> None:
    picture = graph.picture()
    assert [(node.type_name, node.lines[:2]) for node in picture.nodes] == [
        ("Person", ("name: String @key", "age: I32?")),
        ("City", ("name: String @key",)),
    ]
    assert picture.edges == (PictureEdge(0, 0, "Knows"), PictureEdge(0, 1, "LivesIn"))


def test_a_node_and_what_stands_around_it(graph: og.Graph) -> None:
    nodes, edges = shown(graph.picture("Person", "Ada"))
    assert nodes == [("Person", "Ada"), ("Person", "Bo"), ("Person", "Cy")]
    assert sorted(map(str, edges)) == sorted(
        map(str, [("Ada", "Knows ×2", "Bo"), ("Bo", "Knows", "Cy"), ("Cy", "Knows", "Ada")])
    )
    nodes, edges = shown(graph.picture("Person", "Ada", hops=2))
    assert {id for _, id in nodes} == {"Ada", "Bo", "Cy", "Dee", "Rome"}
    assert ("Bo", "LivesIn", "Rome") in edges
    cut = graph.picture("Person", "Ada", hops=3, limit=2)
    assert (len(cut.nodes), cut.left_out) == (2, 2)
    assert "… 2 more" in cut.to_svg()


def test_what_is_not_there(graph: og.Graph) -> None:
    for arguments, error in [
        (("Person", "Nobody"), NotFound),
        (("Persn", "Ada"), UsageError),
        (("Person", None), UsageError),
    ]:
        with pytest.raises(error):
            graph.picture(*arguments)
    with pytest.raises(UsageError):
        graph.picture(hops=0)


def test_hostile_text_is_text(graph: og.Graph) -> None:
    picture = graph.picture("Person", "Eve")
    tree = ElementTree.fromstring(picture.to_svg())
    assert any(
        "<script>alert(1)</script>" in (text.text or "") for text in tree.iter("{http://www.w3.org/2000/svg}text")
    )
    assert not list(tree.iter("{http://www.w3.org/2000/svg}script"))
    for text in (picture.to_svg(), picture.to_html()):
        assert "<script" not in text
        assert "\x1b" not in text
    (box,) = [line for line in picture.to_mermaid().splitlines() if line.startswith("  n0[")]
    assert re.fullmatch(r'  n0\["[^"\[\]<>]*(<br/>[^"\[\]<>]*)*"\]', box)
    (box,) = [line for line in picture.to_dot().splitlines() if line.startswith("  n0 [")]
    assert re.fullmatch(r'  n0 \[label="(?:[^"\\]|\\.)*"\];', box)


def test_a_picture_is_saved_as_its_name_says(graph: og.Graph, tmp_path: Path) -> None:
    picture = graph.picture()
    for name, start in [
        ("a.svg", "<svg"),
        ("a.html", "<!doctype html>"),
        ("a.mmd", "flowchart LR"),
        ("a.dot", "digraph {"),
    ]:
        picture.save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start)
    with pytest.raises(AlreadyExists):
        picture.save(tmp_path / "a.svg")
    with pytest.raises(UsageError):
        picture.save(tmp_path / "a.bmp")
    assert picture._repr_svg_() == picture.to_svg() == graph.picture().to_svg()


def has_fonts() -> bool:
    try:
        Picture("nothing", (), ()).to_png()
    except UsageError:
        return False
    return True


def png_size(data: bytes) -> tuple[int, ...]:
    assert data.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", data[16:24])


@pytest.mark.skipif(not has_fonts(), reason="no font is installed")
def test_a_png_shows_the_drawing_with_its_text(graph: og.Graph, tmp_path: Path) -> None:
    picture = graph.picture()
    tree = ElementTree.fromstring(picture.to_svg())
    width, height = int(tree.attrib["width"]), int(tree.attrib["height"])
    assert png_size(picture.to_png()) == (2 * width, 2 * height)
    assert png_size(picture.to_png(zoom=1.0)) == (width, height)
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == picture.to_png()
    other_words = replace(picture, nodes=tuple(replace(node, lines=("aaaa: String @key",)) for node in picture.nodes))
    same_boxes = replace(picture, nodes=tuple(replace(node, lines=("bbbb: String @key",)) for node in picture.nodes))
    assert png_size(other_words.to_png()) == png_size(same_boxes.to_png())
    assert other_words.to_png() != same_boxes.to_png()
    for zoom in (0.0, 9.0):
        with pytest.raises(UsageError):
            picture.to_png(zoom=zoom)


def test_a_png_without_fonts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import resvg_py

    render = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: render(**options, skip_system_fonts=True))
    with pytest.raises(UsageError, match="font"):
        Picture("nothing", (PictureNode("A", None, ()),), ()).to_png()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(20, 400), st.floats(20, 250)), min_size=1, max_size=14),
    st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=20),
)
def test_boxes_never_lie_over_each_other(sizes: list[tuple[float, float]], arrows: list[tuple[int, int]]) -> None:
    arrows = [(a % len(sizes), b % len(sizes)) for a, b in arrows]
    centres = placed(sizes, arrows)
    assert centres == placed(sizes, arrows)
    for first in range(len(sizes)):
        for second in range(first):
            apart = [
                abs(centres[first][axis] - centres[second][axis]) - (sizes[first][axis] + sizes[second][axis]) / 2
                for axis in (0, 1)
            ]
            assert max(apart) > 0


def test_a_picture_of_nothing_is_drawn() -> None:
    assert ElementTree.fromstring(Picture("nothing", (), ()).to_svg()) is not None
    assert "<title>a &lt;b&gt;</title>" in Picture("a <b>", (PictureNode("A", None, ()),), ()).to_svg()
