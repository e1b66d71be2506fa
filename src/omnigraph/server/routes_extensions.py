"""Routes that the contract does not have: the second part of the table."""

from __future__ import annotations

from omnigraph.api.structs import COUNT, FLAG, enum, ref
from omnigraph.server.route import EVENTS, NDJSON, Body, RequestParameter, Response, Route, json_answer, of_graph

ARROW = "application/vnd.apache.arrow.stream"

_REVISION = RequestParameter("rev", description="A branch, a tag, a commit id or branch~N; main when it is left out.")
_AT = RequestParameter("at", description="A time: the branch as it was then.")
_STATE = (_REVISION, _AT)
_PAGE = (
    RequestParameter("limit", COUNT),
    RequestParameter("page_token", description="The page after that one, of the same commits."),
)
_TYPE = RequestParameter("type", required=True, description="A type's name; node:Name or edge:Name where both have it.")
_ID = RequestParameter("id", required=True)
_BRANCH = RequestParameter("branch", description="A branch; main when it is left out.")
_FILTERS = (
    RequestParameter("kind", ref("EntityKindOutput"), repeated=True),
    RequestParameter("type", repeated=True),
    RequestParameter("op", ref("ChangeOpOutput"), repeated=True),
)

_READS: tuple[Route, ...] = (
    Route("GET", of_graph("/catalog"), "getCatalog", "The typed schema, with the number of entities of each type.", "read",
          json_answer("Catalog", "Types, interfaces, properties and rules."), parameters=_STATE, branch_from="rev", tag="extension"),
    Route("GET", of_graph("/entities/{type}"), "listEntities", "One type as a table.", "read",
          json_answer("EntityPage", "A page of its entities."), errors=(413,),
          parameters=(*_STATE, *_PAGE,
                      RequestParameter("order", description="A property, or property:desc."),
                      RequestParameter("filter", repeated=True, description="property.op:value; op is eq, ne, lt, le, gt, ge, "
                                "contains, prefix, in, isnull or notnull.")),
          branch_from="rev", tag="extension"),
    Route("GET", of_graph("/entity"), "getEntity", "One entity.", "read",
          json_answer("EntityState", "Its properties; of Blobs, their sizes."), parameters=(_TYPE, _ID, *_STATE),
          branch_from="rev", tag="extension"),
    Route("GET", of_graph("/entity/history"), "getEntityHistory", "The versions of one entity, newest first.", "read",
          json_answer("EntityVersions", "What each commit made of it."), errors=(413,),
          parameters=(_TYPE, _ID, _BRANCH, *_PAGE), tag="extension"),
    Route("GET", of_graph("/entity/neighbours"), "getNeighbours", "The edges of one node, and the nodes they lead to.", "read",
          json_answer("Neighbours", "Counts are complete; edges come in pages."), errors=(413,),
          parameters=(_TYPE, _ID, *_STATE, *_PAGE, RequestParameter("edge", repeated=True),
                      RequestParameter("direction", enum("out", "in", "both"))), branch_from="rev", tag="extension"),
    Route("GET", of_graph("/diff"), "getDiff", "What changed from one revision to another.", "read",
          json_answer("Diff", "A page of changes, or their numbers."), errors=(413,),
          parameters=(RequestParameter("from", required=True), RequestParameter("to", required=True), *_FILTERS, *_PAGE,
                      RequestParameter("summary", FLAG)), branch_from="from", branch_names=(), tag="extension"),
    Route("GET", of_graph("/schema/diff"), "getSchemaDiff", "The steps from the schema of one revision to that of another.", "read",
          json_answer("SchemaDiff", "The steps, with the codes of those that a schema change would refuse."), errors=(400,),
          parameters=(RequestParameter("from", required=True), RequestParameter("to", required=True)), branch_from="from",
          branch_names=(), tag="extension"),
    Route("GET", of_graph("/log"), "getLog", "The commits of several branches in one order, newest first.", "read",
          json_answer("Log", "A page of them, with the branches and tags at each."), errors=(413,),
          parameters=(RequestParameter("ref", repeated=True, description="Revisions; every branch when none is given."), _AT, *_PAGE),
          branch_from="", tag="extension"),
    Route("GET", of_graph("/tags"), "listTags", "The tags.", "read", json_answer("TagList", "By name."), tag="extension"),
    Route("POST", of_graph("/tags"), "createTag", "Name a commit.", "tag_create",
          json_answer("Tag", "It is there."), errors=(409,), body=Body("TagCreateRequest"), pool="write",
          branch_names=("name", "at"), branch_from="at", tag="extension"),
    Route("DELETE", of_graph("/tags/{tag}"), "deleteTag", "Remove a tag; its commit stays.", "tag_delete",
          json_answer("TagDelete", "It is gone."), errors=(400,), pool="write", branch_from="tag", branch_names=("tag",), tag="extension"),
)  # fmt: skip

