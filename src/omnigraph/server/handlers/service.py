"""The server itself: health, readiness, the graphs it serves, reloading."""

from __future__ import annotations

from omnigraph.api.structs import JsonObject
from omnigraph.cluster.applying import apply, plan
from omnigraph.cluster.config import ClusterConfig, read_config
from omnigraph.cluster.ledger import LedgerStore
from omnigraph.cluster.policies import books_of
from omnigraph.errors import UsageError
from omnigraph.features import FORMAT
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.openapi import CONTRACT_VERSION, openapi
from omnigraph.version import VERSION


@handles("health")
def health(_call: RouteCall) -> HandlerResult:
    return HandlerResult(
        {
            "status": "ok",
            "version": CONTRACT_VERSION,
            "internal_schema_version": FORMAT,
            "source_version": VERSION,
        }
    )


@handles("readiness")
def readiness(call: RouteCall) -> HandlerResult:
    value = readiness_json(call)
    return HandlerResult(value, status=200 if value["ready"] else 503)


def readiness_json(call: RouteCall) -> JsonObject:
    served, service = call.served, call.service
    status = "draining" if service.is_draining else "serving" if served.graphs else "blocked"
    return {
        "ready": status == "serving",
        "status": status,
        "booted_serving_digest": served.digest,
        "state_revision": served.revision,
        "state_cas": served.state_token,
        "served_graph_count": len(served.graphs),
        "quarantined_graph_count": len(served.set_aside),
        "shutdown_grace_seconds": service.settings.grace_seconds,
    }


@handles("liveness")
def liveness(_call: RouteCall) -> HandlerResult:
    return HandlerResult(b"ok\n", media_type="text/plain")


@handles("openapi")
def describe(call: RouteCall) -> HandlerResult:
    return HandlerResult(openapi(is_open=call.served.is_open))


@handles("listGraphs")
def list_graphs(call: RouteCall) -> HandlerResult:
    graphs = sorted(call.served.graphs.values(), key=lambda graph: graph.id)
    return HandlerResult({"graphs": [{"graph_id": graph.id, "uri": graph.uri} for graph in graphs]})


@handles("reload")
def reload(call: RouteCall) -> HandlerResult:
    served = call.service.reload()
    return HandlerResult({"graphs": sorted(served.graphs), "state_revision": served.revision})


@handles("planCluster")
def plan_cluster(call: RouteCall) -> HandlerResult:
    return HandlerResult(plan(_declared(call)).to_json())


@handles("deployCluster")
def deploy_cluster(call: RouteCall) -> HandlerResult:
    """What was applied is served even if an operation failed: it is in the ledger."""
    applying = apply(_declared(call), actor=None if call.actor is None else call.actor.id)
    call.service.reload()
    return HandlerResult({"id": str(applying.ledger.revision), **applying.to_json()})


@handles("listDeployments")
def list_deployments(call: RouteCall) -> HandlerResult:
    newest_first = reversed(_books(call).revisions())
    return HandlerResult({"deployments": [{"id": str(number), "state_revision": number} for number in newest_first]})


@handles("getDeployment")
def get_deployment(call: RouteCall) -> HandlerResult:
    ledger = _books(call).revision(int(call.path["revision"]))
    return HandlerResult(
        {
            "id": str(ledger.revision),
            "state_revision": ledger.revision,
            "state_cas": ledger.token,
            "config_digest": ledger.config_digest,
            "resources": dict(ledger.resources),
        }
    )


def _declared(call: RouteCall) -> ClusterConfig:
    """The folder that the server was started with."""
    place = _place(call)
    if "://" in place:
        raise UsageError(
            "the server was started with the address of a storage, which declares nothing",
            hint="start it with --cluster FOLDER, or use 'omnigraph cluster plan FOLDER' and 'cluster apply FOLDER'",
        )
    return read_config(place)


def _books(call: RouteCall) -> LedgerStore:
    return books_of(_place(call))


def _place(call: RouteCall) -> str:
    if call.served.cluster is None:
        raise UsageError("the server serves graphs and no cluster", hint="start it with --cluster FOLDER")
    return call.served.cluster


@handles("metrics")
def metrics(call: RouteCall) -> HandlerResult:
    return HandlerResult(call.service.metrics.text(), media_type="text/plain; version=0.0.4")


# The Model Context Protocol: tools for agents.


@handles("cluster_mcp", "mcp")
async def serve_mcp(call: RouteCall) -> HandlerResult:
    """The protocol's packages are loaded when somebody speaks it: a server starts without them."""
    from omnigraph.server.mcp_exchange import exchange

    return await exchange(call)
