"""A session of the shell: the graph, the current revision, the output mode, and running what was typed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.cli.conflicts import receipt_text
from omnigraph.cli.output import Output
from omnigraph.cli.process import Terminated
from omnigraph.cli.settings import Settings
from omnigraph.errors import Cancelled, QueryError, UsageError

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.editing import Catalog, Statement
    from omnigraph.graph.graph import Graph
    from omnigraph.types import Explanation, Receipt, Result, SqlResult


# Waiting for work that Ctrl-C may cancel, without ending the shell.

Answer = TypeVar("Answer")


class Abandoned(Exception):
    """The user did not want to wait any longer. The work continues until it ends, and its result is discarded."""


def wait_for(work: Callable[[], Answer], on_interrupt: Callable[[], None]) -> Answer:
    """The result of `work`, which runs in a separate thread, so that an interrupt does not hit it in the middle.

    The first Ctrl-C calls `on_interrupt`, which asks the work to end; a second one, or a KeyboardInterrupt from `on_interrupt`,
    raises Abandoned.
    """
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            answer = work()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(answer)

    threading.Thread(target=run, daemon=True).start()
    try:
        _ended(outcome)
    except Terminated:
        raise
    except KeyboardInterrupt:
        try:
            on_interrupt()
            _ended(outcome)
        except KeyboardInterrupt:
            raise Abandoned from None
    return outcome.result()


def _ended(outcome: Future[Answer]) -> None:
    """Wait for the end without raising the error of the work: a KeyboardInterrupt here is one of this thread."""
    ended = threading.Event()
    outcome.add_done_callback(lambda _: ended.set())
    ended.wait()


BARE_COMMANDS = ("exit", "help", "quit")
"""Commands that need no dot: everybody tries them first, and no statement is one word."""
MODES = ("table", "kv", "json", "jsonl", "csv")


class Quit(Exception):
    """The user wants to leave."""


class Failed(Exception):
    """A command of the program failed, and has printed why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Session:
    """The state of a shell between statements."""

    graph: Graph | RemoteGraph
    settings: Settings
    out: Output
    revision: str
    mode: str = "table"
    timing: bool = False
    params: dict[str, str] = field(default_factory=dict)
    rest: tuple[Result | SqlResult, int] | None = None
    """The result that was shown last, and how many of its rows were shown."""
    _catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """The schema at the current revision, fetched once per statement."""
        if self._catalog is None:
            self._catalog = self.graph.snapshot(self.revision).schema
        return self._catalog

    def use(self, revision: str) -> None:
        """Switch to another branch, tag or commit. NotFound if there is none."""
        self.graph.show(revision)
        self.revision, self._catalog = revision, None

    def stands_on_branch(self) -> bool:
        try:
            return self.graph.branches.exists(self.revision)
        except UsageError:  # not a valid name of a branch, such as main~1
            return False

    def run(self, typed: str, *, lines_before: int = 0) -> None:
        """Run one command or one statement; errors are raised. `lines_before` is its position in a script."""
        from omnigraph.cli.shell.commands import run_command

        self._catalog = None
        text = typed.strip()
        if text.removesuffix(";") in BARE_COMMANDS:
            text = f".{text.removesuffix(';')}"
        if text.startswith("."):
            run_command(self, text)
            return
        from omnigraph.graph.editing import statements

        try:
            typed_statements = statements(typed)
        except QueryError as error:
            error.line += lines_before
            raise
        for statement in typed_statements:
            try:
                self._run(statement)
            except QueryError as error:
                raise self.placed(error, statement, lines_before) from None

    def placed(self, error: QueryError, statement: Statement, lines_before: int = 0) -> QueryError:
        from omnigraph.graph.editing import moved

        placed = moved(error, statement.lines_before)
        placed.line += lines_before
        return placed

    def arguments(self, statement: Statement) -> dict[str, object]:
        """The parameters that are set and that the statement declares."""
        from omnigraph.graph.texts import declared_parameters, spelled_parameters

        declared = declared_parameters(statement.text, statement.name)
        spelled = {name: value for name, value in self.params.items() if name in declared}
        return spelled_parameters(statement.text, statement.name, spelled)

    def _run(self, statement: Statement) -> None:
        if statement.kind == "read":
            started = time.perf_counter()
            result = self._read(statement)
            self.show(result, time.perf_counter() - started)
        else:
            self._change(statement)

    def _read(self, statement: Statement) -> Result:
        from omnigraph import Cancellation
        from omnigraph.graph.graph import Graph

        options: dict[str, Any] = {"name": statement.name, "revision": self.revision}
        arguments = self.arguments(statement)
        if not isinstance(self.graph, Graph):
            return wait_for(lambda: self.graph.query(statement.text, arguments, **options), _abandon)
        stop = Cancellation()
        return wait_for(lambda: self.graph.query(statement.text, arguments, cancel=stop, **options), stop.cancel)

    def explained(self, statement: Statement, *, analyze: bool) -> Explanation:
        """How a query would run at the current revision, or how it ran."""
        from omnigraph import Cancellation
        from omnigraph.graph.graph import Graph

        options: dict[str, Any] = {"name": statement.name, "revision": self.revision, "analyze": analyze}
        arguments = self.arguments(statement)
        if not isinstance(self.graph, Graph):
            return wait_for(lambda: self.graph.explain(statement.text, arguments, **options), _abandon)
        stop = Cancellation()
        return wait_for(lambda: self.graph.explain(statement.text, arguments, cancel=stop, **options), stop.cancel)

    def run_sql(self, text: str) -> None:
        """Run SQL at the current revision."""
        from omnigraph import Cancellation

        stop = Cancellation()
        started = time.perf_counter()
        result = wait_for(lambda: self.graph.sql(text, revision=self.revision, cancel=stop), stop.cancel)
        self.show(result, time.perf_counter() - started)

    def _change(self, statement: Statement) -> None:
        from omnigraph.api.writes import ReceiptJson

        if not self.stands_on_branch():
            raise UsageError(f"'{self.revision}' is not a branch, so nothing can change there", hint=".use BRANCH")
        arguments = self.arguments(statement)
        actor = self.settings.actor_for(self.graph)
        started = time.perf_counter()
        receipt: Receipt = wait_for(
            lambda: self.graph.mutate(
                statement.text, arguments, name=statement.name, branch=self.revision, actor=actor
            ),
            _wait_for_write,
        )
        outcome = f"commit {receipt.commit.id}" if receipt.commit else "nothing changed, no commit"
        took = self.took(time.perf_counter() - started)
        self.out.done(
            ReceiptJson.to_json(receipt), f"changed {receipt.branch}: {receipt_text(receipt)}; {outcome}{took}"
        )

    def show(self, result: Result | SqlResult, seconds: float) -> None:
        """Show a result in the mode of the session; on a terminal, as many rows as fit."""
        from omnigraph.cli.output import rows_on_screen

        if self.mode not in ("table", "kv"):
            self.out.rows("", result, self.mode, lambda: self._json(result))
            return
        self._page(result, 0)
        shown = min(len(result), rows_on_screen())
        more = f", {shown:,} shown; .more shows the next" if shown < len(result) else ""
        if not self.out.quiet:
            count = f"{len(result):,} {'row' if len(result) == 1 else 'rows'}"
            print(f"({count}{more}{self.took(seconds)})")

    def _json(self, result: Result | SqlResult) -> Any:
        from omnigraph.api.reads import ResultJson, SqlJson
        from omnigraph.types import Result

        if isinstance(result, Result):
            return ResultJson.to_json(result, target={"revision": self.revision})
        return SqlJson.to_json(result, target={"revision": self.revision})

    def show_more(self) -> None:
        """Show the next page of the last result."""
        if self.rest is None:
            print("(no more rows)")
            return
        result, start = self.rest
        self._page(result, start)
        _, shown = self.rest or (result, len(result))
        print(f"({start + 1:,} to {shown:,} of {len(result):,} rows)")

    def _page(self, result: Result | SqlResult, start: int) -> None:
        from omnigraph.cli.output import print_rows, rows_on_screen

        table = result.to_arrow().slice(start, min(len(result), rows_on_screen()))
        if len(result):
            print_rows(table, self.out.column_width, wrap=self.out.wrap, as_lines=self.mode == "kv")
        shown = start + table.num_rows
        self.rest = (result, shown) if shown < len(result) else None

    def took(self, seconds: float) -> str:
        """How long something took, as text, if `.timing` is on."""
        if not self.timing:
            return ""
        return f", {seconds * 1_000:.1f} ms" if seconds < 1 else f", {seconds:.2f} s"


