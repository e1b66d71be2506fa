"""The table of routes: one record for each. Router, checks, OpenAPI, documentation and the matrix of policies are made from it."""

from __future__ import annotations

from omnigraph.api.structs import COUNT, FLAG, ref
from omnigraph.server.route import (
    BYTES,
    NDJSON,
    NOTHING,
    PLAIN,
    Body,
    RequestParameter,
    Response,
    Route,
    json_answer,
    of_graph,
)
from omnigraph.server.routes_extensions import EXTENSIONS

# Routes of the Model Context Protocol: the third part of the table.

_ANSWERS = {
    200: Response("McpMessage", "The answer to a request."),
    202: Response(None, "A notification was taken.", NOTHING),
    **{
        status: Response("McpRefusal", text)
        for status, text in (
            (400, "The message is wrong, or of a version that is not spoken here."),
            (404, "There is no such graph, or no such method."),
            (406, "The client does not take JSON."),
        )
    },
}
_MESSAGE = Body("McpMessage")

MCP: tuple[Route, ...] = (
    Route("POST", of_graph("/mcp"), "cluster_mcp", "The tools of a graph, for agents.", "read",
          _ANSWERS, body=_MESSAGE, takes_large_body=True, tag="extension"),
    Route("POST", "/mcp", "mcp", "The tools of the server, for agents.", "graph_list",
          _ANSWERS, body=_MESSAGE, tag="extension"),
)  # fmt: skip


# The routes of the studio: the page and its files.

STUDIO: tuple[Route, ...] = (
    Route("GET", "/", "getStudio", "The studio: a page to look at graphs.", None,
          {200: Response(None, "The page.", "text/html")}, pool="none", is_open=True, tag="extension"),
    Route("GET", "/studio/{file}", "getStudioFile", "A file of the studio.", None,
          {200: Response(None, "The file, under a name that changes with its content.", "application/octet-stream")}, errors=(404,),
          pool="none", is_open=True, tag="extension"),
)  # fmt: skip


def _ndjson(description: str) -> dict[int, Response]:
    return {200: Response(None, description, NDJSON)}


_BRANCH = RequestParameter("branch", description="A branch; main when it is left out.")
_SNAPSHOT = RequestParameter("snapshot", description="A commit id.")
_IF_HEAD = RequestParameter(
    "Omnigraph-If-Graph-Commit",
    required=True,
    place="header",
    description="The commit id that the branch must be at.",
)
_PAGE = (RequestParameter("page_token"), RequestParameter("limit", COUNT))
_FILTERS = (
    RequestParameter("kind", ref("EntityKindOutput"), repeated=True),
    RequestParameter("type", repeated=True),
    RequestParameter("op", ref("ChangeOpOutput"), repeated=True),
)
_BLOB = (
    RequestParameter("entity", ref("BlobEntityKind"), required=True),
    RequestParameter("type", required=True),
    RequestParameter("id", required=True),
    RequestParameter("property", required=True),
    _BRANCH,
    _SNAPSHOT,
)
_CHANGE_BODY = Body("ChangeRequest", aliases={"query_source": "query", "query_name": "name"})
_CHANGE = json_answer("Change", "What the mutation changed, and its commit.")
_MODE = RequestParameter("mode", ref("LoadMode"), description="merge when it is left out.")
_MISSING = RequestParameter(
    "missing",
    ref("Missing"),
    description="What is done about edges that name missing nodes; refuse when it is left out.",
)
_BLOB_RESPONSES = {
    200: Response(None, "The whole value.", BYTES),
    206: Response(None, "The range that was asked for.", BYTES),
}

