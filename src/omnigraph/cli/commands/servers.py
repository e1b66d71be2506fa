"""login, logout, profile list|show, graphs list."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.config import Profile
from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

MAX_TOKEN_INPUT = 65_536


def register(cli: click.Group) -> None:
    _register_login(cli)

    @cli.group()
    def profile() -> None:
        """The profiles of the config file: names for a server, a store or a cluster.

        \b
        omnigraph profile list
        """

    _register_profile(profile)

    @cli.group()
    def graphs() -> None:
        """The graphs of a server.

        \b
        omnigraph graphs list --server production
        """

    @command(graphs, "list", graph=False, served=True)
    def list_graphs(settings: Settings, out: Output) -> None:
        """List the graphs of a server, and where each is stored.

        \b
        omnigraph graphs list --server production

        \b
        JSON: {graphs: [{graph_id, uri}]}
        """
        from omnigraph.client.connection import listed_graphs

        listed = listed_graphs(settings.connect(settings.server_target()))
        out.show({"graphs": listed}, "\n".join(f"{graph['graph_id']}\t{graph['uri']}" for graph in listed))


def _register_login(cli: click.Group) -> None:
    @command(cli, "login", graph=False)
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
        path = store_token(name, _token() if token is None else token)
        out.done({"server": name, "url": url, "path": str(path)}, f"stored the token of {name} ({url}) in {path}")

    @command(cli, "logout", graph=False)
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


def _token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    with open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as stdin:
        return stdin.read(MAX_TOKEN_INPUT).strip()


def _register_profile(group: click.Group) -> None:
    @command(group, "list", graph=False)
    def list_profiles(settings: Settings, out: Output) -> None:
        """List the profiles, by name.

        \b
        omnigraph profile list

        \b
        JSON: {profiles: [{name, server?, store?, cluster?, default_graph?}]}
        """
        profiles = [profile for _, profile in sorted(settings.config.profiles.items())]
        rows = [
            {"profile": profile.name, "scope": profile.scope, "target": profile.target, "graph": profile.default_graph}
            for profile in profiles
        ]
        value = {"profiles": [_profile_json(profile) for profile in profiles]}
        out.table(rows, ["profile", "scope", "target", "graph"], value=value)

    @command(group, "show", graph=False)
    @click.argument("name", required=False)
    def show(settings: Settings, out: Output, name: str | None) -> None:
        """Show one profile; without a name, the one in use (OMNIGRAPH_PROFILE).

        \b
        omnigraph profile show production

        \b
        JSON: {name, server?, store?, cluster?, default_graph?}
        """
        import os

        wanted = name or os.environ.get("OMNIGRAPH_PROFILE")
        if not wanted:
            raise UsageError("no profile was named", hint="name one, or set OMNIGRAPH_PROFILE")
        value = _profile_json(settings.profile_named(wanted))
        out.show(value, "\n".join(f"{key}: {item}" for key, item in value.items()))


def _profile_json(profile: Profile) -> dict[str, str]:
    members = {
        "name": profile.name,
        "server": profile.server,
        "store": profile.store,
        "cluster": profile.cluster,
        "default_graph": profile.default_graph,
    }
    return {key: value for key, value in members.items() if value is not None}
