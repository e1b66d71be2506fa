"""The tools in one table: their names, the operations that they call, and their descriptions for agents.

Arguments, their schemas and the schema of the answer are those of the operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Hint = Literal["reads", "writes", "destroys", "destroys once"]
"""What a call does: changes nothing; adds; may overwrite or remove; the same, but idempotent."""
Scope = Literal["server", "graph"]


@dataclass(frozen=True)
class ToolFacts:
    name: str
    operation: str
    """The operationId of its route."""
    description: str
    hint: Hint = "reads"
    scope: Scope = "graph"
    arguments: tuple[str, ...] = ()
    """The arguments of the operation that it offers."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Arguments that have another name in the operation."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that are always passed to the operation."""
    rows: str | None = None
    """The list in the answer that is shortened to `limit`."""
    is_paged: bool = False
    """Whether the operation itself applies `limit`, and returns a token for the next page."""
    is_text: bool = False
    """Whether the answer is one text, which is returned unchanged."""
    if_commit: str | None = None
    """The operation to call if `if_graph_commit` is given."""
    takes_text: bool = False
    """Whether it takes the text of a query, which a server may disallow."""


_FILTERS = ("kind", "type", "op", "page_token")

TOOLS: tuple[ToolFacts, ...] = (
    ToolFacts("health", "health", "Whether the server answers, and its version.", scope="server"),
    ToolFacts("graphs_list", "listGraphs", "The graphs of the server.", scope="server", rows="graphs"),
    ToolFacts(
        "snapshot",
        "cluster_getSnapshot",
        "What a branch holds: its commit, and the number of entities of each type.",
        arguments=("branch",),
    ),
    ToolFacts(
        "query",
        "cluster_query",
        "Run a read query (.gq text) against a branch or a commit. Give values as params, never by building text; a ranking "
        "needs a limit in the query.",
        arguments=("query", "name", "params", "branch", "snapshot"),
        rows="rows",
        takes_text=True,
    ),
    ToolFacts("schema_get", "cluster_getSchema", "The schema (.pg text). Read it before you write a query.",
              arguments=("branch", "snapshot"), is_text=True),
    ToolFacts("branches_list", "cluster_listBranches", "The names of the branches.", rows="branches"),
    ToolFacts("commits_list", "cluster_listCommits", "The commits of a branch, newest first.",
              arguments=("branch", "page_token"), rows="commits", is_paged=True),
    ToolFacts("commits_get", "cluster_getCommit", "One commit: who, when, what kind, its parents.",
              arguments=("commit_id",)),
    ToolFacts(
        "commits_changes",
        "cluster_getCommitChanges",
        "What a commit changed, entity by entity, with the values before and after; a page at a time.",
        arguments=("commit_id", *_FILTERS),
        rows="changes",
        is_paged=True,
    ),
    ToolFacts(
        "changes_poll",
        "cluster_pollChanges",
        "What the commits of a branch changed, in order: after a cursor, or from a start (now, beginning, after:COMMIT). Keep "
        "the cursor of the last page for the next call.",
        arguments=("branch", "cursor", "start", *_FILTERS),
        rows="blocks",
        is_paged=True,
    ),
    ToolFacts(
        "mutate",
        "cluster_mutate",
        "Run a mutation (.gq text) as one commit, or nothing. No commit in the answer: nothing changed. With if_graph_commit it "
        "is done only if the branch is at that commit.",
        hint="destroys",
        arguments=("query", "name", "params", "branch", "message"),
        if_commit="cluster_mutate_if_graph_commit",
        takes_text=True,
    ),
    ToolFacts(
        "load",
        "cluster_load",
        'Load records as one commit, or nothing: JSON lines such as {"type":"Person","data":{...}} and '
        '{"edge":"Knows","from":"a","to":"b","data":{...}}. With from, a branch that is not there is made.',
        hint="destroys",
        arguments=("branch", "from", "mode", "data", "message"),
    ),
    ToolFacts("branches_create", "cluster_createBranch", "Make a branch at the head of another one (main).",
              hint="writes", arguments=("name", "from")),
    ToolFacts("branches_delete", "cluster_deleteBranch", "Delete a branch.", hint="destroys once",
              arguments=("name",), renamed={"name": "branch"}),
    ToolFacts(
        "branches_merge",
        "cluster_mergeBranches",
        "Bring a branch's changes into another one (main) as one commit, or say what contradicts.",
        hint="destroys once",
        arguments=("source", "target", "message"),
    ),
    ToolFacts(
        "merge_preview",
        "cluster_mergeBranches",
        "What branches_merge would do: its outcome, what it would change, and every conflict. Nothing is changed.",
        arguments=("source", "target"),
        fixed={"dry_run": True},
        rows="conflicts",
    ),
    ToolFacts("diff", "getDiff", "What changed from one revision (branch, tag, commit, branch~N) to another; with summary, the numbers only.",
              arguments=("from", "to", "kind", "type", "op", "summary", "page_token"), rows="changes", is_paged=True),
    ToolFacts("entity_get", "getEntity", "One node or edge by its type and id.", arguments=("type", "id", "rev")),
    ToolFacts("entity_history", "getEntityHistory", "The versions of one entity, newest first, each with its commit.",
              arguments=("type", "id", "branch", "page_token"), rows="versions", is_paged=True),
    ToolFacts("neighbours", "getNeighbours", "The edges of one node and the nodes at their other ends; all of them are counted.",
              arguments=("type", "id", "rev", "edge", "direction", "page_token"), rows="edges", is_paged=True),
    ToolFacts("explain", "explainQuery", "How a read query would run, without running it.",
              arguments=("query", "name", "params", "branch"), takes_text=True),
    ToolFacts("lint", "lintText", "Mistakes in queries (.gq) or in a schema (.pg), and advice, with their places.",
              arguments=("query", "schema"), rows="diagnostics", takes_text=True),
    ToolFacts("tags_list", "listTags", "The tags and their commits.", rows="tags"),
    ToolFacts("tags_create", "createTag", "Name the commit of a revision, which keeps it.", hint="writes", arguments=("name", "at")),
)  # fmt: skip
"""Names follow those of other MCP servers for databases, where there are any."""

MAX_ROWS = 200
"""How many rows, commits or changes an answer has at most, unless `limit` is given."""
