"""Creating and opening graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from omnigraph._internal.runtime import Runtime
from omnigraph.errors import UsageError
from omnigraph.graph.access import Caller
from omnigraph.graph.arguments import checked
from omnigraph.graph.graph import Graph
from omnigraph.graph.texts import read_source
from omnigraph.policy.ask import Authorizer, check_gate
from omnigraph.snapshot import Repository, new_table_id
from omnigraph.storage.syncing import Durability

# Recording Spark's start on this machine, so that it takes half the time.


def record_spark_start(say: Callable[[str], None]) -> tuple[Path, bool]:
    """Where the record is, and whether it was made now. `say` is called with each step."""
    from omnigraph.spark.sessions import require_pyspark
    from omnigraph.spark.start_cache import find

    require_pyspark()

    cache = find()
    if cache is None:
        raise UsageError(
            "Spark's start can be recorded only for the Java that comes with OmniGraph, and in a cache folder of the user's own",
            hint="unset JAVA_HOME, and set XDG_CACHE_HOME to a folder of yours if there is no home folder",
        )
    return cache.path, cache.make(say)


Verify = Literal["used", "full"]


@checked
def init(
    uri: str | Path,
    schema: str | Path,
    *,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
    runtime: Runtime | None = None,
    policy: Authorizer | None = None,
) -> Graph:
    """Create a graph at a folder or address, with the schema of a `.pg` text or file.

    AlreadyExists if there is one; SchemaError if the schema does not compile. In both cases nothing is written. `runtime`
    and `policy` are as in `open`.

    >>> cities = og.init("./cities", schema="node City { name: String @key }")
    >>> assert list(cities.schema.catalog.nodes) == ["City"]
    """
    from omnigraph.language.schema.compiler import compile_schema

    text, file = read_source(schema, ".pg")
    catalog = compile_schema(text, file, new_table_id=new_table_id)
    shared, caller = _runtime(runtime), _caller(policy)
    return Graph(Repository.create(str(uri), catalog, storage_options, durability, actor, shared), caller)


@checked
def open(
    uri: str | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
    runtime: Runtime | None = None,
    verify: Verify = "used",
    policy: Authorizer | None = None,
    read_only: bool = False,
) -> Graph:
    """Open an existing graph. GraphNotFound if there is none, UnsupportedFormat if it needs a newer omnigraph.

    `runtime` limits what is cached in memory: `og.Runtime("2GiB")`, where the default is 1 GiB; graphs that are given the same
    one share its limit.

    Later reads check what can be checked at no cost: all of history, and the small files of tables. With
    `verify="full"` everything is read and checked now, as `g.maintenance.verify(all=True)` does: Damaged if a file is missing or does not
    have the content that was written.

    With a `policy` every call is checked first, including reads: `g.as_(actor)` is the graph as that actor uses it, and a call
    without an actor is PolicyDenied.

    If it is `read_only`, every call that would change the graph is a UsageError.

    >>> with og.open("./cities", verify="full") as cities:
    ...     assert cities.head().kind == "init"
    """
    if verify not in ("used", "full"):
        raise UsageError(f"{verify!r} is not a way to verify a graph", hint='verify="used" or verify="full"')
    if str(uri).startswith(("http://", "https://")):
        raise UsageError(
            f"'{uri}' is the address of a server",
            hint=f'og.connect("{uri}", graph="NAME") in Python, --server {uri} on the command line',
        )
    caller = _caller(policy)
    if read_only:
        caller = replace(caller or Caller(None, None), is_read_only=True)
    repository = Repository.open(str(uri), storage_options, durability, _runtime(runtime))
    if verify == "full":
        from omnigraph.maintenance.verify.job import verify as verify_graph

        verify_graph(repository, all=True).raise_damage()
    return Graph(repository, caller)


def _caller(policy: Authorizer | None) -> Caller | None:
    return None if policy is None else Caller(check_gate(policy), None)


def _runtime(runtime: Runtime | None) -> Runtime:
    if runtime is None:
        return Runtime()
    if not isinstance(runtime, Runtime):
        raise UsageError(f"expected a Runtime, got {type(runtime).__name__}", hint='og.Runtime(memory="1GiB")')
    return runtime
