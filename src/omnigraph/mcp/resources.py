"""Resources that an agent can read without a tool: the schema, the branches, the stored queries, and pages of the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

JSON = "application/json"
MARKDOWN = "text/markdown"
PAGES = ("queries", "schema", "loading", "branches")
"""Pages of the documentation that are part of the package."""
PAGES_URI = "omnigraph://best-practices/"


@dataclass(frozen=True)
class Resource:
    """A resource of the graph: the answer of an operation, or one text in it."""

    uri: str
    operation: str
    description: str
    mime_type: str = JSON
    member: str | None = None
    """The member of the answer that is returned as plain text."""

    @property
    def name(self) -> str:
        return self.uri.removeprefix("omnigraph://")


RESOURCES = (
    Resource("omnigraph://schema", "cluster_getSchema", "The schema of main.", "text/plain", "schema_source"),
    Resource("omnigraph://catalog", "getCatalog", "Types, properties and rules of main, as JSON."),
    Resource("omnigraph://branches", "cluster_listBranches", "The branches."),
    Resource("omnigraph://graphs", "listGraphs", "The graphs of the server."),
    Resource("omnigraph://queries", "cluster_list_queries", "The stored queries that you may run."),
)


def page_index() -> str:
    lines = ["# Best practices", "", *(f"- [{page}]({PAGES_URI}{page}): {_title(page)}" for page in PAGES)]
    return "\n".join(lines) + "\n"


def page_text(page: str) -> str:
    """A page of the documentation; KeyError if there is none."""
    if page == "index":
        return page_index()
    if page not in PAGES:
        raise KeyError(page)
    return files("omnigraph.mcp").joinpath("pages", f"{page}.md").read_text(encoding="utf-8")


def _title(page: str) -> str:
    return page_text(page).partition("\n")[0].lstrip("# ")
