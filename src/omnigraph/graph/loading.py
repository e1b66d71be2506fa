"""How a load is called, which is the same for an open graph and for a served one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from omnigraph.history.chain import MAIN
from omnigraph.tasks.engines import AUTO, Engine

if TYPE_CHECKING:
    from omnigraph.history.write_keys import Once
    from omnigraph.load.inputs import Sources
    from omnigraph.load.options import LoadOptions
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.tasks.engines import LoadMode, Missing
    from omnigraph.tasks.progress import Status


class Loads(Protocol):
    """A graph that loads what `load` was asked for."""

    def _load(
        self, sources: Sources, options: LoadOptions, progress: bool | Callable[[Status], None]
    ) -> LoadReceipt: ...


def load(
    self: Loads,
    sources: Sources,
    *,
    mode: LoadMode,
    branch: str = MAIN,
    from_: str | None = None,
    new_branch: bool = False,
    type: str | None = None,
    format: str | None = None,
    reader_options: Mapping[str, str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    null: str | None = None,
    columns: Sequence[str] | None = None,
    date_format: str | None = None,
    time_format: str | None = None,
    map: Mapping[str, object] | str | Path | None = None,
    rejects: str | Path | None = None,
    missing: Missing = "refuse",
    engine: Engine = AUTO,
    conf: Mapping[str, str] | None = None,
    actor: str | None = None,
    message: str | None = None,
    if_commit: str | None = None,
    once: Once | None = None,
    dry_run: bool = False,
    progress: bool | Callable[[Status], None] = False,
) -> LoadReceipt:
    """Load files, folders, globs, addresses or DataFrames (`{"Person": people}`, or one with its `type`) as one commit, or nothing.

    `from_` creates a missing branch at that revision, in the same step as the load: there is never a branch without its load.
    A branch that exists, or that another process creates meanwhile, is loaded into like any other; with `new_branch` that is
    AlreadyExists. Rejected records make the whole load fail unless `rejects` names a new file for them. `missing` says what is
    done about edges that name a node which is neither in the graph nor in the input: "refuse" the load, "skip" them (they count
    as rejected, and are written to `rejects`), or "stub": create the nodes with their key alone, if their type needs no other
    property. The receipt's `missing`, `skipped` and `stubs` count them. `encoding` is that of
    JSON lines and CSV (UTF-8). For CSV: `delimiter` (a comma), `quote` (a double quote), `null`, a text that means null in
    addition to the empty cell, `columns` for files without a header, and the `date_format` and `time_format` of dates and
    instants (`"%d.%m.%Y"`). The path "-" is standard input. `map` maps columns of CSV and Parquet to names of the schema
    (`{"LOCODE": "code"}`), or is a map file, which describes each file: `infer_schema` makes one.

    `engine` "auto" reads up to 500 MB of input in this process and more on Spark; Spark DataFrames, Spark Connect sessions
    and `spark-submit` run on Spark too. OMNIGRAPH_ENGINE, if it is set, decides instead. The receipt's `engine` says which.

    A `format` other than "jsonl", "csv" and "parquet" is a reader of the Spark session ("orc", "jdbc", "delta", ...), and
    `reader_options` are its options; for "jdbc" the source is the address of the database. `conf` has settings of a session that the
    load starts, and of its tasks: `spark.omnigraph.splitBytes`, `.parallelism` and `.taskMemory`.

    PreconditionFailed if `if_commit` is not the branch's head, or not the commit at which the load creates it. `once` is as
    in `transaction`: a repeated load has the same mode, options and content of files (for a Spark DataFrame, the same
    columns). The file for rejected records that an earlier attempt left is replaced.

    With `dry_run` nothing is published: the receipt's `types` count what would be loaded, and its `refusals` what would not,
    by reason. To find out, the rows are staged as in a load, and removed again.

    `progress=True` shows the progress on stderr. A function is called from time to time with a `Status`; if it raises, the load
    ends and nothing is published.

    >>> receipt = g.load("people.jsonl", mode="merge", branch="inbox", from_="main~1", engine="local")
    >>> assert (receipt.total.updated, receipt.total.unchanged, receipt.branch_created) == (1, 3, True)
    """
    from omnigraph.load.options import LoadOptions

    options = LoadOptions(
        mode=mode,
        branch=branch,
        from_=from_,
        new_branch=new_branch,
        type=type,
        format=format,
        reader_options=reader_options,
        encoding=encoding,
        delimiter=delimiter,
        quote=quote,
        null=null,
        columns=columns,
        date_format=date_format,
        time_format=time_format,
        map=map,
        rejects=rejects,
        missing=missing,
        engine=engine,
        conf=conf,
        actor=actor,
        message=message,
        if_commit=if_commit,
        once=once,
        dry_run=dry_run,
    )
    return self._load(sources, options, progress)