CONTRACT: tuple[Route, ...] = (
    Route("GET", "/healthz", "health", "Whether the process answers, and which contract it speaks.", None,
          json_answer("Health", "It answers."), pool="none", is_open=True),
    Route("GET", "/readyz", "readiness", "Whether the graphs are served.", None,
          {200: Response("Readiness", "Ready."), 503: Response("Readiness", "Not ready.")}, pool="none", is_open=True),
    Route("GET", "/livez", "liveness", "Whether the event loop runs.", None,
          {200: Response(None, "It turns.", PLAIN)}, pool="none", is_open=True, tag="extension"),
    Route("GET", "/openapi.json", "openapi", "This description.", None,
          {200: Response(None, "An OpenAPI 3.1 document.")}, pool="none", is_open=True),
    Route("GET", "/metrics", "metrics", "Counters and times for Prometheus.", "metrics_read",
          {200: Response(None, "Prometheus text.", PLAIN)}, pool="none", tag="extension"),
    Route("POST", "/-/reload", "reload", "Read configuration, policies, tokens and stored queries again.", "config_manage",
          json_answer("Reload", "What is served now."), errors=(400,), pool="bulk", tag="extension"),
    Route("POST", "/cluster/plan", "planCluster", "What a deployment of the cluster's folder would change.", "config_manage",
          json_answer("ClusterPlan", "The operations, in their order."), errors=(400, 409), pool="bulk"),
    Route("GET", "/cluster/deployments", "listDeployments", "The revisions of the cluster, newest first.", "config_manage",
          json_answer("DeploymentList", "Their numbers."), errors=(400,)),
    Route("POST", "/cluster/deployments", "deployCluster", "Apply the cluster's folder, and serve the result.", "config_manage",
          json_answer("Deployment", "What was done."), errors=(400, 409), pool="bulk"),
    Route("GET", "/cluster/deployments/{revision}", "getDeployment", "One revision of the cluster.", "config_manage",
          json_answer("DeploymentState", "Its resources."), errors=(400, 404)),
    Route("GET", "/graphs", "listGraphs", "The graphs that are served.", "graph_list",
          json_answer("GraphList", "By id."), pool="none"),
    Route("GET", of_graph("/snapshot"), "cluster_getSnapshot", "The content of a branch: its commit and its types.", "read",
          json_answer("Snapshot", "Every declared type."), errors=(400,), parameters=(_BRANCH, _SNAPSHOT)),
    Route("GET", of_graph("/schema"), "cluster_getSchema", "The text of the schema.", "read",
          json_answer("SchemaSource", "The schema."), errors=(400,), parameters=(_BRANCH, _SNAPSHOT)),
    Route("POST", of_graph("/schema/apply"), "cluster_applySchema", "Change main to another schema.", "schema_apply",
          json_answer("SchemaApply", "The steps that were made."), body=Body("SchemaApplyRequest"), pool="bulk", is_write=True, remembers_answers=True),
    Route("POST", of_graph("/query"), "cluster_query", "Run a read.", "read",
          json_answer("Read", "Its rows."), body=Body("QueryRequest")),
    Route("POST", of_graph("/read"), "cluster_read", "Run a read.", "read",
          json_answer("Read", "Its rows."), body=Body("ReadRequest"), successor="/query"),
    Route("POST", of_graph("/mutate"), "cluster_mutate", "Run a mutation as one commit.", "change",
          _CHANGE, body=_CHANGE_BODY, pool="write", is_write=True),
    Route("POST", of_graph("/mutate/if-graph-commit"), "cluster_mutate_if_graph_commit",
          "Run a mutation if the branch is at a commit.", "change",
          _CHANGE, body=_CHANGE_BODY, parameters=(_IF_HEAD,), pool="write", is_write=True, needs_head=True),
    Route("POST", of_graph("/change"), "cluster_change", "Run a mutation as one commit.", "change",
          _CHANGE, body=_CHANGE_BODY, pool="write", is_write=True, successor="/mutate"),
    Route("GET", of_graph("/queries"), "cluster_list_queries", "The stored queries.", "read",
          json_answer("QueryList", "By name.")),
    Route("POST", of_graph("/queries/{name}"), "cluster_invoke_query", "Run a stored query.", "invoke_query",
          json_answer("ReadOrChange", "As /query or as /mutate answers."), errors=(409, 412, 422, 429),
          body=Body("InvokeQueryRequest", is_required=False)),
    Route("POST", of_graph("/queries/{name}/if-graph-commit"), "cluster_invoke_query_if_graph_commit",
          "Run a stored mutation if the branch is at a commit.", "invoke_query", _CHANGE,
          errors=(409, 412, 422, 429), body=Body("InvokeQueryRequest", is_required=False), parameters=(_IF_HEAD,),
          pool="write", needs_head=True),
    Route("POST", of_graph("/load"), "cluster_load", "Load records as one commit.", "change",
          json_answer("Ingest", "What was loaded."), body=Body("LoadRequest"), pool="bulk", is_write=True, takes_large_body=True),
    Route("POST", of_graph("/load/ndjson"), "cluster_loadNdjson", "Load a stream of records as one commit.", "change",
          json_answer("Load", "What was loaded."), body=Body(None, media_type=NDJSON),
          parameters=(_BRANCH, RequestParameter("from"), _MODE, _MISSING), pool="bulk", is_write=True, takes_large_body=True,
          is_streamed_in=True),
    Route("POST", of_graph("/ingest"), "cluster_ingest", "Load records as one commit.", "change",
          json_answer("Ingest", "What was loaded."), body=Body("LoadRequest"), pool="bulk", is_write=True,
          takes_large_body=True, successor="/load"),
    Route("POST", of_graph("/export"), "cluster_export", "The entities of a branch.", "export",
          _ndjson("Nodes, then edges, a record a line."), body=Body("ExportRequest", is_required=False)),
    Route("GET", of_graph("/blob"), "cluster_getBlob", "The bytes of a Blob property.", "read",
          _BLOB_RESPONSES, errors=(302, 304, 412, 416), parameters=_BLOB),
    Route("HEAD", of_graph("/blob"), "cluster_headBlob", "The size and tag of a Blob property.", "read",
          {200: Response(None, "Its headers.", BYTES)}, errors=(302, 304, 412), parameters=_BLOB),
    Route("GET", of_graph("/branches"), "cluster_listBranches", "The branches.", "read",
          json_answer("BranchList", "By name; with `detail`, the head of each and how far it is from main."),
          parameters=(RequestParameter("detail", FLAG),)),
    Route("POST", of_graph("/branches"), "cluster_createBranch", "Create a branch.", "branch_create",
          json_answer("BranchCreate", "It is there."), body=Body("BranchCreateRequest"), pool="write", is_write=True, remembers_answers=True,
          branch_from="name", branch_names=("name", "from")),
    Route("DELETE", of_graph("/branches/{branch}"), "cluster_deleteBranch", "Delete a branch.", "branch_delete",
          json_answer("BranchDelete", "It is gone."), pool="write", is_write=True,
          parameters=(RequestParameter("force", FLAG, description="false refuses a branch with commits that nothing else reaches."),), remembers_answers=True),
    Route("POST", of_graph("/branches/merge"), "cluster_mergeBranches", "Merge a branch into another.",
          "branch_merge", json_answer("MergeOrReview", "What came of it, or would come of it."), body=Body("BranchMergeRequest"), pool="bulk",
          is_write=True, remembers_answers=True, branch_from="target"),
    Route("GET", of_graph("/commits"), "cluster_listCommits", "The commits of a branch, newest first.", "read",
          json_answer("CommitList", "A page of them."), errors=(400,),
          parameters=(_BRANCH, RequestParameter("limit", COUNT), RequestParameter("before"), RequestParameter("page_token"),
                      RequestParameter("actor"), RequestParameter("kind"), RequestParameter("since"), RequestParameter("until"))),
    Route("GET", of_graph("/commits/{commit_id}"), "cluster_getCommit", "One commit.", "read",
          json_answer("Commit", "As the receipt of its write showed it.")),
    Route("GET", of_graph("/commits/{commit_id}/changes"), "cluster_getCommitChanges", "What a commit changed.", "read",
          json_answer("CommitChanges", "A page of changes."), errors=(409, 410, 413),
          parameters=(*_PAGE, *_FILTERS), refuses_unknown_parameters=True),
    Route("GET", of_graph("/changes"), "cluster_pollChanges", "What the commits of a branch changed, in order.", "read",
          json_answer("ChangeFeed", "A page of changes."), errors=(409, 410, 413),
          parameters=(_BRANCH, RequestParameter("cursor"), RequestParameter("start"), *_PAGE, *_FILTERS,
                      RequestParameter("wait", COUNT, description="Seconds to wait for a change when there is none, up to 60.")),
          refuses_unknown_parameters=True),
    Route("POST", of_graph("/changes/baseline"), "cluster_captureChangeBaseline",
          "A whole snapshot, and the cursor from which changes continue.", "export",
          _ndjson("As an export, then one line with the baseline."), body=Body("BaselineRequest", is_required=False)),
)  # fmt: skip

ROUTES: tuple[Route, ...] = (*CONTRACT, *EXTENSIONS, *MCP, *STUDIO)
"""All of them."""
