"""The server itself: health, readiness, the graphs it serves, reloading."""

from __future__ import annotations

from omnigraph.features import FORMAT
from omnigraph.server.calls import Answer, Call
from omnigraph.server.handlers.binding import handles
from omnigraph.server.openapi import CONTRACT_VERSION, openapi
from omnigraph.version import VERSION
from omnigraph.wire.members import JsonObject


@handles("health")
def health(_call: Call) -> Answer:
    return Answer(
        {
            "status": "ok",
            "version": CONTRACT_VERSION,
            "internal_schema_version": FORMAT,
            "source_version": VERSION,
        }
    )


@handles("readiness")
def readiness(call: Call) -> Answer:
    value = readiness_json(call)
    return Answer(value, status=200 if value["ready"] else 503)


def readiness_json(call: Call) -> JsonObject:
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
def liveness(_call: Call) -> Answer:
    return Answer(b"ok\n", media_type="text/plain")


@handles("openapi")
def describe(call: Call) -> Answer:
    return Answer(openapi(is_open=call.served.is_open))


@handles("listGraphs")
def list_graphs(call: Call) -> Answer:
    graphs = sorted(call.served.graphs.values(), key=lambda each: each.id)
    return Answer({"graphs": [{"graph_id": graph.id, "uri": graph.uri} for graph in graphs]})


@handles("reload")
def reload(call: Call) -> Answer:
    served = call.service.reload()
    return Answer({"graphs": sorted(served.graphs), "state_revision": served.revision})


@handles("metrics")
def metrics(call: Call) -> Answer:
    return Answer(call.service.metrics.text(), media_type="text/plain; version=0.0.4")
