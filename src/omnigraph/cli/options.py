"""The flags that commands share. A command refuses those that it does not use, before the verb as after it.

omnigraph --json query ...        the same as        omnigraph query ... --json
"""

from __future__ import annotations

import atexit
import copy
import functools
import gc
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
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


class Spelled(click.Option):
    """An option with other spellings, `also`, which work and are shown only on the page of other spellings."""

    def __init__(self, declarations: Sequence[str], also: Sequence[str] = (), **options: Any) -> None:
        super().__init__([*declarations, *also], **options)
        self.also = tuple(also)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        opts, self.opts = self.opts, [spelling for spelling in self.opts if spelling not in self.also]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = opts


_SHARED: dict[str, Callable[..., Any]] = {
    "store": click.option(
        "--store",
        "store",
        cls=Spelled,
        also=["--uri"],
        metavar="URI",
        help="The graph: a folder, or an s3://, gs:// or az:// address.",
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


def is_address(word: str) -> bool:
    """Whether a word is the address of a graph, and not the name of a branch, a query or a type."""
    return "://" in word or word.startswith((".", "/", "~")) or (Path(word) / "graph.json").is_file()


_DECLARED = re.compile(r"<(\w+)\.(\w+)((?:, [^<>]*)?)>")
"""In a help text: a declaration of `api`, and members that the command adds."""


def _with_members(line: str) -> str:
    """A line of a help text with the members of the JSON objects that it names."""
    if _DECLARED.search(line) is None:
        return line
    from importlib import import_module

    while (named := _DECLARED.search(line)) is not None:
        declared = getattr(import_module(f"omnigraph.api.{named[1]}"), named[2]).described()
        line = f"{line[: named.start()]}{declared[:-1]}{named[3]}}}{line[named.end() :]}"
    text = line.lstrip()
    indent = line[: -len(text)]
    return textwrap.fill(
        text, 112 + len(indent), initial_indent=indent, subsequent_indent=f"{indent}       ", break_on_hyphens=False
    )


class GraphCommand(click.Command):
    """A command of a graph, whose address may be the first argument: the same as --store. Where its help names the JSON that it prints
    (`<writes.LoadJson>`), the page shows the members."""

    addresses = 0
    """How many of the command's own arguments that come first are addresses."""
    instead = ""
    """For another spelling of a command, which works and is hidden: the documented one."""

    @property
    def help(self) -> str | None:
        return None if self._help is None else "\n".join(map(_with_members, self._help.splitlines()))

    @help.setter
    def help(self, text: str | None) -> None:
        self._help = text

    def get_short_help_str(self, limit: int = 45) -> str:
        """For a list of commands, which shows no members."""
        return click.Command(self.name, help=self._help).get_short_help_str(limit)

    @property
    def takes_graph_first(self) -> bool:
        """Whether the address comes before arguments of the command."""
        arguments = [parameter for parameter in self.params if isinstance(parameter, click.Argument)]
        takes_store = any(parameter.name == "store" for parameter in self.params)
        return takes_store and not (arguments and arguments[0].name in ("uri", "uris"))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        leading = args[: self.addresses + 1]
        if self.takes_graph_first and len(leading) > self.addresses and all(map(is_address, leading)):
            twice = [word for word in args[1:] if word in ("--store", "--uri", "--server", "--cluster", "--profile")]
            if twice:
                raise click.UsageError(f"a graph and {twice[0]} exclude each other", ctx)
            args = ["--store", *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        if not self.takes_graph_first:
            return pieces
        return [*pieces[:1], "[GRAPH]", *(piece for piece in pieces[1:] if piece != "[GRAPH]")]


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
    addresses: int = 0,
    instead: str = "",
) -> Decorator:
    """Register a command; it gets `settings` and `out`. `served`: it also works on a graph of a server. `clustered`: it also
    works on a graph of a cluster, under its policy. Its docstring is the help: what it does, then after `\\b` its examples, then
    after `\\b` the JSON it prints. `flags` replace shared flags that have another meaning in this command. `addresses` and
    `instead` are those of `GraphCommand`."""
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
        registered = group.command(name, cls=GraphCommand, hidden=bool(instead))(decorated)
        assert isinstance(registered, GraphCommand)
        registered.addresses, registered.instead = addresses, instead
        return registered

    return register


def other_spelling(command: click.Command, instead: str) -> click.Command:
    """A command under a name that works and is hidden; `instead` is the documented one."""
    other = copy.copy(command)
    other.hidden = True
    if isinstance(other, GraphCommand):
        other.instead = instead
    return other


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


as_of_option = click.option(
    "--as-of", "as_of", cls=Spelled, also=["--at"], metavar="TIME", help="The branch as it was at a time (UTC)."
)


def revision_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--revision` and `--as-of`, with their synonyms: which state of the graph to read."""
    function = as_of_option(function)
    return click.option(
        "--revision",
        "revision",
        cls=Spelled,
        also=["--branch", "--snapshot"],
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


uri_argument = click.argument("uri", metavar="[GRAPH]", required=False)


def overwrite_option(what: str) -> Decorator:
    return click.option("--overwrite", cls=Spelled, also=["--force"], is_flag=True, help=f"Replace {what}.")


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
