"""The flags that commands share. A command refuses those that it does not use, before the verb as after it.

omnigraph --json query ...        the same as        omnigraph query ... --json
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

import click

from omnigraph.cli.config import Config
from omnigraph.cli.output import Output, print_cost
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

# How commands start quickly and end.

ALLOCATIONS = 50_000
"""The number of allocations between two garbage collections. With Python's default there would be some hundred while modules are
loaded, none of which finds garbage."""
_PANDAS = "pandas"
_SPARK = "pyspark"
_DUCKDB = "duckdb"


class _LeftOut:
    """Hides pandas. Arrow imports it with its first value, which takes longer than most queries. Arrow works without it, and only
    commands on Spark need it: it can be imported once Spark is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS and _SPARK not in sys.modules:
            raise ModuleNotFoundError("left out of this command", name=fullname)
        return None


_finder = _LeftOut()


def leave_pandas_out() -> None:
    """Hide pandas, in a process that runs only one command."""
    if _PANDAS not in sys.modules:
        sys.meta_path.insert(0, _finder)


def want_pandas() -> None:
    """Undo `leave_pandas_out`, before the engines load, in a command that runs on Spark."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def collect_rarely() -> None:
    """Collect garbage rarely, in a process that runs only one command."""
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def collect_nothing_at_the_end() -> None:
    """Skip the garbage collection at the end of the process, which would take as long as a short read. DuckDB needs it, and
    complains about what is left."""
    if _DUCKDB not in sys.modules:
        gc.freeze()


def end_process() -> NoReturn:
    """Exit without finalizing the interpreter. In a shell, another thread may still be inside an engine, with a query that was
    cancelled or a completion: finalization would make the process abort."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_SHARED: dict[str, Callable[..., Any]] = {
    "store": click.option(
        "--store", "--uri", "store", metavar="URI", help="The graph: a folder, or an s3://, gs:// or az:// address."
    ),
    "server": click.option("--server", metavar="NAME|URL", help="A server: its name in the config file, or its URL."),
    "cluster": click.option("--cluster", metavar="DIR|URI", help="A cluster: its folder, its storage, or its name."),
    "graph": click.option("--graph", metavar="ID", help="The graph of the server or cluster."),
    "profile": click.option("--profile", metavar="NAME", help="A profile of the config file (or OMNIGRAPH_PROFILE)."),
    "actor": click.option("--as", "actor", metavar="ACTOR", help="Who makes this change; recorded in the commit."),
    "yes": click.option(
        "--yes", is_flag=True, help="Confirm: destroying data on storage that is not local, or a repair."
    ),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print JSON for programs."),
    "quiet": click.option("--quiet", is_flag=True, help="Print only results and errors."),
    "debug": click.option(
        "--debug", is_flag=True, help="Show the requests to the store, and a traceback when something fails."
    ),
}

_SPELLED = {
    "store": "--store",
    "server": "--server",
    "cluster": "--cluster",
    "graph": "--graph",
    "profile": "--profile",
    "actor": "--as",
    "yes": "--yes",
}

Decorator = Callable[[Callable[..., Any]], Any]


def shared_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds every shared flag to the program itself: they may precede the verb."""
    for flag in reversed(_SHARED):
        function = _SHARED[flag](function)
    return function


def command(
    group: click.Group,
    name: str,
    *,
    graph: bool = True,
    served: bool = False,
    clustered: bool = False,
    writes: bool = False,
    destroys: bool = False,
    flags: Mapping[str, Decorator] | None = None,
) -> Decorator:
    """Register a command; it gets `settings` and `out`. `served`: it also works on a graph of a server. `clustered`: it also
    works on a graph of a cluster, under its policy. Its docstring is the help: what it does, then after `\\b` its examples, then
    after `\\b` the JSON it prints. `flags` replace shared flags that have another meaning in this command."""
    taken = ["as_json", "quiet", "debug"]
    taken += ["store"] * graph + ["server"] * served + ["cluster"] * clustered
    taken += ["graph"] * (graph and (served or clustered)) + ["profile"] * (graph or served)
    taken += ["actor"] * (writes or clustered) + ["yes"] * destroys

    def register(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(*args: Any, **values: Any) -> Any:
            own = {flag: values.pop(flag) for flag in taken}
            settings = _resolved(name, own)
            out = Output(settings.as_json, settings.quiet, settings.config.column_width, settings.config.wrap)
            if not graph:
                return function(*args, settings=settings, out=out, **values)
            from omnigraph.metering import Meter

            meter = Meter()
            try:
                with meter.running():
                    return function(*args, settings=settings, out=replace(out, meter=meter), **values)
            finally:
                if click.get_current_context().find_root().obj["debug"]:
                    print_cost(meter)

        decorated: Callable[..., Any] = run
        for flag in [flag for flag in reversed(_SHARED) if flag in taken]:
            option: Decorator = (flags or {}).get(flag, _SHARED[flag])
            decorated = option(decorated)
        return group.command(name)(decorated)

    return register


def _resolved(verb: str, own: Mapping[str, Any]) -> Settings:
    """The settings: the command's own flags, then those before the verb, then the config file."""
    root = click.get_current_context().find_root()
    before: Mapping[str, Any] = root.params
    for flag, spelled in _SPELLED.items():
        if before.get(flag) and flag not in own:
            raise click.UsageError(f"'{verb}' does not take {spelled}")
    merged = {flag: before.get(flag) if value in (None, False) else value for flag, value in own.items()}
    root.obj = {"debug": bool(merged["debug"])}
    config = Config.load()
    if not merged["quiet"]:
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
    return Settings(
        store=merged.get("store"),
        server=merged.get("server"),
        graph=merged.get("graph"),
        profile=merged.get("profile"),
        cluster=merged.get("cluster"),
        as_actor=merged.get("actor"),
        as_json=bool(merged["as_json"]),
        quiet=bool(merged["quiet"]),
        yes=bool(merged.get("yes")),
        config=config,
    )


