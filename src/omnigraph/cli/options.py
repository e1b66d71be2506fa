"""How commands are declared, and the flags that they share. A command refuses those that it does not use, before the verb as after it.

omnigraph --json query ...        the same as        omnigraph query ... --json
"""

from __future__ import annotations

import ast
import functools
import math
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from omnigraph.cli.config import Config
from omnigraph.cli.output import FORMATS, Output, print_cost
from omnigraph.cli.process import want_pandas
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

Decorator = Callable[[Callable[..., Any]], Any]


class Spelled(click.Option):
    """An option with other spellings, `also`, which work and are shown only on the page of other spellings. One with `instead` is
    itself another spelling, of that."""

    def __init__(
        self, declarations: Sequence[str], also: Sequence[str] = (), instead: str | None = None, **options: Any
    ) -> None:
        super().__init__([*declarations, *also], hidden=instead is not None, **options)
        self.also = tuple(also)
        self.instead = instead

    @property
    def spellings(self) -> dict[str, str]:
        """What is documented instead of each hidden spelling."""
        if self.instead is not None:
            return dict.fromkeys(self.opts, self.instead)
        shown = max((spelling for spelling in self.opts if spelling not in self.also), key=len)
        return dict.fromkeys(self.also, shown)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        opts, self.opts = self.opts, [spelling for spelling in self.opts if spelling not in self.also]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = opts


_SHARED: dict[str, Decorator] = {
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
        "--yes",
        cls=Spelled,
        also=["--confirm"],
        is_flag=True,
        help="Confirm: destroying data on storage that is not local, or a repair.",
    ),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print JSON for programs."),
    "quiet": click.option("--quiet", is_flag=True, help="Print only results and errors."),
    "debug": click.option(
        "--debug", is_flag=True, help="Show the requests to the store, and a traceback when something fails."
    ),
}
_PLACES = {"store": "--store", "server": "--server", "cluster": "--cluster", "profile": "--profile"}
_SPELLED = {**_PLACES, "graph": "--graph", "actor": "--as", "yes": "--yes"}


def is_address(word: str) -> bool:
    """Whether a word is the address of a graph or cluster, and not the name of a branch, a query or a type."""
    if "://" in word or word.startswith((".", "/", "~")):
        return True
    return any((Path(word) / file).is_file() for file in ("graph.json", "cluster.yaml"))


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
    """A command whose first argument may be the address of the graph, the same as --store, or of the cluster. Where its help names
    the JSON that it prints (`<writes.LoadJson>`), the page shows the members."""

    addresses: int | None = 0
    """How many of the command's own arguments that come first are addresses; None if the graph comes last."""
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
    def place(self) -> str | None:
        """The option that the first argument stands for."""
        options = {parameter.name for parameter in self.params}
        if "store" in options:
            return "--store"
        return "--cluster" if "folder" in options else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.place is not None:
            words, options = self._words(args)
            at = self._address(args, words)
            if at is not None:
                if twice := [flag for name, flag in {**_PLACES, "folder": "--cluster"}.items() if name in options]:
                    raise click.UsageError(f"a graph and {twice[0]} exclude each other", ctx)
                args = [self.place, args[at], *args[:at], *args[at + 1 :]]
        return super().parse_args(ctx, args)

    def _words(self, args: Sequence[str]) -> tuple[list[int], set[str | None]]:
        """Where the words are that belong to no option, and the names of the options."""
        options = {text: option for option in self.params if isinstance(option, click.Option) for text in option.opts}
        words: list[int] = []
        names: set[str | None] = set()
        at = 0
        while at < len(args):
            arg = args[at]
            if arg == "--":
                return [*words, *range(at + 1, len(args))], names
            if arg == "-" or not arg.startswith("-"):
                words.append(at)
            elif option := options.get(arg.partition("=")[0] if arg.startswith("--") else arg[:2]):
                names.add(option.name)
                is_attached = "=" in arg if arg.startswith("--") else len(arg) > 2
                at += 0 if option.is_flag else option.nargs - is_attached
            at += 1
        return words, names

    def _address(self, args: Sequence[str], words: Sequence[int]) -> int | None:
        """Where the address is: first, before addresses of the command's own, or last, after all of its arguments."""
        own = [argument for argument in self.params if isinstance(argument, click.Argument)]
        most = math.inf if any(argument.nargs < 0 for argument in own) else len(own)
        if self.addresses is None:
            return words[-1] if len(words) > most else None
        if not words or not own:
            return words[0] if words else None
        if len(words) > most and not is_address(args[words[0]]) and not self.addresses:
            return words[-1] if is_address(args[words[-1]]) else None
        leading = words[: 1 if len(words) > most else self.addresses + 1]
        is_graph = len(words) > self.addresses and (
            (self.addresses and len(words) > most) or all(is_address(args[at]) for at in leading)
        )
        return words[0] if is_graph else None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        if self.place is not None:
            name = "[GRAPH]" if self.place == "--store" else "[CLUSTER]"
            pieces.insert(len(pieces) if self.addresses is None else 1, name)
        return pieces


