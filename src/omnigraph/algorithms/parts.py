"""A numbered graph in parts, and steps over it: every part sends what others gather of its nodes, and makes its next state.

A step is one exchange of tasks. States are files, so a task that is lost is tried again from them, and the driver holds a few
numbers of each part only. A task holds one part: its nodes, their neighbours, and the values of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.algorithms.numbering import NodeRange, Numbered
from omnigraph.algorithms.projection import component_names
from omnigraph.algorithms.scratch import Scratch
from omnigraph.tasks.runner import Exchange, Piece, Runner, to_ipc, unpacked

if TYPE_CHECKING:
    from omnigraph.algorithms.kernels import Array, Neighbours


Summary = TypeVar("Summary")
Summarized = TypeVar("Summarized", covariant=True)
Columns = tuple["Array", ...]

SELF = -1
"""The source of the empty piece that a part sends to itself, so that it is called with neighbours or without."""


class GatherStep(Protocol[Summarized]):
    """What the nodes of a part send to their neighbours, and what they make of what they gather. States are arrays."""

    def sent(self, state: Array) -> Array: ...

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, Summarized]: ...


class Parts:
    """The parts of a graph. A part is named by its place among them."""

    def __init__(self, numbered: Numbered, runner: Runner) -> None:
        self.numbered = numbered
        self.runner = runner

    @property
    def scratch(self) -> Scratch:
        return self.numbered.scratch

    @property
    def places(self) -> range:
        return range(len(self.numbered.parts))

    def build_blocks(self, *, both_ways: bool, simple: bool = False) -> None:
        """What the nodes of each part gather from, and what each part sends. `simple`: parallel edges once, with
        the number of directions that they have as their value, and no loops."""
        numbered = self.numbered

        def rows(bucket: int) -> Iterator[Columns]:
            held = numbered.scratch.get(f"edges/{bucket}")
            src, dst = held["src"], held["dst"]
            if simple:
                src, dst = src[src != dst], dst[src != dst]
                yield (dst, src, np.zeros(len(src)))
                yield (src, dst, np.ones(len(src)))
                return
            values = (held["value"],) if "value" in held else ()
            yield (dst, src, *values)
            if both_ways:
                yield (src, dst, *values)

        def take(place: int, pieces: Sequence[Columns]) -> None:
            from omnigraph.algorithms.kernels import Neighbours

            part = numbered.parts[place]
            columns = [np.concatenate(column) for column in zip(*pieces, strict=True)] or [np.zeros(0, np.int64)] * (
                3 if simple else 2
            )
            values = columns[2] if len(columns) == 3 else None
            block = Neighbours.of(
                columns[0] - part.offset, columns[1], values, part.count, numbered.nodes, simple=simple
            )
            has_values = {} if block.values is None else {"values": block.values}
            numbered.scratch.put(
                f"blocks/{place}", starts=block.starts, neighbours=block.neighbours, far=block.far, **has_values
            )

        self.to_owners("build parts", numbered.buckets, rows, take)
        self._link()

    def _link(self) -> None:
        """Which of its nodes a part sends to each other part."""
        numbered = self.numbered

        def cut(place: int) -> Iterator[Piece]:
            far = block_of(numbered, place).far
            for owner, stretch in by_owner(numbered, far):
                yield owner, place, (far[stretch] - numbered.parts[owner].offset).tobytes()

        def join(owner: int, pieces: Iterable[tuple[int, Any]]) -> None:
            held = {str(place): np.frombuffer(data, np.int64) for place, data in pieces}
            numbered.scratch.put(f"sends/{owner}", **held)

        self.runner.exchange(Exchange("link parts", cut, self.places, len(self.places), join))

    def to_owners(
        self,
        stage: str,
        tasks: Sequence[Any],
        rows: Callable[[Any], Iterable[Columns]],
        take: Callable[[int, Sequence[Columns]], Summary],
    ) -> list[Summary]:
        """Columns of 64-bit numbers, the first of them ordinals, to the parts that own these; every part takes what came."""
        numbered = self.numbered

        def cut(task: tuple[bool, Any]) -> Iterator[Piece]:
            is_part, value = task
            if is_part:
                yield value, SELF, b""
                return
            for columns in rows(value):
                order = np.argsort(columns[0], kind="stable")
                ordered = [column[order] for column in columns]
                for owner, stretch in by_owner(numbered, ordered[0]):
                    yield owner, len(columns), b"".join(column[stretch].tobytes() for column in ordered)

        def join(place: int, pieces: Iterable[tuple[int, Any]]) -> Summary:
            return take(place, [_columns(data, number) for number, data in pieces if number != SELF])

        calls = [*((True, place) for place in self.places), *((False, task) for task in tasks)]
        return self.runner.exchange(Exchange(stage, cut, calls, len(self.places), join))

    # ------------------------------------------------------------ states

    def start(self, name: str, state: Callable[[NodeRange], Array]) -> None:
        """The first state of every part."""
        numbered = self.numbered

        def put(place: int) -> None:
            numbered.scratch.put(f"{name}/0/{place}", state=state(numbered.parts[place]))

        self.runner.map("start", put, self.places)

    def step(self, name: str, number: int, step: GatherStep[Summary]) -> list[Summary]:
        """From the states of one number to those of the next."""
        numbered, scratch = self.numbered, self.scratch

        def cut(place: int) -> Iterator[Piece]:
            from omnigraph.errors import ObjectMissing

            yield place, SELF, b""
            try:
                sends = scratch.get(f"sends/{place}")
            except ObjectMissing:  # nobody gathers from it
                return
            values = step.sent(scratch.get(f"{name}/{number}/{place}")["state"])
            for to, places in sends.items():
                yield int(to), place, values[places].tobytes()

        def join(place: int, pieces: Iterable[tuple[int, Any]]) -> Summary:
            state = scratch.get(f"{name}/{number}/{place}")["state"]
            by_source = {source: data for source, data in pieces if source != SELF}
            kind = step.sent(state[:0]).dtype
            gathered = [np.frombuffer(by_source[source], kind) for source in sorted(by_source)]
            block = block_of(numbered, place)
            next_state, summary = step.next(
                numbered.parts[place], block, np.concatenate([*gathered, np.zeros(0, kind)]), state
            )
            scratch.put(f"{name}/{number + 1}/{place}", state=next_state)
            return summary

        summaries = self.runner.exchange(
            Exchange(f"{name}: step {number + 1}", cut, self.places, len(self.places), join)
        )
        self.scratch.remove(f"{name}/{number}")
        return summaries


def block_of(numbered: Numbered, place: int) -> Neighbours:
    from omnigraph.algorithms.kernels import Neighbours

    held = numbered.scratch.get(f"blocks/{place}")
    return Neighbours(held["starts"], held["neighbours"], held.get("values"), held["far"])


def by_owner(numbered: Numbered, ordinals: Array) -> Iterator[tuple[int, slice]]:
    """Of ascending ordinals, the stretch that each part owns."""
    bounds = np.searchsorted(ordinals, [*(part.offset for part in numbered.parts), numbered.nodes]).tolist()
    for place in range(len(numbered.parts)):
        if bounds[place] < bounds[place + 1]:
            yield place, slice(bounds[place], bounds[place + 1])


def _columns(data: Any, width: int) -> Columns:
    """As they were joined: ordinals, and beside them ordinals or, in the third column, values."""
    length = len(memoryview(data)) // (8 * width)
    kinds = (np.int64, np.int64, np.float64)[:width]
    return tuple(np.frombuffer(data, kind, count=length, offset=8 * length * place) for place, kind in enumerate(kinds))


# From the last states of an algorithm to rows of (type, id, value), a file for each part.


def write_values(
    graph: Parts, name: str, types: Sequence[str], column: str, *, is_distance: bool, is_hops: bool
) -> list[str]:
    """Numbers as they are. Of distances, null for a node that no path leads to."""
    numbered = graph.numbered

    def put(place: int) -> str:
        from omnigraph.algorithms.in_process import distance_column

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
            yield place, owner, to_ipc(answers.slice(stretch.start, stretch.stop - stretch.start))

    def take(place: int, pieces: Iterable[tuple[int, Any]]) -> str:
        names = pa.concat_tables([unpacked(data) for _, data in pieces]).sort_by("label")
        labels = scratch.get(f"{name}/{place}")["state"]
        at = np.searchsorted(names.column("label").to_numpy(), labels)
        return _put(numbered, place, types, column, names.column("name").take(pa.array(at)))

    owners = graph.runner.exchange(Exchange("find names", ask, places, len(places), answer))
    return graph.runner.exchange(Exchange("write rows", tell, owners, len(places), take))


def _put(numbered: Numbered, place: int, types: Sequence[str], column: str, values: pa.Array) -> str:
    part = numbered.parts[place]
    ids = numbered.scratch.get_rows(f"ids/{part.number}").column("id")
    type = pa.repeat(pa.scalar(types[part.type]), part.count)
    name = f"rows/{place}"
    numbered.scratch.put_rows(name, pa.table({"type": type, "id": ids, column: values}))
    return name
