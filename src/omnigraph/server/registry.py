"""The served graphs, as one value: a reload makes a new one and swaps it in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import UsageError
from omnigraph.policy.ask import AccessRequest, Action, Authorizer, denied
from omnigraph.server.auth import TokenVerifier

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.stored_queries import StoredQuery

GRAPH_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
RESERVED_IDS = frozenset({"policies"})


def check_graph_id(graph_id: str) -> str:
    """Raises UsageError unless the id can be part of a path."""
    if not GRAPH_ID.fullmatch(graph_id) or graph_id in RESERVED_IDS:
        raise UsageError(
            f"'{graph_id[:100]}' is not a graph id", hint="1 to 64 letters, digits and hyphens, and not 'policies'"
        )
    return graph_id


@dataclass(frozen=True)
class ServedGraph:
    """An open graph with its policy and its stored queries."""

    id: str
    graph: Graph
    gate: Authorizer | None = None
    """The policy that the graph was opened with."""
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)
    is_in_cluster: bool = False
    """Its schema belongs to a cluster file, and is changed there."""
    warm: Callable[[], None] = lambda: None
    """Loads what the first query would wait for."""
    allows_adhoc: bool = True
    """Whether agents may give queries as text; without it, they have the stored ones."""

    @property
    def uri(self) -> str:
        return self.graph.uri


@dataclass(frozen=True)
class Allowing:
    """A gate without a policy: allows these actions to every authenticated caller."""

    actions: frozenset[Action] = frozenset()

    def check(self, actor: str | None, ask: AccessRequest, /) -> None:
        if ask.action not in self.actions:
            raise denied(actor, ask)


@dataclass(frozen=True)
class Served:
    """Everything that a reload replaces."""

    graphs: Mapping[str, ServedGraph]
    verifiers: Sequence[TokenVerifier] = ()
    """Without one the server is open: nobody has a name."""
    server_gate: Authorizer = field(default_factory=Allowing)
    """Decides about what concerns the server as a whole."""
    set_aside: Mapping[str, str] = field(default_factory=dict)
    """Graphs that are configured and cannot be served, with the reason."""
    digest: str = ""
    """Of the configuration that is served."""
    revision: int = 0
    state_token: str = ""
    load_sources: tuple[str, ...] = ()
    """Below these addresses files may be loaded by their names."""
    cluster: str | None = None
    """The folder, or the address of the storage, of the cluster that is served."""

    @property
    def is_open(self) -> bool:
        return not self.verifiers


class ServedSource(Protocol):
    """Where the served graphs come from: named on the command line, or a cluster."""

    def load(self) -> Served:
        """Load and open everything again. Raises OmnigraphError on failure; the current state stays in service."""