_LANGUAGE: tuple[Route, ...] = (
    Route("GET", "/language", "getLanguage", "The vocabulary of both languages, for editors.", None,
          json_answer("Language", "Keywords, functions, forms and types."), pool="none", is_open=True, tag="extension"),
    Route("POST", of_graph("/explain"), "explainQuery", "How a read would run.", "read",
          json_answer("Explanation", "Its inputs, how they are reached, and its SQL."), body=Body("ExplainRequest"), tag="extension"),
    Route("POST", of_graph("/lint"), "lintText", "Errors and advice for queries or a schema.", "read",
          json_answer("Diagnostics", "With their places."), body=Body("LintRequest"), tag="extension"),
    Route("POST", of_graph("/format"), "formatQueries", "Queries as the language prints them.", "read",
          json_answer("Formatted", "The text."), body=Body("FormatRequest"), tag="extension"),
    Route("POST", of_graph("/complete"), "completeQuery", "What is allowed at a position in a query.", "read",
          json_answer("Completions", "Words, with what they are."), body=Body("CompleteRequest"), tag="extension"),
)  # fmt: skip

_MAINTENANCE: tuple[Route, ...] = (
    Route("GET", of_graph("/storage"), "getStorage", "The space that each type uses, and how much cleanup could reclaim.", "read",
          json_answer("Storage", "By type, branch and tag."), parameters=(_BRANCH,), tag="extension"),
    Route("POST", of_graph("/maintenance/optimize"), "optimizeGraph", "Compact tables and bring indexes up to date.", "admin",
          json_answer("Optimized", "What was done."), errors=(409,), body=Body("OptimizeRequest", is_required=False), pool="bulk", tag="extension"),
    Route("POST", of_graph("/maintenance/cleanup"), "cleanUpGraph", "Remove commits and files that nothing keeps.", "admin",
          json_answer("Cleaned", "What was removed; without `confirm`, what would be."), errors=(409,),
          body=Body("CleanupRequest", is_required=False), pool="bulk", tag="extension"),
    Route("GET", of_graph("/maintenance/recovery"), "listPrepared", "Writes that were prepared but not published.", "admin",
          json_answer("PreparedList", "Oldest first."), tag="extension"),
    Route("POST", of_graph("/maintenance/recovery/{commit_id}/resume"), "resumePrepared", "Publish a prepared write.", "admin",
          json_answer("Resumed", "Its commit."), errors=(400, 409), pool="bulk", tag="extension"),
    Route("POST", of_graph("/maintenance/recovery/{commit_id}/discard"), "discardPrepared", "Forget a prepared write.", "admin",
          json_answer("Discarded", "It is gone."), errors=(400, 409), pool="bulk", tag="extension"),
    Route("GET", of_graph("/policy/me"), "getRights", "What the caller may do.", "read",
          json_answer("Rights", "By action: on all branches, on none, on protected ones, on others."), pool="none", tag="extension"),
)  # fmt: skip

