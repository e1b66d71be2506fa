"""serve, studio, mcp: graphs over HTTP, in the browser and for agents; token, login, logout, graphs, profile: servers and who uses
them."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import click

from omnigraph.cli.config import Profile
from omnigraph.cli.options import Spelled, command, together
from omnigraph.cli.output import Output
from omnigraph.cli.settings import ServerTarget, Settings
from omnigraph.errors import UsageError

MAX_TOKEN_INPUT = 65_536
serving_options = together(
    click.argument("uris", metavar="[GRAPH]...", nargs=-1),
    click.option("--store", "stores", metavar="URI", multiple=True, help="Serve this graph; may repeat."),
    click.option("--cluster", metavar="DIR", envvar="OMNIGRAPH_CLUSTER", help="Serve the graphs of a cluster."),
    click.option("--bind", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True, envvar="OMNIGRAPH_BIND",
                 help="Where to listen; port 0 picks a free one."),
    click.option("--queries", metavar="DIR", help="Stored queries: a folder of .gq files, or one file."),
    click.option("--unauthenticated", is_flag=True, envvar="OMNIGRAPH_UNAUTHENTICATED", help="Require no token."),
    click.option("--require-all-graphs", is_flag=True, envvar="OMNIGRAPH_REQUIRE_ALL_GRAPHS",
                 help="Do not start if one of the graphs cannot be served."),
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


@command("serve", graph=False)
@serving_options
def serve(settings: Settings, out: Output, uris: tuple[str, ...], stores: tuple[str, ...], **options: Any) -> None:
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
    raise click.exceptions.Exit(start(uris=(*uris, *stores), **options))


@command("studio", served=True)
def studio(settings: Settings, out: Output) -> None:
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
    target = settings.target()
    if isinstance(target, ServerTarget):
        from omnigraph.client.credentials import token_for

        token = token_for(target.url, settings.config.servers)
        _open_browser(f"{target.url}/" + (f"#token={token}" if token else ""))
        out.show({"url": f"{target.url}/"}, f"opened {target.url}/")
        return
    with serve.make_context("serve", [target.uri, "--bind", "127.0.0.1:0"]) as context:
        options = {name: value for name, value in context.params.items() if name in signature(start).parameters}
    raise click.exceptions.Exit(start(**options | {"cluster": None}, opens=_open_browser))


@command("mcp", served=True, writes=True)
@click.option("--queries", metavar="DIR", help="Stored queries, each as a tool: a folder of .gq files, or one file.")
def mcp(settings: Settings, out: Output, queries: str | None) -> None:
    """Serve a graph to an agent over the Model Context Protocol, on standard input and output, until the input ends.

    On storage the agent may do everything that the user who starts it may; through a server, what the token may.

    \b
    omnigraph mcp ./people --queries ./queries --as assistant
    omnigraph mcp --server production --graph people

    \b
    JSON: messages of the protocol
    """
    from omnigraph._internal.lazy_imports import load_extra

    load_extra("mcp", "mcp", extra="server")
    target = settings.target()
    if isinstance(target, ServerTarget):
        _relay(settings, target, queries)
        return
    from omnigraph.mcp.relay import serve_stdio
    from omnigraph.mcp.serving import ToolServer
    from omnigraph.server.in_process import store_backend

    backend = store_backend(target.uri, None if queries is None else Path(queries), settings.actor)
    serve_stdio(ToolServer(backend, backend.operations))


def _relay(settings: Settings, target: ServerTarget, queries: str | None) -> None:
    if queries is not None:
        raise UsageError("--queries is for storage", hint="a server has its own stored queries")
    if settings.as_actor is not None:
        raise UsageError("--as is for storage", hint="a server knows the actor by the token")
    if target.graph is None:
        raise UsageError("no graph of the server was named", hint="pass --graph ID")
    from omnigraph.client.credentials import token_for
    from omnigraph.mcp.relay import relay_stdio

    relay_stdio(f"{target.uri}/mcp", token_for(target.url, settings.config.servers))


@command("graphs", graph=False, served=True)
@click.option(
    "--cluster", metavar="DIR", help="List instead the graphs of a cluster's folder, with their stored queries."
)
@click.option("--graph", metavar="ID", help="With --cluster: only this graph.")
def graphs(settings: Settings, out: Output, cluster: str | None, graph: str | None) -> None:
    """List the graphs of a server, and where each is stored; or those of a cluster, and what is stored for them.

    \b
    omnigraph graphs --server production
    omnigraph graphs --cluster ./company

    \b
    JSON: {graphs: [{graph_id, uri}]}
    JSON with --cluster: {graphs: {id: [<reads.QueryJson>]}}
    """
    if cluster is not None:
        _list_stored_queries(out, cluster, graph)
        return
    from omnigraph.client.connection import listed_graphs

    listed = listed_graphs(settings.connect(settings.server_target()))
    out.show({"graphs": listed}, "\n".join(f"{graph['graph_id']}\t{graph['uri']}" for graph in listed))


def _list_stored_queries(out: Output, cluster: str, graph: str | None) -> None:
    from omnigraph.api.reads import QueryJson
    from omnigraph.cluster.config import read_config
    from omnigraph.cluster.policies import stored_queries

    listed = stored_queries(read_config(cluster), graph)
    rows = [
        {"graph": id, "query": query.name, "kind": "mutation" if query.is_mutation else "read", "file": query.file}
        for id, queries in listed.items()
        for query in queries.values()
    ]
    value = {id: [QueryJson.to_json(query.plan) for query in queries.values()] for id, queries in listed.items()}
    out.table(rows, ["graph", "query", "kind", "file"], value={"graphs": value})


@command("token", graph=False)
@click.argument("actor")
@click.option("--expires", metavar="TIME", help="When it expires, such as 2027-01-31.")
@click.option("--note", metavar="TEXT", help="What it is for.")
def token(settings: Settings, out: Output, actor: str, expires: str | None, note: str | None) -> None:
    """Make a token of 256 bits for an actor, and its entry for the server's token file. The token is shown only once.

    \b
    omnigraph token ada --note laptop

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


