"""From the last states of an algorithm to rows of (type, id, value), a file for each part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.pipeline.algorithms.numbering import Numbered
from omnigraph.pipeline.algorithms.parts import Parts, by_owner
from omnigraph.pipeline.algorithms.projection import component_names
from omnigraph.workers import Exchange, Piece, packed, unpacked

if TYPE_CHECKING:
    import pyarrow as pa


def write_values(
    graph: Parts, name: str, types: Sequence[str], column: str, *, is_distance: bool, is_hops: bool
) -> list[str]:
    """Numbers as they are. Of distances, null for a node that no path leads to."""
    numbered = graph.numbered

    def put(place: int) -> str:
        import pyarrow as pa

        from omnigraph.pipeline.algorithms.in_process import distance_column

        values = numbered.scratch.get(f"{name}/{place}")["state"]
        cells = distance_column(values, is_hops=is_hops) if is_distance else pa.array(values)
        return _put(numbered, place, types, column, cells)

    return graph.runner.map("write rows", put, graph.places)


def write_labels(graph: Parts, name: str, types: Sequence[str], column: str) -> list[str]:
    """Nodes by their names. Each part asks the owners of its labels for their names, once for each label."""
    numbered = graph.numbered
    scratch, places = numbered.scratch, graph.places

    def ask(place: int) -> Iterator[Piece]:
        from omnigraph.tables.ascending import distinct

        labels = distinct(scratch.get(f"{name}/{place}")["state"])
        for owner, stretch in by_owner(numbered, labels):
            yield owner, place, labels[stretch].tobytes()

    def answer(owner: int, pieces: Iterable[tuple[int, Any]]) -> int:
        import numpy as np
        import pyarrow as pa

        part = numbered.parts[owner]
        names = component_names(types, part.type, scratch.get_rows(f"ids/{part.number}").column("id").combine_chunks())
        answers = []
        for place, data in pieces:
            labels = np.frombuffer(data, np.int64)
            asked_by = pa.array(np.full(len(labels), place, np.int32))
            answers.append(pa.table({"place": asked_by, "label": labels, "name": names.take(labels - part.offset)}))
        scratch.put_rows(f"names/{owner}", pa.concat_tables(answers))
        return owner

    def tell(owner: int) -> Iterator[Piece]:
        from omnigraph.tables.ascending import runs

        answers = scratch.get_rows(f"names/{owner}")
        numbers = answers.column("place").to_numpy()

        # Answers were written asker by asker.
        for place, stretch in runs(numbers):
            yield place, owner, packed(answers.slice(stretch.start, stretch.stop - stretch.start))

    def take(place: int, pieces: Iterable[tuple[int, Any]]) -> str:
        import numpy as np
        import pyarrow as pa

        names = pa.concat_tables([unpacked(data) for _, data in pieces]).sort_by("label")
        labels = scratch.get(f"{name}/{place}")["state"]
        at = np.searchsorted(names.column("label").to_numpy(), labels)
        return _put(numbered, place, types, column, names.column("name").take(pa.array(at)))

    owners = graph.runner.exchange(Exchange("find names", ask, places, len(places), answer))
    return graph.runner.exchange(Exchange("write rows", tell, owners, len(places), take))


def _put(numbered: Numbered, place: int, types: Sequence[str], column: str, values: pa.Array) -> str:
    import pyarrow as pa

    part = numbered.parts[place]
    ids = numbered.scratch.get_rows(f"ids/{part.number}").column("id")
    type = pa.repeat(pa.scalar(types[part.type]), part.count)
    name = f"rows/{place}"
    numbered.scratch.put_rows(name, pa.table({"type": type, "id": ids, column: values}))
    return name