_STREAMS: tuple[Route, ...] = (
    Route("GET", of_graph("/changes/stream"), "streamChanges", "Changes as they happen, as server-sent events.", "read",
          {200: Response(None, "block, caught_up, gap; an id is the cursor after it.", EVENTS)}, errors=(409, 410),
          parameters=(_BRANCH, RequestParameter("cursor"), RequestParameter("start"), *_FILTERS,
                      RequestParameter("Last-Event-ID", place="header", description="The cursor to go on from.")),
          refuses_unknown_parameters=True, tag="extension"),
    Route("POST", of_graph("/tickets"), "createTicket", "A link that works once, for a minute, without a token.", "read",
          json_answer("Ticket", "To be added to the path as ?ticket=..."), errors=(429,), body=Body("TicketRequest"),
          pool="none", tag="extension"),
)  # fmt: skip

_MISSING = RequestParameter("missing", ref("Missing"))
_LOAD_OPTIONS = (
    _BRANCH, RequestParameter("from"), RequestParameter("mode", ref("LoadMode")), RequestParameter("type"),
    RequestParameter("format", enum("jsonl", "csv", "parquet")), RequestParameter("keep_rejects", FLAG),
    _MISSING,
)  # fmt: skip
_STARTED = {202: Response("JobStarted", "The job was started.")}

_JOBS: tuple[Route, ...] = (
    Route("POST", of_graph("/jobs/load"), "startLoad", "Load files that the server can reach, as a job.", "change",
          _STARTED, errors=(429,), body=Body("JobLoadRequest"), pool="write", tag="extension"),
    Route("POST", of_graph("/jobs/load/upload"), "startUpload", "Load the files of a form, as a job.", "change",
          _STARTED, errors=(429,), body=Body(None, media_type="multipart/form-data"), parameters=_LOAD_OPTIONS, pool="write",
          takes_large_body=True, is_streamed_in=True, tag="extension"),
    Route("POST", of_graph("/load/arrow"), "loadArrow", "Load an Arrow stream of one type as one commit.", "change",
          json_answer("Load", "What was loaded."), body=Body(None, media_type=ARROW),
          parameters=(_TYPE, _BRANCH, RequestParameter("from"), RequestParameter("mode", ref("LoadMode")), _MISSING), pool="bulk", is_write=True,
          takes_large_body=True, is_streamed_in=True, tag="extension"),
    Route("POST", of_graph("/load/files"), "loadFiles", "Load the files of a form as one commit.", "change",
          json_answer("Load", "What was loaded."), body=Body(None, media_type="multipart/form-data"),
          parameters=(_BRANCH, RequestParameter("from"), RequestParameter("mode", ref("LoadMode")), RequestParameter("type"),
                      RequestParameter("format", enum("jsonl", "csv", "parquet")), _MISSING,
                      RequestParameter("encoding", description="Of JSON lines and CSV; UTF-8 when it is left out."),
                      RequestParameter("delimiter", description="Of CSV; a comma when it is left out.")),
          pool="bulk", is_write=True, takes_large_body=True, is_streamed_in=True, tag="extension"),
    Route("GET", of_graph("/jobs"), "listJobs", "The caller's jobs in this process, newest first.", "read",
          json_answer("JobList", "For callers who may see them, also loads that were prepared but not published."), tag="extension"),
    Route("GET", of_graph("/jobs/{job_id}"), "getJob", "The progress of a job.", "read", json_answer("Job", "Its state."),
          pool="none", tag="extension"),
    Route("DELETE", of_graph("/jobs/{job_id}"), "cancelJob", "Cancel a job; what it has published stays.", "read",
          json_answer("Job", "Its state."), pool="none", tag="extension"),
    Route("GET", of_graph("/jobs/{job_id}/events"), "followJob", "The progress of a job, as server-sent events.", "read",
          {200: Response(None, "state, until it has ended.", EVENTS)}, pool="none", tag="extension"),
    Route("GET", of_graph("/jobs/{job_id}/rejects"), "getRejects", "The records that a load set aside.", "read",
          {200: Response(None, "A record a line, with the reason.", NDJSON)}, tag="extension"),
)  # fmt: skip

EXTENSIONS: tuple[Route, ...] = (*_READS, *_LANGUAGE, *_STREAMS, *_JOBS, *_MAINTENANCE)
