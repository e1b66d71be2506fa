"""The server itself: health, readiness, the graphs it serves, reloading."""

from __future__ import annotations

from omnigraph.features import FORMAT
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.openapi import CONTRACT_VERSION, openapi
from omnigraph.version import VERSION
from omnigraph.wire.members import JsonObject


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


@handles("metrics")
def metrics(call: RouteCall) -> HandlerResult:
    return HandlerResult(call.service.metrics.text(), media_type="text/plain; version=0.0.4")