@command("login", graph=False)
@click.option("--token", metavar="TOKEN", help="The token (default: read from standard input).")
@click.argument("name")
def login(settings: Settings, out: Output, token: str | None, name: str) -> None:
    """Store the token for a server of the config file, in a file that only you can read.

    A token on the command line is visible to everyone who can list processes: pass it on standard input, or at the prompt.

    \b
    omnigraph login production

    \b
    JSON: {server, url, path}
    """
    from omnigraph.client.credentials import named_servers, store_token

    url = settings.config.servers.get(name)
    if url is None:
        raise UsageError(
            f"there is no server '{name}' in the config file",
            hint=f"set servers.{name}.url there first; the servers: {named_servers(settings.config.servers)}",
        )
    path = store_token(name, _typed_token() if token is None else token)
    out.done({"server": name, "url": url, "path": str(path)}, f"stored the token of {name} ({url}) in {path}")


def _typed_token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    with open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as stdin:
        return stdin.read(MAX_TOKEN_INPUT).strip()


@command("logout", graph=False)
@click.argument("name")
def logout(settings: Settings, out: Output, name: str) -> None:
    """Remove the stored token of a server.

    \b
    omnigraph logout production

    \b
    JSON: {server, forgotten}
    """
    from omnigraph.client.credentials import forget_token

    forgotten = forget_token(name)
    text = f"forgot the token of {name}" if forgotten else f"there was no token of {name}"
    out.done({"server": name, "forgotten": forgotten}, text)


@command("profile", graph=False)
@click.argument("name", required=False)
@click.option("--current", cls=Spelled, instead="(without a name: that of OMNIGRAPH_PROFILE)", is_flag=True)
def profile(settings: Settings, out: Output, name: str | None, current: bool) -> None:
    """List the profiles of the config file, names for a server, a store or a cluster; with a name, show one.

    \b
    omnigraph profile
    omnigraph profile production

    \b
    JSON: {profiles: [{name, server?, store?, cluster?, default_graph?}]}
    JSON with a name: {name, server?, store?, cluster?, default_graph?}
    """
    if current and name is None:
        name = os.environ.get("OMNIGRAPH_PROFILE")
        if not name:
            raise UsageError("no profile was named", hint="name one, or set OMNIGRAPH_PROFILE")
    if name is not None:
        value = _profile_json(settings.profile_named(name))
        out.show(value, "\n".join(f"{key}: {item}" for key, item in value.items()))
        return
    profiles = [profile for _, profile in sorted(settings.config.profiles.items())]
    rows = [
        {"profile": profile.name, "scope": profile.scope, "target": profile.target, "graph": profile.default_graph}
        for profile in profiles
    ]
    listed = [_profile_json(profile) for profile in profiles]
    out.table(rows, ["profile", "scope", "target", "graph"], value={"profiles": listed})


def _profile_json(profile: Profile) -> dict[str, str]:
    members = {name: getattr(profile, name) for name in ("name", "server", "store", "cluster", "default_graph")}
    return {key: value for key, value in members.items() if value is not None}


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
