"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark.

    import omnigraph as og

    g = og.init("./people", schema="node Person { name: String @key }")
    g.mutate("query add($n: String) { insert Person { name: $n } }", {"n": "Ada"})
    g.query("query all() { match { $p: Person } return { $p.name } }").rows

Importing the package is cheap: the engines load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes
from omnigraph.version import VERSION as __version__

if TYPE_CHECKING:
    from omnigraph import errors as errors, spark as spark, types as types
    from omnigraph._internal.deadlines import Cancellation as Cancellation
    from omnigraph._internal.runtime import Runtime as Runtime
    from omnigraph.client.graph import RemoteGraph as RemoteGraph, connect as connect
    from omnigraph.graph.graph import Graph as Graph, clone as clone
    from omnigraph.graph.importing import import_data as import_data, infer_schema as infer_schema
    from omnigraph.graph.opening import init as init, open as open
    from omnigraph.graph.reading import GraphSnapshot as GraphSnapshot
    from omnigraph.graph.texts import lint as lint, lint_schema as lint_schema
    from omnigraph.graph.transactions import Transaction as Transaction
    from omnigraph.merge.conflicts import NO_VALUE as NO_VALUE
    from omnigraph.merge.resolutions import Resolution as Resolution
    from omnigraph.policy.ask import AccessRequest as AccessRequest, Authorizer as Authorizer
    from omnigraph.policy.bundle import Decision as Decision, Policy as Policy, load_policy as load_policy

_EXPORTS = {
    "omnigraph": "errors spark types",
    "omnigraph._internal.deadlines": "Cancellation",
    "omnigraph._internal.runtime": "Runtime",
    "omnigraph.client.graph": "RemoteGraph connect",
    "omnigraph.graph.graph": "Graph clone",
    "omnigraph.graph.importing": "import_data infer_schema",
    "omnigraph.graph.opening": "init open",
    "omnigraph.graph.reading": "GraphSnapshot",
    "omnigraph.graph.texts": "lint lint_schema",
    "omnigraph.graph.transactions": "Transaction",
    "omnigraph.merge.conflicts": "NO_VALUE",
    "omnigraph.merge.resolutions": "Resolution",
    "omnigraph.policy.ask": "AccessRequest Authorizer",
    "omnigraph.policy.bundle": "Decision Policy load_policy",
}

__all__ = ["__version__"]
__all__ += " ".join(_EXPORTS.values()).split()

__getattr__ = lazy_attributes("omnigraph", _EXPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)
