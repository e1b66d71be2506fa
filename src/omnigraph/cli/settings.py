"""Where a command gets its graph and its actor: from flags, then the environment, then the config file."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.cli.config import Config, Profile
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.client.connection import Connection
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.policy.bundle import Policy


@dataclass(frozen=True)
class StorageTarget:
    """A graph in storage; a graph of a cluster has its policy, if there is one."""

    uri: str
    policy: Policy | None = None


@dataclass(frozen=True)
class ServerTarget:
    """A server and, if one was named, a graph of it."""

    url: str
    graph: str | None = None

    @property
    def uri(self) -> str:
        return self.url if self.graph is None else f"{self.url}/graphs/{self.graph}"


@dataclass(frozen=True)
class Settings:
    """The resolved values of the shared flags."""

    store: str | None = None
    server: str | None = None
    graph: str | None = None
    profile: str | None = None
    cluster: str | None = None
    as_actor: str | None = None
    as_json: bool = False
    quiet: bool = False
    yes: bool = False
    config: Config = field(default_factory=Config)

    @property
    def shows_progress(self) -> bool:
        return not (self.quiet or self.as_json)

    def target(self) -> StorageTarget | ServerTarget:
        """What the command works on: from the address or flags of the command line, a profile, the environment or the config
        file."""
        addresses = {
            "--store": self.store,
            "--server": self.server,
            "--cluster": self.cluster,
            "--profile": self.profile,
        }
        named = [flag for flag, value in addresses.items() if value]
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} exclude each other", hint="name one place")
        if self.server:
            return self._server(self.server, None)
        if self.cluster:
            return self._of_cluster(self.cluster, None)
        if self.store:
            return self._store(self.store)
        if self.profile:
            return self._of_profile(self.profile)
        if address := os.environ.get("OMNIGRAPH_STORE"):
            return self._store(address)
        if name := os.environ.get("OMNIGRAPH_PROFILE"):
            return self._of_profile(name)
        if self.config.server:
            return self._server(self.config.server, self.config.default_graph)
        if self.config.store:
            return self._store(self.config.store)
        raise UsageError(
            "no graph was named",
            hint="name it as the first argument, with --store or --server, in OMNIGRAPH_STORE, or in defaults.store of the "
            "config file",
        )

    def flags(self) -> list[str]:
        """The flags that name the graph, as they were given, so that another command can be run on it."""
        named = {"--store": self.store, "--server": self.server, "--graph": self.graph, "--profile": self.profile}
        named["--cluster"] = self.cluster
        return [word for flag, value in named.items() if value for word in (flag, value)]

    def profile_named(self, name: str) -> Profile:
        profile = self.config.profiles.get(name)
        if profile is None:
            known = ", ".join(sorted(self.config.profiles)) or "none is configured"
            raise UsageError(f"there is no profile '{name}'", hint=f"the profiles: {known}")
        return profile

    def _of_profile(self, name: str) -> StorageTarget | ServerTarget:
        profile = self.profile_named(name)
        if profile.server:
            return self._server(profile.server, profile.default_graph)
        if profile.store:
            return self._store(profile.store)
        return self._of_cluster(str(profile.cluster), profile.default_graph)

    def _of_cluster(self, name_or_place: str, default_graph: str | None) -> StorageTarget:
        """A graph of a cluster, as it was applied."""
        from omnigraph.cluster.policies import read_applied, root_of
        from omnigraph.policy.bundle import policy_of

        graphs = read_applied(root_of(self.config.clusters.get(name_or_place, name_or_place))).graphs
        id = self.graph or default_graph or (next(iter(graphs)) if len(graphs) == 1 else None)
        if id is None or id not in graphs:
            message = "no graph of the cluster was named" if id is None else f"the cluster has no graph '{id}'"
            raise UsageError(message, hint=f"--graph ID; its graphs: {', '.join(sorted(graphs))}")
        graph = graphs[id]
        return StorageTarget(graph.uri, None if graph.policy is None else policy_of(graph.policy, id))

    def server_target(self) -> ServerTarget:
        """The server, for a command that needs one."""
        target = self.target()
        if isinstance(target, StorageTarget):
            raise UsageError("no server was named", hint="pass --server NAME|URL")
        return target

    def _store(self, address: str) -> StorageTarget:
        if self.graph is not None:
            raise UsageError("--graph names a graph of a server or cluster", hint="with --server NAME|URL")
        return StorageTarget(self.storage_address(address))

    def storage_address(self, address: str) -> str:
        """An address in storage, such as that of another copy of the graph. UsageError for one of a server."""
        if address.startswith(("http://", "https://")):
            raise UsageError(
                f"'{address}' is not a storage address",
                hint="use --server for a server; a store is a path, s3://, gs:// or az://",
            )
        return address

    def _server(self, name_or_url: str, default_graph: str | None) -> ServerTarget:
        from omnigraph.client.credentials import check_url, named_servers

        url = self.config.servers.get(name_or_url)
        if url is None:
            if "://" not in name_or_url:
                raise UsageError(
                    f"there is no server '{name_or_url}'",
                    hint=f"the servers of the config file: {named_servers(self.config.servers)}; or give its URL",
                )
            url = check_url(name_or_url)
        return ServerTarget(url, self.graph or default_graph)

    def uri(self) -> str:
        """The graph's address."""
        return self.target().uri

    def storage(self) -> StorageTarget:
        """The graph, for a command that works on storage."""
        target = self.target()
        if isinstance(target, ServerTarget):
            raise UsageError("this command works on storage, not through a server", hint="pass --store URI")
        return target

    def open(self) -> Graph:
        """The graph, in storage."""
        from omnigraph.graph.opening import open as open_graph

        target = self.storage()
        if target.policy is None:
            return open_graph(target.uri)
        graph = open_graph(target.uri, policy=target.policy)
        return graph if self.actor is None else graph.as_(self.actor)

    def connect_or_open(self) -> Graph | RemoteGraph:
        """The graph, through a server or in storage."""
        target = self.target()
        if isinstance(target, StorageTarget):
            return self.open()
        connection = self.connect(target)
        if target.graph is None:
            raise UsageError("no graph of the server was named", hint=f"pass --graph ID{_graphs_of(connection)}")
        from omnigraph.client.graph import RemoteGraph

        return RemoteGraph(connection, target.graph)

    def connect(self, target: ServerTarget) -> Connection:
        """A connection to a server, with its stored token."""
        import click

        from omnigraph.client.connection import Connection
        from omnigraph.client.credentials import token_for

        connection = Connection(target.url, token_for(target.url, self.config.servers))
        click.get_current_context().call_on_close(connection.close)
        return connection

    @property
    def actor(self) -> str | None:
        """The actor of a change in storage."""
        return self.as_actor or self.config.actor

    def actor_for(self, graph: Graph | RemoteGraph) -> str | None:
        """The actor of a change; on a server, the token decides."""
        from omnigraph.graph.graph import Graph

        if isinstance(graph, Graph):
            return self.actor
        if self.as_actor is not None:
            raise UsageError("--as is for storage", hint="a server knows the actor by the token")
        return None

    def warn_about_schema(self, file: str | Path, *, is_first: bool) -> None:
        """Print warnings about a schema that compiles but looks wrong."""
        if self.quiet:
            return
        from omnigraph.graph.texts import lint_schema

        for finding in lint_schema(Path(file), is_first=is_first):
            print(f"warning: {finding.render(str(file))}", file=sys.stderr)

    def announce(self, verb: str, uri: str) -> None:
        """Print one line on stderr before a write, to guard against writing to the wrong graph."""
        if not self.quiet:
            print(f"omnigraph {verb} → {uri} ({_way(uri)})", file=sys.stderr)

    def confirm_destruction(self, verb: str, uri: str) -> None:
        """Ask before data is destroyed in storage that is not a local disk."""
        if not is_local(uri):
            self.confirm(f"{verb} on {uri} destroys data")

    def confirm(self, sentence: str) -> None:
        """Ask for confirmation, unless --yes was given. UsageError without it."""
        if self.yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise UsageError(sentence, hint="pass --yes to agree")
        import click

        if not click.confirm(f"{sentence}. Go on?", err=True):
            raise UsageError("not confirmed; nothing was done")


def _graphs_of(connection: Connection) -> str:
    """The graphs of the server, for a hint; empty if the server does not list them."""
    from omnigraph.client.connection import listed_graphs
    from omnigraph.errors import OmnigraphError

    try:
        graphs = listed_graphs(connection)
    except OmnigraphError:
        return ""
    return f"; the server has: {', '.join(graph['graph_id'] for graph in graphs) or 'none'}"


def _way(uri: str) -> str:
    if uri.startswith(("http://", "https://")):
        return "served"
    return "direct, local" if is_local(uri) else "direct, remote"


def is_local(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")
