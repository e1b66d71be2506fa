"""serve, studio, token new: graphs over HTTP, the page to look at them, and tokens for their users."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import click

from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import ServerTarget, Settings
from omnigraph.errors import UsageError

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option("--cluster", metavar="DIR", envvar="OMNIGRAPH_CLUSTER", help="Serve the graphs of a cluster."),
    click.option(
        "--bind",
        metavar="HOST:PORT",
        default="127.0.0.1:8080",
        show_default=True,
        envvar="OMNIGRAPH_BIND",
        help="Where to listen; port 0 picks a free one.",
    ),
    click.option("--queries", metavar="DIR", help="Stored queries: a folder of .gq files, or one file."),
    click.option(
        "--unauthenticated", is_flag=True, envvar="OMNIGRAPH_UNAUTHENTICATED", help="Require no token."
    ),
    click.option(
        "--require-all-graphs",
        is_flag=True,
        envvar="OMNIGRAPH_REQUIRE_ALL_GRAPHS",
        help="Do not start if one of the graphs cannot be served.",
    ),
    click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."),
    click.option("--memory", metavar="SIZE", default="1GiB", show_default=True,
                 help="The size of the cache that all graphs share."),
    click.option("--host", "hosts", metavar="NAME", multiple=True, help="A host name by which clients may address the server."),
    click.option("--cors", "origins", metavar="ORIGIN", multiple=True, help="A site whose pages may use the server."),
    click.option("--grace", type=click.IntRange(0, 3600), default=30, show_default=True, metavar="SECONDS",
                 help="How long requests may take to end when the server stops."),
    click.option("--tls-cert", metavar="FILE", help="A certificate (PEM), for HTTPS."),
    click.option("--tls-key", metavar="FILE", help="Its key (PEM)."),
    click.option("--maintain", metavar="MINUTES", type=click.IntRange(1, 10_080), envvar="OMNIGRAPH_MAINTAIN",
                 help="Optimize and clean up the graphs that often; without it, nothing does."),
    click.option("--retain", metavar="AGE", help="With --maintain: keep the commits of this time, such as 30d. [default: all]"),
    click.option("--metrics-bind", metavar="HOST:PORT", help="Serve metrics at this address, to everyone who can reach it."),
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
                 help="The format of the log, on standard error."),
)  # fmt: skip


def _serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return click.argument("uris", metavar="[URI]...", nargs=-1)(function)


def register(cli: click.Group) -> None:
    @command(cli, "serve", graph=False)
    @_serving_options
    def serve(settings: Settings, out: Output, **options: Any) -> None:
        """Serve graphs over HTTP, until a signal ends it.

        Once it listens, it prints OMNIGRAPH_LISTEN_ADDR=HOST:PORT on standard output. SIGHUP reads configuration, tokens and
        stored queries again. Without tokens it serves only this machine, to anyone who has the address that it prints.

        \b
        omnigraph serve ./people
        omnigraph serve ./people ./cities --queries queries --bind 0.0.0.0:8080 --host db.example.com
        omnigraph serve --cluster ./company

        \b
        JSON with --log-format json, a line for each request on standard error: {time, event, request_id, actor?, graph?,
        method, route, status, ms, rows?, commit?}
        """
        raise click.exceptions.Exit(start(**options))

    @command(cli, "studio", served=True)
    @click.argument("uri", required=False)
    def studio(settings: Settings, out: Output, uri: str | None) -> None:
        """Open the studio: a page to look at a graph, its history, its diffs and its merges.

        For a graph in storage it starts a server on a free port of this machine, until Ctrl-C ends it, and opens the browser. With
        --server it opens the page of that server.

        \b
        omnigraph studio ./people
        omnigraph studio s3://bucket/people
        omnigraph studio --server https://db.example.com

        \b
        JSON with --server: {url}
        """
        target = settings.target(uri)
        if isinstance(target, ServerTarget):
            from omnigraph.client.credentials import token_for

            token = token_for(target.url, settings.config.servers)
            _open_browser(f"{target.url}/" + (f"#token={token}" if token else ""))
            out.show({"url": f"{target.url}/"}, f"opened {target.url}/")
            return
        with serve.make_context("serve", [target.uri, "--bind", "127.0.0.1:0"]) as context:
            options = {name: value for name, value in context.params.items() if name in signature(start).parameters}
        raise click.exceptions.Exit(start(**options | {"cluster": None}, opens=_open_browser))

    @cli.group()
    def token() -> None:
        """Tokens of a server.

        \b
        omnigraph token new ada
        """

    @command(token, "new", graph=False)
    @click.argument("actor")
    @click.option("--expires", metavar="TIME", help="When it expires, such as 2027-01-31.")
    @click.option("--note", metavar="TEXT", help="What it is for.")
    def new(settings: Settings, out: Output, actor: str, expires: str | None, note: str | None) -> None:
        """Make a token of 256 bits for an actor, and its entry for the server's token file. The token is shown only once.

        \b
        omnigraph token new ada --note laptop

        \b
        JSON: {actor, token, entry}
        """
        from omnigraph.server.auth import new_token

        secret, entry = new_token(actor, expires=_time(expires), note=note)
        text = f"token (shown once): {secret}\nentry of the token file:\n{entry}"
        out.show({"actor": actor, "token": secret, "entry": entry}, text)


def _time(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is not a time", hint="for example 2027-01-31") from None
    return at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at


def start(
    *,
    uris: tuple[str, ...],
    cluster: str | None,
    bind: str,
    queries: str | None,
    unauthenticated: bool,
    require_all_graphs: bool,
    workers: int,
    memory: str,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    grace: int,
    tls_cert: str | None,
    tls_key: str | None,
    maintain: int | None,
    retain: str | None,
    metrics_bind: str | None,
    log_format: str,
    opens: Callable[[str], None] = lambda _url: None,
) -> int:
    """Serve with these options; returns the exit code. `opens` is called with the address of the page."""
    from omnigraph._internal.lazy_imports import load_extra

    for package in ("starlette", "uvicorn"):
        load_extra(package, "serve", extra="server")
    from omnigraph.server.process import Listening, parse_bind, serve as run
    from omnigraph.server.settings import Limits, MaintenancePolicy, ServerSettings
    from omnigraph.server.startup import source_of

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key need each other")
    if retain is not None and maintain is None:
        raise UsageError("--retain needs --maintain")
    host, port = parse_bind(bind)
    listening = Listening(
        host,
        port,
        workers,
        None if tls_cert is None else Path(tls_cert),
        None if tls_key is None else Path(tls_key),
        None if metrics_bind is None else parse_bind(metrics_bind),
    )
    source, start_token = source_of(
        uris,
        cluster,
        os.environ,
        queries=None if queries is None else Path(queries),
        is_loopback=listening.is_loopback,
        is_open=unauthenticated,
        requires_all=require_all_graphs,
        memory=memory,
    )
    settings = ServerSettings(
        limits=Limits.of(os.environ),
        hosts=frozenset({host.lower(), *(name.lower() for name in hosts)}),
        cors_origins=frozenset(origins),
        grace_seconds=grace,
        log_format=log_format,
        maintenance=None if maintain is None else MaintenancePolicy(maintain * 60.0, retain),
    )
    if cluster is not None:
        from omnigraph.server.startup import ClusterGraphs

        assert isinstance(source, ClusterGraphs), "what a cluster is served from"
        settings = source.settings(settings)

    def announce(address: str) -> None:
        scheme = "http" if tls_cert is None else "https"
        page = f"{scheme}://{address}/" + ("" if start_token is None else f"#token={start_token}")
        if start_token is not None:
            print(f"open {page}", file=sys.stderr, flush=True)
        opens(page)
        # Printed last, so that a program that waits for this line can read the other one too.
        print(f"OMNIGRAPH_LISTEN_ADDR={address}", flush=True)

    return run(source, listening, settings, announce)


def _open_browser(url: str) -> None:
    """In the browser of this machine, if it has one; BROWSER names another."""
    import webbrowser

    webbrowser.open(url)
