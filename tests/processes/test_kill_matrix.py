"""SIGKILL at every failpoint of every writer; then a look with fresh eyes, and the next write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from children import run_killed
from processes import killed_writers
from processes.killed_writers import OTHER, WRITERS, State, look, prepare
from processes.writing import Writer

from omnigraph.history.history import History
from omnigraph.storage.options import open_store
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, arm

ROOMS = ("table", "publish", "branch", "tag", "schema", "init", "history", "recovery", "sweep")
POINTS = [point for point in Failpoint if point.value.split(".")[0] in ROOMS]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("prepared") / "graph"
    prepare(root)
    return root


class Bench:
    """Copies of the prepared graph, and what one writer does to them when it is left alone."""

    def __init__(self, prepared: Path, folder: Path) -> None:
        self.prepared = prepared
        self.folder = folder
        self.copies = 0

    def copy(self, writer: str) -> Path:
        self.copies += 1
        root = self.folder / f"{writer}-{self.copies}"
        if writer != "init":
            shutil.copytree(self.prepared, root)
        return root

    def undisturbed(self, writer: str) -> tuple[list[Failpoint], State | None, State | None]:
        """The points the writer passes, and what can be seen before and after it."""
        root = self.copy(writer)
        before = look(root)
        reached: list[Failpoint] = []

        def noting(point: Failpoint) -> Callable[[], None]:
            return lambda: reached.append(point)

        for point in POINTS:
            arm(point, noting(point))
        try:
            WRITERS[writer](str(root))
        finally:
            failpoints.disarm_all()
        return reached, before, look(root)


def next_write(root: Path) -> None:
    """Whatever was left behind, the next writer does not mind."""
    if look(root) is None:
        History.create(open_store(str(root)), b"{}")
    writer = Writer(str(root))
    numbers = writer.numbers(OTHER, writer.history.chain.head("main").head)
    writer.append(OTHER, [5000])
    assert writer.numbers(OTHER, Writer(str(root)).history.chain.head("main").head) == [*numbers, 5000]


def between_is_fine(writer: str, seen: State | None, before: State | None, after: State | None) -> bool:
    """Writers of several commits: each commit is there or not, so what is between two commits is a state too."""
    if writer == "append_that_loses":
        assert seen is not None
        assert before is not None
        rows = seen.branches["main"][0][OTHER]
        return rows == [*before.branches["main"][0][OTHER], 100]
    if writer in ("prepared", "load_on_new_branch", "recover"):
        # The plan is kept longer than its publish: that is what it is for.
        assert seen is not None
        assert before is not None
        assert after is not None
        return seen.branches in (before.branches, after.branches)
    return False


def test_a_killed_writer_leaves_the_state_before_or_after(prepared: Path, tmp_path: Path) -> None:
    bench = Bench(prepared, tmp_path)
    alone = {writer: bench.undisturbed(writer) for writer in WRITERS}
    cells = [(writer, point) for writer, (reached, _, _) in alone.items() for point in dict.fromkeys(reached)]
    roots = {cell: bench.copy(cell[0]) for cell in cells}
    for writer, point in cells:
        run_killed(Path(killed_writers.__file__), writer, str(roots[writer, point]), point=point)
    matrix: dict[tuple[str, Failpoint], str] = {}
    for writer, point in cells:
        _, before, after = alone[writer]
        seen = look(roots[writer, point])
        if seen == before:
            matrix[writer, point] = "before"
        elif seen == after:
            matrix[writer, point] = "after"
        else:
            assert between_is_fine(writer, seen, before, after), (writer, point, seen, before, after)
            matrix[writer, point] = "one of two"
        next_write(roots[writer, point])
    show(matrix)
    assert {point for _, point in cells} == set(POINTS), "a point that no writer here passes"
    for writer in WRITERS:
        if (writer, Failpoint.PUBLISH_BEFORE_CREATE) in matrix and writer not in ("append_that_loses", "sweep"):
            assert matrix[writer, Failpoint.PUBLISH_BEFORE_CREATE] in ("before", "one of two")
            assert matrix[writer, Failpoint.PUBLISH_AFTER_CREATE] in ("after", "one of two")


def show(matrix: dict[tuple[str, Failpoint], str]) -> None:
    writers = list(dict.fromkeys(writer for writer, _ in matrix))
    print(
        f"\n{len(matrix)} kills; what a fresh process sees: the state [b]efore, [a]fter, [1] of a writer's two commits"
    )
    for number, writer in enumerate(writers):
        print(" " * 26 + "│  " * number + "┌ " + writer)
    for point in POINTS:
        cells = "".join(
            f"{ {'before': 'b', 'after': 'a', 'one of two': '1'}.get(matrix.get((w, point), ''), '·') }  "
            for w in writers
        )
        print(f"{point.value:26}{cells}")
