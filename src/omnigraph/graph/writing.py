"""Writing: mutations, transactions, loads, streams and vectors of texts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import UsageError
from omnigraph.graph import loading
from omnigraph.graph.access import GraphState, public_api
from omnigraph.graph.transactions import Transaction
from omnigraph.history.chain import MAIN
from omnigraph.history.plan import check_attribution
from omnigraph.history.write_keys import Once
from omnigraph.policy.ask import AccessRequest
from omnigraph.tasks.engines import AUTO, Engine, refuse_memory

if TYPE_CHECKING:
    from omnigraph.load.explaining import LoadExplanation
    from omnigraph.load.inputs import Sources
    from omnigraph.load.options import LoadOptions
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.maintenance.embed import EmbedReport, Which
    from omnigraph.tasks.engines import LoadMode, Missing
    from omnigraph.tasks.progress import Status
    from omnigraph.write.receipt import Receipt


@public_api
class WriteMethods(GraphState):
    """The methods of a graph that change its content."""

    def mutate(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
    ) -> Receipt:
        """Run a mutation as one transaction; the receipt names the exact commit, or None if nothing changed.

        `once` is as in `transaction`: a repeated write has the same text, parameters and name.

        >>> receipt = g.mutate(Path("people.gq"), {"name": "Bo", "age": 28}, name="grow", actor="ada", message="a birthday")
        >>> assert receipt.affected_nodes == 1
        """
        with self.transaction(branch, actor=actor, message=message, if_commit=if_commit, once=once) as transaction:
            query_name = transaction.mutate(gq, params, name=name)
        return replace(transaction.receipt, query_name=query_name)

    def transaction(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
    ) -> Transaction:
        """Statements that are published together when the block ends, or not at all when it raises. Without a block, `commit()` or
        `rollback()` ends the transaction.

        PreconditionFailed if `if_commit` is not the branch's head.

        `once` is a write key: a text, or an application and a number that grows. A write that is repeated under its key changes
        nothing, and its receipt (`repeated`) has the commit of the first one; WriteKeyReused if it asks for something else. Under
        a key there is a commit even if nothing changes.

        >>> with g.transaction(actor="ada", once="orders-2026-11-15") as tx:
        ...     tx.insert("Person", name="Cy", age=51)
        ...     tx.insert("Knows", from_="Bo", to="Cy")
        >>> assert tx.receipt.commit == g.head()
        """
        return Transaction(
            self._repository,
            self._committer,
            branch,
            actor=actor,
            message=message,
            if_commit=if_commit,
            once=once,
            caller=None if self._caller is None else replace(self._caller, actor=actor),
        )

    load = loading.load

    def _load(self, sources: Sources, options: LoadOptions, progress: bool | Callable[[Status], None]) -> LoadReceipt:
        from omnigraph.load.job import load
        from omnigraph.tasks.progress import shown_on

        options = replace(options, permit=self._permit(options.branch, options.mode, options.actor))
        with shown_on(sys.stderr, progress) as shown:
            return load(self._repository, sources, options, shown, self._committer)

    def explain_load(
        self,
        sources: Sources,
        *,
        branch: str = MAIN,
        from_: str | None = None,
        type: str | None = None,
        format: str | None = None,
        encoding: str | None = None,
        map: Mapping[str, object] | str | Path | None = None,
        engine: Engine = AUTO,
        conf: Mapping[str, str] | None = None,
    ) -> LoadExplanation:
        """Where a load would run and why, and how its input would be split into tasks. No rows are read, and Spark is not started.

        >>> explained = g.explain_load("people.jsonl")
        >>> assert explained.reason.endswith("Spark from 500 MB on")
        """
        from omnigraph.load.explaining import explain_load
        from omnigraph.load.options import LoadOptions

        options = LoadOptions(
            mode="append",
            branch=branch,
            from_=from_,
            engine=engine,
            conf=conf,
            format=format,
            type=type,
            encoding=encoding,
            map=map,
        )
        return explain_load(self._repository, sources, options)

    def embed(
        self,
        *,
        which: Which = "missing",
        types: Sequence[str] | None = None,
        branch: str = MAIN,
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        progress: bool = False,
    ) -> EmbedReport:
        """Compute the vectors that `@embed` declares for stored texts: the missing ones, or all of them, even where a vector was
        given. `types` limits this to some types.

        A run commits once for each 256 MiB of vectors. When the provider fails, the vectors made so far are committed, and the next
        run continues from there. `dry_run` says how many there are, and calls no provider.

        >>> notes = og.init("./notes", 'node Note { text: String @key  vec: Vector(64)? @embed("text") }')
        >>> receipt = notes.mutate('query q() { insert Note { text: "a graph with branches" } }')
        >>> assert notes.embed().rows == 0
        >>> assert len(notes.embed(which="all", types=["Note"]).commits) == 1
        """
        from omnigraph.maintenance.embed import embed
        from omnigraph.tasks.progress import shown_on

        with shown_on(sys.stderr, progress) as shown:
            return embed(
                self._repository,
                self._committer,
                branch,
                which=which,
                types=types,
                dry_run=dry_run,
                actor=actor,
                message=message,
                progress=shown,
            )

    def stream_into(
        self,
        frames: str | Callable[[Any], Mapping[str, Any]],
        *,
        mode: LoadMode,
        branch: str = MAIN,
        rejects: str | Path | None = None,
        missing: Missing = "refuse",
        actor: str | None = None,
        message: str | None = None,
    ) -> Callable[[object, int], None]:
        """For `foreachBatch` of a Spark stream: each micro-batch is one commit, however often it is retried.

        `frames` is the type of the batch's rows, or a function from a batch to DataFrames by type, as `load` takes them. Rejected
        records stop the query unless `rejects` names a folder, where each batch writes a file of its own. `missing` is as in `load`,
        batch by batch.

        >>> into = g.stream_into(lambda batch: {"Person": batch.select("name"), "City": batch.select("city")}, mode="merge")
        """
        from omnigraph.load.options import check_mode, checked_missing
        from omnigraph.spark.sessions import require_pyspark

        if not isinstance(frames, str) and not callable(frames):
            raise UsageError(
                f"'frames' must be a type or a function of the batch, got {type(frames).__name__}",
                hint='g.stream_into("Person", mode="append")',
            )
        check_mode(mode)
        checked_missing(missing, mode)
        check_attribution(actor, message)
        refuse_memory(self.uri)
        require_pyspark()
        from omnigraph.spark.stream_sink import StreamInto

        permit = self._permit(branch, mode, actor)
        return StreamInto(self._repository, frames, mode, branch, rejects, missing, actor, message, permit)

    def _permit(self, branch: str, mode: LoadMode, actor: str | None) -> Callable[[frozenset[str]], None] | None:
        """Asks the policy, if there is one, for the types that a load turns out to change."""
        caller = self._caller
        if caller is None:
            return None
        return lambda types: caller.ask(AccessRequest("change", branch=branch.strip(), types=types, mode=mode), actor)