branch_option = click.option("--branch", default="main", show_default=True, help="The branch to work on.")


as_of_option = click.option("--as-of", "--at", "as_of", metavar="TIME", help="The branch as it was at a time (UTC).")


def revision_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--revision` and `--as-of`, with their synonyms: which state of the graph to read."""
    function = as_of_option(function)
    return click.option(
        "--revision",
        "--branch",
        "--snapshot",
        "revision",
        metavar="REVISION",
        multiple=True,
        callback=_only_revision,
        help="A branch, tag, commit id or branch~N (default: main).",
    )(function)


def _only_revision(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> str:
    if len(values) > 1:
        raise click.UsageError(f"--revision, --branch and --snapshot name one state; {len(values)} were given")
    return values[0] if values else "main"


def once_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--once` and `--sequence`: the write key, given to the command as `once`."""

    @functools.wraps(function)
    def run(*args: Any, once: str | None, sequence: tuple[str, int] | None, **values: Any) -> Any:
        if once is not None and sequence is not None:
            raise click.UsageError("--once and --sequence exclude each other")
        return function(*args, once=once if sequence is None else sequence, **values)

    sequenced = click.option(
        "--sequence",
        nargs=2,
        type=(str, int),
        metavar="APPLICATION NUMBER",
        help="A write key of a sequence: an application and a growing number, remembered forever.",
    )(run)
    return click.option(
        "--once", metavar="KEY", help="A write key: repeated with the same key, the write changes nothing."
    )(sequenced)


def load_engine(chosen: str | None, config: Config) -> str:
    """The engine of a load: the flag, OMNIGRAPH_ENGINE, the config file's defaults.engine, or by the size of the input."""
    engine = chosen or os.environ.get("OMNIGRAPH_ENGINE") or config.engine or "auto"
    if engine not in ("local", "auto"):
        want_pandas()
    return engine


load_engine_option = click.option(
    "--engine",
    metavar="auto|local|spark|MASTER",
    help="Where to run (default: auto): in this process, on Spark, on the Spark master at an address, or, with auto, "
    "by the size of the input.",
)
choose_option = click.option(
    "--choose",
    multiple=True,
    metavar="NAME=CHOICE",
    help="Instead of a guess: TYPE=node, TYPE=edge, TYPE.COLUMN=TYPE (a reference), =property, or =node (its values are nodes); "
    "may repeat.",
)
missing_option = click.option(
    "--missing",
    type=click.Choice(["refuse", "skip", "stub"]),
    default="refuse",
    show_default=True,
    help="Edges that name a missing node: refuse the load, skip them, or create stubs: the nodes with their key alone.",
)
conf_option = click.option(
    "--conf",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the Spark session that is started, or of the load's tasks (spark.omnigraph.splitBytes, .parallelism, "
    ".taskMemory); may repeat.",
)


def named_values(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """Arguments of the form `NAME=VALUE`, by name."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"'{pair}' is not a setting", hint=f"write {flag} NAME=VALUE")
        values[name.strip()] = value
    return values


uri_argument = click.argument("uri", required=False)


def engine_option(default: str) -> Decorator:
    """`--engine`; a command that runs on Spark says so before the engines load."""

    def choose(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
        if value not in ("local", "auto"):
            want_pandas()
        return value

    return click.option(
        "--engine",
        metavar="local|spark|MASTER",
        default=default,
        show_default=True,
        callback=choose,
        help="Where to run: in this process, on Spark, or on the Spark master at an address.",
    )