def shared_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds every shared flag to the program itself: they may precede the verb."""
    for flag in reversed(_SHARED):
        function = _SHARED[flag](function)
    return function


COMMANDS: dict[str, click.Command] = {}
"""The commands and groups of the modules that are loaded, by their first words."""


def group(name: str, help: str) -> None:
    """Declare the first word of several commands."""
    COMMANDS[name] = click.Group(name, help=help)


def command(
    words: str,
    *,
    graph: bool = True,
    served: bool = False,
    clustered: bool = False,
    writes: bool = False,
    destroys: bool = False,
    flags: Mapping[str, Decorator] | None = None,
    addresses: int | None = 0,
    instead: str = "",
) -> Callable[[Callable[..., Any]], GraphCommand]:
    """Declare a command; it gets `settings` and `out`. `served`: it also works on a graph of a server. `clustered`: it also
    works on a graph of a cluster, under its policy. Its docstring is the help: what it does, then after `\\b` its examples, then
    after `\\b` the JSON it prints. `flags` replace shared flags that have another meaning in this command. `addresses` and
    `instead` are those of `GraphCommand`."""
    taken = ["as_json", "quiet", "debug"]
    taken += ["store"] * graph + ["server"] * served + ["cluster"] * clustered
    taken += ["graph"] * (graph and (served or clustered)) + ["profile"] * (graph or served)
    taken += ["actor"] * (writes or clustered) + ["yes"] * destroys
    *first, name = words.split()

    def declare(function: Callable[..., Any]) -> GraphCommand:
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
        declared = click.command(name, cls=GraphCommand, hidden=bool(instead))(decorated)
        declared.addresses, declared.instead = addresses, instead
        if first:
            family = COMMANDS[first[0]]
            assert isinstance(family, click.Group)
            family.add_command(declared)
        else:
            COMMANDS[name] = declared
        return declared

    return declare


def _resolved(verb: str, own: Mapping[str, Any]) -> Settings:
    """The settings: the command's own flags, then those before the verb, then the config file."""
    root = click.get_current_context().find_root()
    before: Mapping[str, Any] = root.params
    for flag, spelled in _SPELLED.items():
        if before.get(flag) and flag not in own:
            raise click.UsageError(f"'{verb}' does not take {spelled}")
    merged = {flag: before.get(flag) if value in (None, False) else value for flag, value in own.items()}
    root.obj = {"debug": bool(merged.pop("debug")), "command": click.get_current_context().command}
    config = Config.load()
    if not merged["quiet"]:
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
    flags: dict[str, Any] = {("as_actor" if flag == "actor" else flag): value for flag, value in merged.items()}
    for flag in ("as_json", "quiet", "yes"):
        flags[flag] = bool(flags.get(flag))
    return Settings(config=config, **flags)


_ARGUMENT = re.compile(r"""\b([a-z_]+)=(True\b|\d+\b|"[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\})?""")


def with_flags(text: str, command: click.Command) -> str:
    """The hint of an error of the library with its arguments as flags of the command: `missing='skip'` as `--missing skip`."""
    options = {
        option.name: option
        for option in command.params
        if isinstance(option, click.Option)
        if option.name not in _SHARED
    }

    def flag(argument: re.Match[str]) -> str:
        option = options.get(argument[1])
        if option is None:
            return argument[0]
        also = option.also if isinstance(option, Spelled) else ()
        name = max((spelling for spelling in option.opts if spelling not in also), key=len)
        value = ast.literal_eval(argument[2]) if argument[2] else True
        words: list[object] = [value]
        if isinstance(value, dict):
            words = [f"{key}={item}" for key, item in value.items()]
        elif isinstance(value, list):
            words = value if option.multiple else [",".join(value)]
        return " ".join(name if word is True else f"{name} {_in_a_shell(str(word))}" for word in words)

    return _ARGUMENT.sub(flag, text)


def _in_a_shell(word: str) -> str:
    return "$'\\t'" if word == "\t" else shlex.quote(word)


