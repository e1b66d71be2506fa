"""The routes of the studio: the page and its files."""

from __future__ import annotations

from omnigraph.server.route import Response, Route

STUDIO: tuple[Route, ...] = (
    Route("GET", "/", "getStudio", "The studio: a page to look at graphs.", None,
          {200: Response(None, "The page.", "text/html")}, pool="none", is_open=True, tag="ours"),
    Route("GET", "/studio/{file}", "getStudioFile", "A file of the studio.", None,
          {200: Response(None, "The file, under a name that changes with its content.", "application/octet-stream")}, errors=(404,),
          pool="none", is_open=True, tag="ours"),
)  # fmt: skip
