"""Queries on DuckDB: Ctrl-C, a deadline or cancelling ends them, and they fail with our errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from omnigraph._internal.deadlines import Deadline
from omnigraph._internal.lazy_imports import pa
from omnigraph._internal.runtime import MORE_MEMORY
from omnigraph.errors import ArithmeticOverflow, ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.read.inputs.scans import Stream
from omnigraph.relational import duck

STOP_INTERVAL_S = 0.02
"""How often a query that must end is interrupted."""


def run(sql: str, values: Mapping[str, object], relations: Mapping[str, Any], arguments: Arguments) -> pa.Table:
    """Run one query over Arrow relations. Ctrl-C and the deadline end it, and its memory is bounded."""
    import duckdb

    memory = arguments.memory
    work = partial(duck.execute, text=sql, relations=relations, arguments=values, memory=memory)
    try:
        return run_interruptibly(work, duck.queries(memory.query_bytes), arguments.deadline)
    except duckdb.OutOfMemoryException as error:
        raise ResourceExhausted("the query does not fit in the memory of its graph", hint=MORE_MEMORY) from error
    except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
        raise ArithmeticOverflow from error
    except duckdb.Error:
        for relation in relations.values():
            if isinstance(relation, Stream) and relation.failure is not None:
                raise relation.failure from None
        raise


def run_interruptibly(work: Callable[[Any], pa.Table], database: duck.Database, deadline: Deadline) -> pa.Table:
    """Run work on a connection and return its result. Ctrl-C and the deadline end it."""
    if deadline.is_never and threading.current_thread() is not threading.main_thread():
        with database.connections.borrow() as connection:
            return work(connection)
    return _Query(work, database).result(deadline)


class _Query:
    """A query in a thread of its own: while DuckDB works, the calling thread would notice neither signals nor its deadline."""

    def __init__(self, work: Callable[[Any], pa.Table], database: duck.Database) -> None:
        self._work = work
        self._database = database
        self._connection: Any = None
        self._outcome: Future[pa.Table] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._database.connections.borrow() as self._connection:
                table = self._work(self._connection)
        except BaseException as error:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(table)

    def result(self, deadline: Deadline) -> pa.Table:
        ended = threading.Event()
        self._outcome.add_done_callback(lambda _: ended.set())
        try:
            with deadline.waking(ended.set):
                ended.wait(deadline.remaining_s())
        except BaseException:
            self._stop()
            raise
        if not self._outcome.done():
            self._stop()
            raise deadline.error()
        return self._outcome.result()

    def _stop(self) -> None:
        while self._thread.is_alive():
            if self._connection is not None:
                # An interrupt is lost if the query has not started yet, so it is repeated.
                self._connection.interrupt()
            self._thread.join(STOP_INTERVAL_S)