def _abandon() -> None:
    raise KeyboardInterrupt


def _wait_for_write() -> None:
    print("waiting for the write: it ends as a whole, or not at all (Ctrl-C again to stop waiting)")


# A shell whose input is not a terminal: statements and commands from a file or a pipe. The first error ends it.


@dataclass(frozen=True)
class Piece:
    """One statement or command, and the number of lines before it."""

    text: str
    lines_before: int


def pieces(lines: Iterable[str]) -> Iterator[Piece]:
    """The statements and commands of a script, each as soon as its last line is read. An unfinished one at the end is included."""
    from omnigraph.graph.editing import is_unfinished

    held: list[str] = []
    start = 0
    for number, text in enumerate(lines):
        if not held:
            start = number
            if not text.strip():
                continue
        held.append(text.rstrip("\r\n"))
        whole = "\n".join(held)
        if whole.lstrip().startswith(".") or not is_unfinished(whole):
            held = []
            yield Piece(whole, start)
    if held:
        yield Piece("\n".join(held), start)


def run_script(session: Session, lines: Iterable[str]) -> int:
    """Run a script; returns its exit code. Errors of statements are raised."""
    try:
        for piece in pieces(lines):
            session.run(piece.text, lines_before=piece.lines_before)
    except Quit:
        return 0
    except Failed as failed:
        return failed.code
    except (Cancelled, Abandoned):
        raise KeyboardInterrupt from None
    return 0