# Options of several commands.


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, shown in this order."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def several(*names: str, help: str, **options: Any) -> Decorator:
    """An option that may repeat; the command gets a list, or None."""

    def values(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> list[str] | None:
        return list(words) or None

    return click.option(*names, multiple=True, callback=values, help=f"{help}; may repeat.", **options)


def pairs(flag: str, name: str | None = None, *, metavar: str = "NAME=VALUE", help: str) -> Decorator:
    """An option of the form `NAME=VALUE` that may repeat; the command gets the values by name, or None."""

    def values(
        _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
    ) -> Mapping[str, str] | None:
        by_name: dict[str, str] = {}
        for word in words:
            key, sign, value = word.partition("=")
            if not sign or not key.strip():
                raise UsageError(f"'{word}' is not a setting", hint=f"write {flag} {metavar}")
            by_name[key.strip()] = value
        return by_name or None

    names = [flag] if name is None else [flag, name]
    return click.option(*names, multiple=True, metavar=metavar, callback=values, help=f"{help}; may repeat.")


branch_option = click.option("--branch", default="main", show_default=True, help="The branch to work on.")
message_option = click.option("--message", metavar="TEXT", help="Recorded in the commit.")
as_of_option = click.option(
    "--as-of", "as_of", cls=Spelled, also=["--at"], metavar="TIME", help="The branch as it was at a time (UTC)."
)
timeout_option = click.option("--timeout", type=float, metavar="SECONDS", help="Stop after this many seconds.")


def _only_revision(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> str:
    if len(values) > 1:
        raise click.UsageError(f"--revision, --branch and --snapshot name one state; {len(values)} were given")
    return values[0] if values else "main"


revision_option = click.option(
    "--revision",
    "revision",
    cls=Spelled,
    also=["--branch", "--snapshot"],
    metavar="REVISION",
    multiple=True,
    callback=_only_revision,
    help="A branch, tag, commit id or branch~N (default: main).",
)
revision_options = together(revision_option, as_of_option)
"""Which state of the graph to read."""


def once_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--once` and `--sequence`: the write key, given to the command as `once`."""

    @functools.wraps(function)
    def run(*args: Any, once: str | None, sequence: tuple[str, int] | None, **values: Any) -> Any:
        if once is not None and sequence is not None:
            raise click.UsageError("--once and --sequence exclude each other")
        return function(*args, once=once if sequence is None else sequence, **values)

    options = together(
        click.option(
            "--once", metavar="KEY", help="A write key: repeated with the same key, the write changes nothing."
        ),
        click.option(
            "--sequence",
            nargs=2,
            type=(str, int),
            metavar="APPLICATION NUMBER",
            help="A write key of a sequence: an application and a growing number, remembered forever.",
        ),
    )
    decorated: Callable[..., Any] = options(run)
    return decorated


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
rejects_option = click.option(
    "--rejects", metavar="FILE", help="Write rejected records to this new file and load the rest."
)
missing_option = click.option(
    "--missing",
    type=click.Choice(["refuse", "skip", "stub"]),
    default="refuse",
    show_default=True,
    help="Edges that name a missing node: refuse the load, skip them, or create stubs: the nodes with their key alone.",
)
inference_options = together(
    several("--key", metavar="TYPE.COLUMN", help="A known key, or COLUMN for all types"),
    several("--null", metavar="TEXT", help="Text that means null in every column"),
    pairs(
        "--choose",
        metavar="NAME=CHOICE",
        help="Instead of a guess: TYPE=node, TYPE=edge, TYPE.COLUMN=TYPE (a reference), =property, or =node (its values "
        "are nodes)",
    ),
    missing_option,
    click.option(
        "--sample", default=100_000, show_default=True, metavar="ROWS", help="Rows of each table to look at; 0 for all."
    ),
)
"""How a schema is inferred from data."""


def overwrite_option(what: str) -> Decorator:
    return click.option("--overwrite", cls=Spelled, also=["--force"], is_flag=True, help=f"Replace {what}.")


def out_option(help: str, metavar: str = "FILE") -> Decorator:
    """`--out`, given to the command as `target`."""
    return click.option("--out", "target", cls=Spelled, also=["--output"], metavar=metavar, help=help)


row_options = together(
    click.option("--format", type=click.Choice(FORMATS), help="Default: table; with --out, by the file's name."),
    out_option("Write the rows to a file."),
    overwrite_option("a file that exists"),
    timeout_option,
)
"""How rows are shown or written."""


def _chosen_engine(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value not in ("local", "auto"):
        want_pandas()
    return value


engine_option = click.option(
    "--engine",
    metavar="local|spark|MASTER",
    default="local",
    show_default=True,
    callback=_chosen_engine,
    help="Where to run: in this process, on Spark, or on the Spark master at an address.",
)
"""A command that runs on Spark says so before the engines load."""
